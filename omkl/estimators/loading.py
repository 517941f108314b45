"""From a model file back to the estimator that wrote it."""

from os import PathLike
from typing import Any

from omkl._files import read_archive
from omkl.estimators.annotator import Annotator
from omkl.estimators.classification import OnlineMKLClassifier
from omkl.estimators.cross_validation import MKLClassifierCV, MKLRegressorCV
from omkl.estimators.design import GroupLasso, SparseLogisticRegression
from omkl.estimators.design_cv import GroupLassoCV, SparseLogisticRegressionCV
from omkl.estimators.mkl import MKLClassifier, MKLRegressor
from omkl.estimators.one_class import OneClassMKL
from omkl.estimators.parsing import DependencyParser
from omkl.estimators.regression import OnlineMKLRegressor
from omkl.estimators.sequence import SequenceLabeler
from omkl.estimators.structured import StructuredPredictor
from omkl.persistence import Unpacker, check_state, expanded, holds_whole

#: Everything that :func:`load` can return.
ESTIMATORS = (
    Annotator, DependencyParser, GroupLasso, GroupLassoCV, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV,
    OneClassMKL, OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler, SparseLogisticRegression,
    SparseLogisticRegressionCV, StructuredPredictor,
)  # fmt: skip


def load(path: str | PathLike, parts: dict[str, Any] | None = None) -> Any:
    """Load any estimator that :meth:`save` has written. Nothing in the file is executed.

    Parameters
    ----------
    path : path-like
    parts : dict of str to object, optional
        Your own functions by name, where the model was made with some, as kernels; and classes (kernels, losses,
        regularizers, structures) that are not defined where the model is loaded.

    Returns
    -------
    estimator
        It predicts bit for bit what the saved one did, and goes on training with ``partial_fit`` unless it was saved
        with ``training=False``.

    Raises
    ------
    omkl.exceptions.ModelFileError
        If the file is missing, damaged, newer than this version, or names a part that is not given.
    """
    manifest, arrays = read_archive(path)
    with holds_whole(str(path), "model"):
        cls = {estimator.__name__: estimator for estimator in ESTIMATORS}[manifest["class"]]
        arrays = expanded(arrays, manifest.get("compacted", {}))
        check_state(arrays, str(path))
        return cls._from_model(manifest, Unpacker(arrays, parts or {}))
