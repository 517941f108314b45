"""What a model predicts: the codes of outputs, their structure, and the groups that do not see the input."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets

from omkl.data.rows import are_few_classes
from omkl.estimators.arrays import as_numbers
from omkl.estimators.constraints import check_transitions
from omkl.exceptions import InputError
from omkl.groups import InterceptBank, TransitionBank, TrigramBank
from omkl.persistence import Packer, Unpacker, check_labels
from omkl.structures import Binary, Chain, Multiclass, Scalar, allowed_transitions

#: What ``classes`` is where labels are taken in as they come.
GROWING = "growing"
PLAIN_SCALARS = (np.integer, np.floating, np.bool_, np.str_)


def label_array(labels: Sequence) -> np.ndarray:
    """Labels as an array: of strings or numbers where all are, of objects otherwise."""
    kinds = {str if isinstance(label, str) else type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


class Labels:
    """The label set of a model, in sorted order where its members can be compared, else as they first appeared.

    Parameters
    ----------
    seen : iterable of hashable
        Labels, repeated or not.
    grows : bool
        Whether labels may be added later; they come after the others.
    """

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        try:
            distinct = list(dict.fromkeys(seen))
        except TypeError:
            raise InputError("Labels must be hashable: strings, numbers, tuples.") from None
        # as Python's, scalars of numpy make arrays of their kind, and can be saved
        distinct = [label.item() if isinstance(label, PLAIN_SCALARS) else label for label in distinct]
        for label in distinct:
            if is_missing(label):
                raise InputError(f"A label is {label!r}: give every example a label, or leave it out.")
        if not grows:
            with suppress(TypeError):
                distinct.sort()
        self.grows = grows
        self.members = distinct
        self._index = {label: k for k, label in enumerate(distinct)}

    def __len__(self) -> int:
        return len(self.members)

    def add(self, labels: Iterable) -> int:
        """Take in labels that are not known yet; returns how many there are."""
        labels = list(labels)
        with suppress(TypeError):  # of labels that are not hashable, which are refused below
            if all(map(self._index.__contains__, labels)):
                return 0
        new = [label for label in Labels(labels).members if label not in self._index]
        self._index.update({label: len(self.members) + k for k, label in enumerate(new)})
        self.members += new
        return len(new)

    def as_array(self) -> np.ndarray:
        """The labels as an array: of their own kind where they share one, of objects otherwise."""
        return label_array(self.members)

    def encode(self, labels: Iterable, advice: str) -> np.ndarray:
        """Index of each label; an unknown one is an error that ends with ``advice``."""
        try:
            return np.array(list(map(self._index.__getitem__, labels)), dtype=np.int64)
        except KeyError as unknown:
            raise InputError(f"The label {unknown.args[0]!r} is not one of the model's {len(self)}: {advice}") from None
        except TypeError:
            raise InputError("Labels must be hashable: strings, numbers, tuples.") from None

    def learned(self) -> dict[str, Any]:
        """What an estimator shows of it, by name."""
        return {"classes_": self.as_array()}

    def columns(self, n_outputs: int) -> list[dict[str, Any]]:
        """What each column of potentials stands for, as an entry of a record; a single one scores the second label."""
        return [{"label": label} for label in (self.members if n_outputs > 1 else self.members[1:])]

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Entries of a model file's manifest."""
        check_labels(self.members)
        return {"labels": packer.pack(self.members, "y"), "labels_grow": self.grows}

    @classmethod
    def unpack(cls, manifest: dict[str, Any], unpacker: Unpacker) -> Any:
        """The inverse of :meth:`pack`."""
        return cls(unpacker.unpack(manifest["labels"]), manifest["labels_grow"])


class PartialLabels(Labels):
    """Labels of tokens, some of which are not known: None stands for any of them, and its code is -1."""

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        super().__init__(seen, grows)
        self._index[None] = -1

    def add(self, labels: Iterable) -> int:
        """Take in labels that are not known yet; returns how many there are."""
        return super().add(label for label in labels if label is not None)


class Targets:
    """Real targets, and the level that they are counted from.

    Parameters
    ----------
    level : float
        What the model adds to: it learns ``y - level``.
    """

    grows = False

    def __init__(self, level: float) -> None:
        self.level = float(level)

    @classmethod
    def around_median(cls, y: Any, weights: np.ndarray | None = None) -> "Targets":
        """Counted from the (weighted) median: in the middle of the targets, and no outlier moves it."""
        order = np.argsort(y, kind="stable")
        masses = np.cumsum(np.ones(len(y)) if weights is None else weights[order])
        return cls(np.asarray(y)[order[np.searchsorted(masses, 0.5 * masses[-1])]])

    def encode(self, y: Sequence, advice: str) -> np.ndarray:
        """Targets as the trainer takes them."""
        return np.asarray(y, dtype=np.float64) - self.level

    def learned(self) -> dict[str, Any]:
        """What an estimator shows of it, by name."""
        return {"level_": self.level}

    def columns(self, n_outputs: int) -> list[dict[str, Any]]:
        """The one column of potentials needs no name."""
        return [{}]

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Entries of a model file's manifest."""
        return {"level": self.level}

    @classmethod
    def unpack(cls, manifest: dict[str, Any], unpacker: Unpacker) -> Any:
        """The inverse of :meth:`pack`."""
        return cls(manifest["level"])


def is_missing(label: Any) -> bool:
    """Whether something stands for no label: None, a nan of any kind, pandas' NA and NaT."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def checked_classes(y: np.ndarray) -> np.ndarray:
    """Classes as they are, if none is missing, and they are no numbers of a regression."""
    if y.dtype == object:
        for i, label in enumerate(y):
            if is_missing(label):
                raise InputError(f"The label of row {i} is {label!r}: give every row a label, or leave it out.")
        kinds = {"str" if isinstance(label, str) else type(label).__name__ for label in y}
        if len(kinds) > 1 and "str" in kinds:
            listed = " and ".join(sorted(kinds))
            raise InputError(f"y holds classes of type {listed}: make all of them strings, or all numbers.")
    if not are_few_classes(y):
        check_classification_targets(y)
    return y


def has_columns(y: Any) -> bool:
    """Whether targets have several columns; what is no array has none."""
    try:
        shape = y.shape if sparse.issparse(y) else np.asarray(y).shape
    except ValueError:
        return False
    return len(shape) == 2 and shape[1] > 1


def flat_labels(y: Any, lengths: np.ndarray, what: str = "y") -> list:
    """Labels of all tokens in one list, checked against the lengths of the sequences they belong to."""
    if not hasattr(y, "__len__") or isinstance(y, (str, bytes, dict)):
        raise InputError(f"{what} must be a list of sequences of labels, one for each sequence of X.")
    if len(y) != len(lengths):
        raise InputError(f"X has {len(lengths)} sequences but {what} has {len(y)}: give one label sequence for each.")
    flat = []
    for i, (labels, length) in enumerate(zip(y, lengths)):
        if not hasattr(labels, "__len__"):
            raise InputError(
                f"Sequence {i} of {what} is {labels!r}: give one label for each token, as a list or an array."
            )
        if len(labels) != length:
            raise InputError(f"Sequence {i} has {length} tokens in X but {len(labels)} labels in {what}.")
        if isinstance(labels, (dict, set, frozenset)):
            raise InputError(
                f"Sequence {i} of {what} is a {type(labels).__name__}: give the labels as a list, in order."
            )
        flat.extend(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    return flat


def class_weights(
    class_weight: Any, labels: Sequence, offsets: np.ndarray, sample_weight: np.ndarray | None, whole: bool
) -> np.ndarray | None:
    """Sample weights times the weights of the classes, as scikit-learn's ``class_weight`` means it.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" is n / (K n_k) for the n_k of n tokens that are
        of class k, each counted as often as its sample weight says.
    labels : sequence of n labels
    offsets : int array
        Sequence s has the labels ``offsets[s] : offsets[s + 1]``; its weight is the mean over them.
    sample_weight : array, optional
    whole : bool
        Whether these are all the examples that there are, which "balanced" needs.
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        if not whole:
            raise InputError(
                'class_weight="balanced" counts all examples, which partial_fit and streams do not have: give a dict.'
            )
        counts: Counter = Counter()
        lengths = np.diff(offsets)
        copies = np.repeat(np.ones(len(lengths)) if sample_weight is None else sample_weight, lengths).tolist()
        for label, n in zip(labels, copies):
            if label is not None:
                counts[label] += n
        total, present = sum(counts.values()), sum(n > 0 for n in counts.values())
        weight_of = {label: total / (present * n) for label, n in counts.items() if n > 0}
    elif isinstance(class_weight, dict):
        weight_of, classes = class_weight, set(labels) - {None}
        if whole and not classes <= weight_of.keys() and not weight_of.keys() <= classes:
            unknown = next(label for label in weight_of if label not in classes)
            raise InputError(f"class_weight has a weight for {unknown!r}, which is no label of y.")
    else:
        raise InputError(f'class_weight must be None, "balanced" or a dict, not {class_weight!r}.')
    each = np.array([weight_of.get(label, 1.0) for label in labels], dtype=np.float64)
    if not np.isfinite(each).all() or (each < 0).any():
        raise InputError("class_weight must hold finite numbers >= 0.")
    given = np.array([label is not None for label in labels])
    means = np.add.reduceat(each * given, offsets[:-1]) / np.maximum(np.add.reduceat(given, offsets[:-1], dtype=int), 1)
    weights = means if sample_weight is None else means * sample_weight
    if whole and not weights.any():
        raise InputError("class_weight leaves no example a weight: nothing is left to train on.")
    return weights


@overload
def check_sample_weight(sample_weight: None, n: int) -> None: ...


@overload
def check_sample_weight(sample_weight: ArrayLike, n: int) -> np.ndarray: ...


def check_sample_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights as an array of n numbers >= 0, not all 0; None stays None, and one number is that of all."""
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight")
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}, but there are {n} examples: give one weight each.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("sample_weight must hold finite numbers >= 0.")
    if not weights.any():
        raise InputError("sample_weight is zero for every example: nothing is left to train on.")
    return weights


def check_cost_names(cost: Any, labels: list) -> None:
    """Raise where the rows or columns of a data frame of costs have the names of labels, and another order."""
    if not hasattr(cost, "reindex"):
        return
    for what, names in (("rows", cost.index), ("columns", cost.columns)):
        if set(names) == set(labels) and list(names) != labels:
            listed = ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
            raise InputError(f"The {what} of cost must be in the order of the labels, {listed}: sort them.")


class LabelOutputs:
    """Outputs that are labels: how their codes are learned."""

    codes: Any = Labels
    _cost: Any
    _classes: Any

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Any:
        """The codes of training labels: all that were seen, or the declared ones."""
        classes = self._classes
        if not isinstance(classes, str):
            return self.codes(labels if classes is None else classes)
        if classes != GROWING:
            raise InputError(f'classes must be labels, or "{GROWING}" to take in what comes, not {classes!r}.')
        if self._cost is not None:
            raise InputError(f'cost= is for labels that are known: declare them, instead of classes="{GROWING}".')
        return self.codes(labels, grows=True)

    def check(self, structure: Any, known: Any, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise where training outputs are none that the structure can predict."""


class ChainOutputs(LabelOutputs):
    """A label for every token of a sequence, as far as it is known.

    Parameters
    ----------
    transitions : {"free", "regularized", None}
    by_position : bool
    cost : array of shape (K, K), optional
    classes : sequence, "growing" or None
    allowed : str, dict, array or None
        See :func:`~omkl.structures.allowed_transitions`.
    order : {1, 2}
        Whether trigrams of labels are scored.
    """

    single = False
    codes = PartialLabels

    def __init__(
        self, transitions: Any, by_position: bool, cost: Any = None, classes: Any = None, allowed: Any = None,
        order: int = 1,
    ) -> None:  # fmt: skip
        if transitions not in ("regularized", "free", None):
            raise InputError(f'transitions must be "regularized", "free" or None, not {transitions!r}.')
        if by_position and transitions is None:
            raise InputError("transitions_by_position=True goes with transitions, which are None: set one of them.")
        self._transitions = transitions
        self._by_position = by_position
        self._cost = cost
        self._classes = classes
        self._allowed = allowed
        self._order = order

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> PartialLabels:
        """The codes of training labels, those that are known."""
        given = [label for label in labels if label is not None]
        if not given and self._classes is None:
            raise InputError("y holds no label, only None: give at least one.")
        return super().learn(given, weights)

    def structure(self, known: Labels) -> Chain:
        """The chain over these labels."""
        allowed = None if self._allowed is None else allowed_transitions(self._allowed, known.members)
        linked = self._transitions is not None
        check_cost_names(self._cost, known.members)
        return Chain(len(known), self._cost, self._by_position, linked, allowed, self._order)

    def check(self, structure: Chain, known: Labels, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise where labels break the transitions that are allowed."""
        if structure.allowed is not None:
            check_transitions(structure, gold, offsets, known.members)

    def banks(self, structure: Chain, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Banks that do not see the input: regularized ones, and free ones; ``longest`` is the longest sequence."""
        if self._transitions is None:
            return [], []
        banks: list = [TransitionBank(structure.n_labels, longest if self._by_position else 1, averaging)]
        if self._order == 2:
            banks.append(TrigramBank(structure.n_labels, averaging))
        return (banks, []) if self._transitions == "regularized" else ([], banks)


class ClassOutputs(LabelOutputs):
    """One class for an input.

    Parameters
    ----------
    fit_intercept : bool
    cost : array of shape (K, K), optional
    classes : sequence, "growing" or None
    """

    single = True

    def __init__(self, fit_intercept: bool, cost: Any = None, classes: Any = None) -> None:
        self._fit_intercept = fit_intercept
        self._cost = cost
        self._classes = classes

    def structure(self, known: Labels) -> Binary | Multiclass:
        """A single potential for two classes, else one for each."""
        binary = len(known) == 2 and self._cost is None and not known.grows
        check_cost_names(self._cost, known.members)
        return Binary() if binary else Multiclass(len(known), self._cost)

    def banks(self, structure: Any, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """The intercept, free."""
        return [], [InterceptBank(n_outputs, averaging)] if self._fit_intercept else []


class NumberOutputs(ClassOutputs):
    """One number for an input, counted from the median of the targets where there is an intercept."""

    codes = Targets

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Targets:
        """The level that targets are counted from."""
        return Targets.around_median(labels, weights) if self._fit_intercept else Targets(0.0)

    def structure(self, known: Targets) -> Scalar:  # type: ignore[override]
        """One potential."""
        return Scalar()
