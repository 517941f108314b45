from .base import Regularizer
from .overlapping import OverlappingGroups, TreeGroups
from .separable import L1, L21, Composite, ElasticNet, LqNorm, Ridge, SparseGroup
from .squared_norms import ElasticNetWeights, L21Ball, SquaredL21, SquaredLq, WeightedSquaredL21

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
