"""A bounded cache that forgets what was used least recently: the one cache of the package."""

from collections.abc import Callable, Hashable, Sequence


class RecentlyUsed:
    """Indices ``0 .. capacity - 1`` for entries that are known by keys; the least recently used ones are replaced.

    It does not hold the entries: the owner does, in a list or as the rows of an array.

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
        # in the order of their last use, the oldest first
        self._index_of: dict[Hashable, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        """Number of entries in use."""
        return len(self._index_of)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._index_of

    def indices(
        self, keys: Sequence[Hashable], fill: Callable[[list[Hashable], list[int]], None] | None = None
    ) -> list[int]:
        """The place of each key, and a note that they are used now.

        Parameters
        ----------
        keys : sequence
            At most ``capacity`` different ones.
        fill : callable, optional
            ``fill(keys, indices)`` computes the missing entries; may be left out where none is missing. If it raises,
            nothing has changed.

        Returns
        -------
        list of int
        """
        known = {key: self._index_of.pop(key) for key in dict.fromkeys(keys) if key in self._index_of}
        self._index_of.update(known)
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            self._fill(missing, fill)
        return [self._index_of[key] for key in keys]

    def _fill(self, missing, fill):
        while len(self._free) < len(missing):
            fresh = len(self._index_of) + len(self._free)
            # nothing is forgotten while there are entries that were never used
            self._free.append(fresh if fresh < self.capacity else self._index_of.pop(next(iter(self._index_of))))
        indices = [self._free[i] for i in range(len(missing))]
        fill(missing, indices)
        del self._free[: len(missing)]
        self._index_of.update(zip(missing, indices))
