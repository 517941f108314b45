"""Stability selection: against fits one by one, its bound, and kernels of which most are noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor
from omkl.exceptions import InputError
from omkl.kernels import Gaussian


def columns(X):
    return {f"column {j}": Gaussian(1.0, on=slice(j, j + 1)) for j in range(X.shape[1])}


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(81, 12))
    return X, (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=81) > 0).astype(int)


def halves_of(n, n_pairs, seed):
    """Draw complementary halves as the papers define them."""
    random = np.random.RandomState(seed)
    for _ in range(n_pairs):
        order = random.permutation(n)
        yield from (np.sort(order[: n // 2]), np.sort(order[n // 2 : 2 * (n // 2)]))


@pytest.mark.parametrize("multiclass", ["shared", "ovr"])
@pytest.mark.parametrize("K", [2, 3])
def test_frequencies_are_those_of_fits_one_by_one(noisy, multiclass, K):
    X, y = noisy
    y = y if K == 2 else y + (X[:, 2] > 0.5)
    C, weights = 0.5, np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    model = MKLClassifier(columns(X), regularizer="block1", tol=1e-6, multiclass=multiclass)
    report = model.stability_selection(X, y, [C], weights, n_pairs=4, random_state=3, max_false=None)
    counts = np.zeros(12)
    for half in halves_of(len(y), 4, 3):
        alone = clone(model).set_params(C=C).fit(X[half], y[half], weights[half])
        counts += [weight > 0 for weight in alone.kernel_weights_.values()]
    assert_array_equal(list(report.selection_frequency_.values()), counts / 8)
    assert report.n_chosen_ == pytest.approx(counts.sum() / 8)
    assert list(report.selection_frequency_) == list(columns(X))


def test_the_bound_is_that_of_the_paper(noisy):
    """q counts kernels that are chosen at this C or a smaller one, and E[V] <= q^2 / ((2 tau - 1) M)."""
    X, y = noisy
    model = MKLRegressor(columns(X), regularizer="block1", tol=1e-4)
    settings = {"C": 8, "n_pairs": 3, "threshold": 0.7, "random_state": 0}
    everything = model.stability_selection(X, y, max_false=None, **settings)
    seen = np.zeros((6, 12), dtype=bool)
    q = []
    for c in range(8):
        for row, half in enumerate(halves_of(len(y), 3, 0)):
            [record] = model.path(X[half], y[half], [everything.Cs_[c]])
            seen[row] |= record["kernel_weights"] > 0
        q.append(seen.sum() / 6)
    assert_allclose(everything.n_chosen_, q, atol=0.2)
    assert everything.expected_false_ == pytest.approx(everything.n_chosen_[-1] ** 2 / (0.4 * 12))
    few = model.stability_selection(X, y, max_false=1.0, **settings)
    assert 0 < few.n_used < 8
    assert few.expected_false_ == few.bounds_[few.n_used - 1] <= 1.0 < few.bounds_[few.n_used]
    assert list(few.selection_frequency_.values()) == few.frequencies_[: few.n_used].max(axis=0).tolist()
    assert few.Cs_.tolist() == everything.Cs_[: few.n_used + 1].tolist()
    assert few.selected_ == [name for name, part in few.selection_frequency_.items() if part >= 0.7]
    none = model.stability_selection(X, y, max_false=1e-9, **{**settings, "C": everything.Cs_[4:]})
    assert (none.selected_, none.expected_false_) == ([], 0.0)


def test_useless_kernels_are_fewer_than_the_bound():
    """Of 60 useless kernels the mean number selected stays below the bound, and the useful ones are found."""
    false, found = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 64))
        y = X[:, :4].sum(axis=1) + 0.3 * rng.normal(size=120)
        report = MKLRegressor(columns(X), regularizer="block1").stability_selection(
            X, y, 10, n_pairs=10, threshold=0.8, max_false=1.0, random_state=seed
        )
        useful = {f"column {j}" for j in range(4)}
        false.append(len(set(report.selected_) - useful))
        found.append(len(useful & set(report.selected_)))
    assert np.mean(false) <= 1.0
    assert np.mean(found) >= 3.0


def test_jobs_and_seeds_do_not_change_what_is_found(noisy):
    X, y = noisy
    model = MKLClassifierCV(columns(X), Cs=[0.3], cv=3)
    first, second = (
        model.stability_selection(X, y, [0.1, 0.5], n_pairs=3, n_jobs=n_jobs, random_state=5) for n_jobs in (None, 2)
    )
    assert_array_equal(first.frequencies_, second.frequencies_)
    assert not hasattr(model, "classes_")


def test_a_half_that_lacks_a_class_chooses_nothing(noisy):
    X, _ = noisy
    y = np.zeros(len(X), dtype=int)
    y[0] = 1
    report = MKLClassifier(columns(X)).stability_selection(X, y, [100.0], n_pairs=4, max_false=None, random_state=0)
    assert 0.0 < max(report.selection_frequency_.values()) <= 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_pairs": 0}, "n_pairs"),
        ({"threshold": 0.5}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
        ({"max_false": 0.0}, "max_false"),
        ({"C": []}, "number of values"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(noisy, settings, message):
    X, y = noisy
    with pytest.raises(InputError, match=message):
        MKLClassifier(columns(X)).stability_selection(X, y, **{"C": [0.1], **settings})


def test_regularizers_without_sparsity_are_refused(noisy):
    with pytest.raises(InputError, match="needs a sparse regularizer"):
        MKLClassifier(regularizer="uniform").stability_selection(*noisy)
