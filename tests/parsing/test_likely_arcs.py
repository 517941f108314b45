"""A second parser uses the trees of a first one, corrects its potentials, and may score its likely arcs only."""

from copy import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omkl
from omkl.data import Sentence, Treebank
from omkl.exceptions import InputError
from omkl.groups import TemplateSet, initial_potentials
from omkl.groups.templates.layout import ArcGuide
from omkl.parsing.sentences import Guide, encode
from omkl.parsing.stacking import advice_of, cross_fit, likely_margin, only_likely

GRAMMAR = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance", "h.upos between.upos m.upos")
FEW = ("m.xpos distance", "h.upos m.upos")


def parser(templates=GRAMMAR, **settings):
    return omkl.DependencyParser(templates, **{"epochs": 2, "memory": 20, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted(grammar):
    stacked = [*GRAMMAR, "kinship h.upos m.upos"]
    return parser(stacked, first=parser(FEW, labeled=False), likely=0.9).fit(grammar[0])


def mask_of(x):
    return np.ones((len(x) + 1, len(x) + 1), dtype=bool) if x.likely is None else x.likely


def potentials_of(model, treebank, all_arcs=False):
    sentences = [own for block in model.model_.codec.tokens(treebank, all_arcs).blocks() for own in block]
    return sentences, [own.arcs for own in model.predictor_.banks[0].potentials_of(sentences)]


def test_potentials_of_likely_arcs_are_those_of_all(grammar, fitted):
    sentences, some = potentials_of(fitted, grammar[1])
    _, everything = potentials_of(fitted, grammar[1], all_arcs=True)
    n_likely = n_arcs = 0
    for x, own, full in zip(sentences, some, everything):
        likely = mask_of(x)
        np.testing.assert_allclose(own[likely], full[likely], rtol=1e-12, atol=1e-12)
        assert np.all(np.isneginf(own[~likely]))
        assert np.all(np.isfinite(full))
        alone = initial_potentials(fitted.predictor_.structure, x)
        fitted.predictor_.banks[0].add_potentials(x, alone)
        assert np.array_equal(alone.arcs, own)
        n_likely, n_arcs = n_likely + np.count_nonzero(likely[:, 1:]) - len(x), n_arcs + len(x) ** 2
    assert 0.05 < n_likely / n_arcs < 0.7


@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_likely_arcs_are_within_the_margin_or_of_a_tree(n, seed, margin):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n + 1, n + 1))
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    heads, right = (np.array([rng.choice([h for h in range(n + 1) if h != m]) for m in range(1, n + 1)]) for _ in "ab")
    scores[heads, np.arange(1, n + 1)] = rng.normal(size=n)
    trees, gold = treebank_of(heads), treebank_of(right)
    [found] = only_likely(Guide(trees, [ArcGuide(scores.copy())]), gold, margin).arcs
    [corrected] = only_likely(Guide(trees, [ArcGuide(scores.copy())]), gold, None).arcs
    likely = np.ones(scores.shape, dtype=bool) if found.likely is None else found.likely
    assert found.potentials is None
    for m in range(1, n + 1):
        column = {h: scores[h, m] for h in range(n + 1) if h != m}
        kept = {h for h, s in column.items() if s > -np.inf and s >= max(column.values()) - margin}
        kept |= {heads[m - 1], right[m - 1]}
        assert {h for h in column if likely[h, m]} == kept
        lowest = min(score for score in column.values() if score > -np.inf)
        for h in column:
            expected = lowest if h == right[m - 1] and column[h] == -np.inf else column[h]
            assert corrected.potentials[h, m] == expected


def treebank_of(heads):
    made = Treebank.from_sentences([Sentence(forms=["w"] * len(heads))], trees=False)
    made.heads[:] = heads
    return made


def test_the_margin_holds_its_share_of_right_arcs(grammar, fitted):
    train, _ = grammar
    _, guide = cross_fit(parser(FEW, labeled=False), train, None, 3)
    margin = likely_margin(guide, train, 0.9)
    assert margin == fitted.model_.codec.margin
    below = []
    for own, heads in zip((own.potentials for own in guide.arcs), train.trees()):
        own = np.where(np.eye(len(own), dtype=bool), -np.inf, own)
        below += (own[:, 1:].max(axis=0) - own[heads, np.arange(1, len(own))]).tolist()
    assert np.mean(np.array(below) <= margin) == pytest.approx(0.9, abs=2 / len(below))


def test_unlikely_arcs_have_probability_zero(grammar, fitted):
    _, test = grammar
    calibrated = copy(fitted).calibrate(test)
    sentences, _ = potentials_of(fitted, test)
    for x, tree, marginals in zip(sentences, fitted.predict(test), calibrated.predict_marginals(test)):
        likely = mask_of(x)
        assert np.all(likely[tree, np.arange(1, len(x) + 1)])
        assert np.all(marginals.arcs[~likely] == 0)
        np.testing.assert_allclose(marginals.arcs[:, 1:].sum(axis=0), 1.0)


@pytest.mark.parametrize("training", [True, False])
def test_model_files_keep_the_margin(grammar, fitted, tmp_path, training):
    fitted.save(tmp_path / "parser.npz", training=training)
    loaded = omkl.load(tmp_path / "parser.npz")
    assert loaded.model_.codec.margin == fitted.prune(3).model_.codec.margin == fitted.model_.codec.margin
    assert np.array_equal(loaded.parse(grammar[1]).heads, fitted.parse(grammar[1]).heads)


def test_required_arcs_may_be_unlikely(grammar, fitted):
    sentences, _ = potentials_of(fitted, grammar[1])
    for i, x in enumerate(sentences[:20]):
        unlikely = np.argwhere(~mask_of(x))
        for head, word in unlikely[:3].tolist():
            tree = fitted.parse(grammar[1][i : i + 1], required=[[(head, word)]]).heads
            assert tree[word - 1] == head
    assert sum(x.likely is not None for x in sentences) > 5


def test_nbest_looks_at_all_arcs(grammar, fitted):
    short = next(s for s in grammar[1] if len(s) > 3)
    short = Sentence(**{name: getattr(short, name)[:3] for name in ("forms", "lemmas", "upos", "xpos")})
    assert len(fitted.predict_nbest([short], 100)[0]) == 9  # trees of three words and one root


def test_sentences_with_unknown_heads_keep_all_arcs(grammar, fitted):
    gold = grammar[1][:2]
    guide = advice_of(fitted.first_._decoder, gold)
    gold.heads[1] = -1
    likely = only_likely(guide, gold, 0.0)
    assert [own.likely is None for own in likely.arcs] == [True, False]
    parser(first=parser(FEW, labeled=False), likely=0.5).fit(gold[np.arange(6) % 2])


def test_a_set_of_templates_is_a_quick_first_parser(grammar):
    train, _ = grammar
    quick = parser(first="small", likely=0.9, single_root=False, random_state=4).fit(train[:60])
    settings = {"C": 1.0, "epochs": 3, "labeled": False, "single_root": False, "random_state": 4, "memory": 20}
    given = parser(first=omkl.DependencyParser("small", **settings), likely=0.9, single_root=False, random_state=4)
    assert np.array_equal(given.fit(train[:60]).parse(train).heads, quick.parse(train).heads)
    assert quick.first_.get_params() == given.first_.get_params()


TREE = Sentence(
    forms=["a", "b", "c", "d", "e", "f"],
    upos=list("ABCDEF"),
    heads=[2, 4, 2, 0, 4, 5],
    deprels=["det", "nsubj", "nmod", "root", "obj", "amod"],
)


def guided(sentence):
    treebank = Treebank.from_sentences([sentence])
    return treebank, Guide(treebank, None)


def test_fields_of_trees_are_those_of_relatives():
    treebank, guide = guided(TREE)
    fields = [
        "parent_upos",
        "leftmost_upos",
        "rightmost_upos",
        "before_upos",
        "after_upos",
        "relation",
        "valency",
        "parent_parent_upos",
    ]
    tokens = encode(treebank, TemplateSet([f"m.{field}" for field in fields]), guide)
    upos = encode(treebank, TemplateSet(["m.upos"]))
    code = dict(zip("*ABCDEF", upos.columns[0, upos.roots[0] :].tolist()))
    code["."] = int(encode(treebank, TemplateSet(["m-1.upos"])).columns[0, 0])
    found = {field: tokens.columns[tokens.fields.index(field), tokens.roots[0] + 1 :].tolist() for field in fields}
    expected = {
        "parent_upos": "BDB*DE",
        "parent_parent_upos": "D*D**D",
        "leftmost_upos": ".A.B..",
        "rightmost_upos": ".C.EF.",
        "before_upos": "..A.B.",
        "after_upos": "CE....",
    }
    for field, letters in expected.items():
        assert found[field] == [code[letter] for letter in letters], field
    assert len(set(found["relation"])) == 6
    assert found["valency"][0] == found["valency"][2] == found["valency"][5]  # no children
    assert found["valency"][1] == found["valency"][3] != found["valency"][4]  # one on either side, none on the left


def test_advice_comes_from_parsers_that_have_not_seen_the_sentence(grammar):
    train, _ = grammar
    train = train[:60]
    whole, guide = cross_fit(parser(epochs=1), train, None, 3)
    assert np.array_equal(whole.parse(train).heads, parser(epochs=1).fit(train).parse(train).heads)
    chosen = np.arange(60) % 3 == 1
    apart = advice_of(parser(epochs=1).fit(train[~chosen])._decoder, train[chosen])
    for own, other in zip([guide.arcs[i] for i in np.flatnonzero(chosen)], apart.arcs):
        assert np.allclose(own.potentials, other.potentials, rtol=1e-6)
    assert np.array_equal(guide.trees[chosen].heads, apart.trees.heads)
    assert [s.deprels for s in guide.trees[chosen]] == [s.deprels for s in apart.trees]


def test_a_second_parser_corrects_the_first(grammar, tmp_path):
    train, test = grammar
    first = parser(["m.xpos distance", "h.upos m.upos"])
    stacked = parser([*GRAMMAR, "kinship h.upos m.upos", "m.relation h.upos direction"], first=first).fit(train)
    before, after = stacked.first_.score(test), stacked.score(test)
    assert stacked.first_.score(test) == parser(first.templates).fit(train).score(test)
    assert after > before + 0.05
    features = {feature["feature"] for feature in stacked.top_features(500, "h.upos m.upos kinship")}
    assert any(" kinship=head" in feature for feature in features)
    stacked.save(tmp_path / "all.npz")
    stacked.save(tmp_path / "small.npz", training=False)
    for path in (tmp_path / "all.npz", tmp_path / "small.npz"):
        loaded = omkl.load(path)
        assert np.array_equal(loaded.parse(test).heads, stacked.parse(test).heads)
        assert loaded.first.get_params() == first.get_params()
    pruned = stacked.prune(len(stacked.templates_))
    assert np.array_equal(pruned.parse(test).heads, stacked.parse(test).heads)


@pytest.mark.parametrize(
    ("settings", "method", "n", "message"),
    [
        ({"templates": ["kinship h.upos"]}, "fit", 60, "'kinship' needs a first parser"),
        ({"likely": 0.9}, "fit", 60, "likely=0.9 needs a first parser"),
        ({"likely": 1.0, "first": "small"}, "fit", 60, "likely"),
        ({"first": 7}, "fit", 60, "`first` must be"),
        ({"first": parser(single_root=False)}, "fit", 60, "`first` must be"),
        ({"first": parser(projective=True)}, "fit", 60, "`first` must be"),
        ({"first": parser(), "folds": 1}, "fit", 60, "folds must be"),
        ({"first": parser()}, "fit", 2, "folds must be"),
        ({"first": parser()}, "partial_fit", 20, "call fit"),
    ],
)
def test_bad_settings_are_refused(grammar, settings, method, n, message):
    with pytest.raises(InputError, match=message):
        getattr(parser(**settings), method)(grammar[0][:n])


def test_a_stacked_parser_learns_from_all_sentences_at_once(grammar):
    with pytest.raises(InputError, match="call fit"):
        parser(first=parser(epochs=1), epochs=1).fit(grammar[0][:30]).partial_fit(grammar[0][30:40])
