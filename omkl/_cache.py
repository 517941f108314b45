"""Which of many things are held in a bounded number of places: the one cache of the package."""

from collections.abc import Callable, Hashable, Sequence


class RecentlyUsed:
    """Places ``0 .. capacity - 1`` for things that are known by keys; the least recently used ones make room.

    It does not hold the things: what is in a place is the owner's, an entry of a list or a row of a buffer.

    Parameters
    ----------
    capacity : int >= 0
        Number of places.

    Examples
    --------
    >>> recent, held = RecentlyUsed(2), [None, None]
    >>> def fill(keys, places):
    ...     for key, place in zip(keys, places):
    ...         held[place] = key.upper()
    >>> _ = recent.places(["a", "b"], fill), recent.places(["a", "c"], fill)
    >>> held
    ['A', 'C']
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = int(capacity)
        # in the order of their last use, the oldest first
        self._place_of: dict[Hashable, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        """Number of places in use."""
        return len(self._place_of)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._place_of

    def places(
        self, keys: Sequence[Hashable], fill: Callable[[list[Hashable], list[int]], None] | None = None
    ) -> list[int]:
        """The place of each key, and a note that they are used now.

        Parameters
        ----------
        keys : sequence
            At most ``capacity`` different ones.
        fill : callable, optional
            ``fill(keys, places)`` puts what is missing into its places; not needed where nothing is. If it raises, the
            keys are as unknown as they were.

        Returns
        -------
        list of int
        """
        known = {key: self._place_of.pop(key) for key in dict.fromkeys(keys) if key in self._place_of}
        self._place_of.update(known)
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            self._fill(missing, fill)
        return [self._place_of[key] for key in keys]

    def _fill(self, missing, fill):
        while len(self._free) < len(missing):
            fresh = len(self._place_of) + len(self._free)
            # nothing is forgotten while there are places that were never used
            self._free.append(fresh if fresh < self.capacity else self._place_of.pop(next(iter(self._place_of))))
        places = [self._free[i] for i in range(len(missing))]
        fill(missing, places)
        del self._free[: len(missing)]
        self._place_of.update(zip(missing, places))
