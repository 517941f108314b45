"""A fresh interpreter: import, training with cached compiled code, and printing help."""

import subprocess
import sys

import pytest

from tests.benchmarks.measuring import Floor

FIRST_FIT = """
import numpy as np, omkl
X = [np.eye(4)[[0, 1]], np.eye(4)[[2, 3]]]
omkl.SequenceLabeler(epochs=1, verbose=False).fit(X, [["a", "b"], ["b", "a"]]).predict(X)
"""
CASES = {
    "import omkl": ("", "import omkl", {"sklearn": "import sklearn", "river": "import river"}),
    "labeler": (
        "import numba, sklearn.base",
        "from omkl import SequenceLabeler",
        {
            "sklearn": "from sklearn.svm import LinearSVC",
            "skglm": "from skglm import Lasso",
            "river": "import river.api",
        },
    ),
    "first fit": ("import numba, sklearn.base", FIRST_FIT, {}),
    "omkl --help": ("", "from omkl.cli import main; main(['--help'])", {}),
}


def started(source):
    return lambda: subprocess.run([sys.executable, "-c", source], check=True, capture_output=True)


def peer(source):
    def make():
        if subprocess.run([sys.executable, "-c", source], capture_output=True).returncode:
            raise ImportError
        return started(source)

    return make


@pytest.mark.parametrize("case", CASES)
def test_startup(measure, case):
    floor, source, peers = CASES[case]
    peers = {name: peer(theirs) for name, theirs in peers.items()}
    measure(started(source), floor=Floor(floor or "python", started(floor)), peers=peers, clock="children")
