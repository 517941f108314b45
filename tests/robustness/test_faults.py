"""Faults of the system: files are whole, what goes on gives the same bytes, and one error says what was wrong."""

import numpy as np
import pytest

import omkl
from omkl.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] > 0


def classifier(**parameters):
    return omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=3, random_state=0, **parameters)


def test_a_directory_of_checkpoints_belongs_to_one_run(tmp_path):
    said = []

    def other_run(trainer, record):
        with pytest.raises(InputError, match="Another run keeps its checkpoints") as error:
            classifier().fit(X, Y, checkpoint=tmp_path, resume=bool(said))
        said.append(str(error.value))

    held = classifier(callbacks=[other_run]).fit(X, Y, checkpoint=tmp_path, checkpoint_every="20 rounds")
    assert len(said) == 3
    with pytest.raises(InputError, match="an earlier run"):
        classifier().fit(X, Y, checkpoint=tmp_path)
    classifier().fit(X, Y, checkpoint=tmp_path, resume=True)  # the lock goes with the run, however that ends
    assert {path.suffix for path in tmp_path.iterdir()} == {".npz"}
    assert held.n_iter_ == 3
