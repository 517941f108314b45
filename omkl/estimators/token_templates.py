"""Tokens that are columns of text, as templates of CRF++ look at them and their neighbours."""

import os
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

    Attributes
    ----------
    pairs : list of [str, str]
        Name and text of each template, as a model file holds them.
    """

    def __init__(self, given: Any) -> None:
        if isinstance(given, (str, os.PathLike)):
            templates = read_attribute_templates(given)
        elif all(isinstance(template, str) for template in given):
            templates = parse_attribute_templates(enumerate(given, 1), "templates")
        else:
            templates = [AttributeTemplate(*pair) for pair in given]
        self._templates = templates
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
            If a token has not the columns that templates look at, or something else than text in one.
        """
        if not isinstance(tokens, list):
            raise InputError("templates= look at columns of text: give tokens that are words, or dicts of strings.")
        rows, names = [_cells(token) for token in tokens], self.names
        found: list[dict[str, Any]] = []
        for own in (rows[low:high] for low, high in pairwise(offsets)):
            if len(names) == len(self._templates):  # as templated, in a fraction of the time
                values: list[Any] = [t.values(own) if t.text else [True] * len(own) for t in self._templates]
                found += [dict(zip(names, row)) for row in zip(*values)]
            else:
                found += templated(self._templates, own)
        return found


def _cells(token):
    cells = (token,) if isinstance(token, str) else tuple(token.values() if isinstance(token, dict) else token)
    for cell in cells:
        if not isinstance(cell, str):
            raise InputError(f"templates= look at columns of text, but a token has {cell!r:.40} in one.")
    return cells
