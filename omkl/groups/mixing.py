r"""Mixing of groups that shards have trained from the same start (McDonald et al. 2010).

A shard's pass makes :math:`\theta'_k = c_k v_k + \delta_k` of a group that started with the direction :math:`v_k`:
scalings of the group reach every coordinate through one number, and :math:`\delta_k` is non-zero only where a gradient
has moved a coordinate. So what travels is a few numbers a group and the coordinates that moved, however often the
group's scale was folded into it, and however often it was deactivated and activated. The mix
:math:`\sum_j w_j \theta^{(j)}_k` has the same form, and leaves alone whatever no shard has moved.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.groups import _jit_mixing as jit

#: Weights that are mixed at a time: their sums stay in the cache.
BLOCK = 2**15


class TableLayout(NamedTuple):
    """Groups of the weights of a table (rows, columns): ``groups[owners[row], b]`` in block ``b`` of columns.

    ``owners`` is (rows,), ``groups`` int64 (owners, blocks) with -1 for none, ``edges`` int64 (blocks + 1,).
    """

    owners: np.ndarray
    groups: np.ndarray
    edges: np.ndarray


class Mixture:
    """Weights of the parameters of S shards in their mix, for p groups.

    Parameters
    ----------
    weights : array (S,)
        Weights of the shards; they sum to one.
    scales : array (S, p)
        Factors from a shard's ``v_k`` to the mixed quantity: its scales, or 1 where a method resets scales.
    residual_scale, averaged_in, averages : arrays (S, p)
        See :class:`~omkl.groups.GroupState`.
    scale_range : tuple of float
        If a mixed scale leaves this range, the group is multiplied by it, and its scale becomes 1.

    Attributes
    ----------
    points, pasts : arrays (S, p)
        Weight of a shard's ``v_k`` in the mixed parameters, and in the running sum of their average.
    scales, averages : arrays (p,)
        ``s_k`` and ``a_k`` of the mixed groups.
    factors, shifts : arrays (p,)
        Factor of coordinates that no shard has moved, and share of them added to their running sums: 1 and 0 unless
        the group is multiplied.
    """

    def __init__(
        self,
        weights: np.ndarray,
        scales: np.ndarray,
        residual_scale: np.ndarray,
        averaged_in: np.ndarray,
        averages: np.ndarray,
        scale_range: tuple[float, float],
    ) -> None:
        self.weights = weights
        self.residual_scale, self.averaged_in = residual_scale, averaged_in
        self.points, self.pasts = weights[:, None] * scales, weights[:, None] * averages
        scale = (self.points * residual_scale).sum(axis=0)
        average = (weights[:, None] * averaged_in + self.pasts * residual_scale).sum(axis=0)
        stays = (scale_range[0] <= scale) & (scale <= scale_range[1])
        self.scales, self.averages = np.where(stays, scale, 1.0), np.where(stays, average, 0.0)
        self.factors, self.shifts = np.where(stays, 1.0, scale), np.where(stays, 0.0, average)

    def of(self, groups: slice) -> "Mixture":
        """Select a slice of the groups."""
        own = object.__new__(Mixture)
        own.weights = self.weights
        for name in ("residual_scale", "averaged_in", "points", "pasts"):
            setattr(own, name, np.ascontiguousarray(getattr(self, name)[:, groups]))
        for name in ("scales", "averages", "factors", "shifts"):
            setattr(own, name, getattr(self, name)[groups])
        return own


def table_changes(
    layout: TableLayout,
    table: np.ndarray,
    sums: np.ndarray,
    before: np.ndarray,
    before_sums: np.ndarray,
    group_state: Any,
) -> dict[str, np.ndarray]:
    """Changes of a table since ``before``: a bit mask of the changed weights, their values and running sums."""
    moved = np.zeros((table.size + 7) // 8, dtype=np.uint8)
    count = jit.find_moved(
        table, sums, before, before_sums, *layout, group_state.residual_scale, group_state.averaged_in, moved
    )
    changes = {"moved": moved, "values": np.zeros(count + 1, table.dtype)}
    changes["sums"] = np.zeros(count + 1 if len(sums) else 0, sums.dtype)
    jit.gather(moved, table, changes["values"])
    jit.gather(moved, sums, changes["sums"])
    return changes


def mix_table(
    layout: TableLayout, table: np.ndarray, sums: np.ndarray, changes: Sequence[dict[str, np.ndarray]], mixture: Mixture
) -> None:
    """Mix into a table, which holds what all shards started from, what each has moved; shards are added in order."""
    n_rows, n_columns = table.shape
    n_block = max(BLOCK // max(n_columns, 1), 1)
    point, past = np.zeros((n_block, n_columns)), np.zeros((n_block if len(sums) else 0, n_columns))
    anywhere = np.bitwise_or.reduce([change["moved"] for change in changes])
    cursors = np.zeros(len(changes), dtype=np.uint64)
    for low in range(0, n_rows, n_block):
        rows = low, min(low + n_block, n_rows)
        for j, change in enumerate(changes):
            cursors[j] = jit.add_shard(
                *rows,
                cursors[j],
                change["moved"],
                change["values"],
                change["sums"],
                table,
                sums,
                *layout,
                mixture.weights[j],
                mixture.points[j],
                mixture.pasts[j],
                mixture.residual_scale[j],
                mixture.averaged_in[j],
                point,
                past,
            )
        jit.apply_mixture(
            *rows,
            anywhere,
            table,
            sums,
            *layout,
            mixture.scales,
            mixture.averages,
            mixture.factors,
            mixture.shifts,
            point,
            past,
        )
        point[:], past[:] = 0.0, 0.0


def with_rows_moved(
    changes: dict[str, np.ndarray], n_rows: int, rows: np.ndarray, indices: np.ndarray
) -> dict[str, np.ndarray]:
    """Move the changes in ``rows`` of a table to the rows ``indices``, which no shard has changed."""
    bits = np.unpackbits(changes["moved"], bitorder="little").reshape(n_rows, -1)
    counts = np.append(bits.sum(axis=1, dtype=np.int64), 0)
    source = np.arange(n_rows)
    source[rows] = n_rows  # nothing has moved there, unless something comes from elsewhere
    source[indices] = rows
    starts = np.cumsum(counts) - counts
    counts = counts[source]
    order = np.repeat(starts[source] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    order = np.append(order, 0)  # the value that follows the last
    bits = np.concatenate([bits, np.zeros((1, bits.shape[1]), np.uint8)])[source]
    return {
        "moved": np.packbits(bits, bitorder="little"),
        "values": changes["values"][order],
        "sums": changes["sums"][order if len(changes["sums"]) else []],
    }
