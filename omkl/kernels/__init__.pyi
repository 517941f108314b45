from .base import Kernel
from .feature_maps import FeatureMap, FourierFeatures, Nystrom
from .functions import B1Spline, ChiSquared, Custom, Gaussian, Laplacian, Linear, Polynomial
from .gram import GramMatrices, checked_gram
from .inputs import Pair
from .packed import LazyStack, PackedStack
from .specs import (
    Average,
    Product,
    as_kernel,
    per_column,
    random_subset_gaussians,
    variable_kernels,
)
from .stack import FactoredStack, KernelStack, MixedStack

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
    "Product",
    "as_kernel",
    "checked_gram",
    "per_column",
    "random_subset_gaussians",
    "variable_kernels",
]
