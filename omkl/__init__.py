"""omkl: online multiple kernel learning for structured prediction."""

from importlib.metadata import version as _version

from omkl import batch, data, exceptions, groups, kernels, losses, online, plots, regularizers, structures
from omkl.estimators import (
    DependencyParser,
    GroupLasso,
    MKLClassifier,
    MKLRegressor,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
    SparseLogisticRegression,
    load,
)

__version__ = _version("omkl")

__all__ = [
    "DependencyParser",
    "GroupLasso",
    "MKLClassifier",
    "MKLRegressor",
    "OnlineMKLClassifier",
    "OnlineMKLRegressor",
    "SequenceLabeler",
    "SparseLogisticRegression",
    "batch",
    "data",
    "exceptions",
    "groups",
    "kernels",
    "load",
    "losses",
    "online",
    "plots",
    "regularizers",
    "structures",
]
