r"""The loop that dual Newton methods share: solve on few kernels, look at all of them once, take more in.

Kernels outside the working set are zero. One full pass gives :math:`\|\rho\|_{K_m}` for all kernels: it tells which of
them violate optimality, and certifies the model. The method that solves on the working set sees no other kernel.
"""

from dataclasses import dataclass

import numpy as np

from omkl.batch.core.gap_monitor import Progress
from omkl.batch.core.intercept import constant_model
from omkl.batch.core.problem import Certificate, Expansion, evaluate
from omkl.batch.core.solver import Solution
from omkl.batch.mkl.linear_system import system_of
from omkl.batch.mkl.screening import DualNorms

#: Part of the gap that is asked for to which a working set is solved: kernels outside of it may add to it.
ENOUGH = 0.6
#: Relative distance of dual points that are one but for rounding.
ROUNDING = 1e-12
#: Rounds after which a solver gives up unless told otherwise.
MOST_ROUNDS = 100


@dataclass
class Start:
    """A warm start: a model and a dual point of a problem with the same kernels and samples."""

    model: Expansion
    rho: np.ndarray


def solve_by_working_sets(problem, method, tol, max_iter=None, start=None, on_iteration=None):
    """Solve a problem by a method for its restriction to some kernels.

    Parameters
    ----------
    problem : Problem
    method : type
        A :class:`~omkl.batch.mkl.subproblem.Restricted`.
    tol, max_iter, start, on_iteration
        As for :meth:`~omkl.batch.Solver.solve`.
    """
    watch = _Watch(problem, tol, MOST_ROUNDS if max_iter is None else max_iter, on_iteration)
    if start is None:
        constant, rho = constant_model(problem.loss, problem.y, problem.intercept)
        start = Start(Expansion(np.arange(0), np.zeros((0, len(rho))), constant), rho)
    model, restricted = start.model, None
    watch.look(start.rho, len(model.active), *evaluate(problem.kernels, model))
    while not watch.over:
        if restricted is None:
            violating = _by_violation(problem, watch, model.active)
            restricted = method.begin(problem, start, watch.certificate, violating)
        else:
            restricted.grow(_by_violation(problem, watch, restricted.which))
        steps = restricted.newton_steps
        if not restricted.solve(watch.target(restricted.share)) and restricted.newton_steps == steps:
            break
        watch.look(restricted.rho, *restricted.state(), restricted)
    if restricted is not None:
        model = restricted.model()
    certificate = watch.recomputed(model)
    converged = certificate.gap <= tol
    history = watch.progress.history
    return Solution(model, certificate, len(history) - 1, converged, history, Start(model, certificate.rho))


class _Watch:
    """Certificates of the models on the way, from one full pass each, and the record of them."""

    def __init__(self, problem, tol, max_iter, on_iteration):
        # the start is a record, too
        self.problem, self.progress = problem, Progress(tol, max_iter + 1, on_iteration)
        self.certificate, self._norms_of = None, DualNorms(problem)

    @property
    def gap(self):
        """Absolute gap."""
        return self.certificate.primal - self.certificate.dual

    def target(self, share):
        """The absolute gap worth reaching on the working set: a share of what is left, or a part of what is asked."""
        wanted = self.progress.tol * max(self.certificate.dual, 1e-3 * abs(self.certificate.primal))
        return max(ENOUGH * wanted, share * self.gap)

    def look(self, rho, n_active, norms, outputs, restricted=None):
        """One full pass, or less: certify a model, given by the norms of its parts and its predictions."""
        problem, best = self.problem, self.certificate
        given, rho = rho, problem.inside(rho)
        gap = np.inf if best is None else best.gap
        if restricted is None or np.linalg.norm(rho - given) > ROUNDING * np.linalg.norm(rho):
            self.dual_norms = self._norms_of(rho, gap)
        else:
            self.dual_norms = self._norms_of(rho, gap, restricted.which, restricted.dual_norms())
        dual, rho = _best_multiple(problem, rho, self.dual_norms)
        if best is not None and best.dual > dual:
            # a lower bound holds for every model
            dual, rho = best.dual, best.rho
        self.certificate = Certificate(problem.primal(outputs, norms), dual, norms, outputs, rho)
        self.over = self.progress.ends(
            self.certificate.primal,
            dual,
            n_active,
            working_set=0 if restricted is None else len(restricted.which),
            full_passes=self._norms_of.passes,
            newton_steps=0 if restricted is None else restricted.newton_steps,
            proximal_steps=0 if restricted is None else restricted.proximal_steps,
            system=system_of(problem.kernels),
        )

    def recomputed(self, model):
        """The certificate of the model as it is returned: norms and predictions from its coefficients."""
        norms, outputs = evaluate(self.problem.kernels, model)
        best = self.certificate
        return Certificate(self.problem.primal(outputs, norms), best.dual, norms, outputs, best.rho)


def _best_multiple(problem, rho, dual_norms):
    """The dual at a multiple of a point, and the multiple: the largest feasible one, halved as long as that helps."""
    scale = problem.regularizer.dual_scale(dual_norms / problem.C)
    dual = problem.dual(scale * rho, scale * dual_norms)
    while (less := problem.dual(0.5 * scale * rho, 0.5 * scale * dual_norms)) > dual:
        dual, scale = less, 0.5 * scale
    return dual, scale * rho


def _by_violation(problem, watch, which):
    r"""Kernels outside ``which`` that violate optimality, the worst first.

    At the optimum the norms b are :math:`\mathrm{prox}_\psi(b + \|\rho\|_K / C)`: a kernel that is zero shall stay so.
    All of them violate this under a regularizer without a threshold.
    """
    violations = problem.regularizer.prox(watch.certificate.norms + watch.dual_norms / problem.C, 1.0)
    violations[which] = 0.0
    if not problem.regularizer.separable and violations.any():
        # all share one threshold, which those that enter change: the next in line come along
        violations = np.where(np.isin(np.arange(len(violations)), which), 0.0, watch.dual_norms)
    order = np.argsort(-violations, kind="stable")
    return order[violations[order] > 0]
