"""What of a trainer's state predicts: the averaged model, without what training goes on from."""

from typing import Any

import numpy as np

from omkl.groups import Condensable, check_ability


def condensed_state(trainer: Any) -> dict[str, np.ndarray]:
    """The state, for :meth:`~omkl.online.OnlineTrainer.load_state`, of a trainer that only predicts, with the averaged
    model of this one as its own; it keeps no average.

    Raises
    ------
    omkl.exceptions.InputError
        If a bank cannot leave out what only training needs.
    """
    if hasattr(trainer, "experts"):
        states = enumerate(map(condensed_state, trainer.experts))
        experts = {f"expert{index}/{name}": array for index, state in states for name, array in state.items()}
        return experts | trainer.own_state()
    purpose, remedy = "A file that only predicts has averaged weights alone", "save it with training=True"
    check_ability(trainer.banks, Condensable, purpose, remedy)
    norms, before = trainer.predictor().norms, trainer.group_state.state()
    groups = {
        "scales": np.where(before["left_out"], 0.0, 1.0),
        "square_norms": norms**2,
        "averages": np.zeros_like(norms),
        "empty": norms == 0.0,
    }
    arrays = {f"groups/{name}": array for name, array in {**before, **groups}.items()}
    for index, bank in enumerate(trainer.banks):
        arrays.update({f"bank{index}/{name}": array for name, array in bank.condensed().items()})
    # the weights of groups may be the method's own
    return arrays | {f"method/{name}": array for name, array in trainer.method.state().items()}
