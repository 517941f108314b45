"""What outputs are: labels of any hashable kind and their indices, or numbers and the level they are counted from."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from omkl.exceptions import InputError
from omkl.persistence import Packer, Unpacker, check_labels


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
        new = [label for label in Labels(labels).members if label not in self._index]
        self._index.update({label: len(self.members) + k for k, label in enumerate(new)})
        self.members += new
        return len(new)

    def as_array(self) -> np.ndarray:
        """The labels as an array: of their own kind where they share one, of objects otherwise."""
        if len({type(label) for label in self.members}) == 1 and isinstance(self.members[0], (str, int, float, bool)):
            return np.array(self.members)
        array = np.empty(len(self.members), dtype=object)
        array[:] = self.members
        return array

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
    check_classification_targets(y)
    return y


def flat_labels(y: Any, lengths: np.ndarray) -> list:
    """Labels of all tokens in one list, checked against the lengths of the sequences they belong to."""
    if not hasattr(y, "__len__") or isinstance(y, (str, bytes, dict)):
        raise InputError("y must be a list of sequences of labels, one for each sequence of X.")
    if len(y) != len(lengths):
        raise InputError(f"X has {len(lengths)} sequences but y has {len(y)}: give one label sequence for each.")
    flat = []
    for i, (labels, length) in enumerate(zip(y, lengths)):
        if not hasattr(labels, "__len__"):
            raise InputError(f"Sequence {i} of y is {labels!r}: give one label for each token, as a list or an array.")
        if len(labels) != length:
            raise InputError(f"Sequence {i} has {length} tokens in X but {len(labels)} labels in y.")
        flat += labels.tolist() if isinstance(labels, np.ndarray) else labels
    return flat
