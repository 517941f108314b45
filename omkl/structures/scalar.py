"""One real number for one input: the structure that makes the trainer serve regression."""

import numpy as np

from omkl.structures.multiclass import UnaryPotentials


class Scalar:
    """A real number, which is the potential itself. Potentials: :class:`UnaryPotentials`, (1, 1).

    There is nothing to search for and nothing to sum over: it serves losses that look at the number alone, the
    :class:`~omkl.losses.PointwiseLoss` of regression.

    Examples
    --------
    >>> Scalar().decode(UnaryPotentials(np.array([[0.25]])))
    0.25
    """

    def zeros(self, size: int = 1) -> UnaryPotentials:
        """Potentials of ``size`` inputs, all zero."""
        return UnaryPotentials(np.zeros((size, 1)))

    def decode(self, potentials: UnaryPotentials) -> float:
        """The number itself."""
        return float(potentials.unary[0, 0])

    def decode_many(self, potentials: UnaryPotentials, offsets: np.ndarray) -> np.ndarray:
        """The numbers of several inputs at once."""
        return potentials.unary[:, 0]

    def prediction(self, potentials: UnaryPotentials) -> np.ndarray:
        """The number as losses take it, an array of shape (1,)."""
        return potentials.unary[:, 0]

    def as_potentials(self, slope: np.ndarray) -> UnaryPotentials:
        """The gradient in potentials of a loss with this derivative, an array of shape (1,)."""
        return UnaryPotentials(slope[:, None])

    def cost(self, gold: float, predicted: float) -> float:
        """Squared error."""
        return float((gold - predicted) ** 2)
