"""OneClassMKL: what is normal and what is not, with a learned combination of kernels and a certificate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from omkl._components import check_number
from omkl.batch import Solution
from omkl.estimators.batch_mkl import BatchMKL
from omkl.estimators.certified import unchanged_if_refused
from omkl.estimators.outputs import check_sample_weight
from omkl.estimators.stored_kernels import StoredKernels, in_precision
from omkl.exceptions import InputError
from omkl.kernels import GramMatrices
from omkl.losses import PointwiseLoss

#: Problems that are solved at most to find the C of a nu.
MOST_SOLVES = 60
#: How far scores of one sample differ, relative to the largest, as it is scored alone or with others.
AT_MARGIN = 1e-10


class OneClassMKL(OutlierMixin, BatchMKL):
    r"""Detector of outliers whose combination of kernels is learned with it, and certified by a duality gap.

    .. math:: \min_{f_m} C \sum_i \max\Bigl(0, 1 - \sum_m f_m(x_i)\Bigr) + \psi(\|f_1\|, \ldots, \|f_M\|)

    with the C of which a fraction ``nu`` of the samples has dual variables at their bound, on average: the one-class
    support vector machine, whose margin is scaled to 1. Kernels compete for how far from the origin, in their feature
    space, they have the samples, that is for how alike they find them. Kernels on different columns or sources are a
    choice that says something; of Gaussian kernels on the same columns it is always the widest that wins.

    Parameters
    ----------
    kernels : list, dict, "precomputed" or None
        As for :class:`MKLClassifier`; None is a Gaussian kernel, of the width of the median distance.
    nu : float in (0, 1)
        At most this fraction of the training samples is outside, and at least this fraction are support vectors.
    regularizer : {"mkl", "block1", "elastic-net", "uniform", ...}, Regularizer or None
        As for :class:`MKLClassifier`; None is "mkl". "uniform" keeps all kernels alike.
    solver, tol, max_iter, dtype, approximate, n_jobs, verbose
        As for :class:`MKLClassifier`, of solvers for the hinge.

    Attributes
    ----------
    offset_ : float
        Samples whose score is below it are outliers: 1, or less where more than ``nu`` of the training samples were
        outside otherwise.
    C_ : float
        The C that belongs to ``nu``.
    n_iter_ : int
        How many problems were solved to find it.
    kernel_weights_, unscaled_kernel_weights_, kernel_representations_
    dual_coef_, dual_gap_, n_active_, dual_variables_, history_
        As for :class:`MKLClassifier`, of the problem at ``C_``.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson (2001), Estimating the support of a high-dimensional
    distribution, problem (4) and proposition 3. Rakotomamonjy, Bach, Canu and Grandvalet (2008), SimpleMKL, section 4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> model = OneClassMKL(["gaussian:on=0:1", "gaussian:on=1:2"], nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.1], [6.0, -5.0]])
    array([ 1, -1])
    """

    loss = "hinge"
    fit_intercept = False
    weighting = "norms"
    _tradeoff = "nu"
    _classifies = True
    _plain_attributes = (*BatchMKL._plain_attributes, "C_", "offset_")

    def __init__(
        self, kernels: Any = None, *, nu: float = 0.1, regularizer: Any = None, solver: Any = "spicy",
        tol: float = 1e-3, max_iter: int | None = None, dtype: Any = "auto", approximate: Any = "auto",
        n_jobs: int | None = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.kernels = kernels
        self.nu = nu
        self.regularizer = regularizer
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.approximate = approximate
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def _strength(self) -> float:
        return self.C_

    def _resolve_loss(self) -> PointwiseLoss:
        check_number("nu", self.nu, above=0, below=1)
        return super()._resolve_loss()

    def _default_kernels(self, X: Any, names: Any) -> Any:
        return ["gaussian"]

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, client: Any = None) -> OneClassMKL:
        """Learn kernels and detector.

        Parameters
        ----------
        X : array of shape (N, d), or with ``kernels="precomputed"`` Gram matrices
            As for :meth:`MKLClassifier.fit`.
        y : None
            Ignored: all samples count as normal, but for a fraction ``nu``.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the samples' losses; those of weight 0 are left out.
        client : dask.distributed.Client, optional
            As for :meth:`MKLClassifier.fit`.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or a matrix is not a kernel.
        """
        with unchanged_if_refused(self):
            self._resolve()
            n_samples = len(GramMatrices(X)) if self._precomputed else _num_samples(X)
            source, ones, weights = self._read(X, np.ones(n_samples), sample_weight)

            def solved(kernels: StoredKernels) -> tuple[float, Solution, int]:
                return solve_for_fraction(kernels, weights, self.nu)

            self.C_, solution, n_solved = in_precision(self, source, client, solved)
            self._learn(source, [(None, ones)], [solution], None)
            self.n_iter_ = n_solved
            self._warn(source, [(None, ones)], [solution], None)
            self.offset_ = self._offset(X, sample_weight)
        return self

    def _offset(self, X: Any, sample_weight: ArrayLike | None) -> float:
        """Where normal samples begin; those at the margin, which rounding puts on either side of it, are normal."""
        scores = self.score_samples(X)
        weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(scores))
        counted = weights > 0
        least = _quantile(scores[counted], weights[counted], self.nu)
        return min(1.0, least - AT_MARGIN * float(np.abs(scores[counted]).max()))

    def score_samples(self, X: Any) -> np.ndarray:
        """How normal samples are, (n,): the larger the more, 1 at the margin; X as for :meth:`fit`."""
        return self._outputs(X)[:, 0]

    def decision_function(self, X: Any) -> np.ndarray:
        """How far samples are inside, (n,): ``score_samples(X) - offset_``, negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for samples that are normal, -1 for outliers, (n,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)


def solve_for_fraction(kernels: StoredKernels, weights: np.ndarray, nu: float) -> tuple[float, Solution, int]:
    """The smallest C, to a percent of nu, at which at most a fraction nu of the samples is outside.

    Returns it, its solution, and how many problems were solved. The mean of the dual variables, in units of their
    bounds, lies between the fraction of samples that are outside and that of support vectors; it falls from 1 to 0
    where C rises, and is the nu of Schölkopf et al. (2001), section 3. Raises
    :class:`~omkl.exceptions.InputError` where samples cannot be told from the origin.
    """
    ones, total, start = np.ones(len(weights)), float(weights.sum()), None
    low, high, best, reached = 0.0, np.inf, None, 0.0
    C = 1.0 / total
    n_solved = 0
    while n_solved < MOST_SOLVES:
        n_solved += 1
        solution = kernels.solve(ones, weights, C, start=start)
        start = solution.start
        fraction = float(np.abs(solution.certificate.rho).sum()) / (C * total)
        if fraction > nu:
            low = C
        else:
            high, best, reached = C, solution, fraction
            if fraction >= 0.99 * nu:
                break
        if low > 1e12 / total or (low > 0 and high < low * (1 + 1e-6)):
            break
        C = 4.0 * C if np.isinf(high) else high / 4.0 if low == 0.0 else np.sqrt(low * high)
    if best is None:
        raise InputError(
            f"More than a fraction nu={nu:g} of the samples is on the side of the origin, whatever C, as where kernels "
            "have values below 0: choose Gaussian kernels, or a larger nu."
        )
    if reached < 0.9 * nu:
        warnings.warn(
            f"A fraction {reached:.3g} of the samples is outside, where nu={nu:g} may be: lower tol.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return high, best, n_solved


def _quantile(values: np.ndarray, weights: np.ndarray, fraction: float) -> float:
    """The largest value of which the weights of smaller ones make up at most a fraction of all."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(below, fraction * below[-1], side="right")]])
