"""Learned combinations of kernels: their outputs, explanations and files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from omkl._threads import in_threads
from omkl.batch.mkl.problem import Expansion
from omkl.estimators.batch import ClassDecoder, NumberDecoder, contrast
from omkl.estimators.explanations import (
    CONSTANT,
    Explanation,
    explanation,
    name_of_column,
    name_of_support,
)
from omkl.exceptions import InputError
from omkl.groups.base import Contributions, Piece
from omkl.kernels.inputs import as_dense
from omkl.mkl.kernel_sources import (
    ArrayKernels,
    CheckedInputs,
    GivenMatrices,
    KernelBlock,
    KernelSource,
)
from omkl.persistence import Packer, Unpacker


@dataclass(eq=False)
class KernelModel:
    """A model of P outputs with its active kernels.

    Parameters
    ----------
    source : ArrayKernels or GivenMatrices
    active : int array of shape (k,)
        Kernels with nonzero coefficients, in increasing order.
    coefficients : array of shape (k, N, P)
        Dual coefficients of the active kernels.
    intercepts : array of shape (P,)
    weights : list of arrays
        Weights of the values of each active kernel, see :meth:`ArrayKernels.weights`.
    """

    source: KernelSource
    active: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    weights: list[np.ndarray]

    @classmethod
    def of(cls, source: KernelSource, expansions: Sequence[Expansion]) -> Self:
        """Join the models of several problems, each of one or several outputs."""
        n = source.n_samples
        active = np.unique(np.concatenate([model.active for model in expansions]))
        coefficients_of_problems = []
        intercepts = []
        for model in expansions:
            width = model.coefficients.shape[1]  # n for each output
            coefficients = np.zeros((len(active), width))
            coefficients[np.searchsorted(active, model.active)] = model.coefficients
            coefficients_of_problems.append(coefficients.reshape(len(active), width // n, n))
            intercepts.append(np.broadcast_to(model.intercept, width).reshape(-1, n)[:, 0])
        joined = np.concatenate(coefficients_of_problems, axis=1).transpose(0, 2, 1)
        coefficients = np.ascontiguousarray(joined)
        weights = list(coefficients)
        if isinstance(source, ArrayKernels):
            weights = []
            for m, coefficients_of_kernel in zip(active.tolist(), coefficients):
                weights.append(source.weights(m, coefficients_of_kernel))
        return cls(source, active, coefficients, np.concatenate(intercepts), weights)

    def outputs(self, X: CheckedInputs, n_jobs: int | None) -> np.ndarray:
        """Return outputs (n, P) for checked inputs; only active kernels are evaluated."""
        outputs = np.tile(self.intercepts, (X.shape[0], 1))

        def add(block: KernelBlock) -> None:
            for values, weights in zip(block.values, self.weights):
                outputs[block.rows] += values @ weights

        in_threads(add, self.source.blocks(X, self.active), n_jobs)
        return outputs

    def parts(self, X: CheckedInputs) -> dict[str, np.ndarray]:
        """Return each active kernel's contribution (n, P) to the outputs for checked inputs."""
        contributions = {}
        for m in self.active:
            contributions[self.source.names[m]] = np.empty((X.shape[0], len(self.intercepts)))
        for block in self.source.blocks(X, self.active):
            for contribution, values, weights in zip(
                contributions.values(), block.values, self.weights
            ):
                contribution[block.rows] = values @ weights
        return contributions

    def squared_norm(self, X: np.ndarray, kernel_weights: np.ndarray) -> float:
        r"""Return :math:`\sum_m \|f_m\|^2 / d_m` for other training inputs X (N, d).

        The dual coefficients are those of the model.
        """
        source: Any = copy(self.source)
        source.X = X
        total = 0.0
        for block in source.blocks(X, self.active):
            for m, values, coefficients in zip(self.active, block.values, self.coefficients):
                products = values @ source.weights(m, coefficients)
                square = np.sum(coefficients[block.rows] * products)
                total += float(square / kernel_weights[m])
        return total

    def explain(
        self,
        X: CheckedInputs,
        decoder: ClassDecoder | NumberDecoder,
        *,
        label: Hashable,
        against: Hashable,
        target: int,
        n: int,
        columns: Sequence[str] | None,
    ) -> Explanation:
        """Explain a prediction by the contributions of kernels.

        Parameters
        ----------
        X : array of shape (1, d) or GramMatrices
            The sample.
        decoder : ClassDecoder or NumberDecoder
        label, against, target
            As for :func:`~omkl.estimators.batch.contrast`.
        n : int
            Number of strongest parts to list.
        columns : sequence of str or None
            Names of the columns.
        """
        if X.shape[0] != 1:
            raise InputError(
                f"explain takes one sample, but got {X.shape[0]}: call it for each sample."
            )
        [block] = self.source.blocks(X, self.active)
        values_of_kernels = [as_dense(values)[0] for values in block.values]
        outputs: Any = self.intercepts
        for values, weights in zip(values_of_kernels, self.weights):
            outputs = outputs + values @ weights
        chosen = contrast(decoder, outputs, label, against, target)
        contributions = self._contributions(X, values_of_kernels, chosen.weights)

        def names_of(strongest: Sequence[Piece]) -> list[str]:
            return [self._name_of(piece, X, columns) for piece in strongest]

        return explanation(
            chosen.output,
            chosen.against,
            chosen.summary,
            float(outputs @ chosen.weights),
            contributions,
            n,
            names_of,
        )

    def _contributions(
        self,
        X: CheckedInputs,
        values_of_kernels: Sequence[np.ndarray],
        output_weights: np.ndarray,
    ) -> Contributions:
        """Return the contributions of kernels to a margin, the outputs of X times weights (P,)."""
        groups: dict[str, float] = {}
        pieces: list[Piece] = []
        for m, values, weights in zip(self.active.tolist(), values_of_kernels, self.weights):
            name = self.source.names[m]
            weights_of_margin = weights @ output_weights
            kind = "support"
            contributions = values * weights_of_margin
            if isinstance(self.source, ArrayKernels) and m in self.source.ranks:
                kind = "part"
                kernel = self.source.kernels[m]
                contributions = kernel.parts(kernel.view(X), weights_of_margin)
            groups[name] = float(contributions.sum())
            for i, contribution in enumerate(contributions.tolist()):
                pieces.append(Piece(kind, name, i, None, contribution))
        groups[CONSTANT] = float(self.intercepts @ output_weights)
        return Contributions(groups, pieces)

    def _name_of(self, piece: Piece, X: CheckedInputs, names: Sequence[str] | None) -> str:
        """Return the name of a training sample, or of a part of the features of X (1, d)."""
        if not isinstance(self.source, ArrayKernels):
            return f"{piece.group}[row {piece.key}]"
        kernel = self.source.kernels[self.source.names.index(piece.group)]
        columns = kernel.places(X.shape[1])

        def column(j: int) -> str:
            return name_of_column(names, columns[j])

        if piece.kind == "part":
            return kernel.part_name(piece.key, column, len(columns))
        vector = as_dense(self.source.X[[piece.key]])[0, columns]
        return name_of_support(piece.group, f"row {piece.key}", column, vector)

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Return JSON values for a model file; arrays go to the packer."""
        packed = {
            "source": self.source.pack(packer, self.active),
            "active": packer.pack(self.active, "active"),
            "coefficients": packer.pack(self.coefficients, "coefficients"),
            "intercepts": packer.pack(self.intercepts, "intercepts"),
        }
        # the weights of kernel values are the coefficients
        packed["weights"] = [None] * len(self.active)
        for k, m in enumerate(self.active):
            if m in self.source.ranks:
                packed["weights"][k] = packer.pack(self.weights[k], "weights of features")
        return packed

    @classmethod
    def unpack(cls, packed: dict[str, Any], unpacker: Unpacker) -> Self:
        """Restore a model from :meth:`pack`."""
        if "kernels" in packed["source"]:
            form = ArrayKernels
        else:
            form = GivenMatrices
        coefficients = unpacker.unpack(packed["coefficients"])
        weights = []
        for coefficients_of_kernel, weights_of_features in zip(coefficients, packed["weights"]):
            if weights_of_features is None:
                weights.append(coefficients_of_kernel)
            else:
                weights.append(unpacker.unpack(weights_of_features))
        return cls(
            source=form.unpack(packed["source"], unpacker),
            active=unpacker.unpack(packed["active"]),
            coefficients=coefficients,
            intercepts=unpacker.unpack(packed["intercepts"]),
            weights=weights,
        )
