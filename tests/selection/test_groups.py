"""select_groups: false discoveries, power, and what it trains."""

import re
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LassoCV

from omkl import (
    DependencyParser,
    GroupLasso,
    GroupLassoCV,
    MKLClassifier,
    MKLRegressor,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
    TreeForm,
    TreeSearch,
    select_groups,
)
from omkl.data import Sentence, Treebank, write_treebank
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import code_of
from omkl.kernels import per_column
from omkl.selection.groups import trial
from omkl.selection.knockoffs import column_knockoffs, knockoff_threshold


def table(n, d, n_useful, seed, bent=False):
    """Make correlated columns, a target that depends on some of them, and the names of these.

    It depends on them linearly, or by cosines if it is ``bent``.
    """
    rng = np.random.default_rng(seed)
    distances = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    X = rng.normal(size=(n, d)) @ np.linalg.cholesky(0.4**distances).T
    useful = rng.choice(d, n_useful, replace=False)
    features = X[:, useful]
    if bent:
        features = np.cos(2.0 * features)
    y = features @ rng.choice([-1.0, 1.0], n_useful) + rng.normal(size=n)
    return X, y, {f"column {j}" for j in useful}


def shares(selected, useful):
    """Return the share of false discoveries, and of useful groups that are selected."""
    selected = set(selected)
    n_correct = len(selected & useful)
    return len(selected - useful) / max(len(selected), 1), n_correct / len(useful)


@pytest.mark.slow
def test_false_discoveries_of_the_lasso_stay_below_the_bound_with_the_power_of_scikit_learns():
    ours = []
    theirs = []
    for seed in range(15):
        X, y, useful = table(200, 40, 12, seed)
        selection = select_groups(GroupLassoCV(), X, y, fdr=0.2, random_state=seed)
        ours.append(shares(selection.selected, useful))
        knockoffs = column_knockoffs(
            X,
            np.arange(40),
            np.random.default_rng(seed),
        )
        weights = np.abs(LassoCV(alphas=30).fit(np.hstack([X, knockoffs]), y).coef_)
        statistics = weights[:40] - weights[40:]
        selected = np.flatnonzero(statistics >= knockoff_threshold(statistics, 0.2))
        theirs.append(shares([f"column {j}" for j in selected], useful))
    false, power = np.array(ours).T
    assert false.mean() <= 0.2 + 2.0 * false.std() / np.sqrt(len(false))
    assert power.mean() == pytest.approx(np.mean(theirs, axis=0)[1], abs=0.1)
    assert power.mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("make", [MKLRegressor, OnlineMKLRegressor])
def test_kernels_find_columns_that_the_lasso_cannot_see(make):
    results = []
    for seed in range(3):
        X, y, useful = table(300, 30, 10, seed, bent=True)
        model = make(per_column("gaussian", X))
        selection = select_groups(model, X, y, fdr=0.2, random_state=seed)
        results.append(shares(selection.selected, useful))
    false, power = np.mean(results, axis=0)
    assert false <= 0.3
    assert power > 0.6
    assert not select_groups(GroupLassoCV(), X, y, random_state=0).selected


def test_nothing_is_selected_where_there_is_nothing(rng):
    X = rng.normal(size=(150, 40))
    y = rng.integers(2, size=150)
    model = MKLClassifier(per_column("gaussian", X))
    counts = [len(select_groups(model, X, y, random_state=seed).selected) for seed in range(5)]
    assert counts.count(0) >= 4


def test_kernels_on_the_same_columns_are_one_group_and_weighting_is_by_norms():
    X, y, _ = table(100, 4, 2, 0)
    kernels = {"a": "linear:on=0", "b": "gaussian:on=0", "c": "gaussian:on=1:3"}
    model = OnlineMKLRegressor(kernels, weighting="out-of-sample", random_state=0)
    tested = trial(model, X, y, None)
    assert tested.members == {"a + b": ["a", "b"], "c": ["c"]}
    trained = tested.train(np.random.default_rng(0))
    assert trained.weighting == "norms"
    assert set(trained.kernel_weights_) == {*kernels, *(f"{name} (knockoff)" for name in kernels)}
    weights = trained.kernel_weights_
    a, b, c = (weights[name] - weights[f"{name} (knockoff)"] for name in kernels)
    assert_allclose(
        tested.statistics(np.random.default_rng(0)),
        [a + b, c],
    )
    with pytest.warns(DataWarning, match="select at least 10 groups or none, and there are 2"):
        assert select_groups(model, X, y).selected == []


def test_groups_of_columns_by_name():
    pandas = pytest.importorskip("pandas")
    X, y, _ = table(60, 4, 2, 0)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    tested = trial(
        GroupLasso(0.1, groups={"one": ["a", "d"], "two": ["b", "c"]}),
        frame,
        y,
        None,
    )
    trained = tested.train(np.random.default_rng(0))
    assert trained.groups["one"] == [0, 3]
    assert {len(columns) for columns in trained.groups.values()} == {2}
    assert sorted(chain.from_iterable(trained.groups.values())) == list(range(8))


SENTENCES = [
    ("the old dog barks", "DET ADJ NOUN VERB", [3, 3, 4, 0]),
    ("a cat sees the dog", "DET NOUN VERB DET NOUN", [2, 3, 0, 5, 3]),
]


def test_tokens_take_the_values_of_others_with_the_same_context(monkeypatch):
    seen = []
    monkeypatch.setattr(
        SequenceLabeler,
        "fit",
        lambda self, X, y: seen.append((X, y)) or self,
    )
    X = []
    for sentence, tags, _ in SENTENCES:
        pairs = zip(sentence.split(), tags.split())
        X.append([{"word": word, "tag": tag, "last": word[-1]} for word, tag in pairs])
    y = [tags.split() for _, tags, _ in SENTENCES]
    tested = trial(SequenceLabeler(), X, y, "tag")
    assert list(tested.members) == ["word", "last"]
    tested.train(np.random.default_rng(0))
    [(new, labels)] = seen
    assert labels is y
    pairs = Counter()
    for sequence, old in zip(new, X):
        for token, original in zip(sequence, old):
            assert token.items() >= original.items()
            assert token["last (knockoff)"] == token["word (knockoff)"][-1]  # of one token
            pairs[token["word (knockoff)"], token["tag"]] += 1
    assert pairs == Counter((token["word"], token["tag"]) for sequence in X for token in sequence)


def test_useless_features_of_words_are_not_selected(rng):
    words = [[str(w) for w in rng.integers(30, size=12)] for _ in range(60)]
    X = [
        [{"digit": w[-1], **{f"noise{k}": str(rng.integers(9)) for k in range(12)}} for w in s]
        for s in words
    ]
    y = [[int(w[-1]) % 3 for w in s] for s in words]
    selection = select_groups(SequenceLabeler(random_state=0), X, y, fdr=0.9, random_state=0)
    assert max(selection.statistics, key=selection.statistics.get) == "digit"
    rows = list(chain.from_iterable(X))
    labels = list(chain.from_iterable(y))
    selection = select_groups(
        OnlineMKLClassifier(random_state=0), rows, labels, fdr=0.9, random_state=0
    )
    assert max(selection.statistics, key=selection.statistics.get) == "digit"


def test_templates_read_fields_of_other_words_with_the_same_tag(monkeypatch):
    seen = []
    monkeypatch.setattr(
        DependencyParser, "fit", lambda self, X: seen.append((self.templates, X)) or self
    )
    treebank = Treebank.from_sentences(sentences())
    parser = DependencyParser(["h.form m.form", "h.upos m.upos", "m.suffix2"])
    tested = trial(parser, treebank, None, None)
    assert list(tested.members) == ["h.form m.form", "m.suffix2"]
    tested.train(np.random.default_rng(0))
    [(templates, new)] = seen
    knockoffs = [f"{name} (knockoff)" for name in tested.members]
    assert set(templates.names) == {"h.upos m.upos", *tested.members, *knockoffs}
    forms = {f"{code_of(form):x}": form for form in treebank.strings["forms"].tolist()}
    suffixes = {f"{code_of(form[-2:]):x}" for form in forms.values()}
    pairs = Counter()
    for sentence in new:
        for misc, tag in zip(sentence.misc, sentence.upos):
            values = re.fullmatch(r"Knockoff0=(\w+)\|Knockoff1=(\w+)", misc)
            assert values[2] in suffixes
            pairs[forms[values[1]], tag] += 1
    expected = Counter()
    for sentence in treebank:
        expected.update(zip(sentence.forms, sentence.upos))
    assert pairs == expected


def sentences():
    return [
        Sentence(forms=forms.split(), upos=tags.split(), heads=heads)
        for forms, tags, heads in SENTENCES
    ]


def test_a_parser_takes_paths_and_checks_the_context(tmp_path):
    treebank = Treebank.from_sentences(sentences() * 10)
    path = tmp_path / "train.conllu"
    write_treebank(path, treebank)
    parser = DependencyParser(
        ["h.form m.form", "h.upos m.upos"],
        memory=4,
        random_state=0,
        search=TreeSearch(order=1),
        trees=TreeForm(labeled=False),
    )
    settings = {"method": "stability", "n_pairs": 2, "max_false": 2.0, "random_state": 0}
    assert select_groups(parser, path, **settings) == select_groups(parser, treebank, **settings)
    with pytest.raises(InputError, match="no field 'Upos:x'"):
        select_groups(parser, treebank, context="Upos:x")


def test_useless_templates_are_not_selected(rng):
    sentences = []
    for _ in range(60):
        tags = rng.choice(["A", "B", "C"], size=6)
        heads = [2 if i else 0 for i in range(6)]
        heads[0], heads[1] = 2, 0
        misc = ["|".join(f"N{k}={rng.integers(9)}" for k in range(10)) for _ in tags]
        forms = ["root" if head == 0 else f"w{rng.integers(5)}" for head in heads]
        sentences.append(Sentence(forms=forms, upos=tags.tolist(), heads=heads, misc=misc))
    templates = ["h.form m.form", *(f"h.misc:N{k} m.upos" for k in range(10))]
    parser = DependencyParser(
        templates,
        memory=4,
        random_state=0,
        search=TreeSearch(order=1),
        trees=TreeForm(labeled=False),
    )
    selection = select_groups(parser, Treebank.from_sentences(sentences), fdr=0.9, random_state=0)
    assert max(selection.statistics, key=selection.statistics.get) == "h.form m.form"


@pytest.mark.slow
@pytest.mark.parametrize("precomputed", [False, True])
def test_stable_groups_are_those_of_fits_on_halves(precomputed):
    X, y, useful = table(120, 12, 3, 0)
    names = per_column("linear", X)
    model = MKLRegressor("precomputed" if precomputed else names, C=0.1, tol=1e-6)

    def inputs(rows):
        if not precomputed:
            return X[rows]
        return {name: np.outer(x, x) for name, x in zip(names, X[rows].T)}

    settings = {"method": "stability", "n_pairs": 5, "random_state": 3}
    everything = inputs(np.arange(120))
    selection = select_groups(model, everything, y, **settings)
    random = np.random.RandomState(3)
    counts = Counter()
    q = int(np.sqrt(12 * (1.0 + 0.2) / (4.0 * 0.2)))
    for _ in range(5):
        order = random.permutation(120)
        for half in np.sort([order[:60], order[60:]], axis=1):
            weights = clone(model).fit(inputs(half), y[half]).kernel_weights_
            heaviest = sorted(weights, key=weights.get)[-q:]
            counts.update(name for name in heaviest if weights[name] > 0)
    assert selection.statistics == {name: counts[name] / 10 for name in names}
    assert set(selection.selected) <= useful
    assert select_groups(model, everything, y, n_jobs=2, **settings) == selection


def test_few_useless_groups_are_stable():
    false = []
    for seed in range(4):
        X, y, useful = table(100, 40, 4, seed)
        selection = select_groups(
            GroupLasso(0.3), X, y, method="stability", n_pairs=15, random_state=seed
        )
        false.append(len(set(selection.selected) - useful))
        assert len(set(selection.selected) & useful) >= 3
    assert np.mean(false) <= 1.0


def test_no_half_lacks_a_rare_class():
    X, _, _ = table(60, 4, 2, 0)
    y = np.where(np.arange(60) < 2, "rare", "usual")
    model = MKLClassifier(per_column("linear", X), C=100.0)
    assert select_groups(model, X, y, method="stability", n_pairs=5, random_state=0).statistics


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fdr": 0.0}, "fdr"),
        ({"method": "lasso"}, "method must be one of"),
        ({"method": "stability", "max_false": 1e-3}, "`max_false` must be at least"),
        ({"method": "stability", "n_pairs": 0}, "n_pairs"),
        ({"method": "stability", "context": "a"}, '`context` is not for method="stability"'),
        ({"method": "stability", "fdr": 0.1}, "`fdr` is not for"),
        ({"n_jobs": 2}, '`n_jobs` is not for method="knockoffs"'),
        ({"estimator": DependencyParser(), "X": [["a"]]}, "leave y out"),
        ({"context": "a"}, "`context` is for tokens and arcs"),
        ({"estimator": MKLRegressor()}, "kernels on columns"),
        (
            {"estimator": MKLRegressor(["gaussian:on=0:2", "linear:on=1"])},
            "some share part of theirs",
        ),
        ({"estimator": GroupLasso(group_weights=[1, 2, 3, 4])}, "`group_weights` must be"),
        ({"estimator": LassoCV()}, "not for LassoCV"),
        ({"estimator": LassoCV(), "method": "stability"}, "LassoCV has no groups"),
        ({"estimator": SequenceLabeler(), "X": [[np.ones(2)]]}, "need words or dicts"),
        ({"estimator": SequenceLabeler(), "X": [[{"a": "b"}]], "context": "c"}, "got 'c'"),
    ],
)
def test_bad_input_is_refused(settings, message):
    X, y, _ = table(30, 4, 2, 0)
    arguments = {"estimator": GroupLasso(0.1), "X": X, "y": y} | settings
    with pytest.raises(InputError, match=message):
        select_groups(**arguments)


def test_a_categorical_column_is_one_group(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"city": rng.choice(["Oslo", "Rome", "Bonn"], 80), "age": rng.normal(size=80)}
    )
    tested = trial(
        GroupLasso(0.01), frame, (frame.city == "Rome") + 0.1 * rng.normal(size=80), None
    )
    assert list(tested.members) == ["city", "age"]
    city, age = tested.statistics(rng)
    assert city > abs(age)
