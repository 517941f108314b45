"""Regularization paths: a sequence of strengths, each solved from the solution of the one before."""

import time
from dataclasses import replace

import numpy as np

from omkl.batch.core.intercept import constant_model
from omkl.exceptions import InputError


def regularization_path(solver, problem, C=20, tol=1e-2, max_iter=None, decades=3.0):
    """Solve a problem for many strengths.

    Parameters
    ----------
    solver : Solver
    problem : Problem
        Its own C is not used.
    C : int or array
        The strengths, or how many, spread evenly in the logarithm below :func:`largest_strength`.
    tol, max_iter
        As for :meth:`omkl.batch.Solver.solve`.
    decades : float
        How far down a number of strengths reaches.

    Returns
    -------
    list of dict
        For each strength, from the largest: ``C``, ``kernel_weights`` (M,) summing to one (or all 0), ``active``
        (number of kernels), ``dual_gap`` (relative), ``objective``, ``intercept``, ``n_iter``, ``seconds``, ``model``
        (an :class:`~omkl.batch.Expansion`).
    """
    strengths = descending_strengths(C, lambda: largest_strength(problem), decades)
    records, start = [], None
    for strength in strengths.tolist():
        started = time.perf_counter()
        solution = solver.solve(replace(problem, C=strength), tol, max_iter, start=start)
        start, certificate = solution.start, solution.certificate
        weights = problem.regularizer.kernel_weights(certificate.norms)
        weights = np.where(certificate.norms > 0, weights, 0.0)
        records.append({
            "C": strength,
            "kernel_weights": weights / weights.sum() if weights.any() else weights,
            "active": len(solution.model.active),
            "dual_gap": certificate.gap,
            "objective": certificate.primal,
            "intercept": solution.model.intercept,
            "n_iter": solution.n_iter,
            "seconds": time.perf_counter() - started,
            "model": solution.model,
        })  # fmt: skip
    return records


def descending_strengths(C, largest, decades):
    """Strengths from the largest: those given, or so many, spread evenly in the logarithm below ``largest()``.

    Raises
    ------
    omkl.exceptions.InputError
        If C is neither a number of strengths nor strengths that are finite and > 0.
    """
    if isinstance(C, (int, np.integer)) and C >= 1:
        C = np.geomspace(1.0, 10.0**-decades, C) * largest()
    strengths = np.sort(np.asarray(C, dtype=np.float64).ravel())[::-1]
    if not len(strengths) or not np.isfinite(strengths).all() or strengths[-1] <= 0:
        raise InputError(f"C must be a number of strengths, or strengths that are finite and > 0, not {C!r}.")
    return strengths


def largest_strength(problem):
    r"""The least C at which a constant is optimal under the block 1-norm.

    That is :math:`\max_m \|\rho\|_{K_m}` at the best constant. Other regularizers shrink all kernels from there on.
    """
    _, rho = constant_model(problem.loss, problem.y, problem.intercept)
    return float(np.sqrt(problem.kernels.quadratics(rho).max()))
