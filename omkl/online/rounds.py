"""Input and output of a round of training: an example, and the record of the step it made."""

from typing import NamedTuple

import numpy as np


class Step(NamedTuple):
    """What one round did: the (weighted) loss before it, the regularized groups' norms after it, its rate, the
    squared norm of its gradient, the potentials before it, and the gold output."""

    loss: float
    norms: np.ndarray
    rate: float
    square_gradient: float
    potentials: object = None
    gold: object = None

    #: How many examples it has learned, the sum of their weights, and whether shards have learned them elsewhere.
    n_examples: int = 1
    weight: float = 1.0
    in_shards: bool = False


class Example(NamedTuple):
    """An input as the banks take it, its gold output as the structure takes it, and the weight of its loss."""

    x: object
    y: object
    weight: float = 1.0
