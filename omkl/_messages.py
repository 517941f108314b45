"""Formatting of lists and values in messages."""

from collections.abc import Iterable
from typing import Any


def listed(items: Iterable[Any], most: int = 20) -> str:
    """Format items by ``repr``, each cut to 40 characters, and append the number of omitted items.

    Parameters
    ----------
    items : iterable
    most : int
        Maximum number of items to list.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    items = list(items)
    text = ", ".join(f"{item!r:.40}" for item in items[:most])
    if len(items) > most:
        text += f" and {len(items) - most} more"
    return text


def joined(words: Iterable[str], last: str = "and") -> str:
    """Join words for a sentence.

    >>> joined(["a", "b", "c"]), joined(["a", "b"], "or")
    ('a, b and c', 'a or b')
    """
    *first, final = words
    if not first:
        return final
    return f"{', '.join(first)} {last} {final}"


def shown(value: object, most: int = 80) -> str:
    """Format a value as one line of at most ``most`` characters.

    >>> shown(list(range(100)), most=12)
    '[0, 1, 2, 3…'
    """
    text = " ".join(repr(value).split())
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"
