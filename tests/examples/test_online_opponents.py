"""The example that compares online MKL with combinations of separate learners."""

import json

from .running import run_example


def test_combinations_find_the_one_kernel_and_cannot_add_up_several(tmp_path):
    printed = run_example("online_opponents", tmp_path, "--examples", "1500", "--streams", "sum", "one of ten")
    records = json.loads((tmp_path / "online_opponents.json").read_text())["records"]
    assert all(record["method"] in printed for record in records)
    error = {(record["stream"], record["method"]): record["error"] for record in records}
    assert error["sum", "MKL"] < min(error["sum", method] for method in ("Hedge", "OMKC", "Raker", "AdaRaker"))
    assert max(error["one of ten", method] for method in ("Hedge", "OMKC", "Raker")) < 0.35
