"""Checks and scores of rows with one output each."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d

from omkl._threads import in_threads
from omkl.data import Block, Stream, frames
from omkl.data.blocks import n_rows, take_rows
from omkl.data.table_columns import TEXT, warn_of_unknown
from omkl.data.table_reading import Table, TrainingColumns, is_list_of_dicts, read_table
from omkl.estimators import validation
from omkl.estimators.batch import is_a_classifier
from omkl.estimators.options import Passes
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.estimators.targets import checked_classes, finite_targets, has_columns
from omkl.exceptions import InputError
from omkl.features.views import FlatTokens, TokenData
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel

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
        It stores the columns of the first rows; later rows are compared with them.
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
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; "
            "a stream has pairs (x, y)."
        )
    X, y = checked_rows(estimator, block.X, first, block.y, whole=whole)
    classifies = is_a_classifier(estimator)
    names = validation.column_names_of(estimator)
    if classifies:
        y = checked_classes(y, first)
    else:
        y = finite_targets(y)
    weights = validation.check_sample_weight(block.sample_weight, len(y))
    offsets = np.arange(len(y) + 1)
    if classifies and not known:
        weights = validation.class_weights(
            estimator.class_weight, y.tolist(), offsets, weights, whole
        )
    if not whole:
        return TokenData(X, offsets, y.tolist(), weights, names=names)
    if weights is not None:
        weighted = np.flatnonzero(weights > 0)
        X = take_rows(X, weighted)
        y = y[weighted]
        weights = weights[weighted]
    distinct = None
    if Passes.of("epochs", estimator.epochs).shuffle and not isinstance(X, list):
        # shuffling sorted examples makes the model independent of their order, and a repeated row
        # equal to a weight
        order, distinct = _order_by_content(X, y)
        X = X[order]
        y = y[order]
        if weights is not None:
            weights = weights[order]
    offsets = np.arange(len(y) + 1)
    return TokenData(X, offsets, y.tolist(), weights, distinct, names, total=len(y))


def _order_by_content(
    X: np.ndarray | sparse.csr_array, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return an order (n,) of rows by their content, and positions in it of one of each content."""
    content = X
    if not sparse.issparse(X):
        # ranks of numbers do not depend on units
        ranks = [np.unique(column, return_inverse=True)[1] for column in X.T]
        content = np.stack(ranks, axis=1)
    digests = validation.row_digests(content, np.arange(len(y)))
    codes = np.unique(y, return_inverse=True)[1]
    order = np.lexsort((codes, digests))
    ordered = digests[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])
    return order, np.flatnonzero(is_new)


def row_potentials(estimator: Any, X: RowsLike) -> np.ndarray:
    """Return the potentials (n, K) of rows in the averaged model of an online estimator."""
    model = estimator.model_
    stream = as_stream(X)
    if stream is not None:
        blocks = [row_potentials(estimator, block) for block in stream.blocks()]
        if not blocks:
            raise InputError("The stream must have at least one example, got none.")
        return np.concatenate(blocks)
    rows = checked_rows(estimator, X, reset=False)
    # new values are usual in single dicts, such as those of river
    is_single_dict = isinstance(X, list) and len(X) == 1
    if isinstance(rows, list) and not is_single_dict and model.codec.encoder.vocabulary is not None:
        _warn_of_unknown(model, rows)
    model.codec.warn_of_absent_keys(rows, model.predictor)
    n = n_rows(rows)

    def potentials_of(part: FlatTokens) -> np.ndarray:
        encoded = model.codec.encoder.encode(part, np.arange(n_rows(part) + 1))
        blocks = [potentials.unary for _, potentials in model.blocks(encoded)]
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks)

    if n <= AT_A_TIME:
        return potentials_of(rows)
    model.predictor()  # create it once for all threads
    parts = (rows[low : low + AT_A_TIME] for low in range(0, n, AT_A_TIME))
    return np.concatenate(in_threads(potentials_of, parts, estimator.n_jobs))


def _warn_of_unknown(model: OnlineModel, rows: list[dict]) -> None:
    """Warn of categories that a model does not know, once for each column."""
    values_by_key = model.codec.encoder.vocabulary.ids
    unknown = defaultdict(set)
    for row in rows:
        for key, value in row.items():
            if isinstance(value, str) and value not in values_by_key.get(key, {}):
                unknown[key].add(value)
    for key in _text_keys(model):
        if key in unknown:
            warn_of_unknown(key, sorted(unknown[key]))


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

    targets = []
    predictions = []
    for block in blocks_of(X, y, sample_weight):
        if block.y is None:
            raise InputError("score needs the targets y of the rows.")
        targets.append(np.asarray(frames.plain_targets(block.y)))
        predictions.append(estimator.predict(block.X))
    gold = np.concatenate(targets)
    predicted = np.concatenate(predictions)
    metric = accuracy_score if is_a_classifier(estimator) else r2_score
    return float(metric(gold, predicted, sample_weight=sample_weight))


def held_out_r2(predictor: Predictor, examples: Sequence) -> float:
    """Return R^2 of a frozen model on held-out examples."""
    from sklearn.metrics import r2_score

    gold = []
    predicted = []
    for x, y, _ in examples:
        gold.append(y)
        predicted.append(predictor.structure.decode(predictor.potentials(x)))
    return r2_score(gold, predicted)


def checked_rows(
    estimator: Any, X: RowsLike | Block, reset: bool, *y: ArrayLike, whole: bool = False
) -> Any:
    """Check rows, and return them as a list of dicts, or as an array or sparse matrix.

    Parameters
    ----------
    estimator : OnlineMKLClassifier or OnlineMKLRegressor
    X : table that :func:`read_table` takes
    reset : bool
        Whether to store the columns in the estimator instead of comparing them.
    *y : array of shape (n,), optional
    whole : bool
        Whether these are all training rows.

    Returns
    -------
    X, or (X, y) if y is given
    """
    for targets in y:
        _check_single_output(estimator, targets)
    if reset:
        with validation.restoring_columns(estimator):
            return _checked_rows(estimator, X, reset, y, whole)
    return _checked_rows(estimator, X, reset, y, whole)


def _checked_rows(
    estimator: Any, X: RowsLike | Block, reset: bool, y: tuple[Any, ...], whole: bool
) -> Any:
    """Return checked rows; see :func:`checked_rows`."""
    is_known = not reset and frames.are_known_columns(X, estimator.__dict__)
    if is_known and all(frames.is_column(column, n_rows(X)) for column in y):
        numbers = np.ascontiguousarray(X, dtype=np.float64)
        if y:
            return (numbers, *y)
        return numbers
    training = None
    if not reset and not is_list_of_dicts(X):
        training = _training_columns(estimator)
    table = read_table(X, training)
    if reset:
        validation.forget_columns(estimator)
        if whole:
            table = table.without_identifiers()
    if training is None:
        learns_dicts = table.has_text
    else:
        learns_dicts = training.are_dicts
    if table.rows is not None or (table.columns is not None and learns_dicts):
        return _checked_dicts(estimator, table, reset, y)
    checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
    if estimator.missing == "indicator" and not sparse.issparse(table.array):
        checks["ensure_all_finite"] = "allow-nan"
    if y:
        checks["y_numeric"] = isinstance(estimator, RegressorMixin)
    return validation.checked_arrays(estimator, table, *y, reset=reset, **checks)


def _checked_dicts(estimator: Any, table: Table, reset: bool, y: tuple) -> Any:
    """Return a table as a list of dicts; see :func:`checked_rows`."""
    if table.columns is not None and table.names is None:
        raise InputError("The columns of X must have strings as names in a model of dicts or text.")
    is_named = table.columns is not None or table.names is not None
    if reset and is_named:
        validation.store_columns(estimator, table)
    rows = table.in_rows().rows or []
    y = tuple(map(_targets_of_dicts, y))
    # scikit-learn's check takes as long as a dict
    if any(n_rows(column) != len(rows) for column in y):
        check_consistent_length(rows, *y)
    if y:
        return (rows, *y)
    return rows


def _training_columns(estimator: Any) -> TrainingColumns:
    """Return the columns on which an online estimator was trained; of dicts, the keys of text."""
    training = validation.training_columns(estimator)
    if "n_features_in_" in estimator.__dict__:
        return replace(training, are_dicts=training.have_text)
    kinds: dict[Hashable, str | None] = {}
    if estimator.__sklearn_is_fitted__():
        kinds.update(dict.fromkeys(_text_keys(estimator.model_), TEXT))
    return replace(training, kinds=kinds, are_dicts=True)


def _check_single_output(estimator: Any, y: Any) -> None:
    """Raise InputError if there are several targets in each row."""
    if has_columns(y):
        batch = "MKLClassifier" if is_a_classifier(estimator) else "MKLRegressor"
        raise InputError(
            f"{type(estimator).__name__} learns one output, got y of shape {np.shape(y)}: "
            f"{batch} learns several."
        )


def _targets_of_dicts(y: object) -> np.ndarray:
    """Return the targets of dicts as an array."""
    y = frames.plain_targets(y)
    if type(y) is list:
        types = set(map(type, y))
        if len(types) == 1 and types <= {bool, int, float, str}:
            return np.asarray(y)
    if type(y) is np.ndarray and y.ndim == 1:
        return y
    return column_or_1d(y, warn=True)


def _text_keys(model: Any) -> list[str]:
    """Return the keys of dicts that held only text in training."""
    vocabulary = model.codec.encoder.vocabulary
    if vocabulary is None:
        return []
    return [key for key in vocabulary.keys if vocabulary.is_text(key)]
