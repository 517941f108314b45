"""Tokens that are columns of text, as templates of CRF++ look at them and their neighbours."""

import os
import reprlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from omkl.data import AttributeTemplate, read_attribute_templates, templated
from omkl.data.attribute_templates import MACRO, parse_attribute_templates
from omkl.exceptions import InputError


class TokenTemplates:
    """Templates, and what they make of tokens.

    Parameters
    ----------
    given : path-like, or sequence of str or of pairs (name, text)
        A template file of CRF++, its lines, or templates as :attr:`pairs` has them.
    columns : list of str, optional
        What columns are called where tokens are dicts; by default what the first one says.

    Attributes
    ----------
    pairs : list of [str, str]
        Name and text of each template, as a model file holds them.
    columns : list of str or None
        None until a token is a dict.
    """

    def __init__(self, given: Any, columns: Sequence[str] | None = None) -> None:
        if isinstance(given, (str, os.PathLike)):
            templates = read_attribute_templates(given)
        elif all(isinstance(template, str) for template in given):
            templates = parse_attribute_templates(enumerate(given, 1), "templates")
        else:
            templates = [AttributeTemplate(*pair) for pair in given]
        self._templates = templates
        self.columns = None if columns is None else list(columns)
        #: Keys of dicts whose columns are known to be in their places.
        self._in_place: set[tuple[str, ...]] = set()
        self.pairs = [list(template) for template in templates]

    @property
    def names(self) -> list[str]:
        """Names of the groups of features."""
        return list(dict.fromkeys(template.name for template in self._templates))

    @property
    def n_columns(self) -> int:
        """How many columns a token needs for all templates."""
        return 1 + max((int(found[2]) for _, text in self.pairs for found in MACRO.finditer(text)), default=0)

    def features(self, tokens: Any, offsets: Sequence[int]) -> list[dict[str, Any]]:
        """Token dicts of a flat list of tokens: words, or lists or dicts of cells.

        Raises
        ------
        omkl.exceptions.InputError
            If a token has not the columns that templates look at, or something else than text in one, or if columns of
            dicts are in other places than those of the first.
        """
        if not isinstance(tokens, list):
            raise InputError("templates= look at columns of text: give tokens that are words, or dicts of strings.")
        rows, names = [self._cells(token) for token in tokens], self.names
        found: list[dict[str, Any]] = []
        for own in (rows[low:high] for low, high in pairwise(offsets)):
            if len(names) == len(self._templates):  # as templated, in a fraction of the time
                values: list[Any] = [t.values(own) if t.text else [True] * len(own) for t in self._templates]
                found += [dict(zip(names, row)) for row in zip(*values)]
            else:
                found += templated(self._templates, own)
        return found

    def _cells(self, token: Any) -> tuple[str, ...]:
        if isinstance(token, dict) and (keys := tuple(token)) not in self._in_place:
            self._check_places(keys)
        cells = (token,) if isinstance(token, str) else tuple(token.values() if isinstance(token, dict) else token)
        for cell in cells:
            if not isinstance(cell, str):
                raise InputError(f"templates= look at columns of text, but a token has {cell!r:.40} in one.")
        return cells

    def _check_places(self, keys: tuple[str, ...]) -> None:
        """Raise where a column is not in the place that it had before: others would be taken for it."""
        self.columns = list(keys) if self.columns is None else self.columns
        places = {name: place for place, name in enumerate(self.columns)}
        if any(places.get(name, place) != place for place, name in enumerate(keys)):
            raise InputError(
                f"A token has the columns {reprlib.repr(list(keys))}, and others {reprlib.repr(self.columns)}: "
                "templates look at them by their places, so give all in the same order."
            )
        self._in_place.add(keys)
