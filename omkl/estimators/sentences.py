"""Sentences from what people have: lists of words, tokens of the library conllu, documents of spaCy."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omkl.data import Sentence
from omkl.data.strings import MISSING
from omkl.data.treebank_formats import COLUMNS
from omkl.exceptions import InputError

#: What is said where something is no sentence.
WANTED = "give lists of words, one for each sentence, Sentence objects, TokenLists of conllu or Docs of spaCy"
#: What the columns of a sentence are called in the tokens of conllu; those after the first are older names.
KEYS = {
    "forms": ("form",), "lemmas": ("lemma",), "upos": ("upos", "upostag"), "xpos": ("xpos", "xpostag"),
    "feats": ("feats",), "heads": ("head",), "deprels": ("deprel",), "misc": ("misc",),
}  # fmt: skip


def as_sentences(X: Any) -> list[Sentence]:
    """Sentences of one or several of the kinds that :data:`WANTED` names.

    Multiword tokens and empty nodes of conllu, and tokens of spaCy that are white space, are left out; the trees of
    spaCy are not read. A document without sentence boundaries is one sentence.

    Raises
    ------
    omkl.exceptions.InputError
        If it is something else, or nested in another way; the message names the sentence, counted from 1.
    """
    if isinstance(X, Sentence) or _is_document(X) or _is_token_list(X):
        X = [X]
    if not isinstance(X, Iterable) or isinstance(X, (str, bytes, Mapping)):
        raise InputError(f"{_shown(X)} holds no sentences: {WANTED}.")
    return [sentence for number, item in enumerate(X, 1) for sentence in _sentences_in(item, number)]


def _sentences_in(item: Any, number: int) -> Iterable[Sentence]:
    if isinstance(item, Sentence):
        return [item]
    if _is_document(item):
        return _of_document(item)
    if not isinstance(item, Iterable) or isinstance(item, (str, bytes, Mapping)):
        raise InputError(f"Sentence {number} is {_shown(item)}: {WANTED}.")
    words = list(item)
    if _is_token_list(words):
        return [_of_tokens(words, number)]
    if words and isinstance(words[0], Sentence):
        raise InputError(f"Item {number} of the sentences is several sentences: give all in one list, or one treebank.")
    wrong = [word for word in words if not isinstance(word, str)]
    if wrong:
        raise InputError(f"Sentence {number} has {_shown(wrong[0])} in the place of a word: {WANTED}.")
    return [Sentence(forms=words)]


def _shown(value: Any) -> str:
    """A value in a message, cut to a few words."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else f'{text[:39]}…'}"


def _is_document(value: Any) -> bool:
    return hasattr(value, "sents") and hasattr(value, "has_annotation")


def _is_token_list(value: Any) -> bool:
    """Whether these are tokens, each a dict."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _of_tokens(tokens: list, number: int) -> Sentence:
    """A sentence of tokens that are dicts with the keys of conllu."""
    wrong = [token for token in tokens if not isinstance(token, Mapping) or "form" not in token]
    if wrong:
        raise InputError(f"Sentence {number} has {_shown(wrong[0])} in the place of a token: give each a form.")
    # words are numbered, multiword tokens and empty nodes have (1, "-", 2) and (1, ".", 1)
    words = [token for token in tokens if not isinstance(token.get("id"), (tuple, list))]
    columns = {}
    for column in COLUMNS:
        values = [next((word[key] for key in KEYS[column] if key in word), None) for word in words]
        columns[column] = values if column == "heads" else [_joined(value) for value in values]
    return Sentence(**columns)


def _joined(value: Any) -> Any:
    """A dict of attributes as a string; anything else as it is."""
    if not isinstance(value, Mapping):
        return value or MISSING
    return "|".join(f"{name}={own}" if own else name for name, own in value.items()) or MISSING


def _of_document(document: Any) -> Iterator[Sentence]:
    """The sentences of a document of spaCy."""
    for span in document.sents if document.has_annotation("SENT_START") else [document]:
        words = [token for token in span if not token.is_space]
        if words:
            yield Sentence(
                forms=[word.text for word in words],
                lemmas=[word.lemma_ or MISSING for word in words],
                upos=[word.pos_ or MISSING for word in words],
                xpos=[word.tag_ or MISSING for word in words],
                feats=[str(word.morph) or MISSING for word in words],
                misc=[MISSING if word.whitespace_ else "SpaceAfter=No" for word in words],
            )
