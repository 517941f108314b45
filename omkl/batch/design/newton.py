r"""One proximal step of DAL: the augmented Lagrangian on a panel of columns, minimised over the dual by Newton steps.

For weight :math:`1/(2\gamma)`, with :math:`v = w + \gamma B^\top \rho` and :math:`u = b + \gamma_b 1^\top \rho`
(Tomioka, Suzuki and Sugiyama; sections 4 and 5 of Suzuki and Tomioka 2011 with one kernel a group)

.. math:: \varphi(\rho) = \sum_i l^*(y_i, -\rho_i) + \frac1\gamma\Bigl(x^\top v - \frac12 \|x\|^2\Bigr) - C \psi(x)
          + \frac{u^2}{2 \gamma_b}, \qquad x = \mathrm{prox}_{\gamma C}(v)

has the gradient :math:`\nabla l^* + B x + u 1` and the Hessian
:math:`D + \gamma B J B^\top + \gamma_b 1 1^\top`, in which J vanishes but for the active columns.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from omkl.batch.design.blocks import Blocks, RayJacobian

#: Above this order conjugate gradients take the place of a Cholesky factor.
LARGEST_FACTOR = 5000
#: Dual variables of a loss with a barrier keep this share of their distance to it.
BARRIER_SHARE = 0.05
#: and stay away from it by this share of the domain's width, where slopes are still finite.
BARRIER_MARGIN = 1e-12


@dataclass
class Point:
    """A dual point of the augmented Lagrangian, and all that follows from it.

    ``columns`` are the panel's active columns, once they have been asked for.
    """

    rho: np.ndarray
    v: np.ndarray
    u: float
    norms: np.ndarray
    shrunk: np.ndarray
    x: np.ndarray
    value: float
    columns: np.ndarray | sparse.csc_matrix | None = None


class AugmentedLagrangian:
    """The function of the module's docstring.

    Parameters
    ----------
    problem : DesignProblem
    panel : Panel
    w : array of shape (k,)
    b : float
    gamma, gamma_b : float > 0
    """

    def __init__(self, problem, panel, w, b, gamma, gamma_b):
        self.problem, self.panel = problem, panel
        self.w, self.b = w, b
        self.gamma, self.gamma_b = gamma, gamma_b if problem.intercept else 0.0
        self.low, self.high = problem.loss.domain(problem.y)
        self.barrier = _has_barrier(problem.loss, problem.y, self.low, self.high)
        if self.barrier:
            margin = BARRIER_MARGIN * np.where(np.isfinite(self.high - self.low), self.high - self.low, 1.0)
            self.low, self.high = self.low + margin, self.high - margin

    def inside(self, rho):
        """The nearest point at which the conjugate and its derivatives are finite."""
        return np.clip(rho, self.low, self.high)

    def at(self, rho, v=None):
        """The :class:`Point` at rho (m,); ``v`` may be given where it is known."""
        problem, gamma = self.problem, self.gamma
        if v is None:
            v = self.w + gamma * (self.panel.matrix.T @ rho)
        u = self.b + self.gamma_b * rho.sum()
        norms = self.panel.blocks.norms(v)
        shrunk = problem.regularizer.prox(norms, gamma * problem.C)
        ratio = np.divide(shrunk, norms, out=np.zeros_like(norms), where=shrunk > 0)
        x = v * self.panel.blocks.spread(ratio)
        value = float(problem.loss.conjugate(problem.y, rho).sum())
        value += shrunk @ (norms - 0.5 * shrunk) / gamma - problem.C * problem.regularizer.value(shrunk)
        if self.gamma_b:
            value += u * u / (2.0 * self.gamma_b)
        return Point(rho, v, u, norms, shrunk, x, value)

    def active(self, point):
        """Active columns: their places on the panel, and the columns themselves."""
        blocks = self.panel.blocks
        places = np.flatnonzero(point.shrunk if blocks.single else blocks.spread(point.shrunk))
        if point.columns is None:
            point.columns = self.panel.matrix[:, places]
        return places, point.columns

    def outputs(self, point):
        """Predictions of the step's model (x, u), (m,)."""
        places, columns = self.active(point)
        return columns @ point.x[places] + point.u

    def minimise(self, point, slack, accuracy, max_iter):
        r"""Newton steps until the dual point and the step's model agree.

        The duality gap of the model (x, u) consists of the Fenchel gap of the loss between its predictions and
        :math:`\rho`, of :math:`x^\top (x - w) / \gamma`, which only another proximal step can make smaller, and of what
        it costs to scale :math:`-l'` into the feasible points, which is linear in its distance to :math:`\rho`.

        Parameters
        ----------
        point : Point
            Where to start.
        slack : float
            While the second part is larger than this, a Fenchel gap of a tenth of it is enough.
        accuracy : float
            Distance of :math:`-l'` to :math:`\rho` to stop at.
        max_iter : int

        Returns
        -------
        Point
        int
            Newton steps.
        """
        loss, y = self.problem.loss, self.problem.y
        for iteration in range(max_iter):
            outputs = self.outputs(point)
            if np.linalg.norm(point.rho + loss.gradient(y, outputs)) <= accuracy:
                return point, iteration
            second_part = abs(point.x @ (point.x - self.w)) / self.gamma
            if second_part > slack:
                fenchel = loss.value(y, outputs) + loss.conjugate(y, point.rho) + point.rho * outputs
                if fenchel.sum() <= 0.1 * second_part:
                    return point, iteration
            gradient = loss.conjugate_gradient(y, point.rho) + outputs
            trials = (self._search(point, gradient, *way) for way in self._directions(point, outputs, gradient))
            moved = next((trial for trial in trials if trial is not None), None)
            if moved is None:
                return point, iteration
            point = moved
        return point, max_iter

    def _directions(self, point, outputs, gradient):
        """Newton directions to be tried in turn, and how often a step may be halved.

        Where the loss is straight at the predictions, its dual variable belongs at the boundary of the domain: the
        first direction goes there, and is Newton's in the other variables (a primal-dual active set). The second
        only holds variables that are at the boundary and would leave the domain: it always descends.
        """
        loss, y = self.problem.loss, self.problem.y
        inverse = 1.0 / loss.conjugate_curvature(y, point.rho)
        system = self._system(point)
        predicted = -loss.gradient(y, outputs)
        straight = (predicted <= self.low) | (predicted >= self.high)
        if not self.barrier and straight.any():
            jump = np.where(straight, predicted - point.rho, 0.0)
            right = np.where(straight, 0.0, gradient + system.low_rank(jump))
            yield jump - system.solve(right, np.where(straight, 0.0, inverse)), 3
        held = ((point.rho <= self.low) & (gradient > 0)) | ((point.rho >= self.high) & (gradient < 0))
        yield -system.solve(np.where(held, 0.0, gradient), np.where(held, 0.0, inverse)), 40

    def _system(self, point):
        """Newton's system at a point."""
        places, columns = self.active(point)
        active_blocks = np.flatnonzero(point.shrunk)
        slopes = self.problem.regularizer.prox_slope(point.norms[active_blocks], self.gamma * self.problem.C)
        jacobian = RayJacobian(
            Blocks(self.panel.blocks.sizes[active_blocks]), point.v[places], point.norms[active_blocks],
            point.shrunk[active_blocks], slopes,
        )  # fmt: skip
        return NewtonSystem(self.panel, places, columns, jacobian, self.gamma, self.gamma_b)

    def _search(self, point, gradient, direction, halvings):
        """Armijo's rule along the direction, bent at the boundary of the domain; None where nothing is gained."""
        low, high = self.low, self.high
        if self.barrier:
            low = point.rho + (1.0 - BARRIER_SHARE) * (low - point.rho)
            high = point.rho + (1.0 - BARRIER_SHARE) * (high - point.rho)
        change = self.gamma * (self.panel.matrix.T @ direction)
        step = 1.0
        for _ in range(halvings):
            straight = point.rho + step * direction
            rho = np.clip(straight, low, high)
            bent = not np.array_equal(rho, straight)
            trial = self.at(rho, None if bent else point.v + step * change)
            decrease = gradient @ (rho - point.rho)
            if trial.value <= point.value + 1e-4 * decrease and decrease < 0:
                return trial
            step *= 0.5
        return None


class NewtonSystem:
    r""":math:`D + \gamma Q Q^\top + \gamma_b 1 1^\top` with :math:`Q = B S`, to be solved on whichever side is smaller.

    Parameters
    ----------
    panel : Panel
    active : int array of shape (a,)
        Places of the columns of B on the panel.
    columns : array (m, a) or CSC matrix
        B.
    jacobian : RayJacobian
        With :math:`J = S^2`.
    gamma, gamma_b : float
    """

    def __init__(self, panel, active, columns, jacobian, gamma, gamma_b):
        self.panel, self.active, self.B, self.jacobian = panel, active, columns, jacobian
        self.gamma, self.gamma_b = gamma, gamma_b

    def solve(self, right, inverse):
        """The solution for a right-hand side (m,).

        ``inverse`` is the diagonal of the inverse of D; rows where it is 0 are left out of the system, and their
        right-hand sides and solutions are 0.
        """
        free = np.flatnonzero(inverse)
        if min(len(self.active), len(free)) > LARGEST_FACTOR:
            return self._by_conjugate_gradients(right, inverse)
        if len(self.active) <= len(free):
            return self._by_columns(right, inverse)
        return self._by_rows(right, inverse, free)

    def low_rank(self, t):
        """The system without D, times a vector (m,)."""
        return self.gamma * self._times(self._times_transposed(t)) + self.gamma_b * t.sum()

    def _by_columns(self, right, inverse):
        """Woodbury's identity: a system of the order of the active columns, and one more for the intercept."""
        a = len(self.active)
        M = np.zeros((a + 1, a + 1), order="F")
        M[:a, :a] = self.jacobian.sqrt_times(self.jacobian.sqrt_times(self.panel.gram(self.active, inverse, self.B)).T)
        M[np.arange(a), np.arange(a)] += 1.0 / self.gamma
        M[a, a] = 1.0
        if self.gamma_b:
            M[:a, a] = M[a, :a] = self._times_transposed(inverse)
            M[a, a] = inverse.sum() + 1.0 / self.gamma_b
        shared = inverse * right
        solved = _solve(M, np.append(self._times_transposed(shared), shared.sum() if self.gamma_b else 0.0))
        return shared - inverse * (self._times(solved[:a]) + (solved[a] if self.gamma_b else 0.0))

    def _by_rows(self, right, inverse, free):
        """The system itself, of the order of the samples that are free."""
        B = self.B[free]
        Q = self.jacobian.sqrt_times((B.toarray() if sparse.issparse(B) else B).T)
        M = self.gamma * (Q.T @ Q) + self.gamma_b
        M[np.arange(len(free)), np.arange(len(free))] += 1.0 / inverse[free]
        solution = np.zeros_like(right)
        solution[free] = _solve(M, right[free])
        return solution

    def _by_conjugate_gradients(self, right, inverse):
        """In the scaled variables in which D is the identity."""
        root = np.sqrt(inverse)
        system = LinearOperator(
            (len(root), len(root)), lambda t: t + root * self.low_rank(root * t), dtype=np.float64
        )  # fmt: skip
        found, _ = cg(system, root * right, rtol=1e-3, maxiter=500)
        return root * found

    def _times(self, t):
        """Q t."""
        return self.B @ self.jacobian.sqrt_times(t)

    def _times_transposed(self, t):
        """Q' t."""
        return self.jacobian.sqrt_times(self.B.T @ t)


def _solve(M, right):
    """Solution of a positive definite system; a growing ridge stands by for one that rounding has made indefinite."""
    ridge = 0.0
    scale = np.trace(M) / max(len(M), 1)
    while True:
        try:
            return cho_solve(cho_factor(M, lower=True, check_finite=False), right, check_finite=False)
        except LinAlgError:
            ridge = max(10.0 * ridge, 1e-14 * scale)
            M = M + ridge * np.eye(len(M))


def _has_barrier(loss, y, low, high):
    """Whether the conjugate's slope is infinite at the boundary of its domain."""
    with np.errstate(all="ignore"):
        edges = [np.where(np.isfinite(bound), bound, 0.0) for bound in (low, high)]
        return any(np.isinf(loss.conjugate_gradient(y, edge)).any() for edge in edges)
