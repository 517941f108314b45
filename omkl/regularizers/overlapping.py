r"""Norms of unions of groups, overlapping or nested.

Norms of unions, :math:`\|\theta_g\| = (\sum_{k \in g} b_k^2)^{1/2}`, are functions of the group
norms, so Proposition 1 of Martins et al. (2011) holds. The unions consist of the groups of the
model, kernels included. For overlaps between single features, make every feature a group.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.regularizers._jit_prox import prox_overlapping, shrink_groups_in_turn
from omkl.regularizers.base import Regularizer, as_vector, ratio_or_zero

#: Members of each union: names of groups, or indices.
Unions: TypeAlias = Iterable[Iterable[int | str]]
#: Relative tolerance of the dual ball.
WITHIN = 1e-9
#: Relative accuracy of the dual norm, and maximum number of triples of steps.
GAUGE_ACCURACY = 1e-12
GAUGE_STEPS = 1000
#: Maximum number of sweeps of the exact prox, and the relative move at which it stops.
SWEEPS = 10_000
SETTLED = 1e-14


class _UnionOfGroups(Regularizer):
    r"""Base of overlapping and tree groups: :math:`\sum_g w_g \|x_g\|_2` over index sets g."""

    is_sparse = True
    least_at_one_group = True
    dual_radius = 0.0
    rank = 1
    #: Whether unions are nested or disjoint; proximal steps then go from the leaves to the root.
    nested = False

    def __init__(self, groups: Unions, weights: ArrayLike | None = None) -> None:
        unions = groups.values() if isinstance(groups, Mapping) else groups
        self.groups = [[] if isinstance(union, str) else list(union) for union in unions]
        members: list[Any] = [member for union in self.groups for member in union]
        if not self.groups or not all(self.groups) or not all(map(_is_member, members)):
            raise InputError(
                "groups must be a non-empty list of non-empty lists of names, or of indices >= 0."
            )
        self.weights = np.ones(len(self.groups))
        if weights is not None:
            self.weights = np.array(weights, dtype=np.float64)
        fit = np.all((self.weights >= 0) & (self.weights < np.inf))
        if self.weights.shape != (len(self.groups),) or not fit:
            raise InputError(
                "weights must hold one finite number >= 0 "
                f"for each of the {len(self.groups)} groups."
            )
        if not any(isinstance(member, str) for member in members):
            self._prepare()

    def parameters(self) -> dict[str, Any]:
        return {"groups": self.groups, "weights": self.weights.tolist()}

    def _prepare(self) -> None:
        """Set up CSR lists of members, from the leaves to the root if unions are nested."""
        for union in self.groups:
            if len(set(union)) < len(union):
                raise InputError(f"The union {union} has a member twice: give every member once.")
        sizes = [len(union) for union in self.groups]
        order = list(range(len(sizes)))
        if self.nested:
            order.sort(key=sizes.__getitem__)
        self._starts = np.cumsum([0] + [sizes[g] for g in order])
        self._members = np.concatenate([np.array(self.groups[g], dtype=np.int64) for g in order])
        #: Least number of groups of a model.
        self._size = 1 + int(self._members.max())
        self._ordered_weights = self.weights[order]

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "_UnionOfGroups":
        index_of: dict[int | str, int] = {name: k for k, name in enumerate(names)}
        index_of |= {i: index_of[name] for i, name in enumerate(names if order is None else order)}
        groups = []
        for union in self.groups:
            for member in union:
                if member not in index_of:
                    raise InputError(
                        f"No group is called {member!r}; there are {', '.join(names)}."
                    )
            groups.append([index_of[member] for member in union])
        return type(self)(**{**self.parameters(), "groups": groups})

    def _checked(self, norms: ArrayLike) -> np.ndarray:
        """Return norms as a vector; raise an InputError if there are too few for the unions."""
        norms = as_vector(norms)
        if norms.size < self._size:
            raise InputError(
                f"groups refers to index {self._size - 1}, but the vector has {norms.size} entries."
            )
        return norms

    def _union_norms(self, norms: ArrayLike) -> np.ndarray:
        """Return the norms (number of unions,) of the unions, in the order of steps."""
        squares = self._checked(norms)[self._members] ** 2
        return np.sqrt(np.add.reduceat(squares, self._starts[:-1]))

    def _summed(self, by_union: np.ndarray, n_groups: int) -> np.ndarray:
        """Return, for each group, the sum over the unions that contain it, (p,)."""
        members = np.repeat(by_union, np.diff(self._starts))
        return np.bincount(self._members, members, minlength=n_groups)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        return shrink_groups_in_turn(
            self._checked(norms), self._starts, self._members, step * self._ordered_weights
        )

    def value(self, norms: ArrayLike) -> float:
        return float(self._ordered_weights @ self._union_norms(norms))

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        return norm * self._summed(self._ordered_weights, n_groups)

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        n_groups = len(as_vector(norms))
        union_norms = self._union_norms(norms)
        ratios = self._summed(ratio_or_zero(self._ordered_weights, union_norms), n_groups)
        weights_at_zero = np.where(union_norms > 0, 0.0, self._ordered_weights)
        return ratios * np.abs(norms) + self._summed(weights_at_zero, n_groups)

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        at_zero = np.where(self._ordered_weights > 0, np.inf, 0.0)
        ratios = ratio_or_zero(self._ordered_weights, self._union_norms(norms), at_zero)
        return self._summed(ratios, len(as_vector(norms)))

    def conjugate(self, dual_norms: ArrayLike) -> float:
        is_inside = self._gauge(dual_norms) <= 1.0 + WITHIN
        return 0.0 if is_inside else math.inf

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        return 1.0 / max(1.0, self._gauge(dual_norms))

    def _gauge(self, dual_norms: ArrayLike) -> float:
        r"""Return the dual norm, or an upper bound of it.

        It is :math:`\min \max_g \|u_g\| / w_g` over :math:`\sum_g u_g = y`. Its square is the
        largest :math:`\sum_i y_i^2 h_i` with :math:`1 / h_i = \sum_{g \ni i} 1 / \nu_g` over
        :math:`\sum_g w_g^2 \nu_g = 1` (Micchelli and Pontil 2005). Multipliers
        :math:`\nu_g \propto \|h_g y_g\| / w_g` increase this sum at every step; pairs of steps are
        extrapolated as in SQUAREM (Varadhan and Roland 2008).
        """
        dual_norms = self._checked(dual_norms)
        is_free = self._summed(self._ordered_weights, len(dual_norms)) == 0
        if np.any(dual_norms[is_free] != 0):
            return math.inf
        unit = float(np.abs(dual_norms).max(initial=0.0))
        if not unit:
            return 0.0
        search = _GaugeSearch(self, dual_norms / unit)
        logs = -np.log(search.squares)
        for _ in range(GAUGE_STEPS):
            _, first = search.step(logs)
            value, second = search.step(first)
            move = first - logs
            turn = second - 2.0 * first + logs
            length = float(np.linalg.norm(move))
            factor = length / max(float(np.linalg.norm(turn)), 1e-300)
            factor = min(max(1.0, factor), 1e6)
            extrapolated = logs + 2.0 * factor * move + factor**2 * turn
            farther, following = search.step(extrapolated)
            logs = following if farther >= value else second
            if search.upper**2 <= (1.0 + GAUGE_ACCURACY) * max(farther, value):
                break
        return unit * search.upper


class _GaugeSearch:
    """Multipliers of unions that increase a lower bound of the dual norm of a vector.

    Parameters
    ----------
    unions : _UnionOfGroups
    y : array of shape (p,)
        Its largest magnitude is 1.

    Attributes
    ----------
    squares : array of shape (number of unions,)
        Squared weights; 1 for unions without a weight.
    upper : float
        Least upper bound of the dual norm so far.
    """

    def __init__(self, unions: _UnionOfGroups, y: np.ndarray) -> None:
        self._unions = unions
        self._y = y
        self._is_charged = unions._ordered_weights > 0
        self.squares = np.where(self._is_charged, unions._ordered_weights, 1.0) ** 2
        self.upper = math.inf

    def step(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """Tighten the upper bound at some multipliers.

        Parameters
        ----------
        logs : array of shape (number of unions,)
            Logarithms of the multipliers, up to a constant.

        Returns
        -------
        lower : float
            Square of the lower bound.
        next_logs : array of shape (number of unions,)
            Logarithms of multipliers with a higher one.
        """
        multipliers = np.exp(np.maximum(logs - logs.max(), -230.0))
        multipliers /= self.squares @ multipliers
        reciprocals = np.where(self._is_charged, 1.0 / multipliers, 0.0)
        h = ratio_or_zero(1.0, self._unions._summed(reciprocals, len(self._y)))
        norms = np.where(self._is_charged, self._unions._union_norms(h * self._y), 0.0)
        upper = float((norms / multipliers / np.sqrt(self.squares)).max())
        self.upper = min(self.upper, upper)
        lower = float((norms**2 / multipliers).sum())
        return lower, np.log(np.maximum(norms / np.sqrt(self.squares), 1e-100))


def _is_member(member: int | str) -> bool:
    """Return whether this is the name or the index of a group."""
    if isinstance(member, (int, np.integer)):
        return bool(member >= 0)
    return isinstance(member, str)


class OverlappingGroups(_UnionOfGroups):
    r"""Group lasso with overlapping groups: :math:`\sum_g w_g \|x_g\|_2` (Jenatton et al. 2009).

    Parameters
    ----------
    groups : list of lists
        Members of each union: names of groups of the model, or indices in the order in which the
        groups were given to the model.
    weights : array of shape (number of unions,), optional
        Weights ``w_g >= 0``; 1 by default.
    exact : bool
        False: the composite step of Algorithm 1, the prox of each union in turn. It is not the prox
        of the sum, but Lemma 4 of Martins et al. still holds. True: the prox of the sum, computed
        in several sweeps.
    """

    aliases = {"overlapping": {}}

    def __init__(
        self, groups: Unions, weights: ArrayLike | None = None, exact: bool = False
    ) -> None:
        self.exact = bool(exact)
        super().__init__(groups, weights)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "exact": self.exact}

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        if not self.exact:
            return super().prox(norms, step)
        thresholds = step * self._ordered_weights
        checked = self._checked(norms)
        return prox_overlapping(checked, self._starts, self._members, thresholds, SETTLED, SWEEPS)


class TreeGroups(_UnionOfGroups):
    r"""Hierarchical penalty :math:`\sum_g w_g \|x_g\|_2`, whose unions are nested or disjoint.

    See Zhao et al. (2008). Any two unions must be disjoint, or one within the other; they may be
    listed in any order. Taking the proximal steps from the leaves to the root makes their
    composition the exact prox of the sum (Jenatton et al. 2011).

    Parameters
    ----------
    groups : list of lists
        Members of each union: names of groups of the model, or indices in the order in which the
        groups were given to the model.
    weights : array of shape (number of unions,), optional
        Weights ``w_g >= 0``; 1 by default.

    >>> TreeGroups([[0, 1, 2], [0], [1, 2]]).prox([3.0, 0.4, 0.3], step=1.0)
    array([1., 0., 0.])
    """

    aliases = {"tree": {}}
    nested = True

    def _prepare(self) -> None:
        sets = [frozenset(group) for group in self.groups]
        for i, first in enumerate(sets):
            for j, second in enumerate(sets[:i]):
                is_nested = first <= second or second <= first
                if first & second and not is_nested:
                    raise InputError(
                        f"Groups {j} and {i} overlap and neither contains the other, "
                        "so they form no tree: use OverlappingGroups."
                    )
        super()._prepare()
