from .group_lasso.blocks import ColumnGroups
from .group_lasso.dal import DAL
from .group_lasso.matrices import Design, as_design
from .group_lasso.problem import DesignProblem, LinearModel, stacked_problem
from .mkl.out_of_sample import helpful_kernels, sampled
from .mkl.problem import Expansion, Problem, shared_problem, smallest_c
from .mkl.spicy import OneStep, Spicy
from .problem import BaseProblem, Certificate, certify
from .proximal_gradient import IST, IterativeSoftThresholding, SpaRSA
from .solver import DesignSolver, GapMonitor, PathPoint, Solution, Solver, regularization_path
from .wrappers.methods import SILP, HessianMKL, LevelMKL, LpNormMKL, SimpleMKL, WeightConstrained

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
