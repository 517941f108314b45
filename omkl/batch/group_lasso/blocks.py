"""Groups of columns, and the norms of blocks of a vector."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

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


@dataclass(eq=False)
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

    blocks: Blocks
    norm_weights: np.ndarray
    l1_weights: np.ndarray
    positive: bool

    def __post_init__(self) -> None:
        self.is_euclidean = not self.positive and not self.l1_weights.any()
        self._divisors = np.where(self.norm_weights > 0, self.norm_weights, np.inf)

    def of(
        self, groups: np.ndarray, blocks: Blocks, scales: np.ndarray | float = 1.0
    ) -> "GroupNorms":
        """Return the norms of some groups, for coefficients times the scale of their group."""
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
            n_negative = self.blocks.sums((w < 0).astype(np.float64))
            values[is_penalized & (n_negative > 0)] = np.inf
        return values

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""Return the polar of :math:`\Omega_g` at each block, (g,); 0 for groups of weight 0."""
        if self.is_euclidean:
            return self.blocks.norms(correlations) / self._divisors
        ends = self.blocks.bounds[1:]
        return mixed_dual_norms(
            correlations, ends, self.norm_weights, self.l1_weights, self.positive
        )

    def thresholded(self, v: np.ndarray, step: float) -> np.ndarray:
        """Return the proximity operator of the l1 term: soft thresholding.

        Negative values become zero if ``positive``.
        """
        if self.is_euclidean:
            return v
        thresholds = self.blocks.spread(step * self.l1_weights)
        if self.positive:
            return np.maximum(v - thresholds, 0.0)
        return np.copysign(np.maximum(np.abs(v) - thresholds, 0.0), v)


class ColumnGroups:
    r"""A partition of the columns of a design into groups, with weights.

    Parameters
    ----------
    groups : None, int array of shape (n,), or list of lists of int
        None puts every column into its own group; an array gives each column's group by any label;
        lists give each group's columns, and must name every column once.
    n_columns : int
    weights : array of shape (g,), optional
        :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists. The regularizer
        is applied to :math:`\omega_g \|w_g\|`. All 1 by default; the square root of the size is a
        common choice. Groups of weight 0 are not regularized, unless ``l1`` is > 0.
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
        groups: ArrayLike | None,
        n_columns: int,
        weights: ArrayLike | None = None,
        *,
        l1: float = 0.0,
        positive: bool = False,
    ) -> None:
        self.n_columns = n_columns
        labels = column_labels(groups, n_columns)
        self.blocks = Blocks(np.bincount(labels))
        self.order: np.ndarray | None = None
        if np.any(np.diff(labels) < 0):
            self.order = np.argsort(labels, kind="stable")
        self.n_groups = len(self.blocks.sizes)
        weights = np.ones(self.n_groups) if weights is None else np.asarray(weights)
        self._check_weights(weights)
        self._weigh(weights.astype(np.float64), l1, positive)

    def _check_weights(self, weights: np.ndarray) -> None:
        """Raise an InputError unless there is one weight >= 0 per group, and one is > 0."""
        is_valid = weights.dtype.kind in "biuf" and weights.shape == (self.n_groups,)
        if is_valid:
            is_valid = bool(np.all(np.isfinite(weights) & (weights >= 0)) and np.any(weights > 0))
        if not is_valid:
            raise InputError(
                f"group weights must be {self.n_groups} finite numbers >= 0, "
                "one for each group, and not all 0."
            )

    def _weigh(self, weights: np.ndarray, l1: float, positive: bool) -> None:
        """Set everything that depends on the weights."""
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
        reweighed = copy(self)
        reweighed._weigh(factor * self.gauge.norm_weights, l1, positive)
        return reweighed

    def _ordered(self, vector: np.ndarray) -> np.ndarray:
        """Return values of the columns, group by group."""
        return vector if self.order is None else vector[self.order]

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the norms of all groups, (g,).

        Parameters
        ----------
        coefficients : array of shape (n,)
        """
        return self.gauge.norms(self._ordered(coefficients))

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""Return the dual norms of all groups, (g,).

        They are :math:`\|A_g^\top \rho\| / \omega_g` if the norms are Euclidean.

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
        blocks = Blocks(self.blocks.sizes[groups])
        if self.blocks.single:
            positions = groups
        else:
            shifts = self.blocks.bounds[groups] - blocks.bounds[:-1]
            positions = blocks.spread(shifts) + np.arange(blocks.bounds[-1])
        columns = positions if self.order is None else self.order[positions]
        return columns, blocks

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return one value per column from one value per group.

        Parameters
        ----------
        values : array of shape (g,)
        """
        in_group_order = self.blocks.spread(values)
        if self.order is None:
            return in_group_order
        values_of_columns = np.empty_like(in_group_order)
        values_of_columns[self.order] = in_group_order
        return values_of_columns

    def of_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return the groups of some columns, sorted.

        Parameters
        ----------
        columns : int array
        """
        return np.unique(self.spread(np.arange(self.n_groups))[columns])


def column_labels(groups: ArrayLike | None, n_columns: int) -> np.ndarray:
    """Return each column's group as 0, 1, ..., in the order of sorted labels or of lists.

    Parameters
    ----------
    groups : None, array of shape (n,) of labels, or list of lists of int
        None puts every column into its own group.
    n_columns : int

    Raises
    ------
    omkl.exceptions.InputError
        If groups do not fit the columns.
    """
    if groups is None:
        return np.arange(n_columns)
    if isinstance(groups, (list, tuple)) and len(groups) and np.ndim(groups[0]) > 0:
        return _labels_of_lists(groups, n_columns)
    labels = np.asarray(groups)
    if labels.shape != (n_columns,):
        raise InputError(
            f"groups must hold one label for each of the {n_columns} columns, "
            f"got shape {labels.shape}."
        )
    message = "groups must hold labels of one kind, numbers or strings, without NaN."
    try:
        distinct, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError(message) from None
    if np.any(distinct != distinct):  # NaN
        raise InputError(message)
    return codes


def _labels_of_lists(groups: Sequence[Sequence[int]], n_columns: int) -> np.ndarray:
    """Return the index of each column's list; raise an InputError unless all have one."""
    sizes = [len(group) for group in groups]
    members = np.array(list(chain.from_iterable(groups)))
    is_integer = members.dtype.kind in "iu"
    if not (is_integer and np.array_equal(np.sort(members), np.arange(n_columns)) and all(sizes)):
        raise InputError(
            f"groups must be lists that name each of the {n_columns} columns exactly once."
        )
    labels = np.empty(n_columns, dtype=np.int64)
    labels[members] = np.repeat(np.arange(len(groups)), sizes)
    return labels
