"""Loops over tables of weights that shards have changed: what moved, and the mix of what moved.

A table is (rows, columns). ``owners[row]`` and the columns ``edges[b] : edges[b + 1]`` say which group a weight is
of, ``groups[owners[row], b]``; -1 is none. Which weights moved is one bit a weight, in the order of the table; their
values follow in that order without gaps, and one more value follows them: which weights moved is hardly predictable,
so the loops take no branches, and read (or write) one value too far.
"""

import numpy as np

from omkl._compilation import compiled

_ONE = np.uint64(1)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)


@compiled
def find_moved(table, sums, before, before_sums, owners, groups, edges, residual_scale, averaged_in, moved):
    """Mark every weight that is not what scaling its group alone has made of it; returns how many there are.

    Scaling alone makes ``r v`` of ``v``, with ``r`` the residual scale, and ``u + h v`` of the running sum ``u``, with
    ``h`` what was averaged in.
    """
    n_rows, n_columns = table.shape
    averaging = sums.shape[0] > 0
    count = 0
    for row in range(n_rows):
        for b in range(edges.shape[0] - 1):
            k = groups[owners[row], b]
            if k < 0:
                continue
            for column in range(edges[b], edges[b + 1]):
                start = before[row, column]
                differs = table[row, column] != table.dtype.type(residual_scale[k] * start)
                if averaging:
                    differs |= sums[row, column] != sums.dtype.type(before_sums[row, column] + averaged_in[k] * start)
                position = row * n_columns + column
                moved[position >> 3] |= np.uint8(differs) << np.uint8(position & 7)
                count += differs
    return count


@compiled
def gather(moved, table, out):
    """The marked weights of a table, one after the other."""
    n_rows, n_columns = table.shape
    count = 0
    for row in range(n_rows):
        for column in range(n_columns):
            position = row * n_columns + column
            out[count] = table[row, column]
            count += np.int64((moved[position >> 3] >> (position & 7)) & 1)


@compiled
def add_shard(
    low,
    high,
    cursor,
    moved,
    values,
    value_sums,
    table,
    sums,
    owners,
    groups,
    edges,
    weight,
    points,
    pasts,
    residual_scale,
    averaged_in,
    point,
    past,
):
    """Add what one shard moved in the rows ``low .. high - 1``; returns how many of its values are used up by now.

    ``point`` gains ``w s (v' - r v)`` and ``past`` ``w (a v' + u' - a r v - h v - u)``: what a weight's part in the mix
    differs by from that of a weight that only scaling has changed.
    """
    n_columns = table.shape[1]
    averaging = sums.shape[0] > 0
    for row in range(low, high):
        for b in range(edges.shape[0] - 1):
            k = groups[owners[row], b]
            if k < 0:
                continue
            mine, ours, still = points[k], pasts[k], pasts[k] * residual_scale[k] + weight * averaged_in[k]
            for column in range(edges[b], edges[b + 1]):
                position = np.uint64(row * n_columns + column)
                bit = np.uint64(moved[position >> _THREE] >> (position & _SEVEN)) & _ONE
                start, value = np.float64(table[row, column]), np.float64(values[cursor])
                gain = mine * (value - residual_scale[k] * start)
                point[row - low, column] += gain if bit else 0.0
                if averaging:
                    gain = ours * value - still * start
                    gain += weight * (np.float64(value_sums[cursor]) - np.float64(sums[row, column]))
                    past[row - low, column] += gain if bit else 0.0
                cursor += bit
    return cursor


@compiled
def apply_mixture(low, high, moved, table, sums, owners, groups, edges, scales, averages, factors, shifts, point, past):
    """Give the rows ``low .. high - 1`` their mixed weights, from what :func:`add_shard` has added up.

    Those that no shard has ``moved`` are scaled with their group, if it is.
    """
    n_columns = table.shape[1]
    averaging = sums.shape[0] > 0
    for row in range(low, high):
        for b in range(edges.shape[0] - 1):
            k = groups[owners[row], b]
            if k < 0:
                continue
            whole, every = scales[k] * factors[k], averages[k] + shifts[k]
            scale, average, factor, shift = scales[k], averages[k], factors[k], shifts[k]
            for column in range(edges[b], edges[b + 1]):
                position = np.uint64(row * n_columns + column)
                bit = np.uint64(moved[position >> _THREE] >> (position & _SEVEN)) & _ONE
                start = np.float64(table[row, column])
                mixed = (whole * start + point[row - low, column]) / scale
                weight = table.dtype.type(mixed if bit else factor * start)
                table[row, column] = weight
                if averaging:
                    total = every * start + sums[row, column] + past[row - low, column] - average * weight
                    sums[row, column] = total if bit else sums[row, column] + shift * start
