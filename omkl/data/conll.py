"""Treebanks in CoNLL-U."""

from dataclasses import dataclass, field

from omkl.data.files import open_text
from omkl.exceptions import DataFileError

N_COLUMNS = 10


@dataclass
class Sentence:
    """A sentence of n words, column by column; multiword tokens and empty nodes are left out."""

    forms: list = field(default_factory=list)
    lemmas: list = field(default_factory=list)
    upos: list = field(default_factory=list)
    xpos: list = field(default_factory=list)
    feats: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    deprels: list = field(default_factory=list)

    def __len__(self):
        return len(self.forms)


def read_conllu(path):
    """Read a treebank, sentence by sentence.

    Parameters
    ----------
    path : path-like
        A CoNLL-U file, plain or compressed (``.gz``, ``.xz``).

    Yields
    ------
    Sentence

    Raises
    ------
    omkl.exceptions.DataFileError
        At a line with the wrong number of columns, a word out of order, or a head that is not a number; if there is
        no sentence at all. The message names file and line.
    """
    sentence = Sentence()
    found = False
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line:
                if len(sentence):
                    found = True
                    yield sentence
                    sentence = Sentence()
            elif not line.startswith("#"):
                _add_word(sentence, line.split("\t"), f"{path}, line {number}")
    if len(sentence):
        yield sentence
    elif not found:
        raise DataFileError(f"{path} holds no sentence.")


def _add_word(sentence, columns, where):
    if len(columns) != N_COLUMNS:
        raise DataFileError(f"{where}: {len(columns)} columns, but CoNLL-U has {N_COLUMNS}, separated by tabs.")
    identifier, form, lemma, upos, xpos, feats, head, deprel = columns[:8]
    if "-" in identifier or "." in identifier:
        return
    if identifier != str(len(sentence) + 1):
        raise DataFileError(f"{where}: word {identifier!r} where word {len(sentence) + 1} was expected.")
    if head != "_" and not head.isdigit():
        raise DataFileError(f"{where}: the head {head!r} is not the number of a word.")
    sentence.forms.append(form)
    sentence.lemmas.append(lemma)
    sentence.upos.append(upos)
    sentence.xpos.append(xpos)
    sentence.feats.append(feats)
    sentence.heads.append(None if head == "_" else int(head))
    sentence.deprels.append(deprel)


def tagging_features(forms):
    """Features of part-of-speech tagging, 20 templates a word: what it looks like, and its neighbours.

    Parameters
    ----------
    forms : list of str
        The words of a sentence.

    Returns
    -------
    list of dict
        For each word, strings and booleans by the name of the template, as :class:`~omkl.SequenceLabeler` takes them.

    >>> tagging_features(["No", "way"])[1]["prev"]
    'no'
    """
    lower = ["<s2>", "<s1>", *(form.lower() for form in forms), "</s1>", "</s2>"]
    return [
        {
            "bias": True,
            "word": form,
            "lower": lower[i + 2],
            "suffix1": form[-1:],
            "suffix2": form[-2:],
            "suffix3": form[-3:],
            "suffix4": form[-4:],
            "prefix1": form[:1],
            "prefix2": form[:2],
            "prefix3": form[:3],
            "shape": _shape(form),
            "is_capital": form[:1].isupper(),
            "is_upper": form.isupper(),
            "has_digit": any(map(str.isdigit, form)),
            "has_hyphen": "-" in form,
            "prev": lower[i + 1],
            "prev2": lower[i],
            "next": lower[i + 3],
            "next2": lower[i + 4],
            "prev_suffix3": lower[i + 1][-3:],
            "next_suffix3": lower[i + 3][-3:],
        }
        for i, form in enumerate(forms)
    ]


def _shape(form):
    """Kinds of characters, runs shortened to two: ``Xxd`` for ``McDonald's9``-like words."""
    kinds = ("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in form)
    shape = ""
    for kind in kinds:
        if shape[-2:] != kind * 2:
            shape += kind
    return shape
