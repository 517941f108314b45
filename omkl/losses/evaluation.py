"""The loss of an example and its gradient, by compiled functions where there are any."""

from typing import Any

import numpy as np

from omkl import signatures
from omkl._components import function_and_parameters
from omkl.losses.base import PointwiseLoss, ValueAndGradient
from omkl.losses.structured import StructuredLoss
from omkl.structures.base import (
    Output,
    PackedStructures,
    Potentials,
    Structure,
    layout_of,
    pairs_of,
)
from omkl.structures.multiclass import Scalar


class LossFunction:
    """The loss of a structure as a function of potentials and the gold output.

    It calls the compiled function that the driver of training calls, and so returns the same bits.

    Parameters
    ----------
    loss : StructuredLoss or PointwiseLoss
    structure : Structure

    Attributes
    ----------
    takes_numbers : bool
        Whether outputs are numbers. The compiled function then has the signature
        ``LOSS_OF_NUMBER``, and else ``LOSS_OF_LABELS``.
    is_compiled : bool
        Whether there are compiled functions. They take gold outputs that are codes or numbers, not
        masks, and potentials for which :meth:`Structure.is_compiled_for` is true.
    function : compiled function or None
    parameters : array
        Argument of the compiled function.
    """

    def __init__(self, loss: StructuredLoss | PointwiseLoss, structure: Structure) -> None:
        self.loss = loss
        self.structure = structure
        self.takes_numbers = isinstance(loss, PointwiseLoss) and isinstance(structure, Scalar)
        has_structure = self.takes_numbers or structure.compiled is not None
        is_structured = self.takes_numbers or isinstance(loss, StructuredLoss)
        self.is_compiled = loss.compiled is not None and has_structure and is_structured
        self.function: Any = None
        self.parameters = np.empty(0)
        if self.is_compiled:
            self.function, self.parameters = function_and_parameters(loss)
        self._address: int | None = None
        self._packed_structures: PackedStructures | None = None

    def __reduce__(self) -> tuple:
        # addresses hold in this process, and for these arrays
        return LossFunction, (self.loss, self.structure)

    @property
    def address(self) -> int:
        """Address of the compiled function, which is compiled at the first call."""
        if self._address is None:
            signature = signatures.LOSS_OF_LABELS
            if self.takes_numbers:
                signature = signatures.LOSS_OF_NUMBER
            self._address = signature.address_of(self.function)
        return self._address

    @property
    def uses_marginals(self) -> bool:
        """True if the compiled function may call the marginals of the structure."""
        return getattr(self.loss, "uses_marginals", False)

    def __call__(self, potentials: Potentials, gold: Output) -> ValueAndGradient:
        """Return the loss, and its gradient in the potentials, None if that is zero.

        Parameters
        ----------
        potentials : Potentials
        gold : Output
        """
        if self.is_compiled and self.takes_numbers:
            return self._of_number(potentials, gold)
        if self.is_compiled and np.ndim(gold) < 2 and self.structure.is_compiled_for(potentials):
            return self._of_labels(potentials, gold)
        return self.loss.value_and_gradient(self.structure, potentials, gold)

    def _of_number(self, potentials: Potentials, gold: float) -> ValueAndGradient:
        """Return value and gradient of a loss of numbers; ``potentials.unary`` is (1, 1)."""
        prediction = potentials.unary.item(0)
        value, slope = self.function(float(gold), prediction, self.parameters)
        if slope == 0.0:
            return value, None
        return value, potentials._replace(unary=np.array([[slope]]))

    def _of_labels(self, potentials: Potentials, gold: Output) -> ValueAndGradient:
        """Return value and gradient of a loss of labels; ``potentials.unary`` is (n, K)."""
        if self._packed_structures is None:
            self._packed_structures = PackedStructures(self.structure, self.uses_marginals)
        labels = np.array(gold, dtype=np.int64, ndmin=1)
        pairwise = pairs_of(potentials)
        gradient = np.empty_like(potentials.unary)
        pair_gradient = np.empty_like(pairwise)
        value = self.function(
            self._packed_structures.address_for(layout_of(potentials)),
            potentials.unary,
            pairwise,
            labels,
            self.parameters,
            gradient,
            pair_gradient,
        )
        if not gradient.any() and not pair_gradient.any():
            return value, None
        if not len(pairwise):
            return value, potentials._replace(unary=gradient)
        return value, potentials._replace(unary=gradient, pairwise=pair_gradient)
