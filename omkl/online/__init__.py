"""Online training: Algorithm 1 and dual averaging, learning rates, averages, diagnostics."""

from omkl._threads import in_threads
from omkl.online.averaging import Average, DecayedAverage, PolynomialAverage, Predictor, UniformAverage
from omkl.online.callbacks import (
    Every,
    ProgressBar,
    ProgressiveValidation,
    TrainingProgress,
    thinned,
    to_frame,
    values_of,
)
from omkl.online.checkpointing import Checkpointer, Checkpoints
from omkl.online.condensing import condensed_state
from omkl.online.contributions import Contributions, Piece, contributions
from omkl.online.diagnostics import RegretMonitor, lipschitz_constant, optimal_eta0, regret_bound, solution_radius
from omkl.online.early_stopping import EarlyStopping
from omkl.online.group_report import group_report
from omkl.online.hedge_trainer import IntervalHedge, KernelHedge
from omkl.online.hedging import Hedge, HedgePredictor, HedgeWeights
from omkl.online.logs import CSVLog
from omkl.online.model import OnlineModel, OnlineSettings
from omkl.online.rounds import METHODS, Example, Step, below
from omkl.online.schedules import (
    Constant,
    DistanceOverGradients,
    InverseSqrt,
    InverseTime,
    LinearDecay,
    MeanPolyak,
    Schedule,
)
from omkl.online.selection import left_out_groups
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, TrainingLoop, check_callbacks, hooks, serial_pass

__all__ = [
    "METHODS",
    "ArraySource",
    "Average",
    "CSVLog",
    "Checkpointer",
    "Checkpoints",
    "Constant",
    "Contributions",
    "DecayedAverage",
    "DistanceOverGradients",
    "EarlyStopping",
    "Every",
    "Example",
    "Hedge",
    "HedgePredictor",
    "HedgeWeights",
    "IntervalHedge",
    "InverseSqrt",
    "InverseTime",
    "KernelHedge",
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
    "RegretMonitor",
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
    "lipschitz_constant",
    "optimal_eta0",
    "regret_bound",
    "serial_pass",
    "solution_radius",
    "thinned",
    "to_frame",
    "values_of",
]
