"""The data of a training round, and the round on several examples at once."""

from collections.abc import Iterable, Sequence
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
        Potentials before the round and the gold output; lists after a round on several examples.
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


def update_together(trainer: Any, examples: Iterable[Example]) -> Step:
    r"""Make one round of an :class:`~omkl.online.OnlineTrainer` on several examples.

    With the trainer's ``batch_size`` b, the gradient step goes along :math:`\frac1b \sum_i w_i g_i`, and the proximal
    steps are weighted with :math:`\frac1b \sum_i w_i`. A smaller last batch of an epoch moves the model less.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : iterable of Example

    Returns
    -------
    Step
        With the sum of the losses, and lists as ``potentials`` and ``gold``.
    """
    examples = [Example(*example) for example in examples]
    if not any(example.weight for example in examples):
        return Step(0.0, trainer.norms, 0.0, 0.0, [], [], len(examples), 0.0)
    weight = sum(example.weight for example in examples)
    if trainer.evidence is not None:
        for example in examples:
            trainer.evidence.look_at(trainer, *example)
    rate = trainer.open_round(weight, 1.0)
    total, potentials, moving = 0.0, [], []
    for x, y, w in examples:  # all losses before the first step
        potentials.append(trainer.potentials(x))
        loss, gradient = trainer.loss_and_gradient(potentials[-1], y)
        total += w * loss
        if gradient is not None and w:
            moving.append((x, potentials[-1], gradient, w))
    square_gradient = 0.0
    if moving:
        square_gradient = _step(trainer, moving, rate)
        if trainer.schedule.adaptive:
            rate = trainer.adapt(rate, total, square_gradient, weight)
    norms, events = trainer.shrink(rate, weight, square_gradient)
    if events:
        for bank in trainer.banks:
            bank.apply_events(None, None)
    trainer.close_round(weight)
    gold = [y for _, y, _ in examples]
    return Step(total, norms, rate, square_gradient, potentials, gold, len(examples), weight)


def _step(trainer: Any, moving: Sequence[tuple], rate: float) -> float:
    """Step along several gradients; return the squared norm of their weighted sum, or 0 if it is not measured."""
    group_state = trainer.group_state
    before = _slope(trainer, moving) if trainer.measures_gradients else 0.0
    group_state.empty[:] = group_state.left_out  # banks then move every group in use and track its norm
    rates = group_state.rates.copy()
    for x, _, gradient, weight in moving:
        np.multiply(rates, weight, out=group_state.rates)
        for bank in trainer.banks:
            bank.step(x, gradient)
    # a step of this rate along g takes rate ||g||^2 from <theta, g>
    return max(before - _slope(trainer, moving, moved=True), 0.0) / rate if trainer.measures_gradients else 0.0


def _slope(trainer: Any, moving: Sequence[tuple], moved: bool = False) -> float:
    """Inner product of a weighted sum of gradients with the start of the proximal step.

    Before a gradient step of forward-backward splitting, this start is the decayed model, whose potentials are known.
    """
    group_state = trainer.group_state
    known = trainer.method.forgets and not moved
    scales, total = group_state.scales.copy(), 0.0
    group_state.scales[:] = group_state.bases
    for x, potentials, gradient, weight in moving:
        potentials = potentials if known else trainer.potentials(x)
        total += weight * sum(float(np.vdot(own, slope)) for own, slope in zip(potentials, gradient))
    group_state.scales[:] = scales
    return trainer.decay * total if known else total
