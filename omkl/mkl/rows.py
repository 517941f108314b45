"""Checks and scores of rows with one output each."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d

from omkl._threads import in_threads
from omkl.data import Block, Stream, frames
from omkl.data.blocks import align_columns, is_frame, n_rows
from omkl.data.frames import text_of
from omkl.data.table_columns import TEXT, Column, read_columns, rows_of_columns, warn_of_unknown
from omkl.estimators import validation
from omkl.estimators.batch import is_a_classifier
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.estimators.targets import checked_classes, finite_targets, has_columns
from omkl.exceptions import InputError
from omkl.features.views import FlatTokens, TokenData
from omkl.features.vocabulary import NUMBERS
from omkl.online.averaging import Predictor

#: Accepted rows.
RowsLike: TypeAlias = (
    ArrayLike | sparse.sparray | sparse.spmatrix | Mapping[str, Any] | Stream | Block | Iterable
)
#: Number of rows that each thread encodes and scores at a time.
AT_A_TIME = 4096


def read_rows(
    estimator: Any, block: TrainingBlock, first: bool, whole: bool = False, known: bool = False
) -> TokenData:
    """Check rows and their outputs; each row is a sequence of one token.

    Parameters
    ----------
    estimator : OnlineMKLClassifier or OnlineMKLRegressor
        It stores the column names of the first rows, and compares the names of later rows.
    block : TrainingBlock
    first : bool
        Whether a model starts with these rows.
    whole : bool
        Whether these are all rows of a ``fit``. Then drop rows of weight 0. If the rows will be
        shuffled, first sort them by content, so that the model does not depend on the order of the
        rows.
    known : bool
        Whether the rows are for evaluation, without class weights.
    """
    if block.y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; a stream has pairs (x, y)."
        )
    X, y = checked_rows(estimator, block.X, first, block.y, whole=whole)
    classifies, names = is_a_classifier(estimator), validation.column_names_of(estimator)
    y = checked_classes(y, first) if classifies else finite_targets(y)
    weights = validation.check_sample_weight(block.sample_weight, len(y))
    offsets = np.arange(len(y) + 1)
    if classifies and not known:
        weights = validation.class_weights(
            estimator.class_weight, y.tolist(), offsets, weights, whole
        )
    if not whole:
        return TokenData(X, offsets, y.tolist(), weights, names=names)
    distinct = None
    if weights is not None:
        rows = np.flatnonzero(weights > 0)
        X, y, weights = (
            [X[i] for i in rows] if isinstance(X, list) else X[rows],
            y[rows],
            weights[rows],
        )
    if estimator.shuffle and not isinstance(X, list):
        # shuffling sorted examples makes the model independent of their order, and a repeated row
        # equal to a weight ranks of numbers, which do not depend on units
        ranks = (
            X
            if sparse.issparse(X)
            else np.stack([np.unique(x, return_inverse=True)[1] for x in X.T], axis=1)
        )
        digests = validation.row_digests(ranks, np.arange(len(y)))
        order = np.lexsort((np.unique(y, return_inverse=True)[1], digests))
        ordered = digests[order]
        distinct = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        X, y, weights = X[order], y[order], None if weights is None else weights[order]
    return TokenData(X, np.arange(len(y) + 1), y.tolist(), weights, distinct, names, len(y))


def row_potentials(estimator: Any, X: RowsLike) -> np.ndarray:
    """Return the potentials (n, K) of rows in the averaged model of an online estimator."""
    model = estimator.model_
    stream = as_stream(X)
    if stream is not None:
        return np.concatenate([row_potentials(estimator, block) for block in stream.blocks()])
    rows = checked_rows(estimator, X, reset=False)
    if is_frame(X) and isinstance(rows, list):
        _warn_of_unknown(estimator, rows)
    model.codec.warn_of_absent_keys(rows, model.predictor)
    n = n_rows(rows)

    def scored(part: FlatTokens) -> np.ndarray:
        encoded = model.codec.encoder.encode(part, np.arange(n_rows(part) + 1))
        found = [potentials.unary for _, potentials in model.blocks(encoded)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    if n <= AT_A_TIME:
        return scored(rows)
    model.predictor()  # create it once for all threads
    parts = (rows[low : low + AT_A_TIME] for low in range(0, n, AT_A_TIME))
    return np.concatenate(in_threads(scored, parts, estimator.n_jobs))


def _warn_of_unknown(estimator: Any, rows: list[dict]) -> None:
    """Warn of categories that the model does not know, once for each column."""
    vocabulary = estimator.model_.codec.encoder.vocabulary
    for key in _text_keys(estimator.model_):
        present = {row[key] for row in rows if key in row}
        if unknown := sorted(present - vocabulary.ids[key].keys()):
            warn_of_unknown(key, unknown)


def score_rows(
    estimator: Any, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Return the accuracy of a classifier, in [0, 1], or R^2 of a regressor, the coefficient of
    determination.

    Of a stream only targets and predictions are kept in memory.

    Parameters
    ----------
    X, y, sample_weight
        As for :meth:`fit`.
    """
    from sklearn.metrics import accuracy_score, r2_score

    found = []
    for block in blocks_of(X, y, sample_weight):
        if block.y is None:
            raise InputError("score needs the targets y of the rows.")
        found.append((np.asarray(frames.plain_targets(block.y)), estimator.predict(block.X)))
    gold, predicted = (np.concatenate(parts) for parts in zip(*found))
    metric = accuracy_score if is_a_classifier(estimator) else r2_score
    return float(metric(gold, predicted, sample_weight=sample_weight))


def held_out_r2(predictor: Predictor, examples: Sequence) -> float:
    """Return R^2 of a frozen model on held-out examples."""
    from sklearn.metrics import r2_score

    gold = [y for _, y, _ in examples]
    return r2_score(
        gold, [predictor.structure.decode(predictor.potentials(x)) for x, _, _ in examples]
    )


def checked_rows(estimator: Any, X: object, reset: bool, *y: ArrayLike, whole: bool = False) -> Any:
    """Check rows: a list of dicts, or an array, sparse matrix or data frame as scikit-learn checks
    it.

    ``reset`` stores the names and kinds of columns instead of comparing them; ``whole`` says that
    these are all training rows. Return X, or X and ``y`` if given.
    """
    for targets in y:
        _check_single_output(estimator, targets)
    names = None
    if isinstance(X, Block):
        # reorder the columns of a block by name to match the model
        known = None if reset else validation.column_names_of(estimator)
        X, names = X.aligned(known, "A block of the stream").X, X.feature_names
    if reset and isinstance(X, list):
        validation.forget_columns(estimator)
    columns = None
    if is_frame(X):
        X, columns = _rows_of_frame(X, estimator, reset, whole)
    else:
        X = frames.times_as_days(X)
    if isinstance(X, list) and X and isinstance(X[0], dict):
        y = tuple(map(_targets_of_dicts, y))
        if any(
            n_rows(column) != len(X) for column in y
        ):  # scikit-learn's check takes as long as a dict
            check_consistent_length(X, *y)
        if names is not None and reset:
            estimator.column_kinds_ = _kinds_of_rows(X, names)
        elif names is not None:
            X = _with_text(X, _text_columns(estimator, names))
        checked = (X, *y) if y else X
    elif (
        not reset
        and frames.are_known_columns(X, estimator.__dict__)
        and all(frames.is_column(column, len(X)) for column in y)
    ):
        X = np.ascontiguousarray(X, dtype=np.float64)
        checked = (X, *y) if y else X
    else:
        checks: dict[str, Any] = {
            "accept_sparse": "csr",
            "dtype": np.float64,
            "order": "C",
            "reset": reset,
        }
        if estimator.missing == "indicator" and not sparse.issparse(X):
            checks["ensure_all_finite"] = "allow-nan"
        if y:
            checks["y_numeric"] = isinstance(estimator, RegressorMixin)
        with warnings.catch_warnings():
            if names is not None:  # names are already compared
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            checked = validation.checked_arrays(
                estimator, X, *y, names=names, columns=columns, **checks
            )
    if reset and names is not None:
        validation.keep_columns(estimator, names)
    return checked


def _check_single_output(estimator: Any, y: Any) -> None:
    """Raise InputError if there are several targets in each row."""
    if has_columns(y):
        batch = "MKLClassifier" if is_a_classifier(estimator) else "MKLRegressor"
        raise InputError(
            f"{type(estimator).__name__} learns one output, got y of shape {np.shape(y)}: {batch} learns several."
        )


def _targets_of_dicts(y: object) -> np.ndarray:
    """Return the targets of dicts as an array."""
    y = frames.plain_targets(y)
    if (
        type(y) is list
        and len(kinds := set(map(type, y))) == 1
        and kinds <= {bool, int, float, str}
    ):
        return np.asarray(y)
    return y if type(y) is np.ndarray and y.ndim == 1 else column_or_1d(y, warn=True)


def _rows_of_frame(
    X: Any, estimator: BaseEstimator, reset: bool, whole: bool
) -> tuple[Any, list[Column] | None]:
    """Convert a data frame with text to a list of dicts, and store (``reset``) or compare its
    names.

    Return a frame of numbers unchanged, since scikit-learn stores and compares its names, and its
    columns.
    """
    learned_dicts = not reset and "n_features_in_" not in estimator.__dict__
    if not reset and not learned_dicts:
        return X, None
    names = frames.column_names(X)
    if learned_dicts:
        align_columns(X, names, validation.column_names_of(estimator), "The data frame")
        columns = read_columns(X, _kinds_by_name(estimator, list(X.columns)))
        return rows_of_columns(columns, as_dicts=True), None
    validation.forget_columns(estimator)
    columns = validation.read_frame_columns(estimator, X, reset, whole)
    if not any(column.is_text for column in columns):
        return X, columns
    validation.keep_columns(estimator, names)
    return rows_of_columns(columns), None


def _kinds_by_name(estimator: Any, names: Sequence) -> list[str | None]:
    """Return the kinds of columns in training; of rows that were dicts, only text is known."""
    if "column_kinds_" in estimator.__dict__:
        names_in_training = validation.column_names_of(estimator) or names
        kinds = dict(zip(names_in_training, estimator.column_kinds_))
    elif estimator.__sklearn_is_fitted__():
        kinds = dict.fromkeys(_text_keys(estimator.model_), TEXT)
    else:
        kinds = {}
    return [kinds.get(name) for name in names]


def _kinds_of_rows(rows: list[dict], names: Sequence[str]) -> list[str | None]:
    """Return the kinds of the columns of a table as dicts: text, or None for all others."""
    kinds: list[str | None] = []
    for name in names:
        first = next((row[name] for row in rows if row.get(name) is not None), None)
        kinds.append(TEXT if isinstance(first, str) else None)
    return kinds


def _text_columns(estimator: Any, names: Sequence[str]) -> list[str]:
    """Return the names of the columns that held text in training."""
    kinds = _kinds_by_name(estimator, names)
    return [name for name, kind in zip(names, kinds) if kind == TEXT]


def _text_keys(model: Any) -> list[str]:
    """Return the keys of dicts that held only text in training."""
    vocabulary = model.codec.encoder.vocabulary
    return [] if vocabulary is None else [key for key in vocabulary.keys if vocabulary.is_text(key)]


def _with_text(rows: list[dict], keys: Sequence[str]) -> list[dict]:
    """Return rows of a table whose numbers are categories in columns that held text."""
    if not keys:
        return rows
    rows = list(rows)
    for i, row in enumerate(rows):
        numbers = [key for key in keys if isinstance(row.get(key), NUMBERS)]
        if numbers:
            rows[i] = row | {key: text_of(row[key]) for key in numbers}
    return rows
