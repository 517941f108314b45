"""Functions that batch estimators share: losses, progress, outputs, groups of columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from omkl._components import resolve, warn_caller
from omkl._messages import shown
from omkl._progress import progress_bar
from omkl.batch.group_lasso.blocks import column_labels
from omkl.batch.solver import Listener
from omkl.data.blocks import Names
from omkl.estimators.explanations import other_class
from omkl.estimators.targets import checked_classes, label_array
from omkl.estimators.validation import (
    MISSING,
    Constraint,
    Number,
    source_columns,
    weighted_by_class,
)
from omkl.exceptions import DataWarning, InputError
from omkl.losses.base import PointwiseLoss
from omkl.losses.pointwise import Logistic

#: Score of a class that is missing from the training part of a fold; lower than any other score.
NEVER = -1e300
#: Valid values of the parameters that all batch estimators share.
CONSTRAINTS: dict[str, Constraint] = {
    "tol": Number(above=0),
    "max_iter": Number(above=0, integer=True, also=(None,)),
}


def resolve_loss(estimator: BaseEstimator, links: bool = True) -> PointwiseLoss:
    """Resolve the loss of a classifier or regressor; ``links`` accepts losses with a link."""
    loss = resolve(PointwiseLoss, estimator.loss, "loss")
    if loss.classifies != is_a_classifier(estimator) or (loss.has_link and not links):
        kind = "classification" if loss.classifies else "regression"
        if loss.has_link:
            kind = f"{kind} with a link"
        raise InputError(f"{type(estimator).__name__} takes no loss of {kind}, got {loss!r}.")
    return loss


def is_a_classifier(estimator: BaseEstimator) -> bool:
    """Return whether an estimator is a classifier; for ``available_if``."""
    return isinstance(estimator, ClassifierMixin)


def centres_of(y: np.ndarray, loss: PointwiseLoss, intercept: bool) -> np.ndarray:
    """Return what to subtract from targets (N,) or (N, P) before solving, (P,).

    It is added to the intercepts. Rounding errors of the solvers are then relative to the spread of
    the targets, not to their size.
    """
    columns = y.reshape(len(y), -1)
    if intercept and loss.shift_invariant:
        return np.median(columns, axis=0)
    return np.zeros(columns.shape[1])


@contextmanager
def gap_progress(verbose: bool, active: str) -> Iterator[Listener]:
    """Show a progress bar of the duality gap if ``verbose``.

    Gives a function to call with the records of a solver. ``active`` is the word for nonzero parts
    of the model, such as "kernels".
    """
    with progress_bar(verbose, unit=" iterations") as bar:

        def show(record: Mapping[str, float]) -> None:
            bar.update()
            bar.set_postfix({"gap": f"{record['gap']:.2g}", active: record["active"]})

        yield show


# ---- outputs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassDecoder:
    """Decoder of the outputs of P problems to classes, or to several labels per sample.

    Attributes
    ----------
    classes : array of shape (K,)
        Classes, or indices of label columns.
    multilabel : bool
    constant : dict of int to bool
        Labels without a problem, because all training samples have them (True) or none has (False).
    multinomial : bool
        Whether probabilities are the softmax of the scores.
    """

    classes: np.ndarray
    multilabel: bool = False
    constant: dict[int, bool] = field(default_factory=dict)
    multinomial: bool = False

    @property
    def varying(self) -> np.ndarray:
        """Indices of the labels that have a problem."""
        return np.setdiff1d(np.arange(len(self.classes)), list(self.constant)).astype(np.int64)

    def scores(self, outputs: np.ndarray) -> np.ndarray:
        """Convert outputs (n, P) to scores.

        They are (n,) for two classes, (n, K) for more, and (n, L) for labels.
        """
        if self.multilabel:
            scores = np.empty((len(outputs), len(self.classes)))
            for k, have_label in self.constant.items():
                scores[:, k] = -NEVER if have_label else NEVER
            scores[:, self.varying] = outputs
            return scores
        if len(self.classes) == 2:
            return outputs[:, 0]
        return outputs

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Return the best class of each sample, (n,), or indicators of its labels, (n, L)."""
        scores = self.scores(outputs)
        if self.multilabel:
            return (scores > 0).astype(np.int64)
        if scores.ndim == 1:
            return self.classes[(scores > 0).astype(np.int64)]
        return self.classes[scores.argmax(axis=1)]

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Return probabilities of classes, (n, K), or of labels, (n, L), for the logistic loss."""
        scores = self.scores(outputs)
        if self.multilabel:
            return expit(scores)
        if self.multinomial:
            return softmax(scores, axis=1)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        each = expit(scores)
        return each / each.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class NumberDecoder:
    """Decoder of the outputs of a regression, to conditional means."""

    loss: PointwiseLoss

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Return predictions (n,), or (n, K) for several outputs."""
        means = self.loss.mean(outputs)
        if means.shape[1] > 1:
            return means
        return means[:, 0]


def encode_classes(
    y: np.ndarray,
    weights: np.ndarray | None,
    class_weight: str | dict | None,
    warns: bool = True,
    what: str = "y",
) -> tuple[np.ndarray, np.ndarray | None, ClassDecoder]:
    """Convert classes (N,), or indicators of labels (N, L), to targets -1 and +1 of P problems.

    Parameters
    ----------
    y, weights : arrays
        Targets and sample weights.
    class_weight : None, "balanced" or dict
        For classes only.
    warns : bool
        Whether to warn about labels that are constant.
    what : str
        Name of the targets in messages.

    Returns
    -------
    signs : array of shape (N, P)
        Each class against the rest, the second class of two, or the labels that are not constant.
    weights : array of shape (N,), or None
        Sample weights times class weights.
    decoder : ClassDecoder
    """
    if y.ndim == 2:
        if class_weight is not None:
            raise InputError("class_weight is for classes, not for labels in columns of y.")
        signs, decoder = _encode_indicators(y, warns, what)
        return signs, weights, decoder
    classes, codes = np.unique(checked_classes(np.asarray(y)), return_inverse=True)
    if classes.dtype.hasobject:  # strings of data frames, which model files cannot store
        classes = label_array(classes.tolist())
    if len(classes) < 2:
        raise InputError(
            f"{what} holds one class only, {classes.tolist()[0]!r}: a classifier needs two."
        )
    positive_codes = np.arange(len(classes))
    if len(classes) == 2:
        positive_codes = positive_codes[1:]
    signs = np.where(codes[:, None] == positive_codes, 1.0, -1.0)
    return signs, weighted_by_class(class_weight, classes, codes, weights), ClassDecoder(classes)


def _encode_indicators(y: np.ndarray, warns: bool, what: str) -> tuple[np.ndarray, ClassDecoder]:
    """Convert indicators of labels (N, L) to targets -1 and +1 (N, P), and their decoder."""
    n_labels = y.shape[1]
    is_binary = np.isin(y, (0, 1)).all()
    has_label = y != 0
    varying = np.flatnonzero(has_label.any(axis=0) & ~has_label.all(axis=0))
    if not is_binary or not len(varying):
        raise InputError(
            f"{what} has {n_labels} columns, which must hold 0 and 1, "
            "for labels that a sample has or not."
        )
    constant = {k: bool(has_label[0, k]) for k in range(n_labels) if k not in varying}
    if constant and warns:
        columns = ", ".join(map(str, list(constant)[:5]))
        warn_caller(
            f"{len(constant)} of {n_labels} labels are those of all samples, or of none, "
            f"and are predicted so: columns {columns} of y.",
            DataWarning,
        )
    signs = np.where(has_label[:, varying], 1.0, -1.0)
    return signs, ClassDecoder(np.arange(n_labels), multilabel=True, constant=constant)


def has_log_odds(estimator: BaseEstimator) -> bool:
    """Return whether the scores of a batch classifier are log-odds."""
    return isinstance(resolve(PointwiseLoss, estimator.loss, "loss"), Logistic)


def is_probabilistic(estimator: BaseEstimator) -> bool:
    """Return True if scores of a batch classifier are log-odds, else raise AttributeError.

    For ``available_if``.
    """
    if has_log_odds(estimator):
        return True
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="logistic", not with '
        f"loss={estimator.loss!r}; CalibratedClassifierCV of scikit-learn learns some for any loss."
    )


# ---- explanations --------------------------------------------------------------------------------


class Contrast(NamedTuple):
    """Linear combination of a model's outputs: the margin is ``weights @ outputs``, weights (P,).

    The other attributes are as in :class:`Explanation`.
    """

    weights: np.ndarray
    output: Any
    against: Any
    summary: str


def contrast(
    decoder: ClassDecoder | NumberDecoder,
    outputs: np.ndarray,
    label: Hashable,
    against: Hashable,
    target: int,
) -> Contrast:
    """Return the contrast to explain for a sample with outputs (P,).

    For classes, ``label`` is compared with ``against``, by default the predicted class with the
    best other class. ``target`` is the index of a label for several labels per sample, or of an
    output of a regression.
    """
    if isinstance(decoder, ClassDecoder) and not decoder.multilabel:
        return _contrast_of_classes(decoder, outputs, label, against)
    varying = list(range(len(outputs)))
    if isinstance(decoder, ClassDecoder):
        varying = decoder.varying.tolist()
    if label is not None or against is not None or target not in varying:
        learned = ", ".join(map(str, varying[:5]))
        raise InputError(
            f"target must be the number of a learned label or output ({learned}), "
            f"without label= and against=, got {target!r}."
        )
    weights = np.eye(len(outputs))[varying.index(target)]
    if isinstance(decoder, ClassDecoder):
        if weights @ outputs > 0:
            return Contrast(weights, output=True, against=False, summary=f"label {target}: yes")
        return Contrast(-weights, output=False, against=True, summary=f"label {target}: no")
    prediction = decoder.decode((weights @ outputs)[None, None])[0]
    return Contrast(weights, output=float(prediction), against=None, summary="prediction")


def _contrast_of_classes(
    decoder: ClassDecoder, outputs: np.ndarray, label: Hashable, against: Hashable
) -> Contrast:
    """Return the contrast of two classes; ``outputs`` are (P,)."""
    classes = decoder.classes
    members = classes.tolist()
    n_classes = len(classes)

    def code_of(member: Hashable) -> int:
        if member not in members:
            names = ", ".join(map(repr, members[:5]))
            raise InputError(f"{member!r} is not one of the model's classes, {names}.")
        return members.index(member)

    if label is None:
        label = decoder.decode(outputs[None]).tolist()[0]
    chosen = code_of(label)
    if against is None:
        other = other_class(n_classes, decoder.scores(outputs[None])[0], chosen)
    else:
        other = code_of(against)
    weights = np.zeros(len(outputs))
    if n_classes == 2:
        weights[0] = chosen - other
    elif chosen != other:
        weights[chosen] = 1.0
        weights[other] = -1.0
    return Contrast(
        weights=weights,
        output=classes[chosen],
        against=classes[other],
        summary=f"{members[chosen]!r} rather than {members[other]!r}",
    )


# ---- groups of columns by name -------------------------------------------------------------------


class ColumnNames(NamedTuple):
    """Groups of columns by position, and their names.

    Attributes
    ----------
    groups : list of lists of int, array of labels, or None
        None makes every column a group.
    names : list or None
        Names of the groups, in order; None if groups are given as lists.
    """

    groups: list[list[int]] | np.ndarray | None
    names: list | None

    def texts(self, n_groups: int) -> list[str]:
        """Return the names of groups as strings, for explanations and figures."""
        kind = "column" if self.groups is None else "group"
        names = range(n_groups) if self.names is None else self.names
        return [name if isinstance(name, str) else f"{kind} {name}" for name in names]


def read_groups(groups: ArrayLike | dict | None, columns: Names) -> ColumnNames:
    """Validate groups of columns.

    They are None, an array of labels, lists of positions or names, or a dict of such lists.
    ``columns`` are the names of all columns, or None. A name that occurs k times is a column with k
    categories: groups hold all of these, and positions and labels count it once.
    """
    if columns is not None:
        distinct = list(dict.fromkeys(columns))
        if len(distinct) < len(columns):
            return _groups_of_blocks(read_groups(groups, distinct), columns, distinct)
    if groups is None:
        return ColumnNames(None, None if columns is None else list(map(str, columns)))
    if isinstance(groups, dict):
        members = _positions(list(groups.values()), columns)
        return ColumnNames(members, list(groups))
    if isinstance(groups, (list, tuple)) and any(map(_has_members, groups)):
        return ColumnNames(_positions(groups, columns), None)
    labels = np.asarray(groups)
    names = None
    with suppress(TypeError):  # invalid labels are rejected later
        names = np.unique(labels).tolist()
    return ColumnNames(labels, names)


def _positions(groups: Sequence, columns: Names) -> list[list[int]]:
    """Convert groups, lists of positions or names of columns, to lists of positions."""
    position = {name: j for j, name in enumerate(columns or ())}
    groups_of_positions = []
    for group in groups:
        is_valid = _has_members(group) and all(
            member in position for member in group if isinstance(member, str)
        )
        if not is_valid:
            raise InputError(
                f"groups must hold lists of columns of X, by number or name, got {shown(group)}."
            )
        groups_of_positions.append(
            [position[member] if isinstance(member, str) else member for member in group]
        )
    return groups_of_positions


def _groups_of_blocks(
    of_names: ColumnNames, columns: Sequence[str], distinct: Sequence[str]
) -> ColumnNames:
    """Return groups of columns, given groups of their ``distinct`` names.

    Columns with the same name are a block, which belongs to the group of its name.
    """
    position = {name: j for j, name in enumerate(distinct)}
    labels = column_labels(of_names.groups, len(distinct))
    return of_names._replace(groups=labels[[position[name] for name in columns]])


def groups_of(model: BaseEstimator) -> ColumnNames:
    """Return the groups of the columns that a linear model learned from.

    The last is "missing", if there is any.
    """
    columns = source_columns(model)
    n_absent = len(model.__dict__.get("missing_columns_", ()))
    if columns is None or not n_absent:
        return read_groups(model.groups, columns)
    n_present = len(columns) - n_absent
    present = read_groups(model.groups, columns[:n_present])
    names = None if present.names is None else [*present.names, MISSING]
    codes = column_labels(present.groups, n_present)
    return ColumnNames(np.append(codes, np.full(n_absent, codes.max() + 1)), names)


def _has_members(group: object) -> bool:
    """Return whether this is a list of columns, and not a label."""
    return isinstance(group, Iterable) and not isinstance(group, (str, bytes, dict))
