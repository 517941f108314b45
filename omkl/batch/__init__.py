"""Batch multiple kernel learning, with certificates."""

from omkl.batch.one_step import OneStep
from omkl.batch.problem import Certificate, Expansion, Problem, certify, evaluate
from omkl.batch.solver import Solution, Solver
from omkl.batch.spicy import Spicy

__all__ = ["Certificate", "Expansion", "OneStep", "Problem", "Solution", "Solver", "Spicy", "certify", "evaluate"]
