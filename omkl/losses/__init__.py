"""Losses. Structured ones meet a structure through its potentials; pointwise ones see one number a sample."""

from omkl.losses.pointwise import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    PointwiseLoss,
    Squared,
    SquaredHinge,
)
from omkl.losses.structured import CRF, Perceptron, StructuredHinge, StructuredLoss

__all__ = [
    "CRF",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Perceptron",
    "PointwiseLoss",
    "Squared",
    "SquaredHinge",
    "StructuredHinge",
    "StructuredLoss",
]
