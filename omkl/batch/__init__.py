"""Batch multiple kernel learning, with certificates."""

from omkl.batch.problem import Certificate, Expansion, Problem, certify, evaluate
from omkl.batch.solver import Solution, Solver

__all__ = ["Certificate", "Expansion", "Problem", "Solution", "Solver", "certify", "evaluate"]
