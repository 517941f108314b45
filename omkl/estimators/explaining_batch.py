"""``explain`` of the batch estimators: of combinations of kernels, and of sparse linear models."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin, OutlierMixin

from omkl._components import check_number
from omkl.batch.design.blocks import by_position, called, column_labels
from omkl.estimators.explaining import one_row, other_class
from omkl.estimators.explanations import Explanation
from omkl.exceptions import InputError
from omkl.kernels import Kernel
from omkl.kernels.inputs import take_columns

#: What is not of any group.
CONSTANT = "intercept"


class Compared(NamedTuple):
    """Two classes, or a number: which combination of a model's outputs is explained.

    Attributes
    ----------
    weights : array of shape (P,)
        The margin is the sum of the P outputs times these.
    output, against, summary
        As of :class:`~omkl.estimators.explanations.Explanation`.
    """

    weights: np.ndarray
    output: Any
    against: Any
    summary: str


def compared_classes(
    classes: np.ndarray, scores: np.ndarray, n_outputs: int, pairs: bool, label: Any, against: Any
) -> Compared:
    """A class, the best one by default, and another, the best of the others by default.

    Parameters
    ----------
    classes : array of shape (K,)
    scores : array of shape (K,), or (1,) for two classes
    n_outputs : int
        The number of outputs: one for two classes, else one a class, or with ``pairs`` one a pair of them.
    label, against : class or None
    """
    K, members = len(classes), classes.tolist()

    def code(given: Any) -> int:
        if given not in members:
            raise InputError(f"{given!r} is none of the model's classes, {', '.join(map(repr, members[:5]))}.")
        return members.index(given)

    best = int(scores[0] > 0) if K == 2 else int(np.argmax(scores))
    chosen = best if label is None else code(label)
    other = other_class(K, scores, chosen) if against is None else code(against)
    weights = np.zeros(n_outputs)
    if K == 2:
        weights[0] = chosen - other
    elif pairs and chosen != other:
        pair = list(combinations(range(K), 2)).index((min(chosen, other), max(chosen, other)))
        weights[pair] = np.sign(chosen - other)
    elif chosen != other:
        weights[[chosen, other]] = 1.0, -1.0
    return Compared(weights, classes[chosen], classes[other], f"{members[chosen]!r} rather than {members[other]!r}")


def compared_label(own: Any, outputs: np.ndarray, target: int) -> Compared:
    """Whether a sample has a label; outputs (P,) are those of the labels that training samples differ in."""
    if target in own.constant_labels_:
        raise InputError(f"All training samples have label {target}, or none: nothing was learned of it.")
    varying = [k for k in own.classes_.tolist() if k not in own.constant_labels_]
    weights = _one_of(varying.index(target) if target in varying else len(outputs), len(outputs), target)
    there = bool(weights @ outputs > 0)
    return Compared(weights * (1 if there else -1), there, not there, f"label {target}: {'yes' if there else 'no'}")


class Parts(NamedTuple):
    """What some parts of a model add, by their numbers from 0.

    Attributes
    ----------
    values : array
    name, group : callable
        What a part and its group are called.
    """

    values: np.ndarray
    name: Callable[[int], str]
    group: Callable[[int], str]


def strongest_of(blocks: Sequence[Parts], n: int) -> list[dict[str, Any]]:
    """Records of the parts that add most."""
    check_number("n", n, above=0, integer=True)
    starts = np.cumsum([0, *(len(block.values) for block in blocks)])
    added = np.concatenate([np.zeros(0), *(block.values for block in blocks)])
    records = []
    for i in np.argsort(-np.abs(added), kind="stable")[: int(n)].tolist():
        if added[i] != 0.0:
            k = int(np.searchsorted(starts, i, side="right")) - 1
            block, own = blocks[k], i - int(starts[k])
            record = {"feature": block.name(own), "group": block.group(own), "token": None, "adds": float(added[i])}
            records.append(record)
    return records


class ExplainsKernels:
    """What a combination of kernels says of why a sample gets its class or its number."""

    n_features_in_: int
    _checked: Any
    _source: Any
    _weights: list[np.ndarray]

    def explain(self, x: Any, *, label: Any = None, against: Any = None, target: int = 0, n: int = 20) -> Explanation:
        """Why a sample gets its class, and not the next best; or what its number is the sum of.

        Outputs are sums over kernels, and over the support vectors among the training samples, or, of kernels that are
        held by explicit features, over the parts of these: columns, products of them, landmarks, frequencies. So is the
        difference of two outputs, the margin, which the parts add up to.

        Parameters
        ----------
        x : array of shape (d,), or what :meth:`predict` takes with one sample
        label, against : class, optional
            The class to explain, the predicted one by default, and the one to compare it with, by default the best of
            the others. With ``multiclass="ovo"`` the margin is that of the model of these two. Not of a regressor, nor
            where a sample may have several labels.
        target : int
            Which of several targets of a regressor, or of several labels that a sample has or has not, from 0.
        n : int > 0
            How many of the strongest support vectors and parts to tell. Support vectors are numbered from 0 as the
            training samples, those of weight 0 left out.

        Returns
        -------
        omkl.estimators.Explanation
            ``intercept`` among the groups is the constant, of a detector of outliers minus its ``offset_``.

        Raises
        ------
        omkl.exceptions.InputError
            If the sample does not fit the model, or a class is none of its classes.
        """
        own: Any = self
        X = self._checked(one_row(x) if hasattr(self, "n_features_in_") else x)
        source, active, intercepts = self._source, own._active, own.intercept_ - getattr(self, "offset_", 0.0)
        if source.n_rows(X) != 1:
            raise InputError(f"explain takes one sample, but there are {source.n_rows(X)}: call it for each of them.")
        [(_, parts)] = source.blocks(X, active)
        rows = [np.asarray(part)[0] if not sparse.issparse(part) else part.toarray()[0] for part in parts]
        outputs = np.array([row @ weights for row, weights in zip(rows, self._weights)])
        compared = self._compared(outputs.sum(axis=0) + intercepts, label, against, target)
        blocks = [
            self._parts_of(m, X, row, weights @ compared.weights)
            for m, row, weights in zip(active.tolist(), rows, self._weights)
        ]
        groups = {source.names[m]: float(block.values.sum()) for m, block in zip(active.tolist(), blocks)}
        groups[CONSTANT] = float(intercepts @ compared.weights)
        margin = float((outputs.sum(axis=0) + intercepts) @ compared.weights)
        _, output, other, summary = compared
        return Explanation(output, other, summary, margin, groups, strongest_of(blocks, n))

    def _compared(self, outputs: np.ndarray, label: Any, against: Any, target: int) -> Compared:
        """What outputs (P,) of a sample are explained."""
        own: Any = self
        if isinstance(self, OutlierMixin):
            _refuse_classes(label, against)
            sign = 1 if outputs[0] >= 0 else -1
            names = ("normal", "an outlier")[::sign]
            return Compared(np.array([float(sign)]), sign, -sign, " rather than ".join(names))
        if not isinstance(self, ClassifierMixin):
            _refuse_classes(label, against)
            weights = _one_of(target, len(outputs))
            return Compared(weights, float(weights @ outputs), None, "prediction")
        if own.multilabel_:
            _refuse_classes(label, against)
            return compared_label(own, outputs, target)
        scores = own._scores_of(outputs[None])[0] if len(own.classes_) > 2 else outputs
        return compared_classes(own.classes_, scores, len(outputs), own._learned_pairs(), label, against)

    def _parts_of(self, m: int, X: Any, row: np.ndarray, weights: np.ndarray) -> Parts:
        """The parts of a kernel's output for a sample: of its values or features, a ``row``, times ``weights``."""
        source, group = self._source, self._source.names[m]
        if m not in source.ranks:
            return Parts(row * weights, lambda i: f"support vector {i} of {group}", lambda i: group)
        kernel, width = source.kernels[m], self.n_features_in_
        columns, chosen = kernel.columns(width), chosen_columns(kernel, width)

        def name(i: int) -> str:
            return kernel.part_name(i, lambda j: name_of_column(self, int(chosen[j])), len(chosen))

        return Parts(kernel.parts(take_columns(X, columns), weights), name, lambda i: group)


def chosen_columns(kernel: Kernel, n_columns: int) -> np.ndarray:
    """The numbers of the columns that a kernel is on."""
    columns = kernel.columns(n_columns)
    if columns is None or isinstance(columns, slice):
        return np.arange(n_columns)[slice(None) if columns is None else columns]
    return np.array(columns, dtype=np.int64)


def _refuse_classes(label: Any, against: Any) -> None:
    if label is not None or against is not None:
        raise InputError("There are no classes to choose from, but targets: leave out label= and against=.")


def _one_of(target: Any, n_targets: int, given: Any = None) -> np.ndarray:
    """1 for a target, 0 for all others; raises where there is none, which the user has ``given`` so."""
    if not isinstance(target, (int, np.integer)) or not 0 <= target < n_targets:
        given = target if given is None else given
        raise InputError(f"target={given!r} is none of the {n_targets} targets, counted from 0.")
    return np.eye(n_targets)[target]


def name_of_column(estimator: Any, j: int) -> str:
    """What a column of X is called: its name in the data frame, or its number from 0."""
    names = getattr(estimator, "feature_names_in_", None)
    return f"column {j}" if names is None else str(names[j])


class ExplainsColumns:
    """What a sparse linear model says of why a sample gets its class or its number."""

    coef_: np.ndarray
    intercept_: Any
    groups: Any

    def explain(
        self, x: Any, *, label: Any = None, against: Any = None, target: int = 0, offset: Any = None, n: int = 20
    ) -> Explanation:
        """Why a sample gets its class, and not the next best; or what its number is the sum of.

        Parameters
        ----------
        x : array of shape (d,), or what :meth:`predict` takes with one sample
        label, against : class, optional
            The class to explain, the predicted one by default, and the one to compare it with, by default the best of
            the others. Not of a regressor.
        target : int
            Which of the targets of a regressor of several, or of several labels that a sample has or has not, from 0.
        offset : float or array, optional
            As for :meth:`predict`, of the one sample.
        n : int > 0
            How many of the strongest columns to tell.

        Returns
        -------
        omkl.estimators.Explanation
            Among the groups are ``intercept`` and, if given, ``offset``. With the Poisson loss the ``margin`` is the
            logarithm of the predicted mean.

        Raises
        ------
        omkl.exceptions.InputError
            If the sample does not fit the model, or a class or target is none of it.
        """
        own: Any = self
        X = own._checked(one_row(x))
        known = None if offset is None else np.atleast_1d(np.asarray(offset, dtype=np.float64))
        outputs = own._outputs_of(X, known if known is None or len(known) == 1 else known[None])
        if len(outputs) != 1:
            raise InputError(f"explain takes one sample, but there are {len(outputs)}: call it for each of them.")
        compared = self._compared(outputs[0], label, against, target)
        columns, values = _row_of(X)
        weights = compared.weights @ np.atleast_2d(self.coef_)[:, columns]
        used = np.flatnonzero(weights * values)
        columns, added = columns[used], (weights * values)[used]
        owners, groups = self._groups_of(columns, own.n_features_in_), dict[str, float]()
        for name, value in zip(owners, added.tolist()):
            groups[name] = groups.get(name, 0.0) + value
        groups[CONSTANT] = float(compared.weights @ np.atleast_1d(self.intercept_))
        if known is not None:
            groups["offset"] = float(compared.weights @ np.broadcast_to(known, len(compared.weights)))
        parts = Parts(added, lambda i: name_of_column(self, columns[i]), owners.__getitem__)
        margin = float(compared.weights @ outputs[0])
        _, output, other, summary = compared
        return Explanation(output, other, summary, margin, groups, strongest_of([parts], n))

    def _compared(self, outputs: np.ndarray, label: Any, against: Any, target: int) -> Compared:
        own: Any = self
        if isinstance(self, ClassifierMixin) and own.multilabel_:
            _refuse_classes(label, against)
            return compared_label(own, outputs, target)
        if isinstance(self, ClassifierMixin):
            return compared_classes(own.classes_, outputs, len(outputs), False, label, against)
        _refuse_classes(label, against)
        weights = _one_of(target, len(outputs))
        return Compared(weights, float(own._learned_loss.mean(weights @ outputs)), None, "prediction")

    def _groups_of(self, columns: np.ndarray, n_columns: int) -> list[str]:
        """The name of the group of each of some columns."""
        names = getattr(self, "feature_names_in_", None)
        labels = column_labels(by_position(self.groups, names), n_columns)
        if labels is None:
            return [name_of_column(self, j) for j in columns.tolist()]
        known = called(self.groups, names, int(labels.max()) + 1)
        return [known[k] for k in labels[columns].tolist()]


def _row_of(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns of one row that are not 0, and their values."""
    if sparse.issparse(X):
        row = sparse.coo_array(X)
        return row.coords[1], row.data
    if not hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        raise InputError(f"explain takes a row of numbers, not {type(X).__name__}.")
    values = np.asarray(X, dtype=np.float64)[0]
    return np.flatnonzero(values), values[values != 0]
