"""Alternation between an SVM and the best kernel weights for its norms: Citi's algorithm and lp-norm MKL."""

from collections.abc import Iterator

import numpy as np

from omkl.batch.mkl.problem import Problem
from omkl.batch.wrappers.wrapper import Point, Search, Wrapper


class Alternating(Wrapper):
    r"""Block coordinate descent on the function and the weights.

    With the weights fixed an SVM gives the norms, :math:`\|f_m\| = d_m \|\rho\|_{K_m}`; with the norms fixed the
    regularizer gives the weights. The lower bound of Citi (2015), Eq. 8 as corrected, is the value of our dual at the
    SVM's solution.
    """

    def initial_weights(self, problem: Problem, start: np.ndarray | None) -> np.ndarray:
        # updates multiply weights: one of 0 could never come back
        weights = super().initial_weights(problem, start)
        return np.maximum(weights, 1e-4 * weights.max())

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        while np.any(point.squares):
            norms = point.weights * np.sqrt(point.squares)
            point = search.evaluate(search.problem.regularizer.kernel_weights(norms))
            yield point


class WeightConstrained(Alternating):
    r"""MKL with elastic-net-constrained kernel weights, GMKL (Citi 2015, Algorithm 1).

    The set of weights is the regularizer's: :class:`~omkl.regularizers.ElasticNetWeights`, which also holds Algorithms
    2 and 3; :class:`~omkl.regularizers.SquaredL21` is the lasso constraint.

    References
    ----------
    L. Citi. A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints. 2015.
    """

    aliases = {"gmkl": {}}
    natural_regularizer = "elastic-net-weights"
    weight_sets = {"elastic-net": "'elastic-net-weights'", "simplex": "'mkl'"}


class LpNormMKL(Alternating):
    r"""MKL with kernel weights in an lp ball, by the closed-form update of Kloft et al. (2011).

    The ball is the regularizer's: :class:`~omkl.regularizers.SquaredLq` with :math:`q = 2p / (p + 1)`;
    :class:`~omkl.regularizers.SquaredL21` is p = 1, :class:`~omkl.regularizers.Ridge` uniform weights.

    References
    ----------
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien. Lp-norm multiple kernel learning. JMLR 12:953-997, 2011.
    """

    aliases = {"lp-norm": {}}
    natural_regularizer = "lp-norm"
    weight_sets = {"lp-ball": "'lp-norm'", "simplex": "'mkl'", "point": "'uniform'"}
