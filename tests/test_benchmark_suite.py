"""What the benchmarks say of peers that are missing, fail, crash or hang, and of how times grow."""

import os
import time

import numpy as np
import pytest

from tests.benchmarks.__main__ import growth, table
from tests.benchmarks.measuring import Measure, MissedError, Peer, elsewhere, gather, product, stream


def missing():
    raise ImportError


def failing():
    raise ValueError


def short_of_the_gap():
    raise MissedError("gap 1e-1")


class Recorder:
    """Stands for the fixture of pytest-benchmark."""

    def __init__(self):
        self.extra_info = {}

    def pedantic(self, function, rounds, setup=int):
        for _ in range(rounds):
            setup()
            function()


WORDS = {
    "missing": missing,
    "failed": failing,
    "gap 1e-1": short_of_the_gap,
    "crashed": lambda: lambda: os._exit(11),
    "slow": lambda: lambda: time.sleep(60.0),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_peer_that_does_not_run_is_a_word(word):
    peer = Peer(WORDS[word], "cpu", 0.01, limit=0.5)
    peer.round()
    peer.close()
    assert peer.word == word


def test_an_environment_that_cannot_be_made_is_a_missing_peer(monkeypatch):
    monkeypatch.setattr("tests.benchmarks.measuring.environment", lambda name: None)
    peer = Peer(elsewhere("adelie"), "cpu", 0.01, limit=5.0)
    peer.close()
    assert peer.word == "missing"


def test_a_row_has_time_floor_peers_and_memory():
    recorder = Recorder()
    Measure(recorder, quick=True)(
        lambda: np.ones(4_000_000),
        floor=stream(32e6),
        peers={"twice": lambda: lambda: np.ones(8_000_000), "none": missing},
        size=4,
        clusters=3,
    )
    found = recorder.extra_info
    assert found["multiple"] == found["seconds"] / found["floor"]
    assert found["peers"]["twice"] < 1
    assert found["peers"]["none"] == "missing"
    assert not os.path.exists("/proc/self/clear_refs") or 25 < found["megabytes"] < 40
    row = {"fullname": "tests/benchmarks/test_a.py::test_ones[4]", "param": "4", "extra_info": found}
    text = table([row])
    assert all(words in text for words in ("a: ones[4]", "none missing", "clusters 3", "stream"))


def test_growth_is_the_power_between_sizes():
    rows = [
        {
            "fullname": f"x/test_a.py::test_b[squared-{n}]",
            "param": f"squared-{n}",
            "extra_info": {"size": n, "seconds": n**2},
        }
        for n in (10, 20, 40)
    ]
    assert growth(rows) == ["a: b squared: 10, 20, 40: 2.00, 2.00"]


@pytest.mark.parametrize("floor", [stream(8e9), product(10**6, 1000, 100), gather(np.ones((64, 16)), 1e8)])
def test_a_floor_that_takes_long_is_measured_in_part(floor):
    started = time.perf_counter()
    floor.function()
    assert floor.times > 10
    assert time.perf_counter() - started < 5.0
