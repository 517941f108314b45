"""Batch multiple kernel learning, with certificates."""

from omkl.batch.blocks import ColumnGroups
from omkl.batch.cutting_planes import SILP, LevelMKL
from omkl.batch.design import DAL
from omkl.batch.design_path import solve_path
from omkl.batch.design_problem import DesignProblem, DesignSolver, LinearModel, certify_linear
from omkl.batch.hessian_mkl import HessianMKL
from omkl.batch.matrices import as_design
from omkl.batch.one_step import OneStep
from omkl.batch.path import largest_strength, regularization_path
from omkl.batch.problem import Certificate, Expansion, Problem, certify, evaluate
from omkl.batch.simple_mkl import SimpleMKL
from omkl.batch.soft_threshold import IterativeSoftThresholding
from omkl.batch.solver import Solution, Solver
from omkl.batch.spectral import IST, SpaRSA
from omkl.batch.spicy import Spicy
from omkl.batch.weight_constrained import LpNormMKL, WeightConstrained

__all__ = [
    "DAL",
    "IST",
    "SILP",
    "Certificate",
    "ColumnGroups",
    "DesignProblem",
    "DesignSolver",
    "Expansion",
    "HessianMKL",
    "IterativeSoftThresholding",
    "LevelMKL",
    "LinearModel",
    "LpNormMKL",
    "OneStep",
    "Problem",
    "SimpleMKL",
    "Solution",
    "Solver",
    "SpaRSA",
    "Spicy",
    "WeightConstrained",
    "as_design",
    "certify",
    "certify_linear",
    "evaluate",
    "largest_strength",
    "regularization_path",
    "solve_path",
]
