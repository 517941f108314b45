"""Learning one dict at a time: river's own checks, and the same as partial_fit and predict."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.exceptions import InputError

from ..cases import slow

river = pytest.importorskip("river")

from river import checks, datasets, evaluate, metrics, preprocessing  # noqa: E402

from omkl.mkl.river import RiverClassifier, RiverRegressor  # noqa: E402

MODELS = {
    "hinge": lambda: RiverClassifier(omkl.OnlineMKLClassifier(loss="hinge", random_state=0)),
    "crf": lambda: RiverClassifier(omkl.OnlineMKLClassifier(random_state=0)),
    "norms": lambda: RiverClassifier(omkl.OnlineMKLClassifier(weighting="norms", random_state=0)),
    "regressor": lambda: RiverRegressor(omkl.OnlineMKLRegressor(random_state=0)),
}


def named_checks():
    for name, make in MODELS.items():
        counts = {}
        for check in checks.yield_checks(make()):
            counts[check.__name__] = counts.get(check.__name__, 0) + 1
            yield pytest.param(
                name,
                check,
                id=f"{name}-{check.__name__}-{counts[check.__name__]}",
            )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "check"), list(named_checks()))
def test_check_of_river(name, check):
    check(MODELS[name]().clone())


def rows(rng, n=60):
    for _ in range(n):
        x = {
            "a": float(rng.normal()),
            "b": float(rng.normal()),
            "word": str(rng.choice(["one", "two", "three"])),
        }
        yield x, ["no", "yes"][int(x["a"] + (x["word"] == "two") > 0.3)]


def test_it_learns_and_predicts_as_its_estimator_does(rng):
    kernels = ["linear:on=a", "gaussian:on=[a,b],features=20"]
    parameters = {"kernels": kernels, "loss": "crf", "random_state": 0}
    model = RiverClassifier(omkl.OnlineMKLClassifier(**parameters))
    plain = omkl.OnlineMKLClassifier(**parameters)
    for x, y in rows(rng):
        model.learn_one(x, y)
        plain.partial_fit(
            [x],
            [y],
            **({} if hasattr(plain, "model_") else {"classes": "growing"}),
        )
        assert model.predict_one(x) == plain.predict([x])[0]
        probabilities = plain.predict_proba([x])[0]
        assert model.predict_proba_one(x) == dict(
            zip(plain.classes_.tolist(), probabilities.tolist())
        )
    assert_array_equal(
        model.estimator_.decision_function([x]),
        plain.decision_function([x]),
    )


def test_weights_count_as_sample_weights_do(rng):
    data = list(rows(rng))
    # scales see a row of weight 2 only once
    kernels = ["linear:on=a", "gaussian:on=[a,b],sigma2=1,features=20"]
    models = [RiverClassifier(omkl.OnlineMKLClassifier(kernels, random_state=0)) for _ in range(2)]
    for i, (x, y) in enumerate(data):
        models[0].learn_one(x, y, w=float(i % 3))
        for _ in range(i % 3):
            models[1].learn_one(x, y)
    scores = [[model.estimator_.decision_function([x])[0] for x, _ in data] for model in models]
    assert_allclose(*scores)


def test_it_goes_on_from_what_an_estimator_has_learned_and_leaves_it_alone(rng):
    data = list(rows(rng))
    X = [x for x, _ in data]
    y = [y for _, y in data]
    fitted = omkl.OnlineMKLClassifier(random_state=0).partial_fit(
        X[:30],
        y[:30],
        classes="growing",
    )
    before = fitted.decision_function(X)
    model = RiverClassifier(fitted)
    for x, label in data[30:]:
        model.learn_one(x, label)
    assert_array_equal(fitted.decision_function(X), before)
    # products of many rows round otherwise than those of one
    together = fitted.partial_fit(X[30:], y[30:])
    assert_allclose(
        model.estimator_.decision_function(X), together.decision_function(X), atol=1e-12
    )


def test_it_is_evaluated_by_river():
    model = preprocessing.StandardScaler() | RiverClassifier(
        omkl.OnlineMKLClassifier(random_state=0)
    )
    assert evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC()).get() > 0.9


@pytest.mark.parametrize(
    ("data", "n", "accuracy"),
    [(datasets.ImageSegments, 700, 0.76), slow(datasets.Bananas, 1500, 0.8)],
)
def test_numbers_of_dicts_are_columns_of_any_unit(data, n, accuracy):
    accuracies = []
    for unit in (1.0, 2.0**20):
        model = RiverClassifier(omkl.OnlineMKLClassifier(random_state=0))
        n_right = 0
        for x, y in data().take(n):
            x = {key: unit * value for key, value in x.items()}
            n_right += model.predict_one(x) == y
            model.learn_one(x, y)
        accuracies.append(n_right / n)
    assert min(accuracies) > accuracy
    assert abs(accuracies[0] - accuracies[1]) < 0.005


def test_declared_classes_are_all_that_there_are(rng):
    model = RiverClassifier(omkl.OnlineMKLClassifier(random_state=0), classes=["no", "yes"])
    for x, y in rows(rng):
        model.learn_one(x, y)
    with pytest.raises(InputError, match="'perhaps' must be one of the labels"):
        model.learn_one(x, "perhaps")


@pytest.mark.slow
def test_sets_keep_their_coverage_on_a_stream_that_changes(rng):
    def examples_of(n, decisive):
        for values in rng.normal(size=(n, 2)).tolist():
            x = dict(zip("ab", values))
            yield (
                x,
                ["low", "mid", "high"][np.digitize(x[decisive] + 0.3 * rng.normal(), [-0.5, 0.5])],
            )

    X, y = zip(*examples_of(400, "a"))
    first = omkl.OnlineMKLClassifier(random_state=0).partial_fit(
        list(X[:200]), y[:200], classes="growing"
    )
    checked = omkl.guarantee(
        first,
        list(X[200:]),
        y[200:],
    )
    model = RiverClassifier(checked, miss=0.1)
    covered = []
    still = []
    sizes = []
    for x, label in examples_of(600, "b"):
        predicted_set = model.predict_set_one(x)
        covered.append(label in predicted_set)
        still.append(label in checked.sets([x], miss=0.1)[0])
        sizes.append(len(predicted_set))
        model.learn_one(x, label)
    assert np.mean(still) < 0.6
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)
    assert np.mean(sizes[300:]) < 1.7
    assert checked.levels_ == {}
    with pytest.raises(InputError, match=r"omkl\.guarantee"):
        MODELS["crf"]().predict_set_one(x)


@pytest.mark.slow
def test_without_river_one_sentence_says_what_to_do():
    code = "import sys; sys.modules['river'] = None\nimport omkl.mkl.river"
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
    )
    assert (
        "MissingDependencyError: RiverClassifier and RiverRegressor need river: pip install"
        in finished.stderr
    )


def test_keys_that_are_equal_as_strings_are_refused():
    model = RiverClassifier(omkl.OnlineMKLClassifier(random_state=0))
    model.learn_one({1: 0.5, "2": 1.0}, "a")
    for row in ({1: 0.5, "1": 2.0}, {"x": 1.0, 1: 0.5, "1": 2.0}):
        with pytest.raises(InputError, match="must differ as strings, got several '1'"):
            model.learn_one(row, "b")
        with pytest.raises(InputError, match="must differ as strings"):
            model.predict_one(row)
