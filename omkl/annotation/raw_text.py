"""Raw text of treebanks: alignment with tokens, joining to documents, and CoNLL-U of tokens in a
text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
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
#: Start and end of each token of a sentence in its text.
Spans: TypeAlias = list[tuple[int, int]]
#: The end of errors about treebanks without raw text.
NO_TEXT = "no raw text, which is in comments # text or in SpaceAfter=No of CoNLL-U"
_NO_SPACE, _EMPTY = "SpaceAfter=No", "\t_" * 7


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
    tokens: list[tuple[str, list[str]]]
    spans: Spans
    gap: str


def has_text(treebank: Treebank) -> bool:
    """Tell whether a treebank is CoNLL-U with comments ``# text`` or SpaceAfter=No, which tell what
    raw text was.
    """
    if treebank.text is None:
        return any(_NO_SPACE in misc for misc in treebank.strings["misc"])
    return (
        treebank.format == "conllu"
        and re.search(rb"^# *text *=|SpaceAfter=No", treebank.text, re.M) is not None
    )


def raw_sentences(treebank: Treebank) -> Iterator[RawSentence]:
    """Yield the sentences of a treebank in CoNLL-U with their raw text.

    Without ``# text``, or if it differs from the forms, the text follows from the forms and
    SpaceAfter=No.
    """
    gap, close = "", " "
    comments: list[str] = []
    rows: list[list[str]] = []
    for line in as_text(treebank).decode().split("\n"):
        line = line.rstrip("\r")
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line:
            rows.append(line.split("\t"))
        elif rows:
            if any(re.match("# *new(par|doc)", comment) for comment in comments):
                close = PARAGRAPH
            tokens, spaced, last = (
                list[tuple[str, list[str]]](),
                [],
                0,
            )  # last word of the latest multiword token
            for number, form, *others in rows:
                if number.isdigit() and int(number) <= last:
                    tokens[-1][1].append(form)
                elif "." not in number:
                    last = int(number.split("-")[1]) if "-" in number else last
                    tokens.append((form, []))
                    spaced.append(_NO_SPACE not in others[-1].split("|"))
            text = next(
                (m[1] for m in map(re.compile("# *text *= *(.*)").match, comments) if m), ""
            ).strip()
            spans = _aligned(text, [form for form, _ in tokens])
            if spans is None:
                text = "".join(
                    form + " " * space for (form, _), space in zip(tokens, spaced)
                ).rstrip()
                spans = _aligned(text, [form for form, _ in tokens]) or []
            yield RawSentence(text, tokens, spans, gap and close)
            gap, close = " ", " " if spaced[-1] else ""
            comments, rows = [], []


def _aligned(text: str, forms: Iterable[str]) -> Spans | None:
    """Find the forms in a text, whose whitespace may differ; None if other characters differ."""
    places = [*(i for i, character in enumerate(text) if not character.isspace()), len(text)]
    dense = ["".join(form.split()) for form in forms]
    if "".join(dense) != "".join(text.split()):
        return None
    bounds = pairwise(accumulate(map(len, dense), initial=0))
    # a no-break space can be a form, and is nowhere
    return [
        (places[low], places[high - 1] + 1 if low < high else places[low]) for low, high in bounds
    ]


def joined(sentences: Iterable[RawSentence]) -> tuple[str, np.ndarray]:
    """Join sentences with the whitespace of the treebank; return the text, and a label for each
    character.
    """
    texts, labels = [], [np.zeros(0, np.int8)]
    for sentence in sentences:
        texts += [sentence.gap, sentence.text]
        own = np.zeros(len(sentence.gap) + len(sentence.text), np.int8)
        ends = np.array([end for _, end in sentence.spans], np.int64) + len(sentence.gap) - 1
        own[ends], own[ends[-1:]] = TOKEN_END, SENTENCE_END
        labels.append(own)
    return "".join(texts), np.concatenate(labels)


def varied(sentences: Sequence[RawSentence], rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Join sentences as :func:`joined`, or at random with a line for each, without paragraphs, or
    in wrapped lines.
    """
    chance = rng.random()
    if chance < LINES:
        sentences = [own._replace(gap="\n") if own.gap == " " else own for own in sentences]
    elif chance < RUNNING:
        sentences = [own._replace(gap=" ") if own.gap else own for own in sentences]
    text, labels = joined(sentences)
    return (
        wrapped(text, int(rng.integers(50, 110))) if RUNNING < chance < WRAPPED else text
    ), labels


def wrapped(text: str, width: int) -> str:
    """Replace spaces by line ends, so that lines have up to ``width`` characters if possible."""
    lines = list(text)
    start = last = 0
    for i, character in enumerate(text):
        if character == "\n":
            start = i + 1
        elif character == " ":
            if i - start > width and last > start:
                lines[last], start = "\n", last + 1
            last = i
    return "".join(lines)


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
    lines, before = [], 0
    for number, spans in enumerate(sentences, first):
        start, end = spans[0][0], spans[-1][1]
        lines += ["# newpar"] * (text.count("\n", before, start) > 1)
        lines += [f"# sent_id = {number}", f"# text = {' '.join(text[start:end].split())}"]
        word, before = 1, end
        for low, high in spans:
            form = " ".join(text[low:high].split())
            notes = [_NO_SPACE] if high < len(text) and not text[high].isspace() else []
            notes += [] if offset is None else [f"TokenRange={offset + low}:{offset + high}"]
            misc, words = "|".join(notes) or "_", words_of.get(form)
            if words:
                lines.append(_row(f"{word}-{word + len(words) - 1}", form, misc))
                lines += [_row(i, own) for i, own in enumerate(words, word)]
            else:
                lines.append(_row(word, form, misc))
            word += len(words) if words else 1
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def _row(number: int | str, form: str, misc: str = "_") -> str:
    return f"{number}\t{form}{_EMPTY}\t{misc}"


def text_of(treebank: Treebank) -> str:
    """Return the raw text of a treebank; raise an InputError if it has none."""
    if not has_text(treebank):
        raise InputError(f"The treebank has {NO_TEXT}.")
    return joined(raw_sentences(treebank))[0]
