"""Model files: ``save`` of all estimators, and :func:`load`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from omkl import persistence
from omkl._components import Component, parameters_of
from omkl._files import read_archive, write_archive
from omkl.exceptions import InputError, ModelFileError


def check_is_fitted(estimator: SavedEstimator) -> None:
    """Raise an :class:`omkl.exceptions.NotFittedError` unless an estimator has been fitted."""
    if not estimator.__sklearn_is_fitted__():
        from omkl.exceptions import NotFittedError

        raise NotFittedError(f"This {type(estimator).__name__} is not fitted yet: call fit first.")


def load(path: str | PathLike, parts: dict[str, object] | None = None) -> Any:
    """Load an estimator from a file of its ``save``. Nothing in the file is executed.

    Parameters
    ----------
    path : path-like
    parts : dict of str to object, optional
        Functions by name, if the model was made with your own functions, for example as kernels.
        Also classes (kernels, losses, regularizers, structures) that are not defined in the program
        that loads the model.

    Returns
    -------
    estimator
        The fitted estimator, with bitwise equal predictions. ``partial_fit`` can continue training
        unless the estimator was saved with ``training=False``.

    Raises
    ------
    omkl.exceptions.ModelFileError
        If the file is missing, damaged, newer than this version, or needs a part that is not in
        ``parts``.
    """
    manifest, arrays = read_archive(path)
    with persistence.holds_whole(str(path), "model"):
        cls = estimator_class(manifest["class"])
        arrays = persistence.with_zeros(
            persistence.restored(arrays, manifest["rounded"]), manifest["shapes"]
        )
        persistence.check_state(arrays, str(path))
        return cls._from_model(manifest, persistence.Unpacker(arrays, parts or {}))


def estimator_class(name: str) -> type[SavedEstimator]:
    """Return the estimator with a name in a model file."""
    package = import_module("omkl")
    cls = getattr(package, name) if name in package.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, SavedEstimator)):
        raise ModelFileError(f"The file holds a {name}, which is not an estimator of omkl.")
    return cls


def set_attributes(target: object, values: Mapping[str, object]) -> None:
    """Set several attributes of an object."""
    for name, value in values.items():
        setattr(target, name, value)


class SavedEstimator:
    """Base class of all estimators, with :meth:`save`; :func:`omkl.load` reads the files.

    It follows scikit-learn's protocol. Only estimators of rows derive from scikit-learn's
    BaseEstimator as well: its import takes longer than the prediction of a sentence.
    """

    #: Learned attributes that are written to model files unchanged, if they are set.
    _plain_attributes: ClassVar[tuple[str, ...]] = ()
    #: Entry of the records of ``history_`` that counts epochs or iterations.
    _progress: ClassVar[str] = "epoch"
    #: Kind of the examples, by which reports, guarantees and the command line choose how to read and
    #: evaluate them: "rows", "sequences", "graphs", "trees" or "annotations"; None if users define
    #: the examples, so that there is no quality to report.
    example_kind: ClassVar[str | None] = "rows"
    #: Names of the sections of a report about what the model learned, in order: keys of
    #: ``omkl.reports.report.SECTIONS``. ``omkl inspect`` prints the same parts of the model.
    report_sections: ClassVar[tuple[str, ...]] = ()
    #: Suffixes of the names of arrays that ``dtype=`` of :meth:`save` rounds.
    _rounded: ClassVar[tuple[str, ...]] = ()

    history_: list[dict[str, Any]]

    def __new__(cls, *args: object, **parameters: object) -> Self:
        """Raise TypeError for an unknown parameter, and suggest a similar name."""
        known = cls._get_param_names()
        for name in parameters:
            if name not in known:
                similar = get_close_matches(name, known, 1)
                hint = (
                    f"; did you mean {similar[0]!r}?"
                    if similar
                    else f": choose from {', '.join(known)}."
                )
                raise TypeError(f"{cls.__name__} has no parameter {name!r}{hint}")
        return super().__new__(cls)

    def __repr__(self) -> str:
        known = parameters_of(type(self))
        own = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        changed = [
            f"{name}={text:.200}" for name, text in own.items() if text != repr(known[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return estimator_html_repr(self)

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(parameters_of(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, with those of parameters that are estimators if ``deep``,
        as ``tagger__C``.
        """
        own = {name: getattr(self, name) for name in self._get_param_names()}
        parts = [
            (name, value)
            for name, value in own.items()
            if deep and isinstance(value, SavedEstimator)
        ]
        return own | {
            f"{name}__{key}": inner
            for name, part in parts
            for key, inner in part.get_params().items()
        }

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, also those of parameters that are estimators, as ``tagger__C``.

        Raises
        ------
        omkl.exceptions.InputError
            If there is no parameter of this name.
        """
        known = self._get_param_names()
        of_parts: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            parameter, is_of_part, key = name.partition("__")
            if parameter not in known:
                accepted = f"{type(self).__name__} has {', '.join(known)}"
                raise InputError(f"Invalid parameter {name!r}: {accepted}.")
            if is_of_part:
                of_parts.setdefault(parameter, {})[key] = value
            else:
                setattr(self, parameter, value)
        for parameter, values in of_parts.items():
            getattr(self, parameter).set_params(**values)
        return self

    def save(
        self, path: str | PathLike, training: bool = True, *, dtype: str | None = None
    ) -> None:
        """Save the fitted estimator to a file for :func:`omkl.load`, without pickle.

        The file of an online estimator contains the whole training state, that of a batch estimator
        only the state for prediction. ``history_`` is saved without times. An int ``random_state``
        is saved, but generators and callbacks are not.

        Parameters
        ----------
        path : path-like
        training : bool
            False saves only the state for prediction: nonzero averaged weights and their features.
            The loaded estimator has bitwise equal predictions and an empty ``history_``, and does
            not support ``partial_fit``.
        dtype : {None, "float32", "float16"}
            Only for online estimators and ``training=False``: round weights to this precision, and
            support vectors to single precision. Single precision has a relative error below 1 / 16
            million. Half precision, after scaling each table by a power of two, has a relative
            error below 1 / 2000, and sets weights below 1e-12 times the largest weight of their
            table to zero. The loaded model computes in double precision.

        Raises
        ------
        omkl.exceptions.ModelFileError
            If a part of the estimator cannot be saved, or its parameters are not finite. An
            existing file is kept.
        omkl.exceptions.InputError
            If ``dtype`` is invalid, or ``training=False`` is not supported by a part of the model.
        """
        check_is_fitted(self)
        training = training and not self._predicts_only
        if dtype not in ([None] if training or not self._rounded else [None, "float32", "float16"]):
            accepted = 'None, or "float32" or "float16" for an online estimator with training=False'
            raise InputError(f"dtype must be {accepted}, got {dtype!r}.")
        packer = persistence.Packer()
        manifest = self._manifest(packer, training)
        persistence.check_state(packer.arrays, f"This {type(self).__name__}")
        arrays, manifest["rounded"] = persistence.rounded(packer.arrays, dtype, self._rounded)
        arrays, manifest["shapes"] = (arrays, {}) if training else persistence.without_zeros(arrays)
        write_archive(path, manifest, arrays)

    @property
    def _predicts_only(self) -> bool:
        """True if the training state is missing."""
        return False

    def _manifest(
        self, packer: persistence.Packer, training: bool, history: bool = False
    ) -> persistence.Manifest:
        """Return the JSON values of a model file; arrays are added to the packer.

        ``training`` includes the training state and ``history_``; ``history`` includes ``history_``
        only.
        """
        learned = vars(self)
        attributes = {name: learned[name] for name in self._plain_attributes if name in learned}
        if "history_" in attributes:  # files must not depend on training times
            records = self.history_ if training or history else []
            attributes["history_"] = [
                {k: v for k, v in r.items() if "seconds" not in k} for r in records
            ]
        if "feature_names_in_" in learned:
            attributes["feature_names_in_"] = learned["feature_names_in_"].tolist()
        return {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": packed_parameters(self, packer),
            "attributes": {name: packer.pack(value, name) for name, value in attributes.items()},
            **self._describe(packer, training),
        }

    def _saved_parameters(self) -> dict[str, Any]:
        """Return the parameters in a form that a model file can store: without objects of one's
        own, and lexicons.
        """
        known, kept = self.get_params(deep=False), (int, np.integer, str, type(None))
        objects = ("cv", "scoring", "callbacks", "random_state", "lexicons")
        return known | dict.fromkeys(
            name for name in objects if not isinstance(known.get(name), kept)
        )

    def _describe(self, packer: persistence.Packer, training: bool) -> dict[str, Any]:
        """Return manifest entries of the learned state except plain attributes; arrays are added to
        the packer.
        """
        return {}

    def _restore(self, manifest: persistence.Manifest, unpacker: persistence.Unpacker) -> None:
        """The inverse of :meth:`_describe`."""

    def _predicting(self, history: bool = False) -> Self:
        """Return a copy without training state, with bitwise equal predictions."""
        packer = persistence.Packer()
        manifest = self._manifest(packer, False, history)
        return self._from_model(manifest, persistence.Unpacker(packer.arrays, users_own(self)))

    @classmethod
    def _from_model(cls, manifest: persistence.Manifest, unpacker: persistence.Unpacker) -> Self:
        estimator = cls(**cls._loaded_parameters(manifest["parameters"], unpacker))
        estimator._restore(manifest, unpacker)
        attributes = {
            name: unpacker.unpack(value) for name, value in manifest["attributes"].items()
        }
        unknown = attributes.keys() - {*cls._plain_attributes, "feature_names_in_"}
        if unknown or not all(cls._progress in record for record in attributes.get("history_", [])):
            raise ModelFileError(
                f"A {cls.__name__} cannot have the attribute {min(unknown, default='history_')!r}."
            )
        if "feature_names_in_" in attributes:
            attributes["feature_names_in_"] = persistence.object_array(
                attributes["feature_names_in_"]
            )
        set_attributes(estimator, attributes)
        return estimator

    @classmethod
    def _loaded_parameters(
        cls, packed: persistence.Manifest, unpacker: persistence.Unpacker
    ) -> dict[str, Any]:
        """Return constructor arguments, given the packed :meth:`_saved_parameters`."""
        return {name: unpacker.unpack(value) for name, value in packed.items()}


def packed_parameters(estimator: SavedEstimator, packer: persistence.Packer) -> dict[str, Any]:
    """Return the parameters as JSON values, without ``verbose``."""
    parameters = estimator._saved_parameters().items()
    return {name: packer.pack(value, name) for name, value in parameters if name != "verbose"}


def users_own(value: object) -> dict[str, Any]:
    """Return classes and functions in the parameters of an estimator by name, because checkpoints
    cannot store them.
    """
    value = value.get_params(deep=False) if isinstance(value, SavedEstimator) else value
    if isinstance(value, (dict, list, tuple)):
        parts = map(users_own, value.values() if isinstance(value, dict) else value)
        return {name: own for part in parts for name, own in part.items()}
    if isinstance(value, Component):
        return {type(value).__name__: type(value), **users_own(value.parameters())}
    return {getattr(value, "__name__", "function"): value} if callable(value) else {}


def fingerprint(values: Iterable[object]) -> str:
    """Return a hash of arrays, sparse matrices, treebanks, and lists of these; other values are
    hashed by ``repr``.

    None is ignored.
    """
    from omkl.data import Graph, Treebank

    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        if isinstance(value, Treebank):
            value = (value.offsets, value.heads, *(" ".join(sentence.forms) for sentence in value))
        elif isinstance(value, Graph):
            value = (value.nodes, value.edges, value.edge_features)
        elif isinstance(value, (sparse.sparray, sparse.spmatrix)):
            value = (value.data, value.indices, value.indptr)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            value = np.ascontiguousarray(value)
            digest.update(f"{value.dtype.str} {value.shape}".encode())
            digest.update(value.reshape(-1).view(np.uint8).data)
        elif value is not None:
            content = fingerprint(value) if isinstance(value, (list, tuple)) else repr(value)
            digest.update(content.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
