"""Batch multiple kernel learning, with certificates."""

from omkl.batch.core.problem import BaseProblem, Certificate, certify
from omkl.batch.core.solver import GapMonitor, PathPoint, Solution, Solver, regularization_path
from omkl.batch.design.blocks import ColumnGroups
from omkl.batch.design.dal import DAL
from omkl.batch.design.matrices import Design, as_design
from omkl.batch.design.problem import DesignProblem, DesignSolver, LinearModel
from omkl.batch.design.several_outputs import stacked_problem
from omkl.batch.design.spectral import IST, SpaRSA
from omkl.batch.mkl.one_step import OneStep
from omkl.batch.mkl.out_of_sample import helpful_kernels, sampled
from omkl.batch.mkl.problem import Expansion, Problem, smallest_c
from omkl.batch.mkl.several_outputs import each_output, shared_problem
from omkl.batch.mkl.soft_threshold import IterativeSoftThresholding
from omkl.batch.mkl.spicy import Spicy
from omkl.batch.wrappers.cutting_planes import SILP, LevelMKL
from omkl.batch.wrappers.descent import HessianMKL, SimpleMKL
from omkl.batch.wrappers.weight_constrained import LpNormMKL, WeightConstrained

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
    "each_output",
    "helpful_kernels",
    "regularization_path",
    "sampled",
    "shared_problem",
    "smallest_c",
    "stacked_problem",
]
