"""Regularizers: convex functions of the vector of group norms (or of coordinates), with their proximity operators."""

from omkl.regularizers.base import Regularizer
from omkl.regularizers.overlapping import OverlappingGroups, TreeGroups
from omkl.regularizers.separable import L1, L21, Composite, ElasticNet, LqNorm, Ridge, SparseGroup
from omkl.regularizers.squared_norms import ElasticNetWeights, L21Ball, SquaredL21, SquaredLq, WeightedSquaredL21

__all__ = [
    "L1",
    "L21",
    "Composite",
    "ElasticNet",
    "ElasticNetWeights",
    "L21Ball",
    "LqNorm",
    "OverlappingGroups",
    "Regularizer",
    "Ridge",
    "SparseGroup",
    "SquaredL21",
    "SquaredLq",
    "TreeGroups",
    "WeightedSquaredL21",
]
