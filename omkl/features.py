"""Features of words that serve tagging in most languages, so that nobody need write them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from omkl.exceptions import InputError

#: What stands before the first word of a sentence, and after the last one.
BEGIN, END = "<s>", "</s>"
#: How many words before and after a word templates look at.
REACH = 2
#: What is between two words that a template looks at together.
BETWEEN = "|"


class Template(NamedTuple):
    """What one feature of a word says: a property of that word, of a neighbour, or of two words together.

    Attributes
    ----------
    name : str
        Its key in the features of a word, and the name of its group.
    property : callable
        ``property(word)`` is a string, or a boolean.
    offsets : tuple of int
        The words that it is a property of, counted from the word itself, from -2 to 2. Strings of two words are
        joined by ``|``.
    """

    name: str
    property: Callable[[str], str | bool]
    offsets: tuple[int, ...] = (0,)


def _word(word: str) -> str:
    return word


def _prefix(length: int) -> Callable[[str], str]:
    return lambda word: word.lower()[:length]


def _suffix(length: int) -> Callable[[str], str]:
    return lambda word: word.lower()[-length:]


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _has_hyphen(word: str) -> bool:
    return "-" in word


def _is_capital(word: str) -> bool:
    return word[:1].isupper()


def _shape(word: str) -> str:
    """Kinds of characters, runs shortened to two: ``XxXxx'x`` for ``McDonald's``."""
    shape = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c
        if shape[-2:] != kind * 2:
            shape += kind
    return shape


#: The templates, those of two words at the end.
TEMPLATES = (
    Template("word", _word),
    Template("lower", str.lower),
    *(Template(f"prefix{k}", _prefix(k)) for k in range(1, 5)),
    *(Template(f"suffix{k}", _suffix(k)) for k in range(1, 6)),
    Template("shape", _shape),
    Template("is_capital", _is_capital),
    Template("is_upper", str.isupper),
    Template("has_digit", _has_digit),
    Template("has_hyphen", _has_hyphen),
    *(Template(f"lower[{offset:+}]", str.lower, (offset,)) for offset in (-2, -1, 1, 2)),
    *(Template(f"suffix{k}[{offset:+}]", _suffix(k), (offset,)) for k in (2, 3) for offset in (-1, 1)),
    Template("lower[-1]|lower", str.lower, (-1, 0)),
    Template("lower|lower[+1]", str.lower, (0, 1)),
    Template("lower[-1]|lower[+1]", str.lower, (-1, 1)),
)


def token_features(words: Sequence[str]) -> list[dict[str, str | bool]]:
    """Features of each word of a sentence: what it looks like, and what stands around it.

    They are what :class:`~omkl.SequenceLabeler` makes of sequences of strings by itself, and faster: give it
    ``[["the", "dog"]]`` as it is, and call this function to look at the features or to add some of your own.

    Parameters
    ----------
    words : list of str
        The words of one sentence.

    Returns
    -------
    list of dict
        For each word a string or a boolean by the name of each of 27 templates: ``word`` as it is; in lower case
        ``lower``, ``prefix1`` to ``prefix4`` and ``suffix1`` to ``suffix5``; ``shape``, the kinds of its characters;
        ``is_capital``, ``is_upper``, ``has_digit``, ``has_hyphen``; of the words one and two before and after it
        ``lower[-1]``, ``lower[+2]``, ``suffix3[+1]`` and so on; and of two words together ``lower[-1]|lower``.
        Before a sentence stands ``<s>``, after it ``</s>``.

    Raises
    ------
    omkl.exceptions.InputError
        If a word is no string.

    Examples
    --------
    >>> features = token_features(["No", "way"])[1]
    >>> features["suffix2"], features["lower[-1]"], features["lower[+1]"], features["lower[-1]|lower"]
    ('ay', 'no', '</s>', 'no|way')
    """
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise InputError(f"The features of words are made of a list of strings, not of {words!r:.80}.")
    n, padded = len(words), [BEGIN] * REACH + list(words) + [END] * REACH
    columns: list[Sequence] = []
    for _, of, offsets in TEMPLATES:
        values = [[of(word) for word in padded[REACH + offset : REACH + offset + n]] for offset in offsets]
        columns.append(values[0] if len(offsets) == 1 else list(map(BETWEEN.join, zip(*values))))
    names = [template.name for template in TEMPLATES]
    return [dict(zip(names, values)) for values in zip(*columns)]
