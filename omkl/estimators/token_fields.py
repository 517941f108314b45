"""Fields of tokens: what templates look at, and the columns of a treebank that it is read from."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from omkl.data import Treebank
from omkl.data.strings import MISSING
from omkl.groups import TemplateSet
from omkl.groups.templates import KINSHIP, TREE_FIELDS, own_field

#: Strings that no field has: what templates see at the root, and outside of the sentence.
ROOT, OUTSIDE = "\troot", "\toutside"

#: What people call the columns of a treebank.
TITLES = {"forms": "FORM", "lemmas": "LEMMA", "upos": "UPOS", "xpos": "XPOS", "feats": "FEATS",
          "misc": "MISC"}  # fmt: skip
#: Columns that are empty by chance with a smaller probability are told to be missing.
CHANCE = 1e-6


@cache  # of fields of templates, which are few
def column_of(field: str) -> str:
    """The column of a treebank that a field of the template language is read from."""
    field = own_field(field)
    if field in (*TREE_FIELDS, KINSHIP):
        return "forms"  # trees are there wherever words are
    column = field.partition(":")[0]
    if column in ("upos", "xpos", "feats", "misc"):
        return column
    return "lemmas" if field == "lemma" else "feats" if field[0].isupper() else "forms"


def is_attribute(field: str) -> bool:
    """Whether a field is one of several attributes in its column."""
    return field[0].isupper() or field.startswith(("feats:", "misc:"))


def values_of(field: str, strings: Sequence[str], lexicons: Mapping[str, Any]) -> list[str]:
    """A field of tokens, from the strings in its column.

    Parameters
    ----------
    field : str
    strings : list of str
    lexicons : dict of str to Lexicon
        What lexicons there are, by name.
    """
    name, _, width = field.partition(":")
    if name not in lexicons:
        return list(map(reader_of(field), strings))
    values = lexicons[name].values_of(strings)
    return [value[: int(width)] for value in values] if width else values


def reader_of(field: str) -> Callable[[str], str]:
    """What reads a field of a token, of no lexicon, from the string in its column.

    >>> reader_of("suffix3")("parsing"), reader_of("Case")("Case=Nom|Number=Sing"), reader_of("misc:Gloss")("_")
    ('ing', 'Nom', '_')
    """
    if field == "lower":
        return str.lower
    if field.startswith("prefix"):
        return itemgetter(slice(int(field[-1])))
    if field.startswith("suffix"):
        return itemgetter(slice(-int(field[-1]), None))
    if is_attribute(field):
        wanted = field.rpartition(":")[2]
        return lambda string: attributes_of(string).get(wanted, MISSING)
    return str


@lru_cache(2**12)  # each string is asked for every attribute, and those of features are few
def attributes_of(string: str) -> dict[str, str]:
    """Names and values in a column of attributes; one without a value is its own, and the first of a name counts."""
    split = (attribute.partition("=") for attribute in reversed(string.split("|")))
    return {name: value or name for name, _, value in split}


@lru_cache(2**16)  # the words of one sentence after the other are mostly the same
def code_of(string: str) -> int:
    """64 bits that stand for a string, on every machine."""
    digest = hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def present_codes(codes: np.ndarray) -> list[int]:
    """The different codes of a column, in order."""
    if len(codes) < 1000:  # those of a sentence among the codes of a whole language
        return np.unique(codes).tolist()
    return np.flatnonzero(np.bincount(codes, minlength=1)).tolist()


def absent_fields(treebank: Treebank, templates: TemplateSet, by_column: bool = False) -> dict[str, str]:
    """The fields that no word of a treebank has, and what each is called in a message: those of empty columns first.

    Parameters
    ----------
    treebank : omkl.data.Treebank
    templates : TemplateSet
        For its fields.
    by_column : bool
        Whether an attribute, or an entry in a lexicon, that no word has counts as present where its column is.
    """
    columns, attributes = {}, {}
    for field in templates.fields:
        column = column_of(field)
        codes = getattr(treebank, column)
        if not codes.any():
            columns[field] = TITLES[column]
        elif not by_column and (is_attribute(field) or field.partition(":")[0] in templates.lexicons):
            strings = treebank.strings[column].tolist()
            own = [strings[code] for code in present_codes(codes)]
            if all(value == MISSING for value in values_of(field, own, templates.lexicons)):
                attributes[field] = field
    return {**columns, **attributes}


def are_copies(treebank: Treebank, a: str, b: str) -> bool:
    """Whether two columns hold the same string for each word."""
    codes = treebank.strings[b].codes(treebank.strings[a].tolist())
    return bool((codes[getattr(treebank, a)] == getattr(treebank, b)).all())


def empty_shares(treebank: Treebank, fields: Iterable[str]) -> dict[str, float]:
    """The share of words, in [0, 1], for which each column that the fields are read from is empty."""
    columns = sorted({column_of(field) for field in fields})
    return {column: 1 - np.count_nonzero(getattr(treebank, column)) / treebank.n_words for column in columns}


def lacking_columns(treebank: Treebank, empty: dict[str, float]) -> list[str]:
    """What the columns are called that are empty in a treebank, but by the shares ``empty`` of words are not by
    chance."""
    return [
        TITLES[column] for column, share in empty.items()
        if share**treebank.n_words < CHANCE and not getattr(treebank, column).any()
    ]  # fmt: skip
