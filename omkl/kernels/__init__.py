"""Kernels: positive semidefinite functions of two vectors."""

from omkl.kernels.base import Kernel
from omkl.kernels.feature_maps import FeatureMap, FourierFeatures, Nystrom
from omkl.kernels.functions import B1Spline, ChiSquared, Custom, Gaussian, Laplacian, Linear, Polynomial
from omkl.kernels.gram import GramMatrices, checked_gram
from omkl.kernels.inputs import Pair
from omkl.kernels.packed import LazyStack, PackedStack
from omkl.kernels.specs import Average, as_kernel, per_column, random_subset_gaussians, variable_kernels
from omkl.kernels.stack import FactoredStack, KernelStack, MixedStack

__all__ = [
    "Average",
    "B1Spline",
    "ChiSquared",
    "Custom",
    "FactoredStack",
    "FeatureMap",
    "FourierFeatures",
    "Gaussian",
    "GramMatrices",
    "Kernel",
    "KernelStack",
    "Laplacian",
    "LazyStack",
    "Linear",
    "MixedStack",
    "Nystrom",
    "PackedStack",
    "Pair",
    "Polynomial",
    "as_kernel",
    "checked_gram",
    "per_column",
    "random_subset_gaussians",
    "variable_kernels",
]
