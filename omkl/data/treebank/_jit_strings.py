"""Compiled open-addressing hash table of byte strings."""

import numpy as np

from omkl._compilation import compiled, inner

#: Offset basis and prime of FNV-1a, 64 bits; the basis as a signed number.
BASIS = np.int64(-3750763034362895579)
PRIME = np.int64(1099511628211)
#: Hashes have 31 bits, to be nonnegative int32.
MASK = 0x7FFFFFFF


@compiled
def intern(data, starts, lengths, first, grow, size, buckets, pool, offsets, codes):
    """Look up the codes of strings, from the string ``first`` on.

    String ``i`` is ``data[starts[i] : starts[i] + lengths[i]]``.

    Parameters
    ----------
    data : uint8 array
    starts, lengths : int32 arrays (n,)
        A negative length means the missing value, whose code is 0.
    first : int
    grow : bool
        Whether to add strings that are not in the table; otherwise their code is -1.
    size : int
        Number of strings in the table.
    buckets : int32 array (capacity, 2)
        Code and hash of the string in each bucket; the code of an empty bucket is -1.
    pool, offsets : uint8 array, int64 array
        The bytes of string ``k`` are ``pool[offsets[k] : offsets[k + 1]]``.
    codes : int32 array (n,)
        Output.

    Returns
    -------
    done, size : int
        Number of codes and of strings. If ``done < n``, an array is full: call again with larger
        ones from ``done``.
    """
    mask = buckets.shape[0] - 1
    for i in range(first, codes.shape[0]):
        start, length = starts[i], lengths[i]
        if length < 0:
            codes[i] = 0
            continue
        key = BASIS
        for k in range(start, start + length):
            key = (key ^ data[k]) * PRIME
        key = (key ^ (key >> 32)) & MASK
        at = key & mask
        while buckets[at, 0] >= 0 and not (
            buckets[at, 1] == key and _is(data, start, length, pool, offsets, buckets[at, 0])
        ):
            at = (at + 1) & mask
        if buckets[at, 0] < 0 and grow:
            full = 2 * size >= buckets.shape[0] or size + 1 >= offsets.shape[0]
            if full or offsets[size] + length > pool.shape[0]:
                return i, size
            for k in range(length):
                pool[offsets[size] + k] = data[start + k]
            offsets[size + 1] = offsets[size] + length
            buckets[at, 0] = size
            buckets[at, 1] = key
            size += 1
        codes[i] = buckets[at, 0]
    return codes.shape[0], size


@inner
def _is(data, start, length, pool, offsets, code):
    """Tell whether a string of ``data`` is the string ``code`` of the table."""
    low = offsets[code]
    if offsets[code + 1] - low != length:
        return False
    for k in range(length):  # noqa: SIM110 (numba)
        if data[start + k] != pool[low + k]:
            return False
    return True


@compiled
def rehash(old, new):
    """Move strings from the buckets ``old`` to the empty, larger array of buckets ``new``."""
    mask = new.shape[0] - 1
    for i in range(old.shape[0]):
        if old[i, 0] >= 0:
            at = old[i, 1] & mask
            while new[at, 0] >= 0:
                at = (at + 1) & mask
            new[at, 0] = old[i, 0]
            new[at, 1] = old[i, 1]
