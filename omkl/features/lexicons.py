"""Lexicons: maps from words to clusters, entries of a gazetteer, or bins of vectors."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Self, TypeAlias

import numpy as np

from omkl.data.files import PathLike, text_lines
from omkl.data.treebank.strings import MISSING
from omkl.exceptions import DataFileError, InputError
from omkl.groups.templates.language import is_field
from omkl.persistence import pack_json, unpack_json

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
                f"The lexicon {name!r} must be a path or a dict of word to value, got {source!r:.80}."
            )
        known: dict[str, str] = {}
        place = f"The lexicon {name!r}"
        if isinstance(source, Mapping):
            entries: Iterable[tuple[str, Any, Any]] = ((place, *entry) for entry in source.items())
        else:  # the value of an invalid line is empty
            rows = ((number, *line.partition("\t")) for number, line in text_lines(source) if line)
            entries = (
                (f"{source}, line {n}", word, "" if "\t" in value else value)
                for n, word, _, value in rows
            )
        for where, word, value in entries:
            is_fit = (
                isinstance(word, str)
                and word
                and value is not None
                and value == value
                and str(value)
            )
            if not is_fit or known.setdefault(word, intern(str(value))) != str(value):
                error = InputError if isinstance(source, Mapping) else DataFileError
                raise error(
                    f"{where} must give each word one value, a string, got {value!r:.80} for {word!r:.80}."
                )
        if not known:
            raise InputError(f"The lexicon {name!r} holds no word: leave it out.")
        return cls(known)

    def values_of(self, strings: Sequence[str]) -> list[str]:
        """Look up the value of each word, else of its lower-case form, else ``_``."""
        get = self.values.get
        return [get(string) or get(string.lower(), MISSING) for string in strings]

    def widths(self) -> tuple[int | None, ...]:
        """Return the lengths of values as features: None for all, and :data:`WIDTH` if values share
        prefixes.
        """
        values = set(self.values.values()) - {MISSING}
        return (None, WIDTH) if len({value[:WIDTH] for value in values}) < len(values) else (None,)

    def __deepcopy__(self, memo: dict) -> Self:
        return self  # lexicons do not change, and cloned estimators share them


#: A lexicon as given by users, and lexicons by name.
LexiconSource: TypeAlias = Mapping[str, str] | PathLike | Lexicon
Lexicons: TypeAlias = Mapping[str, LexiconSource] | None


@lru_cache(2**14)  # several templates look up the same word
def value_of(lexicon: Lexicon, width: int | None, word: str) -> str | tuple[()]:
    """Return the first characters of the value of a word (None: all); an empty tuple, no feature,
    without a value.
    """
    (value,) = lexicon.values_of([word])
    return () if value == MISSING else value[:width]


def pack_lexicons(lexicons: Mapping[str, Lexicon]) -> dict[str, np.ndarray]:
    """Return lexicons as arrays for a model file."""
    return {f"lexicons/{name}": pack_json(own.values) for name, own in lexicons.items()}


def unpack_lexicons(names: Sequence[str], arrays: Mapping[str, np.ndarray]) -> dict[str, Lexicon]:
    """The inverse of :func:`pack_lexicons`."""
    return {name: Lexicon(unpack_json(arrays[f"lexicons/{name}"])) for name in names}


def as_lexicons(lexicons: Any, taken: Collection[str] = ()) -> dict[str, Lexicon]:
    """Convert a dict of paths, dicts or Lexicons to a dict of Lexicons, whose names are not
    ``taken`` by features.
    """
    if lexicons is None:
        return {}
    names = list(lexicons) if isinstance(lexicons, Mapping) else [lexicons]
    fit = [
        isinstance(own, str) and NAME.fullmatch(own) and own not in taken and not is_field(own)
        for own in names
    ]
    if unfit := [own for own, is_fit in zip(names, fit) if not is_fit]:
        accepted = "a dict whose names are letters and digits after a small letter, and no fields"
        raise InputError(f"lexicons must be {accepted}, got {unfit[0]!r:.80}.")
    return {name: Lexicon.of(source, name) for name, source in lexicons.items()}
