"""OnlineMKL, the base class of online estimators: checks and scores of rows with one output."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, column_or_1d

from omkl._threads import in_threads
from omkl.data import Block, Stream, frames
from omkl.data.blocks import AnyRows, n_rows, take_rows
from omkl.data.table_columns import TEXT, warn_of_unknown
from omkl.data.table_reading import Table, TrainingColumns, is_list_of_dicts, read_table
from omkl.estimators import validation
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.batch import is_a_classifier
from omkl.estimators.options import Budget
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.estimators.targets import checked_classes, finite_targets, has_columns
from omkl.estimators.token_codec import TOKEN_CONSTRAINTS, TokenCodec
from omkl.exceptions import InputError
from omkl.features.encoder import Encoder
from omkl.features.views import PLAIN, FlatTokens, TokenData
from omkl.kernels.specs import KernelSpecs, takes_sparse
from omkl.mkl.shapes import GroupEffect, Shapes, find_shapes
from omkl.online.averaging import Predictor
from omkl.online.group_contributions import group_outputs
from omkl.online.model import OnlineModel

#: Accepted rows.
RowsLike: TypeAlias = (
    ArrayLike | sparse.sparray | sparse.spmatrix | Mapping[str, Any] | Stream | Block | Iterable
)
#: Number of rows that each thread encodes and scores at a time.
AT_A_TIME = 4096


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineMKL(OnlineEstimator[TokenCodec], BaseEstimator):
    """Base class of online estimators that learn a class or a number per row.

    Its fields are shared parameters, described in :class:`OnlineMKLClassifier`. Subclasses define
    ``fit``, ``partial_fit``, ``predict`` and ``score``.
    """

    _constraints: ClassVar[dict[str, validation.Constraint]] = {
        **OnlineEstimator._constraints,
        **TOKEN_CONSTRAINTS,
        "missing": validation.OneOf(("indicator", "error")),
    }
    report_sections = ("worth", "weights", "evidence", "groups", "scales", "features")

    kernels: KernelSpecs | None = field(default=None, kw_only=False)
    missing: str = "indicator"
    fit_intercept: bool = True
    budget: int | Budget | None = None

    def shapes(self, X: AnyRows) -> Shapes:
        """Return the model as a sum of functions of single columns, without bands.

        See :meth:`omkl.MKLClassifier.shapes`.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows over which the effects are centred.

        Returns
        -------
        omkl.Shapes
        """
        if is_a_classifier(self):
            predict = self.decision_function
        else:
            predict = self.predict
        rows = self._checked_rows(X, reset=False)
        n = n_rows(rows)
        outputs = predict(X).reshape(n, -1)
        encoder = self.model_.codec.encoder
        names = validation.column_names_of(self)
        if names is None:
            names = [f"column {j}" for j in range(encoder.shapes.get(PLAIN, 0))]
        if isinstance(rows, list):  # keys that the first rows lacked
            names = list(dict.fromkeys([*names, *encoder.shapes, *(encoder.numbers or ())]))
        tokens = encoder.encode(rows, np.arange(n + 1)).everything()
        groups = {}
        for name, effect in group_outputs(self.model_.predictor(), tokens).items():
            if self.kernel_weights_.get(name):
                if effect.shape != outputs.shape:  # two classes may have a potential each
                    effect = effect[:, 1:] - effect[:, :1]
                columns = _columns_of_group(encoder, name, names)
                groups[name] = GroupEffect(columns=columns, effect=effect)
        return find_shapes(self, X, names, groups, outputs)

    @property
    def column_scales_(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of each column of numbers in the training rows.

        The keys are names of columns, or their positions.
        """
        return self.model_.codec.encoder.column_scales()

    def _read_for_evaluation(self, block: TrainingBlock) -> TokenData:
        return self._read_rows(block, first=False, for_evaluation=True)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernels)
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags

    def _read_rows(
        self,
        block: TrainingBlock,
        first: bool,
        is_all_data: bool = False,
        for_evaluation: bool = False,
    ) -> TokenData:
        """Check rows and their outputs; each row is a sequence of one token.

        Parameters
        ----------
        block : TrainingBlock
        first : bool
            Whether a model starts with these rows.
        is_all_data : bool
            Whether these are all rows of a ``fit``. Then drop rows of weight 0. If the rows will be
            shuffled, first sort them by content, so that the model does not depend on the order of
            the rows.
        for_evaluation : bool
            Whether the rows are for evaluation, without class weights.
        """
        if block.y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "a stream has pairs (x, y)."
            )
        X, y = self._checked_rows(block.X, first, block.y, is_all_data=is_all_data)
        classifies = is_a_classifier(self)
        names = validation.column_names_of(self)
        if classifies:
            y = checked_classes(y, first)
        else:
            y = finite_targets(y)
        weights = validation.check_sample_weight(block.sample_weight, len(y))
        offsets = np.arange(len(y) + 1)
        if classifies and not for_evaluation:
            weights = validation.class_weights(
                self.class_weight, y.tolist(), offsets, weights, is_all_data
            )
        if not is_all_data:
            return TokenData(X, offsets, y.tolist(), weights, names=names)
        if weights is not None:
            weighted = np.flatnonzero(weights > 0)
            X = take_rows(X, weighted)
            y = y[weighted]
            weights = weights[weighted]
        distinct = None
        if self._passes.shuffle and not isinstance(X, list):
            # shuffling sorted examples makes the model independent of their order, and a repeated
            # row equal to a weight
            order, distinct = _order_by_content(X, y)
            X = X[order]
            y = y[order]
            if weights is not None:
                weights = weights[order]
        offsets = np.arange(len(y) + 1)
        return TokenData(X, offsets, y.tolist(), weights, distinct, names, total=len(y))

    def _row_potentials(self, X: RowsLike) -> np.ndarray:
        """Return the potentials (n, K) of rows in the averaged model."""
        model = self.model_
        stream = as_stream(X)
        if stream is not None:
            blocks = [self._row_potentials(block) for block in stream.blocks()]
            if not blocks:
                raise InputError("The stream must have at least one example, got none.")
            return np.concatenate(blocks)
        rows = self._checked_rows(X, reset=False)
        # new values are usual in single dicts, such as those of river
        is_single_dict = isinstance(X, list) and len(X) == 1
        has_vocabulary = model.codec.encoder.vocabulary is not None
        if isinstance(rows, list) and not is_single_dict and has_vocabulary:
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
        return np.concatenate(in_threads(potentials_of, parts, self.n_jobs))

    def _score_rows(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy of a classifier, in [0, 1], or R^2 of a regressor.

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
            predictions.append(self.predict(block.X))
        gold = np.concatenate(targets)
        predicted = np.concatenate(predictions)
        metric = accuracy_score if is_a_classifier(self) else r2_score
        return float(metric(gold, predicted, sample_weight=sample_weight))

    def _checked_rows(
        self, X: RowsLike | Block, reset: bool, *y: ArrayLike, is_all_data: bool = False
    ) -> Any:
        """Check rows, and return them as a list of dicts, or as an array or sparse matrix.

        Parameters
        ----------
        X : table that :func:`read_table` takes
        reset : bool
            Whether to store the columns in the estimator instead of comparing them.
        *y : array of shape (n,), optional
        is_all_data : bool
            Whether these are all training rows.

        Returns
        -------
        X, or (X, y) if y is given
        """
        for targets in y:
            self._check_single_output(targets)
        if reset:
            with validation.restoring_columns(self):
                return self._convert_rows(X, reset, y, is_all_data)
        return self._convert_rows(X, reset, y, is_all_data)

    def _convert_rows(
        self, X: RowsLike | Block, reset: bool, y: tuple[Any, ...], is_all_data: bool
    ) -> Any:
        """Return checked rows; see :meth:`_checked_rows`."""
        is_known = not reset and frames.are_known_columns(X, self.__dict__)
        if is_known and all(frames.is_column(column, n_rows(X)) for column in y):
            numbers = np.ascontiguousarray(X, dtype=np.float64)
            if y:
                return (numbers, *y)
            return numbers
        training = None
        if not reset and not is_list_of_dicts(X):
            training = self._training_columns()
        table = read_table(X, training)
        if reset:
            validation.forget_columns(self)
            if is_all_data:
                table = table.without_identifiers()
        if training is None:
            learns_dicts = table.has_text
        else:
            learns_dicts = training.are_dicts
        if table.rows is not None or (table.columns is not None and learns_dicts):
            return self._convert_dicts(table, reset, y)
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
        if self.missing == "indicator" and not sparse.issparse(table.array):
            checks["ensure_all_finite"] = "allow-nan"
        if y:
            checks["y_numeric"] = isinstance(self, RegressorMixin)
        return validation.checked_arrays(self, table, *y, reset=reset, **checks)

    def _convert_dicts(self, table: Table, reset: bool, y: tuple) -> Any:
        """Return a table as a list of dicts; see :meth:`_checked_rows`."""
        if table.columns is not None and table.names is None:
            raise InputError(
                "The columns of X must have strings as names in a model of dicts or text."
            )
        is_named = table.columns is not None or table.names is not None
        if reset and is_named:
            validation.store_columns(self, table)
        rows = table.in_rows().rows or []
        y = tuple(map(_targets_of_dicts, y))
        # scikit-learn's check takes as long as a dict
        if any(n_rows(column) != len(rows) for column in y):
            check_consistent_length(rows, *y)
        if y:
            return (rows, *y)
        return rows

    def _training_columns(self) -> TrainingColumns:
        """Return the columns of the training rows; of dicts, the keys of text."""
        training = validation.training_columns(self)
        if "n_features_in_" in self.__dict__:
            # models of tables with text learn from dicts
            return replace(training, are_dicts=training.have_text)
        kinds: dict[Hashable, str | None] = {}
        if self.__sklearn_is_fitted__():
            kinds.update(dict.fromkeys(_text_keys(self.model_), TEXT))
        return replace(training, kinds=kinds, are_dicts=True)

    def _check_single_output(self, y: ArrayLike) -> None:
        """Raise InputError if there are several targets in each row."""
        if has_columns(y):
            batch = "MKLClassifier" if is_a_classifier(self) else "MKLRegressor"
            raise InputError(
                f"{type(self).__name__} learns one output, got y of shape {np.shape(y)}: "
                f"{batch} learns several."
            )


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


def held_out_r2(predictor: Predictor, examples: Sequence) -> float:
    """Return R^2 of a frozen model on held-out examples."""
    from sklearn.metrics import r2_score

    gold = []
    predicted = []
    for x, y, _ in examples:
        gold.append(y)
        predicted.append(predictor.structure.decode(predictor.potentials(x)))
    return r2_score(gold, predicted)


def _targets_of_dicts(y: ArrayLike) -> np.ndarray:
    """Return the targets of dicts as an array."""
    y = frames.plain_targets(y)
    if type(y) is list:
        types = set(map(type, y))
        if len(types) == 1 and types <= {bool, int, float, str}:
            return np.asarray(y)
    if type(y) is np.ndarray and y.ndim == 1:
        return y
    return column_or_1d(y, warn=True)


def _text_keys(model: OnlineModel) -> list[str]:
    """Return the keys of dicts that held only text in training."""
    vocabulary = model.codec.encoder.vocabulary
    if vocabulary is None:
        return []
    return [key for key in vocabulary.keys if vocabulary.is_text(key)]


def _columns_of_group(encoder: Encoder, group: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns that a group is on, or its own name if it is on none."""
    view = encoder.views.get(group)
    if view is None:
        return (group,)
    columns = []
    column_of = encoder.columns_of(group)
    for j in range(view.width(encoder.shapes)):
        name = column_of(j)
        if name not in names:
            name = f"column {name}"
        columns.append(name)
    return tuple(dict.fromkeys(columns)) or (group,)
