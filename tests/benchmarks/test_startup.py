"""A fresh interpreter: import, training with and without cached compiled code, printing help."""

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

#: What makes data in a fresh process: rows of an issue's size, few rows, and sentences.
ROWS = """
import numpy as np, omkl
rng = np.random.default_rng(0)
X = rng.normal(size=({n_rows}, {n_columns}))
y = (X[:, 0] + X[:, 1] ** 2 > 0).astype(int)
"""
MANY_ROWS = ROWS.format(n_rows=1000, n_columns=8)
FEW_ROWS = ROWS.format(n_rows=200, n_columns=5)
SENTENCES = """
import numpy as np, omkl
codes = np.random.default_rng(0).integers({n_words}, size=({n_sentences}, {n_tokens}))
X = [[f"w{{code}}" for code in sentence] for sentence in codes]
y = [[f"t{{code % 9}}" for code in sentence] for sentence in codes]
"""
MANY_SENTENCES = SENTENCES.format(n_words=500, n_sentences=400, n_tokens=15)
FEW_SENTENCES = SENTENCES.format(n_words=20, n_sentences=40, n_tokens=3)
FIT_CLASSIFIER = "omkl.OnlineMKLClassifier(verbose=False).fit(X, y)\n"
FIT_REGRESSOR = "omkl.OnlineMKLRegressor(verbose=False).fit(X, X[:, 0])\n"
FIT_LABELER = "omkl.SequenceLabeler(verbose=False).fit(X, y).predict(X)"
#: The first fit and prediction of an installation, which compile.
FIRST_CALLS = {
    "classifier, 1,000 x 8": MANY_ROWS + FIT_CLASSIFIER,
    "classifier, then regressor, 1,000 x 8": MANY_ROWS + FIT_CLASSIFIER + FIT_REGRESSOR,
    "labeler, 400 sentences of 15 words": MANY_SENTENCES + FIT_LABELER,
    "labeler": FEW_SENTENCES + FIT_LABELER,
    "online": FEW_ROWS + "omkl.OnlineMKLClassifier(verbose=False).fit(X, y).predict(X)",
    "batch": FEW_ROWS + "omkl.MKLClassifier(verbose=False).fit(X, y).predict(X)",
    "group lasso": FEW_ROWS + "omkl.GroupLasso(alpha=0.1).fit(X, X[:, 0]).predict(X)",
    "parser": (
        "import omkl; trees = omkl.data.synthetic_treebank(40); "
        "omkl.DependencyParser('small', verbose=False).fit(trees).predict(trees)"
    ),
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
