"""One example after the other is learned with the bits of blocks, in fewer calls."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omkl import OnlineMKLClassifier, OnlineMKLRegressor, Passes, SequenceLabeler
from omkl.groups._jit_explicit import FEATURES, FeaturesOfTokens
from omkl.groups.tokens import Features, Tokens, side_by_side
from omkl.kernels import Linear, Polynomial
from omkl.kernels.inputs import row_blocks
from omkl.online.averaging import PolynomialAverage, RecentAverage
from omkl.online.driver import Driver
from tests.online.configurations import assert_same_state

N = 60
DUAL = {"quadratic": "quadratic:explicit=False", "gaussian": "gaussian"}


def rows_and_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    X[rng.random(X.shape) < 0.1] = 0.0
    return X, X[:, 0] + X[:, 1] ** 2


def two_classes(**parameters):
    X, targets = rows_and_targets()
    return OnlineMKLClassifier(random_state=0, **parameters), X, (targets > 0.5).astype(int)


def three_classes(**parameters):
    model, X, _ = two_classes(**parameters)
    return model, X, np.arange(N) % 3


def regression():
    X, targets = rows_and_targets()
    return OnlineMKLRegressor(random_state=0), X, targets


def missing_numbers():
    model, X, y = two_classes()
    X[20::7, 1] = np.nan
    return model, X, y


def dicts_with_words():
    model, X, y = two_classes()
    rows = [{"a": a, "word": f"w{i % 9}"} for i, a in enumerate(X[:, 0].tolist())]
    return model, rows, y.tolist()


def sentences():
    rng = np.random.default_rng(1)
    words = [[f"w{code}" for code in rng.integers(9, size=1 + i % 4)] for i in range(N)]
    return SequenceLabeler(random_state=0), words, [[w < "w5" for w in x] for x in words]


CASES = {
    "linear": lambda: two_classes(kernels=["linear"]),
    "default kernels": two_classes,
    "weights from norms": lambda: two_classes(weighting="norms", average=None),
    "three classes": three_classes,
    "budget": lambda: three_classes(kernels=DUAL, budget=15),
    "dual averaging": lambda: two_classes(
        kernels=["linear"], method="rda", epochs=Passes(n_examples=100)
    ),
    "regression": regression,
    "missing numbers": missing_numbers,
    "dicts with words": dicts_with_words,
    "sentences": sentences,
}


def learn_in_turn(case, weights=None):
    """Learn a block and then single examples, with predictions before each one."""
    model, X, y = CASES[case]()
    model.partial_fit(X[:20], y[:20])
    predictions = []
    for i in range(20, N):
        options = {} if weights is None else {"sample_weight": weights[i : i + 1]}
        predictions.append(model.predict(X[i : i + 1])[0])
        model.partial_fit(X[i : i + 1], y[i : i + 1], **options)
    return model, predictions


def assert_same_by_both_ways(learn, monkeypatch):
    """Compare with the way for many examples; return how many went the way for one."""
    n_alone = 0
    learn_one = Driver.learn_one

    def count_calls(self, sequences):
        nonlocal n_alone
        n_alone += 1
        return learn_one(self, sequences)

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "learn_one", count_calls)
        model, predictions = learn()
    monkeypatch.setattr(Driver, "learn_one", lambda self, sequences: self.learn(sequences, False))
    expected, expected_predictions = learn()
    assert_same_state(model.model_.trainer, expected.model_.trainer)
    for record, wanted in zip(model.history_, expected.history_, strict=True):
        assert {**record, "seconds": 0} == {**wanted, "seconds": 0}
    for prediction, expected_prediction in zip(predictions, expected_predictions, strict=True):
        assert_array_equal(prediction, expected_prediction)
    return n_alone


@pytest.mark.filterwarnings("ignore::omkl.exceptions.DataWarning")  # the data are noise
@pytest.mark.parametrize("case", CASES)
def test_one_example_is_learned_as_a_block_is(case, monkeypatch):
    assert assert_same_by_both_ways(lambda: learn_in_turn(case), monkeypatch) == N - 20


@pytest.mark.parametrize("case", ["linear", "default kernels", "regression"])
def test_examples_of_any_weight_are_learned_as_in_a_block(case, monkeypatch):
    weights = np.random.default_rng(0).uniform(0.1, 3.0, size=N)
    n_alone = assert_same_by_both_ways(lambda: learn_in_turn(case, weights), monkeypatch)
    assert n_alone == np.count_nonzero(weights <= 1.0) - np.count_nonzero(weights[:20] <= 1.0)


def test_parameters_that_grow_between_two_rows_are_found(monkeypatch):
    """New words and labels take new arrays, to which the kept addresses do not point."""

    def learn():
        model = OnlineMKLClassifier(random_state=0)
        predictions = []
        for i in range(40):
            row = [{"a": np.sin(i), "word": f"w{i}", f"key {i // 15}": i % 3}]
            model.partial_fit(row, [f"label {i // 10}"], classes=None if i else "growing")
            predictions.append(model.predict(row)[0])
        return model, predictions

    assert assert_same_by_both_ways(learn, monkeypatch) == 40


# ---- the same in fewer calls ---------------------------------------------------------------------


def test_features_are_packed_as_the_layout_packs_them():
    features = Features(np.array([0, 2, 3]), np.array([4, 1, 2], np.int32), np.ones(3))
    packed = Tokens(np.arange(3), features).packed_features()
    expected = FEATURES.pack(FeaturesOfTokens(*features))
    assert_array_equal(packed._block, expected._block)
    assert packed.values == features


def test_features_beside_none_stay_as_they_are():
    left = Features(np.array([0, 2]), np.array([4, 1], np.int32), np.ones(2))
    none = Features(np.array([0, 0]), np.array([], np.int32), np.array([]))
    for joined in (side_by_side(left, none), side_by_side(none, left)):
        for array, expected in zip(joined, left, strict=True):
            assert_array_equal(array, expected)
            assert array.dtype == expected.dtype


@pytest.mark.parametrize("kernel", [Linear(), Polynomial()], ids=str)
def test_a_single_row_has_the_features_that_it_has_among_others(kernel):
    X = np.random.default_rng(0).normal(size=(50, 7)) * np.logspace(-3, 3, 50)[:, None]
    X[3] = 0.0
    together = kernel.features(X)
    for i in range(len(X)):
        assert_array_equal(kernel.features(X[i : i + 1]), together[i : i + 1])


@pytest.mark.parametrize("n_rows", [0, 1, 16, 17, 40])
def test_blocks_of_rows_cover_all_rows(n_rows):
    blocks = row_blocks(n_rows, 10**9, np.float64)
    rows = [row for block in blocks for row in range(n_rows)[block]]
    assert rows == list(range(n_rows))
    assert all(block.stop - block.start <= 16 for block in blocks)


@pytest.mark.parametrize("average", [RecentAverage(), PolynomialAverage(), PolynomialAverage(1.5)])
def test_weights_of_many_rounds_are_those_of_each(average):
    rounds = np.random.default_rng(0).integers(1, 10**6, size=20_000)
    expected = [average.weight(t) for t in rounds.tolist()]
    assert_array_equal(average.weights(rounds), expected)
