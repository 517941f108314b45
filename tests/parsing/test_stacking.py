"""A second parser uses the trees of a first one, and corrects its potentials."""

import numpy as np
import pytest

import omkl
from omkl.data import Sentence, Treebank
from omkl.exceptions import InputError
from omkl.groups import TemplateSet
from omkl.parsing.sentences import Guide, encode
from omkl.parsing.stacking import advice_of, cross_fit

GRAMMAR = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
TREE = Sentence(
    forms=["a", "b", "c", "d", "e", "f"],
    upos=list("ABCDEF"),
    heads=[2, 4, 2, 0, 4, 5],
    deprels=["det", "nsubj", "nmod", "root", "obj", "amod"],
)


def parser(templates=GRAMMAR, **settings):
    return omkl.DependencyParser(templates, **{"epochs": 3, "memory": 20, "random_state": 0, **settings})


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
