"""A round of Algorithm 1 on several examples: one step along all their gradients, taken at the same parameters."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omkl.online.rounds import Example, Step


def update_together(trainer: Any, examples: Iterable[Example]) -> Step:
    r"""One round of an :class:`~omkl.online.OnlineTrainer` on several examples.

    With the trainer's ``batch_size`` b the gradient step goes along :math:`\frac1b \sum_i w_i g_i`, and the
    proximal steps take the share :math:`\frac1b \sum_i w_i`, so that fewer examples, the last ones of an epoch,
    move the model by as much less. What is returned has lists as ``potentials`` and ``gold``, and a sum of losses.
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
    """Step along several gradients; returns the squared norm of their weighted sum if it is asked for."""
    group_state = trainer.group_state
    before = _slope(trainer, moving) if trainer.measures_gradients else 0.0
    group_state.empty[:] = group_state.left_out  # so banks add to every other v what comes, and keep its norm
    rates = group_state.rates.copy()
    for x, _, gradient, weight in moving:
        np.multiply(rates, weight, out=group_state.rates)
        for bank in trainer.banks:
            bank.step(x, gradient)
    # a step of this rate along g takes rate ||g||^2 from <theta, g>
    return max(before - _slope(trainer, moving, moved=True), 0.0) / rate if trainer.measures_gradients else 0.0


def _slope(trainer: Any, moving: Sequence[tuple], moved: bool = False) -> float:
    """Inner product of a weighted sum of gradients with the point that the proximal step starts from.

    Before the step of forward-backward splitting that point is the model, shrunk, and its potentials are known.
    """
    group_state = trainer.group_state
    known = trainer.method.forgets and not moved
    scales, total = group_state.scales.copy(), 0.0
    group_state.scales[:] = group_state.bases
    for x, potentials, gradient, weight in moving:
        potentials = potentials if known else trainer.potentials(x)
        pairs = zip(*(array if isinstance(array, tuple) else (array,) for array in (potentials, gradient)))
        total += weight * sum(float(np.vdot(own, slope)) for own, slope in pairs)
    group_state.scales[:] = scales
    return trainer.decay * total if known else total
