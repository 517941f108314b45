"""Wall time of checkpoints; the floor is writing their bytes to the disk."""

import os

import numpy as np
import pytest

from omkl import DependencyParser
from omkl.data import synthetic_treebank
from omkl.groups import ArcTemplateBank, TemplateSet
from omkl.losses import StructuredHinge
from omkl.online import Constant, OnlineTrainer, PolynomialAverage
from omkl.online.checkpointing import Checkpoints
from omkl.regularizers import SquaredL21
from omkl.structures import NonProjectiveTree
from tests.benchmarks.measuring import Floor


def measure_writing(measure, folder, state):
    def bytes_alone():
        with (folder / "floor").open("wb") as file:
            for array in state.values():
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            file.flush()
            os.fsync(file.fileno())

    checkpoints = Checkpoints(folder / "run")
    size = sum(array.nbytes for array in state.values())
    floor = Floor("disk", bytes_alone)
    checkpoints.keep("model", {}, state)
    return measure(checkpoints.write, floor=floor, clock="wall", state_mb=size / 1e6)


@pytest.mark.large
@pytest.mark.parametrize("averaging", [False, True], ids=["weights", "weights and averages"])
def test_a_checkpoint_of_fifty_million_features(measure, tmp_path, averaging):
    bank = ArcTemplateBank(
        TemplateSet.resolve("martins507"), averaging, memory=200 * (1 + averaging)
    )
    bank.table[:] = np.random.default_rng(0).random(bank.table.shape, dtype=np.float32)
    trainer = OnlineTrainer(
        [bank],
        NonProjectiveTree(),
        StructuredHinge(),
        SquaredL21(),
        lambda_=1.0,
        schedule=Constant(0.1),
        average=PolynomialAverage() if averaging else None,
    )
    measure_writing(measure, tmp_path, trainer.state())


def test_a_checkpoint_of_a_parser(measure, tmp_path):
    parser = DependencyParser("martins507", epochs=1, verbose=False, random_state=0)
    state = parser.fit(synthetic_treebank(300, random_state=0)).model_.trainer.state()
    taken = measure_writing(measure, tmp_path, state)
    measure.note(share_at_one_a_minute=taken / (60.0 + taken))
