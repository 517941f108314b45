"""What a structure is: it sees nothing but potentials, and knows what an output looks like; a base for one's own."""

from typing import Any, Protocol, TypeAlias

import numpy as np

from omkl._components import Component

#: One array or a named tuple of arrays, with a score for every part of an output; each structure says which.
Potentials: TypeAlias = Any
#: What a structure decodes to: an array of labels, of heads, one label.
Output: TypeAlias = Any


class Structure(Protocol):
    """The outputs of a structured predictor: how to decode, compare and sum over them.

    A structure of your own needs ``zeros``, ``loss_augmented``, ``difference`` and ``cost`` for the hinge,
    ``decode`` to predict, and ``marginals`` with ``subtract_indicator`` for the CRF loss, ``cost_augmented`` for the
    softmax margin. The trainer, the groups and the losses then work with it as they are.
    """

    def zeros(self, size: int) -> Potentials:
        """Potentials of an input of this size, all zero."""

    def decode(self, potentials: Potentials) -> Output:
        """The output of the highest score. Ties break towards lower labels."""

    def loss_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Output:
        """The output of the highest score plus ``cost_weight`` times its cost."""

    def cost_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Potentials:
        """Potentials by which outputs score ``cost_weight`` times their cost more, up to a constant."""

    def difference(self, potentials: Potentials, predicted: Output, gold: Output) -> tuple[float, Potentials]:
        """Score of ``predicted`` minus that of ``gold``, and ``indicator(predicted) - indicator(gold)``."""

    def marginals(self, potentials: Potentials) -> tuple[float, Potentials]:
        """Log-partition function and the expected indicator under the Gibbs distribution of the potentials."""

    def subtract_indicator(self, potentials: Potentials, output: Output) -> None:
        """Subtract the indicator of ``output`` in place."""

    def indicator(self, output: Output) -> Potentials:
        """How often each part occurs in the output, shaped like its potentials."""

    def score(self, potentials: Potentials, output: Output) -> float:
        """Sum of the potentials of the parts of ``output``."""

    def cost(self, gold: Output, predicted: Output) -> float:
        """Cost of predicting ``predicted`` where ``gold`` is right; 0 when they agree."""


class PartStructure(Component):
    """Base of structures whose score and cost are sums over the parts of an output.

    A subclass has ``zeros(size)``, ``decode(potentials)``, ``indicator(output)`` and ``cost_potentials(gold)``; all
    that the hinge and the perceptron need follows. For the CRF loss it has ``marginals(potentials)`` as well. See
    :class:`Structure` for what they return.
    """

    def zeros(self, size: int) -> Potentials:
        """Potentials of an input of this size, all zero: a named tuple of arrays."""
        raise self.undefined("zeros")

    def decode(self, potentials: Potentials) -> Output:
        """The output of the highest score."""
        raise self.undefined("decode")

    def indicator(self, output: Output) -> Potentials:
        """How often each part occurs in the output, shaped like its potentials."""
        raise self.undefined("indicator")

    def cost_potentials(self, gold: Output) -> Potentials:
        """What each part costs where ``gold`` is right, shaped like its potentials; the parts of ``gold`` nothing."""
        raise self.undefined("cost_potentials")

    def loss_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Output:
        """The output of the highest score plus ``cost_weight`` times its cost."""
        return self.decode(self.cost_augmented(potentials, gold, cost_weight))

    def cost_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Potentials:
        """Potentials by which outputs score ``cost_weight`` times their cost more."""
        return _combined(potentials, self.cost_potentials(gold), cost_weight)

    def difference(self, potentials: Potentials, predicted: Output, gold: Output) -> tuple[float, Potentials]:
        """Score of ``predicted`` minus that of ``gold``, and ``indicator(predicted) - indicator(gold)``."""
        gradient = _combined(self.indicator(predicted), self.indicator(gold), -1.0)
        return _product(potentials, gradient), gradient

    def score(self, potentials: Potentials, output: Output) -> float:
        """Sum of the potentials of the parts of ``output``."""
        return _product(potentials, self.indicator(output))

    def cost(self, gold: Output, predicted: Output) -> float:
        """Cost of predicting ``predicted`` where ``gold`` is right."""
        return _product(self.cost_potentials(gold), self.indicator(predicted))

    def subtract_indicator(self, potentials: Potentials, output: Output) -> None:
        """Subtract the indicator of ``output`` in place."""
        for array, own in zip(potentials, self.indicator(output)):
            array -= own


def _combined(first: Any, second: Any, weight: float) -> Any:
    return type(first)(*(a + weight * b for a, b in zip(first, second)))


def _product(first: Any, second: Any) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(first, second)))
