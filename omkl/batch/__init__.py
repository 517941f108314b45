"""Batch multiple kernel learning, with certificates."""

from omkl.batch.cutting_planes import SILP, LevelMKL
from omkl.batch.hessian_mkl import HessianMKL
from omkl.batch.one_step import OneStep
from omkl.batch.path import largest_strength, regularization_path
from omkl.batch.problem import Certificate, Expansion, Problem, certify, evaluate
from omkl.batch.simple_mkl import SimpleMKL
from omkl.batch.soft_threshold import IterativeSoftThresholding
from omkl.batch.solver import Solution, Solver
from omkl.batch.spicy import Spicy
from omkl.batch.weight_constrained import LpNormMKL, WeightConstrained

__all__ = [
    "SILP",
    "Certificate",
    "Expansion",
    "HessianMKL",
    "IterativeSoftThresholding",
    "LevelMKL",
    "LpNormMKL",
    "OneStep",
    "Problem",
    "SimpleMKL",
    "Solution",
    "Solver",
    "Spicy",
    "WeightConstrained",
    "certify",
    "evaluate",
    "largest_strength",
    "regularization_path",
]
