r"""Which kernels help to predict samples that a model has not seen: leave-one-out in closed form, kernel after kernel.

A norm says how much a kernel is used. A kernel that tells any two samples apart, as a Gaussian on noise does, is used
to learn every sample by heart; what it says of a sample that was left out is noise.

The kernels chosen so far, each divided by the mean of its diagonal, are summed to one, K. Its ridge model with a
constant minimises :math:`\sum_i w_i \|y_i - f(x_i) - b\|^2 + \lambda \|f\|^2`, targets of classes being columns of
signs. With :math:`C = (\tilde K + \lambda I)^{-1} - q q^\top / \lambda` for :math:`\tilde K = P W^{1/2} K W^{1/2} P`, a
unit vector q in the direction of :math:`W^{1/2} 1`, and :math:`P = I - q q^\top`, the residual of sample i for the
model that has not seen it is (Cawley and Talbot 2004)

.. math:: \sqrt{w_i}\, r_i = (C z)_i / C_{ii}, \qquad z = P W^{1/2} y,

and :math:`\lambda` is the one of the least sum of their squares. A step along the gradient in the space of kernel m,
taken without sample i, moves the prediction of i by a multiple of :math:`h_{mi} = (\tilde K_m C z)_i - (\tilde K_m
C)_{ii} \sqrt{w_i}\, r_i`, and lowers the loss where :math:`\sum_i \sqrt{w_i}\, r_i h_{mi} > 0`. How many standard
errors it is above zero is counted twice, and the less of both counts: by the spread of the summands, which is right for
kernels of few dimensions, where all depends on a few coefficients; and as a sum over pairs of samples,
:math:`\sum_{i < j} 2 r_i \tilde K_{ij} (Cz)_j`, which is right for kernels of many. All kernels join K for which it is
more than chance gives useless kernels :data:`FALSE` times in all, however many they are. Where none does, but the sum
of all that are left helps beyond doubt, the first of them joins. Then the next round begins: a kernel that others have
hidden is found once they are in K.

The leave-one-out loss of K flatters what was chosen by it. Where many kernels help, and none so much that it can be
told, the sum of all may do better. Whether it might is seen if every kernel that was found at less than twice the
standard errors that it takes counts as if it had come by chance, as in the risk inflation criterion (Foster and George
1994). In doubt both ways are tried on folds, none of which has a say in what is chosen for it: none is left out where
that lowers their loss by more than a standard error.
"""

import numpy as np
from scipy.stats import t as student

from omkl.batch.mkl import _jit_out_of_sample as jit
from omkl.kernels import KernelStack
from omkl.kernels.stack import RestrictedView

#: The number of useless kernels that may be expected to pass a round, where errors are normal and kernels independent.
FALSE = 0.1
#: How probable it is that useless kernels are taken for helpful ones in a round because of their sum.
DOUBT = 0.01
#: Folds, in doubt whether to choose at all.
FOLDS = 5
#: Rounds at most.
ROUNDS = 20
#: Ridges to choose from, in units of the mean diagonal of the sum of kernels.
RIDGES = np.geomspace(0.01, 100.0, 9)
#: Samples at most, and entries of all kernels on them: of more samples these are enough to tell.
SAMPLES, ENTRIES = 1000, 2.5e8
#: A part of the largest entry: centred kernels of smaller diagonals are constant up to rounding.
CONSTANT = 1e-12


def sampled(targets: np.ndarray, weights: np.ndarray, n_kernels: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples that are enough to choose among so many kernels, and the weights that they have among themselves.

    Up to :data:`SAMPLES`, and so many that kernels have :data:`ENTRIES` on them, are all taken. Of more a systematic
    sample is drawn along the order of the targets, with probabilities in proportion to the weights: of every class,
    or range of targets, as much as it weighs. There is nothing random about it.

    Parameters
    ----------
    targets : array of shape (N, P)
    weights : array of shape (N,)
    n_kernels : int

    Returns
    -------
    indices : int array of shape (n,)
        Increasing.
    weights : array of shape (n,)
    """
    n_most = min(SAMPLES, int(np.sqrt(ENTRIES / n_kernels)))
    if len(weights) <= n_most:
        return np.arange(len(weights)), weights
    probabilities = np.zeros(len(weights))
    certain = np.zeros(len(weights), dtype=bool)
    while True:  # those of large weights are all taken, and the others share what is left
        probabilities[~certain] = weights[~certain] * ((n_most - certain.sum()) / weights[~certain].sum())
        if not (probabilities > 1.0).any():
            break
        certain |= probabilities > 1.0
        probabilities[certain] = 1.0
    order = np.lexsort(targets.T)
    ends = np.cumsum(probabilities[order])
    chosen = order[np.unique(np.searchsorted(ends, np.arange(n_most) + 0.5).clip(max=len(order) - 1))]
    chosen = np.sort(chosen)
    return chosen, weights[chosen] / probabilities[chosen]


def helpful_kernels(kernels: KernelStack, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Which kernels help on samples that were left out: booleans (M,).

    Memory for a few matrices (N, N) is needed, and in each round the time of some products of one kernel after the
    other with vectors, and of the eigenvectors of one.

    Parameters
    ----------
    kernels : KernelStack
    targets : array of shape (N, P)
        Numbers, or signs of P binary problems, 0 for samples that are in neither class.
    weights : array of shape (N,)
        The weights > 0 of the samples' losses.

    Returns
    -------
    bool array of shape (M,)
        All False where none helps measurably; all True where to leave any out does harm, as far as can be told.
    """
    roots = np.sqrt(weights / weights.sum())
    z = roots[:, None] * (targets - weights @ targets / weights.sum())
    # as many columns as the targets have dimensions: only inner products of rows count
    left, lengths, _ = np.linalg.svd(z, full_matrices=False)
    z = (left * lengths)[:, lengths > CONSTANT * max(lengths.max(initial=0.0), np.abs(targets).max(initial=0.0))]
    if len(z) < 3 or not z.shape[1]:
        return np.zeros(kernels.n_kernels, dtype=bool)
    found = _Choice(kernels, z, roots)
    if found.everything_may_be_better():
        order = np.lexsort(targets.T)
        folds = [np.sort(order[fold::FOLDS]) for fold in range(FOLDS)]
        if len(z) < 3 * FOLDS or _better_on_folds(found, kernels, z, roots, folds):
            found.kept[:] = True
    return found.kept


class _Choice:
    """Kernels that help, round after round; see the head of this file.

    Parameters
    ----------
    kernels : KernelStack
    z : array of shape (n, P)
        Centred targets times the roots of weights.
    roots : array of shape (n,)
        Roots of weights, of length one.

    Attributes
    ----------
    kept : bool array of shape (M,)
    model, everything : _RidgeModel
        Of the kernels that are kept, and of all.
    """

    def __init__(self, kernels: KernelStack, z: np.ndarray, roots: np.ndarray) -> None:
        n, n_kernels = len(z), kernels.n_kernels
        self.kept, self.n_lucky, total = np.zeros(n_kernels, dtype=bool), 0, np.zeros((n, n))
        self.threshold, beyond_doubt = student.ppf(1.0 - np.array([FALSE / n_kernels, DOUBT]), n - 1)
        self.model = _RidgeModel(total, z, roots)
        for turn in range(ROUNDS):
            rest, errors = np.zeros((n, n)), np.full(n_kernels, -np.inf)
            for m in np.flatnonzero(~self.kept):
                kernel = _standardized(kernels, m, roots)
                if kernel is not None:
                    errors[m] = self.model.standard_errors(kernel)
                    rest += kernel
                    total += kernel if errors[m] > self.threshold else 0.0
            rest_helps, found = self.model.standard_errors(rest) > beyond_doubt, errors > self.threshold
            if turn == 0:
                self.everything, self.all_help = _RidgeModel(rest, z, roots), rest_helps
            if not found.any() and errors.max() > 0.0 and rest_helps:
                found[errors.argmax()] = True
                total += _standardized(kernels, int(errors.argmax()), roots)
            if not found.any():
                break
            self.kept |= found
            self.n_lucky += np.count_nonzero(found & (errors < 2.0 * self.threshold))
            self.model = _RidgeModel(total, z, roots)

    def everything_may_be_better(self) -> bool:
        """Whether all kernels may do better than those that are kept, and help beyond doubt."""
        inflated = 1.0 + self.n_lucky * self.threshold**2 / self.model.residuals.size
        all_kept = not self.kept.any() or self.kept.all()
        return not all_kept and self.all_help and inflated * self.model.loss >= self.everything.loss


def _better_on_folds(
    found: _Choice, kernels: KernelStack, z: np.ndarray, roots: np.ndarray, folds: list[np.ndarray]
) -> bool:
    """Whether all kernels do better on folds that were left out than those chosen without these."""
    if found.everything.loss <= found.model.loss:
        return True
    gains = np.empty(len(z))
    for fold in folds:
        others = np.setdiff1d(np.arange(len(z)), fold)
        own = roots[others] / np.linalg.norm(roots[others])
        centred = z[others] - np.outer(own, own @ z[others])
        kept = _Choice(RestrictedView(kernels, others), centred, own).kept
        total = np.zeros((len(z), len(z)))
        for m in np.flatnonzero(kept):
            total += _standardized(kernels, m, roots)
        chosen = _RidgeModel(total, z, roots)
        gains[fold] = chosen.losses_without(fold) - found.everything.losses_without(fold)
    return bool(gains.sum() > np.sqrt(len(z)) * gains.std(ddof=1))


def _standardized(kernels: KernelStack, m: int, roots: np.ndarray) -> np.ndarray | None:
    """A kernel with weights, centred, of mean diagonal one: its lower triangle. None where it is constant."""
    gram = np.ascontiguousarray(kernels.combine([1.0], [m]))
    return gram if jit.standardize(gram, roots, CONSTANT) else None


class _RidgeModel:
    """A ridge model with a constant, and the residuals of samples that it has not seen.

    Parameters
    ----------
    kernel : array of shape (n, n)
        The sum of kernels :func:`_standardized`, its lower triangle; without kernels the model is a constant.
    z : array of shape (n, P)
        Centred targets times the roots of weights.
    roots : array of shape (n,)
        Roots of weights, of length one.
    """

    def __init__(self, kernel: np.ndarray, z: np.ndarray, roots: np.ndarray) -> None:
        self.inverse = _best_inverse(kernel, z, roots) if kernel.any() else np.eye(len(z))
        self.inverse -= np.outer(roots, roots)
        self.coefficients = self.inverse @ z
        self.residuals = _divided(self.coefficients, np.diag(self.inverse))
        self.loss = float(np.square(self.residuals).sum())
        squares = np.square(self.residuals @ self.coefficients.T)
        self._squares = squares + squares.T

    def losses_without(self, fold: np.ndarray) -> np.ndarray:
        """Squared residuals of samples, summed over columns, of the model that has seen none of them."""
        residuals = np.linalg.lstsq(self.inverse[np.ix_(fold, fold)], self.coefficients[fold], rcond=None)[0]
        return np.square(residuals).sum(axis=1)

    def standard_errors(self, kernel: np.ndarray) -> float:
        """How surely a step along the gradient in a kernel's space lowers the loss of samples it has not seen."""
        summands = np.empty(len(self.residuals))
        variance = jit.steps_left_out(
            kernel, self.inverse, self.coefficients, self.residuals, self._squares, summands
        )  # fmt: skip
        error = max(np.sqrt(variance), np.sqrt(len(summands)) * summands.std(ddof=1))
        return float(summands.sum() / error) if error > 0.0 else 0.0


def _best_inverse(kernel: np.ndarray, z: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """``ridge (K + ridge)^-1`` for the ridge of the least leave-one-out loss, the largest of several."""
    values, vectors = np.linalg.eigh(kernel)
    values, inside = np.maximum(values, 0.0), vectors.T @ z
    squares, losses, shrinkages = vectors**2, [], []
    for ridge in RIDGES[::-1] * values.mean():
        shrinkage = ridge / (values + ridge)
        residuals = _divided(vectors @ (shrinkage[:, None] * inside), squares @ shrinkage - roots**2)
        losses.append(np.square(residuals).sum())
        shrinkages.append(shrinkage)
    return (vectors * shrinkages[int(np.argmin(losses))]) @ vectors.T


def _divided(coefficients: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """Residuals of samples left out; 0 for a sample without which there is nothing to learn from."""
    return coefficients / np.where(diagonal > CONSTANT, diagonal, np.inf)[:, None]
