"""Fields of tokens: what templates look at, and the columns of a treebank that it is read from."""

from collections.abc import Iterable

import numpy as np

from omkl.data import Treebank

#: What people call the columns of a treebank.
TITLES = {"forms": "FORM", "lemmas": "LEMMA", "upos": "UPOS", "xpos": "XPOS", "feats": "FEATS"}
#: Columns that are empty by chance with a smaller probability are told to be missing.
CHANCE = 1e-6


def column_of(field: str) -> str:
    """The column of a treebank that a field of the template language is read from."""
    if field.startswith(("form", "lower", "prefix", "suffix")):
        return "forms"
    return {"lemma": "lemmas"}.get(field, field if field in ("upos", "xpos") else "feats")


def value_of(field: str, string: str) -> str:
    """A field of a token, from the string in its column.

    >>> value_of("suffix3", "parsing"), value_of("Case", "Case=Nom|Number=Sing"), value_of("Case", "_")
    ('ing', 'Nom', '_')
    """
    if field == "lower":
        return string.lower()
    if field.startswith("prefix"):
        return string[: int(field[-1])]
    if field.startswith("suffix"):
        return string[-int(field[-1]) :]
    if field[0].isupper():
        attributes = (attribute.partition("=") for attribute in string.split("|"))
        return next((value for name, _, value in attributes if name == field), "_")
    return string


def present_codes(codes: np.ndarray) -> list[int]:
    """The different codes of a column, in order."""
    return np.flatnonzero(np.bincount(codes, minlength=1)).tolist()


def absent_fields(treebank: Treebank, fields: Iterable[str], by_column: bool = False) -> dict[str, str]:
    """The fields that no word of a treebank has, and what each is called in a message: those of empty columns first.

    Parameters
    ----------
    treebank : omkl.data.Treebank
    fields : iterable of str
    by_column : bool
        Whether a morphological attribute that no word has counts as present where another attribute is.
    """
    columns, attributes = {}, {}
    for field in fields:
        column = column_of(field)
        codes = getattr(treebank, column)
        if not codes.any():
            columns[field] = TITLES[column]
        elif field[0].isupper() and not by_column:
            strings = treebank.strings[column].tolist()
            if all(value_of(field, strings[code]) == "_" for code in present_codes(codes)):
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
