"""Evaluation of treebanks whose words differ, against the definition of each score."""

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


ANNOTATIONS = {
    "lemmas": "ab_",
    "upos": "XY",
    "xpos": "xy",
    "feats": ("Case=Nom", "Case=Acc", "Typo=Yes|Case=Nom"),
    "deprels": RELATIONS,
}


def random_sentences(rng):
    """Draw a segmentation of the text, with random annotations."""
    words = ["".join(word) for word in cut(rng, TEXT, 0.6)]
    sentences = []
    for forms in cut(rng, words, 0.3):
        heads = random_heads(rng, len(forms))
        columns = {}
        for name, values in ANNOTATIONS.items():
            columns[name] = [rng.choice(values) for _ in forms]
        sentences.append(Sentence(forms=forms, heads=heads, **columns))
    return sentences


def random_heads(rng, n):
    """Draw a root; other words hang on it, or on words before it if they come after it."""
    root = rng.randrange(n)
    heads = []
    for i in range(n):
        candidates = [root]
        if i > root:
            candidates += range(root)
        if i == root:
            heads.append(0)
        else:
            heads.append(1 + rng.choice(candidates))
    return heads


def cut(rng, values, chance):
    """Cut between any two values with this chance."""
    pieces = [[values[0]]]
    for value in values[1:]:
        if rng.random() < chance:
            pieces.append([])
        pieces[-1].append(value)
    return pieces


def words_of(sentences):
    """Return the words by their span, as dicts whose head is a span."""
    words = {}
    at = 0
    for sentence in sentences:
        spans = []
        for form in sentence.forms:
            spans.append((at, at + len(form)))
            at += len(form)
        for i, span in enumerate(spans):
            words[span] = {
                "upos": sentence.upos[i],
                "xpos": sentence.xpos[i],
                "lemmas": sentence.lemmas[i],
                "feats": universal_features(sentence.feats[i]),
                "head": None,
                "relation": sentence.deprels[i].split(":")[0],
            }
            if sentence.heads[i] > 0:
                words[span]["head"] = spans[sentence.heads[i] - 1]
    return words


def f1(gold, predicted, right):
    total = len(gold) + len(predicted)
    return 2 * right / max(total, 1)


def expected(gold, predicted):
    """Compute the scores as defined in Zeman et al. (2018), without multiword tokens."""
    aligned = [span for span in gold if span in predicted]

    def functions(words, head):
        children = set()
        for span, word in words.items():
            if word["head"] == head and word["relation"] in FUNCTION_RELATIONS:
                children.add((span, word["relation"], word["upos"], word["feats"]))
        return children

    def content(words):
        return [span for span, word in words.items() if word["relation"] in CONTENT_RELATIONS]

    def same(span, *names):
        return all(gold[span][name] == predicted[span][name] for name in names)

    def lemma(span):
        return gold[span]["lemmas"] == "_" or same(span, "lemmas")

    def mlas(span):
        if not same(span, "head", "relation", "upos", "feats"):
            return False
        return functions(gold, span) == functions(predicted, span)

    def las(span):
        return same(span, "head", "relation")

    everywhere = {
        "words_f1": lambda span: True,
        "upos": lambda span: same(span, "upos"),
        "xpos": lambda span: same(span, "xpos"),
        "ufeats": lambda span: same(span, "feats"),
        "alltags": lambda span: same(span, "upos", "xpos", "feats"),
        "lemmas": lemma,
        "uas": lambda span: same(span, "head"),
        "las": las,
    }
    of_content = {
        "clas": las,
        "mlas": mlas,
        "blex": lambda span: las(span) and lemma(span),
    }
    scores = {}
    for name, is_right in everywhere.items():
        scores[name] = f1(
            gold,
            predicted,
            sum(map(is_right, aligned)),
        )
    gold_content = content(gold)
    predicted_content = content(predicted)
    aligned_content = [span for span in aligned if span in gold_content]
    for name, is_right in of_content.items():
        n_right = sum(map(is_right, aligned_content))
        scores[name] = f1(gold_content, predicted_content, n_right)
    return scores


def bounds(sentences):
    ends = list(itertools.accumulate(len("".join(sentence.forms)) for sentence in sentences))
    return set(zip([0, *ends], ends))


@given(st.integers(0, 10**6))
def test_scores_are_those_of_the_definitions(seed):
    rng = random.Random(seed)
    gold = random_sentences(rng)
    predicted = random_sentences(rng)
    scores = evaluate_treebanks(
        Treebank.from_sentences(gold),
        Treebank.from_sentences(predicted),
    )
    by_definition = expected(words_of(gold), words_of(predicted))
    if all(set(sentence.lemmas) == {"_"} for sentence in gold):
        by_definition |= {"lemmas": None, "blex": None}
    for name, score in by_definition.items():
        assert scores[name] == pytest.approx(score), name
    gold_bounds = bounds(gold)
    predicted_bounds = bounds(predicted)
    n_right = len(gold_bounds & predicted_bounds)
    assert scores["sentences_f1"] == pytest.approx(f1(gold_bounds, predicted_bounds, n_right))
    assert scores["tokens_f1"] == scores["words_f1"]


@given(st.integers(0, 10**6))
def test_scores_are_symmetric_where_the_definition_is(seed):
    rng = random.Random(seed)
    first = Treebank.from_sentences(random_sentences(rng))
    second = Treebank.from_sentences(random_sentences(rng))
    there = evaluate_treebanks(first, second)
    back = evaluate_treebanks(second, first)
    for name in ("tokens_f1", "words_f1", "sentences_f1", "upos", "uas", "las"):
        if there[name] is not None and back[name] is not None:
            assert there[name] == pytest.approx(back[name])


def segmented(text):
    """Make words from tokens; "ab=a+bc" is a multiword token."""
    words = []
    at = 0
    for token in text.split():
        form, is_multiword, forms_of_words = token.partition("=")
        if not is_multiword:
            forms_of_words = form
        for word in forms_of_words.split("+"):
            words.append(Word(word, at, at + len(form), bool(is_multiword)))
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
    ours = segmented(gold)
    theirs = segmented(predicted)
    pairs = align_words(ours, theirs)
    assert len(pairs) == n
    for g, p in pairs:
        assert ours[g].form == theirs[p].form or (ours[g][1:3] == theirs[p][1:3])


@given(st.lists(st.sampled_from("ab"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_words_of_one_token_are_aligned_by_a_longest_common_subsequence(ours, theirs):
    pairs = align_words(
        [Word(form, 0, 9, True) for form in ours],
        [Word(form, 0, 9, True) for form in theirs],
    )
    longest = 0
    for n in range(6):
        subsequences = set(itertools.combinations(ours, n))
        if subsequences.intersection(itertools.combinations(theirs, n)):
            longest = n
    assert len(pairs) == longest
    assert all(ours[g] == theirs[p] for g, p in pairs)
    assert (pairs[1:] > pairs[:-1]).all()


def test_a_long_multiword_token_is_aligned():
    """A line of a broken file can hold a token of many words."""
    ours = [Word(f"a{i}", 0, 9, True) for i in range(500)]
    theirs = [Word(f"a{2 * i}", 0, 9, True) for i in range(500)]
    assert align_words(ours, theirs).tolist() == [[2 * i, i] for i in range(250)]


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
    segmentation = Segmentation.of(treebank)
    assert segmentation.characters == "zumxyzumxy"
    assert segmentation.tokens == {(0, 3), (3, 5), (5, 8), (8, 10)}
    assert segmentation.sentences == {(0, 5), (5, 10)}
    assert [word.in_multiword for word in segmentation.words] == [True, True, False] * 2
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
    assert scores["tokens_f1"] == 0.0
    assert scores["words_f1"] == 1.0
    assert scores["sentences_f1"] == 1.0
    assert evaluate_treebanks(one, one)["tokens_f1"] == 1.0
