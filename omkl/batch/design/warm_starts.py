"""What the search of one problem leaves to the next: its model, the working set, and where a path leads."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from omkl.batch.design.problem import DesignProblem, LinearModel, check_start
from omkl.batch.design.screening import DesignNorms
from omkl.batch.design.working_set import WorkingSet

#: A path's solution is predicted as far ahead as so many times the way between the last two.
FARTHEST = 2.0


@dataclass
class Iterate:
    """A model on the working set: coefficients, intercept, predictions, dual point, norms and dual norms of its groups,
    and the correlations of its columns with the dual point.

    Its objective and its relative gap over the working set are those for one alpha. The dual point is its ``own``
    where it is that of its predictions, and no better one that was met.
    """

    w: np.ndarray
    b: Any
    outputs: np.ndarray
    rho: np.ndarray
    norms: np.ndarray
    dual_norms: np.ndarray
    correlations: np.ndarray
    primal: float
    gap: float
    own: bool


class Waypoint(NamedTuple):
    """A solution of a path: its alpha, and the model on the working set as it was then."""

    alpha: float
    iterate: Iterate


class Prediction(NamedTuple):
    """Coefficients on the working set, and where they are known their intercept, predictions and correlations."""

    w: np.ndarray
    b: Any = None
    outputs: Any = None
    correlations: Any = None


@dataclass
class DALStart:
    """What :class:`~omkl.batch.DAL` can start from: a model, and where they are known the working set and dual norms.

    WorkingSet and norms are those of one design and its groups; what else the new problem consists of may differ.
    """

    model: LinearModel | None
    working_set: WorkingSet | None = None
    norms: DesignNorms | None = None
    #: The last solutions, two at most.
    trail: tuple[Waypoint, ...] = ()
    #: Whether the last solution was found on the working set as it was.
    is_settled: bool = False

    def predict(self, problem: DesignProblem, working_set: WorkingSet) -> Prediction | None:
        """Where the last two solutions lead to in a straight line; None where there are not two.

        Between changes of the support the lasso's solutions are linear in alpha. No group enters, or goes past zero.
        With the squared loss predictions and correlations follow coefficients, by inner products that are known.
        """
        if len(self.trail) < 2 or self.trail[0].alpha == self.trail[1].alpha:
            return None
        (alpha_0, before), (alpha_1, last) = self.trail
        blocks, mixed = working_set.blocks, working_set.mixed
        reach = min((problem.alpha - alpha_1) / (alpha_1 - alpha_0), FARTHEST)
        w_0, w_1 = (padded(point.w, blocks.sizes.sum()) for point in (before, last))
        straight = w_1 + reach * (w_1 - w_0)
        w = np.where(blocks.spread(blocks.sums(straight * w_1)) > 0, straight, 0.0)
        if mixed is not None:
            return Prediction(np.maximum(w, 0.0) if mixed.positive else w)
        n_known = working_set.products.known(problem.weighted_loss.weights[: working_set.matrix.shape[0]])
        sizes = {len(w), len(before.correlations), len(last.correlations), n_known * problem.n_outputs}
        if not problem.loss.is_quadratic or not (before.own and last.own) or len(sizes) > 1:
            return Prediction(w)
        b, outputs, correlations = (
            end + reach * (end - start)
            for start, end in (
                (before.b, last.b), (before.outputs, last.outputs), (before.correlations, last.correlations)
            )
        )  # fmt: skip
        moved = w - straight
        if moved.any():
            outputs += working_set.outputs(moved)
            correlations -= working_set.products.times(moved.reshape(-1, problem.n_outputs)).ravel()
        shift = problem.best_intercept(outputs)
        return Prediction(w, b + shift, outputs + shift, correlations)


def usable(start: Any, problem: DesignProblem) -> DALStart:
    """What of a start fits the problem: of another design, its groups or the intercept only the model does."""
    start = start if isinstance(start, DALStart) else DALStart(start)
    if start.model is not None:
        check_start(start.model, problem)
    is_same = start.working_set is not None and start.working_set.is_of(problem)
    return start if is_same else DALStart(start.model)


def padded(w: np.ndarray, size: int) -> np.ndarray:
    """The coefficients of a working set that has grown since."""
    return np.concatenate([w, np.zeros(size - len(w))])
