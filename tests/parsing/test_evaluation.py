"""Evaluation of treebanks with different words of the same characters, against the definition of
each score.
"""

import itertools
import random
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl import evaluate_treebanks
from omkl.data import Sentence, Treebank, read_treebank, write_treebank
from omkl.exceptions import InputError
from omkl.parsing.alignment import Segmentation, Word, align_words
from omkl.parsing.evaluation import CONTENT_RELATIONS, FUNCTION_RELATIONS, universal_features

TEXT = "abcaabbcabcb"
RELATIONS = ("nsubj", "det", "case", "root:x", "punct", "obj:y")


def drawn(rng):
    """Draw a segmentation of the text, with random annotations."""
    words = [list(word) for word in cut(rng, list(TEXT), 0.6)]
    sentences = []
    for own in cut(rng, words, 0.3):
        n = len(own)
        root = rng.randrange(n)
        heads = [
            0 if i == root else 1 + rng.choice([root, *range(min(i, root))] if i > root else [root])
            for i in range(n)
        ]
        columns = {
            name: [rng.choice(values) for _ in own]
            for name, values in {
                "lemmas": "ab_",
                "upos": "XY",
                "xpos": "xy",
                "feats": ("Case=Nom", "Case=Acc", "Typo=Yes|Case=Nom"),
                "deprels": RELATIONS,
            }.items()
        }
        sentences.append(Sentence(forms=["".join(word) for word in own], heads=heads, **columns))
    return sentences


def cut(rng, values, chance):
    parts = [[values[0]]]
    for value in values[1:]:
        if rng.random() < chance:
            parts.append([])
        parts[-1].append(value)
    return parts


def words_of(sentences):
    """Return the words by their span, as dicts whose head is a span."""
    found, at = {}, 0
    for sentence in sentences:
        spans = []
        for form in sentence.forms:
            spans.append((at, at + len(form)))
            at += len(form)
        for i, span in enumerate(spans):
            head = sentence.heads[i]
            feats = universal_features(sentence.feats[i])
            found[span] = {
                **{name: getattr(sentence, name)[i] for name in ("upos", "xpos", "lemmas")},
                "feats": feats,
                "head": spans[head - 1] if head else None,
                "relation": sentence.deprels[i].split(":")[0],
            }
    return found


def f1(gold, predicted, right):
    total = len(gold) + len(predicted)
    return 2 * right / total if total else 0.0


def expected(gold, predicted):
    """Compute the scores from the definitions in Zeman et al. (2018), for treebanks without
    multiword tokens.
    """
    both = [span for span in gold if span in predicted]

    def functions(words, span):
        own = [
            (s, w["relation"], w["upos"], w["feats"]) for s, w in words.items() if w["head"] == span
        ]
        return {child for child in own if child[1] in FUNCTION_RELATIONS}

    def content(words):
        return [span for span, word in words.items() if word["relation"] in CONTENT_RELATIONS]

    def same(span, *names):
        return all(gold[span][name] == predicted[span][name] for name in names)

    def lemma(span):
        return gold[span]["lemmas"] == "_" or same(span, "lemmas")

    def mlas(span):
        return same(span, "head", "relation", "upos", "feats") and functions(
            gold, span
        ) == functions(predicted, span)

    everywhere = {
        "words_f1": lambda span: True,
        "upos": lambda span: same(span, "upos"),
        "xpos": lambda span: same(span, "xpos"),
        "ufeats": lambda span: same(span, "feats"),
        "alltags": lambda span: same(span, "upos", "xpos", "feats"),
        "lemmas": lemma,
        "uas": lambda span: same(span, "head"),
        "las": lambda span: same(span, "head", "relation"),
    }
    of_content = {
        "clas": lambda span: same(span, "head", "relation"),
        "mlas": mlas,
        "blex": lambda span: same(span, "head", "relation") and lemma(span),
    }
    scores = {name: f1(gold, predicted, sum(map(rule, both))) for name, rule in everywhere.items()}
    ours, theirs = content(gold), content(predicted)
    return scores | {
        name: f1(ours, theirs, sum(rule(span) for span in both if span in ours))
        for name, rule in of_content.items()
    }


def bounds(sentences):
    ends = list(itertools.accumulate(len("".join(sentence.forms)) for sentence in sentences))
    return set(zip([0, *ends], ends))


@given(st.integers(0, 10**6))
def test_scores_are_those_of_the_definitions(seed):
    rng = random.Random(seed)
    gold, predicted = drawn(rng), drawn(rng)
    scores = evaluate_treebanks(*(Treebank.from_sentences(own) for own in (gold, predicted)))
    unknown = all(set(sentence.lemmas) == {"_"} for sentence in gold)
    none = dict.fromkeys(("lemmas", "blex") if unknown else ())
    for name, score in (expected(words_of(gold), words_of(predicted)) | none).items():
        assert scores[name] == pytest.approx(score), name
    ours, theirs = bounds(gold), bounds(predicted)
    assert scores["sentences_f1"] == pytest.approx(f1(ours, theirs, len(ours & theirs)))
    assert scores["tokens_f1"] == scores["words_f1"]


@given(st.integers(0, 10**6))
def test_scores_are_symmetric_where_the_definition_is(seed):
    rng = random.Random(seed)
    pair = [Treebank.from_sentences(drawn(rng)) for _ in range(2)]
    there, back = evaluate_treebanks(*pair), evaluate_treebanks(*reversed(pair))
    for name in ("tokens_f1", "words_f1", "sentences_f1", "upos", "uas", "las"):
        if there[name] is not None and back[name] is not None:
            assert there[name] == pytest.approx(back[name])


def segmented(text):
    """Make words from tokens; "ab=a+bc" is a multiword token."""
    words, at = [], 0
    for token in text.split():
        form, _, parts = token.partition("=")
        for part in parts.split("+") if parts else [form]:
            words.append(Word(part, at, at + len(form), bool(parts)))
        at += len(form)
    return words


@pytest.mark.parametrize(
    ("gold", "predicted", "n"),
    [
        ("abc=a+b+c", "a b c", 3),
        ("a bc=b+c d", "a b c d", 4),
        ("abcd=a+b+c+d", "ab=a+b cd=c+d", 4),
        ("abc=a+b+c de=d+e", "a bcd=b+c+d e", 5),
        ("abcd", "a b c d", 0),
        ("abc d", "a b c d", 1),
        ("a bc=b+c d", "a b cd", 2),
        ("abc=a+x+c def=d+y+f", "ab=a+b cd=c+d ef=e+f", 4),
        ("ab=a+b cd=bc+d", "a bc d", 2),
        ("zum=zu+dem x", "zum x", 1),
        ("zum=zu+dem x", "zum=zu+der x", 2),
    ],
)
def test_multiword_tokens_are_aligned_by_forms(gold, predicted, n):
    ours, theirs = segmented(gold), segmented(predicted)
    pairs = align_words(ours, theirs)
    assert len(pairs) == n
    for g, p in pairs:
        assert ours[g].form == theirs[p].form or (ours[g][1:3] == theirs[p][1:3])


@given(st.lists(st.sampled_from("ab"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_words_of_one_token_are_aligned_by_a_longest_common_subsequence(ours, theirs):
    words = [[Word(form, 0, 9, True) for form in forms] for forms in (ours, theirs)]
    found = align_words(*words)
    longest = max(
        n
        for n in range(6)
        if set(itertools.combinations(ours, n)) & set(itertools.combinations(theirs, n))
    )
    assert len(found) == longest
    assert all(ours[g] == theirs[p] for g, p in found)
    assert (found[1:] > found[:-1]).all()


def test_multiword_tokens_of_files(tmp_path):
    row = "{}\t{}" + "\t_" * 5 + "\t_\t_\t_\n"
    text = (
        row.format("1-2", "zum")
        + row.format(1, "zu")
        + row.format(2, "dem")
        + row.format(3, "x y")
        + "\n"
    )
    (tmp_path / "a.conllu").write_text(text + text)
    treebank = read_treebank(tmp_path / "a.conllu", trees=False)
    found = Segmentation.of(treebank)
    assert found.characters == "zumxyzumxy"
    assert found.tokens == {(0, 3), (3, 5), (5, 8), (8, 10)}
    assert found.sentences == {(0, 5), (5, 10)}
    assert [word.in_multiword for word in found.words] == [True, True, False] * 2
    write_treebank(tmp_path / "b.conllu", treebank[:1])
    for other in (treebank[:1], Treebank.from_sentences([Sentence(["zum", "x", "z"])])):
        with pytest.raises(
            InputError,
            match=r"must have the same characters; at character (5|6), the gold one has ",
        ):
            evaluate_treebanks(treebank, other)


@pytest.mark.parametrize(
    ("gold", "other", "codes"),
    [
        ("caf\u00e9", "cafe\u0301", ["U+00E9", "U+0065"]),
        ("cafe\u0301", "caf\u00e9", ["U+0065", "U+00E9"]),
        ("e\u0323\u0301", "e\u0301\u0323", ["U+0323", "U+0301"]),
        ("Ape", "\u0410pe", ["U+0041", "U+0410"]),
        ("ab", "ab\u200b", ["U+200B"]),
    ],
)
def test_characters_that_look_alike_are_told_apart(gold, other, codes):
    treebanks = [Treebank.from_sentences([Sentence([form])]) for form in (gold, other)]
    with pytest.raises(InputError) as error:
        evaluate_treebanks(*treebanks)
    message = str(error.value)
    assert re.findall(r"U\+[0-9A-F]+", message) == codes
    are_equal = unicodedata.normalize("NFD", gold) == unicodedata.normalize("NFD", other)
    assert ("they are equal in Unicode's normal form NFC" in message) == are_equal


def test_the_same_words_in_other_tokens(tmp_path):
    rows = "".join(f"{i}\t{form}" + "\t_" * 5 + "\t_\t_\t_\n" for i, form in enumerate("ab", 1))
    for name, first in (("split", ""), ("one", "1-2\tab" + "\t_" * 8 + "\n")):
        (tmp_path / f"{name}.conllu").write_text(f"{first}{rows}\n")
    split, one = (
        read_treebank(tmp_path / f"{name}.conllu", trees=False) for name in ("split", "one")
    )
    scores = evaluate_treebanks(one, split)
    assert (scores["tokens_f1"], scores["words_f1"], scores["sentences_f1"]) == (0.0, 1.0, 1.0)
    assert evaluate_treebanks(one, one)["tokens_f1"] == 1.0
