"""Batch multiple kernel learning, with certificates."""

from omkl.batch.group_lasso.blocks import ColumnGroups
from omkl.batch.group_lasso.dal import DAL
from omkl.batch.group_lasso.matrices import Design, as_design
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel, stacked_problem
from omkl.batch.mkl.out_of_sample import helpful_kernels, sampled
from omkl.batch.mkl.problem import Expansion, Problem, shared_problem, smallest_c
from omkl.batch.mkl.spicy import OneStep, Spicy
from omkl.batch.problem import BaseProblem, Certificate, certify
from omkl.batch.proximal_gradient import IST, IterativeSoftThresholding, SpaRSA
from omkl.batch.solver import DesignSolver, GapMonitor, PathPoint, Solution, Solver, regularization_path
from omkl.batch.wrappers.methods import SILP, HessianMKL, LevelMKL, LpNormMKL, SimpleMKL, WeightConstrained

__all__ = [
    "DAL",
    "IST",
    "SILP",
    "BaseProblem",
    "Certificate",
    "ColumnGroups",
    "Design",
    "DesignProblem",
    "DesignSolver",
    "Expansion",
    "GapMonitor",
    "HessianMKL",
    "IterativeSoftThresholding",
    "LevelMKL",
    "LinearModel",
    "LpNormMKL",
    "OneStep",
    "PathPoint",
    "Problem",
    "SimpleMKL",
    "Solution",
    "Solver",
    "SpaRSA",
    "Spicy",
    "WeightConstrained",
    "as_design",
    "certify",
    "helpful_kernels",
    "regularization_path",
    "sampled",
    "shared_problem",
    "smallest_c",
    "stacked_problem",
]
