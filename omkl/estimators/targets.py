"""Encoding of labels and numbers, structures of outputs, and checks of targets."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._messages import listed
from omkl.data.frames import LARGEST, is_missing, text_array
from omkl.estimators.validation import as_numbers
from omkl.exceptions import InputError
from omkl.persistence import Manifest, Packer, Record, Unpacker, check_labels, object_array
from omkl.structures.base import Structure
from omkl.structures.multiclass import Binary, Multiclass, Scalar

#: Labels that a user declares, or GROWING; None for those of the training data.
Classes: TypeAlias = Sequence | str | None
#: Value of ``classes`` that allows new labels at any time.
GROWING = "growing"
#: Maximum number of targets for which scikit-learn cannot warn that classes look like numbers.
FEW_CLASSES = 20
#: Error for labels that cannot be keys of a dict.
UNHASHABLE = "Labels must be hashable: strings, numbers, tuples."


# ---- codes ---------------------------------------------------------------------------------------


def label_array(labels: Sequence) -> np.ndarray:
    """Convert labels to an array of strings or numbers if they share a type, else of objects.

    Strings of which one ends with a NUL are objects, too.
    """
    types = {str if isinstance(label, str) else type(label) for label in labels}
    if types == {str}:
        return text_array(labels)
    if len(types) == 1 and types <= {int, float, bool}:
        return np.array(labels)
    return object_array(labels)


class Labels:
    """Label set of a model, sorted if labels are comparable, else in order of appearance.

    Parameters
    ----------
    seen : iterable of hashable
        Labels, possibly repeated.
    grows : bool
        Whether labels may be added later. New labels are appended.
    """

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        self.grows = grows
        self.labels: list = []
        self._index: dict[Any, int] = {}
        self._extend(seen, sort=not grows)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, labels: Iterable) -> int:
        """Add unknown labels, and return their number."""
        return self._extend(labels, sort=True)

    def _extend(self, labels: Iterable, sort: bool) -> int:
        try:
            new = [label for label in dict.fromkeys(labels) if label not in self._index]
        except TypeError:
            raise InputError(UNHASHABLE) from None
        # scalars of Python, not NumPy, can be saved
        new = [label.item() if isinstance(label, np.generic) else label for label in new]
        for label in new:
            if is_missing(label):
                raise InputError(f"Labels must not be missing, got {label!r}.")
        if sort:
            with suppress(TypeError):
                new.sort()
        self._index.update({label: k for k, label in enumerate(new, len(self.labels))})
        self.labels += new
        return len(new)

    def as_array(self) -> np.ndarray:
        """Return the labels as an array; see :func:`label_array`."""
        return label_array(self.labels)

    def encode(self, labels: Iterable) -> np.ndarray:
        """Return the codes of labels as an int array."""
        try:
            return np.fromiter(map(self._index.__getitem__, labels), np.int64)
        except TypeError:
            raise InputError(UNHASHABLE) from None
        except KeyError as unknown:
            raise InputError(
                f"The label {unknown.args[0]!r} must be one of the labels of the model, "
                f"{listed(self.labels, 5)}."
            ) from None

    def learned(self) -> Manifest:
        """Learned attributes of the estimator, by name."""
        return {"classes_": self.as_array()}

    def columns(self, n_outputs: int) -> list[Record]:
        """Return the label of each column of potentials as a dict.

        A single column is for the second label.
        """
        labels = self.labels if n_outputs > 1 else self.labels[1:]
        return [{"label": label} for label in labels]

    def pack(self, packer: Packer) -> Manifest:
        """Entries of a model file's manifest."""
        check_labels(self.labels)
        return {"labels": packer.pack(self.labels, "y"), "labels_grow": self.grows}

    @classmethod
    def unpack(cls, manifest: Manifest, unpacker: Unpacker) -> Self:
        """The inverse of :meth:`pack`."""
        return cls(unpacker.unpack(manifest["labels"]), manifest["labels_grow"])


class Targets:
    """Real targets, encoded as their difference from ``level``."""

    grows = False

    def __init__(self, level: float) -> None:
        self.level = float(level)

    @classmethod
    def around_median(cls, y: ArrayLike, weights: np.ndarray | None = None) -> "Targets":
        """Make targets with their (weighted) median as the level."""
        order = np.argsort(y, kind="stable")
        if weights is None:
            weights = np.ones(len(order))
        masses = np.cumsum(weights[order])
        return cls(np.asarray(y)[order[np.searchsorted(masses, 0.5 * masses[-1])]])

    def encode(self, y: Sequence) -> np.ndarray:
        """Return targets minus the level."""
        return np.asarray(y, dtype=np.float64) - self.level

    def learned(self) -> Manifest:
        """Learned attributes of the estimator, by name."""
        return {"level_": self.level}

    def columns(self, n_outputs: int) -> list[Record]:
        """Return an empty dict for the single column, which has no label."""
        return [{}]

    def pack(self, packer: Packer) -> Manifest:
        """Entries of a model file's manifest."""
        return {"level": self.level}

    @classmethod
    def unpack(cls, manifest: Manifest, unpacker: Unpacker) -> Any:
        """The inverse of :meth:`pack`."""
        return cls(manifest["level"])


# ---- outputs -------------------------------------------------------------------------------------


#: Codes of a kind of outputs, and their structure.
OwnCodes = TypeVar("OwnCodes", bound=Labels | Targets)
OwnStructure = TypeVar("OwnStructure", bound=Structure)


class Outputs(ABC, Generic[OwnCodes, OwnStructure]):
    """Kind of outputs of a model on tokens; by default, of single rows.

    With ``fit_intercept``, each potential of a row has a learned constant.
    """

    #: Whether a sequence has a single output, instead of one for each token.
    single: ClassVar[bool] = True
    #: :class:`Labels` or :class:`Targets`, or a subclass.
    codes: ClassVar[type[Labels] | type[Targets]]

    def __init__(self, fit_intercept: bool) -> None:
        self._fit_intercept = fit_intercept

    @abstractmethod
    def learn(self, labels: Sequence, weights: np.ndarray | None) -> OwnCodes:
        """Learn the codes from the labels of the first data."""

    @abstractmethod
    def structure(self, codes: OwnCodes) -> OwnStructure:
        """Return the structure over these codes."""

    def check(
        self, structure: OwnStructure, codes: OwnCodes, gold: np.ndarray, offsets: np.ndarray
    ) -> None:
        """Raise an InputError if the structure cannot predict these training outputs.

        Rows accept all. ``gold`` (N,) are codes, of sequences with these ``offsets``.
        """
        return

    def banks(self, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Return banks that do not depend on the input: regularized ones and unregularized ones.

        ``longest`` is the length of the longest sequence, for transitions that depend on the
        position.
        """
        if not self._fit_intercept:
            return [], []
        from omkl.groups.tables import InterceptBank

        return [], [InterceptBank(n_outputs, averaging)]


def learn_labels(
    codes: type[Labels], labels: Iterable, classes: Iterable | None, cost: ArrayLike | None
) -> Labels:
    """Make codes of the training labels or of declared ``classes``.

    With ``cost``, classes cannot be "growing".
    """
    if classes is None:
        return codes(labels)
    if not isinstance(classes, str):
        return codes(classes)
    if classes != GROWING or cost is not None:
        raise InputError(
            f'classes must be labels, or "{GROWING}" where cost is None, got {classes!r}.'
        )
    return codes(labels, grows=True)


class ClassOutputs(Outputs[Labels, Binary | Multiclass]):
    """One class per input.

    See :class:`~omkl.OnlineMKLClassifier` for ``cost`` (K, K) and ``classes``.
    """

    codes = Labels

    def __init__(
        self,
        fit_intercept: bool,
        cost: ArrayLike | None = None,
        classes: Classes = None,
    ) -> None:
        super().__init__(fit_intercept)
        self._cost = cost
        self._classes = classes

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """Learn the codes from the labels of the first data, of at least two classes."""
        codes = learn_labels(Labels, labels, self._classes, self._cost)
        if len(codes) < 2 and not codes.grows:
            raise InputError(
                f"y holds one class only, {codes.labels[0]!r}: a classifier needs two, or classes=."
            )
        return codes

    def structure(self, codes: Labels) -> Binary | Multiclass:
        """Return a structure with one potential for two classes, else with one per class."""
        is_binary = len(codes) == 2 and self._cost is None and not codes.grows
        if is_binary:
            return Binary()
        return Multiclass(len(codes), self._cost)


class NumberOutputs(Outputs[Targets, Scalar]):
    """One number per input; with an intercept, relative to the median of the targets."""

    codes = Targets

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Targets:
        """Learn the level of the targets."""
        if self._fit_intercept:
            return Targets.around_median(labels, weights)
        return Targets(0.0)

    def structure(self, codes: Targets) -> Scalar:
        """Return a structure with one potential."""
        return Scalar()


# ---- checks --------------------------------------------------------------------------------------


def finite_targets(y: ArrayLike) -> np.ndarray:
    """Validate regression targets, (n,) or (n, K): finite numbers with magnitude up to 1e100."""
    numbers = as_numbers(y, "y")
    is_refused = ~(np.abs(numbers) <= LARGEST)
    if is_refused.any():
        index = tuple(np.argwhere(is_refused)[0])
        raise InputError(
            f"y must hold finite numbers up to {LARGEST:g}, got {numbers[index]} in row {index[0]}."
        )
    return numbers


def checked_classes(y: np.ndarray, first: bool = True) -> np.ndarray:
    """Return classes; raise an InputError for missing ones, mixed types, or continuous targets.

    Only among the ``first`` targets of a model, integers and strings that look continuous get a
    warning.
    """
    if y.dtype == object:
        _check_objects(y)
    is_plain = y.dtype.kind in "biuU"
    cannot_warn = is_plain and len(y) <= FEW_CLASSES
    if not cannot_warn and (first or not is_plain):
        from sklearn.utils.multiclass import check_classification_targets

        check_classification_targets(y)
    return y


def _check_objects(y: np.ndarray) -> None:
    """Raise an InputError for missing labels, and for strings among others."""
    flaw = ""
    types = {"str" if isinstance(label, str) else type(label).__name__ for label in y}
    if len(types) > 1 and "str" in types:
        flaw = " and ".join(sorted(types))
    for i, label in enumerate(y):
        if is_missing(label):
            flaw = f"{label!r} in row {i}"
            break
    if flaw:
        raise InputError(
            f"y must have a label in every row, only strings or only numbers, got {flaw}."
        )


def has_columns(y: ArrayLike | sparse.sparray) -> bool:
    """Check whether targets have several columns."""
    try:
        shape = y.shape if sparse.issparse(y) else np.asarray(y).shape
    except ValueError:
        return False
    return len(shape) == 2 and shape[1] > 1
