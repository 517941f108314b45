"""Features of words: templates, and an encoder that is many times faster than dicts of features.

The encoder caches the features of every distinct word, and looks up features of pairs of words in a
hash table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product, starmap
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
    """Template of a feature: a property of the word, of a neighbour, or of two words together.

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


def _lower_part(part: slice, word: str) -> str:
    return word.lower()[part]


def _kind(character: str) -> str:
    """Return ``X``, ``x`` or ``d`` for capital and small letters and digits, else the character."""
    if character.isupper():
        return "X"
    if character.islower():
        return "x"
    return "d" if character.isdigit() else character


def _shape(word: str) -> str:
    """Replace characters by their kinds, and shorten runs to two: McDonald's is ``XxXxx'x``."""
    shape = ""
    for kind in map(_kind, word):
        if shape[-2:] != kind * 2:
            shape += kind
    return shape


def _suffix_template(width: int, offset: int | None = None) -> Template:
    """Return the template of the last letters of a word, or of its neighbour at this offset."""
    suffix = partial(_lower_part, slice(-width, None))
    if offset is None:
        return Template(f"suffix{width}", suffix)
    return Template(f"suffix{width}[{offset:+}]", suffix, (offset,))


#: All templates; templates of two words come last.
TEMPLATES = (
    Template("word", str),
    Template("lower", str.lower),
    *(Template(f"prefix{width}", partial(_lower_part, slice(width))) for width in range(1, 5)),
    *map(_suffix_template, range(1, 6)),
    Template("shape", _shape),
    Template("is_capital", lambda word: word[:1].isupper()),
    Template("is_upper", str.isupper),
    Template("has_digit", lambda word: any(map(str.isdigit, word))),
    Template("has_hyphen", lambda word: "-" in word),
    *(Template(f"lower[{offset:+}]", str.lower, (offset,)) for offset in (-2, -1, 1, 2)),
    *starmap(_suffix_template, product((2, 3), (-1, 1))),
    Template("lower[-1]|lower", str.lower, (-1, 0)),
    Template("lower|lower[+1]", str.lower, (0, 1)),
    Template("lower[-1]|lower[+1]", str.lower, (-1, 1)),
)
TEMPLATE_NAMES = tuple(template.name for template in TEMPLATES)


def lexicon_templates(lexicons: Mapping[str, Lexicon]) -> list[Template]:
    """Return templates for values, and prefixes of values, of words and neighbours in lexicons."""
    templates = []
    for lexicon_name, lexicon in lexicons.items():
        for width, offset in product(lexicon.widths(), (0, -2, -1, 1, 2)):
            name = lexicon_name
            if width:
                name += f":{width}"
            if offset:
                name += f"[{offset:+}]"
            templates.append(Template(name, partial(value_of, lexicon, width), (offset,)))
    return templates


def token_features(words: Sequence[str]) -> list[dict[str, str | bool]]:
    """Compute features of each word of a sentence: its form and its neighbours.

    :class:`~omkl.SequenceLabeler` computes these features itself, and faster, for sequences of
    strings. Call this function to inspect the features, or to add your own.

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
    >>> features["suffix2"], features["lower[-1]"], features["lower[+1]"]
    ('ay', 'no', '</s>')
    >>> features["lower[-1]|lower"]
    'no|way'
    """
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise InputError(f"words must be a list of strings, got {words!r:.80}.")
    padded = [BEGIN] * REACH + list(words) + [END] * REACH
    columns: list[Iterable] = []
    for template in TEMPLATES:
        starts = [REACH + offset for offset in template.offsets]
        values = [map(template.property, padded[start : start + len(words)]) for start in starts]
        columns.append(values[0] if len(values) == 1 else map(BETWEEN.join, zip(*values)))
    return [dict(zip(TEMPLATE_NAMES, values_of_word)) for values_of_word in zip(*columns)]


# ---- the encoder ---------------------------------------------------------------------------------

SINGLE = [template for template in TEMPLATES if len(template.offsets) == 1]
PAIRS = [template for template in TEMPLATES if len(template.offsets) == 2]
#: Columns of the windows of words that templates of pairs read.
LEFT, RIGHT = np.array([template.offsets for template in PAIRS], dtype=np.int64).T.copy() + REACH
#: Combined with the hash of two words to distinguish templates.
SALTS = np.arange(1, len(PAIRS) + 1, dtype=np.uint64) * jit.BASE
#: Maximum number of cached words; then the cache is cleared.
MOST_REMEMBERED = 1 << 20
#: Codes of BEGIN and END in caches.
CODE_OF_BEGIN, CODE_OF_END = 0, 1
# threads that predict with one model share its cache
_LOCK = Lock()


class Words(list):
    """Concatenated words of all sequences."""

    def keys(self) -> list[str]:
        """Return the keys of the features."""
        return list(TEMPLATE_NAMES)


class _WordCache:
    """Cached features and hashes of words by their codes.

    Attributes
    ----------
    codes : dict of str to int
        Codes of words; those of BEGIN and END are :data:`CODE_OF_BEGIN` and :data:`CODE_OF_END`.
    words : list of str
        Words by code.
    ids : int array of shape (capacity, number of templates)
        Ids of the features of each word by template.
    hashes, powers : uint64 arrays of shape (capacity,)
        Hash of each word in lower case, and the base of hashes to the power of its length.
    may_lack_values : bool
        Whether words were looked up that the vocabulary may have learned since.
    """

    def __init__(self, vocabulary: Vocabulary, templates: list[Template]) -> None:
        self._vocabulary = vocabulary
        self._templates = templates
        self.codes: dict[str, int] = {}
        self.words: list[str] = []
        self.ids = np.zeros((0, len(templates)), np.int32)
        self.hashes = np.zeros(0, np.uint64)
        self.powers = np.zeros(0, np.uint64)
        self.may_lack_values = False
        self._add([BEGIN, END], grow=True)

    def codes_of(self, words: Sequence[str], grow: bool) -> np.ndarray:
        """Return the codes of words, (n,), and add new words to the cache.

        The features of new words are looked up now, unless ``grow`` says that they are added to
        the vocabulary later.
        """
        codes = list(map(self.codes.get, words))
        if None in codes:
            self._add([word for word in dict.fromkeys(words) if word not in self.codes], grow)
            codes = list(map(self.codes.get, words))
        return np.array(codes, dtype=np.int64)

    def _add(self, words: list[str], grow: bool) -> None:
        """Add words that are not in the cache."""
        start = len(self.words)
        end = start + len(words)
        if end > len(self.ids):
            room = (0, end + len(self.ids) // 2)
            self.ids = np.pad(self.ids, (room, (0, 0)), constant_values=jit.UNSEEN)
            self.hashes = np.pad(self.hashes, room)
            self.powers = np.pad(self.powers, room)
        lower = [word.lower() for word in words]
        self.hashes[start:end], self.powers[start:end] = _hashed(lower)
        if not grow:
            for t, template in enumerate(self._templates):
                self.ids[start:end, t] = self._known_ids(template, words)
        self.words += words
        self.codes.update(zip(words, range(start, end)))

    def _known_ids(self, template: Template, words: list[str]) -> list[int]:
        """Return the id of the feature of each word, UNKNOWN if there is none."""
        get: Callable[..., int] = self._vocabulary.ids.get(template.name, {}).get
        values = map(template.property, words)
        # False and () are no feature, and no values in the vocabulary
        return [get(NUMBER if value is True else value, jit.UNKNOWN) for value in values]


class _PairTable:
    """Hash table from two words and a template to the id of a feature.

    Attributes
    ----------
    keys, ids : arrays of shape (capacity,)
        Hashes, and the ids of features, which are UNKNOWN at empty places.
    """

    def __init__(self) -> None:
        self._clear(4)

    def _clear(self, capacity: int) -> None:
        self.keys = np.zeros(capacity, np.uint64)
        self.ids = np.full(capacity, jit.UNKNOWN, np.int32)
        #: Number of values of each template in the table.
        self._sizes = [0] * len(PAIRS)

    def update(self, vocabulary: Vocabulary) -> None:
        """Add new values of the vocabulary, which come after the old ones."""
        columns = [vocabulary.ids.get(template.name, {}) for template in PAIRS]
        sizes = list(map(len, columns))
        if sizes == self._sizes:
            return
        if 2 * sum(sizes) > len(self.keys):
            self._clear(1 << (4 * sum(sizes)).bit_length())
        for salt, ids_of_values, n_old in zip(SALTS, columns, self._sizes):
            hashes, _ = _hashed(list(ids_of_values)[n_old:])
            ids = np.array(list(ids_of_values.values())[n_old:], dtype=np.int32)
            jit.insert(hashes ^ salt, ids, self.keys, self.ids)
        self._sizes = sizes


def _hashed(strings: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of each string, and the base to the power of its length in bytes, (n,)."""
    encoded = [(string or "").encode("utf-8", "surrogatepass") for string in strings]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    hashes = np.empty(len(encoded), np.uint64)
    powers = np.empty(len(encoded), np.uint64)
    jit.hash_strings(np.frombuffer(b"".join(encoded), np.uint8), ends, hashes, powers)
    return hashes, powers


class WordEncoder:
    """Encoder of words.

    It is equivalent, to the bit, to encoding :func:`omkl.features.token_features` and values of
    lexicons.

    Attributes
    ----------
    keys : frozenset of str
        Names of all templates.
    """

    def __init__(
        self, vocabulary: Vocabulary, lexicons: Mapping[str, Lexicon] | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self._lexicons = lexicons
        self._single = [*SINGLE, *lexicon_templates(lexicons or {})]
        self.keys = frozenset(template.name for template in (*self._single, *PAIRS))
        #: Columns of the windows of words that templates of single words read.
        self._columns = np.array([template.offsets[0] for template in self._single]) + REACH
        self._cache = _WordCache(vocabulary, self._single)
        self._pairs = _PairTable()
        #: Number of features of the vocabulary after the last call.
        self._n_features = len(vocabulary.groups)

    def __reduce__(self) -> tuple:
        return WordEncoder, (self.vocabulary, self._lexicons)  # without the cache

    def encode(self, words: Words, offsets: np.ndarray, grow: bool) -> Features:
        """Encode words; ``grow`` adds new values to the vocabulary."""
        ids = np.empty((len(words), len(self._single) + len(PAIRS)), np.int32)
        chunk = CHUNK if grow else max(len(words), 1)
        with _LOCK:
            self._renew_cache(grow)
            windows = _windows(self._cache.codes_of(words, grow), offsets)
            for low in range(0, len(words), chunk):
                self._fill(windows[low : low + chunk], ids[low : low + chunk], grow)
            self._n_features = len(self.vocabulary.groups)
        if grow and not self.vocabulary.n_tokens:
            self.vocabulary.add_counts(dict.fromkeys(self.keys, len(words)), len(words))
        return features_of_ids(ids)

    def _renew_cache(self, grow: bool) -> None:
        """Clear the cache if it is large, or if the vocabulary may hold more than it."""
        cache = self._cache
        changes = grow or len(self.vocabulary.groups) != self._n_features
        if (cache.may_lack_values and changes) or len(cache.words) > MOST_REMEMBERED:
            cache = self._cache = _WordCache(self.vocabulary, self._single)
        cache.may_lack_values |= not grow

    def _fill(self, windows: np.ndarray, ids: np.ndarray, grow: bool) -> None:
        """Write the ids of all features of words, (n, templates), to ``ids``; -1 is no feature.

        ``windows``, (n, 2 REACH + 1), are the codes of the words around each word.
        """
        cache = self._cache
        pairs = self._pairs
        pairs.update(self.vocabulary)
        n_unseen = jit.gather_words(windows, self._columns, cache.ids, ids)
        tables = cache.hashes, cache.powers, pairs.keys, pairs.ids
        n_unseen += jit.gather_pairs(windows, LEFT, RIGHT, SALTS, *tables, grow, ids)
        if n_unseen == 0:
            return
        for t, template in enumerate(self._single):
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            codes = windows[unseen, self._columns[t]]
            distinct = list(dict.fromkeys(codes.tolist()))
            if distinct:
                values = [template.property(cache.words[code]) for code in distinct]
                cache.ids[distinct, t] = self._look_up(template.name, values, grow)
                ids[unseen, t] = cache.ids[codes, t]
        for p, template in enumerate(PAIRS):
            t = len(self._single) + p
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            if len(unseen):
                values = []
                for pair in windows[unseen][:, [LEFT[p], RIGHT[p]]].tolist():
                    strings: list[Any] = [template.property(cache.words[code]) for code in pair]
                    values.append(BETWEEN.join(strings))
                ids[unseen, t] = self._look_up(template.name, values, grow)

    def _look_up(self, key: str, values: list, grow: bool) -> np.ndarray:
        """Return the id of each value, (n,), UNKNOWN for unknown values, False and no feature."""
        ids = np.full(len(values), jit.UNKNOWN, np.int32)
        if not grow and key not in self.vocabulary.ids:
            return ids
        tokens, ids_of_features, amounts = self.vocabulary.look_up(key, values, grow)
        if amounts is not None:
            ids_of_features = np.where(amounts == 0.0, jit.UNKNOWN, ids_of_features)
        if tokens is None:
            return ids_of_features
        ids[tokens] = ids_of_features
        return ids


def _windows(codes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the codes of the words around each word of sentences, (n, 2 REACH + 1).

    Sentence s has the ``codes[offsets[s] : offsets[s + 1]]``.
    """
    positions = np.arange(len(codes))[:, None] + np.arange(-REACH, REACH + 1)
    lengths = np.diff(offsets)
    starts = np.repeat(offsets[:-1], lengths)[:, None]
    ends = np.repeat(offsets[1:], lengths)[:, None]
    windows = codes.take(positions, mode="clip")
    windows[positions < starts] = CODE_OF_BEGIN
    windows[positions >= ends] = CODE_OF_END
    return windows
