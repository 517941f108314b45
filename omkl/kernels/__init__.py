"""Kernels: positive semidefinite functions of two vectors."""

from omkl.kernels.base import Kernel, Pair
from omkl.kernels.functions import (
    Average,
    B1Spline,
    ChiSquared,
    Custom,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    as_kernel,
)
from omkl.kernels.stack import DenseStack, KernelStack, PackedStack

__all__ = [
    "Average",
    "B1Spline",
    "ChiSquared",
    "Custom",
    "DenseStack",
    "Gaussian",
    "Kernel",
    "KernelStack",
    "Laplacian",
    "Linear",
    "PackedStack",
    "Pair",
    "Polynomial",
    "Precomputed",
    "as_kernel",
]
