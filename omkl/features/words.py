"""Features of words: templates, and an encoder that is many times faster than dicts of features.

The encoder caches the features of every distinct word, and looks up features of pairs of words in a
hash table.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from omkl.exceptions import InputError
from omkl.features import _jit_words as jit
from omkl.features.lexicons import Lexicon, value_of
from omkl.features.vocabulary import CHUNK, NUMBER, Vocabulary, features_of_ids
from omkl.groups.tokens import Features

#: Values before the first and after the last word of a sentence.
BEGIN, END = "<s>", "</s>"
#: Maximum distance of neighbours in templates.
REACH = 2
#: Separator of two words in a value.
BETWEEN = "|"


class Template(NamedTuple):
    """Template of a feature of a word: a property of the word, of a neighbour, or of two words
    together.

    Attributes
    ----------
    name : str
        Key in the features of a word, and name of the group.
    property : callable
        ``property(word)`` returns a string, a boolean, or an empty tuple for no feature.
    offsets : tuple of int
        Offsets of the words with the property, from -2 to 2. The strings of two words are joined by
        ``|``.
    """

    name: str
    property: Callable[[str], str | bool | tuple[()]]
    offsets: tuple[int, ...] = (0,)


def _lower(part: slice, word: str) -> str:
    return word.lower()[part]


def _shape(word: str) -> str:
    """Replace characters by their kinds, and shorten runs to two: ``XxXxx'x`` for ``McDonald's``."""
    shape = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c
        if shape[-2:] != kind * 2:
            shape += kind
    return shape


#: All templates; templates of two words come last.
TEMPLATES = (
    Template("word", str),
    Template("lower", str.lower),
    *(Template(f"prefix{k}", partial(_lower, slice(k))) for k in range(1, 5)),
    *(Template(f"suffix{k}", partial(_lower, slice(-k, None))) for k in range(1, 6)),
    Template("shape", _shape),
    Template("is_capital", lambda word: word[:1].isupper()),
    Template("is_upper", str.isupper),
    Template("has_digit", lambda word: any(map(str.isdigit, word))),
    Template("has_hyphen", lambda word: "-" in word),
    *(Template(f"lower[{offset:+}]", str.lower, (offset,)) for offset in (-2, -1, 1, 2)),
    *(
        Template(f"suffix{k}[{o:+}]", partial(_lower, slice(-k, None)), (o,))
        for k in (2, 3)
        for o in (-1, 1)
    ),
    Template("lower[-1]|lower", str.lower, (-1, 0)),
    Template("lower|lower[+1]", str.lower, (0, 1)),
    Template("lower[-1]|lower[+1]", str.lower, (-1, 1)),
)


def lexicon_templates(lexicons: Mapping[str, Lexicon]) -> list[Template]:
    """Return templates for values, and prefixes of values, of a word and its neighbours in
    lexicons.
    """
    found = []
    for name, lexicon in lexicons.items():
        for width, offset in product(lexicon.widths(), (0, -2, -1, 1, 2)):
            full = name + (f":{width}" if width else "") + (f"[{offset:+}]" if offset else "")
            found.append(Template(full, partial(value_of, lexicon, width), (offset,)))
    return found


def token_features(words: Sequence[str]) -> list[dict[str, str | bool]]:
    """Compute features of each word of a sentence: its form and its neighbours.

    :class:`~omkl.SequenceLabeler` computes these features itself, and faster, for sequences of strings. Call this
    function to inspect the features, or to add your own.

    Parameters
    ----------
    words : list of str
        The words of one sentence.

    Returns
    -------
    list of dict
        For each word, a string or a boolean for each of 27 templates: ``word`` unchanged;
        ``lower``, ``prefix1`` to ``prefix4`` and ``suffix1`` to ``suffix5`` in lower case;
        ``shape``, the kinds of its characters; ``is_capital``, ``is_upper``, ``has_digit``,
        ``has_hyphen``; features of neighbours such as ``lower[-1]``, ``lower[+2]`` and
        ``suffix3[+1]``; and features of two words such as ``lower[-1]|lower``. Values outside of
        the sentence are ``<s>`` before it and ``</s>`` after it.

    Raises
    ------
    omkl.exceptions.InputError
        If a word is not a string.

    Examples
    --------
    >>> features = token_features(["No", "way"])[1]
    >>> features["suffix2"], features["lower[-1]"], features["lower[+1]"], features["lower[-1]|lower"]
    ('ay', 'no', '</s>', 'no|way')
    """
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise InputError(f"words must be a list of strings, got {words!r:.80}.")
    n, padded = len(words), [BEGIN] * REACH + list(words) + [END] * REACH
    columns: list[Sequence] = []
    for _, of, offsets in TEMPLATES:
        values = [
            [of(word) for word in padded[REACH + offset : REACH + offset + n]] for offset in offsets
        ]
        columns.append(values[0] if len(offsets) == 1 else list(map(BETWEEN.join, zip(*values))))
    names = [template.name for template in TEMPLATES]
    return [dict(zip(names, values)) for values in zip(*columns)]


# ---- the encoder ---------------------------------------------------------------------------------

SINGLE = [template for template in TEMPLATES if len(template.offsets) == 1]
PAIRS = [template for template in TEMPLATES if len(template.offsets) == 2]
LEFT, RIGHT = (
    np.array([template.offsets[k] + REACH for template in PAIRS], dtype=np.int64) for k in (0, 1)
)
#: Combined with the hash of two words to distinguish templates.
SALTS = np.arange(1, len(PAIRS) + 1, dtype=np.uint64) * jit.BASE
#: Maximum number of cached words; then the cache is cleared.
MOST_REMEMBERED = 1 << 20
# threads that predict with one model share its cache
_LOCK = Lock()


class Words(list):
    """Concatenated words of all sequences."""

    def keys(self) -> list[str]:
        """Keys of the features."""
        return [template.name for template in TEMPLATES]


class _KnownWords:
    """Cached features and hashes of words by their codes; BEGIN and END have codes 0 and 1."""

    def __init__(self, vocabulary: Vocabulary, single: list[Template]) -> None:
        self._single = single
        self.codes: dict[str, int] = {}
        self.words: list[str] = []
        self.ids = np.zeros((0, len(single)), np.int32)
        self.hashes = self.powers = np.zeros(0, np.uint64)
        self.has_unknown = False  # whether a value may be missing from the vocabulary
        self._vocabulary = vocabulary
        self.of([BEGIN, END], True)

    def of(self, words: Sequence[str], grow: bool) -> np.ndarray:
        """Return the codes of words; features of new words are looked up now, unless ``grow`` adds
        them later.
        """
        found = list(map(self.codes.get, words))
        if None in found:
            new = [word for word in dict.fromkeys(words) if word not in self.codes]
            first = len(self.words)
            own = slice(first, first + len(new))
            self.words += new
            if own.stop > len(self.ids):
                room = ((0, own.stop + len(self.ids) // 2), (0, 0))
                self.ids = np.pad(self.ids, room, constant_values=jit.UNSEEN)
                self.hashes, self.powers = (
                    np.pad(self.hashes, room[0]),
                    np.pad(self.powers, room[0]),
                )
            self.hashes[own], self.powers[own] = _hashed([word.lower() for word in new])
            for t, (name, of, _) in enumerate(self._single if not grow else ()):
                known = self._vocabulary.ids.get(name, {})
                values: list[Any] = [NUMBER if value is True else value for value in map(of, new)]
                self.ids[own, t] = [
                    -1 if value is False else known.get(value, -1) for value in values
                ]
            self.codes.update(zip(new, range(own.start, own.stop)))
            found = list(map(self.codes.get, words))
        return np.array(found, dtype=np.int64)


class _Pairs:
    """Hash table from two words and a template to the id of a feature."""

    def __init__(self) -> None:
        self.n_known = [0] * len(PAIRS)
        self.keys, self.ids = np.zeros(4, np.uint64), np.full(4, -1, np.int32)

    def update(self, vocabulary: Vocabulary) -> None:
        """Add new values of the vocabulary, which come after the old ones."""
        columns = [vocabulary.ids.get(template.name, {}) for template in PAIRS]
        sizes = list(map(len, columns))
        if sizes == self.n_known:
            return
        if 2 * sum(sizes) > len(self.keys):
            capacity = 1 << (4 * sum(sizes)).bit_length()
            self.keys, self.ids = np.zeros(capacity, np.uint64), np.full(capacity, -1, np.int32)
            self.n_known = [0] * len(PAIRS)
        for salt, known, before in zip(SALTS, columns, self.n_known):
            ids = np.array(list(known.values())[before:], dtype=np.int32)
            jit.insert(_hashed(list(known)[before:])[0] ^ salt, ids, self.keys, self.ids)
        self.n_known = sizes


def _hashed(strings: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of each string, and the base to the power of its length in bytes."""
    encoded = [(string or "").encode("utf-8", "surrogatepass") for string in strings]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    hashes, powers = np.empty(len(encoded), np.uint64), np.empty(len(encoded), np.uint64)
    jit.hash_strings(np.frombuffer(b"".join(encoded), np.uint8), ends, hashes, powers)
    return hashes, powers


class WordEncoder:
    """Encoder of words, bitwise equivalent to encoding :func:`omkl.features.token_features` and
    values of lexicons.
    """

    def __init__(
        self, vocabulary: Vocabulary, lexicons: Mapping[str, Lexicon] | None = None
    ) -> None:
        self.vocabulary, self._lexicons = vocabulary, lexicons
        self._single = [*SINGLE, *lexicon_templates(lexicons or {})]
        self.keys = frozenset(template.name for template in (*self._single, *PAIRS))
        # columns of the windows
        self._columns = np.array(
            [template.offsets[0] + REACH for template in self._single], dtype=np.int64
        )
        self._remembered = _KnownWords(vocabulary, self._single)
        self._n_known = len(vocabulary.groups)
        self._pairs = _Pairs()

    def __reduce__(self) -> tuple:
        return WordEncoder, (self.vocabulary, self._lexicons)  # without the cache

    def encode(self, words: Words, offsets: np.ndarray, grow: bool) -> Features:
        """Encode words; ``grow`` adds new values to the vocabulary."""
        at = np.arange(len(words))[:, None] + np.arange(-REACH, REACH + 1)
        before, after = (
            np.repeat(ends, np.diff(offsets))[:, None] for ends in (offsets[:-1], offsets[1:])
        )
        ids = np.empty((len(words), len(self._single) + len(PAIRS)), np.int32)
        with _LOCK:
            known = self._remembered
            grown = len(self.vocabulary.groups) != self._n_known
            if (known.has_unknown and (grow or grown)) or len(known.words) > MOST_REMEMBERED:
                known = self._remembered = _KnownWords(self.vocabulary, self._single)
            known.has_unknown |= not grow
            around = np.where(
                at < before,
                0,
                np.where(at >= after, 1, known.of(words, grow).take(at, mode="clip")),
            )
            chunk = CHUNK if grow else len(words)
            for low in range(0, len(words), max(chunk, 1)):
                self._fill(around[low : low + chunk], ids[low : low + chunk], known, grow)
            self._n_known = len(self.vocabulary.groups)
        if grow and not self.vocabulary.n_tokens:
            self.vocabulary.add_counts(dict.fromkeys(self.keys, len(words)), len(words))
        return features_of_ids(ids)

    def _fill(self, around, ids, known, grow):
        """Write the ids of all features of words, (n, templates), given their windows; -1 is no
        feature.
        """
        self._pairs.update(self.vocabulary)
        of_pairs = LEFT, RIGHT, SALTS, known.hashes, known.powers, self._pairs.keys, self._pairs.ids
        if not jit.gather(around, self._columns, known.ids, *of_pairs, ids, grow):
            return
        for t, template in enumerate(self._single):
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            codes = around[unseen, self._columns[t]]
            distinct = list(dict.fromkeys(codes.tolist()))
            if distinct:
                values = [template.property(known.words[code]) for code in distinct]
                known.ids[distinct, t] = self._look_up(template.name, values, grow)
                ids[unseen, t] = known.ids[codes, t]
        for t, (name, of, _) in enumerate(PAIRS, len(self._single)):
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            if len(unseen):
                sides = (around[unseen, at[t - len(self._single)]].tolist() for at in (LEFT, RIGHT))
                words = [[of(known.words[code]) for code in codes] for codes in sides]
                ids[unseen, t] = self._look_up(name, list(map(BETWEEN.join, zip(*words))), grow)

    def _look_up(self, name, values, grow):
        """Return the id of each value, -1 for unknown values, False and no feature."""
        found = np.full(len(values), -1, np.int32)
        if grow or name in self.vocabulary.ids:
            places, ids, amounts = self.vocabulary.look_up(name, values, grow)
            known = ids if amounts is None else np.where(amounts == 0.0, -1, ids)
            found[slice(None) if places is None else places] = known
        return found
