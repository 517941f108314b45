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
    def starts(self) -> np.ndarray:
        """Index of the first coordinate of each block."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def sums(self, vector: np.ndarray) -> np.ndarray:
        """Return the sum of each block along the first axis."""
        return vector if self.single or not len(self.sizes) else np.add.reduceat(vector, self.starts, axis=0)

    def norms(self, vector: np.ndarray) -> np.ndarray:
        """Return the Euclidean norm of each block, (g,)."""
        return np.abs(vector) if self.single else np.sqrt(self.sums(vector * vector))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return one value a coordinate from one value a block."""
        return values if self.single else np.repeat(values, self.sizes, axis=0)


class MixedNorms:
    r"""Norms of blocks whose single coefficients count as well: sparse groups, and non-negative coefficients.

    .. math:: \Omega_g(w) = \omega_g \|w_g\| + l_g \|w_g\|_1

    (on request infinite where a coefficient is negative) is a gauge, and its polar takes the place of the dual norm
    (Simon, Friedman, Hastie, Tibshirani 2013; Ndiaye, Fercoq, Gramfort, Salmon 2016).

    Parameters
    ----------
    sizes : int array of shape (g,)
    norm_weights, l1_weights : arrays of shape (g,)
        The :math:`\omega_g` and :math:`l_g`, both >= 0.
    positive : bool
        Whether coefficients must not be negative.
    """

    def __init__(self, sizes: np.ndarray, norm_weights: np.ndarray, l1_weights: np.ndarray, positive: bool) -> None:
        self.sizes, self.norm_weights, self.l1_weights, self.positive = sizes, norm_weights, l1_weights, positive
        self.ends = np.cumsum(sizes)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.ends - self.sizes) if len(self.ends) else np.zeros(0)

    def norms(self, w: np.ndarray) -> np.ndarray:
        r"""Return :math:`\Omega_g` of each block."""
        values = self.norm_weights * np.sqrt(self._sums(w * w)) + self.l1_weights * self._sums(np.abs(w))
        if not self.positive:
            return values
        is_penalized = self.norm_weights + self.l1_weights > 0
        return np.where(is_penalized & (self._sums((w < 0).astype(np.float64)) > 0), np.inf, values)

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""Return the polar of :math:`\Omega_g` at each block."""
        return mixed_dual_norms(correlations, self.ends, self.norm_weights, self.l1_weights, self.positive)

    def thresholded(self, v: np.ndarray, step: float) -> np.ndarray:
        """Return the proximity operator of single coefficients: soft thresholding, and no negative ones on request."""
        reach = np.repeat(step * self.l1_weights, self.sizes)
        magnitudes = np.maximum((v if self.positive else np.abs(v)) - reach, 0.0)
        return magnitudes if self.positive else np.copysign(magnitudes, v)


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
        Divisors of each group's columns in computations; None where all are 1.
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
        """Return the same groups with other weights.

        Parameters
        ----------
        factor : float
            Of the weights.
        l1 : float >= 0
        positive : bool
        """
        if (factor, l1, positive) == (1.0, self.l1, self.positive):
            return self
        same = copy(self)
        known = np.ones(self.n_groups) if self.weights is None else self.weights
        same._weigh(self.weights if factor == 1.0 else factor * known, l1, positive)
        return same

    def mixed_of(self, groups: np.ndarray) -> MixedNorms:
        """Return norms of some groups, for coefficients that are multiplied by their group's scale."""
        mixed: Any = self.mixed
        scales = 1.0 if self.scales is None else self.scales[groups]
        weights = mixed.norm_weights[groups] / scales, mixed.l1_weights[groups] / scales
        return MixedNorms(mixed.sizes[groups], *weights, mixed.positive)

    def _ordered(self, vector: np.ndarray) -> np.ndarray:
        return vector if self.order is None else vector[self.order]

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        r"""Return the norms of all groups, (g,).

        Parameters
        ----------
        coefficients : array of shape (n,)
        """
        if self.mixed is not None:
            return self.mixed.norms(self._ordered(coefficients))
        norms = self.blocks.norms(self._ordered(coefficients))
        return norms if self.weights is None else norms * self.weights

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""Return the dual norms :math:`\|A_g^\top \rho\| / \omega_g` of all groups, (g,); 0 for weight 0.

        Parameters
        ----------
        correlations : array of shape (n,)
        """
        if self.mixed is not None:
            return self.mixed.dual_norms(self._ordered(correlations))
        return self._weighed(self.blocks.norms(self._ordered(correlations)), slice(None))

    def dual_norms_of(self, groups: np.ndarray, blocks: Blocks, correlations: np.ndarray) -> np.ndarray:
        """Return the dual norms of some groups, from the correlations with their columns alone."""
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
        """Return the columns of some groups, group by group, and their :class:`Blocks`.

        Parameters
        ----------
        groups : int array
        """
        if self.blocks.single:
            return groups if self.order is None else self.order[groups], Blocks(np.ones(len(groups), dtype=np.int64))
        sizes = self.blocks.sizes[groups]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._positions(np.repeat(self.blocks.starts[groups], sizes) + within), Blocks(sizes)

    def _positions(self, indices: np.ndarray) -> np.ndarray:
        return indices if self.order is None else self.order[indices]

    def of_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return the groups of some columns, sorted.

        Parameters
        ----------
        columns : int array
        """
        indices = columns if self.order is None else np.flatnonzero(np.isin(self.order, columns))
        return np.unique(np.searchsorted(self.blocks.starts, indices, side="right") - 1)


def column_labels(groups: Any, n_columns: int) -> np.ndarray | None:
    """Return each column's group as 0, 1, ..., in the order of sorted labels or of lists; None for one a column.

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
