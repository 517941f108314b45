"""Lemmatizer: a dictionary of known words, and predicted edits for others."""

from collections import Counter
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from omkl.features.words import token_features
from omkl.sequences.labeler import SequenceLabeler

#: A labeler, or the only label that there is.
Model: TypeAlias = SequenceLabeler | str
#: Changes of case before a form is cut. The first that needs the least cutting is used.
CASES: dict[str, Callable[[str], str]] = {
    "keep": str,
    "lower": str.lower,
    "upper": str.upper,
    "capital": lambda form: form[:1].upper() + form[1:].lower(),
}
#: Separator in edits and keys; no column of a treebank contains one.
TAB = "\t"
#: Edits of fewer different words are not learned.
LEAST_WORDS = 2


class Learn(Protocol):
    """Training of a labeler on sequences and their labels, None for an unknown one."""

    def __call__(self, X: list, y: list, linked: bool = False) -> SequenceLabeler:
        """Train a labeler; ``linked`` scores transitions."""


def learned(X: list, y: list, learn: Learn, default: str, linked: bool = False) -> Model:
    """Learn labels; ``default`` is the label if all of them are unknown."""
    labels = {label for sequence in y for label in sequence} - {None}
    if len(labels) > 1:
        return learn(X, y, linked)
    return labels.pop() if labels else default


def labels_by(model: Model, X: list) -> list[list[str]]:
    """Predict the labels of sequences."""
    if isinstance(model, str):
        return [[model] * len(x) for x in X]
    return [labels.tolist() for labels in model.predict(X)]


def edit_of(form: str, lemma: str) -> str:
    """Make the edit that turns a form into its lemma: a change of case, and letters cut off and added at both ends.

    The longest common part is kept (Chrupala 2006). Where there is none, the edit is the lemma.

    Parameters
    ----------
    form, lemma : str

    Returns
    -------
    str
        A label for classifiers, read by :func:`apply_edit`.

    >>> apply_edit(edit_of("Went", "go"), "Went"), apply_edit(edit_of("dogs", "dog"), "Cats")
    ('go', 'Cat')
    """
    best: tuple[int, str] | None = None
    for case, change in CASES.items():
        base = change(form)
        match = SequenceMatcher(None, base, lemma, autojunk=False).find_longest_match()
        if match.size == 0:
            continue
        parts = (lemma[: match.b], lemma[match.b + match.size :])
        cuts = (match.a, len(base) - match.a - match.size)
        size = sum(cuts) + sum(map(len, parts))
        if best is None or size < best[0]:
            best = (size, TAB.join((case, str(cuts[0]), parts[0], str(cuts[1]), parts[1])))
    return f"={lemma}" if best is None else best[1]


def apply_edit(edit: str, form: str) -> str:
    """Apply an edit to a form; a form that is too short is its own lemma."""
    if edit.startswith("="):
        return edit[1:]
    case, before, prefix, after, suffix = edit.split(TAB)
    base = CASES[case](form)
    low, high = int(before), len(base) - int(after)
    return prefix + base[low:high] + suffix if low < high else form


class Lemmatizer:
    """Lemmas of words, from their form, tag and morphological features.

    A word of the training data has its most frequent lemma there, by form, tag and features, or by form and tag. For
    other words one classifier per tag predicts the edit, from the ends of the form and the features.

    Attributes
    ----------
    edits : dict of str to SequenceLabeler or str
        Classifier of edits by tag, or its only edit.
    known : dict of str to str
        Lemmas by form, tag and features, joined by tabs, and by form and tag.
    """

    #: The form itself, in the case that it has.
    default = edit_of("as", "as")

    def __init__(self) -> None:
        self.edits: dict[str, Model] = {}
        self.known: dict[str, str] = {}

    def fit(self, words: Iterable[tuple[str, str, str]], lemmas: Iterable[str], learn: Learn) -> "Lemmatizer":
        """Learn from words ``(form, tag, features)`` and their lemmas."""
        counts = Counter(zip(words, lemmas))
        self.known = _most_frequent(counts)
        edits = {(word, lemma): edit_of(word[0], lemma) for word, lemma in counts}
        usual = Counter((tag, edit) for ((_, tag, _), _), edit in edits.items())
        taught: dict[str, tuple[list, list]] = {}
        for ((form, tag, feats), _), edit in edits.items():
            X, y = taught.setdefault(tag, ([], []))
            if usual[tag, edit] >= LEAST_WORDS:
                X.append([lemma_features(form, feats)])
                y.append([edit])
        self.edits = {tag: learned(X, y, learn, self.default) for tag, (X, y) in taught.items()}
        return self

    def predict(self, words: list[tuple[str, str, str]]) -> list[str]:
        """The lemma of each word ``(form, tag, features)``."""
        found: dict[tuple[str, str, str], str] = {}
        unknown: dict[str, list[tuple[str, str, str]]] = {}
        for word in dict.fromkeys(words):
            lemma = self.known.get(TAB.join(word)) or self.known.get(TAB.join(word[:2]))
            if lemma is None:
                unknown.setdefault(word[1], []).append(word)
            else:
                found[word] = lemma
        for tag, own in unknown.items():
            features = [[lemma_features(form, feats)] for form, _, feats in own]
            guessed = labels_by(self.edits.get(tag, self.default), features)
            found.update({word: apply_edit(edit, word[0]) for word, (edit,) in zip(own, guessed)})
        return [found[word] for word in words]


@lru_cache(maxsize=1 << 14)  # a word's features take about two kilobytes
def own_features(form: str) -> dict[str, Any]:
    """Features of a word by itself; the same object for the same word."""
    return {name: value for name, value in token_features([form])[0].items() if "[" not in name}


def lemma_features(form: str, feats: str) -> dict[str, Any]:
    """Features of the lemma of a word: its shape, both ends, and its morphology."""
    own = own_features(form)
    suffixes = {f"suffix{k}|feats": f"{own[f'suffix{k}']}|{feats}" for k in (1, 2, 3, 4)}
    return {**own, "suffix6": form.lower()[-6:], "feats": feats, **suffixes}


def _most_frequent(counts: Counter) -> dict[str, str]:
    """The most frequent lemma of every word, and of its form and tag; the first in the alphabet of equals."""
    votes: dict[str, Counter[str]] = {}
    for (word, lemma), n in counts.items():
        for key in (TAB.join(word), TAB.join(word[:2])):
            votes.setdefault(key, Counter())[lemma] += n
    return {key: min(lemmas, key=lambda lemma: (-lemmas[lemma], lemma)) for key, lemmas in votes.items()}
