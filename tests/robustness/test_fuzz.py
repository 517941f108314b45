"""Minutes of inputs that libFuzzer finds by what they reach, see :mod:`tests.robustness.fuzz`, for every target.

``OMKL_SOAK=600 python -m pytest -m soak tests/robustness/test_fuzz.py``, of so many seconds each.
"""

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")

from .fuzz import ROOT, TARGETS

SECONDS = int(os.environ.get("OMKL_SOAK", 60))


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_but_errors_of_omkl_comes_of_inputs_that_reach_something_new(target, tmp_path):
    command = [sys.executable, "-m", "tests.robustness.fuzz", target, str(tmp_path), f"-max_total_time={SECONDS}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stderr[-5000:]
