from .averaging import (
    AutomaticAverage,
    Average,
    DecayedAverage,
    PolynomialAverage,
    Predictor,
    RecentAverage,
    UniformAverage,
)
from .callbacks import ProgressiveValidation, RecordLog
from .rounds import Example, Step, values_of
from .schedules import (
    Constant,
    DistanceOverGradients,
    InverseSqrt,
    InverseTime,
    LinearDecay,
    MeanPolyak,
    Schedule,
)
from .trainer import OnlineTrainer
from .training_loop import ArraySource, TrainingLoop

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
