"""What all batch estimators share: parameters that are checked alike, and a model file."""

import os
from importlib.metadata import version

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from omkl._components import check_flags, check_number, resolve
from omkl._files import write_archive
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.persistence import Packer


class CertifiedEstimator(BaseEstimator):
    """An estimator that solves a convex problem to a duality gap: it has ``loss``, ``tol`` and ``max_iter``."""

    #: The parameter that weighs losses against the regularizer.
    _tradeoff = "C"
    #: Learned attributes that a model file holds as they are.
    _plain_attributes: tuple[str, ...] = ("classes_", "n_features_in_", "dual_gap_", "n_iter_")

    def _resolve_loss(self) -> PointwiseLoss:
        """The loss, and a check of the parameters that all have."""
        check_flags(self)
        check_number(self._tradeoff, getattr(self, self._tradeoff), above=0)
        check_number("tol", self.tol, above=0)
        if self.max_iter is not None:
            check_number("max_iter", self.max_iter, above=0, integer=True)
        loss = resolve(PointwiseLoss, self.loss, "loss")
        if loss.classifies != isinstance(self, ClassifierMixin):
            kind = "classification" if loss.classifies else "regression"
            raise InputError(f"{loss!r} is a loss of {kind}, which {type(self).__name__} does not do: choose another.")
        return loss

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file, which :func:`omkl.load` reads; never a pickle.

        It holds what prediction needs; ``history_`` is not saved.

        Raises
        ------
        omkl.exceptions.ModelFileError
            If a part of the estimator cannot be saved. A previous file of this name is left as it was.
        """
        check_is_fitted(self)
        packer = Packer()
        attributes = {name: getattr(self, name) for name in self._plain_attributes if hasattr(self, name)}
        if hasattr(self, "feature_names_in_"):
            attributes["feature_names_in_"] = self.feature_names_in_.tolist()
        manifest = {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": {name: packer.pack(value, name) for name, value in self.get_params(deep=False).items()},
            "attributes": packer.pack(attributes, "attributes"),
            **self._describe(packer),
        }
        write_archive(path, manifest, packer.arrays)

    def _describe(self, packer):
        """Manifest entries of what the estimator knows beside its plain attributes; arrays go to the packer."""
        return {}

    def _restore(self, manifest, unpacker):
        """The inverse."""

    @classmethod
    def _from_model(cls, manifest, arrays, unpacker):
        estimator = cls(**{name: unpacker.unpack(value) for name, value in manifest["parameters"].items()})
        estimator._restore(manifest, unpacker)
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator
