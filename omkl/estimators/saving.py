"""Model files of batch estimators: parameters, fitted kernels, training inputs, and the expansions."""

from importlib.metadata import version

import numpy as np
from sklearn.utils.validation import check_is_fitted

from omkl.batch import Expansion
from omkl.estimators.kernel_sources import unpack_source
from omkl.persistence import Packer, write_model


class SavedExpansions:
    """What makes a batch estimator one file and back."""

    #: Learned attributes that a model file holds as they are.
    _plain_attributes = ("classes_", "n_features_in_", "kernel_weights_", "dual_gap_", "n_iter_")

    def save(self, path):
        """Write the fitted estimator to one file, which :func:`omkl.load` reads; never a pickle.

        It holds what prediction needs: the training inputs, unless kernels are precomputed, and the expansions of the
        active kernels. ``history_`` is not saved.

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
            "source": self._source.pack(packer),
            "models": [
                packer.pack(
                    {**vars(model), "rows": rows if rows is None else np.asarray(rows)}, "a model of the estimator"
                )
                for model, rows in zip(self._models, self._rows)
            ],
        }
        write_model(path, manifest, packer.arrays)

    @classmethod
    def _from_model(cls, manifest, arrays, unpacker):
        estimator = cls(**{name: unpacker.unpack(value) for name, value in manifest["parameters"].items()})
        estimator._source = unpack_source(manifest["source"], unpacker)
        estimator._models, estimator._rows = [], []
        for packed in manifest["models"]:
            model = unpacker.unpack(packed)
            estimator._rows.append(model.pop("rows"))
            estimator._models.append(Expansion(**model))
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator
