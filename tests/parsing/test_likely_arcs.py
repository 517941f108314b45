"""A parser scores the likely arcs of a first parser; trees under constraints and their
probabilities.
"""

from copy import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omkl
from omkl.data import Sentence, Stream, Treebank, synthetic_treebank
from omkl.exceptions import InputError
from omkl.groups import TemplateSet, initial_potentials
from omkl.groups.templates.layout import ArcGuide
from omkl.parsing import decoding
from omkl.parsing.sentences import Guide, encode
from omkl.parsing.stages import (
    Selection,
    advice_of,
    candidate_arcs,
    complete_heads,
    cross_fit,
    margin_of_candidates,
)
from omkl.structures import NonProjectiveTree

from ..structures.conftest import Trees

GRAMMAR = (
    "h.upos m.upos direction",
    "h.lemma m.lemma",
    "m.xpos distance",
    "h.upos between.upos m.upos",
)
FEW = ("m.xpos distance", "h.upos m.upos")


def parser(templates=GRAMMAR, **settings):
    return omkl.DependencyParser(
        templates, **{"epochs": 2, "memory": 20, "random_state": 0, **settings}
    )


@pytest.fixture(scope="module")
def fitted(grammar):
    return parser(likely=0.9).fit(grammar[0])


def mask_of(x):
    return x.likely


def potentials_of(model, treebank, all_arcs=False):
    tokens = encode(treebank, model.templates_) if all_arcs else model.model_.codec.tokens(treebank)
    sentences = [own for block in tokens.blocks() for own in block]
    return sentences, [own.arcs for own in decoding.potentials_of(model.predictor_, sentences)]


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
    heads, right = (
        np.array([rng.choice([h for h in range(n + 1) if h != m]) for m in range(1, n + 1)])
        for _ in "ab"
    )
    scores[heads, np.arange(1, n + 1)] = rng.normal(size=n)
    gold, guide = treebank_of(right), Guide(heads, [ArcGuide(scores.copy())])
    [found] = candidate_arcs(guide, gold, Selection(margin), [right], corrects=False).arcs
    [corrected] = candidate_arcs(guide, gold, Selection(margin), [right], corrects=True).arcs
    [few] = candidate_arcs(guide, gold, Selection(margin, 2), [], corrects=False).arcs
    assert found.potentials is None
    assert np.array_equal(found.likely, corrected.likely)
    assert few.likely[:, 1:].sum(axis=0).max() <= 4  # with the diagonal, and the guide's tree
    for m in range(1, n + 1):
        column = {h: scores[h, m] for h in range(n + 1) if h != m}
        kept = {h for h, s in column.items() if s > -np.inf and s >= max(column.values()) - margin}
        kept |= {heads[m - 1], right[m - 1]}
        assert {h for h in column if found.likely[h, m]} == kept
        lowest = min(score for score in column.values() if score > -np.inf)
        for h in column:
            expected = lowest if h == right[m - 1] and column[h] == -np.inf else column[h]
            assert corrected.potentials[h, m] == np.float32(expected)


def treebank_of(heads):
    made = Treebank.from_sentences([Sentence(forms=["w"] * len(heads))], trees=False)
    made.heads[:] = heads
    return made


def test_the_margin_holds_its_share_of_right_arcs(grammar, fitted):
    train, _ = grammar
    _, guide = cross_fit(fitted.first_, train, None, 2, {})
    margin = margin_of_candidates(guide, train, 0.9)
    assert margin == fitted.model_.codec.stage.selection.margin
    below = []
    for own, heads in zip((own.potentials for own in guide.arcs), train.trees()):
        own = np.where(np.eye(len(own), dtype=bool), -np.inf, own)
        below += (own[:, 1:].max(axis=0) - own[heads, np.arange(1, len(own))]).tolist()
    assert np.mean(np.array(below) <= margin) == pytest.approx(0.9, abs=2 / len(below))


def test_unlikely_arcs_have_probability_zero(grammar, fitted):
    _, test = grammar
    calibrated = copy(fitted).calibrate(test)
    sentences, _ = potentials_of(fitted, test)
    for x, tree, marginals in zip(
        sentences, fitted.predict(test), calibrated.predict_marginals(test)
    ):
        likely = mask_of(x)
        assert np.all(likely[tree, np.arange(1, len(x) + 1)])
        assert np.all(marginals.arcs[~likely] == 0)
        np.testing.assert_allclose(marginals.arcs[:, 1:].sum(axis=0), 1.0)


@pytest.mark.parametrize("training", [True, False])
def test_model_files_keep_the_margin(grammar, fitted, tmp_path, training):
    fitted.save(tmp_path / "parser.npz", training=training)
    loaded = omkl.load(tmp_path / "parser.npz")
    codecs = [model.model_.codec for model in (loaded, fitted.prune(3), fitted)]
    assert len({codec.stage.selection for codec in codecs}) == 1
    assert np.array_equal(loaded.parse(grammar[1]).heads, fitted.parse(grammar[1]).heads)


def test_required_arcs_may_be_unlikely(grammar, fitted):
    sentences, _ = potentials_of(fitted, grammar[1])
    for i, x in enumerate(sentences[:20]):
        unlikely = np.argwhere(~mask_of(x))
        for head, word in unlikely[:3].tolist():
            tree = fitted.parse(grammar[1][i : i + 1], required=[[(head, word)]]).heads
            assert tree[word - 1] == head


def test_unknown_heads_are_those_of_the_best_tree_that_agrees(grammar, fitted):
    gold = grammar[1][:6]
    guide = advice_of(fitted.first_._decoder, gold)
    right = gold.heads.copy()
    gold.heads[::3] = -1
    heads = complete_heads(NonProjectiveTree(), guide, gold)
    known = gold.heads >= 0
    assert np.array_equal(heads[known], right[known])
    for own, arcs, tree in zip(gold.trees(), guide.arcs, np.split(heads, gold.offsets[1:-1])):
        scores = np.where(
            (own >= 0) & (np.arange(len(own) + 1)[:, None] != own), -np.inf, arcs.potentials[:, 1:]
        )
        assert np.array_equal(NonProjectiveTree().decode(np.insert(scores, 0, 0.0, axis=1)), tree)
    parser(likely=0.5).fit(gold)


def test_the_first_parser_is_small_and_quick(grammar):
    train, _ = grammar
    quick = parser(likely=0.9, single_root=False, random_state=4).fit(train[:60])
    settings = {
        "C": 1.0,
        "epochs": 3,
        "labeled": False,
        "single_root": False,
        "random_state": 4,
        "memory": 20,
    }
    small = omkl.DependencyParser("small", order=1, **settings).fit(train[:60])
    assert np.array_equal(quick.first_.parse(train).heads, small.parse(train).heads)


TREE = Sentence(
    forms=["a", "b", "c", "d", "e", "f"],
    upos=list("ABCDEF"),
    heads=[2, 4, 2, 0, 4, 5],
    deprels=["det", "nsubj", "nmod", "root", "obj", "amod"],
)


def test_fields_of_trees_are_those_of_relatives():
    treebank = Treebank.from_sentences([TREE])
    fields = [
        "parent_upos",
        "leftmost_upos",
        "rightmost_upos",
        "before_upos",
        "after_upos",
        "valency",
        "parent_parent_upos",
    ]
    tokens = encode(treebank, TemplateSet([f"m.{field}" for field in fields]), heads=treebank.heads)
    upos = encode(treebank, TemplateSet(["m.upos"]))
    code = dict(zip("*ABCDEF", upos.columns[0, upos.roots[0] :].tolist()))
    code["."] = int(encode(treebank, TemplateSet(["m-1.upos"])).columns[0, 0])
    found = {
        field: tokens.columns[tokens.fields.index(field), tokens.roots[0] + 1 :].tolist()
        for field in fields
    }
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
    assert found["valency"][0] == found["valency"][2] == found["valency"][5]  # no children
    assert (
        found["valency"][1] == found["valency"][3] != found["valency"][4]
    )  # one on either side, none on the left


def test_advice_comes_from_parsers_that_have_not_seen_the_sentence(grammar):
    train, _ = grammar
    train = train[:60]
    whole, guide = cross_fit(parser(epochs=1), train, None, 3, {})
    assert np.array_equal(whole.parse(train).heads, parser(epochs=1).fit(train).parse(train).heads)
    chosen = np.arange(60) % 3 == 1
    apart = advice_of(parser(epochs=1).fit(train[~chosen])._decoder, train[chosen])
    for own, other in zip([guide.arcs[i] for i in np.flatnonzero(chosen)], apart.arcs):
        assert np.allclose(own.potentials, other.potentials, rtol=1e-6)
    assert np.array_equal(guide.heads[np.repeat(chosen, train.lengths)], apart.heads)


@pytest.mark.parametrize(
    ("settings", "method", "n", "message"),
    [
        ({"templates": ["m.parent_upos h.upos"]}, "fit", 60, "'parent_upos'"),
        ({"likely": 1.0}, "fit", 60, "likely"),
        ({"likely": 0.9, "folds": 1}, "fit", 60, "folds"),
        ({"likely": 0.9}, "fit", 1, "folds must be"),
        ({"likely": 0.9}, "partial_fit", 20, "likely=None"),
    ],
)
def test_bad_settings_are_refused(grammar, settings, method, n, message):
    with pytest.raises(InputError, match=message):
        getattr(parser(**settings), method)(grammar[0][:n])


def test_a_parser_with_a_first_parser_learns_from_all_sentences_at_once(grammar):
    with pytest.raises(InputError, match="give them to fit"):
        parser(likely=0.9, epochs=1).fit(grammar[0][:30]).partial_fit(grammar[0][30:40])


THREE = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")


@pytest.fixture(scope="module")
def grammar_and_held_out():
    treebank = synthetic_treebank(500, informative=THREE, vocabulary=10, random_state=3)
    return treebank[:300], treebank[300:400], treebank[400:]


@pytest.fixture(scope="module")
def models(grammar_and_held_out):
    train, held_out, _ = grammar_and_held_out
    crf = decoder(loss="crf").fit(train)
    return {"crf": crf, "hinge": decoder().fit(train).calibrate(held_out)}


def decoder(**settings):
    return omkl.DependencyParser(
        THREE, **{"epochs": 3, "memory": 20, "random_state": 0, **settings}
    )


def test_no_sentences_have_no_trees(models):
    model = models["hinge"]
    for call in (model.predict, model.predict_nbest, model.predict_marginals, model.parse):
        assert len(call([])) == 0
    assert len(model.parse([], confidence=True)) == 0


def arcs_of(model, treebank):
    return model._decoder.from_potentials(treebank, lambda own: own.arcs)


def short(treebank, longest=5):
    return treebank[treebank.lengths <= longest][:8]


@pytest.mark.parametrize("name", ["crf", "hinge"])
def test_marginals_are_those_of_the_model_by_enumeration(name, models, grammar_and_held_out):
    model, test = models[name], short(grammar_and_held_out[2])
    temperature = model.temperature_ or 1.0
    assert (model.temperature_ is None) == (name == "crf")
    for own, found in zip(arcs_of(model, test), model.predict_marginals(test)):
        _, expected = Trees(len(own) - 1, single_root=True).marginals(own / temperature)
        np.testing.assert_allclose(found.arcs, expected, atol=1e-10)
        if name == "hinge":
            assert found.relations.shape == (len(own) - 1, len(model.relations_))
            np.testing.assert_allclose(found.relations.sum(axis=1), 1.0)
    for parsed, found in zip(
        model.parse(test), model.predict_marginals(test) if name == "hinge" else []
    ):
        assert [model.relations_[best] for best in found.relations.argmax(axis=1)] == parsed.deprels


def test_calibrated_probabilities_are_the_shares_that_are_right(models, grammar_and_held_out):
    model, test = models["hinge"], grammar_and_held_out[2]
    marginals, parsed = model.predict_marginals(test), model.parse(test)
    sure = np.concatenate(
        [
            own.arcs[sentence.heads, np.arange(1, len(sentence) + 1)]
            for own, sentence in zip(marginals, parsed)
        ]
    )
    assert abs(sure.mean() - (parsed.heads == test.heads).mean()) < 0.05
    assert 0.1 < model.temperature_ < 10
    uncalibrated = decoder().fit(grammar_and_held_out[0])
    assert uncalibrated.temperature_ is None
    assert not hasattr(uncalibrated, "predict_marginals")
    with pytest.raises(InputError, match="after calibrate"):
        uncalibrated.parse(test, confidence=True)
    with pytest.raises(InputError, match="after calibrate"):
        uncalibrated.set_params(decode="marginal").parse(test)


def test_held_out_sentences_calibrate_and_files_keep_it(grammar_and_held_out, reloaded):
    model = decoder(early_stopping=True).fit(grammar_and_held_out[0])
    assert model.temperature_ > 0
    assert model.relation_temperature_ > 0
    first, second = (
        each.predict_marginals(grammar_and_held_out[2]) for each in (model, reloaded(model))
    )
    for own, loaded in zip(first, second):
        assert np.array_equal(own.arcs, loaded.arcs)
        assert np.array_equal(own.relations, loaded.relations)
    model.set_params(early_stopping=False).partial_fit(grammar_and_held_out[1])
    assert model.temperature_ is None


@pytest.mark.parametrize("name", ["crf", "hinge"])
def test_the_tree_of_minimum_risk_is_that_of_the_marginals(name, models, grammar_and_held_out):
    model, test = models[name], grammar_and_held_out[2]
    decoded = [NonProjectiveTree().decode(own.arcs) for own in model.predict_marginals(test)]
    model.set_params(decode="marginal")
    try:
        assert all(np.array_equal(a, b) for a, b in zip(model.predict(test), decoded))
    finally:
        model.set_params(decode="map")
    with pytest.raises(InputError, match="decode must be one of"):
        decoder(decode="best").fit(grammar_and_held_out[0][:20]).parse(test)


def test_the_best_parses_come_in_order(models, grammar_and_held_out):
    model, test = models["crf"], short(grammar_and_held_out[2])
    found = model.predict_nbest(test, 4)
    for own, parses, best in zip(arcs_of(model, test), found, model.parse(test)):
        scores = Trees(len(own) - 1, single_root=True).scores(own)
        np.testing.assert_allclose(
            [parse.score for parse in parses], np.sort(scores)[::-1][:4], atol=1e-9
        )
        assert parses[0].heads.tolist() == best.heads
        assert parses[0].deprels == best.deprels
        assert all(len(parse.deprels) == len(best.heads) for parse in parses)


def test_trees_keep_to_arcs_that_are_required_and_forbidden(models, grammar_and_held_out):
    model, test = models["crf"], short(grammar_and_held_out[2])
    best = model.predict(test)
    forbidden = [[(int(heads[0]), 1)] if len(heads) > 1 else None for heads in best]
    required = [
        [((1 if heads[-1] != 1 else 0) if len(heads) > 2 else int(heads[-1]), len(heads))]
        for heads in best
    ]
    for arcs in ({"forbidden": forbidden}, {"required": required}):
        parsed = model.predict_nbest(test, 1, **arcs)
        for i, (own, [found]) in enumerate(zip(arcs_of(model, test), parsed)):
            trees = Trees(len(own) - 1, single_root=True)
            scores = trees.scores(own)
            must, must_not = (
                arcs.get(name, [None] * 99)[i] or [] for name in ("required", "forbidden")
            )
            fits = [
                all(heads[m - 1] == h for h, m in must)
                and all(heads[m - 1] != h for h, m in must_not)
                for heads in trees.heads
            ]
            assert found.score == pytest.approx(scores[fits].max())
        assert [s.heads for s in model.parse(test, **arcs)] == [
            found.heads.tolist() for [found] in parsed
        ]
        for [(h, m)], own in zip(
            required if "required" in arcs else [], model.predict_marginals(test, **arcs)
        ):
            assert own.arcs[h, m] == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:The input has no")
@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ({"required": [[(0, 1)], [(2, 1), (3, 1)]]}, "Sentence 2: no tree"),
        ({"required": [[], [(2, 1)]], "forbidden": [[], [(2, 1)]]}, "Sentence 2: no tree"),
        ({"required": [[], [(1, 2), (2, 1)]]}, "Sentence 2: no tree"),
        ({"forbidden": [[(0, 1), (0, 2), (0, 3)], None]}, "Sentence 1: no tree"),
        ({"forbidden": [[(4, 1)], []]}, r"Sentence 1: forbidden must .* got \(4, 1\)"),
        ({"required": [[(1, 0)], []]}, "Sentence 1: required must"),
        ({"required": [["ab"], []]}, "Sentence 1: required must"),
        ({"required": [[]]}, "for each of the 2 sentences"),
        ({"required": 3}, "required must be a list"),
    ],
)
def test_constraints_that_make_no_sense_are_one_sentence(arcs, message, models):
    sentences = [Sentence(forms=list("abc"), upos=list("XYZ")) for _ in range(2)]
    with pytest.raises(InputError, match=message):
        models["crf"].parse(sentences, **arcs)
    with pytest.raises(InputError, match="None for a stream"):
        models["crf"].parse(Stream.from_iterable(sentences), **arcs)


def test_confidence_is_noted_beside_what_misc_has(models, grammar_and_held_out):
    model = models["hinge"]
    words = ["a", "b"]
    columns = {"forms": words, "lemmas": words, "upos": words, "xpos": words, "feats": words}
    sentence = Sentence(**columns, misc=["SpaceAfter=No", "HeadConf=9"])
    [parsed] = model.parse([sentence], confidence=True)
    [found] = model.predict_marginals([sentence])
    for word, misc in enumerate(parsed.misc):
        values = dict(entry.split("=") for entry in misc.split("|"))
        assert values.pop("SpaceAfter", None) == ("No" if word == 0 else None)
        assert float(values.pop("HeadConf")) == pytest.approx(
            found.arcs[parsed.heads[word], word + 1], abs=6e-4
        )
        assert float(values.pop("RelConf")) == pytest.approx(found.relations[word].max(), abs=6e-4)
        assert not values


def test_the_margin_of_second_order_ignores_arcs_that_are_not_likely(grammar):
    templates = [*GRAMMAR, "g.upos h.upos m.upos", "s.upos m.upos"]
    model = parser(templates, likely=0.9).fit(grammar[0])
    selections = [own.model_.codec.stage.selection for own in (model, model.first_)]
    assert all(0 < own.margin < np.inf for own in selections)
    assert (selections[0].most, selections[1].most) == (8, None)
