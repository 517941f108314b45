"""Which groups a trainer goes on with, when an epoch begins and when training ends."""

from typing import Any

#: Weight of the groups that are left out after the first epoch, up to which the others go on from where they are.
NEGLIGIBLE = 0.1


def meet(trainer: Any, new: bool, once: bool, concludes: bool) -> None:
    """Before an epoch of an :class:`~omkl.online.OnlineTrainer`, whose examples are ``new`` or not.

    Where they come ``once``, MKL's weights are learned by Hedge. Where they come back, the groups that have not helped
    while they were new are left out; the others begin anew if those had more than a tenth of the weight. Where training
    never ``concludes``, nothing is left out, and nothing need be tested.
    """
    if not concludes and trainer.evidence is not None:
        trainer.evidence.open = False
    if new and once and trainer.round == 0 and _can_hedge(trainer):
        trainer.hedge()
    if not new and _leave_out_useless(trainer) > NEGLIGIBLE:
        _restart(trainer)
    trainer.method.meet(new, trainer.group_state)


def conclude(trainer: Any) -> None:
    """End training: what has not helped is no part of the model, also where no example has come back."""
    if trainer.evidence is None:
        return
    _leave_out_useless(trainer)
    trainer.method.meet(trainer.method.learning, trainer.group_state)


def left_out_groups(trainer: Any) -> list[str]:
    """Names of the groups that are left out, in the order in which the user gave the groups."""
    if not trainer.has_groups:
        return []
    left_out = {name for name, left in zip(trainer.group_names, trainer.group_state.left_out) if left}
    return [name for name in trainer.order if name in left_out]


def _can_hedge(trainer):
    regularizer = trainer.regularizer
    is_mkl = getattr(regularizer, "weight_set", None) == "simplex" and regularizer.is_sparse
    return trainer.evidence is not None and is_mkl and trainer.method.forgets and trainer.batch_size == 1


def _leave_out_useless(trainer):
    """Leave out the groups that have not helped on new examples, if that is asked for; returns their weight."""
    evidence = trainer.evidence
    if evidence is None or not evidence.open:
        return 0.0
    weight_of = trainer.kernel_weights(trainer.norms)
    evidence.open = False
    left_out = trainer.group_state.left_out[: trainer.n_penalized]
    left_out |= ~evidence.useful()
    trainer.go_on(trainer.round, trainer.presented, trainer.coordinate_step)
    return sum(weight_of[name] for name, left in zip(trainer.group_names, left_out) if left)


def _restart(trainer):
    """Learn anew: all parameters are zero again, and rates and averages begin afresh; what is left out stays so."""
    trainer.group_state.restart()
    trainer.method.prepare(trainer.group_state)
    for bank in trainer.banks:
        bank.restart()
    trainer.schedule.restart()
    trainer.began = trainer.round
    trainer.go_on(trainer.round, 0.0)
