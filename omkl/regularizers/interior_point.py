r"""Dual norm and proximity operator of norms of overlapping unions, by an interior-point method.

Both are the least :math:`\sum_i y_i^2 (1 - h_i)` plus the price of multipliers :math:`\nu_g \ge 0` of the unions, with
:math:`1 / h_i = e + \sum_{g \ni i} 1 / \nu_g`: with e = 1 and prices :math:`t_g^2` this is the variational form of the
proximity operator of :math:`\sum_g t_g \|x_g\|` (Micchelli and Pontil 2005), whose value is :math:`x_i = h_i y_i`; with
e = 0 the largest :math:`\sum_i y_i^2 h_i` at :math:`\sum_g w_g^2 \nu_g = 1` is the square of the dual norm. In either
case :math:`z_g = x_g / \nu_g` are parts of y, and :math:`\|z_g\|` must not exceed :math:`t_g`, or :math:`\tau w_g`.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

#: Relative accuracy of a dual norm; complementarity at which a proximity operator is found; Newton steps at most.
ACCURACY, COMPLEMENTARITY, MOST_STEPS = 1e-12, 1e-20, 300
#: Unions from which on their systems of equations are held sparse.
MANY_UNIONS = 400
#: Weights below this, of unions of numbers up to 1, make no difference.
NEGLIGIBLE = 1e-18
#: Relative rounding errors of slacks and objectives.
ROUNDING = 1e-14


class Unions(NamedTuple):
    """Index sets in CSR form, and a weight > 0 for each."""

    starts: np.ndarray
    members: np.ndarray
    weights: np.ndarray

    def connected(self, y: np.ndarray) -> "Iterator[tuple[np.ndarray, Unions]]":
        """Yield the connected components: indices of coordinates, and their unions, where y is not 0."""
        sizes = np.diff(self.starts)
        alive = (y[self.members] != 0) & np.repeat(self.weights > 0, sizes)
        owners = np.repeat(np.arange(len(sizes)), sizes)[alive]
        holds = sparse.csr_array((np.ones(len(owners)), (owners, self.members[alive])), (len(sizes), len(y)))
        n_parts, labels = connected_components(sparse.block_array([[None, holds], [holds.T, None]]), directed=False)
        order = np.argsort(labels, kind="stable")
        for nodes in np.split(order, np.searchsorted(labels[order], np.arange(1, n_parts))):
            unions, coordinates = nodes[nodes < len(sizes)], nodes[nodes >= len(sizes)] - len(sizes)
            if len(unions) and len(coordinates):
                own = holds[unions][:, coordinates]
                own.sort_indices()
                yield coordinates, Unions(own.indptr, own.indices, self.weights[unions])


class _Point:
    """Multipliers with their ``1 / h``, x, and squared lengths of the parts."""

    def __init__(self, problem: "_InteriorPoint", nu: np.ndarray) -> None:
        unions = problem.unions
        self.nu = nu
        inverses = (1.0 / nu)[problem.owners]
        self.total = problem.ridge + np.bincount(unions.members, inverses, minlength=len(problem.y))
        self.x = problem.y / self.total
        self.squares = np.add.reduceat(self.x[unions.members] ** 2, unions.starts[:-1]) / nu**2


class _InteriorPoint:
    """Newton's method on the central path of one connected problem, whose largest ``|y_i|`` is 1.

    Products of multipliers and slacks go to zero; steps are those of the primal-dual method, so long as they lower the
    primal barrier function, which is convex.
    """

    def __init__(self, y: np.ndarray, unions: Unions, ridge: float) -> None:
        self.y, self.unions, self.ridge = y, unions, ridge
        self.sizes, self.prices = np.diff(unions.starts), unions.weights**2
        self.owners = np.repeat(np.arange(len(self.sizes)), self.sizes)
        if ridge:
            lengths = np.sqrt(np.add.reduceat(y[unions.members] ** 2, unions.starts[:-1]))
            self.point = _Point(self, np.maximum(lengths, 1e-3) / unions.weights)
            self.level = 1.0
        else:
            self.point = _Point(self, 1.0 / (len(self.prices) * self.prices))
            self.level = 2.0 * (self.point.squares / self.prices).max()
        self.slacks = np.maximum(self.level * self.prices - self.point.squares, 0.1 * self.level * self.prices)
        # scaled by the weights for a prox, so that unions of small weight converge, too
        self.target = unions.weights if ridge else np.ones(len(self.prices))
        self.target = self.target * 0.1 * (self.point.nu @ self.slacks) / self.target.sum()

    def follow(self) -> None:
        """Follow the central path to its end."""
        for _ in range(MOST_STEPS):
            limits = self.point.nu * self.level * self.prices
            excess = np.abs(limits - self.point.nu * self.point.squares - self.target)
            on_path = bool(np.all(excess < self.target + ROUNDING * limits))
            if self._ended(on_path):
                return
            if on_path:
                self.target = self.target * min(0.1, self.target.sum() ** 0.5)
            self._step()

    def _ended(self, on_path: bool) -> bool:
        if self.ridge:
            return on_path and bool((self.target / self.unions.weights).max() <= COMPLEMENTARITY)
        # upper and lower bound of the squared dual norm, also off the path
        return bool(self.largest_ratio() <= (1.0 + ACCURACY) * (self.point.nu @ self.point.squares))

    def largest_ratio(self) -> float:
        """Return the largest squared length of a part, relative to its price."""
        return float((self.point.squares / self.prices).max())

    def _step(self) -> None:
        point, nu = self.point, self.point.nu
        solve = self._system()
        relative, rise = solve(self.target - nu * (self.level * self.prices - point.squares)), 0.0
        if not self.ridge:
            priced = nu * self.prices
            along = solve(priced)
            rise = (priced @ relative - (1.0 - priced.sum())) / (priced @ along)
            relative -= rise * along
        moves = self.target / nu - self.slacks * (1.0 + relative)
        self.level += rise
        self._search(relative)
        self.slacks += min(1.0, 0.995 / max(-(moves / self.slacks).min(), 1e-300)) * moves
        centered = self.target / self.point.nu
        self.slacks = np.clip(self.slacks, 1e-4 * centered, 1e4 * centered)

    def _search(self, relative: np.ndarray) -> None:
        """Move along relative steps of the multipliers until the barrier function is lower, beyond rounding."""
        point = self.point
        slope = (point.nu * (self.level * self.prices - point.squares) - self.target) @ relative
        (before, size), step = self._barrier(point), min(1.0, 0.995 / max(-relative.min(), 1e-300))
        for _ in range(40):
            nu = point.nu * (1.0 + step * relative)
            self.point = _Point(self, nu if self.ridge else nu / (self.prices @ nu))
            if self._barrier(self.point)[0] <= before + 1e-4 * step * slope + ROUNDING * size:
                return
            step *= 0.5

    def _barrier(self, point: _Point) -> tuple[float, float]:
        """Return the barrier function, and the sum of the magnitudes of its terms."""
        price, gain = self.prices @ point.nu if self.ridge else 0.0, point.x @ self.y
        barrier = self.target @ np.log(point.nu)
        return float(price - gain - barrier), float(price + gain + abs(barrier))

    def _system(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that solves for relative steps; the Hessian is diagonal minus the square of a matrix."""
        point, unions, n_unions = self.point, self.unions, len(self.prices)
        entries = (point.x * np.sqrt(2.0 / point.total))[unions.members] / point.nu[self.owners]
        coupling: Any = sparse.csr_array((entries, unions.members, unions.starts), (n_unions, len(self.y)))
        if n_unions <= MANY_UNIONS and len(self.y) <= MANY_UNIONS:
            coupling = np.zeros((n_unions, len(self.y)))
            coupling[self.owners, unions.members] = entries
        hessian = -(coupling @ coupling.T)
        own, barrier = 2.0 * point.squares * point.nu, self.slacks * point.nu
        diagonal = np.maximum(hessian.diagonal() + own + barrier, 0.1 * ROUNDING * own + barrier)
        scale = 1.0 / np.sqrt(diagonal)
        if n_unions > MANY_UNIONS:
            hessian.setdiag((1.0 + ROUNDING) * diagonal)
            factor = splu((sparse.diags_array(scale) @ hessian @ sparse.diags_array(scale)).tocsc())
            return lambda right: scale * factor.solve(scale * right)
        dense = (hessian if isinstance(hessian, np.ndarray) else hessian.toarray()) * scale[:, None] * scale
        for added in (0.0, *10.0 ** np.arange(-15, -5)):
            np.fill_diagonal(dense, 1.0 + added)
            try:
                cholesky = cho_factor(dense)
            except np.linalg.LinAlgError:
                continue
            return lambda right: scale * cho_solve(cholesky, scale * right)
        return lambda right: right / diagonal


def dual_norm_of_unions(y: np.ndarray, unions: Unions) -> float:
    r"""Return the dual norm :math:`\min \max_g \|z_g\| / w_g` over :math:`\sum_g z_g = y`.

    It is at most :data:`ACCURACY` too large, relative to itself. Coordinates in no union are left out.
    """
    largest = 0.0
    for coordinates, own in unions.connected(y):
        unit, weight = np.abs(y[coordinates]).max(), own.weights.max()
        path = _InteriorPoint(y[coordinates] / unit, own._replace(weights=own.weights / weight), 0.0)
        path.follow()
        largest = max(largest, unit / weight * math.sqrt(path.largest_ratio()))
    return largest


def prox_of_unions(y: np.ndarray, unions: Unions) -> np.ndarray:
    r"""Return the proximity operator of :math:`\sum_g w_g \|x_g\|` at y, with exact zeros."""
    x = y.copy()
    for coordinates, own in unions.connected(y):
        unit = np.abs(y[coordinates]).max()
        scaled = y[coordinates] / unit
        # a part is no longer than its union: larger weights change nothing, nor do negligible ones
        lengths = np.sqrt(np.add.reduceat(scaled[own.members] ** 2, own.starts[:-1]))
        weights = np.clip(own.weights / unit, NEGLIGIBLE, 2.0 * np.maximum(lengths, NEGLIGIBLE))
        path = _InteriorPoint(scaled, own._replace(weights=weights), 1.0)
        path.follow()
        # by complementarity either the norm of a union is 0, or the slack of its part
        zero = path.point.nu * weights < path.slacks / path.prices
        path.point.x[own.members[zero[path.owners]]] = 0.0
        x[coordinates] = unit * path.point.x
    return x
