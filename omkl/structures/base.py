"""What a structure is: it knows what an output looks like, and sees nothing but potentials."""

from typing import Any, Protocol, TypeAlias

#: One array or a named tuple of arrays, with a score for every part of an output; each structure says which.
Potentials: TypeAlias = Any
#: What a structure decodes to: an array of labels, of heads, one label.
Output: TypeAlias = Any


class Structure(Protocol):
    """The outputs of a structured predictor: how to decode, compare and sum over them.

    A structure of your own needs ``zeros``, ``loss_augmented``, ``difference`` and ``cost`` for the hinge,
    ``decode`` to predict, and ``marginals`` with ``subtract_indicator`` for the CRF loss. The trainer, the groups
    and the losses then work with it as they are.
    """

    def zeros(self, size: int) -> Potentials:
        """Potentials of an input of this size, all zero."""

    def decode(self, potentials: Potentials) -> Output:
        """The output of the highest score. Ties break towards lower labels."""

    def loss_augmented(self, potentials: Potentials, gold: Output, cost_weight: float = 1.0) -> Output:
        """The output of the highest score plus ``cost_weight`` times its cost."""

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

    def largest_cost(self, size: int) -> float:
        """The largest cost of any output of an input of this size."""

    def log_count(self, size: int) -> float:
        """Logarithm of the number of outputs of an input of this size."""

    def cost(self, gold: Output, predicted: Output) -> float:
        """Cost of predicting ``predicted`` where ``gold`` is right; 0 when they agree."""
