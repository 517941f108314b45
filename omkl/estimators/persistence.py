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
from omkl.groups.base import Bank
from omkl.persistence import Record


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
        Also classes (kernels, losses, regularizers, structures, banks) that are not defined in the
        program that loads the model.

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
        arrays = persistence.restored(arrays, manifest["rounded"])
        arrays = persistence.with_zeros(arrays, manifest["shapes"])
        persistence.check_state(arrays, str(path))
        return cls._from_model(manifest, persistence.Unpacker(arrays, parts or {}))


def estimator_class(name: str) -> type[SavedEstimator]:
    """Return the estimator with a name in a model file."""
    package = import_module("omkl")
    cls = getattr(package, name) if name in package.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, SavedEstimator)):
        raise ModelFileError(f"The file holds a {name}, which is not an estimator of omkl.")
    return cls


def set_attributes(estimator: SavedEstimator, values: Mapping[str, object]) -> None:
    """Set several attributes of an estimator."""
    for name, value in values.items():
        setattr(estimator, name, value)


class SavedEstimator:
    """Base class of all estimators, with :meth:`save`; :func:`omkl.load` reads the files.

    It follows scikit-learn's protocol. Only estimators of rows derive from scikit-learn's
    BaseEstimator as well: its import takes longer than the prediction of a sentence.
    """

    #: Learned attributes that are written to model files unchanged, if they are set.
    _plain_attributes: ClassVar[tuple[str, ...]] = ()
    #: Entry of the records of ``history_`` that counts epochs or iterations.
    _progress: ClassVar[str] = "epoch"
    #: Kind of the examples, by which reports, guarantees and the command line choose how to read
    #: and evaluate them: "rows", "sequences", "graphs", "trees" or "annotations"; None if users
    #: define the examples, so that there is no quality to report.
    example_kind: ClassVar[str | None] = "rows"
    #: Names of the sections of a report about what the model learned, in order: keys of
    #: ``omkl.reports.report.SECTIONS``. ``omkl inspect`` prints the same parts of the model.
    report_sections: ClassVar[tuple[str, ...]] = ()
    #: Suffixes of the names of arrays that ``dtype=`` of :meth:`save` rounds.
    _rounded: ClassVar[tuple[str, ...]] = ()

    history_: list[Record]

    def __new__(cls, *args: object, **parameters: object) -> Self:
        """Raise TypeError for an unknown parameter, and suggest a similar name."""
        names = cls._get_param_names()
        for name in parameters:
            if name not in names:
                hint = f": choose from {', '.join(names)}."
                similar = get_close_matches(name, names, 1)
                if similar:
                    hint = f"; did you mean {similar[0]!r}?"
                raise TypeError(f"{cls.__name__} has no parameter {name!r}{hint}")
        return super().__new__(cls)

    def __repr__(self) -> str:
        parameters = parameters_of(type(self))
        changed = []
        for name, value in self.get_params(deep=False).items():
            text = repr(value)
            if text != repr(parameters[name].default):
                changed.append(f"{name}={text:.200}")
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
        """Return the parameters by name.

        With ``deep``, also those of parameters that are estimators, options, losses and other
        components, as ``tagger__C`` and ``budget__cache_size``.
        """
        parameters = {name: getattr(self, name) for name in self._get_param_names()}
        if not deep:
            return parameters
        inner_parameters = {}
        for name, value in parameters.items():
            inner: dict[str, Any] = {}
            if isinstance(value, SavedEstimator):
                inner = value.get_params()
            elif isinstance(value, Component):
                inner = value.parameters()
            for key, inner_value in inner.items():
                inner_parameters[f"{name}__{key}"] = inner_value
        return parameters | inner_parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, also those of estimators and components, as ``tagger__C``.

        Components are values: a new one takes the place of the old one.

        Raises
        ------
        omkl.exceptions.InputError
            If there is no parameter of this name.
        """
        names = self._get_param_names()
        inner_parameters: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            parameter, is_inner, key = name.partition("__")
            if parameter not in names:
                accepted = f"{type(self).__name__} has {', '.join(names)}"
                raise InputError(f"Invalid parameter {name!r}: {accepted}.")
            if is_inner:
                inner_parameters.setdefault(parameter, {})[key] = value
            else:
                setattr(self, parameter, value)
        for parameter, values in inner_parameters.items():
            part = getattr(self, parameter)
            if isinstance(part, SavedEstimator):
                part.set_params(**values)
                continue
            settings = part.parameters() if isinstance(part, Component) else {}
            for key in values:
                if key not in settings:
                    raise InputError(
                        f"Invalid parameter '{parameter}__{key}': {parameter} is {part!r:.100}."
                    )
            setattr(self, parameter, type(part)(**{**settings, **values}))
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
        may_round = bool(self._rounded) and not training
        if dtype is not None and not (may_round and dtype in ("float32", "float16")):
            accepted = 'None, or "float32" or "float16" for an online estimator with training=False'
            raise InputError(f"dtype must be {accepted}, got {dtype!r}.")
        packer = persistence.Packer()
        manifest = self._manifest(packer, training)
        persistence.check_state(packer.arrays, f"This {type(self).__name__}")
        arrays, manifest["rounded"] = persistence.rounded(packer.arrays, dtype, self._rounded)
        manifest["shapes"] = {}
        if not training:
            arrays, manifest["shapes"] = persistence.without_zeros(arrays)
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
        if "history_" in attributes:
            records = []
            if training or history:
                records = self.history_
            attributes["history_"] = [_without_times(record) for record in records]
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
        """Return the parameters in a form that a model file can store.

        Objects that users define, and lexicons, are None.
        """
        parameters = self.get_params(deep=False)
        for name in ("cv", "scoring", "callbacks", "random_state", "lexicons"):
            if not isinstance(parameters.get(name), (int, np.integer, str, type(None))):
                parameters[name] = None
        return parameters

    def _describe(self, packer: persistence.Packer, training: bool) -> persistence.Manifest:
        """Return manifest entries of the learned state except plain attributes.

        Arrays are added to the packer.
        """
        return {}

    def _restore(self, manifest: persistence.Manifest, unpacker: persistence.Unpacker) -> None:
        """The inverse of :meth:`_describe`."""

    def _predicting(self, history: bool = False) -> Self:
        """Return a copy without training state, with bitwise equal predictions."""
        packer = persistence.Packer()
        manifest = self._manifest(packer, training=False, history=history)
        return self._from_model(
            manifest, persistence.Unpacker(packer.arrays, parts_in_parameters(self))
        )

    @classmethod
    def _from_model(cls, manifest: persistence.Manifest, unpacker: persistence.Unpacker) -> Self:
        estimator = cls(**cls._loaded_parameters(manifest["parameters"], unpacker))
        estimator._restore(manifest, unpacker)
        attributes = {
            name: unpacker.unpack(value) for name, value in manifest["attributes"].items()
        }
        refused = attributes.keys() - {*cls._plain_attributes, "feature_names_in_"}
        records = attributes.get("history_", [])
        if refused or not all(cls._progress in record for record in records):
            name = min(refused, default="history_")
            raise ModelFileError(f"A {cls.__name__} cannot have the attribute {name!r}.")
        if "feature_names_in_" in attributes:
            names = attributes["feature_names_in_"]
            attributes["feature_names_in_"] = persistence.object_array(names)
        set_attributes(estimator, attributes)
        return estimator

    @classmethod
    def _loaded_parameters(
        cls, packed: persistence.Manifest, unpacker: persistence.Unpacker
    ) -> dict[str, Any]:
        """Return constructor arguments, given the packed :meth:`_saved_parameters`."""
        return {name: unpacker.unpack(value) for name, value in packed.items()}


def _without_times(record: Record) -> Record:
    """Return a record of ``history_`` for a file, which must not depend on training times."""
    return {name: value for name, value in record.items() if "seconds" not in name}


def packed_parameters(
    estimator: SavedEstimator, packer: persistence.Packer
) -> persistence.Manifest:
    """Return the parameters as JSON values, without ``verbose``."""
    parameters = estimator._saved_parameters().items()
    return {name: packer.pack(value, name) for name, value in parameters if name != "verbose"}


def parts_in_parameters(value: object) -> dict[str, Any]:
    """Return classes and functions in parameters, nested ones too, by name: ``parts`` of a file."""
    if isinstance(value, SavedEstimator):
        value = value.get_params(deep=False)
    if isinstance(value, Component):
        return {type(value).__name__: type(value), **parts_in_parameters(value.parameters())}
    if isinstance(value, Bank):
        arguments, options = value.made_with
        return {
            type(value).__name__: type(value),
            **parts_in_parameters([*arguments, *options.values()]),
        }
    if isinstance(value, (dict, list, tuple)):
        objects = {}
        for item in value.values() if isinstance(value, dict) else value:
            objects.update(parts_in_parameters(item))
        return objects
    if callable(value):
        return {getattr(value, "__name__", "function"): value}
    return {}


def fingerprint(values: Iterable[object]) -> str:
    """Return a hash of arrays, sparse matrices, treebanks, graphs, and lists of these.

    Other values are hashed by ``repr``. None is ignored.
    """
    digest = hashlib.blake2b(digest_size=16)
    for value in map(_content, values):
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            array = np.ascontiguousarray(value)
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        elif isinstance(value, (list, tuple)):
            digest.update(fingerprint(value).encode())
        elif value is not None:
            digest.update(repr(value).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _content(value: object) -> object:
    """Return the arrays and lists that a treebank, a graph or a sparse matrix consists of."""
    from omkl.data import Graph, Treebank

    if isinstance(value, Treebank):
        forms = (" ".join(sentence.forms) for sentence in value)
        return (value.offsets, value.heads, *forms)
    if isinstance(value, Graph):
        return (value.nodes, value.edges, value.edge_features)
    if isinstance(value, (sparse.sparray, sparse.spmatrix)):
        return (value.data, value.indices, value.indptr)
    return value
