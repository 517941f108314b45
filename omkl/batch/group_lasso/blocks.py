"""Groups of columns, and the norms of blocks of a vector."""

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.group_lasso._jit_columns import mixed_dual_norms
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
    def bounds(self) -> np.ndarray:
        """Index of the first coordinate of each block, and the length of the vector, (g + 1,)."""
        return np.append(0, np.cumsum(self.sizes)).astype(np.int64)

    def sums(self, vector: np.ndarray) -> np.ndarray:
        """Return the sum of each block along the first axis."""
        return vector if self.single else np.add.reduceat(vector, self.bounds[:-1], axis=0)

    def norms(self, vector: np.ndarray) -> np.ndarray:
        """Return the Euclidean norm of each block, (g,)."""
        return np.abs(vector) if self.single else np.sqrt(self.sums(vector * vector))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return one value per coordinate from one value per block."""
        return values if self.single else np.repeat(values, self.sizes, axis=0)


class GroupNorms:
    r"""Norms of blocks, optionally with an l1 term, and their dual norms.

    .. math:: \Omega_g(w) = \omega_g \|w_g\| + l_g \|w_g\|_1

    (with ``positive``, infinite if a coefficient is negative) is a gauge, and its polar is the dual
    norm (Simon, Friedman, Hastie, Tibshirani 2013; Ndiaye, Fercoq, Gramfort, Salmon 2016).

    Parameters
    ----------
    blocks : Blocks
    norm_weights, l1_weights : arrays of shape (g,)
        The :math:`\omega_g` and :math:`l_g`, both >= 0.
    positive : bool
        Whether coefficients must not be negative.

    Attributes
    ----------
    is_euclidean : bool
        Whether the norms are multiples of Euclidean norms.
    """

    def __init__(
        self, blocks: Blocks, norm_weights: np.ndarray, l1_weights: np.ndarray, positive: bool
    ) -> None:
        self.blocks, self.norm_weights, self.l1_weights, self.positive = (
            blocks,
            norm_weights,
            l1_weights,
            positive,
        )
        self.is_euclidean = not positive and not l1_weights.any()
        self._divisors = np.where(norm_weights > 0, norm_weights, np.inf)

    def of(
        self, groups: np.ndarray, blocks: Blocks, scales: np.ndarray | float = 1.0
    ) -> "GroupNorms":
        """Return the norms of some groups, for coefficients multiplied by the scale of their group."""
        return GroupNorms(
            blocks,
            self.norm_weights[groups] / scales,
            self.l1_weights[groups] / scales,
            self.positive,
        )

    def norms(self, w: np.ndarray) -> np.ndarray:
        r"""Return :math:`\Omega_g` of each block, (g,)."""
        values = self.norm_weights * self.blocks.norms(w)
        if self.is_euclidean:
            return values
        values += self.l1_weights * self.blocks.sums(np.abs(w))
        if self.positive:
            is_penalized = self.norm_weights + self.l1_weights > 0
            values[is_penalized & (self.blocks.sums((w < 0).astype(np.float64)) > 0)] = np.inf
        return values

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""Return the polar of :math:`\Omega_g` at each block, (g,); 0 for groups of weight 0."""
        if not self.is_euclidean:
            weights = self.norm_weights, self.l1_weights
            return mixed_dual_norms(correlations, self.blocks.bounds[1:], *weights, self.positive)
        return self.blocks.norms(correlations) / self._divisors

    def thresholded(self, v: np.ndarray, step: float) -> np.ndarray:
        """Return the proximity operator of the l1 term: soft thresholding, without negative values
        if ``positive``.
        """
        if self.is_euclidean:
            return v
        magnitudes = np.maximum(
            (v if self.positive else np.abs(v)) - self.blocks.spread(step * self.l1_weights), 0.0
        )
        return magnitudes if self.positive else np.copysign(magnitudes, v)


class ColumnGroups:
    r"""A partition of the columns of a design into groups, with weights.

    Parameters
    ----------
    groups : None, int array of shape (n,), or list of lists of int
        None puts every column into its own group; an array gives each column's group by any label;
        lists give each group's columns, and must name every column once.
    n_columns : int
    weights : array of shape (g,), optional
        :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists. The regularizer is applied to
        :math:`\omega_g \|w_g\|`. All 1 by default; the square root of the size is a common choice. Groups of weight 0
        are not regularized, unless ``l1`` is > 0.
    l1 : float >= 0
        If > 0, the regularizer is applied to :math:`\omega_g \|w_g\| + l \|w_g\|_1`.
    positive : bool
        Whether coefficients must not be negative.

    Attributes
    ----------
    n_groups : int
    order : int array of shape (n,) or None
        The columns, group by group; None if they already are in this order.
    blocks : Blocks
    gauge : GroupNorms
        Norms of all groups.
    scales : array of shape (g,)
        Divisors of each group's columns in computations.
    free : int array
        Groups that are not regularized.

    Raises
    ------
    omkl.exceptions.InputError
        If groups or weights do not fit the columns.
    """

    def __init__(
        self,
        groups: Any,
        n_columns: int,
        weights: ArrayLike | None = None,
        *,
        l1: float = 0.0,
        positive: bool = False,
    ) -> None:
        self.n_columns = n_columns
        labels = column_labels(groups, n_columns)
        self.order = (
            None
            if labels is None or np.all(np.diff(labels) >= 0)
            else np.argsort(labels, kind="stable")
        )
        self.blocks = Blocks(
            np.ones(n_columns, dtype=np.int64) if labels is None else np.bincount(labels)
        )
        self.n_groups = len(self.blocks.sizes)
        known = np.ones(self.n_groups) if weights is None else np.asarray(weights)
        is_valid = known.dtype.kind in "biuf" and known.shape == (self.n_groups,)
        if (
            not is_valid
            or not np.all(np.isfinite(known))
            or not np.all(known >= 0)
            or not np.any(known > 0)
        ):
            n = self.n_groups
            raise InputError(
                f"group weights must be {n} finite numbers >= 0, one for each group, and not all 0."
            )
        self._weigh(known.astype(np.float64), l1, positive)

    def _weigh(self, weights: np.ndarray, l1: float, positive: bool) -> None:
        self.gauge = GroupNorms(self.blocks, weights, np.full(self.n_groups, l1), positive)
        self.l1 = l1
        self.free = np.flatnonzero(weights + l1 == 0)
        self.scales = np.where(weights > 0, weights, l1 or 1.0)

    def reweighed(self, factor: float, l1: float, positive: bool) -> "ColumnGroups":
        """Return the same groups with other weights.

        Parameters
        ----------
        factor : float
            Factor of the weights.
        l1 : float >= 0
        positive : bool
        """
        if (factor, l1, positive) == (1.0, self.l1, self.gauge.positive):
            return self
        same = copy(self)
        same._weigh(factor * self.gauge.norm_weights, l1, positive)
        return same

    def _ordered(self, vector: np.ndarray) -> np.ndarray:
        return vector if self.order is None else vector[self.order]

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the norms of all groups, (g,).

        Parameters
        ----------
        coefficients : array of shape (n,)
        """
        return self.gauge.norms(self._ordered(coefficients))

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""Return the dual norms of all groups, :math:`\|A_g^\top \rho\| / \omega_g` if Euclidean,
        (g,).

        Parameters
        ----------
        correlations : array of shape (n,)
        """
        return self.gauge.dual_norms(self._ordered(correlations))

    def columns_of(self, groups: np.ndarray) -> tuple[np.ndarray, Blocks]:
        """Return the columns of some groups, group by group, and their :class:`Blocks`.

        Parameters
        ----------
        groups : int array
        """
        own = Blocks(self.blocks.sizes[groups])
        if self.blocks.single:
            return groups if self.order is None else self.order[groups], own
        positions = own.spread(self.blocks.bounds[groups] - own.bounds[:-1]) + np.arange(
            own.bounds[-1]
        )
        return positions if self.order is None else self.order[positions], own

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return one value per column from one value per group.

        Parameters
        ----------
        values : array of shape (g,)
        """
        spread = self.blocks.spread(values)
        if self.order is None:
            return spread
        columns = np.empty_like(spread)
        columns[self.order] = spread
        return columns

    def of_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return the groups of some columns, sorted.

        Parameters
        ----------
        columns : int array
        """
        return np.unique(self.spread(np.arange(self.n_groups))[columns])


def column_labels(groups: Any, n_columns: int) -> np.ndarray | None:
    """Return each column's group as 0, 1, ..., in the order of sorted labels or of lists; None if
    all are single.

    Parameters
    ----------
    groups : None, array of shape (n,) of labels, or list of lists of int
    n_columns : int

    Raises
    ------
    omkl.exceptions.InputError
        If groups do not fit the columns.
    """
    if groups is None:
        return None
    if isinstance(groups, (list, tuple)) and len(groups) and np.ndim(groups[0]) > 0:
        sizes = [len(group) for group in groups]
        members = np.array([column for group in groups for column in group])
        is_partition = members.dtype.kind in "iu" and np.array_equal(
            np.sort(members), np.arange(n_columns)
        )
        if not is_partition or not all(sizes):
            raise InputError(
                f"groups must be lists that name each of the {n_columns} columns exactly once."
            )
        labels = np.empty(n_columns, dtype=np.int64)
        labels[members] = np.repeat(np.arange(len(groups)), sizes)
        return labels
    labels = np.asarray(groups)
    if labels.shape != (n_columns,):
        raise InputError(
            f"groups must hold one label for each of the {n_columns} columns, got shape {labels.shape}."
        )
    try:
        distinct, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        distinct, codes = np.array([np.nan]), None
    if np.any(distinct != distinct):
        raise InputError("groups must hold labels of one kind, numbers or strings, without NaN.")
    return codes
