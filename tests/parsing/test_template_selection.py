"""Templates are fitted to a treebank: substitutes for empty columns, merged and dropped templates."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import omkl
from omkl.data import Sentence, Treebank, stream_conllu, synthetic_treebank, write_treebank
from omkl.exceptions import DataWarning, InputError
from omkl.groups import TemplateSet
from omkl.groups.templates.language import NAMED_SETS
from omkl.parsing.template_selection import suited

TEMPLATES = (
    "h.upos m.upos direction",
    "h.xpos m.xpos direction",
    "m.xpos distance",
    "h.lemma m.lemma",
    "h.feats m.form",
)


@pytest.fixture(scope="module")
def treebank():
    return synthetic_treebank(120, vocabulary=10, random_state=1)


def without(treebank, *columns):
    """The same sentences with ``_`` in some columns."""
    return replace(treebank, **{name: np.zeros_like(getattr(treebank, name)) for name in columns})


def xpos_is_upos(treebank):
    strings = {**treebank.strings, "xpos": treebank.strings["upos"]}
    return replace(treebank, xpos=treebank.upos, strings=strings)


def parser(templates=TEMPLATES, **settings):
    return omkl.DependencyParser(templates, **{"epochs": 2, "memory": 20, "random_state": 0, **settings})


def silently(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("name", NAMED_SETS)
def test_a_set_without_xpos_is_the_set_whose_views_read_upos(treebank, name):
    """Compare with rewritten templates."""
    chosen, change = suited(TemplateSet.resolve(name), without(treebank, "xpos"), whole=False)
    expected = {}
    for template in TemplateSet.resolve(name):
        atoms = template.atoms.replace("xpos", "upos").split()
        expected[frozenset(atoms)] = None
    assert {frozenset(template.atoms.split()) for template in chosen} == set(expected)
    assert len(chosen) == len(expected)
    assert ("UPOS is read in place of XPOS" in change) == ("xpos" in TemplateSet.resolve(name).fields)
    assert len(change) <= 150
    assert "\n" not in change


def test_templates_that_become_equal_are_merged_and_keep_the_name_of_the_first(treebank):
    templates = TemplateSet(["h.upos m.xpos", "own = h.xpos m.upos", "fine = h.form m.xpos m.upos", "h.form m.upos"])
    chosen, change = suited(templates, without(treebank, "xpos"))
    assert list(map(str, chosen)) == ["h.upos m.upos", "fine = h.form m.upos"]
    assert "2 of 4 templates" in change
    assert "2 are then equal to others" in change


def test_fields_of_relatives_are_replaced_and_left_out_alike(treebank):
    templates = TemplateSet(["m.parent_xpos h.xpos", "m.parent_parent_upos", "m.parent_lemma", "kinship"])
    chosen, _ = suited(templates, without(treebank, "xpos", "lemmas"))
    assert chosen.names == ["h.upos m.parent_upos", "m.parent_parent_upos", "kinship"]
    few = replace(treebank, xpos=treebank.xpos * (np.arange(treebank.n_words) % 50 == 0))
    assert suited(templates[:1], few)[0].names == chosen.names[:1]


def test_tags_of_one_kind_serve_for_both(treebank):
    few = replace(treebank, xpos=treebank.xpos * (np.arange(treebank.n_words) % 50 == 0))  # as good as none
    for templates, data, names in (
        (TEMPLATES[:2], without(treebank, "upos"), ["h.xpos m.xpos direction"]),
        (TEMPLATES[:2], few, ["h.upos m.upos direction"]),
        (TEMPLATES, xpos_is_upos(treebank), ["h.upos m.upos direction", "m.upos distance", *TEMPLATES[3:]]),
    ):
        assert suited(TemplateSet(templates), data)[0].names == names
    with pytest.raises(InputError, match="a field that the data lacks: 'UPOS', 'XPOS'"):
        suited(TemplateSet(TEMPLATES[:2]), without(treebank, "upos", "xpos"))


def test_attributes_that_no_word_has_are_left_out_only_of_what_is_whole(treebank):
    templates = TemplateSet(["h.upos", "h.Case m.Case", "h.Nonsense m.upos"])
    chosen, change = suited(templates, treebank)
    assert chosen.names == ["h.upos", "h.Case m.Case"]
    assert "no word has 'Nonsense', which 1 read" in change
    assert suited(templates, treebank, whole=False) == (templates, "")


def test_a_parser_without_xpos_is_that_of_upos_in_its_place(treebank):
    test = treebank[100:]
    with pytest.warns(DataWarning, match="UPOS is read in place of XPOS") as caught:
        model = parser().fit(without(treebank[:100], "xpos"))
    assert len(caught) == 1
    twin = parser(["h.upos m.upos direction", "m.upos distance", "h.lemma m.lemma", "h.feats m.form"])
    twin = silently(lambda: twin.fit(without(treebank[:100], "xpos")))
    assert model.templates_ == twin.templates_
    assert "xpos" not in model.model_.codec.relations.templates.fields
    for input_ in (test, without(test, "xpos")):  # tags that were not there in training are not looked at
        parsed = silently(lambda input_=input_: model.parse(input_))
        assert np.array_equal(parsed.heads, twin.parse(input_).heads)
        assert np.array_equal(parsed.deprels, twin.parse(input_).deprels)


def test_what_a_model_needs_and_the_input_lacks_is_one_warning(treebank, reloaded):
    train, test = treebank[:100], treebank[100:]
    model = parser().fit(train)
    for candidate in (model, reloaded(model), model.prune(4)):
        silently(lambda candidate=candidate: candidate.parse(test))
        with pytest.warns(DataWarning, match="The input has no UPOS, XPOS"):
            candidate.group_report(without(test, "upos", "xpos"))
        with pytest.warns(DataWarning, match="The input has no UPOS, XPOS") as caught:
            candidate.parse(without(test, "upos", "xpos"))
        assert len(caught) == 1
    # a field of some training words may be missing in a short sentence
    some = train.feats * (np.arange(train.n_words) % 2)
    sometimes = parser().fit(replace(train, feats=some))
    silently(lambda: sometimes.parse([Sentence(forms=["a"], lemmas=["a"], upos=["NOUN"], xpos=["X01"])]))
    with pytest.warns(DataWarning, match="no FEATS"):
        sometimes.parse(without(test, "feats"))


def test_the_first_sentences_of_a_stream_decide(treebank, tmp_path):
    path = tmp_path / "t.conllu"
    write_treebank(path, Treebank.from_sentences([*without(treebank[:50], "xpos"), *treebank[50:]]))
    with pytest.warns(DataWarning, match="the first 50 sentences: UPOS is read in place of XPOS") as caught:
        model = parser("auto", epochs=1).fit(stream_conllu(path, block_size=50))
    assert len(caught) == 1
    assert "xpos" not in model.templates_.fields + model.model_.codec.relations.templates.fields
    with pytest.warns(DataWarning, match="the first 10 sentences") as caught:
        model = parser().partial_fit(without(treebank[:10], "xpos"))
    assert len(caught) == 1
    silently(lambda: model.partial_fit(treebank[10:30]))
    assert model.templates_.names[1] == "m.upos distance"
