"""Structures of classification and regression: one label or one number per input."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl.structures import _jit_labels as jit
from omkl.structures.base import NO_PAIRS, Labelling, Structure


class UnaryPotentials(NamedTuple):
    """Scores of labels: ``unary`` (1, K), or (1, 1) for :class:`Binary`, the potential z."""

    unary: np.ndarray


AnyPotentials: TypeAlias = UnaryPotentials | ArrayLike


class Multiclass(Labelling):
    """One of K labels. Potentials: an array of K scores, or :class:`UnaryPotentials`.

    Parameters
    ----------
    n_labels : int
        Number of labels K >= 1; an output is an integer in ``0 .. K-1``.
    costs : array of shape (K, K), optional
        ``costs[gold, predicted]`` with a zero diagonal; 1 for every wrong label by default.

    Examples
    --------
    >>> Multiclass(3).decode([0.1, 0.7, 0.2])
    1
    """

    compiled = jit.INDEPENDENT
    takes_partial = False

    def __init__(self, n_labels: int, costs: ArrayLike | None = None) -> None:
        super().__init__(n_labels, costs)

    def zeros(self, size: int = 1) -> UnaryPotentials:
        return UnaryPotentials(np.zeros((size, self.n_labels)))

    def part(self, potentials: UnaryPotentials, low: int, high: int) -> UnaryPotentials:
        return UnaryPotentials(potentials.unary[low:high])

    def decode(self, potentials: AnyPotentials) -> int:
        return jit.best_label(_scores(potentials), self.costs, 0, 0.0)

    def decode_many(self, potentials: UnaryPotentials, offsets: np.ndarray) -> np.ndarray:
        return potentials.unary.argmax(axis=1)

    def marginals(self, potentials: AnyPotentials) -> tuple[float, UnaryPotentials]:
        expected = self.zeros()
        scores = _scores(potentials)[None]
        arrays = (scores, NO_PAIRS, expected.unary, NO_PAIRS)
        return jit.marginals_of_labels(jit.NO_ARRAYS, *arrays), expected

    def _checked(self, potentials: AnyPotentials) -> UnaryPotentials:
        return UnaryPotentials(_scores(potentials)[None])


class Binary(Structure):
    """Two labels, 0 and 1, and one scalar potential z: an output y in {-1, +1} scores ``y z / 2``.

    The structured hinge (Martins et al. 2011, Eq. 4) becomes the hinge ``max(0, 1 - y z)``, and the
    CRF loss (Eq. 3) becomes ``log(1 + exp(-y z))``.

    >>> Binary().decode([-0.3])
    0
    """

    n_labels = 2
    compiled = jit.TWO_LABELS

    def zeros(self, size: int = 1) -> UnaryPotentials:
        return UnaryPotentials(np.zeros((size, 1)))

    def decode(self, potentials: AnyPotentials) -> int:
        return int(_number(potentials) > 0.0)

    def decode_many(self, potentials: UnaryPotentials, offsets: np.ndarray) -> np.ndarray:
        return (potentials.unary[:, 0] > 0.0).astype(np.int64)

    def loss_augmented(self, potentials: AnyPotentials, gold: int, cost_weight: float = 1.0) -> int:
        z = _number(potentials)
        # the other label wins if its score plus the cost exceeds the gold score, that is y z < cost
        margin = z if gold else -z
        if margin >= cost_weight:
            return int(gold)
        return 1 - int(gold)

    def cost_augmented(
        self, potentials: AnyPotentials, gold: int, cost_weight: float = 1.0
    ) -> UnaryPotentials:
        cost_of_one = -cost_weight if gold else cost_weight
        return UnaryPotentials(np.array([[_number(potentials) + cost_of_one]]))

    def difference(
        self, potentials: AnyPotentials, predicted: int, gold: int
    ) -> tuple[float, UnaryPotentials]:
        sign = float(predicted) - float(gold)
        return sign * _number(potentials), UnaryPotentials(np.array([[sign]]))

    def marginals(self, potentials: AnyPotentials) -> tuple[float, UnaryPotentials]:
        z = _number(potentials)
        log_partition = float(np.logaddexp(0.5 * z, -0.5 * z))
        expected = 0.5 * np.tanh(0.5 * z)
        return log_partition, UnaryPotentials(np.array([[expected]]))

    def indicator(self, output: int) -> UnaryPotentials:
        return UnaryPotentials(np.array([[output - 0.5]]))

    def score(self, potentials: AnyPotentials, output: int) -> float:
        return float((output - 0.5) * _number(potentials))

    def cost(self, gold: int, predicted: int) -> float:
        return float(gold != predicted)


class Scalar(Structure):
    """A real number, equal to its potential. Potentials: :class:`UnaryPotentials`, (1, 1).

    It is meant for regression losses, :class:`~omkl.losses.PointwiseLoss`, which need only the
    number.

    Examples
    --------
    >>> Scalar().decode(UnaryPotentials(np.array([[0.25]])))
    0.25
    """

    def zeros(self, size: int = 1) -> UnaryPotentials:
        return UnaryPotentials(np.zeros((size, 1)))

    def decode(self, potentials: UnaryPotentials) -> float:
        return float(potentials.unary[0, 0])

    def decode_many(self, potentials: UnaryPotentials, offsets: np.ndarray) -> np.ndarray:
        return potentials.unary[:, 0]

    def cost(self, gold: float, predicted: float) -> float:
        difference = gold - predicted
        return float(difference * difference)


def _scores(potentials: AnyPotentials) -> np.ndarray:
    """Return the vector of scores in :class:`UnaryPotentials` or in a plain array."""
    if type(potentials) is UnaryPotentials:
        return potentials.unary[0]
    if type(potentials) is np.ndarray:
        return potentials
    return np.asarray(potentials, dtype=np.float64)


def _number(potentials: AnyPotentials) -> float:
    """Return the score of a binary structure as a float, much faster than an entry of an array."""
    if type(potentials) is UnaryPotentials:
        return potentials.unary.item(0)
    return float(_scores(potentials)[0])
