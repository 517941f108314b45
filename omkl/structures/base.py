"""Structures: outputs of structured prediction, and how to decode, compare and sum over them."""

from typing import Any, Protocol, TypeAlias

import numpy as np

from omkl._components import Component

#: A named tuple of arrays with a score for every part of an output, such as ``ChainPotentials``.
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
        """Potentials of an input of this size, all zero.

        Parameters
        ----------
        size : int
            Size of the input, such as its number of positions.
        """

    def decode(self, potentials: Potentials) -> Output:
        """The output of the highest score. Ties break towards lower labels.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        """

    def loss_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Output:
        """The output of the highest score plus ``cost_weight`` times its cost.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        gold : Output
            The right output.
        cost_weight : float >= 0
            Factor of the cost.
        """

    def cost_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Potentials:
        """Potentials by which outputs score ``cost_weight`` times their cost more, up to a constant.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        gold : Output
            The right output.
        cost_weight : float >= 0
            Factor of the cost.
        """

    def difference(self, potentials: Potentials, predicted: Output, gold: Output) -> tuple[float, Potentials]:
        """Score of ``predicted`` minus that of ``gold``, and ``indicator(predicted) - indicator(gold)``.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        predicted : Output
            The output to compare with ``gold``.
        gold : Output
            The right output.
        """

    def marginals(self, potentials: Potentials) -> tuple[float, Potentials]:
        """Log-partition function and the expected indicator under the Gibbs distribution of the potentials.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        """

    def subtract_indicator(self, potentials: Potentials, output: Output) -> None:
        """Subtract the indicator of ``output`` in place.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        output : Output
        """

    def indicator(self, output: Output) -> Potentials:
        """Return the count of each part in the output, shaped like its potentials.

        Parameters
        ----------
        output : Output
        """

    def score(self, potentials: Potentials, output: Output) -> float:
        """Sum of the potentials of the parts of ``output``.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        output : Output
        """

    def cost(self, gold: Output, predicted: Output) -> float:
        """Cost of predicting ``predicted`` where ``gold`` is right; 0 when they agree.

        Parameters
        ----------
        gold : Output
            The right output.
        predicted : Output
            The output to compare with ``gold``.
        """


class PartStructure(Component):
    """Base of structures whose score and cost are sums over the parts of an output.

    A subclass has ``zeros(size)``, ``decode(potentials)``, ``indicator(output)`` and ``cost_potentials(gold)``; all
    that the hinge and the perceptron need follows. For the CRF loss it has ``marginals(potentials)`` as well. See
    :class:`Structure` for what they return.
    """

    def zeros(self, size: int) -> Potentials:
        """Potentials of an input of this size, all zero: a named tuple of arrays.

        Parameters
        ----------
        size : int
            Size of the input, such as its number of positions.
        """
        raise self.undefined("zeros")

    def decode(self, potentials: Potentials) -> Output:
        """The output of the highest score.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        """
        raise self.undefined("decode")

    def indicator(self, output: Output) -> Potentials:
        """Return the count of each part in the output, shaped like its potentials.

        Parameters
        ----------
        output : Output
        """
        raise self.undefined("indicator")

    def cost_potentials(self, gold: Output) -> Potentials:
        """Return the cost of each part where ``gold`` is right, shaped like its potentials; 0 for its own parts.

        Parameters
        ----------
        gold : Output
            The right output.
        """
        raise self.undefined("cost_potentials")

    def loss_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Output:
        """The output of the highest score plus ``cost_weight`` times its cost.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        gold : Output
            The right output.
        cost_weight : float >= 0
            Factor of the cost.
        """
        return self.decode(self.cost_augmented(potentials, gold, cost_weight))

    def cost_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Potentials:
        """Potentials by which outputs score ``cost_weight`` times their cost more.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        gold : Output
            The right output.
        cost_weight : float >= 0
            Factor of the cost.
        """
        return _combined(potentials, self.cost_potentials(gold), cost_weight)

    def difference(self, potentials: Potentials, predicted: Output, gold: Output) -> tuple[float, Potentials]:
        """Score of ``predicted`` minus that of ``gold``, and ``indicator(predicted) - indicator(gold)``.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        predicted : Output
            The output to compare with ``gold``.
        gold : Output
            The right output.
        """
        gradient = _combined(self.indicator(predicted), self.indicator(gold), -1.0)
        return _product(potentials, gradient), gradient

    def score(self, potentials: Potentials, output: Output) -> float:
        """Sum of the potentials of the parts of ``output``.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        output : Output
        """
        return _product(potentials, self.indicator(output))

    def cost(self, gold: Output, predicted: Output) -> float:
        """Cost of predicting ``predicted`` where ``gold`` is right.

        Parameters
        ----------
        gold : Output
            The right output.
        predicted : Output
            The output to compare with ``gold``.
        """
        return _product(self.cost_potentials(gold), self.indicator(predicted))

    def subtract_indicator(self, potentials: Potentials, output: Output) -> None:
        """Subtract the indicator of ``output`` in place.

        Parameters
        ----------
        potentials : Potentials
            Scores of the parts of an output.
        output : Output
        """
        for array, own in zip(potentials, self.indicator(output)):
            array -= own


def _combined(first: Any, second: Any, weight: float) -> Any:
    return type(first)(*(a + weight * b for a, b in zip(first, second)))


def _product(first: Any, second: Any) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(first, second)))
