"""Decoding of single tokens from the ids of their features."""

import numpy as np

from omkl._compilation import compiled


@compiled
def best_labels(ids, table, labels):
    """Write the label of the highest score of each row of ``ids``, whose features have value 1; -1 is no feature.

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
