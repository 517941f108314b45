"""Failures of the system: files stay complete, resumed runs give the same bytes, errors name the
cause.
"""

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

import omkl
from omkl import _files

from ..passes import Killed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] > 0


def classifier(**parameters):
    parameters = {"epochs": 3, "random_state": 0, **parameters}
    return omkl.OnlineMKLClassifier(["linear", "gaussian"], **parameters)


#: File operations of a checkpoint, in order.
CALLS = ("open", "write", "fsync", "replace", "unlink")


def killing(monkeypatch, call, number):
    """Kill the process at this call, without any cleanup."""
    n_calls = 0
    dead = False

    def last(original):
        def called(*arguments, **options):
            nonlocal n_calls, dead
            n_calls += 1
            dead = dead or n_calls == number
            if dead:
                raise Killed
            return original(*arguments, **options)

        return called

    def not_when_dead(original):
        def called(*arguments, **options):
            if not dead:
                original(*arguments, **options)

        return called

    if call == "write":
        monkeypatch.setattr(
            _files.npy,
            "write_array",
            last(_files.npy.write_array),
        )
    elif call == "unlink":
        monkeypatch.setattr("pathlib.Path.unlink", last(Path.unlink))
        return
    elif call == "open":
        monkeypatch.setattr(_files, "open", last(open), raising=False)
    else:
        monkeypatch.setattr(
            os,
            call,
            last(getattr(os, call)),
        )
    monkeypatch.setattr("pathlib.Path.unlink", not_when_dead(Path.unlink))


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    path = tmp_path_factory.mktemp("straight") / "model.npz"
    classifier().fit(X, Y).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("number", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_write_sync_or_rename_it_resumes_to_the_same_bytes(
    call, number, straight, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    every = {"checkpoint_every": "15 rounds"}
    with monkeypatch.context() as patch:
        killing(patch, call, number)
        with contextlib.suppress(Killed):
            classifier().fit(X, Y, checkpoint=run, **every)
    classifier().fit(X, Y, checkpoint=run, resume=True, **every).save(tmp_path / "model.npz")
    assert (tmp_path / "model.npz").read_bytes() == straight
    assert {path.suffix for path in run.iterdir()} == {".npz"}


@pytest.mark.parametrize("call", CALLS[:-1])
def test_killed_while_a_model_is_saved_the_one_before_stays(call, straight, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    path.write_bytes(straight)
    model = classifier(C=2.0).fit(X, Y)
    with monkeypatch.context() as patch:
        killing(patch, call, 1)
        with contextlib.suppress(Killed):
            model.save(path)
    assert path.read_bytes() == straight
