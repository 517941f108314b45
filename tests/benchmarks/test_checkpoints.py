"""What checkpoints cost: the time their bytes take to reach the disk, and the share of training."""

import os
import time

import numpy as np
import pytest

from omkl import DependencyParser
from omkl.data import synthetic_treebank
from omkl.groups import ArcTemplateBank, TemplateSet
from omkl.losses import StructuredHinge
from omkl.online import Checkpoints, Constant, OnlineTrainer, PolynomialAverage
from omkl.regularizers import SquaredL21
from omkl.structures import NonProjectiveTree


def seconds(function, *arguments):
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def written(path, arrays):
    """The bytes of arrays, and nothing else, on disk."""
    with path.open("wb") as file:
        for array in arrays:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        file.flush()
        os.fsync(file.fileno())


@pytest.mark.parametrize("averaging", [False, True])
def test_a_checkpoint_of_fifty_million_features(benchmark, tmp_path, averaging):
    bank = ArcTemplateBank(TemplateSet.resolve("martins507"), averaging, memory=200 * (1 + averaging))
    bank.table[:] = np.random.default_rng(0).random(bank.table.shape, dtype=np.float32)
    trainer = OnlineTrainer(
        [bank], NonProjectiveTree(), StructuredHinge(), SquaredL21(), lambda_=1.0, schedule=Constant(0.1),
        average=PolynomialAverage() if averaging else None,
    )  # fmt: skip
    checkpoints = Checkpoints(tmp_path / "run")
    state = trainer.state()
    size = sum(array.nbytes for array in state.values())
    floor = min(seconds(written, tmp_path / "floor", state.values()) for _ in range(3))
    benchmark.pedantic(checkpoints.write, ({}, state), rounds=3, iterations=1, warmup_rounds=1)
    taken = benchmark.stats.stats.min
    print(
        f"\n{bank.table.size / 1e6:.1f} million weights, {size / 1e6:.0f} MB: {taken:.2f} s, {taken / floor:.2f} times "
        f"what the bytes take to the disk ({size / floor / 1e9:.2f} GB/s)"
    )


def test_a_checkpoint_a_minute_of_a_parser(benchmark, tmp_path):
    """At the default memory: what one checkpoint takes, as a share of a minute."""
    parser = DependencyParser("martins507", epochs=1, verbose=False, random_state=0).fit(
        synthetic_treebank(300, random_state=0)
    )
    checkpoints = Checkpoints(tmp_path / "run")
    state = parser.model_.trainer.state()
    benchmark.pedantic(checkpoints.write, ({}, state), rounds=5, iterations=1, warmup_rounds=1)
    size = sum(array.nbytes for array in state.values())
    share = benchmark.stats.stats.min / (60.0 + benchmark.stats.stats.min)
    print(f"\n{size / 1e6:.0f} MB: {benchmark.stats.stats.min:.2f} s, {share:.2%} of training at one a minute")
