"""Online training: Algorithm 1 and dual averaging, learning rates, averages, diagnostics."""

from omkl.online.averaging import Average, DecayedAverage, PolynomialAverage, UniformAverage
from omkl.online.checkpoint import Checkpoints
from omkl.online.diagnostics import RegretMonitor, lipschitz_constant, optimal_eta0, regret_bound, solution_radius
from omkl.online.executors import DaskExecutor
from omkl.online.mixing import ParameterMixing
from omkl.online.predictor import Predictor
from omkl.online.progressive import ProgressiveValidation
from omkl.online.schedules import (
    Constant,
    DistanceOverGradients,
    InverseSqrt,
    InverseTime,
    LinearDecay,
    MeanPolyak,
    Schedule,
)
from omkl.online.trainer import Example, OnlineTrainer, Step

__all__ = [
    "Average",
    "Checkpoints",
    "Constant",
    "DaskExecutor",
    "DecayedAverage",
    "DistanceOverGradients",
    "Example",
    "InverseSqrt",
    "InverseTime",
    "LinearDecay",
    "MeanPolyak",
    "OnlineTrainer",
    "ParameterMixing",
    "PolynomialAverage",
    "Predictor",
    "ProgressiveValidation",
    "RegretMonitor",
    "Schedule",
    "Step",
    "UniformAverage",
    "lipschitz_constant",
    "optimal_eta0",
    "regret_bound",
    "solution_radius",
]
