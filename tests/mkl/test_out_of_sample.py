"""Batch estimators that leave out kernels which do not help on samples left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score

from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV, load
from omkl.batch.mkl import out_of_sample as out_of_sample_module
from omkl.exceptions import DataWarning
from omkl.kernels import GramMatrices
from omkl.mkl import training
from omkl.reports import make_report

from ..commands import read_json, run

N_USELESS = 12
KERNELS = {f"k{i}": f"gaussian:sigma2=1,on={i}:{i + 1}" for i in range(2 + N_USELESS)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 2 + N_USELESS))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(120)


@pytest.fixture(scope="module")
def classes(data):
    return np.array(["low", "middle", "high"])[np.digitize(data[1], [-0.7, 0.7])]


def alive(model):
    return [name for name, weight in model.kernel_weights_.items() if weight > 0]


def out_of_sample(cls, **parameters):
    return cls(KERNELS, weighting="out-of-sample", **parameters)


def test_useless_kernels_are_left_out_and_listed(data, classes):
    X, y = data
    for model in (
        out_of_sample(MKLRegressor, C=10.0).fit(X, y),
        out_of_sample(MKLClassifier, C=10.0).fit(X, classes),
        out_of_sample(MKLClassifier, C=10.0, multiclass="ovr").fit(X, classes),
    ):
        assert alive(model)[:2] == ["k0", "k1"]
        assert len(alive(model)) <= 3
        assert model.left_out_ == [name for name in KERNELS if name not in alive(model)]
        assert model.dual_gap_ <= model.tol
        assert_allclose(sum(model.kernel_weights_.values()), 1.0)
        assert not model.dual_coef_[..., [name in model.left_out_ for name in KERNELS], :].any()


def test_the_model_is_that_of_the_kernels_that_are_left(data):
    X, y = data
    model = out_of_sample(MKLRegressor, regularizer="mkl", C=5.0, tol=1e-6).fit(X, y)
    helpful = {name: KERNELS[name] for name in KERNELS if name not in model.left_out_}
    alone = MKLRegressor(helpful, regularizer="mkl", C=5.0, tol=1e-6).fit(X, y)
    assert_allclose(
        model.predict(X),
        alone.predict(X),
        atol=1e-3,
    )
    assert_allclose(
        model.history_[-1]["primal"],
        alone.history_[-1]["primal"],
        rtol=1e-5,
    )


def test_a_fold_chooses_by_its_training_part_alone(data, monkeypatch):
    X, y = data
    seen = []
    choose = training.helpful_kernels

    def spy(kernels, targets, weights):
        seen.append(targets.copy())
        return choose(kernels, targets, weights)

    monkeypatch.setattr(training, "helpful_kernels", spy)
    out_of_sample(MKLRegressorCV, Cs=[1.0, 10.0], cv=3).fit(X, y)
    assert [len(targets) for targets in seen] == [80, 80, 80, 120]
    for fold, targets in enumerate(seen[:3]):
        centre = np.delete(y, np.s_[40 * fold : 40 * (fold + 1)]) - targets[:, 0]
        assert_allclose(centre, centre[0])


def test_cross_validation_and_paths(data, classes):
    X, y = data
    model = out_of_sample(MKLClassifierCV, Cs=[1.0, 10.0], cv=3).fit(X, classes)
    assert {"k0", "k1"} <= set(alive(model))
    assert len(model.left_out_) >= N_USELESS - 1
    for point in out_of_sample(MKLRegressor).path(X, y, C=[1.0, 10.0]):
        assert len(point["model"].left_out_) >= N_USELESS - 1
        assert point["active"] <= 3


def test_precomputed_kernels(data, classes):
    X, _ = data
    grams = {name: np.exp(-np.square(x[:, None] - x) / 2) for name, x in zip(KERNELS, X.T)}
    model = MKLClassifier("precomputed", weighting="out-of-sample", C=10.0).fit(grams, classes)
    assert model.left_out_ == out_of_sample(MKLClassifier, C=10.0).fit(X, classes).left_out_
    # kernels left out are not computed
    few = {name: grams[name] for name in alive(model)}
    assert_array_equal(model.predict(few), model.predict(grams))
    scores = cross_val_score(model, GramMatrices(grams), classes, cv=3)
    assert scores.mean() > 0.7


def test_weak_evidence_is_named_and_makes_nothing_worse(data):
    """Kernels without evidence are weighted as by norms, with one warning."""
    X, _ = data
    noise = np.random.default_rng(2).standard_normal(120)
    model = out_of_sample(MKLRegressor)
    with pytest.warns(
        DataWarning, match="0 of 14 kernels help beyond chance, but the model uses 14,"
    ) as warned:
        model.fit(X, noise)
    assert len(warned) == 1
    assert model.left_out_ == []
    assert list(model.evidence_) == list(KERNELS)
    assert max(model.evidence_.values()) < 3.0
    assert (
        model.kernel_weights_
        == MKLRegressor(KERNELS, weighting="norms").fit(X, noise).kernel_weights_
    )
    with pytest.warns(DataWarning, match="0 of 14 kernels help beyond chance"):
        out_of_sample(MKLRegressor).path(X, noise, C=[0.1])


@pytest.mark.parametrize(
    ("settings", "n"), [({}, 2), ({"regularizer": "mkl"}, 14), ({"solver": "one-step"}, 14)]
)
def test_by_default_kernels_are_chosen_out_of_sample_if_the_regularizer_is_not_given(
    data, settings, n
):
    model = MKLRegressor(KERNELS, C=10.0, **settings).fit(*data)
    assert len(KERNELS) - len(model.left_out_) == n


def test_evidence_tells_useful_kernels_from_useless_ones(data, tmp_path, recwarn):
    model = out_of_sample(MKLRegressor, C=10.0).fit(*data)
    assert not [warning for warning in recwarn if warning.category is DataWarning]
    assert min(model.evidence_[name] for name in ("k0", "k1")) > 3.0
    assert max(model.evidence_[name] for name in model.left_out_) < 3.0
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").evidence_ == model.evidence_
    assert "2 of 14 groups help beyond chance" in make_report(model)
    assert MKLRegressor(KERNELS, weighting="norms").fit(*data).evidence_ is None


def test_a_cluster_chooses_as_one_machine_does(data):
    distributed = pytest.importorskip("distributed")
    X, y = data
    here = out_of_sample(MKLRegressor, C=10.0).fit(X, y)
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        there = out_of_sample(MKLRegressor, C=10.0).fit(X, y, client=client)
    assert there.left_out_ == here.left_out_
    assert_allclose(
        there.predict(X),
        here.predict(X),
        atol=0.02,
    )


def test_inspect_tells_how_many_are_left_out(data, tmp_path, capsys):
    model = out_of_sample(MKLRegressor, C=10.0).fit(*data)
    model.save(tmp_path / "model.npz")
    run("inspect", tmp_path / "model.npz", "--json", tmp_path / "metrics.json")
    assert f"{len(model.left_out_)} are left out" in capsys.readouterr().out
    assert read_json(tmp_path / "metrics.json")["left_out"] == model.left_out_


def test_few_samples_choose_among_kernels_of_low_rank(data, monkeypatch):
    X, y = data
    monkeypatch.setattr(out_of_sample_module, "SAMPLES", 100)
    linear = {f"k{i}": f"linear:on={i}:{i + 1}" for i in range(X.shape[1])}
    factored = MKLRegressor(linear, weighting="out-of-sample", C=10.0).fit(X, y)
    assert factored.kernel_representations_["k0"] == "factor of rank 1"
    assert "k1" in alive(factored)
    assert len(alive(factored)) <= 4
    assert {"k0", "k1"} <= set(alive(out_of_sample(MKLRegressor, C=10.0).fit(X, y)))
