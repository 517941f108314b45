"""Regularizers: convex functions of the vector of group norms (or of coordinates), with their proximity operators."""

from omkl.regularizers.base import Composite, Regularizer, Scaled
from omkl.regularizers.coordinates import L1, OverlappingGroups, SparseGroup, TreeGroups
from omkl.regularizers.group_norms import (
    L21,
    ElasticNet,
    L21Ball,
    LqNorm,
    Ridge,
    ScalarPenalty,
)
from omkl.regularizers.squared_norms import ElasticNetWeights, SquaredL21, SquaredLq, WeightedSquaredL21

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
    "ScalarPenalty",
    "Scaled",
    "SparseGroup",
    "SquaredL21",
    "SquaredLq",
    "TreeGroups",
    "WeightedSquaredL21",
]
