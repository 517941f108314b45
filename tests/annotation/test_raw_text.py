"""Annotation of raw text: learning from ``# text``, lost characters, and blocks of long texts."""

import itertools
import random
import re
import tempfile
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import omkl
from omkl.annotation import tokenizer as tokenizer_module
from omkl.annotation.raw_text import SENTENCE_END, joined, raw_sentences, wrapped
from omkl.annotation.tokenizer import CharacterLabeler, Characters, kind_of
from omkl.data import Sentence, Treebank, read_treebank, write_treebank
from omkl.exceptions import DataWarning, InputError

from ..passes import Kill, Killed
from .made_language import SYLLABLES

#: Multiword tokens of the made language.
CONTRACTIONS = {"zum": ["zu", "dem"], "du": ["de", "le"], "vamonos": ["vamos", "nos"]}


class Token(NamedTuple):
    """A token, the words of a multiword token, and whether a space follows."""

    form: str
    words: list[str] = []
    space: bool = True


def random_tokens(rng):
    """Draw the tokens of a sentence."""
    tokens = []
    for i in range(rng.randint(1, 9)):
        form = "".join(rng.choices(SYLLABLES, k=2))
        if i == 0:
            form = form.capitalize()
        chance = rng.random()
        if chance < 0.1:
            form = rng.choice(list(CONTRACTIONS))
            tokens.append(Token(form, words=CONTRACTIONS[form]))
        elif chance < 0.25:
            tokens.append(Token(form + "lo", words=[form, "lo"]))
        elif chance < 0.35:
            tokens += [Token(form, space=False), Token(",")]
        elif chance < 0.4:
            tokens.append(Token("dr."))
        else:
            tokens.append(Token(form))
    tokens[-1] = tokens[-1]._replace(space=False)
    return [*tokens, Token(rng.choice(".!?"))]


def conllu(documents):
    """Format documents, lists of sentences of tokens, as CoNLL-U."""
    lines = []
    for sentences in documents:
        lines.append("# newpar")
        for tokens in sentences:
            text = "".join(token.form + " " * token.space for token in tokens).strip()
            lines.append(f"# text = {text}")
            number = 1
            for token in tokens:
                misc = "SpaceAfter=No"
                if token.space:
                    misc = "_"
                if token.words:
                    last = number + len(token.words) - 1
                    lines.append(row(f"{number}-{last}", token.form, misc))
                    misc = "_"
                for word in token.words or [token.form]:
                    lines.append(annotated_row(number, word, misc))
                    number += 1
            lines.append("")
    return "\n".join(lines) + "\n"


def row(number, form, misc="_"):
    return f"{number}\t{form}" + "\t_" * 7 + f"\t{misc}"


def annotated_row(number, form, misc):
    """Format a word of a tree whose first word is the root."""
    tag = "PUNCT"
    if form[0].isalnum():
        tag = "X"
    arc = "1\tdep"
    if number == 1:
        arc = "0\troot"
    return f"{number}\t{form}\t{form.lower()}\t{tag}\t_\t_\t{arc}\t_\t{misc}"


def documents(n, seed):
    rng = random.Random(seed)
    return [random_document(rng) for _ in range(n)]


def random_document(rng):
    return [random_tokens(rng) for _ in range(rng.randint(1, 6))]


def untrained(**parameters):
    parser = omkl.DependencyParser("small", epochs=2, memory=2)
    return omkl.Annotator(
        parser=parser, tagger=omkl.SequenceLabeler(epochs=2), **{"random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    for name, n, seed in (("train", 120, 0), ("test", 30, 1)):
        (folder / f"{name}.conllu").write_text(conllu(documents(n, seed)))
    return folder


@pytest.fixture(scope="module")
def annotator(files):
    return untrained().fit(files / "train.conllu")


@pytest.fixture(scope="module")
def tokenizer(files):
    return untrained(parts=["tokens"]).fit(files / "train.conllu")


def tokens_of(treebank):
    """Return the forms of the tokens of a treebank with its text."""
    return forms_of(raw_sentences(treebank))


def forms_of(sentences):
    forms = []
    for sentence in sentences:
        forms += [form for form, _ in sentence.tokens]
    return forms


def bare(text):
    return "".join(text.split())


def test_sentences_tokens_and_words_are_learned(annotator, files):
    assert annotator.parts_ == ["tokens", "upos", "lemmas", "trees"]
    scores = annotator.evaluate(files / "test.conllu", raw=True)
    assert min(scores[f"{name}_f1"] for name in ("tokens", "words", "sentences")) > 0.98
    assert min(scores[name] for name in ("upos", "lemmas", "uas", "las")) > 0.95
    assert abs(sum(annotator.kernel_weights_["tokens"].values()) - 1.0) < 1e-9
    assert "words of tokens" in annotator.models()


def test_what_is_written(annotator, tmp_path):
    text = "Babe dido dr. kako, zum bako.  \n\nFifalo\nfifi!"
    annotated = annotator.annotate_text(text, offsets=True)
    write_treebank(tmp_path / "out.conllu", annotated)
    lines = [line.split("\t") for line in (tmp_path / "out.conllu").read_text().split("\n")]
    comments = [line[0] for line in lines if line[0].startswith("#")]
    assert comments == [
        *("# sent_id = 1", "# text = Babe dido dr. kako, zum bako."),
        *("# newpar", "# sent_id = 2", "# text = Fifalo fifi!"),
    ]
    rows = [(line[0], line[1], line[-1]) for line in lines if len(line) > 1]
    assert [row[:2] for row in rows if "-" in row[0]] == [("6-7", "zum"), ("1-2", "Fifalo")]
    assert [row[1] for row in rows][5:9] == ["zum", "zu", "dem", "bako"]
    for _, form, misc in rows:
        if misc != "_":
            low, high = map(int, misc.split("TokenRange=")[1].split(":"))
            assert text[low:high] == form
            assert ("SpaceAfter=No" in misc) == (high < len(text) and not text[high].isspace())
    assert read_treebank(tmp_path / "out.conllu").n_words == annotated.n_words


def test_a_str_is_a_path_for_annotate_and_text_for_annotate_text(annotator, files):
    path = str(files / "test.conllu")
    assert len(annotator.annotate(path)) > 30
    assert tokens_of(annotator.annotate_text("Babe. Dido.")) == ["Babe", ".", "Dido", "."]


ALPHABET = st.sampled_from(
    [
        *"ab.,!?'\"() \t\n\r-_#",
        "\r\n",
        "\n\n",
        "\u00a0",
        "\u0301",
        "\u200d",
        "\U0001f600",
        "\x00",
        "\x1c",
    ]
)
CHARACTERS = st.one_of(ALPHABET, st.characters(exclude_categories=["Cs"]))
TEXTS = st.lists(CHARACTERS, max_size=60).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TEXTS)
@example("")
@example(" \n\t ")
@example("Babe dido" * 3)
@example("a\u0301b \U0001f468\u200d\U0001f469 _ # 1-2\tx")
def test_no_character_is_lost(tokenizer, text):
    annotated = tokenizer.annotate_text(text, offsets=True)
    assert bare("".join(tokens_of(annotated))) == bare(text)
    for sentence in (annotated.text or b"").decode().split("\n\n")[:-1]:
        for line in sentence.split("\n"):
            assert line.startswith("#") or len(line.split("\t")) == 10


@settings(deadline=None)
@given(st.text(max_size=30), st.integers(1, 9))
def test_wrapping_changes_spaces_only(text, width):
    assert wrapped(text, width).replace("\n", " ") == text.replace("\n", " ")


@pytest.mark.parametrize("mark", ["\u0301", "\u200d"])
def test_words_are_not_split_within_characters(tokenizer, mark):
    text = f"Ba{mark}be dido."
    assert tokens_of(tokenizer.annotate_text(text)) == [f"Ba{mark}be", "dido", "."]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", 0),
        ("Babe", 1),
        ("Babe.", 1),
        ("Babe dido.\r\n\r\nKako!\r\n", 2),
        ("\tBabe\tdido.\u00a0Kako.\n", 2),
        ("Babe dido\n\nkako", 2),
    ],
)
def test_short_texts(tokenizer, text, sentences):
    annotated = tokenizer.annotate_text(text)
    assert len(annotated) == sentences
    assert bare("".join(tokens_of(annotated))) == bare(text)


@pytest.mark.parametrize("text", ["Zum", "zum", "zum du ZUM", "vamonos"])
def test_texts_of_known_multiword_tokens_alone(tokenizer, text):
    words = []
    for sentence in tokenizer.annotate_text(text):
        words += [form.lower() for form in sentence.forms]
    expected = []
    for token in text.lower().split():
        expected += CONTRACTIONS[token]
    assert words == expected


@pytest.mark.parametrize("width", [None, 30, 70])
def test_lines_of_sentences_and_wrapped_lines(tokenizer, files, width):
    gold = list(raw_sentences(read_treebank(files / "test.conllu")))
    if width is None:
        gold = [sentence._replace(gap="\n" * bool(sentence.gap)) for sentence in gold]
        text = joined(gold)[0]
    else:
        text = wrapped(joined(gold)[0], width)
    annotated = tokenizer.annotate_text(text)
    pairs = list(zip(tokens_of(annotated), forms_of(gold), strict=True))
    n_right = sum(form == gold_form for form, gold_form in pairs)
    assert n_right > 0.98 * len(pairs)
    assert abs(len(annotated) - len(gold)) < 0.03 * len(gold)


def test_a_long_sentence_and_a_long_word(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer_module, "BLOCK", 3000)
    for text in ("babe " * 1000, "a" * 20_000, "babe " * 3000):
        blocks = list(tokenizer.stream_text(text))
        forms = itertools.chain.from_iterable(map(tokens_of, blocks))
        assert bare("".join(forms)) == bare(text)
        assert max(len(block.text) for block in blocks) < 200_000


@pytest.mark.slow
def test_long_texts_take_constant_memory(tokenizer, files):
    text = joined(raw_sentences(read_treebank(files / "test.conllu")))[0] + "\n\n"
    peaks = []
    n_sentences = {}
    for times in (40, 400):
        tracemalloc.start()
        blocks = tokenizer.stream_text(text for _ in range(times))
        n_sentences[times] = sum(map(len, blocks))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert len(text) * 400 > 1_000_000
    assert peaks[1] < 1.2 * peaks[0]
    assert n_sentences[400] == 10 * n_sentences[40] == 400 * len(tokenizer.annotate_text(text))


def test_pieces_of_a_text_do_not_matter(tokenizer, files):
    text = joined(raw_sentences(read_treebank(files / "test.conllu")))[0] * 3
    at_once = tokenizer.annotate_text(text, offsets=True)
    pieces = Treebank.concatenate(tokenizer.stream_text(iter(text), offsets=True))
    assert pieces.text == at_once.text


def test_surrogates_are_refused(tokenizer):
    with pytest.raises(InputError, match=r"Unicode characters, got '\\ud800' at 2"):
        tokenizer.annotate_text("ab\ud800")


# ---- learning ------------------------------------------------------------------------------------


def test_words_with_spaces():
    rng = random.Random(0)
    words = ["".join(pair) for pair in zip(SYLLABLES[:20], SYLLABLES[20:40])]
    words += [" ".join(pair) for pair in zip(SYLLABLES[:20], SYLLABLES[40:60])]
    sentences = []
    for _ in range(150):
        tokens = [Token(rng.choice(words)) for _ in range(6)]
        sentences.append([*tokens, Token(".")])
    train = read(conllu([sentences[:120]]).replace("# newpar\n", ""))
    gold = read(conllu([sentences[120:]]).replace("# newpar\n", ""))
    model = untrained(parts=["tokens"]).fit(train)
    assert model.tokenizer_.labeler.spaced
    assert model.evaluate(gold, raw=True)["words_f1"] > 0.97
    assert model.score(gold) > 0.97
    words_of_text = joined(raw_sentences(gold))[0].split(" ")
    broken = model.annotate_text("\n".join(words_of_text[:40]))
    # a line end in a word is a space
    assert any(" " in "".join(sentence.forms) for sentence in broken)


def read(text):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.conllu").write_text(text)
        return read_treebank(Path(folder) / "t.conllu", trees="given")


def test_same_seed_same_bits(files, tmp_path):
    treebank = read_treebank(files / "train.conllu")
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        untrained(parts=["tokens"], random_state=seed).fit(treebank).save(tmp_path / f"{name}.npz")
    a, b, c = (omkl.load(tmp_path / f"{name}.npz").tokenizer_.labeler for name in "abc")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert np.array_equal(a.table, b.table)
    assert not np.array_equal(a.table, c.table)


@pytest.mark.parametrize("rounds", [100, 1000])  # in the training of the tokenizer, and of a tagger
def test_a_resumed_run_is_as_an_uninterrupted_one(files, tmp_path, rounds):
    X = files / "test.conllu"
    settings = {"parts": ["tokens", "upos"]}
    untrained(**settings).fit(X).save(tmp_path / "whole.npz")
    with pytest.raises(Killed):
        untrained(callbacks=[Kill(rounds)], **settings).fit(X, checkpoint=tmp_path / "state")
    resumed = untrained(**settings).fit(X, checkpoint=tmp_path / "state", resume=True)
    resumed.save(tmp_path / "resumed.npz")
    assert (tmp_path / "resumed.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_loaded_annotator_splits_the_same(annotator, files, tmp_path, dtype):
    text = joined(raw_sentences(read_treebank(files / "test.conllu")))[0]
    annotator.save(tmp_path / "model.npz", training=False, dtype=dtype)
    loaded = omkl.load(tmp_path / "model.npz")
    assert loaded.annotate_text(text).text == annotator.annotate_text(text).text
    assert loaded.kernel_weights_["tokens"] == annotator.kernel_weights_["tokens"]


def test_treebanks_without_text(annotator, tmp_path):
    plain = [Sentence(forms=["a", "b"], upos=["X", "Y"])] * 20
    message = "no raw text, which is in comments # text or in SpaceAfter=No"
    with pytest.raises(InputError, match=message):
        untrained(parts=["tokens", "upos"]).fit(plain)
    with pytest.raises(InputError, match="The treebank has no raw text"):
        annotator.evaluate([Sentence(forms=["a"], heads=[0])], raw=True)
    model = untrained().fit(plain)
    assert model.parts_ == ["upos"]
    message = "This annotator has no tokenizer: its training data had no raw text"
    with pytest.raises(InputError, match=message):
        model.annotate_text("a b")


def test_space_after_tells_the_text():
    rows = [
        Sentence(forms=["Babe", "."], misc=["SpaceAfter=No", "_"]),
        Sentence(forms=["Dido", "!"]),
    ]
    first, second = raw_sentences(Treebank.from_sentences(rows))
    assert first.text == "Babe."
    assert first.spans == [(0, 4), (4, 5)]
    assert second.text == "Dido !"
    assert second.gap == " "


def test_a_text_that_differs_from_the_forms_is_not_used():
    rows = [row(1, "ab", "SpaceAfter=No"), row(2, "ce")]
    (sentence,) = raw_sentences(read(with_text("ab cd", *rows)))
    assert sentence.text == "abce"
    assert sentence.spans == [(0, 2), (2, 4)]


def with_text(text, *rows):
    return "\n".join([f"# text = {text}", *rows, "", ""])


def test_words_with_their_punctuation_give_a_warning(annotator):
    with pytest.warns(DataWarning, match=r"Words such as 'dido\.' were two tokens in training"):
        annotator.annotate([["Babe", "dido."], ["Kako", "bako."]])


def test_split_words_give_no_warning(annotator, files, recwarn):
    annotator.annotate(files / "test.conllu")
    annotator.annotate([["Babe", "dr."], ["Kako", "."]])
    assert not recwarn.list


# ---- parts of the tokenizer ----------------------------------------------------------------------


@given(st.text(st.sampled_from("aB. \n\u00a01-("), max_size=40))
def test_runs_are_the_words_between_whitespace(text):
    characters = Characters(text, np.ones((16, 16), bool))
    assert len(characters) == len(bare(text))  # all characters are places
    ends = [match.end() - 1 for match in re.finditer(r"\S+", text)]
    assert characters.places[characters.gaps > 0].tolist() == ends


def test_kinds():
    assert len({kind_of(c) for c in "A a\n1.,('-$\u0301\u0e01\x00"}) == 14
    assert kind_of("\u00a0") == kind_of(" ") == kind_of("\t") == kind_of("\r")


def test_a_text_of_one_sentence_can_be_learned():
    sentences = list(raw_sentences(read(with_text("ab.", row(1, "ab"), row(2, ".")))))
    assert CharacterLabeler().fit(sentences, 0).split("ab.") == [[(0, 2), (2, 3)]]


def test_sentences_follow_others_than_their_neighbours_too(monkeypatch):
    made = ""
    for i in range(200):
        form = f"ab{i}"
        made += with_text(f"{form} cd.", row(1, form), row(2, "cd"), row(3, "."))
    learned = []
    encode = CharacterLabeler.training_example

    def spy(labeler, text, labels):
        bounds = [0, *(np.flatnonzero(labels == SENTENCE_END) + 1)]
        learned.extend(" ".join(text[low:high].split()) for low, high in itertools.pairwise(bounds))
        return encode(labeler, text, labels)

    monkeypatch.setattr(CharacterLabeler, "training_example", spy)
    CharacterLabeler().fit(list(raw_sentences(read(made))), 0)
    numbers = np.array([int(re.fullmatch(r"ab(\d+) cd ?\.", sentence)[1]) for sentence in learned])
    assert 0.5 < np.mean(np.diff(numbers) == 1) < 0.9
