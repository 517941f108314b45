"""Predictions of single rows, in blocks and in threads: shortcuts and caches change neither
predictions nor errors.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import omkl
from omkl._threads import in_threads
from omkl.data import frames, synthetic_treebank
from omkl.estimators import targets
from omkl.exceptions import InputError
from omkl.features import token_features, vocabulary
from omkl.kernels import Linear, Polynomial
from omkl.mkl import base
from omkl.online import averaging

MODELS = {
    "classifier": lambda: omkl.OnlineMKLClassifier(epochs=2, random_state=0),
    "budget": lambda: omkl.OnlineMKLClassifier(epochs=2, budget=20, random_state=0),
    "Fourier": lambda: omkl.OnlineMKLClassifier(["gaussian:features=30"], epochs=2, random_state=0),
    "columns": lambda: omkl.OnlineMKLClassifier(
        ["linear:on=0:2", "gaussian:on=[1,3]"], epochs=2, random_state=0
    ),
    "regressor": lambda: omkl.OnlineMKLRegressor(epochs=2, random_state=0),
    "batch": lambda: omkl.MKLClassifier(["linear", "gaussian"]),
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 4))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


@pytest.fixture(params=MODELS)
def model(request, data):
    return MODELS[request.param]().fit(*data)


def test_rows_that_are_checked_here_are_predicted_as_those_that_scikit_learn_checks(
    model, data, monkeypatch
):
    rows = [data[0][i : i + 1] for i in range(10)] + [
        data[0],
        data[0].astype(np.float32),
        (5 * data[0]).astype(int),
    ]
    quick = [model.predict(row) for row in rows]
    for module in (frames, base):
        monkeypatch.setattr(module, "are_known_columns", lambda *arguments: False)
    for row, predicted in zip(rows, quick):
        assert_array_equal(model.predict(row), predicted)


def test_examples_that_are_checked_here_teach_the_same(data, monkeypatch):
    X, y = data
    models = []
    for few in (targets.FEW_CLASSES, 0):
        if not few:
            monkeypatch.setattr(frames, "are_known_columns", lambda *arguments: False)
            monkeypatch.setattr(targets, "FEW_CLASSES", few)
        model = omkl.OnlineMKLClassifier(random_state=0).partial_fit(X[:20], y[:20])
        for i in range(20, 60):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        models.append(model)
    assert_array_equal(*(model.decision_function(X) for model in models))


def some_dicts(rng, n):
    dicts = [
        {"a": rng.normal(), "b": None if i % 7 == 0 else rng.normal(), "word": f"w{i % 11}"}
        for i in range(n)
    ]
    return [{**row, "late": "x"} if i > 30 else row for i, row in enumerate(dicts)]


def some_sentences(rng, n):
    words = [[f"w{k}" for k in rng.integers(i // 5 + 3, size=rng.integers(1, 6))] for i in range(n)]
    return words, [[word[-1] for word in sentence] for sentence in words]


ONE_BY_ONE = {
    "default": (omkl.OnlineMKLClassifier, {}),
    "new labels": (omkl.OnlineMKLClassifier, {"kernels": ["linear"]}),
    "budget": (omkl.OnlineMKLClassifier, {"budget": 10, "loss": "hinge"}),
    "planned": (
        omkl.OnlineMKLClassifier,
        {"kernels": ["linear"], "epochs": omkl.Passes(1, n_examples=70)},
    ),
    "weights": (omkl.OnlineMKLRegressor, {"kernels": ["linear"]}),
    "dicts": (omkl.OnlineMKLClassifier, {"missing": "indicator", "weighting": "norms"}),
    "sentences": (omkl.SequenceLabeler, {}),
}


@pytest.mark.parametrize("case", ONE_BY_ONE)
def test_examples_learned_one_by_one_teach_what_the_training_loop_teaches(case, rng, tmp_path):
    kind, parameters = ONE_BY_ONE[case]
    X, y, weights = seventy_examples(case, rng)
    declared = {"classes": "growing"} if case in ("new labels", "sentences") else {}
    files = []
    noted = []
    # the loop tells callbacks
    for callbacks in (None, [lambda trainer, record: noted.append(record["epoch"])]):
        model = kind(random_state=0, callbacks=callbacks, **parameters)
        model.partial_fit(
            X[:10],
            y[:10],
            sample_weight=weights[0],
            **declared,
        )
        for i in range(10, 70):
            model.partial_fit(
                X[i : i + 1],
                y[i : i + 1],
                sample_weight=weights[i],
            )
        assert [record["epoch"] for record in model.history_] == list(range(1, 62))
        model.save(tmp_path / "model.omkl", training=True)
        files.append((tmp_path / "model.omkl").read_bytes())
    assert noted == list(range(1, 62))
    assert files[0] == files[1]


def seventy_examples(case, rng):
    """Return inputs, outputs, and weights or None."""
    X = rng.normal(size=(70, 3))
    y = np.arange(70) % 2
    weights = [None] * 70
    if case == "new labels":
        y = np.arange(70) // 20 + np.arange(70) % 2
    elif case == "weights":
        y = X[:, 0] + rng.normal(size=70)
        weights = [None if i % 3 else i / 10 + 0.5 for i in range(70)]
    elif case == "dicts":
        X = some_dicts(rng, 70)
    elif case == "sentences":
        X, y = some_sentences(rng, 70)
    return X, y, weights


@pytest.mark.parametrize(
    ("row", "label", "weight", "message"),
    [
        (np.zeros((1, 3)), [1], None, "3 features"),
        (np.full((1, 4), np.inf), [1], None, "inf"),
        (np.zeros((1, 4)), [7], None, "7 must be one of the labels"),
        (np.zeros((1, 4)), [1], [-1.0], "sample_weight"),
        (np.zeros((1, 4)), None, None, "requires y"),
        ([{"a": 1.0}], [1], None, "rows of 4 numbers"),
    ],
)
def test_a_bad_example_after_others_changes_nothing(data, row, label, weight, message, tmp_path):
    model = (
        omkl.OnlineMKLClassifier(["linear"], random_state=0)
        .fit(*data)
        .partial_fit(data[0][:5], data[1][:5])
    )
    model.save(tmp_path / "before", training=True)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(row, label, sample_weight=weight)
    model.save(tmp_path / "after", training=True)
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (np.zeros((1, 3)), "3 features"),
        (np.zeros(4), "2D array"),
        (np.full((1, 4), np.inf), "got inf in row 0"),
        (np.zeros((0, 4)), "0 sample"),
        (np.full((1, 4), 1j), "Complex"),
    ],
)
def test_a_row_that_is_not_as_it_should_be_is_refused_as_ever(model, row, message):
    with pytest.raises(ValueError, match=message):
        model.predict(row)


def test_a_row_without_the_names_of_columns_is_warned_of_as_ever(data):
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    model = omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(frame, data[1])
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(data[0][:1])


@pytest.mark.parametrize(
    "labels", [["a"], np.array(["a"]), np.array([None], dtype=object), np.array([0.5])]
)
def test_a_label_that_is_none_of_the_model_is_refused_one_at_a_time(data, labels):
    model = omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(*data)
    with pytest.raises((InputError, ValueError)):
        model.partial_fit(data[0][:1], labels)


def test_rows_of_dicts_take_labels_of_any_kind(data):
    X, y = data
    dicts = [{"a": float(a), "b": str(int(b))} for a, b, *_ in X]
    for labels in (y, y.tolist(), list(map(str, y)), list(map(bool, y))):
        model = omkl.OnlineMKLClassifier(random_state=0).partial_fit(dicts, labels)
        for i in range(5):
            model.partial_fit(dicts[i : i + 1], labels[i : i + 1])
        assert model.score(dicts, labels) > 0.6


def test_features_of_several_kernels_are_those_of_sparse_rows(rng):
    X = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.5)
    y = (X[:, 0] > 0).astype(int)
    kernels = {"a": Linear(), "b": Polynomial(2, on=slice(0, 2)), "c": Linear(normalize=None, on=3)}
    model = omkl.OnlineMKLClassifier(kernels, epochs=2, random_state=0).fit(X, y)
    encoder = model.model_.codec.encoder
    features = encoder.encode(X, np.arange(31)).features
    blocks = [
        sparse.csr_array(kernel.fit(X).features(kernel.view(X))) for kernel in kernels.values()
    ]
    expected = sparse.hstack(blocks, format="csr")
    for array, expected_array in zip(features, (expected.indptr, expected.indices, expected.data)):
        assert_array_equal(array, expected_array)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_a_single_class_is_predicted_until_there_is_another(loss):
    model = omkl.OnlineMKLClassifier(loss=loss, random_state=0).partial_fit(
        [{"a": "x"}], ["one"], classes="growing"
    )
    assert model.predict([{"a": "x"}, {"b": 1.0}]).tolist() == ["one", "one"]
    assert model.decision_function([{"a": "x"}]).shape == (1, 1)
    if loss == "crf":
        assert model.predict_proba([{"a": "x"}]).tolist() == [[1.0]]
    model.partial_fit([{"a": "y"}] * 3, ["two"] * 3)
    assert model.predict([{"a": "y"}]).tolist() == ["two"]


@pytest.mark.parametrize("average", ["quadratic", "last"])
@pytest.mark.parametrize(
    "kernels", [None, ["linear:on=a", "gaussian:on=[a,b]"], ["gaussian:on=b,features=20"]]
)
def test_rows_between_examples_are_predicted_as_by_the_frozen_model(rng, kernels, average):
    data = [
        {"a": float(a), "b": float(b), "c": f"{int(c)}"} for a, b, c in 3 * rng.normal(size=(60, 3))
    ]
    y = [int(row["a"] + row["b"] > 0) + 2 * (row["c"] == "1") for row in data]
    model = omkl.OnlineMKLClassifier(kernels, average=average, random_state=0).partial_fit(
        data[:10], y[:10], range(4)
    )
    for i in range(10, 60):
        model.partial_fit(data[i : i + 1], y[i : i + 1])
        rows = data[i - 10 : i + 1]
        between = model.decision_function(rows)
        assert not model.model_.trainer.average_at_hand
        encoded = model.model_.codec.encoder.encode(rows, np.arange(len(rows) + 1))
        ((_, frozen),) = model.predictor_.blocks(encoded)
        assert_array_equal(between, frozen.unary)


def test_a_model_that_learns_no_more_is_frozen_at_the_second_look(data):
    model = omkl.OnlineMKLClassifier(random_state=0).partial_fit(*data)
    first = model.decision_function(data[0][:1])
    assert not model.model_.trainer.average_at_hand
    assert_array_equal(model.decision_function(data[0][:1]), first)
    assert model.model_.trainer.average_at_hand


@pytest.mark.parametrize("seed", range(20))
def test_few_tokens_are_encoded_as_many_are(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    numbers = [0, 0.0, 1, True, False, -2.5, 1e-30, np.float64(3.0), np.float32(0.1), 2**60]
    values = [*numbers, "one", "two", None, ["one", "two"], {"sub": 2.0}]
    keys = list("abcd")

    def tokens():
        keys_of_token = (
            keys if rng.random() < 0.5 else list(rng.permutation(keys)[: rng.integers(1, 5)])
        )
        few = values[: rng.choice([len(numbers), len(numbers) + 2, len(values)])]
        return [
            {str(key): few[rng.integers(len(few))] for key in keys_of_token}
            for _ in range(rng.integers(1, 4))
        ]

    chunks = [(tokens(), bool(rng.random() < 0.6)) for _ in range(40)]
    encodings = []
    for few in (vocabulary.FEW, 0):
        monkeypatch.setattr(vocabulary, "FEW", few)
        words = vocabulary.Vocabulary()
        encoded = [words.encode(chunk, grow) for chunk, grow in chunks]
        encodings.append((encoded, words.ids, words.units, words.groups))
    assert encodings[0][1:] == encodings[1][1:]
    for quick, slow in zip(encodings[0][0], encodings[1][0]):
        for quick_array, slow_array in zip(quick, slow):
            assert_array_equal(quick_array, slow_array)


@pytest.mark.parametrize("kernels", [None, ["gaussian:on=v"], ["gaussian:on=v,features=10"]])
@pytest.mark.parametrize("transitions", ["free", "regularized", None])
def test_sequences_between_examples_are_labeled_as_by_the_frozen_model(rng, kernels, transitions):
    def sequence():
        tags = rng.choice(["D", "N", "V"], rng.integers(1, 6)).tolist()
        return [{"w": f"{tag}{rng.integers(9)}", "v": rng.normal(size=2)} for tag in tags], tags

    first = [sequence() for _ in range(5)]
    labeler = omkl.SequenceLabeler(kernels, transitions=transitions, random_state=0)
    labeler.partial_fit(
        [x for x, _ in first],
        [y for _, y in first],
        ["D", "N", "V"],
    )
    for _ in range(30):
        x, y = sequence()
        labeler.partial_fit([x], [y])
        new = sequence()[0]
        between = labeler.predict([new])[0]
        assert not labeler.model_.trainer.average_at_hand
        assert between.tolist() == labeler.predict([new])[0].tolist()
        assert labeler.model_.trainer.average_at_hand


def sentences(rng, n):
    X = [
        [f"{rng.choice(list('abc'))}{rng.integers(20)}" for _ in range(rng.integers(1, 9))]
        for _ in range(n)
    ]
    return X, [[word[0] for word in x] for x in X]


@pytest.mark.parametrize("kind", ["words", "dicts", "kernels"])
def test_labels_do_not_depend_on_threads_nor_on_the_other_sentences(kind, rng, monkeypatch):
    X, y = sentences(rng, 120)
    if kind == "dicts":
        X = [token_features(x) for x in X]
    if kind == "kernels":
        X = [rng.normal(size=(len(x), 3)) for x in X]
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X[:60], y[:60])
    together = labeler.predict(X)
    monkeypatch.setattr(averaging, "BLOCK", 200)  # dozens of blocks
    alone = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X[:60], y[:60])
    for n_jobs in (None, 1, 2, 5, -1):
        threaded = alone.set_params(n_jobs=n_jobs).predict(X)
        assert [labels.tolist() for labels in threaded] == [labels.tolist() for labels in together]
        assert alone.score(X, y) == labeler.score(X, y)
    assert [alone.predict([x])[0].tolist() for x in X] == [labels.tolist() for labels in together]


def test_trees_do_not_depend_on_threads():
    treebank = synthetic_treebank(900, vocabulary=10, random_state=0)
    parser = omkl.DependencyParser("small", epochs=1, memory=10, random_state=0).fit(treebank[:60])
    together = parser.parse(treebank)
    for n_jobs in (2, -1):
        threaded = parser.set_params(n_jobs=n_jobs).parse(treebank)
        assert_array_equal(threaded.heads, together.heads)
        assert_array_equal(threaded.deprels, together.deprels)
    alone = [parser.parse(sentence)[0].heads for sentence in treebank[:20]]
    assert alone == [sentence.heads for sentence in together[:20]]


def test_parts_come_back_in_their_order_and_errors_come_out():
    assert in_threads(lambda part: part**2, range(20), 4) == [part**2 for part in range(20)]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda part: 1 / part, range(3), 2)
