"""Threads that predict while one learns, and threads and processes that share a model: equal to one after the other."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
SEEN = X[:40]
KINDS = {
    "kernels": {"kernels": ["linear", "gaussian"]},
    "projection": {"kernels": "gaussian", "budget": 12},
    "removal": {"kernels": "gaussian", "budget": 12, "budget_maintenance": "removal"},
    "features": {"kernels": "gaussian:features=30"},
    "hedge": {"kernels": ["linear", "gaussian"], "method": "hedge"},
}


def untrained(kind):
    return omkl.OnlineMKLClassifier(random_state=0, epochs=1, **KINDS[kind]).partial_fit(X[:20], Y[:20], classes=[0, 1])


def calls(one_by_one):
    size = 1 if one_by_one else 20
    return [slice(low, low + size) for low in range(20, 20 + 15 * size, size)]


@pytest.mark.parametrize("one_by_one", [True, False], ids=["one by one", "in batches"])
@pytest.mark.parametrize("kind", KINDS)
def test_eight_threads_predict_while_one_learns(kind, one_by_one):
    """Each prediction is that of the model after some of the calls, and never that of a model half way."""
    serial = untrained(kind)
    expected = [serial.decision_function(SEEN).tobytes()]
    for call in calls(one_by_one):
        serial.partial_fit(X[call], Y[call])
        expected.append(serial.decision_function(SEEN).tobytes())
    model, over, found, failed = untrained(kind), threading.Event(), [], []

    def predict():
        latest = 0
        try:
            while not over.is_set():
                scores = model.decision_function(SEEN).tobytes()
                latest = expected.index(scores, latest)  # and none goes back
                found.append(latest)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=predict) for _ in range(8)]
    for thread in threads:
        thread.start()
    for call in calls(one_by_one):
        model.partial_fit(X[call], Y[call])
    over.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert found
    assert model.decision_function(SEEN).tobytes() == expected[-1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_threads_and_forked_processes_share_a_loaded_model(tmp_path):
    model = untrained("projection")
    model.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    with ThreadPoolExecutor(8) as pool:  # none of them the first
        found = list(pool.map(lambda _: loaded.decision_function(X).tobytes(), range(24)))
    assert set(found) == {model.decision_function(X).tobytes()}
    child = os.fork()
    if child == 0:
        os._exit(0 if loaded.decision_function(X).tobytes() == found[0] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_two_threads_that_learn_take_turns():
    model = untrained("projection")
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(model.partial_fit, X[i : i + 10], Y[i : i + 10]) for i in range(20, 220, 10)]:
            done.result()
    assert model.model_.trainer.round == 20 + 200
    model.save(os.devnull)


def test_a_model_that_learns_can_be_pickled_and_goes_on():
    model = untrained("kernels")
    copy = pickle.loads(pickle.dumps(model))
    for own in (model, copy):
        own.partial_fit(X, Y)
    assert_array_equal(model.decision_function(X), copy.decision_function(X))
    with pytest.raises(InputError):
        copy.partial_fit(X, Y + 5)
    assert_array_equal(model.decision_function(X), copy.decision_function(X))
