"""Fields of words for templates, from columns of treebanks, lexicons and trees."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import itemgetter

import numpy as np

from omkl.data import Treebank
from omkl.data.treebank.strings import MISSING
from omkl.features.lexicons import Lexicon
from omkl.features.vocabulary import CHANCE
from omkl.groups.templates.language import RELATIVES, VALENCY, TemplateSet, own_field

#: Values of all fields at the root and outside of the sentence, which no word has.
ROOT, OUTSIDE = "\troot", "\toutside"

#: Names of the columns of a treebank in messages.
TITLES = {
    "forms": "FORM",
    "lemmas": "LEMMA",
    "upos": "UPOS",
    "xpos": "XPOS",
    "feats": "FEATS",
    "misc": "MISC",
}
#: Maximum of counts of children on either side.
MOST_CHILDREN = 3
#: Relatives that are no word: the root, and no relative at all.
AT_ROOT, NO_RELATIVE = -1, -2


@cache  # there are few different fields
def column_of(field: str) -> str:
    """Return the column of a treebank from which a field of the template language is computed."""
    field = own_field(field)
    if field == VALENCY:
        return "forms"  # trees exist for all words
    column = field.partition(":")[0]
    if column in ("upos", "xpos", "feats", "misc"):
        return column
    if field == "lemma":
        return "lemmas"
    if field[0].isupper():
        return "feats"
    return "forms"


def is_attribute(field: str) -> bool:
    """Check whether a field is an attribute in FEATS or MISC."""
    return field[0].isupper() or field.startswith(("feats:", "misc:"))


def values_of(field: str, strings: Sequence[str], lexicons: Mapping[str, Lexicon]) -> list[str]:
    """Compute the values of a field from the strings in its column."""
    name, _, width = field.partition(":")
    if name not in lexicons:
        return list(map(reader_of(field), strings))
    values = lexicons[name].values_of(strings)
    if width:
        values = [value[: int(width)] for value in values]
    return values


def reader_of(field: str) -> Callable[[str], str]:
    """Return a function from the string in a column to the value of a field.

    Fields of lexicons have no such function.

    >>> reader_of("suffix3")("parsing"), reader_of("Case")("Case=Nom|Number=Sing")
    ('ing', 'Nom')
    >>> reader_of("misc:Gloss")("_")
    '_'
    """
    if field == "lower":
        return str.lower
    if field.startswith("prefix"):
        return itemgetter(slice(int(field[-1])))
    if field.startswith("suffix"):
        return itemgetter(slice(-int(field[-1]), None))
    if is_attribute(field):
        name = field.rpartition(":")[2]
        return lambda string: attributes_of(string).get(name, MISSING)
    return str


@lru_cache(2**12)  # few strings, each parsed for every attribute
def attributes_of(string: str) -> dict[str, str]:
    """Parse the attributes in FEATS or MISC.

    The value of an attribute without a value is its name. Of equal names, the first one counts.
    """
    attributes = {}
    for attribute in reversed(string.split("|")):
        name, _, value = attribute.partition("=")
        attributes[name] = value or name
    return attributes


@lru_cache(2**16)  # most words are frequent
def code_of(string: str) -> int:
    """Return a 64-bit hash of a string, the same on every machine."""
    digest = hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def strings_with_codes(treebank: Treebank, column: str, codes: np.ndarray) -> list[str]:
    """Return the strings of a column that have these codes."""
    strings = treebank.strings[column].tolist()
    return [strings[code] for code in codes.tolist()]


class WordFields:
    """Fields of words that do not need trees: columns, and values of lexicons."""

    def __init__(self, treebank: Treebank, templates: TemplateSet) -> None:
        #: Hashes of the values of each field, one for each string of its column.
        self._hashes: dict[str, np.ndarray] = {}
        #: For each word, the index of its string in these hashes, by column.
        self._indices: dict[str, np.ndarray] = {}
        strings: dict[str, list[str]] = {}
        for field in set(map(own_field, templates.fields)) - {VALENCY}:
            column = column_of(field)
            if column not in strings:
                codes, self._indices[column] = np.unique(
                    treebank.codes(column), return_inverse=True
                )
                strings[column] = strings_with_codes(treebank, column, codes)
            values = values_of(field, strings[column], templates.lexicons)
            self._hashes[field] = np.array(list(map(code_of, values)), np.uint64)

    def codes(self, field: str) -> np.ndarray:
        """Return hashes of the values of a field, (number of words,) uint64."""
        return self._hashes[field][self._indices[column_of(field)]]


def absent_fields(
    treebank: Treebank, templates: TemplateSet, only_columns: bool = False
) -> dict[str, str]:
    """Return fields without a value for any word of a treebank, with names for messages.

    Fields of empty columns come first; with ``only_columns``, they are all.
    """
    in_empty_columns = {}
    without_values = {}
    for field in templates.fields:
        column = column_of(field)
        codes = treebank.codes(column)
        is_looked_up = is_attribute(field) or field.partition(":")[0] in templates.lexicons
        if not codes.any():
            in_empty_columns[field] = TITLES[column]
        elif is_looked_up and not only_columns:
            strings = strings_with_codes(treebank, column, np.flatnonzero(np.bincount(codes)))
            if set(values_of(field, strings, templates.lexicons)) == {MISSING}:
                without_values[field] = field
    return in_empty_columns | without_values


def have_equal_tags(treebank: Treebank) -> bool:
    """Check whether XPOS and UPOS are equal for all words."""
    codes_in_upos = treebank.strings["upos"].codes(treebank.strings["xpos"].tolist())
    return bool((codes_in_upos[treebank.xpos] == treebank.upos).all())


def empty_shares(treebank: Treebank, fields: Iterable[str]) -> dict[str, float]:
    """Return the fraction of words, in [0, 1], without a value in each column used by fields."""
    shares: dict[str, float] = {}
    for column in sorted(set(map(column_of, fields))):
        shares[column] = 1 - np.count_nonzero(treebank.codes(column)) / treebank.n_words
    return shares


def lacking_columns(treebank: Treebank, empty: dict[str, float]) -> list[str]:
    """Return the names of columns that are empty in a treebank, but not in training."""
    expected = (column for column, share in empty.items() if share**treebank.n_words < CHANCE)
    return [TITLES[column] for column in expected if not treebank.codes(column).any()]


class TreeFields:
    """Fields of the relatives of words in trees.

    ``valency`` is the number of children of a word on either side (up to three). ``parent_FIELD``,
    ``leftmost_FIELD``, ``rightmost_FIELD``, ``before_FIELD`` and ``after_FIELD`` are fields of its
    head, of its outermost children, and of its adjacent siblings. Words without a head count as
    children of the root.

    Parameters
    ----------
    offsets : int array of shape (number of sentences + 1,)
    heads : int array of shape (number of words,)
    """

    def __init__(self, offsets: np.ndarray, heads: np.ndarray) -> None:
        n_words = len(heads)
        words = np.arange(n_words)
        starts = np.repeat(offsets[:-1], np.diff(offsets))
        parents = np.where(heads > 0, starts + heads - 1, AT_ROOT)
        left_children = words[words < parents]
        right_children = words[(words > parents) & (parents >= 0)]
        self._n_children = [
            np.bincount(parents[children], minlength=n_words).clip(max=MOST_CHILDREN)
            for children in (left_children, right_children)
        ]
        # index of each relative, or AT_ROOT or NO_RELATIVE
        leftmost, rightmost, before, after = np.full((4, n_words), NO_RELATIVE)
        leftmost[parents[left_children[::-1]]] = left_children[::-1]  # the last assignment wins
        rightmost[parents[right_children]] = right_children
        families = np.where(parents < 0, -1 - starts, parents)
        order = np.lexsort((words, families))
        first, second = order[:-1], order[1:]
        are_siblings = families[first] == families[second]
        before[second[are_siblings]] = first[are_siblings]
        after[first[are_siblings]] = second[are_siblings]
        self._relatives = dict(zip(RELATIVES, (parents, leftmost, rightmost, before, after)))

    def codes(self, field: str, codes_of_words: Callable[[str], np.ndarray]) -> np.ndarray:
        """Return hashes of the values of a field, (number of words,) uint64.

        ``codes_of_words`` returns those of a field that is not of trees.
        """
        relative, _, field_of_relative = field.partition("_")
        if relative in RELATIVES and field_of_relative:
            relatives = self._relatives[relative]
            codes = np.full(len(relatives), code_of(OUTSIDE), np.uint64)
            codes[relatives == AT_ROOT] = code_of(ROOT)
            has_relative = relatives >= 0
            codes_of_all = self.codes(field_of_relative, codes_of_words)
            codes[has_relative] = codes_of_all[relatives[has_relative]]
            return codes
        if field == VALENCY:
            names = [code_of(f"\t{n} children") for n in range((MOST_CHILDREN + 1) ** 2)]
            n_left, n_right = self._n_children
            return np.array(names, np.uint64)[n_left * (MOST_CHILDREN + 1) + n_right]
        return codes_of_words(field)
