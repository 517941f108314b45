"""Trees under constraints, in order, of minimum risk, and the probabilities of their arcs and relations."""

import numpy as np
import pytest

import omkl
from omkl.data import Sentence, Stream, synthetic_treebank
from omkl.exceptions import InputError
from omkl.structures import NonProjectiveTree

from ..structures.conftest import Trees

GRAMMAR = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")


@pytest.fixture(scope="module")
def grammar():
    treebank = synthetic_treebank(500, informative=GRAMMAR, vocabulary=10, random_state=3)
    return treebank[:300], treebank[300:400], treebank[400:]


@pytest.fixture(scope="module")
def models(grammar):
    train, held_out, _ = grammar
    crf = parser(loss="crf").fit(train)
    return {"crf": crf, "hinge": parser().fit(train).calibrate(held_out)}


def parser(**settings):
    return omkl.DependencyParser(GRAMMAR, **{"epochs": 3, "memory": 20, "random_state": 0, **settings})


def test_no_sentences_have_no_trees(models):
    model = models["hinge"]
    for call in (model.predict, model.predict_nbest, model.predict_marginals, model.parse):
        assert len(call([])) == 0
    assert len(model.parse([], confidence=True)) == 0


def potentials_of(model, treebank):
    return model._decoder.from_potentials(treebank, lambda own: own.arcs)


def short(treebank, longest=5):
    return treebank[treebank.lengths <= longest][:8]


@pytest.mark.parametrize("name", ["crf", "hinge"])
def test_marginals_are_those_of_the_model_by_enumeration(name, models, grammar):
    model, test = models[name], short(grammar[2])
    temperature = model.temperature_ or 1.0
    assert (model.temperature_ is None) == (name == "crf")
    for own, found in zip(potentials_of(model, test), model.predict_marginals(test)):
        _, expected = Trees(len(own) - 1, single_root=True).marginals(own / temperature)
        np.testing.assert_allclose(found.arcs, expected, atol=1e-10)
        if name == "hinge":
            assert found.relations.shape == (len(own) - 1, len(model.relations_))
            np.testing.assert_allclose(found.relations.sum(axis=1), 1.0)
    for parsed, found in zip(model.parse(test), model.predict_marginals(test) if name == "hinge" else []):
        assert [model.relations_[best] for best in found.relations.argmax(axis=1)] == parsed.deprels


def test_calibrated_probabilities_are_the_shares_that_are_right(models, grammar):
    model, test = models["hinge"], grammar[2]
    marginals, parsed = model.predict_marginals(test), model.parse(test)
    sure = np.concatenate(
        [own.arcs[sentence.heads, np.arange(1, len(sentence) + 1)] for own, sentence in zip(marginals, parsed)]
    )
    assert abs(sure.mean() - (parsed.heads == test.heads).mean()) < 0.05
    assert 0.1 < model.temperature_ < 10
    uncalibrated = parser().fit(grammar[0])
    assert uncalibrated.temperature_ is None
    assert not hasattr(uncalibrated, "predict_marginals")
    with pytest.raises(InputError, match="after calibrate"):
        uncalibrated.parse(test, confidence=True)
    with pytest.raises(InputError, match="after calibrate"):
        uncalibrated.set_params(decode="marginal").parse(test)


def test_held_out_sentences_calibrate_and_files_keep_it(grammar, reloaded):
    model = parser(early_stopping=True).fit(grammar[0])
    assert model.temperature_ > 0
    assert model.relation_temperature_ > 0
    first, second = (each.predict_marginals(grammar[2]) for each in (model, reloaded(model)))
    for own, loaded in zip(first, second):
        assert np.array_equal(own.arcs, loaded.arcs)
        assert np.array_equal(own.relations, loaded.relations)
    model.set_params(early_stopping=False).partial_fit(grammar[1])
    assert model.temperature_ is None


@pytest.mark.parametrize("name", ["crf", "hinge"])
def test_the_tree_of_minimum_risk_is_that_of_the_marginals(name, models, grammar):
    model, test = models[name], grammar[2]
    decoded = [NonProjectiveTree().decode(own.arcs) for own in model.predict_marginals(test)]
    model.set_params(decode="marginal")
    try:
        assert all(np.array_equal(a, b) for a, b in zip(model.predict(test), decoded))
    finally:
        model.set_params(decode="map")
    with pytest.raises(InputError, match="decode must be one of"):
        parser(decode="best").fit(grammar[0][:20]).parse(test)


def test_the_best_parses_come_in_order(models, grammar):
    model, test = models["crf"], short(grammar[2])
    found = model.predict_nbest(test, 4)
    for own, parses, best in zip(potentials_of(model, test), found, model.parse(test)):
        scores = Trees(len(own) - 1, single_root=True).scores(own)
        np.testing.assert_allclose([parse.score for parse in parses], np.sort(scores)[::-1][:4], atol=1e-9)
        assert parses[0].heads.tolist() == best.heads
        assert parses[0].deprels == best.deprels
        assert all(len(parse.deprels) == len(best.heads) for parse in parses)


def test_trees_keep_to_arcs_that_are_required_and_forbidden(models, grammar):
    model, test = models["crf"], short(grammar[2])
    best = model.predict(test)
    forbidden = [[(int(heads[0]), 1)] if len(heads) > 1 else None for heads in best]
    required = [[((1 if heads[-1] != 1 else 0) if len(heads) > 2 else int(heads[-1]), len(heads))] for heads in best]
    for arcs in ({"forbidden": forbidden}, {"required": required}):
        parsed = model.predict_nbest(test, 1, **arcs)
        for i, (own, [found]) in enumerate(zip(potentials_of(model, test), parsed)):
            trees = Trees(len(own) - 1, single_root=True)
            scores = trees.scores(own)
            must, must_not = (arcs.get(name, [None] * 99)[i] or [] for name in ("required", "forbidden"))
            fits = [
                all(heads[m - 1] == h for h, m in must) and all(heads[m - 1] != h for h, m in must_not)
                for heads in trees.heads
            ]
            assert found.score == pytest.approx(scores[fits].max())
        assert [s.heads for s in model.parse(test, **arcs)] == [found.heads.tolist() for [found] in parsed]
        for [(h, m)], own in zip(required if "required" in arcs else [], model.predict_marginals(test, **arcs)):
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


def test_confidence_is_noted_beside_what_misc_has(models, grammar):
    model = models["hinge"]
    words = ["a", "b"]
    columns = {"forms": words, "lemmas": words, "upos": words, "xpos": words, "feats": words}
    sentence = Sentence(**columns, misc=["SpaceAfter=No", "HeadConf=9"])
    [parsed] = model.parse([sentence], confidence=True)
    [found] = model.predict_marginals([sentence])
    for word, misc in enumerate(parsed.misc):
        values = dict(entry.split("=") for entry in misc.split("|"))
        assert values.pop("SpaceAfter", None) == ("No" if word == 0 else None)
        assert float(values.pop("HeadConf")) == pytest.approx(found.arcs[parsed.heads[word], word + 1], abs=6e-4)
        assert float(values.pop("RelConf")) == pytest.approx(found.relations[word].max(), abs=6e-4)
        assert not values
