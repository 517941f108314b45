"""``keep=``: retraining on the best templates, a given number or as few as held-out sentences allow."""

from dataclasses import replace

import numpy as np
import pytest

import omkl
from omkl.data import Stream
from omkl.exceptions import InputError
from omkl.groups import TemplateSet
from omkl.parsing.template_selection import PERIOD, fewest_templates

INFORMATIVE = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
USELESS = ("h.form m.form direction", "m.feats distance", "h.xpos m.form", "h+1.upos m-1.upos direction", "h.feats")


def parser(templates=INFORMATIVE + USELESS, **settings):
    return omkl.DependencyParser(templates, **{"epochs": 3, "memory": 20, "random_state": 0, **settings})


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
        assert np.array_equal(model.model_.trainer.banks[0].table, auto.model_.trainer.banks[0].table)
    assert reloaded(auto).keep == "auto"
    weights = np.ones(len(train))
    weights[::2] = 2
    assert len(parser(keep="auto").fit(train, sample_weight=weights).templates_) <= 5


class Scripted:
    """Parser whose accuracy depends only on its number of templates."""

    def __init__(self, templates, gold, n_right):
        self.templates_ = templates
        self._gold, self._n_right = gold, n_right
        self.template_weights_ = {name: 1.0 / (k + 1) for k, name in enumerate(templates.names)}
        self.template_weights_[templates.names[-1]] *= len(templates) < 16  # with all of them the last one is dead

    def ranking(self):
        return sorted(self.template_weights_, key=self.template_weights_.get, reverse=True)

    def parse(self, sentences):
        heads = np.where(np.arange(sentences.n_words) < self._n_right, sentences.heads, -1)
        return replace(sentences, heads=heads)


@pytest.mark.parametrize(
    ("right", "kept"),
    [
        ({16: 400, 7: 400, 3: 400, 1: 400}, 1),
        ({16: 400, 7: 300}, 15),
        ({16: 300, 7: 400, 3: 300}, 7),  # worse than the best so far, though not than all
        ({16: 300, 7: 400, 3: 399, 1: 300}, 3),  # one word is below a standard error
        ({16: 400, 7: 500, 3: 400}, 7),
    ],
)
def test_halving_ends_where_it_is_worse_than_the_best_so_far(grammar, right, kept):
    train, _ = grammar
    templates = TemplateSet([f"h.form m+{k}.form" for k in range(16)])
    asked = []

    def trained(stage, templates, chosen, **settings):
        assert not settings or len(templates) < 16
        asked.append((stage, len(templates)))
        assert not np.any(chosen % PERIOD == PERIOD - 1)
        return Scripted(templates, train, right[len(templates)])

    told = []
    found = fewest_templates(trained, templates, train, told.append)
    assert found.names == templates.names[:kept]
    assert [n for _, n in asked] == list(right)
    assert len({stage for stage, _ in asked}) == len(asked)
    assert told[-1].startswith(f"{kept} of 16 templates stay")


@pytest.mark.parametrize(
    ("settings", "n", "message"),
    [
        *(({"keep": keep}, 350, "keep") for keep in ("all", 0, 2.5, True)),
        ({"keep": 9}, 350, "keep must be"),
        ({"keep": 3, "first": parser()}, 350, "first=None"),
        ({"keep": "auto"}, 9, "holds out one sentence in 5, and there are 9"),
    ],
)
def test_selections_that_are_not_possible_are_refused(grammar, settings, n, message):
    with pytest.raises(InputError, match=message):
        parser(**settings).fit(grammar[0][:n])


def test_a_stream_is_not_trained_on_several_times(grammar):
    with pytest.raises(InputError, match="not a stream"):
        parser(keep=3).fit(Stream.from_iterable(iter(grammar[0])))
    with pytest.raises(InputError, match="partial_fit once"):
        parser(keep="auto").partial_fit(grammar[0])
