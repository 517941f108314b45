r"""Choice of kernels that improve out-of-sample predictions, by leave-one-out in closed form.

The norm of a kernel shows how much it is used, not whether it helps: a narrow Gaussian on noise
memorises every sample.

The kernels chosen so far, each divided by the mean of its diagonal, are summed to K. Their ridge
model with a constant minimises :math:`\sum_i w_i \|y_i - f(x_i) - b\|^2 + \lambda \|f\|^2`; targets
of classes are columns of signs. With :math:`C = (\tilde K + \lambda I)^{-1} - q q^\top / \lambda`
for :math:`\tilde K = P W^{1/2} K W^{1/2} P`, a unit vector q in the direction of :math:`W^{1/2} 1`,
and :math:`P = I - q q^\top`, the residual of sample i for the model without it is (Cawley and
Talbot 2004)

.. math:: \sqrt{w_i}\, r_i = (C z)_i / C_{ii}, \qquad z = P W^{1/2} y,

and :math:`\lambda` minimises the sum of their squares. A step along the gradient in the space of
kernel m, taken without sample i, moves the prediction of i by a multiple of :math:`h_{mi} = (\tilde
K_m C z)_i - (\tilde K_m C)_{ii} \sqrt{w_i}\, r_i`, and lowers the loss if :math:`\sum_i
\sqrt{w_i}\, r_i h_{mi} > 0`. Its standard error is the larger of two estimates: from the spread of
the summands, for kernels of few dimensions; and from :math:`\sum_{i < j} 2 \sqrt{w_i}\, r_i
\tilde K_{ij} (Cz)_j`, a sum over pairs of samples, for kernels of many dimensions.

In each round, all kernels whose sum exceeds a threshold join K. At this threshold :data:`N_USELESS`
useless kernels join on average. If there are none, but the sum of all remaining kernels helps
beyond doubt, the best of them joins. A kernel that other kernels have masked is found once these
are in K.

The leave-one-out loss of K is optimistic, since K was chosen by it. If many kernels help a little,
the sum of all may be better. This is considered if the loss of K, inflated for every kernel below
twice the threshold as in the risk inflation criterion (Foster and George 1994), exceeds the loss of
all kernels. In doubt both are compared on folds that have no part in the choice; all kernels are
selected if this lowers the loss by more than a standard error. To save time, kernels with little
evidence on all samples are looked at on folds only if no other helps; see :data:`LIKELY`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from omkl.batch.mkl import _jit_out_of_sample as jit
from omkl.kernels import KernelStack
from omkl.kernels.stack import RestrictedView
from omkl.regularizers.base import ratio_or_zero

#: Expected number of useless kernels that pass a round, for normal errors and independent kernels.
N_USELESS = 0.1
#: Probability that the sum of useless kernels passes as helpful in a round.
DOUBT = 0.01
#: Share of the threshold that the evidence of a kernel on all samples must exceed for the kernel to
#: be looked at on folds. Of 360 choices, each without one fold and from two useful and 40 or 200
#: useless kernels, a share of 0.25 changed none, and a share of 0.5 changed four.
LIKELY = 0.25
#: Number of folds to decide between all kernels and the chosen ones.
FOLDS = 5
#: Maximum number of rounds.
ROUNDS = 20
#: Ridges to choose from, in units of the mean diagonal of the sum of kernels.
RIDGES = np.geomspace(1e-3, 100.0, 11)
#: Maximum number of samples.
SAMPLES = 1000
#: Maximum number of entries of all kernels on these samples.
ENTRIES = 2.5e8
#: Least number of samples for leave-one-out.
FEWEST = 3
#: Number of kernels whose evidence is computed together.
TOGETHER = 64
#: Diagonal of a centred kernel, relative to the largest entry, below which it is constant.
CONSTANT = 1e-12


class KernelChoice(NamedTuple):
    """Kernels that help out of sample, and the evidence for each of M kernels.

    Attributes
    ----------
    is_selected : bool array of shape (M,)
        All False if no kernel helps measurably; all True if leaving out any kernel seems to do
        harm.
    evidence : array of shape (M,)
        Decrease of the leave-one-out loss by each kernel, in standard errors, beside the kernels
        selected before it.
    threshold : float
        Evidence that is beyond chance.
    """

    is_selected: np.ndarray
    evidence: np.ndarray
    threshold: float

    @property
    def is_doubtful(self) -> bool:
        """True if no kernel is selected, or most of those have no evidence beyond chance."""
        if not self.is_selected.any():
            return True
        has_evidence = self.evidence[self.is_selected] > self.threshold
        return bool(np.mean(has_evidence) < 0.5)


def sampled(
    targets: np.ndarray, weights: np.ndarray, n_kernels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample that is large enough to choose among kernels, and its weights.

    All samples are returned up to :data:`SAMPLES`, and up to :data:`ENTRIES` of all kernels.
    Otherwise a systematic sample is drawn in the order of the targets, with probabilities
    proportional to the weights. It is deterministic.

    Parameters
    ----------
    targets : array of shape (N, P)
    weights : array of shape (N,)
    n_kernels : int

    Returns
    -------
    indices : int array of shape (n,)
        Increasing indices of samples.
    weights : array of shape (n,)
    """
    n_most = min(SAMPLES, int(np.sqrt(ENTRIES / n_kernels)))
    if len(weights) <= n_most:
        return np.arange(len(weights)), weights
    probabilities = _inclusion_probabilities(weights, n_most)
    order = np.lexsort(targets.T)
    ends = np.cumsum(probabilities[order])
    ranks = np.searchsorted(ends, np.arange(n_most) + 0.5).clip(max=len(order) - 1)
    sample = np.sort(order[np.unique(ranks)])
    return sample, weights[sample] / probabilities[sample]


def _inclusion_probabilities(weights: np.ndarray, size: int) -> np.ndarray:
    """Return probabilities (N,) to be in a sample, proportional to weights but at most 1."""
    probabilities = np.zeros(len(weights))
    is_certain = np.zeros(len(weights), dtype=bool)
    while True:
        # samples of large weights are certain; the others share what remains of the size
        uncertain_weights = weights[~is_certain]
        share = (size - is_certain.sum()) / uncertain_weights.sum()
        probabilities[~is_certain] = uncertain_weights * share
        if not (probabilities > 1.0).any():
            return probabilities
        is_certain |= probabilities > 1.0
        probabilities[is_certain] = 1.0


def helpful_kernels(kernels: KernelStack, targets: np.ndarray, weights: np.ndarray) -> KernelChoice:
    """Find kernels that help to predict left-out samples.

    This takes memory for a few matrices (N, N) and (M, N). Each round computes some products of
    every kernel, and the eigenvectors of one matrix.

    Parameters
    ----------
    kernels : KernelStack
    targets : array of shape (N, P)
        Numbers, or signs of P binary problems, with 0 for samples in neither class.
    weights : array of shape (N,)
        Weights > 0 of the losses of the samples.

    Returns
    -------
    KernelChoice
    """
    roots, z = _centred_targets(targets, weights)
    # only the inner products of rows matter
    left, lengths, _ = np.linalg.svd(z, full_matrices=False)
    largest = max(lengths.max(initial=0.0), np.abs(targets).max(initial=0.0))
    z = (left * lengths)[:, lengths > CONSTANT * largest]
    if len(z) < FEWEST or not z.shape[1]:
        return KernelChoice(
            is_selected=np.zeros(kernels.n_kernels, dtype=bool),
            evidence=np.zeros(kernels.n_kernels),
            threshold=0.0,
        )
    centred_kernels = _CentredKernels(kernels, roots)
    choice = _Choice(centred_kernels, z)
    if choice.all_may_be_better():
        order = np.lexsort(targets.T)
        folds = [np.sort(order[fold::FOLDS]) for fold in range(FOLDS)]
        has_few_samples = len(z) < FEWEST * FOLDS
        if has_few_samples or _all_are_better(choice, centred_kernels, z, folds):
            choice.is_selected[:] = True
    return KernelChoice(choice.is_selected, choice.evidence, choice.threshold)


def _centred_targets(targets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the roots of weights, (N,), of length one, and centred targets times these, (N, P)."""
    roots = np.sqrt(weights / weights.sum())
    return roots, roots[:, None] * (targets - weights @ targets / weights.sum())


def natural_c(
    kernels: KernelStack, which: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> float:
    """Return the C at which the mean of some kernels has the least leave-one-out error.

    C weighs half the squared error. It is 1 if there are too few samples, or if the targets or the
    mean kernel are constant.

    Parameters
    ----------
    kernels : KernelStack
    which : int array of shape (k,)
        Indices of these kernels.
    targets, weights
        As for :func:`helpful_kernels`; C is for weights of mean 1.
    """
    roots, z = _centred_targets(targets, weights)
    mean_kernel = kernels.combine(np.full(len(which), 1.0 / len(which)), which)
    largest = np.diagonal(mean_kernel).max()
    gram = _centred(mean_kernel, roots)
    variance = float(np.trace(gram))
    if len(z) < FEWEST or not z.any() or not variance > CONSTANT * largest:
        return 1.0
    ridge, _ = _best_ridge(gram, z, roots)
    return 1.0 / (variance * ridge)


class _Choice:
    """Kernels that help, chosen in rounds; see the module docstring.

    Parameters
    ----------
    kernels : _CentredKernels
    z : array of shape (n, P)
        Centred targets times the roots of weights.
    first : bool array of shape (M,), optional
        Kernels to look at first. The others are looked at only if none of these helps, but the sum
        of all remaining kernels does. All by default.

    Attributes
    ----------
    is_selected, likely : bool arrays of shape (M,)
        The chosen kernels, and those whose evidence exceeded :data:`LIKELY` times the threshold in
        some round.
    n_lucky : int
        Number of chosen kernels below twice the threshold.
    evidence : array of shape (M,)
    threshold : float
    all_help : bool
        Whether the sum of all kernels helps beyond doubt; only without ``first``.
    model, model_of_all : _RidgeModel
        Models of the selected kernels, and of all kernels; the latter only without ``first``.
    """

    def __init__(
        self, kernels: _CentredKernels, z: np.ndarray, first: np.ndarray | None = None
    ) -> None:
        n_samples = len(z)
        n_kernels = len(kernels.scales)
        roots = kernels.roots
        self.is_selected = np.zeros(n_kernels, dtype=bool)
        self.likely = np.zeros(n_kernels, dtype=bool)
        self.n_lucky = 0
        self.evidence = np.zeros(n_kernels)
        chances = np.array([N_USELESS / n_kernels, DOUBT])
        self.threshold, self._beyond_doubt = scipy.stats.t.ppf(1.0 - chances, n_samples - 1)
        self.model = _RidgeModel(np.zeros((n_samples, n_samples)), z, roots)
        if first is None:
            sum_of_all = kernels.summed(np.arange(n_kernels))
            self.all_help = self._help(sum_of_all)
            self.model_of_all = _RidgeModel(sum_of_all, z, roots)
        for _ in range(ROUNDS):
            evidence, is_helpful = self._look_at_remaining(kernels, first)
            self.evidence = np.where(self.is_selected, self.evidence, evidence)
            self.likely |= evidence > LIKELY * self.threshold
            self.is_selected |= is_helpful
            if not is_helpful.any() or self.is_selected.all():
                break
            is_lucky = is_helpful & (evidence < 2.0 * self.threshold)
            self.n_lucky += int(np.count_nonzero(is_lucky))
            self.model = _RidgeModel(kernels.summed(np.flatnonzero(self.is_selected)), z, roots)

    def _help(self, gram: np.ndarray) -> bool:
        """Return whether a sum of kernels, (n, n), helps beyond doubt."""
        return bool(self.model.evidence_for_gram(gram) > self._beyond_doubt)

    def _look_at_remaining(
        self, kernels: _CentredKernels, first: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the evidence for remaining kernels, (M,), and which of them help, bool (M,).

        If none does beyond the threshold, but their sum does beyond doubt, the best of them helps.
        """
        remaining = np.flatnonzero(~self.is_selected)
        first_remaining = remaining if first is None else remaining[first[remaining]]
        evidence = self.model.evidence_for(kernels, first_remaining)
        is_helpful = evidence > self.threshold
        if is_helpful.any():
            return evidence, is_helpful
        if first is None and not self.is_selected.any():
            remaining_help = self.all_help
        else:
            remaining_help = self._help(kernels.summed(remaining))
        if not remaining_help:
            return evidence, is_helpful
        if first is not None:
            evidence = self.model.evidence_for(kernels, remaining)
            is_helpful = evidence > self.threshold
        is_helpful[evidence.argmax()] = evidence.max() > 0.0
        return evidence, is_helpful

    def all_may_be_better(self) -> bool:
        """Return whether all kernels may be better than the chosen ones, by the inflated loss."""
        if self.is_selected.all() or not self.is_selected.any() or not self.all_help:
            return False
        inflation = 1.0 + self.n_lucky * self.threshold**2 / self.model.residuals.size
        return inflation * self.model.loss >= self.model_of_all.loss


def _all_are_better(
    choice: _Choice, kernels: _CentredKernels, z: np.ndarray, folds: list[np.ndarray]
) -> bool:
    """Return whether all kernels do better on the folds than kernels chosen without each fold.

    They do if the loss, summed over folds, is lower by more than a standard error, or if their
    leave-one-out loss is not above that of the chosen kernels.
    """
    if choice.model_of_all.loss <= choice.model.loss:
        return True
    gains = np.empty(len(z))
    for fold in folds:
        others = np.setdiff1d(np.arange(len(z)), fold)
        roots = kernels.roots[others] / np.linalg.norm(kernels.roots[others])
        kernels_of_others = _CentredKernels(RestrictedView(kernels.stack, others), roots)
        z_of_others = z[others] - np.outer(roots, roots @ z[others])
        choice_of_others = _Choice(kernels_of_others, z_of_others, choice.likely)
        gram = kernels.summed(np.flatnonzero(choice_of_others.is_selected))
        losses = _RidgeModel(gram, z, kernels.roots).losses_without(fold)
        gains[fold] = losses - choice.model_of_all.losses_without(fold)
    return bool(gains.sum() > np.sqrt(len(z)) * gains.std(ddof=1))


def _centred(gram: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Return ``P D K D P`` for a kernel K, with the diagonal D of ``roots``.

    P is the projection along ``roots``.
    """
    gram = gram * np.outer(roots, roots)
    along = gram @ roots
    along -= 0.5 * (along @ roots) * roots
    return gram - np.outer(along, roots) - np.outer(roots, along)


class _CentredKernels:
    """Kernels that are weighted and centred on the fly, and have a mean diagonal of one.

    Kernel m is ``scales[m] D K_m D - along[m] roots' - roots along[m]'``, with the diagonal D of
    ``roots``; it is zero if ``K_m`` is constant.
    """

    def __init__(self, stack: KernelStack, roots: np.ndarray) -> None:
        self.stack = stack
        self.roots = roots
        diagonals = stack.diagonals()
        along = stack.products(roots**2) * roots
        along -= 0.5 * (along @ roots)[:, None] * roots
        traces = diagonals @ roots**2 - 2.0 * (along @ roots)
        varies = traces > CONSTANT * diagonals.max(axis=1)
        self.scales = len(roots) * ratio_or_zero(varies, traces)
        self.along = along * self.scales[:, None]

    def summed(self, which: np.ndarray) -> np.ndarray:
        """Return the sum of some kernels, (n, n)."""
        return _centred(self.stack.combine(self.scales[which], which), self.roots)


class _RidgeModel:
    r"""A ridge model with a constant, and leave-one-out residuals.

    Parameters
    ----------
    gram : array of shape (n, n)
        Weighted, centred kernel; if it is zero the model is a constant.
    z : array of shape (n, P)
        Centred targets times the roots of weights.
    roots : array of shape (n,)
        Roots of weights, of length one.

    Attributes
    ----------
    inverse : array of shape (n, n)
        :math:`\lambda C`, with the C of the module docstring; :math:`\lambda` cancels in the
        evidence.
    coefficients : array of shape (n, P)
        ``inverse @ z``.
    residuals : array of shape (n, P)
        Leave-one-out residuals times the roots of weights.
    loss : float
        The sum of their squares.
    """

    def __init__(self, gram: np.ndarray, z: np.ndarray, roots: np.ndarray) -> None:
        self.inverse = np.eye(len(z))
        if gram.any():
            _, self.inverse = _best_ridge(gram, z, roots)
        self.inverse -= np.outer(roots, roots)
        self.coefficients = self.inverse @ z
        self.residuals = _divided(self.coefficients, np.diag(self.inverse))
        self.loss = float(np.square(self.residuals).sum())
        squares = np.square(self.residuals @ self.coefficients.T)
        self._squares = squares + squares.T
        np.fill_diagonal(self._squares, 0.0)

    def losses_without(self, fold: np.ndarray) -> np.ndarray:
        """Return squared residuals of a fold, summed over columns, of a model without the fold."""
        inverse_of_fold = self.inverse[np.ix_(fold, fold)]
        residuals = np.linalg.lstsq(inverse_of_fold, self.coefficients[fold], rcond=None)[0]
        return np.square(residuals).sum(axis=1)

    def evidence_for(self, kernels: _CentredKernels, which: np.ndarray) -> np.ndarray:
        """Return the decrease of the loss by a step in some of M kernels, in standard errors, (M,).

        Steps follow the gradient. The decrease is -inf for the other kernels.
        """
        roots = kernels.roots
        evidence = np.full(len(kernels.scales), -np.inf)
        for low in range(0, len(which), TOGETHER):
            block = which[low : low + TOGETHER]
            scales = kernels.scales[block]
            along = kernels.along[block]
            products = kernels.stack.block_products(self.coefficients.T * roots, block)
            moves = products * scales[:, None, None] * roots
            moves -= (along @ self.coefficients)[:, :, None] * roots
            variances = np.empty(len(block))
            self_moves = np.empty((len(block), len(roots)))
            for k, m in enumerate(block.tolist()):
                variances[k] = jit.entrywise_products(
                    kernels.stack.packed(m),
                    scales[k],
                    along[k],
                    roots,
                    self.inverse,
                    self._squares,
                    self_moves[k],
                )
            evidence[block] = self._evidence(moves, self_moves, variances)
        return evidence

    def evidence_for_gram(self, gram: np.ndarray) -> float:
        """Return the evidence for a weighted, centred kernel, (n, n); see :meth:`evidence_for`."""
        moves = self.coefficients.T @ gram
        self_moves = (gram * self.inverse).sum(axis=0)
        variance = np.vdot(gram**2, self._squares)
        return self._evidence(moves[None], self_moves[None], variance)[0]

    def _evidence(
        self, moves: np.ndarray, self_moves: np.ndarray, variances: ArrayLike
    ) -> np.ndarray:
        """Return decreases of the loss by steps in k kernels in standard errors, (k,).

        Parameters
        ----------
        moves : array of shape (k, P, n)
            Products of kernels with coefficients: moves of the predictions.
        self_moves : array of shape (k, n)
            The part of the moves, for a unit residual, that a sample causes itself.
        variances : array of shape (k,), or float
        """
        squared_residuals = np.square(self.residuals).sum(axis=1)
        summands = np.einsum("np,kpn->kn", self.residuals, moves) - self_moves * squared_residuals
        totals = summands.sum(axis=1)
        n = summands.shape[1]
        spreads = n / (n - 1) * np.square(summands - totals[:, None] / n).sum(axis=1)
        return ratio_or_zero(totals, np.sqrt(np.maximum(variances, spreads)))


def _best_ridge(kernel: np.ndarray, z: np.ndarray, roots: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the largest of :data:`RIDGES` with the least leave-one-out loss, and an inverse.

    The inverse is ``r (K + r)^-1``, (n, n), where r is the ridge times the mean eigenvalue of K.
    """
    values, vectors = np.linalg.eigh(kernel)
    values = np.maximum(values, 0.0)
    squared_vectors = vectors**2
    rotated_z = vectors.T @ z
    losses = []
    shrinkages = []
    for ridge in RIDGES[::-1] * values.mean():
        shrinkage = ridge / (values + ridge)
        coefficients = vectors @ (shrinkage[:, None] * rotated_z)
        residuals = _divided(coefficients, squared_vectors @ shrinkage - roots**2)
        losses.append(np.square(residuals).sum())
        shrinkages.append(shrinkage)
    best = int(np.argmin(losses))
    return RIDGES[::-1][best], (vectors * shrinkages[best]) @ vectors.T


def _divided(coefficients: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Return leave-one-out residuals; 0 if the other samples have no information."""
    return coefficients / np.where(diagonal > CONSTANT, diagonal, np.inf)[:, None]
