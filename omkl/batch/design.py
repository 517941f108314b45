"""DAL: sparse linear models on a design matrix by proximal minimisation of the dual, on a working set of columns."""

import time

import numpy as np

from omkl.batch.design_newton import AugmentedLagrangian
from omkl.batch.design_problem import DesignSolver, LinearModel
from omkl.batch.panel import Panel
from omkl.batch.problem import Certificate
from omkl.batch.solver import Solution


class DAL(DesignSolver):
    """x"""

    short_names = {"dal": {}}

    def __init__(self, gamma0=1.0, growth=4.0, first=512):
        self.gamma0, self.growth, self.first = gamma0, growth, first

    def solve(self, problem, tol=1e-3, max_iter=None, start=None, on_iteration=None):
        return _Search(self, problem).run(tol, 100 if max_iter is None else max_iter, start, on_iteration)


class _Search:
    def __init__(self, solver, problem):
        self.solver, self.problem = solver, problem
        self.panel = Panel(problem)
        self.w, self.b = np.empty(0), 0.0
        self.newton_steps = 0
        self.rho = None

    def run(self, tol, max_iter, start, on_iteration):
        began = time.perf_counter()
        problem = self.problem
        if start is not None and len(start.active):
            groups = problem.groups.of_columns(start.active)
            self.panel.extend(groups)
            self.w = self.panel.scaled(start.dense(problem.design.shape[1])[self.panel.columns])
            self.b = start.intercept
        history = []
        for iteration in range(max_iter + 1):
            certificate, dual_norms = self.certify()
            gap = certificate.gap
            history.append(dict(seconds=time.perf_counter() - began, primal=certificate.primal, dual=certificate.dual, gap=gap,
                                active=int(np.count_nonzero(self.w)), panel=len(self.panel.groups), newton=self.newton_steps))
            stop = on_iteration is not None and on_iteration(history[-1])
            if gap <= tol or stop or iteration == max_iter:
                break
            self.enlarge(dual_norms)
            self.solve_panel(max(0.3 * tol, min(0.1 * gap,0.1)))
        support = np.flatnonzero(self.w)
        columns = self.panel.columns[support]
        order = np.argsort(columns)
        model = LinearModel(columns[order], self.panel.unscaled(self.w)[support][order], self.b)
        return Solution(model, certificate, iteration, gap <= tol, history, model)

    def outputs(self):
        s = np.flatnonzero(self.w)
        z = self.panel.matrix[:, s] @ self.w[s]
        self.b = self.problem.best_intercept(z)
        return z + self.b

    def certify(self):
        problem = self.problem
        z = self.outputs()
        rho = problem.dual_point(z)
        corr = problem.design.correlations(rho)
        dual_norms = problem.groups.dual_norms(corr)
        if len(self.panel.groups):
            dual_norms[self.panel.groups] = self.panel.blocks.norms(self.panel.matrix.T @ rho)
        norms = np.zeros(problem.groups.n_groups)
        norms[self.panel.groups] = self.panel.blocks.norms(self.w)
        dual, scale = problem.dual(rho, dual_norms)
        self.rho = rho
        return Certificate(problem.primal(z, norms), dual, norms, z, scale * rho), dual_norms

    def enlarge(self, dual_norms):
        outside = dual_norms.copy()
        outside[self.panel.groups] = 0.0
        viol = np.flatnonzero(outside > self.problem.C * self.problem.threshold)
        if not len(self.panel.groups):
            room = self.solver.first
            cand = np.arange(len(outside))
        else:
            room = max(len(self.panel.groups), 1)
            cand = viol
        if len(cand) > room:
            cand = cand[np.argpartition(-outside[cand], room)[:room]]
        cand = np.sort(cand)
        if len(cand):
            self.panel.extend(cand)
            self.w = np.concatenate([self.w, np.zeros(len(self.panel.columns) - len(self.w))])

    def solve_panel(self, tol):
        problem = self.problem
        C = problem.C
        rho = self.rho
        gamma = getattr(self, "gamma", None)
        if gamma is None:
            gamma = self.solver.gamma0
        for outer in range(60):
            z = self.outputs()
            rho_m = problem.dual_point(z)
            dn = self.panel.blocks.norms(self.panel.matrix.T @ rho_m)
            norms = self.panel.blocks.norms(self.w)
            primal = problem.primal(z, norms)
            dual, _ = problem.dual(rho_m, dn)
            if self.solver_verbose: print("   outer", outer, "gamma", gamma, "gap", (primal - dual) / primal, "newton", self.newton_steps, 'act', np.count_nonzero(norms), 'k', len(norms))
            if primal - dual <= tol * abs(primal):
                break
            lagr = AugmentedLagrangian(problem, self.panel, self.w, self.b, gamma, gamma * 10)
            target = 0.1 * tol * abs(primal)
            def accuracy(point, outputs):
                return max(target, 0.1 * abs(point.x @ (point.x - self.w)) / gamma)
            point, n = lagr.minimise(lagr.at(rho), accuracy, 50)
            self.newton_steps += n
            rho = point.rho
            self.w, self.b = point.x, point.u
            gamma *= self.solver.growth
        self.gamma = gamma / self.solver.growth
        self.rho = rho
    solver_verbose = False
