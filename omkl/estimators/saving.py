"""What all estimators share: one file that holds a fitted one."""

import os
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from omkl._files import write_archive
from omkl.estimators.fitted import check_is_fitted
from omkl.exceptions import InputError, ModelFileError
from omkl.persistence import Packer, Unpacker, check_state, compacted


class SavedEstimator(BaseEstimator):
    """An estimator that :meth:`save` writes to a file, and :func:`omkl.load` reads from it."""

    #: Learned attributes that a model file holds as they are, where they are set.
    _plain_attributes: tuple[str, ...] = ()
    #: What every record of ``history_`` tells: how far training had come.
    _progress = "epoch"
    #: What the names of arrays end with that ``dtype=`` of :meth:`save` rounds.
    _rounded: tuple[str, ...] = ()

    def save(self, path: str | os.PathLike, training: bool = True, *, dtype: Any = None) -> None:
        """Write the fitted estimator to one file, which :func:`omkl.load` reads; never a pickle.

        An online estimator's file holds the whole training state, so that it can go on with ``partial_fit`` when it
        is loaded; a batch estimator's holds what prediction needs. Both hold ``history_`` without its seconds, of a
        batch estimator some 10,000 records at most, evenly spread. A random generator and callbacks are not saved, a
        seed is.

        Parameters
        ----------
        path : path-like
        training : bool
            False keeps only what predicts: the averaged weights that are not zero, and the features that have some.
            What is loaded predicts the same, bit for bit, has an empty ``history_``, refuses ``partial_fit``, and
            is saved like this again.
        dtype : {None, "float32", "float16"}
            With ``training=False``, for online estimators: round the weights to this precision, and the support vectors
            of kernels to single precision. That changes each of these numbers by less than 1 part in 16 million; half
            precision, in units of a power of two for each table, changes a weight by less than 1 part in 2000, and
            loses those below 1e-12 of the largest one of their table. What is loaded computes in double precision.

        Raises
        ------
        omkl.exceptions.ModelFileError
            If a part of the estimator cannot be saved, or training has left the finite numbers. A previous file of this
            name is left as it was.
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

    def _manifest(self, packer: Packer, training: bool, history: bool = False) -> dict[str, Any]:
        """What a model file says as JSON values; arrays go to the packer. Without training there is no ``history_``,
        unless it is asked for."""
        attributes = {name: getattr(self, name) for name in self._plain_attributes if hasattr(self, name)}
        if "history_" in attributes:  # equal models are equal files, however long they took
            records = self._saved_records() if training or history else []
            attributes["history_"] = [{k: v for k, v in r.items() if "seconds" not in k} for r in records]
        if hasattr(self, "feature_names_in_"):
            attributes["feature_names_in_"] = self.feature_names_in_.tolist()
        return {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": packed_parameters(self, packer),
            "attributes": packer.pack(attributes, "attributes"),
            **(self._describe(packer) if training else self._describe_prediction(packer)),
        }

    def _saved_records(self) -> list[dict[str, Any]]:
        """The records of ``history_`` that a model file holds."""
        return self.history_

    def _predicting(self) -> Any:
        """An estimator that predicts the same, bit for bit, and holds nothing that only training needs."""
        packer = Packer()
        manifest = self._manifest(packer, False)
        return type(self)._from_model(manifest, Unpacker(packer.arrays, users_own(self)))

    def _check_precision(self, training: bool, dtype: Any) -> None:
        """Raise unless the weights can be rounded as it is asked for."""
        if dtype is None:
            return
        if training or not self._rounded:
            what = "training=True" if training else f"a {type(self).__name__}"
            raise InputError(f"dtype={dtype!r} does not go with {what}, whose numbers are kept as they are.")
        if str(dtype) not in ("float32", "float16"):
            raise InputError(f'dtype must be None, "float32" or "float16", not {dtype!r}.')

    @property
    def _predicts_only(self) -> bool:
        """Whether what training goes on from is not there to be saved."""
        return False

    def _saved_parameters(self) -> dict[str, Any]:
        """Parameters as a model file can hold them."""
        return self.get_params(deep=False)

    def _describe(self, packer: Packer) -> dict[str, Any]:
        """Manifest entries of what is learned beside plain attributes; arrays go to the packer."""
        return {}

    def _describe_prediction(self, packer: Packer) -> dict[str, Any]:
        """The same without what only training needs."""
        return self._describe(packer)

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        """The inverse of :meth:`_describe`."""

    @classmethod
    def _from_model(cls, manifest: dict[str, Any], unpacker: Unpacker) -> Any:
        estimator = cls(**cls._loaded_parameters(manifest["parameters"], unpacker))
        estimator._restore(manifest, unpacker)
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            if name not in (*cls._plain_attributes, "feature_names_in_"):
                raise ModelFileError(f"A {cls.__name__} learns no {name!r}.")
            if name == "history_" and not (isinstance(value, list) and all(cls._progress in dict(r) for r in value)):
                raise ModelFileError("The records of the training are no records.")
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator

    @classmethod
    def _loaded_parameters(cls, packed: dict[str, Any], unpacker: Unpacker) -> dict[str, Any]:
        return {name: unpacker.unpack(value) for name, value in packed.items()}


def packed_parameters(estimator: Any, packer: Packer) -> dict[str, Any]:
    """An estimator's parameters as JSON values; what it shows of its progress is no part of a model."""
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
