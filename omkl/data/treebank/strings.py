"""Integer codes of strings."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise

import numpy as np

from omkl.data.treebank._jit_strings import intern, rehash
from omkl.exceptions import InputError

#: Missing value in CoNLL formats; its code is 0 in every :class:`Strings`.
MISSING = "_"


class Strings:
    """Table of distinct strings with integer codes, in the order of first appearance.

    The missing value ``_`` has code 0. Codes do not change when the table grows. One thread may add
    strings while others look up strings by their codes.

    Parameters
    ----------
    strings : iterable of str
        Strings with codes 1, 2, ...

    >>> tags = Strings(["NOUN", "VERB"])
    >>> tags.codes(["VERB", "_", "ADJ"], grow=True)
    array([2, 0, 3], dtype=int32)
    >>> tags[3], len(tags)
    ('ADJ', 4)
    """

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._buckets, self._pool, self._offsets = (array.copy() for array in _first_arrays())
        self._size = 1
        self._decoded = [MISSING]
        first_strings = list(strings)
        if first_strings:
            self.codes(first_strings, grow=True)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, code: int) -> str:
        return self.tolist()[code]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        return f"Strings({len(self)} strings)"

    def tolist(self) -> list[str]:
        """Return all strings in the order of their codes; do not modify the list."""
        n_decoded = len(self._decoded)
        if n_decoded < self._size:
            bounds = self._offsets[n_decoded : self._size + 1]
            text = self._pool[bounds[0] : bounds[-1]].tobytes()
            bounds = (bounds - bounds[0]).tolist()
            self._decoded += [text[low:high].decode() for low, high in pairwise(bounds)]
        return self._decoded

    def to_bytes(self) -> tuple[np.ndarray, np.ndarray]:
        """Concatenate the strings in UTF-8.

        Returns
        -------
        data : uint8 array
        offsets : int64 array (len(self) + 1,)
            String ``k`` is ``data[offsets[k] : offsets[k + 1]]``. Both are read-only views.
        """
        offsets = self._offsets[: self._size + 1]
        return self._pool[: offsets[-1]], offsets

    def codes(self, strings: Iterable[str], grow: bool = False) -> np.ndarray:
        """Look up the codes of strings.

        Parameters
        ----------
        strings : iterable of str
        grow : bool
            Add new strings; otherwise their code is -1.

        Returns
        -------
        int32 array

        Raises
        ------
        omkl.exceptions.InputError
            If an item is not a string, or UTF-8 cannot encode it.
        """
        strings = list(strings)
        if strings.count(MISSING) == len(strings):  # many columns are empty
            return np.zeros(len(strings), np.int32)
        text = None
        with suppress(TypeError, UnicodeEncodeError):
            text = "".join(strings).encode()
        if text is None or len(text) >= 1 << 31:  # offsets are int32
            raise InputError("Only strings that UTF-8 can hold have codes, up to 2 GB at a time.")
        lengths = np.fromiter(map(len, strings), np.int32, len(strings))
        if lengths.sum(dtype=np.int64) < len(text):  # some characters take several bytes
            n_bytes = (len(string.encode()) for string in strings)
            lengths = np.fromiter(n_bytes, np.int32, len(strings))
        starts = np.zeros(len(strings), np.int32)
        np.cumsum(lengths[:-1], out=starts[1:])
        return self.intern(np.frombuffer(text, np.uint8), starts, lengths, grow)

    def intern(
        self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, grow: bool = True
    ) -> np.ndarray:
        """Look up the codes of the strings ``data[starts[i] : starts[i] + lengths[i]]``.

        A negative length means ``_``.

        Parameters
        ----------
        data : uint8 array, read-only
        starts, lengths : int32 arrays (n,)
        grow : bool

        Returns
        -------
        int32 array (n,)
        """
        codes = np.empty(len(starts), np.int32)
        done = 0
        while True:
            table = (self._size, self._buckets, self._pool, self._offsets)
            done, size = intern(data, starts, lengths, done, grow, *table, codes)
            if grow:  # otherwise another thread may have grown the table
                self._size = size
            if done == len(codes):
                return codes
            # there is no room for the next string
            if 2 * self._size >= len(self._buckets):
                buckets = np.full((4 * len(self._buckets), 2), -1, np.int32)
                rehash(self._buckets, buckets)
                self._buckets = buckets
            if self._size + 1 >= len(self._offsets):
                self._offsets = np.concatenate([self._offsets, np.zeros_like(self._offsets)])
            if self._offsets[self._size] + lengths[done] > len(self._pool):
                room = np.empty(len(self._pool) + lengths[done], np.uint8)
                self._pool = np.concatenate([self._pool, room])

    def copy(self) -> "Strings":
        """Return an independent copy."""
        return Strings(self.tolist()[1:])


@cache  # every annotation of a sentence makes a dozen tables
def _first_arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of a table with ``_`` only."""
    buckets = np.full((64, 2), -1, np.int32)
    pool = np.empty(256, np.uint8)
    offsets = np.zeros(33, np.int64)
    text = np.frombuffer(MISSING.encode(), np.uint8)
    start = np.zeros(1, np.int32)
    codes = np.empty(1, np.int32)
    intern(text, start, start + 1, 0, True, 0, buckets, pool, offsets, codes)
    return buckets, pool, offsets
