"""Compiled loops that find the ids of the features of words, and the best labels of single words."""

import numpy as np

from omkl._compilation import compiled

#: Id that was not looked up yet; the id of an unknown feature is -1.
UNSEEN = -2
#: Base of the polynomial hash, modulo 2^64, by which the hash of a concatenation follows from the
#: hashes of its parts.
BASE = np.uint64(0x9E3779B97F4A7C15)
#: Hash of the separator of two words, "|".
BETWEEN = np.uint64(ord("|") + 1)


@compiled
def gather(around, columns, table, left, right, salts, hashes, powers, keys, values, out, learning):
    """Look up the ids of features of single words, ``out[i, t] = table[around[i, columns[t]], t]``,
    and of pairs.

    Pairs of words are looked up in the open-addressing table ``keys``, ``values``. A missing pair
    is UNSEEN if the model is ``learning``, else -1. Returns the number of UNSEEN ids.
    """
    n_single = columns.shape[0]
    mask, n_unseen = np.uint64(keys.shape[0] - 1), 0
    for i in range(around.shape[0]):
        for t in range(n_single):
            out[i, t] = table[around[i, columns[t]], t]
            n_unseen += out[i, t] == UNSEEN
        for p in range(left.shape[0]):
            a, b = around[i, left[p]], around[i, right[p]]
            key = ((hashes[a] * BASE + BETWEEN) * powers[b] + hashes[b]) ^ salts[p]
            at = (key ^ (key >> np.uint64(29))) & mask
            while values[at] >= 0 and keys[at] != key:
                at = (at + np.uint64(1)) & mask
            out[i, n_single + p] = values[at]
            if learning and values[at] < 0:
                out[i, n_single + p] = UNSEEN
                n_unseen += 1
    return n_unseen


@compiled
def hash_strings(data, ends, hashes, powers):
    """Hash the strings ``data[ends[i - 1] : ends[i]]``; powers are ``BASE`` to the length of each
    string.
    """
    low = 0
    for i in range(ends.shape[0]):
        total, power = np.uint64(0), np.uint64(1)
        for k in range(low, ends[i]):
            total = total * BASE + np.uint64(data[k]) + np.uint64(1)
            power *= BASE
        hashes[i], powers[i] = total, power
        low = ends[i]


@compiled
def insert(new_keys, new_values, keys, values):
    """Insert features into a table with enough room; the value of empty places is -1."""
    mask = np.uint64(keys.shape[0] - 1)
    for i in range(new_keys.shape[0]):
        key = new_keys[i]
        at = (key ^ (key >> np.uint64(29))) & mask
        while values[at] >= 0 and keys[at] != key:
            at = (at + np.uint64(1)) & mask
        keys[at], values[at] = key, new_values[i]


@compiled
def best_labels(ids, table, labels):
    """Write the label of the highest score of each row of ``ids``, whose features have value 1; -1
    is no feature.

    Ties break towards the lower label.
    """
    scores = np.empty(table.shape[1])
    for i in range(ids.shape[0]):
        scores[:] = 0.0
        for feature in ids[i]:
            if feature >= 0:
                for j in range(table.shape[1]):
                    scores[j] += table[feature, j]
        labels[i] = np.argmax(scores)
