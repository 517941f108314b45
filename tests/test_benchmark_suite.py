"""The benchmark suite with peers that are missing, fail, crash or hang, and its exponents of
growth.
"""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.measuring import Measure, MissedError, Peer, elsewhere, stream
from tests.benchmarks.reasons import REASONS
from tests.benchmarks.tables import page, table

from .commands import read_json

pytestmark = pytest.mark.slow


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


TOOK = {"wall": 60.0, "cpu": 30.0, "children": 6.0}
WORDS = {
    "missing": missing,
    "failed": failing,
    "gap 1e-1": short_of_the_gap,
    "crashed": lambda: lambda: os._exit(11),
    "slow": lambda: signal.pause,
}


@pytest.mark.parametrize("word", WORDS)
def test_a_peer_that_does_not_run_is_a_word(word):
    peer = Peer(
        WORDS[word],
        "cpu",
        0.01,
        limit=0.0 if word == "slow" else 300.0,
        making=300.0,
    )
    peer.round()
    peer.close()
    assert peer.word == word


def test_an_environment_that_cannot_be_made_is_a_missing_peer(monkeypatch):
    monkeypatch.setattr("tests.benchmarks.measuring.environment", lambda name: None)
    peer = Peer(elsewhere("adelie"), "cpu", 0.01, limit=300.0)
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
    measured = recorder.extra_info
    assert measured["multiple"] == measured["seconds"] / measured["floor"]
    assert measured["peers"]["twice"] < 1
    assert measured["peers"]["none"] == "missing"
    assert not os.path.exists("/proc/self/clear_refs") or 25 < measured["megabytes"] < 40
    row = {
        "fullname": "tests/benchmarks/test_a.py::test_ones[4]",
        "param": "4",
        "extra_info": measured,
        "took": TOOK,
    }
    text = table([row])
    assert all(words in text for words in ("a: ones[4]", "none missing", "clusters 3", "stream"))


def a_row(name, multiple=None):
    measured = {
        "seconds": 1.0,
        "clock": "cpu",
        "megabytes": 0.0,
        "floor": multiple and 1.0 / multiple,
        "floor_kind": "stream",
        "multiple": multiple,
        "peers": {},
        "size": None,
        "notes": {},
    }
    return {
        "fullname": f"tests/benchmarks/test_{name}",
        "param": None,
        "extra_info": measured,
        "took": TOOK,
    }


def test_rows_far_from_their_floors_say_why(monkeypatch):
    reasons = {"test_a.py::test_near": "Nobody asks.", "test_a.py::test_far": "A dict is made."}
    monkeypatch.setattr("tests.benchmarks.tables.REASONS", reasons)
    rows = [
        a_row("a.py::test_near", 2.0),
        a_row("a.py::test_far[x/y.z]", 9.0),
        a_row("b.py::test_c", 4.0),
    ]
    text = table(rows)
    assert "9 [1]" in text
    assert "[1] A dict is made." in text
    assert "Nobody asks" not in text
    assert "3 rows took 3.0 minutes" in text
    assert (
        "of 3 rows with a floor, 1 are within 3 times of it, 1 say why they are not, and 1 do not"
        in text
    )


def test_reasons_are_of_rows_that_there_are():
    folder = Path(__file__).parent / "benchmarks"
    for test in REASONS:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (folder / file).read_text(), test


def test_the_page_is_made_of_its_figures():
    docs = Path(__file__).parents[1] / "docs"
    assert (docs / "benchmarks.md").read_text() == page(read_json(docs / "benchmarks.json"))
