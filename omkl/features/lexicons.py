"""Lexicons: maps from words to clusters, entries of a gazetteer, or bins of vectors."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Self, TypeAlias

from omkl.data.files import PathLike, text_lines
from omkl.data.treebank.strings import MISSING
from omkl.exceptions import DataFileError, InputError
from omkl.groups.templates.language import is_field
from omkl.persistence import Arrays, pack_json, unpack_json

#: Pattern of names of lexicons.
NAME = re.compile(r"[a-z]\w*")
#: Length of the prefixes of values that are features of words.
WIDTH = 4


class Lexicon:
    """Map from words to strings, such as clusters, entries of a gazetteer, or bins of vectors.

    Parameters
    ----------
    values : dict of str to str
        The value of each word.
    """

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    @classmethod
    def of(cls, source: Mapping[str, str] | PathLike | Self, name: str) -> Self:
        """Read a lexicon from a dict, or from a file with ``word<TAB>value`` in each line."""
        if isinstance(source, cls):
            return source
        if not isinstance(source, (Mapping, str, os.PathLike)):
            raise InputError(
                f"The lexicon {name!r} must be a path or a dict of word to value, "
                f"got {source!r:.80}."
            )
        values: dict[str, str] = {}
        for place, word, value in _entries(source, name):
            text = str(value)
            is_word = isinstance(word, str) and bool(word)
            is_value = value is not None and value == value and bool(text)
            if not is_word or not is_value or values.setdefault(word, intern(text)) != text:
                error = InputError if isinstance(source, Mapping) else DataFileError
                raise error(
                    f"{place} must give each word one value, a string, "
                    f"got {value!r:.80} for {word!r:.80}."
                )
        if not values:
            raise InputError(f"The lexicon {name!r} holds no word: leave it out.")
        return cls(values)

    def values_of(self, strings: Sequence[str]) -> list[str]:
        """Look up the value of each word, else of its lower-case form, else ``_``."""
        get = self.values.get
        return [get(string) or get(string.lower(), MISSING) for string in strings]

    def widths(self) -> tuple[int | None, ...]:
        """Return the lengths of values as features: None for all, and :data:`WIDTH` for prefixes.

        Prefixes are features only if values share them.
        """
        values = set(self.values.values()) - {MISSING}
        prefixes = {value[:WIDTH] for value in values}
        if len(prefixes) < len(values):
            return (None, WIDTH)
        return (None,)

    def __deepcopy__(self, memo: dict) -> Self:
        return self  # lexicons do not change, and cloned estimators share them


#: A lexicon as given by users, and lexicons by name.
LexiconSource: TypeAlias = Mapping[str, str] | PathLike | Lexicon
Lexicons: TypeAlias = Mapping[str, LexiconSource] | None


def _entries(source: Mapping[str, str] | PathLike, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place for messages, the word and the value of each entry of a lexicon."""
    if isinstance(source, Mapping):
        place = f"The lexicon {name!r}"
        for word, value in source.items():
            yield place, word, value
        return
    for number, line in text_lines(source):
        if line:
            word, _, value = line.partition("\t")
            if "\t" in value:  # a line with more fields is refused like one without a value
                value = ""
            yield f"{source}, line {number}", word, value


@lru_cache(2**14)  # several templates look up the same word
def value_of(lexicon: Lexicon, width: int | None, word: str) -> str | tuple[()]:
    """Return the first ``width`` characters of the value of a word (None: all).

    A word without a value has no feature, an empty tuple.
    """
    (value,) = lexicon.values_of([word])
    return () if value == MISSING else value[:width]


def pack_lexicons(lexicons: Mapping[str, Lexicon]) -> Arrays:
    """Return lexicons as arrays for a model file."""
    return {f"lexicons/{name}": pack_json(lexicon.values) for name, lexicon in lexicons.items()}


def unpack_lexicons(names: Sequence[str], arrays: Arrays) -> dict[str, Lexicon]:
    """Read the arrays of :func:`pack_lexicons`."""
    return {name: Lexicon(unpack_json(arrays[f"lexicons/{name}"])) for name in names}


def as_lexicons(lexicons: Lexicons, reserved: Collection[str] = ()) -> dict[str, Lexicon]:
    """Convert a dict of paths, dicts or Lexicons to a dict of Lexicons.

    The names of lexicons must not be ``reserved``, for features.
    """
    if lexicons is None:
        return {}
    accepted = "a dict whose names are letters and digits after a small letter, and no fields"
    if not isinstance(lexicons, Mapping):
        raise InputError(f"lexicons must be {accepted}, got {lexicons!r:.80}.")
    for name in lexicons:
        if name in reserved or not NAME.fullmatch(str(name)) or is_field(name):
            raise InputError(f"lexicons must be {accepted}, got {name!r:.80}.")
    return {name: Lexicon.of(source, name) for name, source in lexicons.items()}
