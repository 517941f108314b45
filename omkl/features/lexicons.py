"""Lexicons: what is known of words beside the treebank, such as clusters, entries of a gazetteer or bins of vectors."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from omkl.data import Strings
from omkl.data.files import text_lines
from omkl.exceptions import DataFileError, InputError
from omkl.groups.templates.language import TemplateSet, is_field

#: What a lexicon may be called.
_NAME = re.compile(r"[a-z]\w*")


class Lexicon:
    """A string for each of some words.

    Parameters
    ----------
    words, values : omkl.data.Strings
    codes : int32 array (len(words),)
        Code of each word's value, 0 for none.
    """

    def __init__(self, words: Strings, values: Strings, codes: np.ndarray) -> None:
        self.words = words
        self.values = values
        self.codes = codes

    @classmethod
    def of(cls, source: Any, name: str) -> "Lexicon":
        """A lexicon of a dict of word to value, of a file with ``word<TAB>value`` in each line, or itself."""
        if isinstance(source, Lexicon):
            return source
        if isinstance(source, Mapping):
            for word, value in source.items():
                is_missing = value is None or not str(value) or (not isinstance(value, str) and value != value)
                if is_missing or not isinstance(word, str) or not word:
                    raise InputError(
                        f"The lexicon {name!r} gives {word!r} the value {value!r}: words are strings, and each has one."
                    )
            entries = [(word, str(value), f"The lexicon {name!r}") for word, value in source.items()]
        elif isinstance(source, (str, os.PathLike)):
            entries = list(_read(source))
        else:
            raise InputError(f"The lexicon {name!r} must be a path or a dict of word to value, not {source!r:.80}.")
        if not entries:
            raise InputError(f"The lexicon {name!r} holds no word: leave it out.")
        words, values = Strings(), Strings()
        of_words, of_values = (
            table.codes([entry[column] for entry in entries], grow=True) for column, table in enumerate((words, values))
        )
        codes = np.zeros(len(words), np.int32)
        codes[of_words] = of_values
        wrong = np.flatnonzero(codes[of_words] != of_values)
        if len(wrong):
            word, value, where = entries[wrong[0]]
            raise InputError(f"{where} gives {word!r} the value {value!r}, and another one later: keep one.")
        return cls(words, values, codes)

    def values_of(self, strings: Sequence[str]) -> list[str]:
        """The value of each word, of its lower-case form where it is not in the lexicon itself, or ``_``."""
        found = self.words.codes(strings)
        found = np.where(found < 0, self.words.codes([string.lower() for string in strings]), found)
        values = self.values.tolist()
        return [values[code] for code in np.where(found < 0, 0, self.codes[found]).tolist()]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays for :meth:`restored`: words and values in UTF-8, their ends, and codes."""
        tables = {"words": self.words, "values": self.values}
        found = {name: table.to_bytes() for name, table in tables.items()}
        return {
            "codes": self.codes,
            **{name: text for name, (text, _) in found.items()},
            **{f"{name}_offsets": offsets for name, (_, offsets) in found.items()},
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> "Lexicon":
        """The inverse of :meth:`arrays`."""
        words, values = Strings(), Strings()
        for name, table in (("words", words), ("values", values)):
            offsets = arrays[f"{name}_offsets"]
            table.intern(arrays[name], offsets[:-1].astype(np.int32), np.diff(offsets).astype(np.int32))
        return cls(words, values, arrays["codes"])


def _read(path: Any) -> Iterator[tuple[str, str, str]]:
    """Word, value and place of each line of a file."""
    for number, line in text_lines(path):
        word, _, value = line.partition("\t")
        if not line:
            continue
        if not word or not value or "\t" in value:
            raise DataFileError(
                f"{path}, line {number}: a lexicon has a word, a tab and its value in each line, not {line!r:.80}."
            )
        yield word, value, f"{path}, line {number}"


def as_lexicons(lexicons: Any) -> dict[str, Lexicon]:
    """Lexicons by name, from paths, dicts or themselves; None is none."""
    if lexicons is None:
        return {}
    if not isinstance(lexicons, Mapping):
        raise InputError(f"lexicons must be a dict of name to path or dict, not {lexicons!r}.")
    for name in lexicons:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                f"The name of a lexicon is of letters and digits and begins with a small one, not {name!r}."
            )
        if is_field(name):
            raise InputError(f"There is a field {name!r} already: give the lexicon another name.")
    return {name: Lexicon.of(source, name) for name, source in lexicons.items()}


def check_use(templates: TemplateSet) -> None:
    """Raise if no template looks at one of its lexicons."""
    unused = set(templates.lexicons) - templates.looked_up
    if unused:
        name = min(unused)
        raise InputError(f"No template looks at the lexicon {name!r}: write h.{name} or m.{name}, or leave it out.")
