"""Compiled loops that find the ids of features of words, and the best labels of single words."""

import numpy as np

from omkl._compilation import compiled

#: Id of a feature that was not looked up yet.
UNSEEN = -2
#: Id of a feature that the vocabulary does not hold, and of empty places of a hash table.
UNKNOWN = -1
#: Base of the polynomial hash, modulo 2^64, by which the hash of a concatenation follows from the
#: hashes of its two strings.
BASE = np.uint64(0x9E3779B97F4A7C15)
#: Hash of the separator of two words, "|".
BETWEEN = np.uint64(ord("|") + 1)


@compiled
def gather_words(windows, columns, table, ids):
    """Look up the ids of features of single words in a table; return the number of UNSEEN ones.

    Parameters
    ----------
    windows : int array of shape (n, width)
        Codes of the words around each word.
    columns : int array of shape (n_single,)
        Column of the windows that each template reads.
    table : int array of shape (n_codes, n_single)
        Ids by word and template.
    ids : int array of shape (n, n_single + n_pairs)
        The first n_single columns are written.
    """
    n_unseen = 0
    for i in range(windows.shape[0]):
        for t in range(columns.shape[0]):
            ids[i, t] = table[windows[i, columns[t]], t]
            n_unseen += ids[i, t] == UNSEEN
    return n_unseen


@compiled
def gather_pairs(windows, left, right, salts, hashes, powers, keys, values, learning, ids):
    """Look up the ids of features of pairs of words; return the number of UNSEEN ones.

    Parameters
    ----------
    windows : int array of shape (n, width)
        Codes of the words around each word.
    left, right, salts : arrays of shape (n_pairs,)
        Columns of the windows that each template reads, and what its hashes are combined with.
    hashes, powers : arrays of shape (n_codes,)
        Hash of each word, and BASE to the power of its length.
    keys, values : arrays of shape (capacity,)
        Hash table with open addressing; the value of empty places is UNKNOWN.
    learning : bool
        Whether missing pairs are UNSEEN; else they are UNKNOWN.
    ids : int array of shape (n, n_single + n_pairs)
        The last n_pairs columns are written.
    """
    n_unseen = 0
    n_single = ids.shape[1] - left.shape[0]
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(windows.shape[0]):
        for p in range(left.shape[0]):
            a = windows[i, left[p]]
            b = windows[i, right[p]]
            key = ((hashes[a] * BASE + BETWEEN) * powers[b] + hashes[b]) ^ salts[p]
            place = (key ^ (key >> np.uint64(29))) & mask
            while values[place] >= 0 and keys[place] != key:
                place = (place + np.uint64(1)) & mask
            ids[i, n_single + p] = values[place]
            if learning and values[place] < 0:
                ids[i, n_single + p] = UNSEEN
                n_unseen += 1
    return n_unseen


@compiled
def hash_strings(data, ends, hashes, powers):
    """Hash strings that stand one after the other.

    Parameters
    ----------
    data : uint8 array
        Bytes of all strings.
    ends : int array of shape (n,)
        End of each string in ``data``.
    hashes, powers : uint64 arrays of shape (n,)
        Written: the hash of each string, and BASE to the power of its length.
    """
    start = 0
    for i in range(ends.shape[0]):
        total = np.uint64(0)
        power = np.uint64(1)
        for k in range(start, ends[i]):
            total = total * BASE + np.uint64(data[k]) + np.uint64(1)
            power *= BASE
        hashes[i] = total
        powers[i] = power
        start = ends[i]


@compiled
def insert(new_keys, new_values, keys, values):
    """Write (n,) new keys and values to a hash table (capacity,), which has enough room."""
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(new_keys.shape[0]):
        key = new_keys[i]
        place = (key ^ (key >> np.uint64(29))) & mask
        while values[place] >= 0 and keys[place] != key:
            place = (place + np.uint64(1)) & mask
        keys[place] = key
        values[place] = new_values[i]


@compiled
def best_labels(ids, table, labels):
    """Write the label of the highest score of each word, (n,), to ``labels``.

    ``ids``, (n, k), are features of the value 1, negative ones are none; ``table``,
    (number of features, number of labels), are their weights. Ties break towards the lower label.
    """
    scores = np.empty(table.shape[1])
    for i in range(ids.shape[0]):
        scores[:] = 0.0
        for feature in ids[i]:
            if feature >= 0:
                for j in range(table.shape[1]):
                    scores[j] += table[feature, j]
        labels[i] = np.argmax(scores)
