"""Outputs of models: codes of labels and numbers, their structures, and weights of examples and classes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets

from omkl._messages import listed
from omkl.data.frames import are_few_classes
from omkl.estimators.numeric import as_numbers
from omkl.exceptions import InputError
from omkl.groups import InterceptBank
from omkl.persistence import Packer, Unpacker, check_labels
from omkl.structures import Binary, Multiclass, Scalar

#: The value of ``classes`` that accepts new labels at any time.
GROWING = "growing"
NUMPY_SCALARS = (np.integer, np.floating, np.bool_, np.str_)


# ---- codes ------------------------------------------------------------------------------------------------------


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
        # Python's scalars make arrays of their kind, and can be saved
        distinct = [label.item() if isinstance(label, NUMPY_SCALARS) else label for label in distinct]
        for label in distinct:
            if is_missing(label):
                raise InputError(f"Labels must not be missing, got {label!r}.")
        if not grows:
            with suppress(TypeError):
                distinct.sort()
        self.grows = grows
        self.members = distinct
        self._index = {label: k for k, label in enumerate(distinct)}

    def __len__(self) -> int:
        return len(self.members)

    def add(self, labels: Iterable) -> int:
        """Add labels that are not known yet.

        Returns
        -------
        int
            The number of new labels.
        """
        labels = list(labels)
        with suppress(TypeError):  # Labels() below refuses labels that are not hashable
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
        """Codes of labels.

        Parameters
        ----------
        labels : iterable of hashable
        advice : str
            The end of the error message for an unknown label.

        Returns
        -------
        int array
        """
        try:
            return np.array(list(map(self._index.__getitem__, labels)), dtype=np.int64)
        except KeyError as unknown:
            raise InputError(f"The label {unknown.args[0]!r} is not one of the model's {len(self)}: {advice}") from None
        except TypeError:
            raise InputError("Labels must be hashable: strings, numbers, tuples.") from None

    def learned(self) -> dict[str, Any]:
        """Learned attributes of the estimator, by name."""
        return {"classes_": self.as_array()}

    def columns(self, n_outputs: int) -> list[dict[str, Any]]:
        """The label of each column of the potentials, as an entry of a record; a single column is for the second."""
        return [{"label": label} for label in (self.members if n_outputs > 1 else self.members[1:])]

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Entries of a model file's manifest."""
        check_labels(self.members)
        return {"labels": packer.pack(self.members, "y"), "labels_grow": self.grows}

    @classmethod
    def unpack(cls, manifest: dict[str, Any], unpacker: Unpacker) -> Any:
        """The inverse of :meth:`pack`."""
        return cls(unpacker.unpack(manifest["labels"]), manifest["labels_grow"])


class Targets:
    """Real targets; the model learns their difference from ``level``.

    Parameters
    ----------
    level : float
    """

    grows = False

    def __init__(self, level: float) -> None:
        self.level = float(level)

    @classmethod
    def around_median(cls, y: ArrayLike, weights: np.ndarray | None = None) -> "Targets":
        """Targets with their (weighted) median as the level."""
        order = np.argsort(y, kind="stable")
        masses = np.cumsum(np.ones(len(order)) if weights is None else weights[order])
        return cls(np.asarray(y)[order[np.searchsorted(masses, 0.5 * masses[-1])]])

    def encode(self, y: Sequence, advice: str) -> np.ndarray:
        """Targets minus the level."""
        return np.asarray(y, dtype=np.float64) - self.level

    def learned(self) -> dict[str, Any]:
        """Learned attributes of the estimator, by name."""
        return {"level_": self.level}

    def columns(self, n_outputs: int) -> list[dict[str, Any]]:
        """Empty entries, as there is one column without a name."""
        return [{}]

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Entries of a model file's manifest."""
        return {"level": self.level}

    @classmethod
    def unpack(cls, manifest: dict[str, Any], unpacker: Unpacker) -> Any:
        """The inverse of :meth:`pack`."""
        return cls(manifest["level"])


# ---- outputs ----------------------------------------------------------------------------------------------------


class Outputs(Protocol):
    """The kind of outputs of a model on tokens.

    Attributes
    ----------
    single : bool
        Whether the output of a sequence is one code, instead of one for each token.
    codes : type
        :class:`Labels` or :class:`Targets`, or a subclass.
    """

    single: bool
    codes: Any

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Any:
        """Learn the codes from the labels of the first data."""

    def structure(self, known: Any) -> Any:
        """The structure over these codes."""

    def check(self, structure: Any, known: Any, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an InputError for training outputs that the structure cannot predict."""

    def banks(self, structure: Any, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Banks that do not see the input: regularized ones, and free ones."""


def learn_labels(codes: type[Labels], labels: Iterable, classes: Any, cost: Any) -> Labels:
    """The codes of training labels: all labels that were seen, or the declared ``classes``.

    Parameters
    ----------
    codes : type
    labels : iterable
    classes : sequence, "growing" or None
    cost : array, optional
        Needs all labels to be known.
    """
    if not isinstance(classes, str):
        return codes(labels if classes is None else classes)
    if classes != GROWING:
        raise InputError(f'classes must be labels or "{GROWING}", got {classes!r}.')
    if cost is not None:
        raise InputError(f'cost must be None with classes="{GROWING}", as it needs all labels.')
    return codes(labels, grows=True)


class ClassOutputs:
    """One class for an input.

    Parameters
    ----------
    fit_intercept : bool
    cost : array of shape (K, K), optional
    classes : sequence, "growing" or None
    """

    single = True
    codes: Any = Labels

    def __init__(self, fit_intercept: bool, cost: Any = None, classes: Any = None) -> None:
        self._fit_intercept = fit_intercept
        self._cost = cost
        self._classes = classes

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """Learn the codes from the labels of the first data."""
        return learn_labels(self.codes, labels, self._classes, self._cost)

    def structure(self, known: Labels) -> Binary | Multiclass:
        """A single potential for two classes, else one for each."""
        binary = len(known) == 2 and self._cost is None and not known.grows
        check_cost_names(self._cost, known.members)
        return Binary() if binary else Multiclass(len(known), self._cost)

    def check(self, structure: Any, known: Any, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Accept all classes."""

    def banks(self, structure: Any, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """The intercept, which is free."""
        return [], [InterceptBank(n_outputs, averaging)] if self._fit_intercept else []


class NumberOutputs:
    """One number for an input, counted from the median of the targets where there is an intercept.

    Parameters
    ----------
    fit_intercept : bool
    """

    single = True
    codes: Any = Targets

    def __init__(self, fit_intercept: bool) -> None:
        self._fit_intercept = fit_intercept

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Targets:
        """Learn the level of the targets."""
        return Targets.around_median(labels, weights) if self._fit_intercept else Targets(0.0)

    def structure(self, known: Targets) -> Scalar:
        """One potential."""
        return Scalar()

    def check(self, structure: Any, known: Any, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Accept all numbers."""

    def banks(self, structure: Any, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """The intercept, which is free."""
        return [], [InterceptBank(n_outputs, averaging)] if self._fit_intercept else []


# ---- checks -----------------------------------------------------------------------------------------------------


def is_missing(label: Any) -> bool:
    """Check for a missing label: None, nan, or pandas' NA or NaT."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def checked_classes(y: np.ndarray) -> np.ndarray:
    """Return classes as they are; raise an InputError where one is missing, or they are numbers of a regression."""
    if y.dtype == object:
        for i, label in enumerate(y):
            if is_missing(label):
                raise InputError(f"y must have a label in every row, got {label!r} in row {i}.")
        kinds = {"str" if isinstance(label, str) else type(label).__name__ for label in y}
        if len(kinds) > 1 and "str" in kinds:
            raise InputError(f"y must hold only strings or only numbers, got {' and '.join(sorted(kinds))}.")
    if not are_few_classes(y):
        check_classification_targets(y)
    return y


def has_columns(y: Any) -> bool:
    """Check whether targets have several columns."""
    try:
        shape = y.shape if sparse.issparse(y) else np.asarray(y).shape
    except ValueError:
        return False
    return len(shape) == 2 and shape[1] > 1


def check_cost_names(cost: Any, labels: list) -> None:
    """Raise where the rows or columns of a data frame of costs have the names of labels, and another order."""
    if not hasattr(cost, "reindex"):
        return
    for axis, names in (("rows", cost.index), ("columns", cost.columns)):
        if set(names) == set(labels) and list(names) != labels:
            raise InputError(f"The {axis} of cost must be in the order of the labels, {listed(labels, 5)}.")


# ---- weights ----------------------------------------------------------------------------------------------------


def weights_of_classes(class_weight: Any, classes: Sequence, sums: np.ndarray) -> np.ndarray:
    """Weight of each class, as scikit-learn defines ``class_weight``.

    Parameters
    ----------
    class_weight : "balanced" or dict
        "balanced" is n / (K n_k) for the n_k of n examples that are of class k; a dict gives weights, 1 by default.
    classes : sequence of K labels
    sums : array of shape (K,)
        The sum of the sample weights of each class, n_k.

    Returns
    -------
    array of shape (K,)
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        present = sums > 0
        balanced = sum(sums.tolist()) / (np.count_nonzero(present) * np.where(present, sums, 1.0))
        return np.where(present, balanced, 1.0)
    if not isinstance(class_weight, dict):
        raise InputError(f'class_weight must be None, "balanced" or a dict, got {class_weight!r}.')
    weights = np.array([class_weight.get(label, 1.0) for label in classes], dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("class_weight must hold finite numbers >= 0.")
    return weights


def class_weights(
    class_weight: Any, labels: Sequence, offsets: np.ndarray, sample_weight: np.ndarray | None, whole: bool
) -> np.ndarray | None:
    """Sample weights times the weights of the classes; see :func:`weights_of_classes`.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
    labels : sequence of n labels
        None for labels that are not known.
    offsets : int array
        Sequence s has the labels ``offsets[s] : offsets[s + 1]``; its weight is the mean over its known labels.
    sample_weight : array, optional
    whole : bool
        Whether these are all examples, which "balanced" needs.
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, str) and class_weight == "balanced" and not whole:
        raise InputError('class_weight="balanced" counts all examples: give a dict to partial_fit, or for a stream.')
    index = {label: k for k, label in enumerate(dict.fromkeys(label for label in labels if label is not None))}
    codes = np.array([-1 if label is None else index[label] for label in labels], dtype=np.int64)
    given, lengths = codes >= 0, np.diff(offsets)
    copies = np.repeat(np.ones(len(lengths)) if sample_weight is None else sample_weight, lengths)
    if whole and isinstance(class_weight, dict) and not index.keys() <= class_weight.keys():
        unknown = [label for label in class_weight if label not in index]
        if unknown:
            raise InputError(f"class_weight has a weight for {unknown[0]!r}, which is no label of y.")
    of_classes = weights_of_classes(class_weight, list(index), np.bincount(codes[given], copies[given], len(index)))
    each = np.append(of_classes, 0.0)[codes]  # 0 at the code -1
    means = np.add.reduceat(each, offsets[:-1]) / np.maximum(np.add.reduceat(given, offsets[:-1], dtype=int), 1)
    weights = means if sample_weight is None else means * sample_weight
    if whole and not weights.any():
        raise InputError("class_weight leaves no example a weight above 0.")
    return weights


@overload
def check_sample_weight(sample_weight: None, n: int) -> None: ...


@overload
def check_sample_weight(sample_weight: ArrayLike, n: int) -> np.ndarray: ...


def check_sample_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights as an array of n finite numbers >= 0, not all 0; None stays None, and one number is for all."""
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight")
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    if weights.shape != (n,):
        raise InputError(f"sample_weight must have shape ({n},), one weight for each example, got {weights.shape}.")
    if not (weights <= 1e100).all() or (weights < 0).any():
        raise InputError("sample_weight must hold finite numbers >= 0.")
    if not weights.any():
        raise InputError("sample_weight must not be zero for every example.")
    return weights
