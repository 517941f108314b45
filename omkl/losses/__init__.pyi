from .base import PointwiseLoss
from .pointwise import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from .structured import CRF, Perceptron, SoftmaxMargin, StructuredHinge, StructuredLoss, completed

__all__ = [
    "CRF",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Perceptron",
    "PointwiseLoss",
    "Poisson",
    "Quantile",
    "SoftmaxMargin",
    "Squared",
    "SquaredHinge",
    "StructuredHinge",
    "StructuredLoss",
    "completed",
]
