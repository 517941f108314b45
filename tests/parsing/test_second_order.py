"""Parsers of second order: grandparents and siblings decide where arcs cannot."""

import copy
import gc

import numpy as np
import pytest

import omkl
from omkl.data import Sentence, Treebank, stream_conllu, write_treebank
from omkl.exceptions import DataWarning, InputError
from omkl.groups import TemplateSet
from omkl.groups.templates.layout import ArcTokens

ARCS = ("h.upos m.upos direction", "distance", "m.upos")
PARTS = ("g.lemma h.upos m.upos", "g.misc:Noise", "s.upos h.lemma m.upos", "s.form m.form")


def sentence(rng):
    """Draw a verb and nouns after it; the verb's lemma tells what the nouns depend on.

    If it is "a", all nouns depend on the verb; if it is "b", each depends on the noun before it.
    """
    n = int(rng.integers(2, 6))
    lemma = "ab"[rng.integers(2)]
    n_before = int(rng.integers(0, 3))
    verb = n_before + 1
    if lemma == "a":
        heads_of_nouns = [verb] * n
    else:
        heads_of_nouns = list(range(verb, verb + n))
    heads = [verb] * n_before + [0] + heads_of_nouns
    relations = {verb: "obj"}
    return Sentence(
        forms=[f"w{rng.integers(50)}" for _ in heads],
        lemmas=["x"] * n_before + [lemma] + ["y"] * n,
        upos=["ADV"] * n_before + ["VERB"] + ["NOUN"] * n,
        misc=[f"Noise={rng.integers(9)}" for _ in heads],
        heads=heads,
        deprels=["advmod"] * n_before
        + ["root"]
        + [relations.get(head, "nmod") for head in heads_of_nouns],
    )


@pytest.fixture(scope="module")
def treebanks():
    rng = np.random.default_rng(0)
    sentences = [sentence(rng) for _ in range(400)]
    return Treebank.from_sentences(sentences[:250]), Treebank.from_sentences(sentences[250:])


def parser(**settings):
    return omkl.DependencyParser(
        [*ARCS, *PARTS], **{"epochs": 4, "memory": 10, "random_state": 0, **settings}
    )


@pytest.fixture(scope="module")
def fitted(treebanks):
    return parser().fit(treebanks[0])


def same_trees(one, other, treebank):
    return np.array_equal(
        one.parse(treebank).heads,
        other.parse(treebank).heads,
    )


def test_parts_tell_what_arcs_cannot(treebanks, fitted):
    train, test = treebanks
    with pytest.warns(DataWarning, match="leaves out 4 templates"):
        arcs = parser(search=omkl.TreeSearch(order=1)).fit(train)
    assert arcs.templates_.names == list(ARCS)
    assert arcs.score(test) < 0.85
    assert same_trees(arcs, fitted.first_, test)
    assert fitted.score(test) > 0.98
    assert fitted.evaluate(test)["las"] > 0.97


def test_only_the_model_stays_in_memory(treebanks, fitted):
    train, _ = treebanks
    assert fitted.first_.memory_usage()["training"] == 0.0
    assert len(fitted.first_.history_) == 4
    with pytest.raises(InputError, match="training=False"):
        fitted.first_.partial_fit(train)
    few = train[:87]
    model = parser(epochs=1).fit(few)
    gc.collect()
    sizes = [len(tokens) for tokens in gc.get_objects() if type(tokens) is ArcTokens]
    assert not {43, 44, 87} & set(sizes)  # of folds, and of all sentences
    assert model.score(few) > 0.5


def test_weights_are_those_of_all_templates(treebanks, fitted):
    weights = fitted.template_weights_
    assert list(weights) == fitted.templates_.names == [*ARCS, *PARTS]
    assert sum(weights.values()) == pytest.approx(1)
    # weights of the squared mixed norm are shares of the norms
    norms = [*fitted.first_.predictor_.norms, *fitted.predictor_.norms]
    assert list(weights.values()) == pytest.approx(np.array(norms) / sum(norms))
    assert weights["g.misc:Noise"] == 0
    assert "g.misc:Noise" in fitted.left_out_
    assert min(weights[PARTS[0]], weights[PARTS[2]]) > weights["s.form m.form"]
    assert set(fitted.ranking()) == set(weights)
    report = {row["group"]: row for row in fitted.group_report(treebanks[1])}
    assert list(report) == list(weights)
    assert report[ARCS[0]]["loss_increase"] > 0.1
    assert report[PARTS[1]]["loss_increase"] == 0
    assert sum(row["bytes_share"] for row in fitted.group_report_) == pytest.approx(1)
    features = [feature["feature"] for feature in fitted.top_features(20, PARTS[0])]
    assert "g.lemma=b h.upos=NOUN m.upos=NOUN" in features


@pytest.mark.parametrize("training", [True, False])
def test_model_files_hold_both_orders(treebanks, fitted, tmp_path, training):
    fitted.save(tmp_path / "parser.omkl", training=training)
    loaded = omkl.load(tmp_path / "parser.omkl")
    assert same_trees(loaded, fitted, treebanks[1])
    assert loaded.template_weights_ == pytest.approx(fitted.template_weights_)
    assert loaded.search.order == 2


def test_pruning_ranks_arcs_and_parts_together(treebanks, fitted):
    _, test = treebanks
    assert same_trees(fitted.prune(len(fitted.templates_)), fitted, test)
    pruned = fitted.prune(4)
    assert len(pruned.templates_) == 4
    assert set(pruned.templates_.names) <= set(fitted.ranking()[:4]) | set(ARCS)
    assert fitted.prune(1).templates_.by_part().keys() == {"arc"}
    few = parser(keep=3).fit(treebanks[0])
    assert len(few.templates_) == 3
    only_arcs = copy.copy(fitted)._restricted(list(ARCS))
    assert same_trees(only_arcs, fitted.first_, test)
    assert only_arcs.parse(test)[0].deprels != ["_"] * len(test[0])


def test_an_explanation_adds_up(treebanks, fitted):
    _, test = treebanks
    for i in range(5):
        gold = test.trees()[i]
        told = fitted.explain(test[i : i + 1], heads=gold)
        assert sum(told.groups.values()) == pytest.approx(told.margin, abs=1e-4)
        features = fitted.explain(test[i : i + 1], heads=gold, n=10_000).features
        sum_of_features = sum(row["adds"] for row in features)
        assert sum_of_features == pytest.approx(told.margin, abs=1e-4)
    assert set(told.groups) <= set(fitted.templates_.names)
    # also where the parser has no doubt
    for i in range(10):
        explained = fitted.explain(test[i : i + 1])
        assert not np.array_equal(explained.output, explained.against)
    heads = fitted.explain(test[0:1], word=2)
    assert heads.output[1] != heads.against[1]


def test_constraints_hold(treebanks, fitted):
    _, test = treebanks
    for i in range(10):
        heads = fitted.parse(test[i : i + 1]).heads
        word = int(np.flatnonzero(heads > 0)[-1])
        other = next(h for h in range(1, len(heads) + 1) if h not in (word + 1, heads[word]))
        with_arc = fitted.parse(
            test[i : i + 1],
            required=[[(other, word + 1)]],
        )
        assert with_arc.heads[word] == other
        best_arc = (int(heads[word]), word + 1)
        without_arc = fitted.parse(test[i : i + 1], forbidden=[[best_arc]])
        assert without_arc.heads[word] != heads[word]
    two = Sentence(forms=["a", "b"], lemmas=["a", "b"], upos=["VERB", "NOUN"])
    with pytest.raises(InputError, match="no tree has all required arcs"):
        fitted.parse([two], forbidden=[[(0, 1), (0, 2)]])


def test_n_best_trees_are_in_order(treebanks, fitted):
    _, test = treebanks
    for parses, best in zip(fitted.predict_nbest(test[:20], 4), fitted.predict(test[:20])):
        assert np.array_equal(parses[0].heads, best)
        assert np.all(np.diff([parse.score for parse in parses]) <= 0)
        assert len({tuple(parse.heads.tolist()) for parse in parses}) == len(parses) > 1


def test_probabilities_are_better_than_those_of_the_first_order(treebanks):
    train, test = treebanks
    model = parser().fit(train)
    model.calibrate(test[:75])
    first = model.first_.calibrate(test[:75])

    def log_loss(parser):
        marginals = parser.predict_marginals(test[75:])
        trees = test[75:].trees()
        right = [m.arcs[heads, np.arange(1, len(heads) + 1)] for m, heads in zip(marginals, trees)]
        return -np.log(np.concatenate(right)).mean()

    assert log_loss(model) < log_loss(first)
    confident = model.parse(test[:3], confidence=True)
    assert all("HeadConf=" in misc for misc in confident[0].misc)
    before = first.score(test)
    assert model.set_params(search=omkl.TreeSearch(decode="marginal")).score(test) > before + 0.02


def test_partial_trees_and_weights(treebanks):
    train, test = treebanks
    partial = train[:200]
    partial.heads[::5] = -1
    with pytest.warns(UserWarning, match="have no head"):
        model = parser().fit(partial)
    assert model.score(test) > 0.95
    twice = parser(epochs=omkl.Passes(1, shuffle=False)).fit(train[:60], sample_weight=np.ones(60))
    assert same_trees(twice, parser(epochs=omkl.Passes(1, shuffle=False)).fit(train[:60]), test)


@pytest.mark.slow
def test_seeds_and_shards(treebanks, fitted):
    train, test = treebanks
    assert parser().fit(train).template_weights_ == fitted.template_weights_
    assert parser(random_state=1).fit(train).template_weights_ != fitted.template_weights_
    assert parser().fit(train, shards=2).score(test) > 0.95


@pytest.mark.slow
def test_an_interrupted_training_goes_on_where_it_was(treebanks, fitted, tmp_path):
    train, test = treebanks

    def stop(trainer, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parser(callbacks=[stop]).fit(train, checkpoint=tmp_path, checkpoint_every="20 rounds")
    resumed = parser().fit(train, checkpoint=tmp_path, checkpoint_every="20 rounds", resume=True)
    assert resumed.template_weights_ == fitted.template_weights_
    assert same_trees(resumed, fitted, test)


@pytest.mark.slow
@pytest.mark.parametrize("projective", [True, False])
def test_projective_trees_and_several_roots(treebanks, projective):
    train, test = treebanks
    model = parser(
        search=omkl.TreeSearch(likely=0.95),
        trees=omkl.TreeForm(projective=projective, single_root=False),
    ).fit(train)
    assert model.score(test) > 0.95
    assert model.model_.codec.structure.projective == projective
    assert model.first_.first_.templates_.names[0] == "h.upos m.upos direction"


def test_short_and_long_sentences(fitted):
    one = Sentence(forms=["a"], lemmas=["a"], upos=["VERB"])
    long = Sentence(
        forms=["w"] * 1000,
        lemmas=["a"] + ["y"] * 999,
        upos=["VERB"] + ["NOUN"] * 999,
    )
    parsed = fitted.parse([one, long])
    assert parsed[0].heads == [0]
    assert parsed[1].heads.count(0) == 1
    assert len(fitted.parse([])) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "crf"}, r"set TreeSearch\(order=1\)"),
        ({"templates": ["g.upos m.upos"]}, "template of arcs"),
        ({"templates": ["h.upos", "g.colour m.upos"]}, "no field 'colour'"),
        ({"templates": ["h.upos", "g.upos s.upos"]}, "only one of g, s and between"),
        ({"templates": ["h.upos", "g.upos between.upos"]}, "only one of g, s and between"),
        ({"templates": ["h.upos", "x.upos"]}, "g.FIELD"),
    ],
)
def test_bad_settings_are_refused(treebanks, settings, message):
    with pytest.raises(InputError, match=message):
        parser().set_params(**settings).fit(treebanks[0][:20])


def test_streams_are_refused(treebanks, tmp_path):
    train = treebanks[0]
    path = tmp_path / "train.conllu"
    write_treebank(path, train[:20])
    with pytest.raises(InputError, match=r"set TreeSearch\(order=1\)"):
        parser().fit(stream_conllu(path, block_size=10))
    with pytest.raises(InputError, match=r"set TreeSearch\(order=1\)"):
        parser().partial_fit(train[:10])
    assert parser(search=omkl.TreeSearch(order=1)).partial_fit(train[:10]).templates_.names == list(
        ARCS
    )


def test_templates_are_sorted_by_part():
    templates = TemplateSet(["s.upos m.upos", "h.upos", "h-1.upos g+1.lemma distance"])
    assert list(templates.by_part()) == ["arc", "grandparent", "sibling"]
    assert templates[2].atoms == "g+1.lemma h-1.upos distance"
    assert templates[2].replacing({"lemma": "form"}).atoms == "g+1.form h-1.upos distance"
    sizes = {name: len(TemplateSet.resolve(name)) for name in ("auto", "rich", "parts")}
    assert sizes["auto"] == sizes["rich"] + sizes["parts"]


def test_the_parser_of_arcs_has_no_parameters_of_the_whole(treebanks):
    train, test = treebanks
    stopped = parser(
        early_stopping=True,
        callbacks=[lambda trainer, record: False],
        search=omkl.TreeSearch(decode="marginal"),
    )
    model = stopped.fit(train[:120], validation=test[:50])
    assert model.first_.search == omkl.TreeSearch(order=1)
    assert model.first_.early_stopping is False
    assert model.first_.callbacks is None
    assert model.temperature_ is not None
    assert model.score(test) > 0.8


def test_sentences_of_one_word_are_parsed_in_blocks_of_every_size(treebanks, fitted):
    word = Sentence(forms=["hello"], lemmas=["a"], upos=["VERB"], misc=["Noise=1"])
    sentences = [word, *list(treebanks[1][:4]), word]
    alone = [fitted.parse([sentence])[0] for sentence in sentences]
    assert alone[0].heads == [0]
    assert alone[0].deprels == ["root"]
    for size in range(1, len(sentences) + 1):
        for first in range(0, len(sentences), size):
            block = fitted.parse(sentences[first : first + size])
            for parsed, expected in zip(block, alone[first:]):
                assert parsed.heads == expected.heads
                assert parsed.deprels == expected.deprels
