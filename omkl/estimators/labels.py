"""Labels of any hashable kind, and their indices."""

from contextlib import suppress

import numpy as np

from omkl.exceptions import InputError


class Labels:
    """The label set of a model, in sorted order where its members can be compared, else as they first appeared.

    Parameters
    ----------
    seen : iterable of hashable
        Labels, repeated or not.
    """

    def __init__(self, seen):
        try:
            distinct = list(dict.fromkeys(seen))
        except TypeError:
            raise InputError("Labels must be hashable: strings, numbers, tuples.") from None
        if any(isinstance(label, float) and label != label for label in distinct):
            raise InputError("A label is nan: give every token a label.")
        with suppress(TypeError):
            distinct.sort()
        self.members = distinct
        self._index = {label: k for k, label in enumerate(distinct)}

    def __len__(self):
        return len(self.members)

    def as_array(self):
        """The labels as an array: of their own kind where they share one, of objects otherwise."""
        if len({type(label) for label in self.members}) == 1 and isinstance(self.members[0], (str, int, float, bool)):
            return np.array(self.members)
        array = np.empty(len(self.members), dtype=object)
        array[:] = self.members
        return array

    def indices(self, labels, advice):
        """Index of each label; an unknown one is an error that ends with ``advice``."""
        try:
            return np.array(list(map(self._index.__getitem__, labels)), dtype=np.int64)
        except KeyError as unknown:
            raise InputError(f"The label {unknown.args[0]!r} was not seen in training: {advice}") from None
        except TypeError:
            raise InputError("Labels must be hashable: strings, numbers, tuples.") from None


def flat_labels(y, lengths):
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
