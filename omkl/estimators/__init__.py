"""Estimators: the scikit-learn faces of what the other rooms do."""

from omkl.estimators.classification import OnlineMKLClassifier
from omkl.estimators.design import GroupLasso, SparseLogisticRegression
from omkl.estimators.loading import load
from omkl.estimators.mkl import MKLClassifier, MKLRegressor
from omkl.estimators.parsing import DependencyParser
from omkl.estimators.regression import OnlineMKLRegressor
from omkl.estimators.sequence import SequenceLabeler

__all__ = [
    "DependencyParser",
    "GroupLasso",
    "MKLClassifier",
    "MKLRegressor",
    "OnlineMKLClassifier",
    "OnlineMKLRegressor",
    "SequenceLabeler",
    "SparseLogisticRegression",
    "load",
]
