"""A fresh interpreter: import, training with cached compiled code and without, and printing help."""

import os
import subprocess
import sys
import tempfile

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

ROWS = "import numpy as np, omkl; X = np.random.default_rng(0).normal(size=(200, 5)); y = (X[:, 0] > 0).astype(int); "
SENTENCES = "[['the', 'dog', 'barks']] * 40, [['D', 'N', 'V']] * 40"
#: The first fit and prediction of an installation, which compile.
FIRST_CALLS = {
    "labeler": f"import omkl; omkl.SequenceLabeler(verbose=False).fit({SENTENCES}).predict([['the', 'dog']])",
    "online": ROWS + "omkl.OnlineMKLClassifier(verbose=False).fit(X, y).predict(X)",
    "batch": ROWS + "omkl.MKLClassifier(verbose=False).fit(X, y).predict(X)",
    "group lasso": ROWS + "omkl.GroupLasso(alpha=0.1).fit(X, X[:, 0]).predict(X)",
    "parser": "import omkl; trees = omkl.data.synthetic_treebank(40); "
    "omkl.DependencyParser('small', verbose=False).fit(trees).predict(trees)",
}


def started(source):
    return lambda: subprocess.run([sys.executable, "-c", source], check=True, capture_output=True)


def compiled(source):
    """Run a program with an empty cache of compiled loops."""

    def run():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", source]
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
            )

    return run


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
    measure(
        started(source),
        floor=Floor(floor or "python", started(floor)),
        peers=peers,
        clock="children",
    )


@pytest.mark.parametrize("case", FIRST_CALLS)
def test_first_call(measure, case):
    floor = "import numba, sklearn.base"
    measure(compiled(FIRST_CALLS[case]), floor=Floor(floor, started(floor)), clock="children")
