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
    return "lemmas" if field == "lemma" else "feats" if field[0].isupper() else "forms"


def is_attribute(field: str) -> bool:
    """Check whether a field is an attribute in FEATS or MISC."""
    return field[0].isupper() or field.startswith(("feats:", "misc:"))


def values_of(field: str, strings: Sequence[str], lexicons: Mapping[str, Lexicon]) -> list[str]:
    """Compute the values of a field from the strings in its column."""
    name, _, width = field.partition(":")
    if name not in lexicons:
        return list(map(reader_of(field), strings))
    values = lexicons[name].values_of(strings)
    return [value[: int(width)] for value in values] if width else values


def reader_of(field: str) -> Callable[[str], str]:
    """Return a function from the string in a column to the value of a field; not for fields of
    lexicons.

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


@lru_cache(2**12)  # few strings, each parsed for every attribute
def attributes_of(string: str) -> dict[str, str]:
    """Parse the attributes in FEATS or MISC; the value of an attribute without a value is its name."""
    split = (attribute.partition("=") for attribute in reversed(string.split("|")))
    return {name: value or name for name, _, value in split}


@lru_cache(2**16)  # most words are frequent
def code_of(string: str) -> int:
    """Return a 64-bit hash of a string, the same on every machine."""
    digest = hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@cache
def by_column(fields: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Group fields by column, without their relatives; fields of trees are left out."""
    grouped: dict[str, tuple[str, ...]] = {}
    for field in dict.fromkeys(map(own_field, fields)):
        if field != VALENCY:
            grouped[column_of(field)] = (*grouped.get(column_of(field), ()), field)
    return grouped


def own_codes(treebank: Treebank, templates: TemplateSet) -> Callable[[str], np.ndarray]:
    """Return a function that encodes a field of all words from columns and lexicons, without fields
    of trees.
    """
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for column, fields in by_column(tuple(templates.fields)).items():
        present, places = np.unique(treebank.codes(column), return_inverse=True)
        strings = treebank.strings[column].tolist()
        own = [strings[code] for code in present.tolist()]
        for field in fields:
            values = values_of(field, own, templates.lexicons)
            found[field] = np.array(list(map(code_of, values)), np.uint64), places

    def codes(field: str) -> np.ndarray:
        hashes, places = found[field]
        return hashes[places]

    return codes


def absent_fields(
    treebank: Treebank, templates: TemplateSet, by_column: bool = False
) -> dict[str, str]:
    """Return fields that no word of a treebank has, with names for messages; fields of empty
    columns first.
    """
    columns, attributes = {}, {}
    for field in templates.fields:
        column = column_of(field)
        codes = treebank.codes(column)
        if not codes.any():
            columns[field] = TITLES[column]
        elif not by_column and (
            is_attribute(field) or field.partition(":")[0] in templates.lexicons
        ):
            strings = treebank.strings[column].tolist()
            own = [strings[code] for code in np.flatnonzero(np.bincount(codes)).tolist()]
            if all(value == MISSING for value in values_of(field, own, templates.lexicons)):
                attributes[field] = field
    return {**columns, **attributes}


def are_copies(treebank: Treebank, a: str, b: str) -> bool:
    """Check whether two columns are equal for all words."""
    codes = treebank.strings[b].codes(treebank.strings[a].tolist())
    return bool((codes[treebank.codes(a)] == treebank.codes(b)).all())


def empty_shares(treebank: Treebank, fields: Iterable[str]) -> dict[str, float]:
    """Return the fraction of words, in [0, 1], without a value in each column used by fields."""
    columns = sorted({column_of(field) for field in fields})
    return {
        column: 1 - np.count_nonzero(treebank.codes(column)) / treebank.n_words
        for column in columns
    }


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
        n, words = len(heads), np.arange(len(heads))
        starts = np.repeat(offsets[:-1], np.diff(offsets))
        parents = np.where(heads > 0, starts + heads - 1, AT_ROOT)
        left, right = words[words < parents], words[(words > parents) & (parents >= 0)]
        self._children = [
            np.bincount(parents[side], minlength=n).clip(max=MOST_CHILDREN)
            for side in (left, right)
        ]
        # index of each relative, or AT_ROOT or NO_RELATIVE
        leftmost, rightmost, before, after = np.full((4, n), NO_RELATIVE)
        leftmost[parents[left[::-1]]] = left[::-1]  # the last assignment wins
        rightmost[parents[right]] = right
        order = np.lexsort((words, np.where(parents < 0, -1 - starts, parents)))
        one, other = order[:-1], order[1:]
        siblings = (parents[one] == parents[other]) & (starts[one] == starts[other])
        before[other[siblings]], after[one[siblings]] = one[siblings], other[siblings]
        self._relatives = dict(zip(RELATIVES, (parents, leftmost, rightmost, before, after)))

    def codes(self, field: str, own: Callable[[str], np.ndarray]) -> np.ndarray:
        """Return hashes of the values of a field, (number of words,) uint64."""
        relative, _, rest = field.partition("_")
        if relative in RELATIVES and rest:
            return self._codes_of_relatives(relative, self.codes(rest, own))
        if field == VALENCY:
            names = [code_of(f"\t{n} children") for n in range((MOST_CHILDREN + 1) ** 2)]
            left, right = self._children
            return np.array(names, np.uint64)[left * (MOST_CHILDREN + 1) + right]
        return own(field)

    def _codes_of_relatives(self, relative: str, codes: np.ndarray) -> np.ndarray:
        """Return for each word the code of its relative, among the ``codes`` of all words, (n,)
        uint64.
        """
        relatives = self._relatives[relative]
        found = np.full(len(relatives), code_of(OUTSIDE), np.uint64)
        found[relatives == AT_ROOT] = code_of(ROOT)
        has_relative = relatives >= 0
        found[has_relative] = codes[relatives[has_relative]]
        return found
