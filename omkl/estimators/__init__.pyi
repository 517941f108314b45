from .annotator import Annotator
from .classification import OnlineMKLClassifier
from .cross_validation import MKLClassifierCV, MKLRegressorCV
from .design import GroupLasso, SparseLogisticRegression
from .design_cv import GroupLassoCV, SparseLogisticRegressionCV
from .evaluation import evaluate_treebanks
from .explanations import Explanation
from .label_evaluation import evaluate_labels
from .learned_features import LearnedFeatures
from .loading import load
from .mkl import MKLClassifier, MKLRegressor
from .one_class import OneClassMKL
from .parsing import DependencyParser
from .regression import OnlineMKLRegressor
from .sequence import SequenceLabeler
from .structured import StructuredPredictor

__all__ = [
    "Annotator",
    "DependencyParser",
    "Explanation",
    "GroupLasso",
    "GroupLassoCV",
    "LearnedFeatures",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "OneClassMKL",
    "OnlineMKLClassifier",
    "OnlineMKLRegressor",
    "SequenceLabeler",
    "SparseLogisticRegression",
    "SparseLogisticRegressionCV",
    "StructuredPredictor",
    "evaluate_labels",
    "evaluate_treebanks",
    "load",
]
