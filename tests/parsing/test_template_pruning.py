"""Templates are fitted to a treebank, and ``keep=`` retrains on the best ones."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl import TreeSearch
from omkl.data import Sentence, Stream, Treebank, stream_conllu, synthetic_treebank, write_treebank
from omkl.exceptions import DataWarning, InputError
from omkl.groups import TemplateSet
from omkl.groups.templates.language import NAMED_SETS
from omkl.parsing.sentences import suitable_templates
from omkl.parsing.template_selection import PERIOD, fewest_templates

from .conftest import INFORMATIVE, USELESS, untrained


def parser(templates=INFORMATIVE + USELESS, **settings):
    return untrained(templates, **settings)


def test_a_number_of_templates_is_pruning_and_training_anew(grammar):
    train, test = grammar
    once = parser(keep=3).fit(train)
    twice = parser().fit(train).prune(3).fit(train)
    assert once.templates_ == twice.templates_
    assert set(once.templates_.names) == set(INFORMATIVE)
    assert np.array_equal(once.parse(test).heads, twice.parse(test).heads)
    assert np.array_equal(once.parse(test).deprels, twice.parse(test).deprels)
    assert once.templates == INFORMATIVE + USELESS
    assert parser(keep=3, regularizer="l2").fit(train).n_iter_ == 3


@pytest.mark.slow
def test_as_few_as_do_are_those_that_inform(grammar, tmp_path, reloaded, capsys):
    train, test = grammar
    auto = parser(keep="auto", verbose=True).fit(train)
    assert "of 8 templates stay" in capsys.readouterr().out
    assert set(INFORMATIVE) <= set(auto.templates_.names)
    assert len(auto.templates_) <= 5
    assert auto.score(test) > parser().fit(train).score(test) - 0.02
    again = parser(keep="auto").fit(train, checkpoint=tmp_path / "run")
    resumed = parser(keep="auto").fit(train, checkpoint=tmp_path / "run", resume=True)
    for model in (again, resumed):
        assert model.templates_ == auto.templates_
        assert np.array_equal(
            model.model_.trainer.banks[0].table, auto.model_.trainer.banks[0].table
        )
    assert reloaded(auto).keep == "auto"
    assert reloaded(auto).pruning_curve_ == auto.pruning_curve_
    assert auto.pruning_curve_[0]["templates"] == 8
    assert parser(keep=3).fit(train).pruning_curve_ is None
    weights = np.ones(len(train))
    weights[::2] = 2
    assert len(parser(keep="auto").fit(train, sample_weight=weights).templates_) <= 5


class Scripted:
    """Parser whose accuracy depends only on its number of templates."""

    def __init__(self, templates, n_right):
        self.templates_ = templates
        self._n_right = n_right
        self.template_weights_ = {name: 1.0 / (k + 1) for k, name in enumerate(templates.names)}
        if len(templates) == 16:
            # with all of them the last one is dead
            self.template_weights_[templates.names[-1]] = 0.0

    def group_report(self, sentences):
        assert len(sentences)
        return [
            {"group": name, "loss_increase": weight}
            for name, weight in self.template_weights_.items()
        ]

    def parse(self, sentences):
        heads = np.where(
            np.arange(sentences.n_words) < self._n_right,
            sentences.heads,
            -1,
        )
        return replace(sentences, heads=heads)


@pytest.mark.parametrize(
    ("right", "n_chosen"),
    [
        ({16: 400, 7: 400, 3: 400, 1: 400}, 1),
        ({16: 400, 7: 300, 3: 300, 1: 300}, 15),
        ({16: 300, 7: 400, 3: 300, 1: 300}, 7),  # worse than the best, though not than all
        ({16: 300, 7: 400, 3: 399, 1: 300}, 3),  # one word is below a standard error
        ({16: 200, 7: 300, 3: 200, 1: 200}, 7),
        ({16: 400, 7: 300, 3: 400, 1: 300}, 3),
    ],
)
def test_the_knee_is_the_smallest_number_within_a_standard_error_of_the_best(
    grammar, right, n_chosen
):
    train = grammar[0]
    templates = TemplateSet([f"h.form m+{k}.form" for k in range(16)])
    n_right = list(right.values())
    sizes = {}

    def train_scripted(stage, templates, chosen, **settings):
        assert not settings or len(templates) < 16
        assert stage not in sizes
        sizes[stage] = len(templates)
        assert not np.any(chosen % PERIOD == PERIOD - 1)
        return Scripted(templates, right[len(templates)])

    messages = []
    chosen, curve = fewest_templates(train_scripted, templates, train, messages.append)
    gold = train[np.flatnonzero(np.arange(len(train)) % PERIOD == PERIOD - 1)[1::2]]
    assert [point["templates"] for point in curve] == list(right)

    counts = np.clip(
        np.subtract.outer(n_right, gold.offsets[:-1]),
        0,
        gold.lengths,
    )
    differences = counts[np.argmax(n_right)] - counts
    errors = np.std(differences, axis=1, ddof=1) * np.sqrt(len(gold))
    for key, expected in {
        "accuracy": n_right,
        "behind": np.max(n_right) - n_right,
        "standard_error": errors,
    }.items():
        assert_allclose([point[key] * gold.n_words for point in curve], expected)
    assert chosen.names == templates.names[:n_chosen]
    assert list(sizes.values()) == list(right)
    assert messages[-1].startswith(f"{n_chosen} of 16 templates stay")


@pytest.mark.parametrize(
    ("settings", "n", "message"),
    [
        *(({"keep": keep}, 350, "keep") for keep in ("all", 0, 2.5, True)),
        ({"keep": 9}, 350, "keep must be"),
        ({"keep": "auto"}, 19, "holds out one sentence in 5, and there are 19"),
    ],
)
def test_selections_that_are_not_possible_are_refused(grammar, settings, n, message):
    with pytest.raises(InputError, match=message):
        parser(**settings).fit(grammar[0][:n])


def test_a_stream_is_not_trained_on_several_times(grammar):
    with pytest.raises(InputError, match="not a stream"):
        parser(keep=3).fit(Stream.from_iterable(iter(grammar[0])))
    with pytest.raises(InputError, match="partial_fit cannot do"):
        parser(keep="auto").partial_fit(grammar[0])


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


def with_few_xpos(treebank):
    """The same sentences with an XPOS tag at one word in 50, which is as good as none."""
    return replace(treebank, xpos=treebank.xpos * (np.arange(treebank.n_words) % 50 == 0))


def xpos_is_upos(treebank):
    strings = {**treebank.strings, "xpos": treebank.strings["upos"]}
    return replace(treebank, xpos=treebank.upos, strings=strings)


def silently(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("name", NAMED_SETS)
def test_a_set_without_xpos_is_the_set_whose_views_read_upos(treebank, name):
    """Compare with rewritten templates."""
    named_set = TemplateSet.resolve(name)
    chosen, change = suitable_templates(named_set, without(treebank, "xpos"), is_all_data=False)
    expected = {}
    for template in named_set:
        atoms = template.atoms.replace("xpos", "upos").split()
        expected[frozenset(atoms)] = None
    assert {frozenset(template.atoms.split()) for template in chosen} == set(expected)
    assert len(chosen) == len(expected)
    reads_xpos = "xpos" in named_set.fields
    assert ("UPOS is read in place of XPOS" in change) == reads_xpos
    assert len(change) <= 150
    assert "\n" not in change


def test_templates_that_become_equal_are_merged_and_keep_the_name_of_the_first(treebank):
    templates = TemplateSet(
        ["h.upos m.xpos", "own = h.xpos m.upos", "fine = h.form m.xpos m.upos", "h.form m.upos"]
    )
    chosen, change = suitable_templates(templates, without(treebank, "xpos"))
    assert list(map(str, chosen)) == ["h.upos m.upos", "fine = h.form m.upos"]
    assert "2 of 4 templates" in change
    assert "2 are then equal to others" in change


def test_fields_of_relatives_are_replaced_and_left_out_alike(treebank):
    templates = TemplateSet(
        ["m.parent_xpos h.xpos", "m.parent_parent_upos", "m.parent_lemma", "m.valency"]
    )
    chosen, _ = suitable_templates(templates, without(treebank, "xpos", "lemmas"))
    assert chosen.names == ["h.upos m.parent_upos", "m.parent_parent_upos", "m.valency"]
    few = with_few_xpos(treebank)
    assert suitable_templates(templates[:1], few)[0].names == chosen.names[:1]


def test_tags_of_one_kind_serve_for_both(treebank):
    few = with_few_xpos(treebank)
    for templates, data, names in (
        (TEMPLATES[:2], without(treebank, "upos"), ["h.xpos m.xpos direction"]),
        (TEMPLATES[:2], few, ["h.upos m.upos direction"]),
        (
            TEMPLATES,
            xpos_is_upos(treebank),
            ["h.upos m.upos direction", "m.upos distance", *TEMPLATES[3:]],
        ),
    ):
        assert suitable_templates(TemplateSet(templates), data)[0].names == names
    with pytest.raises(InputError, match="a field that the data lacks: 'UPOS', 'XPOS'"):
        suitable_templates(TemplateSet(TEMPLATES[:2]), without(treebank, "upos", "xpos"))


def test_attributes_that_no_word_has_are_left_out_only_of_what_is_whole(treebank):
    templates = TemplateSet(["h.upos", "h.Case m.Case", "h.Nonsense m.upos"])
    chosen, change = suitable_templates(templates, treebank)
    assert chosen.names == ["h.upos", "h.Case m.Case"]
    assert "no word has 'Nonsense', which 1 read" in change
    assert suitable_templates(templates, treebank, is_all_data=False) == (templates, "")


def test_a_parser_without_xpos_is_that_of_upos_in_its_place(treebank):
    test = treebank[100:]
    with pytest.warns(DataWarning, match="UPOS is read in place of XPOS") as caught:
        model = parser(TEMPLATES).fit(without(treebank[:100], "xpos"))
    assert len(caught) == 1
    twin = parser(
        ["h.upos m.upos direction", "m.upos distance", "h.lemma m.lemma", "h.feats m.form"]
    )
    twin = silently(lambda: twin.fit(without(treebank[:100], "xpos")))
    assert model.templates_ == twin.templates_
    assert "xpos" not in model.model_.codec.relations.templates.fields
    # tags that were not there in training are not looked at
    for input_ in (test, without(test, "xpos")):
        parsed = silently(lambda input_=input_: model.parse(input_))
        assert np.array_equal(parsed.heads, twin.parse(input_).heads)
        assert np.array_equal(parsed.deprels, twin.parse(input_).deprels)


def test_what_a_model_needs_and_the_input_lacks_is_one_warning(treebank, reloaded):
    train = treebank[:100]
    test = treebank[100:]
    model = parser(TEMPLATES).fit(train)
    for candidate in (model, reloaded(model), model.prune(4)):
        silently(lambda candidate=candidate: candidate.parse(test))
        with pytest.warns(DataWarning, match="The input has no UPOS, XPOS"):
            candidate.group_report(without(test, "upos", "xpos"))
        with pytest.warns(DataWarning, match="The input has no UPOS, XPOS") as caught:
            candidate.parse(without(test, "upos", "xpos"))
        assert len(caught) == 1
    # a field of some training words may be missing in a short sentence
    some = train.feats * (np.arange(train.n_words) % 2)
    sometimes = parser(TEMPLATES).fit(replace(train, feats=some))
    word = Sentence(forms=["a"], lemmas=["a"], upos=["NOUN"], xpos=["X01"])
    silently(lambda: sometimes.parse([word]))
    with pytest.warns(DataWarning, match="no FEATS"):
        sometimes.parse(without(test, "feats"))


def test_the_first_sentences_of_a_stream_decide(treebank, tmp_path):
    path = tmp_path / "t.conllu"
    write_treebank(path, Treebank.from_sentences([*without(treebank[:50], "xpos"), *treebank[50:]]))
    with pytest.warns(
        DataWarning, match="the first 50 sentences: UPOS is read in place of XPOS"
    ) as caught:
        model = parser("auto", epochs=1, search=TreeSearch(order=1)).fit(
            stream_conllu(path, block_size=50)
        )
    assert len(caught) == 1
    assert "xpos" not in model.templates_.fields + model.model_.codec.relations.templates.fields
    with pytest.warns(DataWarning, match="the first 10 sentences") as caught:
        model = parser(TEMPLATES).partial_fit(without(treebank[:10], "xpos"))
    assert len(caught) == 1
    silently(lambda: model.partial_fit(treebank[10:30]))
    assert model.templates_.names[1] == "m.upos distance"
