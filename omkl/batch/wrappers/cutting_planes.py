"""SILP and LevelMKL: cutting-plane methods for J."""

from collections.abc import Iterator

import numpy as np
import scipy

from omkl._components import check_number
from omkl.batch.wrappers.wrapper import Point, Search, Wrapper
from omkl.regularizers import L21Ball


class CuttingPlanes:
    r"""The model :math:`\max_j\, c_j + s_j^\top d \le J(d)`, with :math:`s_j = \nabla J(d_j)`."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.points: list[Point] = []
        self._multipliers = np.zeros(0)

    def add(self, point: Point) -> None:
        """Add the plane that touches J at a point."""
        self.points.append(point)
        self._slopes = np.array([cut.gradient for cut in self.points])
        self._constants = np.array([cut.value - cut.gradient @ cut.weights for cut in self.points])

    def minimize(self) -> tuple[np.ndarray, float] | None:
        """Minimise the model over the simplex by a linear program; return weights (M,) and value, None on failure.

        The multipliers of the planes mix their dual points into a dual point whose value is at least the minimum; pass
        it to the search. Norms are convex, so the mixture of the squares bounds the squares of the mixture.
        """
        n_planes, n_kernels = self._slopes.shape
        # scale by the best value: the tolerances of the program are absolute
        unit = max(abs(self.search.primal), np.finfo(float).tiny)
        program = scipy.optimize.linprog(
            np.append(np.zeros(n_kernels), 1.0),
            A_ub=np.column_stack([self._slopes / unit, np.full(n_planes, -1.0)]),
            b_ub=-self._constants / unit,
            A_eq=np.append(np.ones(n_kernels), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * n_kernels + [(None, None)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if not program.success:
            return None
        mixture = np.maximum(-program.ineqlin.marginals, 0.0)
        mixture /= mixture.sum()
        self.search.offer(
            mixture @ np.array([cut.rho for cut in self.points]),
            mixture @ np.array([cut.squares for cut in self.points]),
        )
        weights = np.maximum(program.x[:n_kernels], 0.0)
        return weights / weights.sum(), unit * program.x[n_kernels]

    def project(self, weights: np.ndarray, level: float) -> np.ndarray:
        """Return the closest point of the simplex to weights (M,) with a model value of at most ``level``.

        The dual of this quadratic program is smooth, with one multiplier ``>= 0`` per plane; L-BFGS-B solves it. The
        primal point is the projection of ``weights`` minus the weighted slopes onto the simplex.
        """
        # centred slopes are better conditioned, and equivalent on the simplex
        means = self._slopes.mean(axis=1)
        slopes, excess = self._slopes - means[:, None], self._constants + means - level
        units = np.maximum(np.linalg.norm(slopes, axis=1), np.finfo(float).tiny)
        slopes, excess = slopes / units[:, None], excess / units

        def negative_dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
            point = _onto_simplex(weights - multipliers @ slopes)
            violation = slopes @ point + excess
            step = point - weights
            return -(0.5 * step @ step + multipliers @ violation), -violation

        start = np.zeros(len(self.points))
        start[: len(self._multipliers)] = self._multipliers
        options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-12}
        found = scipy.optimize.minimize(
            negative_dual, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options
        )
        self._multipliers = found.x
        return _onto_simplex(weights - found.x @ slopes)


def _onto_simplex(vector: np.ndarray) -> np.ndarray:
    """Return the closest point of the simplex."""
    # the projection is invariant to shifts; after this shift it equals the projection onto the l1 ball
    return L21Ball(1.0).prox(vector - vector.min() + 1.0 / len(vector), 1.0)


class SILP(Wrapper):
    r"""Semi-infinite linear programming: the next weights minimise the cutting-plane model (Sonnenburg et al. 2006).

    References
    ----------
    S. Sonnenburg, G. Raetsch, C. Schaefer, B. Schoelkopf. Large scale multiple kernel learning. JMLR 7:1531-1565, 2006.
    """

    aliases = {"silp": {}}
    default_max_iter = 5000

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        planes = CuttingPlanes(search)
        while True:
            planes.add(point)
            found = planes.minimize()
            # repeated weights add no plane
            if found is None or np.array_equal(found[0], point.weights):
                return
            point = search.evaluate(found[0])
            yield point


class LevelMKL(Wrapper):
    r"""The extended level method: project the weights onto a level set of the model (Xu et al. 2009).

    The level lies between the minimum of the model and the best value of J so far.

    Parameters
    ----------
    level : float in (0, 1)
        Position between these two: 0 gives SILP, 1 keeps the weights.

    References
    ----------
    Z. Xu, R. Jin, I. King, M. R. Lyu. An extended level method for efficient multiple kernel learning. NIPS 21, 2009.
    """

    aliases = {"levelmkl": {}}

    def __init__(self, level: float = 0.9) -> None:
        check_number("level", level, above=0, below=1)
        self.level = level

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        planes, best = CuttingPlanes(search), np.inf
        while True:
            planes.add(point)
            best = min(best, point.value)
            found = planes.minimize()
            if found is None:
                return
            level = self.level * best + (1 - self.level) * found[1]
            point = search.evaluate(planes.project(point.weights, level))
            yield point
