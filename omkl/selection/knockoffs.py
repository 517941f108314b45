"""Knockoffs: copies of groups that relate to other groups as these do, but not to the target."""

from typing import Literal

import numpy as np
import scipy
from scipy.special import ndtr, ndtri
from sklearn.covariance import ledoit_wolf

#: Newton decrement at which the covariance of knockoffs is optimal enough.
CONVERGED = 1e-3
#: Number of turns that draw the scores of equal values.
SWEEPS = 20
#: Maximum number of Newton steps.
STEPS = 100


def knockoff_threshold(statistics: np.ndarray, fdr: float) -> float:
    r"""Return the threshold of the knockoff+ rule; inf if no group can be selected.

    It is the smallest :math:`t > 0` with :math:`(1 + |\{j: W_j \le -t\}|) / \max(1, |\{j: W_j \ge
    t\}|) \le q`.

    Parameters
    ----------
    statistics : array of shape (G,)
        :math:`W_j`: importance of a group minus importance of its knockoff.
    fdr : float
        Bound :math:`q` on the false discovery rate.

    References
    ----------
    Barber and Candes (2015), Controlling the false discovery rate via knockoffs.
    """
    for t in np.unique(np.abs(statistics[statistics != 0.0])):
        if 1 + np.count_nonzero(statistics <= -t) <= fdr * np.count_nonzero(statistics >= t):
            return float(t)
    return np.inf


def column_knockoffs(X: np.ndarray, groups: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Sample knockoffs of the columns of a table, for groups of columns.

    Columns are mapped to normal scores, which are taken as jointly normal. The knockoffs are normal
    given the scores, and are mapped back to the values that occur in the column.

    Parameters
    ----------
    X : array of shape (N, d)
    groups : int array of shape (d,)
        Group of each column, 0, 1, ...
    random : numpy.random.Generator

    Returns
    -------
    array of shape (N, d)

    References
    ----------
    Candes, Fan, Janson and Lv (2018), Panning for gold: model-X knockoffs. Dai and Barber (2016),
    The knockoff filter for FDR control in group-sparse and multitask regression.
    """
    n, d = X.shape
    scores, covariance = normal_scores(X, random)
    S = knockoff_covariance(covariance, groups)
    from_scores = scipy.linalg.solve(covariance, S, assume_a="pos")
    noise = np.linalg.cholesky(2.0 * S - S @ from_scores)
    sampled = scores - scores @ from_scores + random.standard_normal((n, d)) @ noise.T
    places = np.minimum((ndtr(sampled) * n).astype(np.int64), n - 1)
    return np.take_along_axis(np.sort(X, axis=0), places, axis=0)


def normal_scores(X: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Map columns to normal scores (N, d), and estimate their correlations (d, d), with shrinkage.

    Scores of equal values are drawn given the scores of the other columns, between those of the
    next smaller and the next larger values, in turns with the correlations (Hoff 2007, Extending
    the rank likelihood).
    """
    n = len(X)

    def shares_below(side: Literal["left", "right"]) -> np.ndarray:
        return np.array([np.searchsorted(np.sort(x), x, side) / n for x in X.T]).T

    low = shares_below("left")
    high = shares_below("right")
    scores = ndtri(low + (high - low) * random.random(X.shape))
    tied = np.flatnonzero((high - low).max(axis=0) > 1.5 / n).tolist()
    for _ in range(SWEEPS if tied else 1):
        covariance = ledoit_wolf(scores)[0]
        scales = np.sqrt(np.diag(covariance))
        scores /= scales
        covariance /= np.outer(scales, scales)
        precision = np.linalg.inv(covariance)
        for j in tied:
            deviation = precision[j, j] ** -0.5
            mean = scores[:, j] - scores @ precision[j] * deviation**2
            below = ndtr((ndtri(low[:, j]) - mean) / deviation)
            above = ndtr((ndtri(high[:, j]) - mean) / deviation)
            new_scores = mean + deviation * ndtri(below + (above - below) * random.random(n))
            scores[:, j] = np.where(np.isfinite(new_scores), new_scores, scores[:, j])
    return scores, covariance


def knockoff_covariance(covariance: np.ndarray, groups: np.ndarray) -> np.ndarray:
    r"""Return the covariance S that columns lose to their knockoffs.

    A column and a knockoff have the covariance :math:`\Sigma - S`, and :math:`S` consists of the
    blocks :math:`\gamma_g \Sigma_{gg}` of groups. The :math:`\gamma` maximize the entropy of
    columns and knockoffs, :math:`\log \det (2 \Sigma - S) + \sum_g p_g \log \gamma_g`, by Newton's
    method. As this is self-concordant, damped steps stay feasible.

    Parameters
    ----------
    covariance : array of shape (d, d)
        Positive definite.
    groups : int array of shape (d,)

    Returns
    -------
    array of shape (d, d)

    References
    ----------
    Gimenez and Zou (2019), Improving the stability of the knockoff procedure. Spector and Janson
    (2022), Powerful knockoffs via minimizing reconstructability.
    """
    blocks = np.where(groups[:, None] == groups, covariance, 0.0)
    sizes = np.bincount(groups).astype(np.float64)
    smallest = scipy.linalg.eigh(covariance, blocks, eigvals_only=True, subset_by_index=[0, 0])[0]
    gamma = np.full(len(sizes), min(1.0, smallest))
    member = (groups[:, None] == np.arange(len(sizes))).astype(np.float64)
    for _ in range(STEPS):
        product = scipy.linalg.solve(
            2.0 * covariance - blocks * gamma[groups], blocks, assume_a="pos"
        )
        gradient = member.T @ np.diag(product) - sizes / gamma
        hessian = member.T @ (product * product.T) @ member + np.diag(sizes / gamma**2)
        step = scipy.linalg.solve(hessian, gradient, assume_a="pos")
        decrement = np.sqrt(gradient @ step)
        gamma -= step / (1.0 + decrement)
        if decrement < CONVERGED:
            break
    return blocks * gamma[groups]


def resampled(context: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a random donor with the same context for each example, (n,): a permutation.

    Parameters
    ----------
    context : int array of shape (n,)
    random : numpy.random.Generator
    """
    # both orders sort by context, so examples and their donors have the same one
    donors = np.empty(len(context), dtype=np.int64)
    shuffled = np.lexsort((random.random(len(context)), context))
    donors[np.argsort(context, kind="stable")] = shuffled
    return donors
