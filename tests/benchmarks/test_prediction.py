"""Use of trained models: one row, one sentence, one example after the other, threads, and files."""

from itertools import cycle

import numpy as np
import pytest

import omkl
from omkl.data import read_treebank
from omkl.features import token_features
from tests.benchmarks.measuring import Floor

CLASSIFIERS = {
    "linear": {"kernels": ["linear"]},
    "default kernels": {},
    "budget 100": {"budget": 100},
    "fourier": {"kernels": ["gaussian:features=200"]},
}


def some_rows(n=2000):
    X = np.random.default_rng(0).normal(size=(n, 20))
    return X, (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)


def river_and_rows():
    from river import linear_model

    X, y = some_rows()
    model = linear_model.LogisticRegression()
    rows = [dict(enumerate(x)) for x in X.tolist()]
    for row, label in zip(rows, y):
        model.learn_one(row, bool(label))
    return model, rows, y


@pytest.mark.parametrize("case", [*CLASSIFIERS, "batch"])
def test_predicting_one_row(measure, case):
    """Predict one row of 20 numbers; the floor multiplies it with 100 rows, peers are linear."""
    if case == "batch":
        X, y = some_rows(300)
        model = omkl.MKLClassifier(["linear", "gaussian"])
    else:
        X, y = some_rows()
        model = omkl.OnlineMKLClassifier(epochs=2, random_state=0, **CLASSIFIERS[case])
    model.fit(X, y)
    row = X[:1]
    support = X[:100]

    def river():
        peer, rows, _ = river_and_rows()
        return lambda: peer.predict_one(rows[0])

    def sgd():
        from sklearn.linear_model import SGDClassifier

        peer = SGDClassifier().fit(X, y)
        return lambda: peer.predict(row)

    floor = Floor("product", lambda: row @ support.T)
    measure(lambda: model.predict(row), floor=floor, peers={"river": river, "SGD": sgd})


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_learning_one_row(measure, case):
    X, y = some_rows()
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0, **CLASSIFIERS[case]).fit(X, y)
    turn = cycle(range(1000)).__next__

    def learn():
        i = turn()
        model.partial_fit(X[i : i + 1], y[i : i + 1])

    def river():
        peer, rows, y = river_and_rows()
        next_row = cycle(zip(rows, y.astype(bool).tolist())).__next__
        return lambda: peer.learn_one(*next_row())

    def sgd():
        from sklearn.linear_model import SGDClassifier

        peer = SGDClassifier(average=True).fit(X, y)
        turn = cycle(range(1000)).__next__
        return lambda: peer.partial_fit(X[(i := turn()) : i + 1], y[i : i + 1])

    support = X[:100]
    measure(
        learn, floor=Floor("product", lambda: X[:1] @ support.T), peers={"river": river, "SGD": sgd}
    )


def test_one_example_after_the_other(measure):
    """Predict and learn dicts of two numbers and a word, one by one; river uses numbers only."""
    pytest.importorskip("river")
    from omkl.mkl.river import RiverClassifier

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2000, 2)).tolist()
    words = rng.integers(0, 100_000, size=2000).tolist()
    rows = [
        ({"a": a, "b": b, "word": f"w{word}"}, a + b > 0) for (a, b), word in zip(numbers, words)
    ]

    def passing(model, rows):
        def run():
            for x, label in rows:
                model.predict_one(x)
                model.learn_one(x, label)

        return run

    def river():
        from river import linear_model

        return passing(
            linear_model.LogisticRegression(), [({"a": x["a"], "b": x["b"]}, y) for x, y in rows]
        )

    seconds = measure(
        passing(RiverClassifier(omkl.OnlineMKLClassifier(random_state=0)), rows),
        peers={"river": river},
    )
    measure.note(microseconds_an_example=1e6 * seconds / len(rows))


@pytest.mark.parametrize("what", ["Gram matrices", "predictions"])
def test_threads_over_rows(measure, what):
    """Three kernels on rows of 50 numbers, on two threads against one."""
    from omkl.groups.expansions.cached import dense_grams
    from omkl.kernels import as_kernel

    X = np.random.default_rng(0).normal(size=(3000, 50))
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    if what == "predictions":
        model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(X[:1000], y[:1000])
        many = np.tile(X, (5, 1))
        calls = {n: lambda n=n: model.set_params(n_jobs=n).decision_function(many) for n in (1, 2)}
    else:
        kernels = [as_kernel(name).fit_view(X) for name in ("linear", "quadratic", "gaussian")]
        calls = {n: lambda n=n: dense_grams(kernels, [X] * 3, np.float32, n) for n in (1, 2)}
    np.testing.assert_array_equal(calls[1](), calls[2]())
    measure(calls[2], peers={"one thread": lambda: calls[1]}, clock="wall")


@pytest.fixture(scope="module")
def treebanks(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    return [
        read_treebank(real_data(folder.format(part)), keep_text=False) for part in ("train", "test")
    ]


@pytest.fixture(scope="module")
def models(treebanks, tmp_path_factory):
    """Trained models of each kind, and the folder of their files."""
    train = treebanks[0][:1500]
    words = [sentence.forms for sentence in train]
    tags = [sentence.upos for sentence in train]
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0)
    return {
        "tagger": labeler.fit(words, tags),
        "tagger on dicts": omkl.SequenceLabeler(epochs=2, random_state=0).fit(
            [*map(token_features, words)], tags
        ),
        "parser": omkl.DependencyParser("martins507", epochs=1, random_state=0, verbose=False).fit(
            train
        ),
        "folder": tmp_path_factory.mktemp("models"),
    }


def tagging_by_crfsuite(train, path):
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    for s in train:
        trainer.append(token_features(s.forms), s.upos)
    trainer.set_params({"max_iterations": 2})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


@pytest.mark.parametrize("kind", ["tagger", "tagger on dicts", "parser"])
def test_one_sentence(measure, treebanks, models, kind):
    """Annotate one sentence of 20 words; tagging makes the features, unless they are given."""
    sentence = next(s for s in treebanks[1] if len(s) == 20)
    model = models[kind]
    features = token_features(sentence.forms)

    def crfsuite():
        tagger = tagging_by_crfsuite(treebanks[0][:1500], models["folder"] / f"crfsuite {kind}")
        if kind == "tagger":
            return lambda: tagger.tag(token_features(sentence.forms))
        return lambda: tagger.tag(features)

    calls = {
        "tagger": lambda: model.predict([sentence.forms]),
        "tagger on dicts": lambda: model.predict([features]),
        "parser": lambda: model.parse(sentence),
    }
    measure(calls[kind], peers={} if kind == "parser" else {"CRFsuite": crfsuite})


@pytest.mark.parametrize("kind", ["tagger", "parser"])
def test_two_threads(measure, treebanks, models, kind):
    """Predict on two threads; the peer is one thread, and times are wall times."""
    test, model = treebanks[1], models[kind]
    data = test if kind == "parser" else [s.forms for s in test]

    def one_thread():
        model.set_params(n_jobs=1)
        return lambda: model.predict(data)

    model.set_params(n_jobs=2)
    measure(lambda: model.predict(data), peers={"one thread": one_thread}, clock="wall")
    model.set_params(n_jobs=None)


def floor_of_loading(model, path):
    """Read the file's bytes, and make a tagger's dict or memory for a parser's tables."""
    if isinstance(model, omkl.DependencyParser):
        table = model.predictor_.banks[0].table
        return Floor("bytes, cells", lambda: (path.read_bytes(), np.ones_like(table)))
    values = []
    for ids_of_key in model.model_.codec.encoder.vocabulary.ids.values():
        values += map(str, ids_of_key)
    text = "\0".join(values)
    ids = list(range(len(values)))
    return Floor("bytes, dict", lambda: (path.read_bytes(), dict(zip(text.split("\0"), ids))))


@pytest.mark.parametrize("kind", ["tagger", "parser"])
@pytest.mark.parametrize("dtype", ["whole", "float64", "float32", "float16"])
def test_loading(measure, treebanks, models, kind, dtype):
    test = treebanks[1]
    model = models[kind]
    path = models["folder"] / f"{kind}-{dtype}.npz"
    options = {
        "whole": {},
        "float64": {"training": False},
        "float32": {"training": False, "dtype": "float32"},
        "float16": {"training": False, "dtype": "float16"},
    }[dtype]
    model.save(path, **options)
    loaded = omkl.load(path)
    measure(lambda: omkl.load(path), floor=floor_of_loading(loaded, path))
    data = test if kind == "parser" else [s.forms for s in test]
    same = np.concatenate(model.predict(data)) == np.concatenate(loaded.predict(data))
    measure.note(file_mb=path.stat().st_size / 1e6, predictions_that_differ=float(1 - same.mean()))
