"""The example that compares online MKL with combinations of separate learners."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "online_opponents.py"


def test_combinations_find_the_one_kernel_and_cannot_add_up_several(tmp_path):
    command = [sys.executable, EXAMPLE, "--examples", "1500", "--streams", "sum", "one of ten"]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    records = json.loads((tmp_path / "online_opponents.json").read_text())["records"]
    assert all(record["method"] in done.stdout for record in records)
    error = {(record["stream"], record["method"]): record["error"] for record in records}
    assert error["sum", "MKL"] < min(error["sum", method] for method in ("Hedge", "OMKC", "Raker", "AdaRaker"))
    assert max(error["one of ten", method] for method in ("Hedge", "OMKC", "Raker")) < 0.35
