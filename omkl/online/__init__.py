"""Online training: Algorithm 1 and dual averaging, learning rates, averages, diagnostics."""

from omkl._threads import in_threads
from omkl.online.averaging import Average, DecayedAverage, PolynomialAverage, Predictor, UniformAverage
from omkl.online.callbacks import (
    EarlyStopping,
    ProgressBar,
    ProgressiveValidation,
    RecordLog,
)
from omkl.online.checkpointing import Checkpointer, Checkpoints
from omkl.online.group_contributions import Contributions, Piece, contributions, group_report
from omkl.online.group_selection import left_out_groups
from omkl.online.hooks import check_callbacks, hooks
from omkl.online.methods import METHODS
from omkl.online.model import OnlineModel, OnlineSettings, condensed_state
from omkl.online.progress import TrainingProgress, thinned, to_frame, values_of
from omkl.online.rounds import Example, Step, below
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
from omkl.online.training_loop import ArraySource, TrainingLoop, serial_pass

__all__ = [
    "METHODS",
    "ArraySource",
    "Average",
    "Checkpointer",
    "Checkpoints",
    "Constant",
    "Contributions",
    "DecayedAverage",
    "DistanceOverGradients",
    "EarlyStopping",
    "Example",
    "InverseSqrt",
    "InverseTime",
    "LinearDecay",
    "MeanPolyak",
    "OnlineModel",
    "OnlineSettings",
    "OnlineTrainer",
    "Piece",
    "PolynomialAverage",
    "Predictor",
    "ProgressBar",
    "ProgressiveValidation",
    "RecordLog",
    "Schedule",
    "Step",
    "TrainingLoop",
    "TrainingProgress",
    "UniformAverage",
    "below",
    "check_callbacks",
    "condensed_state",
    "contributions",
    "group_report",
    "hooks",
    "in_threads",
    "left_out_groups",
    "serial_pass",
    "thinned",
    "to_frame",
    "values_of",
]
