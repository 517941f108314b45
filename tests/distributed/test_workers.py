"""Shards on two worker processes over TCP equal shards here, even if a worker is killed in an
epoch.
"""

import copy
import os
import signal
import sys

import cloudpickle
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omkl import DependencyParser, EarlyStopping, OnlineMKLClassifier, SequenceLabeler
from omkl.data import handwritten_dates, synthetic_treebank
from omkl.distributed import ParameterMixing
from omkl.exceptions import DivergenceError
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.online import Example, UniformAverage
from omkl.structures import Binary

from ..passes import assert_same_state, fit, online_trainer

pytestmark = pytest.mark.slow

pytest.importorskip("distributed")
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_a_parser_trained_by_two_workers_is_the_serial_one(client):
    treebank = synthetic_treebank(40, random_state=0)
    settings = {"templates": "small", "epochs": 2, "C": 0.05, "memory": 2, "random_state": 0}
    here = DependencyParser(**settings)
    there = DependencyParser(**settings)
    here.fit(treebank, shards=2)
    there.fit(treebank, client=client)
    assert_same_state(there, here)
    for name, array in here.model_.codec.relations.trainer.state().items():
        assert_array_equal(
            array,
            there.model_.codec.relations.trainer.state()[name],
            err_msg=name,
        )
    assert [record["loss:shard2"] for record in there.history_] == [
        r["loss:shard2"] for r in here.history_
    ]


@pytest.mark.parametrize(("kernels", "early_stopping"), [(None, False), (["linear"], True)])
def test_a_labeler_trained_by_two_workers_is_the_serial_one(client, kernels, early_stopping):
    data = handwritten_dates()
    X = data.train_images[:30]
    y = data.train_digits[:30]
    stopping = EarlyStopping(patience=1) if early_stopping else False
    settings = {"epochs": 2, "early_stopping": stopping, "random_state": 0}
    here = SequenceLabeler(kernels, **settings).fit(X, y, shards=3)
    there = SequenceLabeler(kernels, **settings).fit(X, y, client=client, shards=3)
    assert_same_state(there, here)
    assert ("validation_score" in there.history_[0]) == early_stopping


def test_a_classifier_with_weights_trained_by_two_workers_is_the_serial_one(client, rng):
    X = rng.normal(size=(80, 5))
    y = rng.integers(0, 3, size=80)
    weights = rng.integers(0, 3, size=80) + 0.5
    # no matrix products: their last bits depend on where arrays lie in memory
    settings = {"kernels": ["linear"], "epochs": 3, "random_state": 0}
    here = OnlineMKLClassifier(**settings).fit(X, y, weights, shards=2)
    assert_same_state(OnlineMKLClassifier(**settings).fit(X, y, weights, client=client), here)


class Mortal:
    """Examples of which one kills the first worker that receives it."""

    def __init__(self, fatal=None, flag=None, n=60):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 4))
        self.gold = (X[:, 0] > 0).astype(np.int64)
        ids = np.tile(np.arange(4, dtype=np.int32), n)
        self.tokens = Tokens(
            np.arange(n + 1),
            Features(np.arange(0, 4 * n + 1, 4), ids, X.ravel()),
        )
        self.fatal = np.arange(n) == fatal
        self.flag = flag

    def __len__(self):
        return len(self.gold)

    def __getitem__(self, i):
        if self.fatal[i] and not os.path.exists(self.flag):
            with open(self.flag, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return Example(self.tokens.sequence(i), self.gold[i])

    def part(self, chosen):
        part = copy.copy(self)
        part.tokens = self.tokens.only(chosen)
        part.gold = self.gold[chosen]
        part.fatal = self.fatal[chosen]
        return part


def train(data, client=None):
    bank = ExplicitBank(["a", "b"], [0, 0, 1, 1], 1, averaging=True)
    trainer = online_trainer([bank], Binary(), lambda_=0.05, average=UniformAverage())
    fit(
        trainer,
        data,
        epochs=3,
        rng=np.random.default_rng(0),
        make_pass=ParameterMixing(2, client),
    )
    return trainer.state()


def test_a_worker_that_is_killed_costs_its_pass_and_no_more(client, tmp_path):
    flag = tmp_path / "killed"
    pids = set(client.run(os.getpid).values())
    state = train(Mortal(11, str(flag)), client)
    assert int(flag.read_text()) in pids
    for name, array in train(Mortal()).items():
        assert_array_equal(state[name], array, err_msg=name, strict=True)


def test_what_a_shard_raises_is_raised_here(client):
    X = np.full((10, 2), 1e90)
    y = np.arange(10) % 2
    with pytest.raises(DivergenceError, match="diverged"):
        OnlineMKLClassifier(["linear:normalize=None"], random_state=0, learning_rate=1e99).fit(
            X, y, client=client
        )
