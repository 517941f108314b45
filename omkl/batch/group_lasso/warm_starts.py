"""Warm starts of DAL: the model, the working set, and the prediction of a path's next solution."""

from dataclasses import dataclass

import numpy as np

from omkl.batch.group_lasso.problem import DesignProblem, LinearModel, check_start
from omkl.batch.group_lasso.screening import DesignNorms
from omkl.batch.group_lasso.working_set import WorkingSet

#: Longest prediction, as a multiple of the distance between the last two solutions.
FARTHEST = 2.0


@dataclass
class Iterate:
    """A model on the working set, with a dual point.

    Attributes
    ----------
    w, b : array of shape (k,), float or array
        Coefficients and intercept.
    outputs, rho : arrays of shape (m,)
        Predictions and dual point.
    norms, dual_norms : arrays of shape (g,)
    correlations : array of shape (k,)
        Of the columns with the dual point.
    primal, gap : float
        Objective and relative gap over the working set, for one alpha.
    own : bool
        Whether the dual point is that of the predictions, and not a better one.
    """

    w: np.ndarray
    b: float | np.ndarray
    outputs: np.ndarray
    rho: np.ndarray
    norms: np.ndarray
    dual_norms: np.ndarray
    correlations: np.ndarray
    primal: float
    gap: float
    own: bool


@dataclass
class DALStart:
    """A warm start of :class:`~omkl.batch.DAL`.

    Attributes
    ----------
    model : LinearModel or None
    working_set, norms : WorkingSet, DesignNorms or None
        Of the same design and groups.
    trail : tuple of (float, Iterate)
        Alpha and model of the last two solutions of a path, each on the working set of its time.
    is_settled : bool
        Whether the last solution needed no other groups.
    """

    model: LinearModel | None
    working_set: WorkingSet | None = None
    norms: DesignNorms | None = None
    trail: tuple[tuple[float, Iterate], ...] = ()
    is_settled: bool = False

    def predict(self, alpha: float, working_set: WorkingSet) -> np.ndarray | None:
        """Extrapolate the coefficients of the last two solutions in a straight line; None where there are not two.

        Between changes of the support the lasso's solutions are linear in alpha. No group enters, or goes past zero.
        """
        if len(self.trail) < 2 or self.trail[0][0] == self.trail[1][0]:
            return None
        (alpha_0, before), (alpha_1, last) = self.trail
        blocks = working_set.blocks
        reach = min((alpha - alpha_1) / (alpha_1 - alpha_0), FARTHEST)
        w_0, w_1 = (padded(point.w, blocks.bounds[-1]) for point in (before, last))
        straight = w_1 + reach * (w_1 - w_0)
        w = np.where(blocks.spread(blocks.sums(straight * w_1)) > 0, straight, 0.0)
        return np.maximum(w, 0.0) if working_set.gauge.positive else w


def usable(start: DALStart | LinearModel | None, problem: DesignProblem) -> DALStart:
    """Return a start for the problem: of another design, other groups or intercept, only the model is kept."""
    start = start if isinstance(start, DALStart) else DALStart(start)
    if start.model is not None:
        check_start(start.model, problem)
    is_same = start.working_set is not None and start.working_set.is_of(problem)
    return start if is_same else DALStart(start.model)


def padded(w: np.ndarray, size: int) -> np.ndarray:
    """Return coefficients padded with zeros for a working set that has grown."""
    return np.concatenate([w, np.zeros(size - len(w))])
