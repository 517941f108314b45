"""The data of a training round."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Example(NamedTuple):
    """An encoded input, its gold output, and the weight of its loss.

    Attributes
    ----------
    x : Span, ArcSentence or the like
        As the banks take it.
    y : array or int
        As the structure takes it.
    weight : float
    """

    x: Any
    y: Any
    weight: float = 1.0


class Step(NamedTuple):
    """The result of a training round.

    Attributes
    ----------
    loss : float
        Weighted loss before the round.
    norms : array of shape (p,)
        Norms of the regularized groups after it.
    rate : float
        Learning rate.
    square_gradient : float
        Squared norm of the gradient.
    potentials, gold : object
        Potentials before the round and the gold output.
    n_examples : int
    weight : float
        Sum of the weights of the examples.
    in_shards : bool
        Whether shards have learned the examples.
    """

    loss: float
    norms: np.ndarray
    rate: float
    square_gradient: float
    potentials: Any = None
    gold: Any = None
    n_examples: int = 1
    weight: float = 1.0
    in_shards: bool = False


class LearnedBlock(NamedTuple):
    """Argument of ``on_block``.

    Attributes
    ----------
    examples : sequence of Example
    n_examples : int
        Learned examples of the block.
    loss, weight : float
        Sums of their losses and weights.
    in_shards : bool
        Whether shards have learned them, so that ``on_round`` was not called.
    """

    examples: Sequence[Example]
    n_examples: int
    loss: float
    weight: float
    in_shards: bool


def below(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Select the arrays whose names start with a prefix, which is cut off.

    Parameters
    ----------
    arrays : dict of str to array
    prefix : str

    Returns
    -------
    dict of str to array
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
