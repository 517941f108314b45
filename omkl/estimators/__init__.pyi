from .classification import OnlineMKLClassifier
from .design import GroupLasso, SparseLogisticRegression
from .loading import load
from .mkl import MKLClassifier, MKLRegressor
from .parsing import DependencyParser
from .regression import OnlineMKLRegressor
from .sequence import SequenceLabeler
from .structured import StructuredPredictor

__all__ = [
    "DependencyParser",
    "GroupLasso",
    "MKLClassifier",
    "MKLRegressor",
    "OnlineMKLClassifier",
    "OnlineMKLRegressor",
    "SequenceLabeler",
    "SparseLogisticRegression",
    "StructuredPredictor",
    "load",
]
