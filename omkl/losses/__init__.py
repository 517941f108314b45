"""Losses: functions of potentials (structured), or of one prediction per sample (pointwise)."""

from omkl.losses.base import PointwiseLoss
from omkl.losses.pointwise import EpsilonInsensitive, Hinge, Huber, Logistic, Poisson, Quantile, Squared, SquaredHinge
from omkl.losses.structured import CRF, Perceptron, SoftmaxMargin, StructuredHinge, StructuredLoss, completed

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
