"""Batch multiple kernel learning, with certificates."""

from omkl.batch.core.path import largest_strength, regularization_path
from omkl.batch.core.problem import Certificate, Expansion, Problem, certify, evaluate
from omkl.batch.core.solver import Solution, Solver
from omkl.batch.design.blocks import ColumnGroups
from omkl.batch.design.dal import DAL
from omkl.batch.design.matrices import as_design
from omkl.batch.design.path import solve_path
from omkl.batch.design.problem import DesignProblem, DesignSolver, LinearModel, certify_linear
from omkl.batch.design.spectral import IST, SpaRSA
from omkl.batch.mkl.one_step import OneStep
from omkl.batch.mkl.soft_threshold import IterativeSoftThresholding
from omkl.batch.mkl.spicy import Spicy
from omkl.batch.wrappers.cutting_planes import SILP, LevelMKL
from omkl.batch.wrappers.hessian_mkl import HessianMKL
from omkl.batch.wrappers.simple_mkl import SimpleMKL
from omkl.batch.wrappers.weight_constrained import LpNormMKL, WeightConstrained

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
