"""Groups of columns: vectors cut into blocks, and the Jacobian of a proximity operator that moves blocks along rays."""

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.design.mixed_norms import MixedNorms
from omkl.exceptions import InputError


class Blocks:
    """Consecutive blocks of a vector, of given sizes.

    Parameters
    ----------
    sizes : int array of shape (g,)
    """

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes
        self.single = bool(np.all(sizes == 1))

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each block begins."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def sums(self, vector: np.ndarray) -> np.ndarray:
        """Sum of each block along the first axis."""
        return vector if self.single or not len(self.sizes) else np.add.reduceat(vector, self.starts, axis=0)

    def norms(self, vector: np.ndarray) -> np.ndarray:
        """Euclidean norm of each block, (g,)."""
        return np.abs(vector) if self.single else np.sqrt(self.sums(vector * vector))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """One value a block -> one value a coordinate."""
        return values if self.single else np.repeat(values, self.sizes, axis=0)


class ColumnGroups:
    r"""A partition of the columns of a design into groups, with weights.

    Parameters
    ----------
    groups : None, int array of shape (n,), or list of lists of int
        None makes every column a group of its own; an array gives each column's group by any label; lists give each
        group's columns, and must name every column once.
    n_columns : int
    weights : array of shape (g,), optional
        :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists: the regularizer sees
        :math:`\omega_g \|w_g\|`. All 1 by default; the square root of the size is a common choice. Groups of weight 0
        are not regularized.
    l1 : float >= 0
        The regularizer sees :math:`\omega_g \|w_g\| + l \|w_g\|_1`.
    positive : bool
        Whether coefficients must not be negative.

    Attributes
    ----------
    n_groups : int
    scales : array of shape (g,) or None
        What columns of each group are divided by in computations, where it is not 1.
    free : int array
        Groups that are not regularized.
    mixed : MixedNorms or None
        Norms of all groups, where they are not Euclidean.

    Raises
    ------
    omkl.exceptions.InputError
        If groups or weights do not fit the columns.
    """

    def __init__(
        self, groups: Any, n_columns: int, weights: ArrayLike | None = None, *, l1: float = 0.0, positive: bool = False
    ) -> None:
        self.n_columns = n_columns
        labels = column_labels(groups, n_columns)
        if labels is None:
            self.order, self.blocks = None, Blocks(np.ones(n_columns, dtype=np.int64))
        else:
            order = np.argsort(labels, kind="stable")
            self.order = None if np.array_equal(order, np.arange(n_columns)) else order
            self.blocks = Blocks(np.bincount(labels))
        self.n_groups = len(self.blocks.sizes)
        self._weigh(None if weights is None else _checked_weights(weights, self.n_groups), l1, positive)

    def _weigh(self, weights: np.ndarray | None, l1: float, positive: bool) -> None:
        self.weights, self.l1, self.positive = weights, l1, positive
        known = np.ones(self.n_groups) if weights is None else weights
        self.free = np.flatnonzero(known == 0) if l1 == 0 else np.empty(0, dtype=np.int64)
        self.scales = weights if weights is None or known.all() else np.where(known > 0, known, l1 or 1.0)
        is_mixed = l1 > 0 or positive
        l1_weights = np.full(self.n_groups, l1)
        self.mixed = MixedNorms(self.blocks.sizes, known, l1_weights, positive) if is_mixed else None

    def reweighed(self, factor: float, l1: float, positive: bool) -> "ColumnGroups":
        """The same groups with other weights; these groups themselves, where nothing is new."""
        if (factor, l1, positive) == (1.0, self.l1, self.positive):
            return self
        same = copy(self)
        known = np.ones(self.n_groups) if self.weights is None else self.weights
        same._weigh(self.weights if factor == 1.0 else factor * known, l1, positive)
        return same

    def mixed_of(self, groups: np.ndarray) -> MixedNorms:
        """Norms of those groups where the coefficients of each are multiplied by its scale."""
        mixed: Any = self.mixed
        scales = 1.0 if self.scales is None else self.scales[groups]
        weights = mixed.norm_weights[groups] / scales, mixed.l1_weights[groups] / scales
        return MixedNorms(mixed.sizes[groups], *weights, mixed.positive)

    def _ordered(self, vector: np.ndarray) -> np.ndarray:
        return vector if self.order is None else vector[self.order]

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        r""":math:`\omega_g \|w_g\|`, or what takes its place, of all groups (g,)."""
        if self.mixed is not None:
            return self.mixed.norms(self._ordered(coefficients))
        norms = self.blocks.norms(self._ordered(coefficients))
        return norms if self.weights is None else norms * self.weights

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r""":math:`\|A_g^\top \rho\| / \omega_g`, or what takes its place, of all groups (g,); 0 of weight 0."""
        if self.mixed is not None:
            return self.mixed.dual_norms(self._ordered(correlations))
        return self._weighed(self.blocks.norms(self._ordered(correlations)), slice(None))

    def dual_norms_of(self, groups: np.ndarray, blocks: Blocks, correlations: np.ndarray) -> np.ndarray:
        """The same of some groups, from the correlations with their columns alone."""
        if self.mixed is not None:
            mixed = self.mixed
            weights = mixed.norm_weights[groups], mixed.l1_weights[groups]
            return MixedNorms(blocks.sizes, *weights, mixed.positive).dual_norms(correlations)
        return self._weighed(blocks.norms(correlations), groups)

    def _weighed(self, norms: np.ndarray, groups: Any) -> np.ndarray:
        if self.weights is None:
            return norms
        weights = self.weights[groups]
        return np.divide(norms, weights, out=np.zeros_like(norms), where=weights > 0)

    def columns_of(self, groups: np.ndarray) -> tuple[np.ndarray, Blocks]:
        """Columns of those groups, group by group, and their :class:`Blocks`."""
        if self.blocks.single:
            return groups if self.order is None else self.order[groups], Blocks(np.ones(len(groups), dtype=np.int64))
        sizes = self.blocks.sizes[groups]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._positions(np.repeat(self.blocks.starts[groups], sizes) + within), Blocks(sizes)

    def _positions(self, indices: np.ndarray) -> np.ndarray:
        return indices if self.order is None else self.order[indices]

    def of_columns(self, columns: np.ndarray) -> np.ndarray:
        """Groups that those columns belong to, sorted."""
        indices = columns if self.order is None else np.flatnonzero(np.isin(self.order, columns))
        return np.unique(np.searchsorted(self.blocks.starts, indices, side="right") - 1)


def by_position(groups: Any, names: Sequence[str] | None) -> Any:
    """Groups as lists of positions, where they are called by name or name their columns; all else as it is.

    Parameters
    ----------
    groups : dict of lists of int or str, or what :func:`column_labels` takes
        Labels in a ``Series`` whose index has the names of the columns are those of these columns.
    names : sequence of str or None
        What the columns are called.

    Raises
    ------
    omkl.exceptions.InputError
        If a group of a dict is no list, or there is no column of a name.
    """
    if hasattr(groups, "reindex"):
        labels = by_index(groups, names, "groups", "column")
        return groups.to_numpy() if labels is None else np.array(labels)
    if isinstance(groups, dict):
        if single := [name for name, group in groups.items() if not _has_members(group)]:
            raise InputError(f"groups must have a list of columns for {single[0]!r}, not {groups[single[0]]!r}.")
        groups = list(groups.values())
    if not isinstance(groups, (list, tuple)) or not all(map(_has_members, groups)):
        return groups
    place = {} if names is None else {name: j for j, name in enumerate(names)}
    if unknown := [name for group in groups for name in group if isinstance(name, str) and name not in place]:
        why = "but columns have no names: give a data frame" if names is None else "but there is no such column"
        raise InputError(f"groups has the column {str(unknown[0])!r}, {why}.")
    return [[place[column] if isinstance(column, str) else column for column in group] for group in groups]


def by_index(values: Any, names: Sequence | None, what: str, of: str) -> list | None:
    """Values in a dict, or in a ``Series`` with an index of names, in the order of these names; None of all else.

    Parameters
    ----------
    values : dict, Series or anything else
    names : sequence or None
        None where there are none; then a ``Series`` is in order.
    what, of : str
        What values are called in messages, and what the names are of.
    """
    if hasattr(values, "reindex"):
        if names is None or not all(isinstance(name, str) for name in values.index):
            return None
        if not values.index.is_unique:
            raise InputError(f"{what} has several values of the same name: give one for each {of}.")
        values = dict(zip(values.index, values.to_list()))
    if not isinstance(values, dict):
        return None
    if names is None:
        raise InputError(f"{what} has values by the names of {of}s, but these have none: give them in order.")
    if unknown := [name for name in values if name not in names]:
        raise InputError(f"{what} has a value for {unknown[0]!r}, which is no {of}.")
    if missing := [name for name in names if name not in values]:
        raise InputError(f"{what} has no value for the {of} {missing[0]!r}.")
    return [values[name] for name in names]


def group_names(groups: Any, names: Sequence[str] | None) -> list | None:
    """What groups are called, in their order: keys of a dict, labels, or columns where each is a group of its own.

    None where they have no names but the order of lists; parameters are those of :func:`by_position`.
    """
    if groups is None:
        return None if names is None else list(names)
    if isinstance(groups, dict):
        return list(groups)
    if isinstance(groups, (list, tuple)) and any(map(_has_members, groups)):
        return None
    return np.unique(np.asarray(groups)).tolist()


def called(groups: Any, names: Sequence[str] | None, n_groups: int) -> list[str]:
    """What explanations and regularizers call groups, in their order; parameters are those of :func:`by_position`."""
    if groups is None:
        return [f"column {j}" for j in range(n_groups)] if names is None else list(map(str, names))
    known = group_names(groups, names)
    known = list(range(n_groups)) if known is None else known
    return [str(name) if isinstance(name, str) or isinstance(groups, dict) else f"group {name}" for name in known]


def _has_members(group: Any) -> bool:
    """Whether this is a list of columns, of any kind, and no label."""
    return isinstance(group, Iterable) and not isinstance(group, (str, bytes, dict))


def column_labels(groups: Any, n_columns: int) -> np.ndarray | None:
    """Each column's group as 0, 1, ..., in the order of the sorted labels or of the lists; None for one a column."""
    if groups is None:
        return None
    if not (hasattr(groups, "__len__") and hasattr(groups, "__getitem__")) or getattr(groups, "shape", None) == ():
        raise InputError(
            f"groups must be lists of columns, a dict of them, or a label for each column, not {groups!r}."
        )
    ragged = not isinstance(groups, np.ndarray) and len(groups) > 0 and np.ndim(groups[0]) > 0
    if ragged:
        members = np.array([column for group in groups for column in group])
        if len(members) and members.dtype.kind not in "iu":
            raise InputError(f"groups must hold positions of columns, whole numbers, not {members[0]!r}.")
        if len(members) != n_columns or not np.array_equal(np.sort(members), np.arange(n_columns)):
            raise InputError(f"groups must name each of the {n_columns} columns exactly once.")
        labels = np.empty(n_columns, dtype=np.int64)
        labels[members] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        if np.bincount(labels, minlength=len(groups)).min() == 0:
            raise InputError("groups has an empty group: leave it out.")
        return labels
    labels = np.asarray(groups)
    if labels.shape != (n_columns,):
        raise InputError(
            f"groups must hold one label for each of the {n_columns} columns; it has shape {labels.shape}."
        )
    try:
        distinct, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError("groups must hold labels of one kind: all numbers, or all strings.") from None
    if np.any(distinct != distinct):
        raise InputError("groups holds NaN: give every column a label, or a group of its own.")
    return codes


def _checked_weights(weights: ArrayLike, n_groups: int) -> np.ndarray:
    weights = np.asarray(weights)
    is_valid = weights.dtype.kind in "biuf" and weights.shape == (n_groups,)
    if not is_valid or not np.all(np.isfinite(weights)) or not np.all(weights >= 0) or not np.any(weights > 0):
        raise InputError(f"group weights must be {n_groups} finite numbers >= 0, one for each group, and not all 0.")
    return weights.astype(np.float64)


class RayJacobian:
    r"""Jacobian of a proximity operator that moves blocks along their rays, :math:`J = S^2`, at its active blocks.

    With :math:`x_g = (p_g / \|v_g\|) v_g` and :math:`p_g = \mathrm{prox}(\|v_g\|)` it is
    :math:`(p_g / \|v_g\|) (I - u u^\top) + p_g' u u^\top` with :math:`u = v_g / \|v_g\|` on each block.

    Parameters
    ----------
    blocks : Blocks
        The active blocks.
    v : array of shape (a,)
    norms, shrunk, slopes : arrays of one value a block
        Norms before and after the proximity operator, and its derivative.
    """

    def __init__(
        self, blocks: Blocks, v: np.ndarray, norms: np.ndarray, shrunk: np.ndarray, slopes: np.ndarray
    ) -> None:
        self.blocks = blocks
        along = np.sqrt(slopes)
        if blocks.single:
            # the lasso's is the identity
            self._across = None if np.all(slopes == 1.0) else along
        else:
            across = np.sqrt(shrunk / norms)
            self._across = blocks.spread(across)
            self._excess = along - across
            self._ray = v / blocks.spread(norms)

    def sqrt_times(self, rows: np.ndarray) -> np.ndarray:
        """S times a vector or matrix with one row a coordinate; the same array where S is the identity."""
        if self._across is None:
            return rows
        columns = (slice(None),) + (None,) * (rows.ndim - 1)
        product = self._across[columns] * rows
        if not self.blocks.single:
            shares = self._excess[columns] * self.blocks.sums(self._ray[columns] * rows)
            product += self._ray[columns] * self.blocks.spread(shares)
        return product
