"""Functions that batch estimators share: losses, progress, decoding of outputs, groups of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from omkl.batch.solver import Listener
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
from omkl.kernels.inputs import column_block
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
    loss, name = resolve(PointwiseLoss, estimator.loss, "loss"), type(estimator).__name__
    if loss.classifies != is_a_classifier(estimator) or (loss.has_link and not links):
        kind = "classification" if loss.classifies else "regression"
        raise InputError(
            f"{name} takes no loss of {kind}{' with a link' * loss.has_link}, got {loss!r}."
        )
    return loss


def is_a_classifier(estimator: object) -> bool:
    """Return whether an estimator is a classifier; for ``available_if``."""
    return isinstance(estimator, ClassifierMixin)


def centres_of(y: np.ndarray, loss: PointwiseLoss, intercept: bool) -> np.ndarray:
    """Return what to subtract from targets (N,) or (N, P) before solving, and to add to the
    intercepts, (P,).

    Rounding errors of the solvers are then relative to the spread of the targets, not to their
    size.
    """
    columns = y.reshape(len(y), -1)
    return (
        np.median(columns, axis=0)
        if intercept and loss.shift_invariant
        else np.zeros(columns.shape[1])
    )


@contextmanager
def gap_progress(verbose: bool, active: str) -> Iterator[Listener]:
    """Show a progress bar of the duality gap if ``verbose``; gives a function to call with the
    records of a solver.

    ``active`` is the word for nonzero parts of the model, such as "kernels".
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
        """Convert outputs (n, P) to scores: (n,) for two classes, (n, K) for more, (n, L) for
        labels.
        """
        if self.multilabel:
            scores = np.empty((len(outputs), len(self.classes)))
            for k, has in self.constant.items():
                scores[:, k] = -NEVER if has else NEVER
            scores[:, self.varying] = outputs
            return scores
        return outputs[:, 0] if len(self.classes) == 2 else outputs

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Return the best class of each sample, (n,), or indicators of its labels, (n, L)."""
        scores = self.scores(outputs)
        if self.multilabel:
            return (scores > 0).astype(np.int64)
        return self.classes[
            (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        ]

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Return probabilities of classes, (n, K), or of labels, (n, L), for the logistic loss."""
        scores = self.scores(outputs)
        if self.multilabel:
            return expit(scores)
        if self.multinomial:
            return softmax(scores, axis=1)
        each = expit(np.column_stack([-scores, scores]) if scores.ndim == 1 else scores)
        return each / each.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class NumberDecoder:
    """Decoder of the outputs of a regression, to conditional means."""

    loss: PointwiseLoss

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Return predictions (n,), or (n, K) for several outputs."""
        means = self.loss.mean(outputs)
        return means if means.shape[1] > 1 else means[:, 0]


def encode_classes(
    y: np.ndarray,
    weights: np.ndarray | None,
    class_weight: str | dict | None,
    warns: bool = True,
    what: str = "y",
) -> tuple[np.ndarray, np.ndarray | None, ClassDecoder]:
    """Convert classes (N,), or binary indicators of labels (N, L), to targets -1 and +1 of P
    problems.

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
        is_binary, y = np.isin(y, (0, 1)).all(), y != 0
        varying = np.flatnonzero(y.any(axis=0) & ~y.all(axis=0))
        if not is_binary or not len(varying):
            found = f"{what} has {y.shape[1]} columns"
            raise InputError(
                f"{found}, which must hold 0 and 1, for labels that a sample has or not."
            )
        constant = {k: bool(y[0, k]) for k in range(y.shape[1]) if k not in varying}
        if constant and warns:
            warn_caller(
                f"{len(constant)} of {y.shape[1]} labels are those of all samples, or of none, and are predicted so: "
                f"columns {', '.join(map(str, list(constant)[:5]))} of y.",
                DataWarning,
            )
        return (
            np.where(y[:, varying], 1.0, -1.0),
            weights,
            ClassDecoder(np.arange(y.shape[1]), True, constant),
        )
    classes, codes = np.unique(checked_classes(np.asarray(y)), return_inverse=True)
    # data frames have strings as objects, which model files cannot store
    classes = label_array(classes.tolist()) if classes.dtype.hasobject else classes
    if len(classes) < 2:
        raise InputError(
            f"{what} holds one class only, {classes.tolist()[0]!r}: a classifier needs two."
        )
    members = np.arange(len(classes)) if len(classes) > 2 else np.array([1])
    signs = np.where(codes[:, None] == members, 1.0, -1.0)
    return signs, weighted_by_class(class_weight, classes, codes, weights), ClassDecoder(classes)


def has_log_odds(estimator: BaseEstimator) -> bool:
    """Return whether the scores of a batch classifier are log-odds."""
    return isinstance(resolve(PointwiseLoss, estimator.loss, "loss"), Logistic)


def is_probabilistic(estimator: BaseEstimator) -> bool:
    """Return True if scores of a batch classifier are log-odds, else raise AttributeError; for
    ``available_if``.
    """
    if has_log_odds(estimator):
        return True
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="logistic", not with loss={estimator.loss!r}; '
        "CalibratedClassifierCV of scikit-learn learns some for any loss."
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
    label: object,
    against: object,
    target: int,
) -> Contrast:
    """Return the contrast to explain for a sample with outputs (P,).

    For classes, ``label`` is compared with ``against``, by default the predicted class with the
    best other class. ``target`` is the index of a label for several labels per sample, or of an
    output of a regression.
    """
    if isinstance(decoder, ClassDecoder) and not decoder.multilabel:
        return _classes(decoder, outputs, label, against)
    varying = decoder.varying.tolist() if isinstance(decoder, ClassDecoder) else range(len(outputs))
    if label is not None or against is not None or target not in varying:
        learned = ", ".join(map(str, varying[:5]))
        raise InputError(
            f"target must be the number of a learned label or output ({learned}), without label= and against=, "
            f"got {target!r}."
        )
    weights = np.eye(len(outputs))[varying.index(target)]
    if isinstance(decoder, ClassDecoder):
        there = bool(weights @ outputs > 0)
        return Contrast(
            weights * (1 if there else -1),
            there,
            not there,
            f"label {target}: {'yes' if there else 'no'}",
        )
    return Contrast(
        weights, float(decoder.decode((weights @ outputs)[None, None])[0]), None, "prediction"
    )


def _classes(
    decoder: ClassDecoder, outputs: np.ndarray, label: object, against: object
) -> Contrast:
    """Return the contrast of two classes."""
    classes, members, K = decoder.classes, decoder.classes.tolist(), len(decoder.classes)
    scores = outputs if K == 2 else decoder.scores(outputs[None])[0]

    def code(given: object) -> int:
        if given not in members:
            raise InputError(
                f"{given!r} is not one of the model's classes, {', '.join(map(repr, members[:5]))}."
            )
        return members.index(given)

    best = int(scores[0] > 0) if K == 2 else int(np.argmax(scores))
    chosen = best if label is None else code(label)
    other = other_class(K, scores, chosen) if against is None else code(against)
    weights = np.zeros(len(outputs))
    if K == 2:
        weights[0] = chosen - other
    elif chosen != other:
        weights[[chosen, other]] = 1.0, -1.0
    return Contrast(
        weights,
        classes[chosen],
        classes[other],
        f"{members[chosen]!r} rather than {members[other]!r}",
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


def read_groups(groups: ArrayLike | dict | None, columns: Sequence[str] | None) -> ColumnNames:
    """Validate groups of columns: None, an array of labels, lists of positions or names, or a dict
    of such lists.

    ``columns`` are the names of all columns, or None. A name that occurs k times is a column with k
    categories: groups hold all of these, and positions and labels count it once.
    """
    if columns is not None and len(distinct := list(dict.fromkeys(columns))) < len(columns):
        found, members = (
            read_groups(groups, distinct),
            [column_block(columns, name) for name in distinct],
        )
        if isinstance(found.groups, list):
            known = dict(enumerate(members))
            return found._replace(
                groups=[[k for j in own for k in known.get(j, [-1])] for own in found.groups]
            )
        labels = np.arange(len(members)) if found.groups is None else found.groups
        if len(labels) != len(members):
            raise InputError(
                f"groups must have a label for each of the {len(members)} columns of X."
            )
        return found._replace(groups=np.repeat(labels, list(map(len, members))))
    if groups is None:
        return ColumnNames(None, None if columns is None else list(map(str, columns)))
    if not isinstance(groups, dict) and not (
        isinstance(groups, (list, tuple)) and any(map(_has_members, groups))
    ):
        labels, distinct = np.asarray(groups), None
        with suppress(TypeError):  # invalid labels are rejected later
            distinct = np.unique(labels).tolist()
        return ColumnNames(labels, distinct)
    names, members = (list(groups), groups.values()) if isinstance(groups, dict) else (None, groups)
    place = {name: j for j, name in enumerate(() if columns is None else columns)}
    unfit = [
        own
        for own in members
        if not _has_members(own) or any(isinstance(c, str) and c not in place for c in own)
    ]
    if unfit:
        raise InputError(
            f"groups must hold lists of columns of X, by number or name, got {shown(unfit[0])}."
        )
    return ColumnNames(
        [[place[c] if isinstance(c, str) else c for c in own] for own in members], names
    )


def groups_of(model: BaseEstimator) -> ColumnNames:
    """Return the groups of the columns that a linear model learned from; the last is "missing", if
    there is any.
    """
    columns, n_absent = source_columns(model), len(model.__dict__.get("missing_columns_", ()))
    if columns is None or not n_absent:
        return read_groups(model.groups, columns)
    n_own = len(columns) - n_absent
    found = read_groups(model.groups, columns[:n_own])
    names = None if found.names is None else [*found.names, MISSING]
    if isinstance(found.groups, list):
        return ColumnNames([*found.groups, list(range(n_own, len(columns)))], names)
    codes = np.unique(
        np.arange(n_own) if found.groups is None else found.groups, return_inverse=True
    )[1]
    return ColumnNames(np.append(codes, np.full(n_absent, codes.max() + 1)), names)


def _has_members(group: object) -> bool:
    """Return whether this is a list of columns, and not a label."""
    return isinstance(group, Iterable) and not isinstance(group, (str, bytes, dict))
