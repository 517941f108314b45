"""LearnedFeatures: features whose inner products are the learned kernel, by the names of columns, in scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import omkl
from omkl import GroupLasso, LearnedFeatures, MKLClassifier, MKLRegressor, OnlineMKLClassifier
from omkl.exceptions import InputError, NotFittedError

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
KERNELS = {
    "lin": "linear:on=2:4", "quad": "quadratic:normalize=average", "waves": "gaussian:features=20",
    "marks": "gaussian:features=10,map=nystrom,on=0:2",
}  # fmt: skip


def test_inner_products_are_the_learned_kernel(tmp_path):
    model = MKLClassifier(KERNELS, regularizer="uniform").fit(X, Y)
    assert all(model.kernel_weights_.values())
    Z = LearnedFeatures(model, prefit=True).fit(X).transform(X)
    np.testing.assert_allclose(Z @ Z.T, model.transform(X), atol=1e-9)
    names = LearnedFeatures(model, prefit=True).fit(X).get_feature_names_out()
    assert len(names) == len(set(names)) == Z.shape[1]
    assert names[0] == "lin[x2]"
    assert {
        "quad[x0 * x3]",
        "quad[x1^2]",
        "quad[constant]",
        "waves[cosine 9]",
        "waves[sine 0]",
        "marks[component 9]",
    } <= {*names}
    model.save(tmp_path / "m.npz")
    again = LearnedFeatures(omkl.load(tmp_path / "m.npz"), prefit=True).fit(X)
    np.testing.assert_array_equal(again.transform(X), Z)


def test_features_of_a_model_that_learns_online_reproduce_its_scores():
    model = OnlineMKLClassifier(KERNELS, regularizer="l2", weighting="norms", epochs=3, random_state=0).fit(X, Y > 0)
    features = LearnedFeatures(model, prefit=True).fit(X)
    Z = features.transform(X)
    weights = model.kernel_weights_
    gram = sum(weights[name] * kernel(X) for name, kernel in model.model_.codec.encoder.kernels.items())
    np.testing.assert_allclose(Z @ Z.T, gram, atol=1e-9)
    assert "lin[x3]" in features.get_feature_names_out()


def test_in_pipelines_searches_and_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    pipe = make_pipeline(LearnedFeatures(MKLClassifier(["quadratic", "linear"])), LinearSVC())
    search = GridSearchCV(pipe, {"learnedfeatures__estimator__C": [0.1, 1.0]}, cv=3).fit(frame, Y)
    assert search.score(frame, Y) > 0.95
    table = clone(pipe[0]).set_output(transform="pandas").fit(frame, Y).transform(frame)
    assert "quadratic[a * b]" in table.columns
    assert table.shape == (150, len(table.columns))


def test_sparse_features_stay_sparse():
    wide = sparse.random_array((60, 500), density=0.02, format="csr", rng=np.random.default_rng(0))
    y = np.arange(60) % 2
    features = LearnedFeatures(MKLClassifier(["linear"], C=10.0)).fit(wide, y)
    Z = features.transform(wide)
    assert sparse.issparse(Z)
    np.testing.assert_allclose((Z @ Z.T).toarray(), features.estimator_.transform(wide), atol=1e-9)


@pytest.mark.parametrize(
    ("model", "given", "match"),
    [
        (MKLClassifier(["gaussian"]), X, "approximate it by features="),
        (MKLRegressor("precomputed"), X @ X.T, "given as matrices"),
        (
            OnlineMKLClassifier(["gaussian:on=a"], random_state=0),
            [{"a": 1.0}, {"a": 2.0}] * 75,
            "approximate it by features=",
        ),
        (GroupLasso(), X, "has no kernels on rows"),
    ],
)
def test_what_has_no_features_is_refused(model, given, match):
    with pytest.raises(InputError, match=match):
        LearnedFeatures(model).fit(given, Y)
    with pytest.raises(NotFittedError):
        LearnedFeatures(model).transform(given)


def test_inner_products_of_dicts_are_the_learned_kernels_of_keys_and_arrays(rng):
    rows = [{"colour": "red" if v[0] > 0 else "blue", "n": 4.0 * v[1], "v": v[2:]} for v in rng.normal(size=(60, 4))]
    labels = [(row["colour"] == "red") == (row["v"].prod() > 0) for row in rows]
    kernels = ["quadratic", "quadratic:explicit=False,gamma=0.5", "gaussian:features=20"]
    features = LearnedFeatures(OnlineMKLClassifier(kernels, epochs=2, random_state=0)).fit(rows, labels)
    weights, encoder = features.estimator_.kernel_weights_, features.estimator_.model_.codec.encoder
    assert min(weights.values()) > 0
    V = np.array([row["v"] for row in rows])
    gram = sum(weights[name] * encoder.kernels[name](V, V) for name in kernels)
    colours, numbers = ([row[key] for row in rows] for key in ("colour", "n"))
    gram += weights["colour"] * np.equal.outer(colours, colours)
    unit = 2.0 ** np.round(np.log2(np.sqrt(np.mean(np.square(numbers)))))
    gram += weights["n"] * np.outer(numbers, numbers) / unit**2
    Z = features.transform(rows)
    np.testing.assert_allclose(Z @ Z.T, gram, atol=1e-12)
    names = features.get_feature_names_out().tolist()
    assert len(set(names)) == Z.shape[1] == len(names)
    assert {"colour=red", "n", "quadratic[0 * 1]", "gaussian:features=20[sine 9]"} <= set(names)
    assert sparse.issparse(LearnedFeatures(OnlineMKLClassifier(random_state=0)).fit(rows, labels).transform(rows))
    with pytest.raises(InputError, match="whose keys are names"):
        features.get_feature_names_out(["a"])


def test_names_that_are_given_are_used_or_refused_and_options_are_not_lost():
    pandas = pytest.importorskip("pandas")
    given = ["a", "b", "c", "d"]
    features = LearnedFeatures(MKLClassifier(["linear"])).fit(X, Y)
    assert features.get_feature_names_out(given).tolist() == [f"linear[{name}]" for name in given]
    with pytest.raises(ValueError, match="input_features should have length"):
        features.get_feature_names_out(["a"])
    framed = LearnedFeatures(MKLClassifier(["linear"])).fit(pandas.DataFrame(X, columns=given), Y)
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        framed.get_feature_names_out(["d", "c", "b", "a"])
    with pytest.raises(InputError, match="sample_weight is for fitting, and prefit=True fits nothing"):
        LearnedFeatures(features.estimator_, prefit=True).fit(X, Y, sample_weight=np.ones(len(X)))
