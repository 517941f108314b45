"""Equal bytes for any hash seed, memory order of arrays, display of progress, and number of
threads.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import omkl
from omkl.data import synthetic_treebank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.array(["no", "yes", "perhaps"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
ROWS = [
    {"colour": "rgb"[i % 3], "tags": {"a", "b", "cd"[i % 2]}, "size": x[0]} for i, x in enumerate(X)
]


def models(verbose=False):
    yield omkl.OnlineMKLClassifier(
        ["linear", "gaussian"], epochs=2, random_state=0, verbose=verbose
    ).fit(X, Y)
    yield omkl.OnlineMKLClassifier(epochs=2, random_state=0, verbose=verbose).fit(ROWS, Y)
    yield omkl.SequenceLabeler(epochs=2, random_state=0, verbose=verbose).fit(
        [ROWS[:30], ROWS[30:]], [Y[:30], Y[30:]]
    )
    yield omkl.DependencyParser("small", memory=1, epochs=1, random_state=0, verbose=verbose).fit(
        synthetic_treebank(12, vocabulary=8, random_state=0)
    )
    yield omkl.MKLClassifier(["linear", "gaussian"], verbose=verbose).fit(X, Y)


def save_all(folder, verbose=False):
    for number, model in enumerate(models(verbose)):
        model.save(folder / f"{number}.npz")
    return [(folder / f"{number}.npz").read_bytes() for number in range(5)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return save_all(tmp_path_factory.mktemp("first"))


def test_again_and_with_progress_shown(files, tmp_path):
    assert save_all(tmp_path, verbose=True) == files


@pytest.mark.slow
def test_with_another_hash_seed(files, tmp_path):
    program = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import pathlib,"
        " test_determinism as own\n"
    )
    program += f"own.save_all(pathlib.Path({str(tmp_path)!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env=environment,
    )
    assert [(tmp_path / f"{number}.npz").read_bytes() for number in range(5)] == files


@pytest.mark.parametrize(
    "lay",
    [np.asfortranarray, lambda A: np.repeat(A, 2, axis=0)[::2], lambda A: A[::-1].copy()[::-1]],
)
def test_arrays_in_any_memory_order(lay, tmp_path):
    results = []
    for A in (X, lay(X)):
        model = omkl.OnlineMKLClassifier(
            ["linear", "gaussian", "gaussian:features=20"], epochs=2, random_state=0
        )
        model.fit(A, Y).partial_fit(A, Y).save(tmp_path / "model.npz")
        results.append((tmp_path / "model.npz").read_bytes() + model.decision_function(A).tobytes())
    assert results[0] == results[1]
