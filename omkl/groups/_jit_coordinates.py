"""Soft thresholding of the weights of explicit features."""

from omkl._compilation import compiled


@compiled
def shrink_features(limits, averages, table, sums, groups, square_norms):
    """Reduce the magnitude of the weights of each group by its limit, down to 0; update norms and averages.

    Rows are visited in their order, so that a resumed run adds the same numbers in the same order.
    """
    averaging = sums.shape[0] > 0
    square_norms[:] = 0.0
    for feature in range(groups.shape[0]):
        group = groups[feature]
        for j in range(table.shape[1]):
            weight = table[feature, j]
            if weight == 0.0:
                continue
            excess = abs(weight) - limits[group]
            moved = 0.0 if excess <= 0.0 else (excess if weight > 0.0 else -excess)
            if averaging:
                sums[feature, j] -= averages[group] * (moved - weight)
            table[feature, j] = moved
            square_norms[group] += moved * moved
