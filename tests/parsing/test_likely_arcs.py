"""Likely arcs of a first parser, trees under constraints, and probabilities of trees."""

from copy import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

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
from .conftest import INFORMATIVE, untrained

GRAMMAR = (
    "h.upos m.upos direction",
    "h.lemma m.lemma",
    "m.xpos distance",
    "h.upos between.upos m.upos",
)
FEW = ("m.xpos distance", "h.upos m.upos")


def parser(templates=GRAMMAR, **settings):
    return untrained(templates, **{"epochs": 2, **settings})


@pytest.fixture(scope="module")
def fitted(grammar):
    return parser(search=omkl.TreeSearch(likely=0.9)).fit(grammar[0])


def mask_of(x):
    return x.likely


def potentials_of(model, treebank, all_arcs=False):
    if all_arcs:
        tokens = encode(treebank, model.templates_)
    else:
        tokens = model.model_.codec.tokens(treebank)
    sentences = []
    for block in tokens.blocks():
        sentences.extend(block)
    potentials = decoding.potentials_of(model.predictor_, sentences)
    return sentences, [of_sentence.arcs for of_sentence in potentials]


def test_potentials_of_likely_arcs_are_those_of_all(grammar, fitted):
    sentences, some = potentials_of(fitted, grammar[1])
    _, everything = potentials_of(fitted, grammar[1], all_arcs=True)
    n_likely = 0
    n_arcs = 0
    for x, arcs, full in zip(sentences, some, everything):
        likely = mask_of(x)
        assert_allclose(
            arcs[likely],
            full[likely],
            rtol=1e-12,
            atol=1e-12,
        )
        assert np.all(np.isneginf(arcs[~likely]))
        assert np.all(np.isfinite(full))
        alone = initial_potentials(fitted.predictor_.structure, x)
        fitted.predictor_.banks[0].add_potentials(x, alone)
        assert np.array_equal(alone.arcs, arcs)
        n_likely += np.count_nonzero(likely[:, 1:]) - len(x)
        n_arcs += len(x) ** 2
    assert 0.05 < n_likely / n_arcs < 0.7


def random_heads(rng, n):
    """Draw a head for each word; not always a tree."""
    heads = []
    for word in range(1, n + 1):
        heads.append(rng.choice([head for head in range(n + 1) if head != word]))
    return np.array(heads)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_likely_arcs_are_within_the_margin_or_of_a_tree(n, seed, margin):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n + 1, n + 1))
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    heads = random_heads(rng, n)
    right = random_heads(rng, n)
    scores[heads, np.arange(1, n + 1)] = rng.normal(size=n)
    gold = treebank_of(right)
    guide = Guide(heads, [ArcGuide(scores.copy())])
    [candidates] = candidate_arcs(guide, gold, Selection(margin), [right], corrects=False).arcs
    [corrected] = candidate_arcs(guide, gold, Selection(margin), [right], corrects=True).arcs
    [few] = candidate_arcs(guide, gold, Selection(margin, 2), [], corrects=False).arcs
    assert candidates.potentials is None
    assert np.array_equal(candidates.likely, corrected.likely)
    assert few.likely[:, 1:].sum(axis=0).max() <= 4  # with the diagonal, and the guide's tree
    for m in range(1, n + 1):
        scores_of_heads = {h: scores[h, m] for h in range(n + 1) if h != m}
        possible = {h: score for h, score in scores_of_heads.items() if score > -np.inf}
        lowest = min(possible.values())
        threshold = max(possible.values()) - margin
        likely = {h for h, score in possible.items() if score >= threshold}
        likely |= {heads[m - 1], right[m - 1]}
        assert {h for h in scores_of_heads if candidates.likely[h, m]} == likely
        # the right arc is scored, even if it was impossible
        possible.setdefault(right[m - 1], lowest)
        for h in scores_of_heads:
            assert corrected.potentials[h, m] == np.float32(possible.get(h, -np.inf))


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
    for arcs, heads in zip(guide.arcs, train.trees()):
        scores = arcs.potentials.copy()
        np.fill_diagonal(scores, -np.inf)
        scores_of_tree = scores[heads, np.arange(1, len(scores))]
        below += (scores[:, 1:].max(axis=0) - scores_of_tree).tolist()
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
        assert_allclose(marginals.arcs[:, 1:].sum(axis=0), 1.0)


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
    has_head = gold.heads >= 0
    assert np.array_equal(heads[has_head], right[has_head])
    trees = np.split(heads, gold.offsets[1:-1])
    for gold_heads, arcs, tree in zip(gold.trees(), guide.arcs, trees):
        scores = arcs.potentials.copy()
        scores[:, 0] = 0.0
        for word, head in enumerate(gold_heads, 1):
            if head >= 0:
                others = np.arange(len(scores)) != head
                scores[others, word] = -np.inf
        assert np.array_equal(NonProjectiveTree().decode(scores), tree)
    parser(search=omkl.TreeSearch(likely=0.5)).fit(gold)


def test_the_first_parser_is_small_and_quick(grammar):
    train, _ = grammar
    quick = parser(
        random_state=4, search=omkl.TreeSearch(likely=0.9), trees=omkl.TreeForm(single_root=False)
    ).fit(train[:60])
    settings = {
        "C": 1.0,
        "epochs": 3,
        "trees": omkl.TreeForm(single_root=False, labeled=False),
        "random_state": 4,
        "memory": 20,
    }
    small = omkl.DependencyParser("small", search=omkl.TreeSearch(order=1), **settings).fit(
        train[:60]
    )
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
    tokens = encode(
        treebank,
        TemplateSet([f"m.{field}" for field in fields]),
        heads=treebank.heads,
    )
    upos = encode(treebank, TemplateSet(["m.upos"]))
    code = dict(zip("*ABCDEF", upos.columns[0, upos.roots[0] :].tolist()))
    code["."] = int(encode(treebank, TemplateSet(["m-1.upos"])).columns[0, 0])
    codes = {}
    for field in fields:
        column = tokens.columns[tokens.fields.index(field)]
        codes[field] = column[tokens.roots[0] + 1 :].tolist()
    expected = {
        "parent_upos": "BDB*DE",
        "parent_parent_upos": "D*D**D",
        "leftmost_upos": ".A.B..",
        "rightmost_upos": ".C.EF.",
        "before_upos": "..A.B.",
        "after_upos": "CE....",
    }
    for field, letters in expected.items():
        assert codes[field] == [code[letter] for letter in letters], field
    valency = codes["valency"]
    # no children
    assert valency[0] == valency[2] == valency[5]
    # one on either side, none on the left
    assert valency[1] == valency[3] != valency[4]


def test_advice_comes_from_parsers_that_have_not_seen_the_sentence(grammar):
    train, _ = grammar
    train = train[:60]
    of_all, guide = cross_fit(parser(epochs=1), train, None, 3, {})
    assert np.array_equal(of_all.parse(train).heads, parser(epochs=1).fit(train).parse(train).heads)
    fold = np.arange(60) % 3 == 1
    advice = advice_of(parser(epochs=1).fit(train[~fold])._decoder, train[fold])
    for i, expected in zip(np.flatnonzero(fold), advice.arcs):
        assert np.allclose(guide.arcs[i].potentials, expected.potentials, rtol=1e-6)
    assert np.array_equal(guide.heads[np.repeat(fold, train.lengths)], advice.heads)


@pytest.mark.parametrize(
    ("settings", "method", "n", "message"),
    [
        ({"templates": ["m.parent_upos h.upos"]}, "fit", 60, "'parent_upos'"),
        ({"likely": 1.0}, "fit", 60, "likely"),
        ({"likely": 0.9, "folds": 1}, "fit", 60, "folds"),
        ({"likely": 0.9}, "fit", 1, "folds must be"),
        ({"likely": 0.9}, "partial_fit", 20, "likely=None"),
        ({"decode": "best"}, "fit", 20, "decode must be"),
    ],
)
def test_bad_settings_are_refused(grammar, settings, method, n, message):
    search = dict(settings)
    templates = search.pop("templates", GRAMMAR)

    def train():
        estimator = parser(templates, search=omkl.TreeSearch(**search))
        getattr(estimator, method)(grammar[0][:n])

    with pytest.raises(InputError, match=message):
        train()


def test_a_parser_with_a_first_parser_learns_from_all_sentences_at_once(grammar):
    with pytest.raises(InputError, match="give them to fit"):
        parser(epochs=1, search=omkl.TreeSearch(likely=0.9)).fit(grammar[0][:30]).partial_fit(
            grammar[0][30:40]
        )


@pytest.fixture(scope="module")
def grammar_and_held_out():
    treebank = synthetic_treebank(500, informative=INFORMATIVE, vocabulary=10, random_state=3)
    return treebank[:300], treebank[300:400], treebank[400:]


@pytest.fixture(scope="module")
def models(grammar_and_held_out):
    train, held_out, _ = grammar_and_held_out
    crf = decoder(loss="crf").fit(train)
    return {"crf": crf, "hinge": decoder().fit(train).calibrate(held_out)}


def decoder(**settings):
    return untrained(INFORMATIVE, **settings)


def test_no_sentences_have_no_trees(models):
    model = models["hinge"]
    for call in (model.predict, model.predict_nbest, model.predict_marginals, model.parse):
        assert len(call([])) == 0
    assert len(model.parse([], confidence=True)) == 0


def arcs_of(model, treebank):
    return model._decoder.from_potentials(treebank, lambda potentials: potentials.arcs)


def short(treebank, longest=5):
    return treebank[treebank.lengths <= longest][:8]


@pytest.mark.parametrize("name", ["crf", "hinge"])
def test_marginals_are_those_of_the_model_by_enumeration(name, models, grammar_and_held_out):
    model = models[name]
    test = short(grammar_and_held_out[2])
    temperature = model.temperature_ or 1.0
    assert (model.temperature_ is None) == (name == "crf")
    marginals = model.predict_marginals(test)
    for arcs, of_sentence in zip(arcs_of(model, test), marginals):
        _, expected = Trees(len(arcs) - 1, NonProjectiveTree()).marginals(arcs / temperature)
        assert_allclose(of_sentence.arcs, expected, atol=1e-10)
    if name == "hinge":
        for parsed, of_sentence in zip(model.parse(test), marginals):
            relations = of_sentence.relations
            assert relations.shape == (len(parsed), len(model.relations_))
            assert_allclose(relations.sum(axis=1), 1.0)
            best = relations.argmax(axis=1)
            assert [model.relations_[code] for code in best] == parsed.deprels


def test_calibrated_probabilities_are_the_shares_that_are_right(models, grammar_and_held_out):
    model = models["hinge"]
    test = grammar_and_held_out[2]
    marginals = model.predict_marginals(test)
    parsed = model.parse(test)
    probabilities = []
    for of_sentence, sentence in zip(marginals, parsed):
        words = np.arange(1, len(sentence) + 1)
        probabilities += of_sentence.arcs[sentence.heads, words].tolist()
    assert abs(np.mean(probabilities) - (parsed.heads == test.heads).mean()) < 0.05
    assert 0.1 < model.temperature_ < 10
    uncalibrated = decoder().fit(grammar_and_held_out[0])
    assert uncalibrated.temperature_ is None
    assert not hasattr(uncalibrated, "predict_marginals")
    with pytest.raises(InputError, match="after calibrate"):
        uncalibrated.parse(test, confidence=True)
    with pytest.raises(InputError, match="after calibrate"):
        uncalibrated.set_params(search=omkl.TreeSearch(decode="marginal")).parse(test)


def test_held_out_sentences_calibrate_and_files_keep_it(grammar_and_held_out, reloaded):
    model = decoder(early_stopping=True).fit(grammar_and_held_out[0])
    assert model.temperature_ > 0
    assert model.relation_temperature_ > 0
    before = model.predict_marginals(grammar_and_held_out[2])
    after = reloaded(model).predict_marginals(grammar_and_held_out[2])
    for saved, loaded in zip(before, after):
        assert np.array_equal(saved.arcs, loaded.arcs)
        assert np.array_equal(saved.relations, loaded.relations)
    model.set_params(early_stopping=False).partial_fit(grammar_and_held_out[1])
    assert model.temperature_ is None


@pytest.mark.parametrize("name", ["crf", "hinge"])
def test_the_tree_of_minimum_risk_is_that_of_the_marginals(name, models, grammar_and_held_out):
    model = models[name]
    test = grammar_and_held_out[2]
    structure = NonProjectiveTree()
    decoded = [structure.decode(marginals.arcs) for marginals in model.predict_marginals(test)]
    model.set_params(search=omkl.TreeSearch(decode="marginal"))
    try:
        assert all(np.array_equal(a, b) for a, b in zip(model.predict(test), decoded))
    finally:
        model.set_params(search=omkl.TreeSearch())
    with pytest.raises(InputError, match="decode must be one of"):
        decoder(search=omkl.TreeSearch(decode="best")).fit(grammar_and_held_out[0][:20]).parse(test)


def test_the_best_parses_come_in_order(models, grammar_and_held_out):
    model = models["crf"]
    test = short(grammar_and_held_out[2])
    n_best = model.predict_nbest(test, 4)
    for arcs, parses, best in zip(arcs_of(model, test), n_best, model.parse(test)):
        scores = np.sort(Trees(len(arcs) - 1, NonProjectiveTree()).scores(arcs))
        assert_allclose(
            [parse.score for parse in parses],
            scores[::-1][:4],
            atol=1e-9,
        )
        assert parses[0].heads.tolist() == best.heads
        assert parses[0].deprels == best.deprels
        assert all(len(parse.deprels) == len(best.heads) for parse in parses)


def required_arc(heads):
    """Return an arc that the best tree lacks, if there is another tree."""
    head = int(heads[-1])
    if len(heads) > 2:
        head = int(head != 1)
    return (head, len(heads))


def assert_best_under_constraints(model, test, arcs_of_sentences, fits, **constraints):
    """Compare with the best of all trees that fit the arc of their sentence."""
    nbest = model.predict_nbest(test, 1, **constraints)
    for potentials, [parse], arcs in zip(arcs_of(model, test), nbest, arcs_of_sentences):
        trees = Trees(len(potentials) - 1, NonProjectiveTree())
        allowed = [all(fits(heads, arc) for arc in arcs) for heads in trees.heads]
        assert parse.score == pytest.approx(trees.scores(potentials)[allowed].max())
    parsed = model.parse(test, **constraints)
    assert [sentence.heads for sentence in parsed] == [parse.heads.tolist() for [parse] in nbest]


def has_arc(heads, arc):
    head, word = arc
    return heads[word - 1] == head


def test_trees_keep_to_arcs_that_are_required_and_forbidden(models, grammar_and_held_out):
    model = models["crf"]
    test = short(grammar_and_held_out[2])
    best = model.predict(test)
    required = [[required_arc(heads)] for heads in best]
    assert_best_under_constraints(model, test, required, has_arc, required=required)
    for [arc], marginals in zip(required, model.predict_marginals(test, required=required)):
        assert marginals.arcs[arc] == pytest.approx(1.0)
    # the only arc of a sentence of one word can't be forbidden
    arcs = [[(int(heads[0]), 1)] * (len(heads) > 1) for heads in best]
    forbidden = [forbidden_arcs or None for forbidden_arcs in arcs]
    assert_best_under_constraints(
        model, test, arcs, lambda heads, arc: not has_arc(heads, arc), forbidden=forbidden
    )
    assert len(list(model.predict_marginals(test, forbidden=forbidden))) == len(test)


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
    [marginals] = model.predict_marginals([sentence])
    space_after = ["No", None]
    for word, misc in enumerate(parsed.misc):
        values = dict(entry.split("=") for entry in misc.split("|"))
        assert values.pop("SpaceAfter", None) == space_after[word]
        arc = marginals.arcs[parsed.heads[word], word + 1]
        relation = marginals.relations[word].max()
        assert float(values.pop("HeadConf")) == pytest.approx(arc, abs=6e-4)
        assert float(values.pop("RelConf")) == pytest.approx(relation, abs=6e-4)
        assert not values


def test_the_margin_of_second_order_ignores_arcs_that_are_not_likely(grammar):
    templates = [*GRAMMAR, "g.upos h.upos m.upos", "s.upos m.upos"]
    model = parser(templates, search=omkl.TreeSearch(likely=0.9)).fit(grammar[0])
    selections = [stage.model_.codec.stage.selection for stage in (model, model.first_)]
    assert all(0 < selection.margin < np.inf for selection in selections)
    assert [selection.most for selection in selections] == [8, None]
