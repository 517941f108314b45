"""RecentlyUsed, the index of a bounded cache with least-recently-used eviction."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any


class RecentlyUsed:
    """Map from keys to indices ``0 .. capacity - 1``, with least-recently-used eviction.

    The owner stores entries by index.

    Parameters
    ----------
    capacity : int >= 0
        Maximum number of entries.

    Examples
    --------
    >>> recent = RecentlyUsed(2)
    >>> entries = [None, None]
    >>> def fill(keys, indices):
    ...     for key, index in zip(keys, indices):
    ...         entries[index] = key.upper()
    >>> _ = recent.indices(["a", "b"], fill), recent.indices(["a", "c"], fill)
    >>> entries
    ['A', 'C']
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = int(capacity)
        # in order of use, least recently used first
        self._index_of: dict[Hashable, int] = {}
        self._free = list(range(self.capacity))[::-1]

    def __len__(self) -> int:
        return len(self._index_of)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._index_of

    def indices(
        self, keys: Sequence[Hashable], fill: Callable[[list[Any], list[int]], None]
    ) -> list[int]:
        """Return the index of each key, and mark the keys as most recently used.

        Parameters
        ----------
        keys : sequence
            At most ``capacity`` distinct keys.
        fill : callable
            ``fill(keys, indices)`` computes missing entries. If it raises an error, these keys are
            not added.

        Returns
        -------
        list of int
        """
        distinct_keys = dict.fromkeys(keys)
        missing = []
        for key in distinct_keys:
            if key in self._index_of:
                self._index_of[key] = self._index_of.pop(key)  # to the end
            else:
                missing.append(key)
        if missing:
            while len(self._free) < len(missing):
                least_recent = next(iter(self._index_of))
                self._free.append(self._index_of.pop(least_recent))
            indices = self._free[: -len(missing) - 1 : -1]
            fill(missing, indices)
            del self._free[-len(missing) :]
            self._index_of.update(zip(missing, indices))
        return [self._index_of[key] for key in keys]
