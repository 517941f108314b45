"""Lemmatizer, with a dictionary of known words, and predicted edits of other words."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from omkl.annotation import _jit_labels as jit
from omkl.features.vocabulary import NUMBER
from omkl.features.words import TEMPLATES
from omkl.sequences.labeler import SequenceLabeler

#: A labeler, or the label if there is only one.
Model: TypeAlias = SequenceLabeler | str
#: Case changes that edits start with. The first one with the shortest edit is used.
CASES: dict[str, Callable[[str], str]] = {
    "keep": str,
    "lower": str.lower,
    "upper": str.upper,
    "capital": lambda form: form[:1].upper() + form[1:].lower(),
}
#: Separator in edits and keys, which columns of a treebank cannot contain.
TAB = "\t"
#: Features of a word without context.
OWN = [template for template in TEMPLATES if template.offsets == (0,)]
OWN_KEYS = tuple(template.name for template in OWN)
LEMMA_KEYS = (*OWN_KEYS, "suffix6", "feats", *(f"suffix{k}|feats" for k in (1, 2, 3, 4)))
#: Minimum number of distinct words for an edit to be learned.
LEAST_WORDS = 2


class Learn(Protocol):
    """Function that trains a labeler on sequences and labels; None is an unknown label."""

    def __call__(self, X: list, y: list, linked: bool = False, weighting: str | None = None) -> SequenceLabeler:
        """Train a labeler; ``linked`` adds transitions, ``weighting`` replaces that of the parameters."""


def learned(X: list, y: list, learn: Learn, default: str, linked: bool = False, weighting: str | None = None) -> Model:
    """Train a labeler, or return the only label, or ``default`` if all labels are unknown."""
    labels = {label for sequence in y for label in sequence} - {None}
    if len(labels) > 1:
        return learn(X, y, linked, weighting)
    return labels.pop() if labels else default


def labels_by(model: Model, keys: Sequence[str], words: Collection, values_of: Callable[[Any], tuple]) -> list[str]:
    """Predict the labels of single words, given the values of the keys of their features."""
    if isinstance(model, str):
        return [model] * len(words)
    vocabulary, (bank, *_) = model.model_.codec.encoder.vocabulary, model.model_.predictor().banks
    known = [vocabulary.ids.get(key, {}).get for key in keys]
    ids = (get(value, -1) for word in words for get, value in zip(known, values_of(word)))
    codes = np.empty(len(words), np.int64)
    jit.best_labels(np.fromiter(ids, np.int32).reshape(len(words), -1), bank.table, codes)
    return model.classes_[codes].tolist()


def edit_of(form: str, lemma: str) -> str:
    """Make the edit from a form to its lemma: a case change, and the letters to remove and add at both ends.

    The edit keeps the longest common substring (Chrupala 2006). Without one, the edit is the lemma itself.

    Parameters
    ----------
    form, lemma : str

    Returns
    -------
    str
        A label for classifiers, and the argument of :func:`apply_edit`.

    >>> apply_edit(edit_of("Went", "go"), "Went"), apply_edit(edit_of("dogs", "dog"), "Cats")
    ('go', 'Cat')
    """
    edits: list[tuple[int, str]] = []
    for case, change in CASES.items():
        base = change(form)
        a, b, size = SequenceMatcher(None, base, lemma, autojunk=False).find_longest_match()
        if size:
            edit = (case, str(a), lemma[:b], str(len(base) - a - size), lemma[b + size :])
            edits.append((len(base) + len(lemma) - 2 * size, TAB.join(edit)))
    return min(edits, key=lambda sized: sized[0], default=(0, f"={lemma}"))[1]


def apply_edit(edit: str, form: str) -> str:
    """Apply an edit to a form; return the form if it is too short."""
    if edit.startswith("="):
        return edit[1:]
    case, before, prefix, after, suffix = edit.split(TAB)
    base = CASES[case](form)
    low, high = int(before), len(base) - int(after)
    return prefix + base[low:high] + suffix if low < high else form


class Lemmatizer:
    """Predictor of the lemmas of words, given form, tag and morphological features.

    Known words get their most frequent lemma in the training data, by form, tag and features, or by form and tag. For
    other words, one classifier per tag predicts an edit from the ends of the form and the features.

    Attributes
    ----------
    edits : dict of str to SequenceLabeler or str
        Classifier of edits, or the only edit, by tag.
    known : dict of str to str
        Lemmas by form, tag and features, and by form and tag; parts of keys are joined by tabs.
    """

    #: The edit that keeps the form.
    default = edit_of("as", "as")

    def __init__(self) -> None:
        self.edits: dict[str, Model] = {}
        self.known: dict[str, str] = {}

    def fit(self, examples: Iterable[tuple[tuple[str, str, str], str]], learn: Learn) -> "Lemmatizer":
        """Train on pairs of a word ``(form, tag, features)`` and its lemma."""
        counts = Counter(examples)
        self.known = _most_frequent(counts)
        edits = {(word, lemma): edit_of(word[0], lemma) for word, lemma in counts}
        usual = Counter((tag, edit) for ((_, tag, _), _), edit in edits.items())
        taught: dict[str, tuple[list, list]] = {}
        for ((form, tag, feats), _), edit in edits.items():
            X, y = taught.setdefault(tag, ([], []))
            if usual[tag, edit] >= LEAST_WORDS:
                X.append([as_dict(LEMMA_KEYS, lemma_values((form, tag, feats)))])
                y.append([edit])
        self.edits = {tag: learned(X, y, learn, self.default) for tag, (X, y) in taught.items()}
        return self

    def predict(self, words: list[tuple[str, str, str]]) -> list[str]:
        """Predict the lemma of each word ``(form, tag, features)``."""
        found: dict[tuple[str, str, str], str] = {}
        unknown: dict[str, list[tuple[str, str, str]]] = {}
        for word in dict.fromkeys(words):
            lemma = self.known.get(TAB.join(word)) or self.known.get(TAB.join(word[:2]))
            if lemma is None:
                unknown.setdefault(word[1], []).append(word)
            else:
                found[word] = lemma
        for tag, own in unknown.items():
            guessed = labels_by(self.edits.get(tag, self.default), LEMMA_KEYS, own, lemma_values)
            found.update({word: apply_edit(edit, word[0]) for word, edit in zip(own, guessed)})
        return [found[word] for word in words]


@lru_cache(maxsize=1 << 14)  # about two kilobytes per word
def own_values(form: str) -> tuple:
    """Return the values of :data:`OWN_KEYS` of a word: strings, NUMBER for True, and False."""
    return tuple(NUMBER if value is True else value for value in (of(form) for _, of, _ in OWN))


def lemma_values(word: tuple[str, str, str]) -> tuple:
    """Return the values of :data:`LEMMA_KEYS` of a word ``(form, tag, features)``: shape, both ends, and morphology."""
    form, _, feats = word
    lower = form.lower()
    return (*own_values(form), lower[-6:], feats, *(f"{lower[-k:]}|{feats}" for k in (1, 2, 3, 4)))


def as_dict(keys: Sequence[str], values: tuple) -> dict[str, str | bool]:
    """Return the features of a word as a dict, to train a labeler."""
    return {key: True if value is NUMBER else value for key, value in zip(keys, values)}


def _most_frequent(counts: Counter) -> dict[str, str]:
    """Return the most frequent lemma of words, and of their forms and tags; ties are broken alphabetically."""
    votes: dict[str, Counter[str]] = {}
    for (word, lemma), n in counts.items():
        for key in (TAB.join(word), TAB.join(word[:2])):
            votes.setdefault(key, Counter())[lemma] += n
    return {key: min(lemmas, key=lambda lemma: (-lemmas[lemma], lemma)) for key, lemmas in votes.items()}
