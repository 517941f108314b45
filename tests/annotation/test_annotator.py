"""The annotator on an artificial treebank: what it learns and writes, and resumed runs."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone

import omkl
from omkl.annotation.edits import apply_edit, edit_of
from omkl.annotation.tagger import Lemmatizer, TaggedWord
from omkl.data import (
    Sentence,
    Stream,
    Treebank,
    read_treebank,
    stream_conllu,
    synthetic_treebank,
    write_treebank,
)
from omkl.exceptions import CheckpointWarning, DataWarning, InputError
from omkl.features import token_features
from omkl.parsing.sentences import strings_of

from ..passes import Kill, Killed
from .made_language import SYLLABLES, sentences, stems_of


@pytest.fixture(scope="module")
def train():
    return Treebank.from_sentences(sentences(150))


@pytest.fixture(scope="module")
def test():
    return Treebank.from_sentences(sentences(40, seed=1))


def untrained(**settings):
    parser = omkl.DependencyParser("small", epochs=4, memory=10)
    tagger = omkl.SequenceLabeler(epochs=4)
    return omkl.Annotator(**{"parser": parser, "tagger": tagger, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def annotator(train):
    return untrained().fit(train)


def columns_of(treebank):
    names = ("forms", "lemmas", "upos", "xpos", "feats", "deprels")
    return [treebank.heads.tolist(), *(strings_of(treebank, name) for name in names)]


LETTERS = st.text("aAb\u00df\u00e9\u00c9\u0131\u0130-", min_size=1)


@given(LETTERS, LETTERS)
def test_an_edit_makes_the_lemma_of_its_form(form, lemma):
    assert apply_edit(edit_of(form, lemma), form) == lemma
    assert edit_of("Dogs", "dog") == edit_of("Houses", "house")
    assert apply_edit(edit_of("walking", "walk"), "ing") is None  # nothing would be left


def test_lemmas_of_known_words_are_remembered_and_of_others_guessed():
    stems = stems_of(SYLLABLES[:20], SYLLABLES[20:24])
    words = [TaggedWord(f"{stem}s", "NOUN", "Plur") for stem in stems]
    words += [TaggedWord(f"{stem}ted", "VERB", "Past") for stem in stems]
    words += [TaggedWord("geese", "NOUN", "Plur")]
    lemmas = [*stems, *stems, "goose"]
    labeler = omkl.SequenceLabeler(transitions=None, epochs=4, random_state=0)
    lemmatizer = Lemmatizer().fit(zip(words, lemmas), lambda X, y: clone(labeler).fit(X, y))
    expected = {
        TaggedWord("geese", "NOUN", "Plur"): "goose",
        TaggedWord("geese", "NOUN", "Sing"): "goose",
        TaggedWord("zuzus", "NOUN", "Plur"): "zuzu",
        TaggedWord("zuzuted", "VERB", "Past"): "zuzu",
        TaggedWord("x", "ADJ", "_"): "x",
    }
    assert lemmatizer.predict(list(expected)) == list(expected.values())


def test_words_that_are_too_short_get_the_best_lemma_that_can_be_made():
    stems = stems_of(SYLLABLES[:20], SYLLABLES[20:24])
    words = [TaggedWord(f"{stem}pod", "VERB", "Past") for stem in stems]
    words += [TaggedWord(f"{stem}d", "VERB", "Past") for stem in stems]
    lemmas = [form.removesuffix("d").removesuffix("po") for form, *_ in words]
    labeler = omkl.SequenceLabeler(transitions=None, epochs=4, random_state=0)
    lemmatizer = Lemmatizer().fit(zip(words, lemmas), lambda X, y, *rest: labeler.fit(X, y))
    assert set(labeler.classes_) == {edit_of("apod", "a"), edit_of("ad", "a")}
    for form, lemma in {"kapod": "ka", "pod": "po", "d": "d"}.items():
        assert lemmatizer.predict([TaggedWord(form, "VERB", "Past")]) == [lemma]


def test_all_parts_are_learned(annotator, test):
    assert annotator.parts_ == ["upos", "xpos", "feats", "lemmas", "trees"]
    weights = annotator.kernel_weights_
    assert {"upos", "trees"} <= set(weights)
    assert weights["trees"] == annotator.parser_.template_weights_
    scores = annotator.evaluate(test)
    assert min(scores[name] for name in ("upos", "xpos", "ufeats", "lemmas", "uas", "las")) > 0.97
    assert annotator.score(test) == scores["las"]
    expected = columns_of(annotator.annotate(test))
    words = [sentence.forms for sentence in test]
    assert columns_of(annotator.annotate(words)) == expected
    bare = [Sentence(forms=forms) for forms in words]
    assert columns_of(annotator.annotate(bare)) == expected


def test_words_without_gold_annotation_have_no_score(annotator):
    words = [["the", "dog"], ["a", "cat"]]
    scores = annotator.evaluate(words)
    names = ("upos", "xpos", "ufeats", "alltags", "lemmas", "uas", "las", "mlas", "blex")
    assert [scores[name] for name in names] == [None] * len(names)
    with pytest.raises(InputError, match="X must have gold heads"):
        annotator.score(words)


NEIGHBOURS = ("lower[-1]", "lower[+1]", "suffix3[-1]", "suffix3[+1]")


def word_features(features):
    """Return the features of a token without those of its neighbours."""
    return {name: value for name, value in features.items() if "[" not in name}


def morphology_features(features, tags, i):
    """Return what the labelers of morphology see: the word, its neighbours, and tags around it."""
    before_last, last, _, following, after_following = ["<s>", "<s>", *tags, "</s>", "</s>"][
        i : i + 5
    ]
    seen = word_features(features)
    for name in NEIGHBOURS:
        seen[name] = features[name]
    seen["tag[-1]"] = last
    seen["tag[+1]"] = following
    seen["tag[-2,-1]"] = f"{before_last}|{last}"
    seen["tag[+1,+2]"] = f"{following}|{after_following}"
    seen["tag[-1,+1]"] = f"{last}|{following}"
    return seen


def lemma_features(features, form, feats):
    """Return what the labelers of lemmas see: the word and its morphology."""
    seen = word_features(features)
    seen["suffix6"] = form.lower()[-6:]
    seen["feats"] = feats
    for k in range(1, 5):
        seen[f"suffix{k}|feats"] = f"{features[f'suffix{k}']}|{feats}"
    return seen


def test_each_labeler_alone_gives_the_same_labels(annotator, test):
    n_morphology = 0
    n_lemmas = 0
    models = annotator.models()
    lemmatizer = annotator.tagger_.lemmatizer
    for sentence in annotator.annotate(test):
        for i, features in enumerate(token_features(sentence.forms)):
            form = sentence.forms[i]
            tag = sentence.upos[i]
            feats = sentence.feats[i]
            if labeler := models.get(f"xpos+feats of {tag}"):
                token = morphology_features(features, sentence.upos, i)
                ((label,),) = labeler.predict([[token]])
                assert label.split("\t") == [sentence.xpos[i], feats]
                n_morphology += 1
            labeler = models.get(f"lemmas of {tag}")
            if labeler and "\t".join((form, tag)) not in lemmatizer.lemmas:
                ((edit,),) = labeler.predict([[lemma_features(features, form, feats)]])
                assert apply_edit(edit, form) == sentence.lemmas[i]
                n_lemmas += 1
    assert n_morphology > 10
    assert n_lemmas > 10


def test_a_loaded_annotator_writes_the_same(annotator, train, test, tmp_path, reloaded):
    annotator.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    expected = columns_of(annotator.annotate(test))
    assert columns_of(loaded.annotate(test)) == expected
    assert loaded.kernel_weights_ == annotator.kernel_weights_
    assert loaded.parts_ == annotator.parts_
    assert loaded.parser.templates == "small"
    assert loaded.tagger.epochs == 4
    for name in ("upos", "trees"):
        history = [without_seconds(record) for record in annotator.models()[name].history_]
        assert loaded.models()[name].history_ == history
        assert len(history) > 0
    assert columns_of(loaded.set_params(n_jobs=2).annotate(test)) == expected
    assert columns_of(reloaded(loaded).annotate(test)) == expected
    untrained().fit(train).save(tmp_path / "same.npz")
    assert (tmp_path / "same.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


def without_seconds(record):
    return {name: value for name, value in record.items() if "seconds" not in name}


def notes_of(treebank, name):
    values = []
    for misc in strings_of(treebank, "misc"):
        notes = dict(note.split("=") for note in misc.split("|"))
        values.append(float(notes[name]))
    return np.array(values)


def test_confidence_of_calibrated_annotators(train, test, reloaded):
    model = untrained(parser=omkl.DependencyParser("small", epochs=3, memory=10)).fit(train[:40])
    with pytest.raises(InputError, match=r"An annotator has probabilities after calibrate\(\)"):
        model.annotate(test, confidence=True)
    with pytest.raises(InputError, match=r"An annotator has probabilities after calibrate\(\)"):
        omkl.guarantee(model, test)
    plain = columns_of(model.annotate(test))
    annotated = model.calibrate(train[40:]).annotate(test, confidence=True)
    assert columns_of(annotated) == plain
    for name in ("UposConf", "HeadConf", "RelConf"):
        assert np.all((notes_of(annotated, name) >= 0) & (notes_of(annotated, name) <= 1))
    tags = model.tagger_.labeler
    marginals = np.concatenate(tags.predict_marginals([sentence.forms for sentence in test]))
    assert_allclose(notes_of(annotated, "UposConf"), marginals.max(axis=1), atol=0.02)
    again = reloaded(model, training=False).annotate(test, confidence=True)
    assert strings_of(again, "misc") == strings_of(annotated, "misc")


def test_settings_of_tags_are_for_the_chain_alone(train, test):
    tagger = omkl.SequenceLabeler(
        epochs=4,
        class_weight={"NOUN": 2.0},
        cost=1.0 - np.eye(4),
        transitions=omkl.Transitions(allowed={"DET": ["ADJ", "NOUN"]}),
    )
    model = untrained(tagger=tagger, parts=["upos", "feats", "lemmas"]).fit(train)
    assert model.score(test) > 0.95
    (tags,) = (sentence.upos for sentence in model.annotate([["the", "the", "tatated"]]))
    assert all(after in ("ADJ", "NOUN") for tag, after in pairwise(tags) if tag == "DET")
    free = untrained(parts=["upos"]).fit(train).annotate([["the", "the", "tatated"]])[0]
    assert free.upos[:2] == ["DET", "DET"]


def test_a_parser_of_second_order_with_a_lexicon(train, test, tmp_path):
    templates = ["h.ends m.upos", "h.upos m.upos distance", "g.ends h.upos m.upos", "s.upos m.ends"]
    parser = omkl.DependencyParser(templates, lexicons={"ends": {"the": "e"}}, epochs=2, memory=10)
    model = untrained(parser=parser, parts=["upos", "trees"]).fit(train[:40])
    model.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    assert columns_of(loaded.annotate(test)) == columns_of(model.annotate(test))
    assert columns_of(loaded.fit(train[:40]).annotate(test)) == columns_of(model.annotate(test))
    loaded.save(tmp_path / "again.npz")  # the first parser has the seed of the annotator too
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


def test_trees_are_learned_with_cross_fitted_tags(monkeypatch, rng):
    made = []
    for i in range(0, 300, 3):
        # each form occurs once, so its tag cannot be memorized
        forms = [f"w{i}", f"w{i + 1}", f"w{i + 2}"]
        upos = rng.choice(["A", "B"], 3).tolist()
        made.append(Sentence(forms=forms, upos=upos, heads=[2, 0, 2], deprels=["x"] * 3))
    treebank = Treebank.from_sentences(made)
    seen = []
    monkeypatch.setattr(
        omkl.DependencyParser,
        "fit",
        lambda self, X: seen.append(X) or self,
    )
    tagger = omkl.SequenceLabeler(epochs=4, transitions=None)
    annotator = untrained(parts=["upos", "trees"], tagger=tagger).fit(treebank)
    gold = strings_of(treebank, "upos")
    learned_beside = strings_of(seen[0], "upos")
    by_heart = strings_of(annotator.tagger_.annotate(treebank), "upos")
    assert np.mean(np.array(gold) == by_heart) > 0.9
    assert 0.3 < np.mean(np.array(gold) == learned_beside) < 0.7


@pytest.mark.parametrize(
    ("learned_parts", "columns"),
    [
        (["upos"], ("upos",)),
        (["lemmas"], ("lemmas",)),
        (["xpos", "feats"], ("xpos", "feats")),
        (["trees"], ("heads", "deprels")),
        (["lemmas", "trees"], ("lemmas", "heads", "deprels")),
    ],
)
def test_each_part_is_learned_alone(train, test, learned_parts, columns):
    model = untrained(parts=learned_parts).fit(train)
    assert model.columns_ == columns
    assert model.score(test) > 0.9
    annotated = model.annotate(test)
    for name in ("upos", "xpos", "feats", "lemmas"):
        if name not in columns:
            assert strings_of(annotated, name) == strings_of(test, name)


def test_missing_annotation_is_no_label(train, test, rng):
    columns = {name: getattr(train, name).copy() for name in ("upos", "lemmas")}
    for column in columns.values():
        column[rng.random(len(column)) < 0.3] = 0  # an underscore in the file
    model = untrained(parts=["upos", "feats", "lemmas"]).fit(replace(train, **columns))
    annotated = model.annotate(test)
    assert "_" not in strings_of(annotated, "upos") + strings_of(annotated, "lemmas")
    scores = model.evaluate(test)
    assert min(scores[name] for name in ("upos", "ufeats", "lemmas")) > 0.95


def test_trees_are_learned_where_there_are_heads(train, test):
    heads = train.heads.copy()
    heads[: train.offsets[50]] = -1  # the first 50 sentences have no lemmas
    heads[train.offsets[60] + 1] = -1  # and a word of another
    settings = {"parts": ["upos", "trees"]}
    with pytest.warns(DataWarning) as caught:
        model = untrained(**settings).fit(replace(train, heads=heads))
    messages = [str(warning.message) for warning in caught]
    assert messages[0] == "50 of 150 sentences have no heads: trees are learned from the others."
    assert any(message.startswith("1 of ") for message in messages[1:])
    assert model.score(test) > 0.95


def test_one_tag_for_all_words():
    made = []
    for lemmas in zip(SYLLABLES[:30], SYLLABLES[30:60]):
        forms = [f"{lemmas[0]}s", lemmas[1]]
        made.append(Sentence(forms=forms, upos=["X", "X"], lemmas=list(lemmas)))
    model = untrained().fit(made)
    [sentence] = model.annotate([["baba", "dudus"]])
    assert model.parts_ == ["upos", "lemmas"]  # the columns that are there
    assert sentence.upos == ["X", "X"]
    assert sentence.lemmas == ["baba", "dudu"]
    assert "upos" not in model.kernel_weights_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": "all"}, "`parts` must be 'auto'"),
        ({"parts": ["tags"]}, "`parts` must be 'auto'"),
        ({"parts": []}, "`parts` must be 'auto'"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"folds": 1}, "folds must be a whole number > 1"),
        ({"folds": 1000}, "set fewer folds"),
        ({"tagger": "crf"}, "`tagger` must be a SequenceLabeler"),
        ({"parser": omkl.SequenceLabeler()}, "`parser` must be a DependencyParser"),
        ({"tagger": omkl.SequenceLabeler(["linear"])}, "leave its kernels out"),
        ({"parts": ["xpos"]}, "The training data has no xpos to learn"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        untrained(**settings).fit(sentences(20, xpos=False))


def test_parameters_are_set_as_scikit_learn_sets_them():
    values = {
        "tagger__C": 3.0,
        "folds": 2,
        "tagger": omkl.SequenceLabeler(epochs=4),
        "tagger__epochs": 5,
    }
    parameters = omkl.Annotator().set_params(**values).get_params()
    expected = BaseEstimator.set_params(omkl.Annotator(), **values).get_params()
    assert parameters["tagger__C"] == 3.0
    assert parameters["tagger__epochs"] == 5
    assert {**parameters, "tagger": None} == {**expected, "tagger": None}
    for name in ("fold", "fold__C", "tagger__c"):
        invalid = name.removeprefix("tagger__")
        with pytest.raises(InputError, match=f"Invalid parameter '{invalid}'"):
            omkl.Annotator(tagger=omkl.SequenceLabeler()).set_params(**{name: 1})


def test_refused_treebanks_change_nothing(annotator, test):
    before = columns_of(annotator.annotate(test))
    for bad, message in (
        (Stream.from_arrays([["a"]]), "Sentence 1 must be"),
        ([Sentence(forms=["a", "b"])] * 9, "no column to learn"),
        ([], "no column to learn"),
        ([Sentence(forms=["a", "b"], upos=["X", "Y"], heads=[0, 0])] * 9, "root"),
    ):
        with pytest.raises(InputError, match=message):
            annotator.fit(bad)
    assert columns_of(annotator.annotate(test)) == before


TEXT = """# sent_id = 1
# text = the bobas
1-2\tthebobas\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tthe\t?\t?\t?\t?\t9\t?\t2:det\tA=1
2\tbobas\t?\t?\t?\t?\t_\t?\t_\tB=2|C=3
2.1\tdid\tdo\tAUX\t_\t_\t_\t_\t0:root\t_

# sent_id = 2
1\tthe\t_\t_\t_\t_\t_\t_\t_\t_

"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_other_lines_and_columns_are_written_as_read(annotator, tmp_path, end):
    (tmp_path / "in.conllu").write_bytes(TEXT.replace("\n", end).encode())
    blocks = stream_conllu(tmp_path / "in.conllu", trees=False, keep_text=True).blocks()
    with pytest.warns(DataWarning, match="Old enhanced dependencies .* are removed") as caught:
        write_treebank(tmp_path / "out.conllu", (annotator.annotate(block.X) for block in blocks))
    assert len(caught) == 1
    written = (tmp_path / "out.conllu").read_bytes().decode()
    read = TEXT.replace("\n", end)
    lines_without_empty_nodes = [line for line in read.split(end) if not line.startswith("2.1")]
    assert len(lines_without_empty_nodes) == read.count(end)
    for new, old in zip(written.split(end), lines_without_empty_nodes, strict=True):
        new_fields = new.split("\t")
        old_fields = old.split("\t")
        assert new_fields[:2] == old_fields[:2]
        assert new_fields[9:] == old_fields[9:]
        assert new_fields[8:9] in ([], ["_"])
        if not old[:2].strip().isdigit():
            assert new == old
    parsed = read_treebank(tmp_path / "out.conllu")
    assert columns_of(parsed) == columns_of(annotator.annotate([["the", "bobas"], ["the"]]))
    with pytest.warns(DataWarning, match="Old enhanced dependencies .* are removed"):
        write_treebank(tmp_path / "again.conllu", annotator.annotate(tmp_path / "in.conllu"))
    assert (tmp_path / "again.conllu").read_bytes() == (tmp_path / "out.conllu").read_bytes()


#: Rounds until the parser is in training.
ROUNDS = 250


@pytest.fixture(scope="module")
def treebank():
    treebank = synthetic_treebank(24, vocabulary=12, random_state=0)
    return treebank.with_strings("upos", [tag[:1] for tag in strings_of(treebank, "forms")])


def quick(*callbacks, **parameters):
    tagger = omkl.SequenceLabeler(epochs=2)
    parser = omkl.DependencyParser("small", memory=1, epochs=2)
    settings = {"tagger": tagger, "parser": parser, "folds": 2, "random_state": 0, **parameters}
    return omkl.Annotator(callbacks=callbacks, **settings)


@pytest.fixture(scope="module")
def straight(treebank, tmp_path_factory):
    return saved(quick().fit(treebank), tmp_path_factory.mktemp("straight"))


def saved(annotator, folder):
    annotator.save(folder / "model.npz")
    return (folder / "model.npz").read_bytes()


def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(treebank, straight, rng, tmp_path):
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    for attempt, more in enumerate([1, 30, *rng.integers(30, ROUNDS // 3, 3)]):
        with pytest.raises(Killed):
            quick(Kill(more)).fit(treebank, **options, resume=attempt > 0)
    assert saved(quick().fit(treebank, **options, resume=True), tmp_path) == straight
    # finished parts are loaded and not trained again; only the parser is unfinished
    again = Kill(1)
    assert saved(quick(again).fit(treebank, **options, resume=True), tmp_path) == straight
    assert again.rounds == 1


def test_damaged_models_are_trained_again(treebank, straight, tmp_path):
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    with pytest.raises(Killed):
        quick(Kill(ROUNDS)).fit(treebank, **options)
    files = sorted((tmp_path / "run").glob("0*.npz"))
    files[0].write_bytes(b"\0" + files[0].read_bytes()[1:])
    files[1].unlink()
    with pytest.warns(CheckpointWarning, match="Its model is trained again") as warned:
        annotator = quick().fit(treebank, **options, resume=True)
    assert sum(w.category is CheckpointWarning for w in warned) == 1
    assert saved(annotator, tmp_path) == straight


def test_resumed_runs_keep_their_seed(treebank, tmp_path):
    options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(Killed):
        quick(Kill(ROUNDS), random_state=None).fit(treebank, **options)

    def seeds_of_resumed_run():
        annotator = quick(random_state=None).fit(treebank, **options, resume=True)
        return {model.random_state for model in annotator.models().values()}

    seeds = seeds_of_resumed_run()
    assert len(seeds) == 1
    assert seeds_of_resumed_run() == seeds


@pytest.mark.parametrize("seed", [0, 3])
def test_morphology_of_a_tag_whose_labels_are_nearly_all_the_same(seed):
    rng = np.random.default_rng(seed)
    train = []
    for i in range(300):
        word = ["and", "or", "but", "And"][rng.integers(4)]
        label = "_"
        if i in (7, 150):
            word = "w/"
            label = "Abbr=Yes"
        forms = [f"w{rng.integers(50)}", word, f"v{rng.integers(50)}"]
        train.append(Sentence(forms=forms, upos=["NOUN", "CCONJ", "VERB"], feats=["_", label, "_"]))
    annotator = omkl.Annotator(random_state=0, folds=2).fit(train)
    assert annotator.evaluate(train)["ufeats"] == 1.0
