"""Online training: trainer and training loop, learning rates, averages, callbacks."""

from omkl.online.averaging import (
    AutomaticAverage,
    Average,
    DecayedAverage,
    PolynomialAverage,
    Predictor,
    RecentAverage,
    UniformAverage,
)
from omkl.online.callbacks import ProgressiveValidation, RecordLog
from omkl.online.rounds import Example, Step, values_of
from omkl.online.schedules import (
    Constant,
    DistanceOverGradients,
    InverseSqrt,
    InverseTime,
    LinearDecay,
    MeanPolyak,
    Schedule,
)
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, TrainingLoop

__all__ = [
    "ArraySource",
    "AutomaticAverage",
    "Average",
    "Constant",
    "DecayedAverage",
    "DistanceOverGradients",
    "Example",
    "InverseSqrt",
    "InverseTime",
    "LinearDecay",
    "MeanPolyak",
    "OnlineTrainer",
    "PolynomialAverage",
    "Predictor",
    "ProgressiveValidation",
    "RecentAverage",
    "RecordLog",
    "Schedule",
    "Step",
    "TrainingLoop",
    "UniformAverage",
    "values_of",
]
