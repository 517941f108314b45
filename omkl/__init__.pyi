from . import batch, data, estimators, exceptions, groups, kernels, losses, online, regularizers, reports, structures
from .estimators import (
    DependencyParser,
    GroupLasso,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
    SparseLogisticRegression,
    StructuredPredictor,
    load,
)

__version__: str

__all__ = [
    "DependencyParser",
    "GroupLasso",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "OnlineMKLClassifier",
    "OnlineMKLRegressor",
    "SequenceLabeler",
    "SparseLogisticRegression",
    "StructuredPredictor",
    "batch",
    "data",
    "estimators",
    "exceptions",
    "groups",
    "kernels",
    "load",
    "losses",
    "online",
    "regularizers",
    "reports",
    "structures",
]
