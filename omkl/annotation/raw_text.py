"""Raw text of treebanks: alignment with tokens, joining to documents, and CoNLL-U of tokens."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from omkl.data import Treebank
from omkl.data.treebank.conllu import as_text
from omkl.exceptions import InputError

#: Labels of characters.
INSIDE, TOKEN_END, SENTENCE_END = range(3)
#: Whitespace before a paragraph.
PARAGRAPH = "\n\n"
#: Up to these numbers, of [0, 1), a document has a line for each sentence, no paragraphs, or
#: wrapped lines.
LINES, RUNNING, WRAPPED = 0.1, 0.4, 0.5
#: Form of a token, and its words if it is a multiword token.
Token: TypeAlias = tuple[str, list[str]]
#: Start and end of each token of a sentence in its text.
Spans: TypeAlias = list[tuple[int, int]]
#: The end of errors about treebanks without raw text.
NO_TEXT = "no raw text, which is in comments # text or in SpaceAfter=No of CoNLL-U"
#: Entry in MISC of a token without a space after it.
_NO_SPACE = "SpaceAfter=No"
#: Columns of CoNLL-U between FORM and MISC, without values.
_EMPTY = "\t_" * 7
_PARAGRAPH_COMMENT = re.compile("# *new(par|doc)")
_TEXT_COMMENT = re.compile("# *text *= *(.*)")


class RawSentence(NamedTuple):
    """A sentence with its raw text.

    Attributes
    ----------
    text : str
    tokens : list of (str, list of str)
        Form of each token, and the words of a multiword token.
    spans : list of (int, int)
        Start and end of each token in the text.
    gap : str
        Whitespace between the sentence and the one before.
    """

    text: str
    tokens: list[Token]
    spans: Spans
    gap: str


def has_text(treebank: Treebank) -> bool:
    """Check whether a treebank tells its raw text, by comments ``# text`` or SpaceAfter=No."""
    if treebank.text is None:
        return any(_NO_SPACE in misc for misc in treebank.strings["misc"])
    if treebank.format != "conllu":
        return False
    return re.search(rb"^# *text *=|SpaceAfter=No", treebank.text, re.M) is not None


def raw_sentences(treebank: Treebank) -> Iterator[RawSentence]:
    """Yield the sentences of a treebank in CoNLL-U with their raw text.

    Without ``# text``, or if it differs from the forms, the text follows from the forms and
    SpaceAfter=No.
    """
    gap = ""
    is_first = True
    comments: list[str] = []
    rows: list[list[str]] = []
    for line in as_text(treebank).decode().split("\n"):
        line = line.rstrip("\r")
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line:
            rows.append(line.split("\t"))
        elif rows:
            if not is_first and any(map(_PARAGRAPH_COMMENT.match, comments)):
                gap = PARAGRAPH
            tokens, are_spaced = _tokens_of(rows)
            text, spans = _text_and_spans(comments, tokens, are_spaced)
            yield RawSentence(text=text, tokens=tokens, spans=spans, gap=gap)
            gap = " " if are_spaced[-1] else ""
            is_first = False
            comments = []
            rows = []


def _tokens_of(rows: list[list[str]]) -> tuple[list[Token], list[bool]]:
    """Return the tokens of a sentence with their words, and whether a space follows each.

    Rows have the columns of CoNLL-U. Only multiword tokens have words.
    """
    tokens: list[Token] = []
    are_spaced = []
    last_word = 0  # of the latest multiword token
    for number, form, *others in rows:
        if number.isdigit() and int(number) <= last_word:
            _, words = tokens[-1]
            words.append(form)
        elif "." not in number:  # no empty node
            if "-" in number:
                last_word = int(number.split("-")[1])
            tokens.append((form, []))
            are_spaced.append(_NO_SPACE not in others[-1].split("|"))
    return tokens, are_spaced


def _text_and_spans(
    comments: list[str], tokens: list[Token], are_spaced: list[bool]
) -> tuple[str, Spans]:
    """Return the text of a sentence, and the spans of its tokens.

    The text is that of the comments, or follows from the forms and the spaces after them.
    """
    forms = [form for form, _ in tokens]
    matches = filter(None, map(_TEXT_COMMENT.match, comments))
    text = next((match[1].strip() for match in matches), "")
    spans = _find_forms(text, forms)
    if spans is None:
        text = "".join(form + " " * spaced for form, spaced in zip(forms, are_spaced)).rstrip()
        spans = _find_forms(text, forms) or []
    return text, spans


def _find_forms(text: str, forms: Iterable[str]) -> Spans | None:
    """Find the forms in a text, whose whitespace may differ; None if other characters differ."""
    places = [i for i, character in enumerate(text) if not character.isspace()]
    places.append(len(text))
    dense_forms = ["".join(form.split()) for form in forms]
    if "".join(dense_forms) != "".join(text.split()):
        return None
    spans = []
    for low, high in pairwise(accumulate(map(len, dense_forms), initial=0)):
        start = places[low]
        end = start  # a no-break space can be a form, and is nowhere
        if low < high:
            end = places[high - 1] + 1
        spans.append((start, end))
    return spans


def joined(sentences: Iterable[RawSentence]) -> tuple[str, np.ndarray]:
    """Join sentences with the whitespace of the treebank.

    Returns the text, and a label for each character.
    """
    texts = []
    labels = [np.zeros(0, np.int8)]
    for sentence in sentences:
        texts += [sentence.gap, sentence.text]
        labels_of_sentence = np.zeros(len(sentence.gap) + len(sentence.text), np.int8)
        ends = np.array([end for _, end in sentence.spans], np.int64) + len(sentence.gap)
        labels_of_sentence[ends - 1] = TOKEN_END
        labels_of_sentence[ends[-1:] - 1] = SENTENCE_END
        labels.append(labels_of_sentence)
    return "".join(texts), np.concatenate(labels)


def varied(sentences: Sequence[RawSentence], rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Join sentences as :func:`joined`, with whitespace that is changed at random.

    Documents may have a line for each sentence, no paragraphs, or wrapped lines.
    """
    chance = rng.random()
    if chance < LINES:
        sentences = [
            sentence._replace(gap=sentence.gap.replace(" ", "\n")) for sentence in sentences
        ]
    elif chance < RUNNING:
        sentences = [sentence._replace(gap=sentence.gap and " ") for sentence in sentences]
    text, labels = joined(sentences)
    if RUNNING < chance < WRAPPED:
        text = wrapped(text, int(rng.integers(50, 110)))
    return text, labels


def wrapped(text: str, width: int) -> str:
    """Replace spaces by line ends, so that lines have up to ``width`` characters if possible."""
    characters = list(text)
    start_of_line = 0
    last_space = 0
    for i, character in enumerate(text):
        if character == "\n":
            start_of_line = i + 1
        elif character == " ":
            if i - start_of_line > width and last_space > start_of_line:
                characters[last_space] = "\n"
                start_of_line = last_space + 1
            last_space = i
    return "".join(characters)


def conllu_of(
    text: str,
    sentences: Iterable[Spans],
    words_of: Mapping[str, Sequence[str]],
    first: int,
    offset: int | None,
) -> bytes:
    """Format tokens in a text as CoNLL-U, with ``# text``, SpaceAfter=No and multiword tokens.

    Parameters
    ----------
    text : str
    sentences : iterable of spans
    words_of : mapping from str to sequence of str
        Words of multiword tokens.
    first : int
        Number of the first sentence.
    offset : int or None
        Position of the text in a longer one, to write TokenRange to MISC; None does not write it.
    """
    lines = []
    end = 0
    for number, spans in enumerate(sentences, first):
        start, _ = spans[0]
        if text.count("\n", end, start) > 1:
            lines.append("# newpar")
        _, end = spans[-1]
        lines.append(f"# sent_id = {number}")
        lines.append(f"# text = {form_of(text, start, end)}")
        word = 1
        for low, high in spans:
            form = form_of(text, low, high)
            notes = []
            if high < len(text) and not text[high].isspace():
                notes.append(_NO_SPACE)
            if offset is not None:
                notes.append(f"TokenRange={offset + low}:{offset + high}")
            misc = "|".join(notes) or "_"
            words = words_of.get(form)
            if words:
                lines.append(_row(f"{word}-{word + len(words) - 1}", form, misc))
                lines += map(_row, count(word), words)
                word += len(words)
            else:
                lines.append(_row(word, form, misc))
                word += 1
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def form_of(text: str, start: int, end: int) -> str:
    """Return a part of a text with a single space for each whitespace."""
    return " ".join(text[start:end].split())


def _row(number: int | str, form: str, misc: str = "_") -> str:
    return f"{number}\t{form}{_EMPTY}\t{misc}"


def text_of(treebank: Treebank) -> str:
    """Return the raw text of a treebank; raise an InputError if it has none."""
    if not has_text(treebank):
        raise InputError(f"The treebank has {NO_TEXT}.")
    return joined(raw_sentences(treebank))[0]
