"""What it takes to use a trained tagger or parser: one sentence at a time, threads, and files that only predict."""

import time

import numpy as np
import pycrfsuite
import pytest

import omkl
from omkl.data import read_treebank
from omkl.estimators import evaluate_treebanks
from omkl.features import token_features

EPOCHS = {"tagger": 10, "parser": 2}


@pytest.fixture(scope="module")
def treebanks(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    return [read_treebank(real_data(folder.format(part)), keep_text=False) for part in ("train", "test")]


@pytest.fixture(scope="module")
def models(treebanks, tmp_path_factory):
    """For each kind of model, the one that was trained, and the path of its file."""
    train, folder = treebanks[0], tmp_path_factory.mktemp("models")
    words, tags = [s.forms for s in train], [s.upos for s in train]
    tagger = omkl.SequenceLabeler(epochs=EPOCHS["tagger"], random_state=0).fit(words, tags)
    as_dicts = omkl.SequenceLabeler(epochs=2, random_state=0).fit(
        [token_features(x) for x in words[:3000]], tags[:3000]
    )
    parser = omkl.DependencyParser("martins507", epochs=EPOCHS["parser"], random_state=0).fit(train)
    for name, model in (("tagger", tagger), ("parser", parser)):
        model.save(folder / f"{name}.npz")
    crf = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    for x, y in zip(words, tags):
        crf.append(token_features(x), y)
    crf.set_params({"max_iterations": EPOCHS["tagger"]})
    crf.train(str(folder / "crfsuite"))
    return {"tagger": tagger, "tagger on dicts": as_dicts, "parser": parser, "folder": folder}


def quickest(function, repeats):
    """Seconds of a call when the machine disturbs it least."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def test_one_sentence(benchmark, treebanks, models):
    sentence = next(s for s in treebanks[1] if len(s) == 20)
    features = token_features(sentence.forms)
    crfsuite = pycrfsuite.Tagger()
    crfsuite.open(str(models["folder"] / "crfsuite"))
    calls = {
        "tagger, words": lambda: models["tagger"].predict([sentence.forms]),
        "CRFsuite, features made from words": lambda: crfsuite.tag(token_features(sentence.forms)),
        "tagger, dicts at hand": lambda: models["tagger on dicts"].predict([features]),
        "CRFsuite, dicts at hand": lambda: crfsuite.tag(features),
        "parser": lambda: models["parser"].parse(sentence),
    }
    found = {name: 1e3 * quickest(call, 500) for name, call in calls.items()}
    print("\none sentence of 20 words, ms: " + ", ".join(f"{name} {ms:.3f}" for name, ms in found.items()))
    benchmark.extra_info.update(found)
    benchmark(calls["tagger, words"])


def test_one_row(benchmark):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    models = {
        "linear": omkl.OnlineMKLClassifier(["linear"], epochs=2, random_state=0),
        "default kernels": omkl.OnlineMKLClassifier(epochs=2, random_state=0),
        "default kernels, budget of 100": omkl.OnlineMKLClassifier(epochs=2, budget=100, random_state=0),
        "Fourier features": omkl.OnlineMKLClassifier(["gaussian:features=200"], epochs=2, random_state=0),
        "regressor": omkl.OnlineMKLRegressor(epochs=2, random_state=0),
        "batch, 300 samples": omkl.MKLClassifier(["linear", "gaussian"]),
    }
    print("\none row of 20 numbers, ms:")
    for name, model in models.items():
        model.fit(*((X[:300], y[:300]) if "batch" in name else (X, y)))
        found = {"predict": 1e3 * quickest(lambda: model.predict(X[:1]), 300)}  # noqa: B023
        if hasattr(model, "partial_fit"):
            model.partial_fit(X[:1], y[:1])
            found["partial_fit"] = 1e3 * quickest(lambda: model.partial_fit(X[:1], y[:1]), 300)  # noqa: B023
        print(f"  {name}: " + ", ".join(f"{call} {ms:.3f}" for call, ms in found.items()))
        benchmark.extra_info.update({f"{name}, {call}": ms for call, ms in found.items()})
    benchmark(lambda: models["default kernels"].predict(X[:1]))


@pytest.mark.parametrize("kind", ["tagger", "parser"])
def test_threads(benchmark, treebanks, models, kind):
    test, model = treebanks[1], models[kind]
    data = test if kind == "parser" else [s.forms for s in test]
    found = {}
    for n_jobs in (1, 2):
        predict = model.set_params(n_jobs=n_jobs).predict
        found[n_jobs] = test.n_words / quickest(lambda: predict(data), 5)  # noqa: B023
    model.set_params(n_jobs=None)
    print(f"\n{kind}: {found[1] / 1e3:.0f} k words/s on one thread, {found[2] / found[1]:.2f} times that on two")
    benchmark.extra_info.update({str(n): speed for n, speed in found.items()})
    benchmark.pedantic(lambda: model.predict(data), rounds=2)


@pytest.mark.parametrize("kind", ["tagger", "parser"])
def test_files(benchmark, treebanks, models, kind):
    test, model, folder = treebanks[1], models[kind], models["folder"]
    whole = (folder / f"{kind}.npz").stat().st_size / 1e6
    expected = model.predict(test if kind == "parser" else [s.forms for s in test])
    print(f"\n{kind}: {whole:.1f} MB whole; CRFsuite's {(folder / 'crfsuite').stat().st_size / 1e6:.1f} MB")
    for dtype in (None, "float32", "float16"):
        path = folder / f"{kind}-{dtype}.npz"
        model.save(path, training=False, dtype=dtype)
        loaded = omkl.load(path)
        seconds = quickest(lambda: omkl.load(path), 3)  # noqa: B023
        predicted = loaded.predict(test if kind == "parser" else [s.forms for s in test])
        same = np.mean(np.concatenate(expected) == np.concatenate(predicted))
        if kind == "parser":
            scores = evaluate_treebanks(test, loaded.parse(test))
            accuracy = f"UAS {scores['uas']:.2%}, LAS {scores['las']:.2%}"
        else:
            accuracy = f"accuracy {loaded.score([s.forms for s in test], [s.upos for s in test]):.2%}"
        print(f"  {dtype or 'as stored'}: {path.stat().st_size / 1e6:.1f} MB, loads in {seconds:.2f} s, "
              f"{1 - same:.3%} of the predictions differ, {accuracy}")  # fmt: skip
    benchmark.pedantic(lambda: omkl.load(folder / f"{kind}-float16.npz"), rounds=2)
