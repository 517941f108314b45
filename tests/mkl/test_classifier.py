"""OnlineMKLClassifier: scikit-learn's checks, behaviour beyond them, and budgets of support vectors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl.exceptions import InputError
from omkl.groups import BudgetedExpansion


@parametrize_with_checks(
    [
        omkl.OnlineMKLClassifier(),
        omkl.OnlineMKLClassifier(kernels=["linear"], loss="crf", method="rda"),
        omkl.OnlineMKLClassifier(kernels=["laplacian", "b1"], regularizer="elastic-net", cache_size=0, epochs=5),
        omkl.OnlineMKLClassifier(kernels=["gaussian"], budget=20, epochs=10),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_does_not_depend_on_how_zeros_and_indices_are_held(rng):
    X = np.where(rng.random((60, 4)) < 0.5, 0.0, rng.normal(size=(60, 4)))
    y = (X[:, 0] > X[:, 1]).astype(int)
    plain = sparse.csr_array(X)
    wide, stored = plain.copy(), sparse.csr_array(np.where(X == 0.0, 1.0, X))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    stored.data[X.ravel() == 0.0] = 0.0
    for same, others in ((plain, (wide, stored, sparse.bsr_array(X))), (X, (np.where(X == 0.0, -0.0, X),))):
        expected = omkl.OnlineMKLClassifier("linear", random_state=0).fit(same, y).decision_function(X)
        for other in others:
            model = omkl.OnlineMKLClassifier("linear", random_state=0).fit(other, y)
            assert_array_equal(model.decision_function(X), expected)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits], ids=["binary", "ten classes"])
def test_accuracy_is_that_of_a_good_kernel_machine(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X) if load is load_breast_cancer else X / 16
    parts = train_test_split(X, y, random_state=0)
    classifier = omkl.OnlineMKLClassifier(random_state=0).fit(parts[0], parts[2])
    assert classifier.score(parts[1], parts[3]) > 0.96
    assert classifier.decision_function(X).shape == ((len(X),) if len(classifier.classes_) == 2 else (len(X), 10))


def test_mkl_finds_the_columns_that_matter(rng):
    X = rng.normal(size=(300, 12))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1])
    kernels = {f"columns {i}-{i + 1}": f"gaussian:on={i}:{i + 2}" for i in range(0, 12, 2)}
    classifier = omkl.OnlineMKLClassifier(kernels, C=0.1, random_state=0).fit(X, y)
    assert max(classifier.kernel_weights_, key=classifier.kernel_weights_.get) == "columns 0-1"
    assert classifier.kernel_weights_["columns 0-1"] > 0.6


def test_sparse_input_is_dense_input():
    X, y = load_digits(return_X_y=True)
    dense = omkl.OnlineMKLClassifier("linear", shuffle=False, epochs=3).fit(X, y)
    thin = omkl.OnlineMKLClassifier("linear", shuffle=False, epochs=3).fit(sparse.csr_matrix(X), y)
    assert_array_equal(dense.decision_function(X), thin.decision_function(sparse.csr_array(X)))
    with pytest.raises(InputError, match="needs a dense array"):
        omkl.OnlineMKLClassifier("gaussian").fit(sparse.csr_matrix(X), y)
    with pytest.raises(InputError, match="needs a dense array"):
        omkl.OnlineMKLClassifier("gaussian", epochs=1).fit(X, y).predict(sparse.csr_matrix(X))


def test_dicts_are_accepted():
    X = [{"word": w, "length": len(w)} for w in ("cat", "dog", "running", "jumping", "hen", "sleeping")]
    y = ["noun", "noun", "verb", "verb", "noun", "verb"]
    classifier = omkl.OnlineMKLClassifier(epochs=60, random_state=0).fit(X, y)
    assert classifier.predict(X).tolist() == y
    assert classifier.predict([{"word": "walking", "length": 7, "new": "x"}]).tolist() == ["verb"]
    assert set(classifier.kernel_weights_) == {"word", "length"}


def test_probabilities_are_those_of_the_crf_loss():
    X, y = load_iris(return_X_y=True)
    classifier = omkl.OnlineMKLClassifier("linear", loss="crf", random_state=0).fit(X, y)
    assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0)
    binary = omkl.OnlineMKLClassifier("linear", loss="crf", random_state=0).fit(X, y > 0)
    z = binary.decision_function(X)
    assert_allclose(binary.predict_proba(X)[:, 1], 1 / (1 + np.exp(-z)))
    assert not hasattr(omkl.OnlineMKLClassifier(), "predict_proba")


def test_a_costlier_mistake_gets_a_wider_margin():
    """Separable classes: the margin between two classes grows with the cost of confusing them."""
    X, y = load_iris(return_X_y=True)
    X, y = np.eye(3)[y], y
    cost = np.ones((3, 3)) - np.eye(3)
    cost[2, 0] = cost[0, 2] = 4
    margins = []
    for costs in (None, cost):
        scores = (
            omkl.OnlineMKLClassifier("linear", C=100, cost=costs, random_state=0).fit(X, y).decision_function(np.eye(3))
        )
        margins.append(scores[2, 2] - scores[2, 0])
        assert (scores.argmax(axis=1) == [0, 1, 2]).all()
    assert margins[1] > 2 * margins[0]


def test_more_classes_than_the_examples_have_are_declared():
    X, y = load_iris(return_X_y=True)
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(X[y > 0], y[y > 0], classes=np.arange(4))
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.decision_function(X).shape == (150, 4)
    with pytest.raises(InputError, match="2 must be one of the labels"):
        omkl.OnlineMKLClassifier().fit(X, y, classes=[0, 1])


def test_partial_fit_learns_from_a_stream():
    X, y = load_digits(return_X_y=True)
    classifier = omkl.OnlineMKLClassifier(["linear", "gaussian:sigma2=500"], random_state=0)
    for rows in np.array_split(np.random.default_rng(0).permutation(len(y)), 40):
        classifier.partial_fit(X[rows], y[rows], classes=np.arange(10))
    assert classifier.score(X, y) > 0.95
    with pytest.raises(InputError, match="must be one of the labels of the model"):
        classifier.partial_fit(X[:1], [11])


def test_a_copy_goes_on_training_like_the_original():
    """Views of shared arrays must be views again in a copy."""
    X, y = load_iris(return_X_y=True)
    first = omkl.OnlineMKLClassifier(["linear", "gaussian"], random_state=0, epochs=2).fit(X, y)
    second = pickle.loads(pickle.dumps(first))
    for model in (first, second):
        model.partial_fit(X[::3], y[::3])
    assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert first.kernel_weights_ == second.kernel_weights_


KERNELS = {"linear": "linear", "dual": "linear:explicit=False", "gaussian": "gaussian:sigma2=1", "b1": "b1:h=2"}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def budgeted_bank(model):
    (bank,) = [bank for bank in model.model_.trainer.banks if isinstance(bank, BudgetedExpansion)]
    return bank


def test_a_fit_on_arrays_is_a_stream_of_its_examples(iris):
    """Same rounds, same order, same bits, for all dual kernels of the model in one bank."""
    X, y = iris
    options = {"budget": 15, "n_examples": len(y), "weighting": "norms"}
    fitted = omkl.OnlineMKLClassifier(KERNELS, epochs=1, shuffle=False, random_state=0, **options).fit(X, y)
    streamed = omkl.OnlineMKLClassifier(KERNELS, **options)
    for low in range(0, len(y), 20):
        streamed.partial_fit(X[low : low + 20], y[low : low + 20], classes=[0, 1, 2])
    for model in (fitted, streamed):
        bank = budgeted_bank(model)
        assert bank.names == ["dual", "gaussian", "b1"]
        assert bank.n_support == 15
    fitted.model_.trainer.recompute_norms(), streamed.model_.trainer.recompute_norms()
    assert_array_equal(fitted.decision_function(X), streamed.decision_function(X))
    assert fitted.kernel_weights_ == streamed.kernel_weights_


def test_a_budget_that_is_not_spent_changes_nothing(iris):
    X, y = iris
    models = [
        omkl.OnlineMKLClassifier(KERNELS, epochs=3, random_state=0, budget=budget).fit(X, y) for budget in (None, 500)
    ]
    assert_allclose(models[0].decision_function(X), models[1].decision_function(X), rtol=1e-5, atol=1e-6)


def test_memory_is_constant_on_a_stream():
    X, y = load_digits(return_X_y=True)
    model = omkl.OnlineMKLClassifier(["linear", "gaussian", "laplacian"], budget=50)
    usage = []
    for low in range(0, 1500, 100):
        model.partial_fit(X[low : low + 100], y[low : low + 100], classes=np.arange(10))
        usage.append(model.memory_usage())
    assert budgeted_bank(model).n_support == 50
    assert len({one["training"] for one in usage}) == 1
    assert len({one["prediction"] for one in usage[-5:]}) == 1
    assert model.score(X[1500:], y[1500:]) > 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget must be a whole number > 0, not 0"),
        ({"budget": 2.5}, "budget must be a whole number > 0, not 2.5"),
        ({"budget": "many"}, "budget must be a whole number > 0, not 'many'"),
    ],
)
def test_bad_budgets_are_refused_at_the_door(options, message, iris):
    with pytest.raises(InputError, match=message):
        omkl.OnlineMKLClassifier(**options).fit(*iris)
    with pytest.raises(InputError, match=message):
        omkl.SequenceLabeler(**options).partial_fit([iris[0]], [iris[1]])
