"""The example of a drifting stream: the weights follow the informative kernel."""

import json

import pytest

from omkl.online import values_of

from .running import run_example


@pytest.mark.parametrize("options", [[], ["--budget", "100"]])
def test_the_weights_follow_the_drift(options, tmp_path):
    pytest.importorskip("matplotlib")
    run_example("stream_mkl", tmp_path, "--examples", "8000", "--quiet", *options)
    found = json.loads((tmp_path / "stream_mkl.json").read_text())
    for model in found["models"]:
        weights = [values_of(record, "weight") for record in model["records"]]
        assert max(weights[len(weights) // 2 - 1], key=weights[len(weights) // 2 - 1].get) == "vector 1"
        assert weights[-1]["vector 2"] > weights[-1]["vector 3"]
    assert (tmp_path / "stream_mkl.png").stat().st_size > 10_000
