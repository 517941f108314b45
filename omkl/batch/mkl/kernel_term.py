"""The kernels' part of the dual that Newton steps minimise."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from omkl.batch.mkl.linear_system import Curvature, DenseCurvature, system_of
from omkl.kernels.stack import KernelStack


class KernelTerm:
    r"""The part of the dual beside the loss, over a working set of kernels; see :class:`~omkl.batch.newton.Term`.

    Parameters
    ----------
    kernels : KernelStack
    which : int array of shape (k,)
    curve : object
        A function of the norms, times gamma: ``value(norms)``, the gradient ``first(norms)``, and the Hessian
        ``diag(second) - coupling coupling'``, whose ``coupling(norms)`` may be None.
    rho, kernel_products : arrays of shapes (N,) and (k, N)
        The point, and :math:`K_m \rho`.
    alpha_products, alpha_squares : arrays of shapes (k, N) and (k,)
        :math:`K_m \alpha_m` and :math:`\|\alpha_m\|^2`.
    gamma : float
    """

    def __init__(
        self,
        kernels: KernelStack,
        which: np.ndarray,
        curve: Any,
        rho: np.ndarray,
        kernel_products: np.ndarray,
        alpha_products: np.ndarray | float = 0.0,
        alpha_squares: np.ndarray | float = 0.0,
        gamma: float = 1.0,
    ) -> None:
        self.kernels, self.which, self.curve, self.gamma = kernels, which, curve, gamma
        self.rho, self.kernel_products = rho, kernel_products
        self._kept_for: Any = None
        self.alpha_products, self.alpha_squares = alpha_products, alpha_squares
        self._refresh()

    def _refresh(self):
        self.point_products = self.alpha_products + self.gamma * self.kernel_products
        self.squares = self.alpha_squares + self.gamma * ((self.alpha_products + self.point_products) @ self.rho)
        self.norms = np.sqrt(np.maximum(self.squares, 0.0))
        self.ratios = np.divide(
            self.curve.first(self.norms), self.norms, out=np.zeros_like(self.norms), where=self.norms > 0
        )

    def value(self) -> float:
        return self.curve.value(self.norms) / self.gamma

    def gradient(self) -> np.ndarray:
        return self.ratios @ self.point_products

    def hessian(self) -> DenseCurvature | Curvature:
        """Return the second derivatives, of active kernels alone."""
        active = np.flatnonzero(self.ratios > 0)
        ratios, which = self.ratios[active], self.which[active]
        rank_one_weights = self.gamma * (self.curve.second(self.norms)[active] - ratios) / self.norms[active] ** 2
        vectors = self.point_products[active]
        coupling = self.curve.coupling(self.norms)
        if coupling is not None:
            vectors = np.vstack([vectors, (coupling[active] / self.norms[active]) @ vectors])
            rank_one_weights = np.append(rank_one_weights, -self.gamma)
        if system_of(self.kernels) != "cholesky":
            kernels = self._same_sum(self.kernels.summed, self.gamma * ratios, which)
            return Curvature(kernels, vectors, rank_one_weights, self.kernels.n_parts)
        if not np.any(rank_one_weights != 0):
            return DenseCurvature(self._same_sum(self.kernels.combine, self.gamma * ratios, which))
        matrix = self.kernels.combine(self.gamma * ratios, which)
        # symmetric, so `.T` is Fortran-ordered
        sums = dgemm(1.0, vectors.T * rank_one_weights, vectors.T, 1.0, matrix.T, trans_b=True, overwrite_c=True)
        return DenseCurvature(sums)

    def _same_sum(self, add, weights, which):
        """Return the weighted sum of kernels, and keep it: the weights of a ridge never change."""
        if self._kept_for is None or not all(map(np.array_equal, self._kept_for, (weights, which))):
            self._kept_for, self._kept = (weights, which), add(weights, which)
        return self._kept

    def along(self, direction: np.ndarray) -> Callable[[float], float]:
        """Return the values on a line through the point, as a function of the step."""
        self.moves = self.kernels.products(direction, self.which)
        linear = 2.0 * self.gamma * (self.point_products @ direction)
        quadratic = self.gamma**2 * (self.moves @ direction)

        def value(step):
            squares = self.squares + step * (linear + step * quadratic)
            return self.curve.value(np.sqrt(np.maximum(squares, 0.0))) / self.gamma

        return value

    def move(self, step: float, rho: np.ndarray) -> None:
        """Go that far along the last direction, to ``rho``."""
        self.rho = rho
        self.kernel_products += step * self.moves
        self._refresh()
