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
#: Relative tolerance of the dual ball; relative accuracy of the dual norm, and maximum number of
#: triples of steps.
WITHIN, GAUGE_ACCURACY, GAUGE_STEPS = 1e-9, 1e-12, 1000
#: Maximum number of sweeps of the exact prox, and the relative move at which it stops.
SWEEPS, SETTLED = 10_000, 1e-14


class _UnionOfGroups(Regularizer):
    r"""Base of overlapping and tree groups: :math:`\sum_g w_g \|x_g\|_2` over index sets g."""

    is_sparse = True
    least_at_one_group = True
    dual_radius = 0.0
    rank = 1
    #: Whether unions are nested or disjoint; proximal steps then go from the leaves to the root.
    nested = False

    def __init__(self, groups: Unions, weights: ArrayLike | None = None) -> None:
        groups = list(groups.values() if isinstance(groups, Mapping) else groups)
        self.groups = [[] if isinstance(group, str) else list(group) for group in groups]
        members: list[Any] = [member for group in self.groups for member in group]
        by_index = all(isinstance(member, (int, np.integer)) for member in members)
        fit = all(
            isinstance(m, str) or (isinstance(m, (int, np.integer)) and m >= 0) for m in members
        )
        if not self.groups or not all(self.groups) or not fit:
            raise InputError(
                "groups must be a non-empty list of non-empty lists of names, or of indices >= 0."
            )
        self.weights = (
            np.ones(len(self.groups)) if weights is None else np.array(weights, dtype=np.float64)
        )
        if self.weights.shape != (len(self.groups),) or not np.all(
            (self.weights >= 0) & (self.weights < np.inf)
        ):
            raise InputError(
                f"weights must hold one finite number >= 0 for each of the {len(self.groups)} groups."
            )
        if by_index:
            self._prepare()

    def parameters(self) -> dict[str, Any]:
        return {"groups": self.groups, "weights": self.weights.tolist()}

    def _prepare(self) -> None:
        """Set up CSR lists of members."""
        if repeated := [group for group in self.groups if len(set(group)) < len(group)]:
            raise InputError(f"The union {repeated[0]} has a member twice: give every member once.")
        self._size = 1 + max(int(member) for group in self.groups for member in group)
        order = sorted(
            range(len(self.groups)), key=lambda g: len(self.groups[g]) if self.nested else g
        )
        self._starts = np.cumsum([0] + [len(self.groups[g]) for g in order])
        self._members = np.array(
            [member for g in order for member in self.groups[g]], dtype=np.int64
        )
        self._ordered_weights = self.weights[order]

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "_UnionOfGroups":
        place: dict[int | str, int] = {name: k for k, name in enumerate(names)}
        place |= {i: place[name] for i, name in enumerate(names if order is None else order)}
        if unknown := [m for group in self.groups for m in group if m not in place]:
            raise InputError(f"No group is called {unknown[0]!r}; there are {', '.join(names)}.")
        groups = [[place[m] for m in group] for group in self.groups]
        return type(self)(**{**self.parameters(), "groups": groups})

    def _checked(self, norms: ArrayLike) -> np.ndarray:
        norms = as_vector(norms)
        if norms.size < self._size:
            raise InputError(
                f"groups refers to index {self._size - 1}, but the vector has {norms.size} entries."
            )
        return norms

    def _union_norms(self, norms: ArrayLike) -> np.ndarray:
        return np.sqrt(np.add.reduceat(self._checked(norms)[self._members] ** 2, self._starts[:-1]))

    def _summed(self, by_union: np.ndarray, n_groups: int) -> np.ndarray:
        """Return, for each group, the sum over the unions that contain it."""
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
        union_norms, n_groups = self._union_norms(norms), len(as_vector(norms))
        inside = self._summed(ratio_or_zero(self._ordered_weights, union_norms), n_groups)
        return inside * np.abs(norms) + self._summed(
            np.where(union_norms > 0, 0.0, self._ordered_weights), n_groups
        )

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        at_zero = np.where(self._ordered_weights > 0, np.inf, 0.0)
        ratios = ratio_or_zero(self._ordered_weights, self._union_norms(norms), at_zero)
        return self._summed(ratios, len(as_vector(norms)))

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return 0.0 if self._gauge(dual_norms) <= 1.0 + WITHIN else math.inf

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        return 1.0 / max(1.0, self._gauge(dual_norms))

    def _gauge(self, dual_norms: ArrayLike) -> float:
        r"""Return the dual norm :math:`\min \max_g \|u_g\| / w_g` over :math:`\sum_g u_g = y`, or
        an upper bound.

        Its square is the largest :math:`\sum_i y_i^2 h_i` with :math:`1 / h_i = \sum_{g \ni i} 1 /
        \nu_g` over
        :math:`\sum_g w_g^2 \nu_g = 1` (Micchelli and Pontil 2005). Multipliers :math:`\nu_g \propto \|h_g y_g\| / w_g`
        increase this sum at every step; pairs of steps are extrapolated as in SQUAREM (Varadhan and
        Roland 2008).
        """
        dual_norms = self._checked(dual_norms)
        if np.any(dual_norms[self._summed(self._ordered_weights, len(dual_norms)) == 0] != 0):
            return math.inf
        if not (unit := float(np.abs(dual_norms).max(initial=0.0))):
            return 0.0
        y, charged = dual_norms / unit, self._ordered_weights > 0
        squares = np.where(charged, self._ordered_weights, 1.0) ** 2
        upper = math.inf

        def raised(logs: np.ndarray) -> tuple[float, np.ndarray]:
            """Return the sum at these multipliers, and the next multipliers; tighten ``upper`` by
            ``h y / nu``.
            """
            nonlocal upper
            multipliers = np.exp(np.maximum(logs - logs.max(), -230.0))
            multipliers /= squares @ multipliers
            h = ratio_or_zero(1.0, self._summed(np.where(charged, 1.0 / multipliers, 0.0), len(y)))
            norms = np.where(charged, self._union_norms(h * y), 0.0)
            upper = min(upper, float((norms / multipliers / np.sqrt(squares)).max()))
            return float((norms**2 / multipliers).sum()), np.log(
                np.maximum(norms / np.sqrt(squares), 1e-100)
            )

        start = -np.log(squares)
        for _ in range(GAUGE_STEPS):
            _, first = raised(start)
            value, second = raised(first)
            move, turn = first - start, second - 2.0 * first + start
            factor = min(
                max(1.0, float(np.linalg.norm(move)) / max(float(np.linalg.norm(turn)), 1e-300)),
                1e6,
            )
            lower, following = raised(start + 2.0 * factor * move + factor**2 * turn)
            start = following if lower >= value else second
            if upper**2 <= (1.0 + GAUGE_ACCURACY) * max(lower, value):
                break
        return unit * upper


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
        arrays = self._starts, self._members, step * self._ordered_weights
        return prox_overlapping(self._checked(norms), *arrays, SETTLED, SWEEPS)


class TreeGroups(_UnionOfGroups):
    r"""Hierarchical penalty :math:`\sum_g w_g \|x_g\|_2` whose unions are nested or disjoint (Zhao
    et al. 2008).

    Any two unions must be disjoint, or one within the other; they may be listed in any order.
    Taking the proximal steps from the leaves to the root makes their composition the exact prox of
    the sum (Jenatton et al. 2011).

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
                if first & second and not (first <= second or second <= first):
                    raise InputError(
                        f"Groups {j} and {i} overlap and neither contains the other, so they form no tree: "
                        "use OverlappingGroups."
                    )
        super()._prepare()
