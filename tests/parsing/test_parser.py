"""Training of the parser on grammars of known structure, model files, bad input, and scores."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omkl
from omkl import evaluate_treebanks
from omkl.data import Sentence, Treebank, read_treebank, synthetic_treebank, write_treebank
from omkl.exceptions import DataFileError, DataWarning, InputError
from omkl.groups import TemplateSet

from ..cases import slow
from .conftest import INFORMATIVE, USELESS, untrained


@pytest.fixture(scope="module")
def grammar():
    treebank = synthetic_treebank(900, informative=INFORMATIVE, vocabulary=10, random_state=3)
    return treebank[:600], treebank[600:]


def parser(templates=INFORMATIVE + USELESS, **settings):
    return untrained(templates, **{"epochs": 5, "verbose": False, **settings})


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_mkl_finds_the_informative_templates(grammar, loss, method):
    train, _ = grammar
    weights = parser(loss=loss, method=method).fit(train).template_weights_
    assert set(sorted(weights, key=weights.get)[-3:]) == set(INFORMATIVE)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"trees": omkl.TreeForm(projective=True)},
        slow({"loss": "perceptron"}),
        slow({"regularizer": "l2"}),
    ],
)
def test_parses_are_trees_with_one_root(grammar, settings):
    train, test = grammar
    if "trees" in settings:
        train = synthetic_treebank(200, informative=INFORMATIVE, projective=True, random_state=1)
    parsed = parser(INFORMATIVE, **settings).fit(train[:200]).parse(test)
    # from_sentences checks the trees
    again = Treebank.from_sentences(list(parsed), trees=True, single_root=True)
    assert np.array_equal(again.heads, parsed.heads)


def test_several_roots(rng):
    sentences = []
    for _ in range(200):
        upos = rng.choice(["ROOT", "CHILD"], size=rng.integers(2, 6)).tolist()
        upos[0] = "ROOT"
        heads = [int(tag == "CHILD") for tag in upos]
        sentences.append(Sentence(forms=upos, upos=upos, heads=heads, deprels=["dep"] * len(upos)))
    templates = ["h.upos m.upos direction"]
    free = parser(templates, trees=omkl.TreeForm(single_root=False)).fit(sentences)
    assert free.score(sentences) > 0.85
    assert any(sentence.heads.count(0) > 1 for sentence in free.parse(sentences))
    with pytest.raises(InputError, match="single_root=True"):
        parser(templates).fit(sentences)


@pytest.mark.slow
def test_relations_are_learned(grammar):
    train, test = grammar
    scores = parser(INFORMATIVE).fit(train).evaluate(test)
    # relations need the right head, and follow its tag and the modifier's 19 times out of 20
    assert 0.8 * scores["uas"] < scores["las"] <= scores["uas"]
    unlabeled = parser(INFORMATIVE, trees=omkl.TreeForm(labeled=False)).fit(train)
    assert unlabeled.evaluate(test)["las"] is None
    assert set(unlabeled.parse(test)[0].deprels) == {"_"}


@pytest.mark.parametrize("others", [[], ["obj"]])
def test_root_arcs_have_the_relations_of_training(others, reloaded, rng):
    on_root = ["root", *others]
    elsewhere = ["dep", "obj"]
    sentences = []

    def sentence(words, **tree):
        return Sentence(forms=words, lemmas=words, upos=words, **tree)

    for _ in range(50):
        root = str(rng.choice(on_root))
        relations = [root, *rng.choice(elsewhere, rng.integers(1, 5)).tolist()]
        heads = [0]
        for i in range(1, len(relations)):
            heads.append(int(rng.integers(1, i + 1)))
        # words tell their relations
        sentences.append(sentence(relations, heads=heads, deprels=relations))
    test = [sentence(words) for words in (["dep"], ["root", "root"], ["obj", "dep"])]
    model = parser(["distance"], epochs=2).fit(sentences)
    streamed = parser(["distance"], weighting="norms")
    streamed.partial_fit(sentences[:5])
    streamed.partial_fit(sentences[5:])
    for candidate in (model, streamed, reloaded(model)):
        for parsed in candidate.parse(test):
            for head, relation in zip(parsed.heads, parsed.deprels):
                if head == 0:
                    assert relation in on_root
                else:
                    assert relation in elsewhere


def test_saved_parsers_predict_the_same_and_train_on(grammar, reloaded):
    train, test = grammar
    model = parser().fit(train[:200])
    assert 0 < model.collision_rate() < 0.2
    for candidate in (model, model.prune(4)):
        loaded = reloaded(candidate)
        assert np.array_equal(loaded.parse(test).heads, candidate.parse(test).heads)
        assert np.array_equal(loaded.parse(test).deprels, candidate.parse(test).deprels)
        assert loaded.template_weights_ == candidate.template_weights_
        assert loaded.top_features(5) == candidate.top_features(5)
        assert loaded.partial_fit(train[:5]).score(test) > 0


def test_template_files_and_lexicons_are_read_once(grammar, tmp_path):
    templates = tmp_path / "templates.txt"
    lexicon = tmp_path / "lexicon.tsv"
    templates.write_text("h.upos m.upos\nh.kind m.upos\n")
    forms = sorted(set(grammar[0].strings["forms"].tolist()))
    lexicon.write_text("".join(f"{form}\tx\n" for form in forms))
    for path in (templates, str(templates)):
        models = [parser(path, lexicons={"kind": lexicon}, epochs=1).fit(grammar[0][:50])]
        texts = templates.read_bytes(), lexicon.read_bytes()
        templates.unlink()
        lexicon.unlink()
        models[0].save(tmp_path / "model.npz")
        models += [omkl.load(tmp_path / "model.npz"), models[0].prune(2)]
        assert models[1].templates == ["h.upos m.upos", "h.kind m.upos"]
        for model in models:
            model.partial_fit(grammar[0][50:60])
        trees = [model.parse(grammar[1][:9]).heads.tolist() for model in models]
        assert trees[0] == trees[1] == trees[2]
        templates.write_bytes(texts[0])
        lexicon.write_bytes(texts[1])


@pytest.mark.slow
def test_the_strongest_features_have_names(grammar):
    train, _ = grammar
    model = parser().fit(train)
    features = model.top_features(6)
    assert all(set(feature) == {"feature", "group", "weight"} for feature in features)
    sizes = [abs(feature["weight"]) for feature in features]
    assert sizes == sorted(sizes, reverse=True)
    strongest = model.top_features(1, "h.upos m.upos direction")[0]["feature"]
    assert strongest.startswith("h.upos=")
    assert strongest.endswith(("left", "right"))
    assert model.n_features() > 0


def test_long_sentences_and_unknown_words(grammar):
    train, _ = grammar
    model = parser().fit(train[:100])
    long = Sentence(forms=[f"new{i}" for i in range(500)], upos=["NEW"] * 500)
    with pytest.warns(DataWarning, match="The input has no FEATS, LEMMA, XPOS"):
        parsed = model.parse([Sentence(forms=["one"]), long])
    assert parsed[0].heads == [0]
    assert len(parsed[1].heads) == 500
    assert len(model.parse([])) == 0


def without_heads(treebank, share, rng):
    """Remove the heads of some words, but keep one in each sentence."""
    unknown = rng.random(treebank.n_words) < share
    places = (rng.random(len(treebank)) * treebank.lengths).astype(int)
    unknown[treebank.offsets[:-1] + places] = False
    heads = np.where(unknown, -1, treebank.heads).astype(np.int32)
    deprels = np.where(unknown, 0, treebank.deprels).astype(np.int32)
    return replace(treebank, heads=heads, deprels=deprels, text=None), unknown


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"loss": "crf"}, {"loss": "perceptron"}], ids=str)
def test_partially_annotated_trees(grammar, settings, tmp_path):
    train, test = grammar
    partial, unknown = without_heads(
        train[:200],
        0.5,
        np.random.default_rng(0),
    )
    with pytest.warns(DataWarning, match=f"{unknown.sum()} of {len(unknown)} words have no head"):
        model = parser(INFORMATIVE, **settings).fit(partial)
    few = parser(INFORMATIVE, **settings).fit(train[:20])
    scores = model.evaluate(test)
    assert scores["uas"] > few.evaluate(test)["uas"]
    assert scores["las"] > 0.8 * scores["uas"]
    for sentence in model.parse(test):
        assert "_" not in sentence.deprels
    write_treebank(tmp_path / "partial.conllu", partial)
    with pytest.warns(DataWarning, match="words have no head"):
        read = parser(INFORMATIVE, **settings).fit(tmp_path / "partial.conllu")
    assert np.array_equal(read.parse(test).heads, model.parse(test).heads)
    assert all(feature["weight"] for feature in model.top_features(20))


def test_partial_trees_that_fit_no_tree(tmp_path):
    def sentence(*heads):
        return Sentence(forms=list("abcd"), heads=list(heads))

    cases = {
        "word 1": sentence(2, 1, None, None),
        "root": sentence(0, None, 0, None),
        "9": sentence(None, 9, 1, 0),
    }
    for message, wrong in cases.items():
        with pytest.raises(InputError, match=message):
            parser(["m.form"]).fit([wrong])
    crossing = [sentence(3, 4, None, None), sentence(None, 3, None, 0)]
    with pytest.warns(DataWarning, match="1 of 2 sentences are not projective"):
        parser(["m.form"], trees=omkl.TreeForm(projective=True)).fit(crossing)
    blocked = [sentence(None, 0, None, 1), sentence(None, 3, None, 0)]  # an arc over the only root
    with pytest.warns(DataWarning, match="1 of 2 sentences are not projective"):
        parser(["m.form"], trees=omkl.TreeForm(projective=True)).fit(blocked)


@pytest.mark.slow
def test_accuracy_on_english(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    train = read_treebank(real_data(folder.format("train")), single_root=True)[:2000]
    test = read_treebank(real_data(folder.format("test")))[:500]
    model = parser(TemplateSet.resolve("small"), epochs=3, memory=60).fit(train)
    assert model.score(test, ignore="upos") > 0.76


@pytest.mark.slow
def test_partial_fit_learns_from_blocks_and_undoes_calibration(grammar):
    train, test = grammar
    streamed = parser(INFORMATIVE)
    for low in range(0, 1800, 100):
        streamed.partial_fit(train[low % 600 : low % 600 + 100])
    assert streamed.score(test) > 0.65
    temperature = streamed.calibrate(test).temperature_
    with pytest.raises(InputError):
        streamed.partial_fit([["no", "heads"]])
    assert streamed.temperature_ == temperature > 0
    assert streamed.partial_fit(train[:10]).temperature_ is None


CYCLE = [Sentence(forms=["a", "b", "c"], heads=[2, 1, 0])]


@pytest.mark.parametrize(
    ("settings", "sentences", "message"),
    [
        ({"memory": 0}, None, "memory must be"),
        ({"memory": 0.001}, None, "allow more"),
        ({"trees": "projective"}, None, "trees must be a TreeForm"),
        ({"C": -1}, None, "C must be"),
        ({"templates": "nothing507"}, None, "must be a file, one of"),
        ({"loss": "likelihood"}, None, "Unknown loss"),
        (
            {"templates": ["m.lemma"]},
            [Sentence(forms=["a"], heads=[0])],
            "Every template needs a field",
        ),
        ({}, [1, 2], "Sentence 1 must be"),
        ({}, [], "no sentence"),
        (
            {},
            [Sentence(forms=["a"], heads=[0]), Sentence(forms=["a"])],
            "Sentence 2 has no word with a head",
        ),
        ({}, [Sentence(forms=["a", "b"], heads=[0, 0])], "single_root=True"),
        ({}, CYCLE, "Sentence 1, word 1: .*a cycle, 1 -> 2 -> 1"),
        ({}, [Sentence(forms=["a"], heads=[4])], "the head 4 .* out of range"),
    ],
)
def test_bad_input_is_refused_and_the_parser_stays(grammar, settings, sentences, message):
    train, test = grammar
    model = parser(epochs=1).fit(train[:50])
    before = model.parse(test).heads
    model.set_params(**settings)
    treebank = sentences
    if treebank is None:
        treebank = train
    if sentences and isinstance(sentences[0], Sentence):
        treebank = Treebank.from_sentences(sentences, trees=False)  # unchecked trees
    with pytest.raises(InputError, match=message):
        model.fit(treebank)
    assert np.array_equal(model.parse(test).heads, before)


def test_gold_trees_are_checked_wherever_they_are_used(grammar):
    model = parser(epochs=1).fit(grammar[0][:20])
    treebank = Treebank.from_sentences(CYCLE, trees=False)
    for method in (
        model.partial_fit,
        model.evaluate,
        model.score,
        model.calibrate,
        model.group_report,
    ):
        with pytest.raises(InputError, match="a cycle"):
            method(treebank)
    with pytest.warns(DataWarning):
        assert len(model.parse(treebank)) == 1  # heads are not looked at


@pytest.fixture(scope="module")
def model():
    treebank = synthetic_treebank(60, random_state=0)
    return omkl.DependencyParser(
        ["m.form distance", "h.form m.form"], epochs=1, random_state=0
    ).fit(treebank)


def silently_parsed(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return [(sentence.forms, sentence.heads) for sentence in model.parse(X)]


def test_words_sentences_and_one_sentence_are_parsed_alike(model):
    words = [["A", "kutya"], ("ugat", "."), iter(["Hol", "?"])]
    parsed = silently_parsed(model, words)
    assert [forms for forms, _ in parsed] == [["A", "kutya"], ["ugat", "."], ["Hol", "?"]]
    assert all(heads.count(0) == 1 for _, heads in parsed)
    words[2] = ["Hol", "?"]
    made = [Sentence(forms=list(forms)) for forms in words]
    assert silently_parsed(model, made) == silently_parsed(model, (s for s in words)) == parsed
    assert silently_parsed(model, made[0]) == parsed[:1]
    assert silently_parsed(model, [made[0], words[1]]) == parsed[:2]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (5, "Sentence 1 must be .* got int 5"),
        ({"form": "A"}, "Sentence 1 must be"),
        (["A", ["kutya"]], "Sentence 1 must be a list of words or a Sentence, got str 'A'"),
        ([["A", None]], "Sentence 1 must be"),
        ([["A"], 7], "Sentence 2 must be .* got int 7"),
        ([["A"], []], "Sentence 2 has no words"),
        ([["A", "\t"]], "Sentence 1, word 2"),
    ],
)
def test_other_input_is_refused(model, X, message):
    with pytest.raises(InputError, match=message):
        model.parse(X)


def test_paths_are_read_together(model, tmp_path):
    with pytest.raises(DataFileError, match="There is no file A kutya"):
        model.parse("A kutya ugat")
    path = tmp_path / "a.conllu"
    write_treebank(path, synthetic_treebank(5, random_state=0))
    assert len(model.parse([Path(path), str(path)])) == 10


RELATIONS = (
    "nsubj",
    "nsubj:pass",
    "obl:tmod",
    "det",
    "case",
    "case:gen",
    "punct",
    "aux",
    "root",
    "_",
)
FEATS = (
    "_",
    "Number=Sing",
    "Typo=Yes",
    "Case=Nom|Number=Sing",
    "Number=Sing|Case=Nom",
    "Typo=Yes|Number=Sing",
)
#: Relations of content words and of function words, and universal features.
CONTENT = {
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep",
    "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod",
    "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "reparandum", "root", "vocative",
    "xcomp",
}  # fmt: skip
FUNCTION = {"aux", "case", "cc", "clf", "cop", "det", "mark"}
UNIVERSAL = {
    "Abbr", "Animacy", "Aspect", "Case", "Definite", "Degree", "Evident", "Foreign", "Gender",
    "Mood", "NumType", "Number", "Person", "Polarity", "Polite", "Poss", "PronType", "Reflex",
    "Tense", "VerbForm", "Voice",
}  # fmt: skip


def universal_feats(sentence, i):
    feats = sentence.feats[i].split("|")
    return frozenset(feat for feat in feats if feat.split("=")[0] in UNIVERSAL)


def universal_relation(sentence, i):
    return sentence.deprels[i].split(":")[0]


def function_words(sentence, i):
    """Return the function words that depend on word ``i``, with what MLAS compares of them."""
    words = set()
    for j, head in enumerate(sentence.heads):
        relation = universal_relation(sentence, j)
        if head == i + 1 and relation in FUNCTION:
            words.add((j, sentence.upos[j], universal_feats(sentence, j), relation))
    return frozenset(words)


def compared(sentence, i, has_lemma):
    """Return what each score compares of word ``i``."""
    upos = sentence.upos[i]
    xpos = sentence.xpos[i]
    feats = universal_feats(sentence, i)
    relation = universal_relation(sentence, i)
    head = sentence.heads[i]
    lemma = "_"
    if has_lemma:
        lemma = sentence.lemmas[i]
    values = {
        "upos": upos,
        "xpos": xpos,
        "ufeats": feats,
        "lemmas": lemma,
        "uas": head,
        "alltags": (upos, xpos, feats),
        "las": (head, relation),
        "las_subtypes": (head, sentence.deprels[i]),
    }
    if relation in CONTENT:
        values["clas"] = (head, relation)
        values["blex"] = (head, relation, lemma)
        values["mlas"] = (head, relation, upos, feats, function_words(sentence, i))
    return values


SCORES = (
    "upos",
    "xpos",
    "ufeats",
    "alltags",
    "lemmas",
    "uas",
    "las",
    "clas",
    "mlas",
    "blex",
    "las_subtypes",
)


def by_definition(pairs, counts=lambda gold, i: True):
    """Compute each score from sets of gold and predicted annotations."""
    gold_values = {name: set() for name in SCORES}
    system_values = {name: set() for name in SCORES}
    for s, (gold, system) in enumerate(pairs):
        for i in range(len(gold)):
            if not counts(gold, i):
                continue
            has_lemma = gold.lemmas[i] != "_"
            for name, value in compared(gold, i, has_lemma).items():
                gold_values[name].add((s, i, value))
            for name, value in compared(system, i, has_lemma).items():
                system_values[name].add((s, i, value))
    scores = {}
    for name in SCORES:
        n_right = len(gold_values[name] & system_values[name])
        total = len(gold_values[name]) + len(system_values[name])
        scores[name] = 2 * n_right / max(total, 1)
    return scores


COLUMNS = {
    "lemmas": ["x", "y", "_"],
    "upos": ["NOUN", "PUNCT"],
    "xpos": ["_", "N"],
    "feats": FEATS,
    "deprels": RELATIONS,
}


def annotated(rng, forms):
    """Draw a tree and the other columns."""
    n = len(forms)
    # each word hangs on the root or on one before it in some order
    order = rng.permutation(n) + 1
    heads = np.zeros(n, int)
    heads[order - 1] = [rng.choice([0, *order[:k]]) for k in range(n)]
    columns = {name: rng.choice(values, n).tolist() for name, values in COLUMNS.items()}
    return Sentence(forms, heads=heads.tolist(), **columns)


@st.composite
def annotations(draw):
    """Two annotations of the same sentences."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pairs = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 6))
        forms = rng.choice(["a", "b", ","], n).tolist()
        pairs.append((annotated(rng, forms), annotated(rng, forms)))
    return pairs


COLUMNS_OF_SCORES = {
    "upos": ["upos"],
    "xpos": ["xpos"],
    "ufeats": ["feats"],
    "alltags": ["upos", "xpos", "feats"],
    "lemmas": ["lemmas"],
    "mlas": ["upos", "feats"],
    "blex": ["lemmas"],
}


def without_annotation(sentences):
    """Return None for each score whose columns are empty in the gold sentences."""

    def is_empty(column):
        return all(set(getattr(sentence, column)) <= {"_"} for sentence in sentences)

    return {
        score: None for score, columns in COLUMNS_OF_SCORES.items() if all(map(is_empty, columns))
    }


@settings(max_examples=150, deadline=None)
@given(annotations())
def test_scores_are_what_the_shared_task_defines(pairs):
    gold, system = (Treebank.from_sentences(sentences) for sentences in zip(*pairs))
    scores = evaluate_treebanks(gold, system)
    unknown = without_annotation([sentence for sentence, _ in pairs])
    expected = by_definition(pairs) | unknown
    if not (gold.deprels.any() and system.deprels.any()):
        expected |= dict.fromkeys(("las", "clas", "mlas", "blex", "las_subtypes"))
    assert {name: scores[name] for name in expected} == pytest.approx(expected, nan_ok=False)
    assert scores["whole"] == np.mean([g.heads == s.heads for g, s in pairs])
    if any(form != "," for form in gold.column("forms", 0)):
        without = evaluate_treebanks(
            gold,
            system,
            ignore=lambda form, upos, xpos: form == ",",
        )
        expected = by_definition(pairs, lambda sentence, i: sentence.forms[i] != ",") | unknown
        if without["las"] is not None:
            assert {name: without[name] for name in expected} == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(annotations())
def test_tables_count_what_the_scores_count(pairs):
    gold, system = (Treebank.from_sentences(sentences) for sentences in zip(*pairs))
    scores = evaluate_treebanks(gold, system)
    n = gold.n_words
    lengths = scores["lengths"]
    assert sum(row["gold"] for row in lengths) == n
    assert sum(row["predicted"] for row in lengths) == n
    assert sum(row["correct"] for row in lengths) == round(scores["uas"] * n)
    for row in scores["relations"]:
        assert row["recall"] == row["correct"] / max(row["gold"], 1)
        gold_arcs, system_arcs = (
            arcs_with_relation(sentences, row["relation"]) for sentences in zip(*pairs)
        )
        assert row["gold"] == len(gold_arcs)
        assert row["predicted"] == len(system_arcs)
        assert row["correct"] == len(gold_arcs & system_arcs)


def arcs_with_relation(sentences, relation):
    arcs = set()
    for s, sentence in enumerate(sentences):
        for i, head in enumerate(sentence.heads):
            if universal_relation(sentence, i) == relation:
                arcs.add((s, i, head))
    return arcs


def test_what_a_treebank_lacks_has_no_score():
    gold = Sentence(["a", "b"], heads=[0, 1], deprels=["root", "det"], upos=["X", "Y"])
    unlabeled = Sentence(["a", "b"], heads=[0, 1])
    tagged = Sentence(["a", "b"], upos=["X", "X"])
    gold, unlabeled, tagged = (
        Treebank.from_sentences([sentence]) for sentence in (gold, unlabeled, tagged)
    )
    without_relations = evaluate_treebanks(gold, unlabeled)
    without_heads = evaluate_treebanks(gold, tagged)
    assert without_relations["uas"] == 1.0
    assert without_relations["las"] is None
    assert without_relations["mlas"] is None
    assert without_heads["uas"] is None
    assert without_heads["upos"] == 0.5
    assert without_heads["lengths"] == []
    assert evaluate_treebanks(tagged, tagged)["uas"] is None
    scores = evaluate_treebanks(tagged, gold)
    assert [scores[name] for name in ("xpos", "ufeats", "lemmas", "blex")] == [None] * 4
    assert scores["alltags"] == 0.5


def test_punctuation_by_rules():
    gold = Treebank.from_sentences(
        [
            Sentence(
                forms=["a", ",", "$"],
                upos=["X", "PUNCT", "PUNCT"],
                xpos=["A", ",", "$"],
                heads=[0, 1, 2],
            )
        ]
    )
    rules = {None: 3, "upos": 1, "xpos": 2, "form": 2, (lambda form, upos, xpos: form == "a"): 2}
    for rule, words in rules.items():
        assert evaluate_treebanks(gold, gold, ignore=rule)["words"] == words
    with pytest.raises(InputError, match="ignore must be"):
        evaluate_treebanks(gold, gold, ignore="commas")


def test_other_words_are_refused():
    gold, other, longer = (
        Treebank.from_sentences([Sentence(["the"]), Sentence(["a", *words])])
        for words in ("b", "c", "bd")
    )
    for predicted in (other, longer, gold[:1]):
        with pytest.raises(
            InputError, match=r"must have the same characters; at character [456], the gold one has"
        ):
            evaluate_treebanks(gold, predicted)
    for sentences in (gold, gold[:0]):
        with pytest.raises(InputError, match="No word counts"):
            evaluate_treebanks(sentences, sentences, ignore=lambda *_: True)


def test_heads_that_are_no_trees_have_no_score():
    def treebank(*heads):
        sentences = []
        for tree in heads:
            sentences.append(Sentence(["a", "b"], heads=tree, deprels=["nsubj", "case"]))
        return Treebank.from_sentences(sentences, trees=False)

    gold = treebank([0, 1], [2, 0])
    with pytest.raises(InputError, match=r"Sentence 1, word 2: the head 3 .* out of range"):
        evaluate_treebanks(gold, treebank([0, 3], [2, 0]))
    with pytest.raises(InputError, match=r"Sentence 2, word 1: .* a cycle, 1 -> 2 -> 1"):
        evaluate_treebanks(treebank([0, 1], [2, 1]), gold)
    with pytest.raises(InputError, match="2 gold words have no head, and others have one"):
        evaluate_treebanks(treebank([0, 1], [None, None]), gold)
    assert evaluate_treebanks(gold, treebank([0, 1], [None, None]))["uas"] == 0.5


def test_forms_are_compared_as_strings_not_as_codes(tmp_path):
    treebank = synthetic_treebank(20, random_state=0)
    omkl.data.write_treebank(tmp_path / "gold.conllu", treebank)
    again = read_treebank(tmp_path / "gold.conllu")[::-1][::-1]
    scores = evaluate_treebanks(treebank, again)
    for name in ("upos", "ufeats", "alltags", "las", "mlas", "blex"):
        assert scores[name] == 1.0
