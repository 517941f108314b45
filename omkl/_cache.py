"""A bounded cache that forgets the least recently used entries."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any


class RecentlyUsed:
    """Indices ``0 .. capacity - 1`` of entries that are known by keys. The owner holds the entries themselves.

    Parameters
    ----------
    capacity : int >= 0
        Number of entries.

    Examples
    --------
    >>> recent, held = RecentlyUsed(2), [None, None]
    >>> def fill(keys, indices):
    ...     for key, index in zip(keys, indices):
    ...         held[index] = key.upper()
    >>> _ = recent.indices(["a", "b"], fill), recent.indices(["a", "c"], fill)
    >>> held
    ['A', 'C']
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = int(capacity)
        # the least recently used first
        self._index_of: dict[Hashable, int] = {}
        self._free = list(range(self.capacity))[::-1]

    def __len__(self) -> int:
        return len(self._index_of)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._index_of

    def indices(
        self, keys: Sequence[Hashable], fill: Callable[[list[Any], list[int]], None] | None = None
    ) -> list[int]:
        """Return the index of each key, and count the keys as used now.

        Parameters
        ----------
        keys : sequence
            At most ``capacity`` different ones.
        fill : callable, optional
            ``fill(keys, indices)`` computes the missing entries; may be left out where none is missing. The missing
            keys stay unknown if it raises.

        Returns
        -------
        list of int
        """
        known = {key: self._index_of.pop(key) for key in dict.fromkeys(keys) if key in self._index_of}
        self._index_of.update(known)
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing and fill is not None:
            while len(self._free) < len(missing):
                self._free.append(self._index_of.pop(next(iter(self._index_of))))
            indices = self._free[: -len(missing) - 1 : -1]
            fill(missing, indices)
            del self._free[-len(missing) :]
            self._index_of.update(zip(missing, indices))
        return [self._index_of[key] for key in keys]
