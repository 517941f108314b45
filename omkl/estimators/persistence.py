"""Model files: ``save`` of all estimators, and :func:`load`."""

from importlib import import_module
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from omkl._files import read_archive, write_archive
from omkl.estimators.validation import check_is_fitted
from omkl.exceptions import InputError, ModelFileError
from omkl.persistence import Packer, Unpacker, check_state, compacted, expanded, holds_whole

#: The module of each class that :func:`load` can return.
MODULES = {
    "Annotator": "omkl.annotation.annotator",
    "DependencyParser": "omkl.parsing.parser",
    "GroupLasso": "omkl.linear.group_lasso",
    "GroupLassoCV": "omkl.linear.cross_validation",
    "MKLClassifier": "omkl.mkl.batch",
    "MKLClassifierCV": "omkl.mkl.cross_validation",
    "MKLRegressor": "omkl.mkl.batch",
    "MKLRegressorCV": "omkl.mkl.cross_validation",
    "OnlineMKLClassifier": "omkl.mkl.online",
    "OnlineMKLRegressor": "omkl.mkl.online",
    "SequenceLabeler": "omkl.sequences.labeler",
    "SparseLogisticRegression": "omkl.linear.logistic",
    "SparseLogisticRegressionCV": "omkl.linear.cross_validation",
    "StructuredPredictor": "omkl.estimators.structured",
}


def load(path: str | PathLike, parts: dict[str, Any] | None = None) -> Any:
    """Load an estimator from a file of its ``save``. Nothing in the file is executed.

    Parameters
    ----------
    path : path-like
    parts : dict of str to object, optional
        Your own functions by name, where the model was made with some, as kernels; and classes (kernels, losses,
        regularizers, structures) that are not defined where the model is loaded.

    Returns
    -------
    estimator
        Its predictions are the same, bit for bit. It can be trained further with ``partial_fit`` unless it was saved
        with ``training=False``.

    Raises
    ------
    omkl.exceptions.ModelFileError
        If the file is missing, damaged, newer than this version, or names a part that is not given.
    """
    manifest, arrays = read_archive(path)
    with holds_whole(str(path), "model"):
        name = manifest["class"]
        cls = getattr(import_module(MODULES[name]), name)
        arrays = expanded(arrays, manifest.get("compacted", {}))
        check_state(arrays, str(path))
        return cls._from_model(manifest, Unpacker(arrays, parts or {}))


class SavedEstimator(BaseEstimator):
    """Base class of all estimators, which :meth:`save` writes to a file, and :func:`omkl.load` reads from it."""

    #: Learned attributes that a model file holds as they are, where they are set.
    _plain_attributes: ClassVar[tuple[str, ...]] = ()
    #: The entry of every record of ``history_`` that counts epochs or iterations.
    _progress: ClassVar[str] = "epoch"
    #: Ends of the names of arrays that ``dtype=`` of :meth:`save` rounds.
    _rounded: ClassVar[tuple[str, ...]] = ()

    def save(self, path: str | PathLike, training: bool = True, *, dtype: Any = None) -> None:
        """Write the fitted estimator to one file, which :func:`omkl.load` reads; never a pickle.

        The file of an online estimator holds the whole training state; that of a batch estimator what prediction
        needs. Both hold ``history_`` without its seconds, of a batch estimator some 10,000 records at most, evenly
        spread. A seed is saved, a random generator and callbacks are not.

        Parameters
        ----------
        path : path-like
        training : bool
            False keeps only what predicts: the averaged weights that are not zero, and the features that have some.
            The loaded estimator predicts the same, bit for bit, has an empty ``history_``, and refuses
            ``partial_fit``.
        dtype : {None, "float32", "float16"}
            With ``training=False``, for online estimators: round the weights to this precision, and the support vectors
            of kernels to single precision. That changes each of these numbers by less than 1 part in 16 million; half
            precision, in units of a power of two for each table, changes a weight by less than 1 part in 2000, and
            loses those below 1e-12 of the largest one of their table. The loaded model computes in double precision.

        Raises
        ------
        omkl.exceptions.ModelFileError
            If a part of the estimator cannot be saved, or its parameters are not finite. An earlier file of this name
            stays as it was.
        omkl.exceptions.InputError
            If ``dtype`` is not as described, or the model cannot do without what training needs.
        """
        check_is_fitted(self)
        training = training and not self._predicts_only
        self._check_precision(training, dtype)
        packer = Packer()
        manifest, arrays = self._manifest(packer, training), packer.arrays
        check_state(arrays, f"This {type(self).__name__}")
        if not training:
            arrays, manifest["compacted"] = compacted(arrays, dtype, self._rounded)
        write_archive(path, manifest, arrays)

    def _check_precision(self, training: bool, dtype: Any) -> None:
        """Raise unless the weights can be rounded to ``dtype``."""
        if dtype is None:
            return
        if training or not self._rounded:
            owner = "training=True" if training else f"a {type(self).__name__}"
            raise InputError(f"dtype must be None for {owner}, whose numbers are not rounded, got {dtype!r}.")
        if str(dtype) not in ("float32", "float16"):
            raise InputError(f'dtype must be None, "float32" or "float16", got {dtype!r}.')

    @property
    def _predicts_only(self) -> bool:
        """Return whether the state of training is missing."""
        return False

    def _manifest(self, packer: Packer, training: bool, history: bool = False) -> dict[str, Any]:
        """The JSON values of a model file; arrays go to the packer.

        Parameters
        ----------
        packer : Packer
        training : bool
            Include the training state and ``history_``.
        history : bool
            Include ``history_`` in any case.
        """
        learned = vars(self)
        attributes = {name: learned[name] for name in self._plain_attributes if name in learned}
        if "history_" in attributes:  # equal models are equal files, however long they took
            records = self._saved_records() if training or history else []
            attributes["history_"] = [{k: v for k, v in r.items() if "seconds" not in k} for r in records]
        if "feature_names_in_" in learned:
            attributes["feature_names_in_"] = learned["feature_names_in_"].tolist()
        return {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": packed_parameters(self, packer),
            "attributes": packer.pack(attributes, "attributes"),
            **self._describe(packer, training),
        }

    def _saved_records(self) -> list[dict[str, Any]]:
        """The records of ``history_`` that a model file holds."""
        return self.history_

    def _saved_parameters(self) -> dict[str, Any]:
        """Parameters as a model file can hold them."""
        return self.get_params(deep=False)

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        """Entries of the manifest for everything learned but plain attributes; arrays go to the packer."""
        return {}

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        """The inverse of :meth:`_describe`."""

    def _predicting(self) -> Any:
        """A copy that predicts the same, bit for bit, without the training state."""
        packer = Packer()
        manifest = self._manifest(packer, False)
        return type(self)._from_model(manifest, Unpacker(packer.arrays, users_own(self)))

    @classmethod
    def _from_model(cls, manifest: dict[str, Any], unpacker: Unpacker) -> Any:
        estimator = cls(**cls._loaded_parameters(manifest["parameters"], unpacker))
        estimator._restore(manifest, unpacker)
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            if name not in (*cls._plain_attributes, "feature_names_in_"):
                raise ModelFileError(f"A {cls.__name__} has no learned attribute {name!r}.")
            if name == "history_" and not (isinstance(value, list) and all(cls._progress in dict(r) for r in value)):
                raise ModelFileError("The records of history_ are damaged.")
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator

    @classmethod
    def _loaded_parameters(cls, packed: dict[str, Any], unpacker: Unpacker) -> dict[str, Any]:
        """Constructor arguments from those that :meth:`_saved_parameters` wrote."""
        return {name: unpacker.unpack(value) for name, value in packed.items()}


def packed_parameters(estimator: SavedEstimator, packer: Packer) -> dict[str, Any]:
    """Parameters as JSON values, without ``verbose``, which is no part of a model."""
    parameters = estimator._saved_parameters().items()
    return {name: packer.pack(value, name) for name, value in parameters if name != "verbose"}


def users_own(estimator: BaseEstimator) -> dict[str, Any]:
    """The user's classes and functions among the parameters, by name, which a checkpoint cannot hold."""
    found: dict[str, Any] = {}
    waiting = list(estimator.get_params(deep=False).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif hasattr(value, "parameters"):
            found[type(value).__name__] = type(value)
            waiting += value.parameters().values()
        elif callable(value):
            found[getattr(value, "__name__", "function")] = value
    return found
