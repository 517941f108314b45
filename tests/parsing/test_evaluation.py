"""Scores of annotated sentences equal their definitions; other words are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omkl
from omkl import evaluate_treebanks
from omkl.data import Sentence, Treebank, read_treebank, synthetic_treebank
from omkl.exceptions import InputError

RELATIONS = ("nsubj", "nsubj:pass", "obl:tmod", "det", "case", "case:gen", "punct", "aux", "root", "_")
FEATS = ("_", "Number=Sing", "Typo=Yes", "Case=Nom|Number=Sing", "Number=Sing|Case=Nom", "Typo=Yes|Number=Sing")
#: Relations of content words and of function words, and universal features.
CONTENT = {
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse", "dislocated",
    "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj", "obl", "orphan",
    "parataxis", "reparandum", "root", "vocative", "xcomp",
}  # fmt: skip
FUNCTION = {"aux", "case", "cc", "clf", "cop", "det", "mark"}
UNIVERSAL = {
    "Abbr", "Animacy", "Aspect", "Case", "Definite", "Degree", "Evident", "Foreign", "Gender", "Mood", "NumType",
    "Number", "Person", "Polarity", "Polite", "Poss", "PronType", "Reflex", "Tense", "VerbForm", "Voice",
}  # fmt: skip


def of_one_word(sentence, i):
    """Return what the shared task compares of word ``i``: tags, universal features and relation."""
    feats = {f for f in sentence.feats[i].split("|") if f.split("=")[0] in UNIVERSAL}
    return sentence.upos[i], feats, sentence.deprels[i].split(":")[0]


def by_definition(pairs, counts=lambda gold, i: True):
    """Compute each score from sets of gold and predicted annotations."""
    said = {name: (set(), set()) for name in ("upos", "xpos", "ufeats", "alltags", "lemmas", "uas", "las", "clas",
                                               "mlas", "blex", "las_subtypes")}  # fmt: skip
    for s, (gold, system) in enumerate(pairs):
        for side, sentence in enumerate((gold, system)):
            for i in range(len(gold)):
                if not counts(gold, i):
                    continue
                upos, feats, relation = of_one_word(sentence, i)
                lemma = "_" if gold.lemmas[i] == "_" else sentence.lemmas[i]
                head, word = sentence.heads[i], (s, i)
                below = frozenset(
                    (j, upos_, frozenset(feats_), relation_)
                    for j in range(len(gold))
                    if sentence.heads[j] == i + 1
                    for upos_, feats_, relation_ in [of_one_word(sentence, j)]
                    if relation_ in FUNCTION
                )
                say = {
                    "upos": upos,
                    "xpos": sentence.xpos[i],
                    "ufeats": frozenset(feats),
                    "lemmas": lemma,
                    "uas": head,
                    "alltags": (upos, sentence.xpos[i], frozenset(feats)),
                    "las": (head, relation),
                    "las_subtypes": (head, sentence.deprels[i]),
                }
                if relation in CONTENT:
                    say |= {"clas": (head, relation), "blex": (head, relation, lemma)}
                    say["mlas"] = head, relation, upos, frozenset(feats), below
                for name, what in say.items():
                    said[name][side].add((word, what))
    return {name: 2 * len(gold & system) / max(len(gold) + len(system), 1) for name, (gold, system) in said.items()}


@st.composite
def annotations(draw):
    """Two annotations of the same sentences."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pairs = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 6))
        forms = rng.choice(["a", "b", ","], n).tolist()
        pair = []
        for _ in range(2):
            order = rng.permutation(n) + 1  # each word hangs on the root or on one before it in some order
            heads = np.zeros(n, int)
            heads[order - 1] = [rng.choice([0, *order[:k]]) for k in range(n)]
            columns = {"lemmas": ["x", "y", "_"], "upos": ["NOUN", "PUNCT"], "xpos": ["_", "N"], "feats": FEATS}
            columns = {name: rng.choice(values, n).tolist() for name, values in columns.items()}
            pair.append(Sentence(forms, heads=heads.tolist(), deprels=rng.choice(RELATIONS, n).tolist(), **columns))
        pairs.append(tuple(pair))
    return pairs


@settings(max_examples=150, deadline=None)
@given(annotations())
def test_scores_are_what_the_shared_task_defines(pairs):
    gold, system = (Treebank.from_sentences(sentences) for sentences in zip(*pairs))
    found = evaluate_treebanks(gold, system)
    expected = by_definition(pairs)
    if not (gold.deprels.any() and system.deprels.any()):
        expected |= dict.fromkeys(("las", "clas", "mlas", "blex", "las_subtypes"))
    assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=False)
    assert found["whole"] == np.mean([g.heads == s.heads for g, s in pairs])
    if any(form != "," for form in gold.column("forms", 0)):
        without = evaluate_treebanks(gold, system, ignore=lambda form, upos, xpos: form == ",")
        expected = by_definition(pairs, lambda sentence, i: sentence.forms[i] != ",")
        if without["las"] is not None:
            assert {name: without[name] for name in expected} == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(annotations())
def test_tables_count_what_the_scores_count(pairs):
    gold, system = (Treebank.from_sentences(sentences) for sentences in zip(*pairs))
    found = evaluate_treebanks(gold, system)
    n = gold.n_words
    assert sum(row["gold"] for row in found["lengths"]) == sum(row["predicted"] for row in found["lengths"]) == n
    assert sum(row["correct"] for row in found["lengths"]) == round(found["uas"] * n)
    for row in found["relations"]:
        assert row["recall"] == (row["correct"] / row["gold"] if row["gold"] else 0.0)
        arcs = [
            {
                (s, i, sentence.heads[i])
                for s, sentence in enumerate(side)
                for i in range(len(sentence))
                if sentence.deprels[i].split(":")[0] == row["relation"]
            }
            for side in zip(*pairs)
        ]
        assert (row["gold"], row["predicted"], row["correct"]) == (len(arcs[0]), len(arcs[1]), len(arcs[0] & arcs[1]))


def test_what_a_treebank_lacks_has_no_score():
    gold = Sentence(["a", "b"], heads=[0, 1], deprels=["root", "det"], upos=["X", "Y"])
    unlabeled, tagged = Sentence(["a", "b"], heads=[0, 1]), Sentence(["a", "b"], upos=["X", "X"])
    gold, unlabeled, tagged = (Treebank.from_sentences([sentence]) for sentence in (gold, unlabeled, tagged))
    without_relations, without_heads = evaluate_treebanks(gold, unlabeled), evaluate_treebanks(gold, tagged)
    assert (without_relations["uas"], without_relations["las"], without_relations["mlas"]) == (1.0, None, None)
    assert (without_heads["uas"], without_heads["upos"], without_heads["lengths"]) == (None, 0.5, [])
    assert evaluate_treebanks(tagged, tagged)["uas"] is None


def test_punctuation_by_rules():
    gold = Treebank.from_sentences(
        [Sentence(forms=["a", ",", "$"], upos=["X", "PUNCT", "PUNCT"], xpos=["A", ",", "$"], heads=[0, 1, 2])]
    )
    rules = {None: 3, "upos": 1, "xpos": 2, "form": 2, (lambda form, upos, xpos: form == "a"): 2}
    for rule, words in rules.items():
        assert evaluate_treebanks(gold, gold, ignore=rule)["words"] == words
    with pytest.raises(InputError, match="ignore must be"):
        evaluate_treebanks(gold, gold, ignore="commas")


def test_other_words_are_refused():
    gold, other, longer = (
        Treebank.from_sentences([Sentence(["the"]), Sentence(["a", *words])]) for words in ("b", "c", "bd")
    )
    for predicted in (other, longer, gold[:1]):
        with pytest.raises(InputError, match=r"Sentence 2 must have the same words in both, got \['a', 'b'\] and "):
            evaluate_treebanks(gold, predicted)
    for sentences in (gold, gold[:0]):
        with pytest.raises(InputError, match="No word counts"):
            evaluate_treebanks(sentences, sentences, ignore=lambda *_: True)


def test_heads_that_are_no_trees_have_no_score():
    def treebank(*heads):
        sentences = [Sentence(["a", "b"], heads=own, deprels=["nsubj", "case"]) for own in heads]
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
    found = evaluate_treebanks(treebank, again)
    assert [found[name] for name in ("upos", "ufeats", "alltags", "las", "mlas", "blex")] == [1.0] * 6
