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
from .structured import (
    CRF,
    Perceptron,
    SoftmaxMargin,
    StructuredHinge,
    StructuredLoss,
    complete_output,
)

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
    "complete_output",
]
