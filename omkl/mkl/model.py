"""Learned combinations of kernels: their outputs, explanations and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

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
from omkl.kernels.inputs import Vectors
from omkl.mkl.kernel_sources import ArrayKernels, GivenMatrices, KernelSource
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
        """Join the models of several problems; models of several outputs concatenate the outputs."""
        n = source.n_samples
        active = np.unique(np.concatenate([model.active for model in expansions]))
        parts, intercepts = [], []
        for model in expansions:
            width = model.coefficients.shape[1]
            part = np.zeros((len(active), width))
            part[np.searchsorted(active, model.active)] = model.coefficients
            parts.append(part.reshape(len(active), width // n, n))
            intercepts.append(np.broadcast_to(model.intercept, width).reshape(-1, n)[:, 0])
        coefficients = np.ascontiguousarray(np.concatenate(parts, axis=1).transpose(0, 2, 1))
        weights = list(coefficients)
        if isinstance(source, ArrayKernels):
            weights = [source.weights(m, own) for m, own in zip(active.tolist(), coefficients)]
        return cls(source, active, coefficients, np.concatenate(intercepts), weights)

    def outputs(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Return outputs (n, P) for checked inputs; only active kernels are evaluated."""
        outputs = np.tile(self.intercepts, (X.shape[0], 1))

        def add(own: tuple[slice, Iterable[Vectors]]) -> None:
            block, parts = own
            for part, weights in zip(parts, self.weights):
                outputs[block] += part @ weights

        in_threads(add, self.source.blocks(X, self.active), n_jobs)
        return outputs

    def parts(self, X: Any) -> dict[str, np.ndarray]:
        """Return the contribution (n, P) of each active kernel to the outputs for checked inputs."""
        found = {
            self.source.names[m]: np.empty((X.shape[0], len(self.intercepts))) for m in self.active
        }
        for block, parts in self.source.blocks(X, self.active):
            for own, part, weights in zip(found.values(), parts, self.weights):
                own[block] = part @ weights
        return found

    def squared_norm(self, X: np.ndarray, kernel_weights: np.ndarray) -> float:
        r"""Return :math:`\sum_m \|f_m\|^2 / d_m` for other training inputs X, with the same dual
        coefficients.
        """
        source: Any = copy(self.source)
        source.X, total = X, 0.0
        for block, parts in source.blocks(X, self.active):
            for m, part, own in zip(self.active, parts, self.coefficients):
                total += float(
                    np.sum(own[block] * (part @ source.weights(m, own))) / kernel_weights[m]
                )
        return total

    def explain(
        self,
        decoder: ClassDecoder | NumberDecoder,
        X: Any,
        choice: tuple[object, object, int],
        n: int,
        columns: Sequence[str] | None,
    ) -> Explanation:
        """Explain a prediction by the contributions of kernels.

        Parameters
        ----------
        decoder : ClassDecoder or NumberDecoder
        X : array of shape (1, d) or GramMatrices
            The sample.
        choice : (label, against, target)
            As for :func:`~omkl.estimators.batch.contrast`.
        n : int
            Number of strongest parts to list.
        columns : sequence of str or None
            Names of the columns.
        """
        source = self.source
        if X.shape[0] != 1:
            raise InputError(
                f"explain takes one sample, but got {X.shape[0]}: call it for each sample."
            )
        [(_, parts)] = source.blocks(X, self.active)
        rows = [(part.toarray() if sparse.issparse(part) else part)[0] for part in parts]
        total = sum((row @ weights for row, weights in zip(rows, self.weights)), self.intercepts)
        chosen = contrast(decoder, total, *choice)
        groups, pieces = dict[str, float](), list[Piece]()
        for m, row, weights in zip(self.active.tolist(), rows, self.weights):
            name, kind, own = source.names[m], "support", weights @ chosen.weights
            if isinstance(source, ArrayKernels) and m in source.ranks:
                kind, kernel = "part", source.kernels[m]
                added = kernel.parts(kernel.view(X), own)
            else:
                added = row * own
            groups[name] = float(added.sum())
            pieces += [Piece(kind, name, i, None, value) for i, value in enumerate(added.tolist())]
        groups[CONSTANT] = float(self.intercepts @ chosen.weights)

        def names_of(strongest: Sequence[Piece]) -> list[str]:
            return [self._name_of(own, X, columns) for own in strongest]

        return explanation(
            *chosen[1:], float(total @ chosen.weights), Contributions(groups, pieces), n, names_of
        )

    def _name_of(self, piece: Piece, X: Any, names: Sequence[str] | None) -> str:
        """Return the name of a training sample, or of a part of a kernel's explicit features; X is
        the input.
        """
        if not isinstance(self.source, ArrayKernels):
            return f"{piece.group}[row {piece.key}]"
        kernel = self.source.kernels[self.source.names.index(piece.group)]
        chosen = kernel.places(X.shape[1])

        def column(j: int) -> str:
            return name_of_column(names, chosen[j])

        if piece.kind == "part":
            return kernel.part_name(piece.key, column, len(chosen))
        row = self.source.X[[piece.key]]
        vector = (row.toarray() if sparse.issparse(row) else row)[0, chosen]
        return name_of_support(piece.group, f"row {piece.key}", column, vector)

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Return JSON values for a model file; arrays go to the packer."""
        return {
            "source": self.source.pack(packer, self.active),
            "active": packer.pack(self.active, "active"),
            "coefficients": packer.pack(self.coefficients, "coefficients"),
            "intercepts": packer.pack(self.intercepts, "intercepts"),
            "weights": [
                packer.pack(weights, "weights of features") if m in self.source.ranks else None
                for m, weights in zip(self.active, self.weights)
            ],
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any], unpacker: Unpacker) -> Self:
        """Restore a model from :meth:`pack`."""
        form = ArrayKernels if "kernels" in packed["source"] else GivenMatrices
        source, names = (
            form.unpack(packed["source"], unpacker),
            ("active", "coefficients", "intercepts"),
        )
        active, coefficients, intercepts = (unpacker.unpack(packed[name]) for name in names)
        given = zip(coefficients, packed["weights"])
        weights = [own if weights is None else unpacker.unpack(weights) for own, weights in given]
        return cls(source, active, coefficients, intercepts, weights)
