from . import (
    batch,
    data,
    exceptions,
    features,
    groups,
    kernels,
    losses,
    online,
    regularizers,
    reports,
    structures,
    testing,
)
from .annotation.annotator import Annotator
from .estimators.explanations import Explanation
from .estimators.options import Budget, EarlyStopping, Passes
from .estimators.persistence import load
from .estimators.structured import StructuredPredictor
from .graphs.edges import Edges
from .graphs.labeler import GraphLabeler
from .guarantees.checked import CheckedModel, guarantee
from .linear.estimators import (
    GroupLasso,
    GroupLassoCV,
    SparseLogisticRegression,
    SparseLogisticRegressionCV,
)
from .mkl.batch import MKLClassifier, MKLRegressor
from .mkl.cross_validation import MKLClassifierCV, MKLRegressorCV
from .mkl.online import OnlineMKLClassifier, OnlineMKLRegressor
from .mkl.shapes import Shapes
from .parsing.evaluation import evaluate_treebanks
from .parsing.options import TreeForm, TreeSearch
from .parsing.parser import DependencyParser
from .selection.groups import select_groups
from .selection.result import GroupSelection
from .sequences.evaluation import evaluate_labels
from .sequences.labeler import SequenceLabeler
from .sequences.transitions import Transitions

__version__: str

__all__ = [
    "Annotator",
    "Budget",
    "CheckedModel",
    "DependencyParser",
    "EarlyStopping",
    "Edges",
    "Explanation",
    "GraphLabeler",
    "GroupLasso",
    "GroupLassoCV",
    "GroupSelection",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "OnlineMKLClassifier",
    "OnlineMKLRegressor",
    "Passes",
    "SequenceLabeler",
    "Shapes",
    "SparseLogisticRegression",
    "SparseLogisticRegressionCV",
    "StructuredPredictor",
    "Transitions",
    "TreeForm",
    "TreeSearch",
    "batch",
    "data",
    "evaluate_labels",
    "evaluate_treebanks",
    "exceptions",
    "features",
    "groups",
    "guarantee",
    "kernels",
    "load",
    "losses",
    "online",
    "regularizers",
    "reports",
    "select_groups",
    "structures",
    "testing",
]
