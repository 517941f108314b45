"""Tags, morphology and lemmas of words: from words to the columns of a treebank."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.strings import MISSING
from omkl.estimators.by_tag import ByTag
from omkl.estimators.lemmas import TAB, Lemmatizer, own_features
from omkl.estimators.sequence import SequenceLabeler
from omkl.features import BEGIN, END

#: What a tagger can write, in the order in which it does.
COLUMNS = ("upos", "xpos", "feats", "lemmas")


class Tagger:
    """Tags by a chain over the words, then morphology given the tag, then lemmas given both.

    The chain is over UPOS, or over XPOS where there is no UPOS. What is left of XPOS and FEATS is one label, told apart
    among the words of each tag by what they and the tags around them look like. Lemmas are
    :class:`~omkl.estimators.lemmas.Lemmatizer`'s.

    Parameters
    ----------
    columns : sequence of str
        Which of :data:`COLUMNS` are learned and written.
    make_chain, make_labeler : callable
        ``make_chain()`` is an untrained labeler of sentences, ``make_labeler()`` one of words without transitions.

    Attributes
    ----------
    chain : SequenceLabeler or None
    morphology : ByTag or None
    lemmatizer : Lemmatizer or None
    """

    def __init__(
        self, columns: tuple[str, ...], make_chain: Callable[[], SequenceLabeler],
        make_labeler: Callable[[], SequenceLabeler],
    ) -> None:  # fmt: skip
        tags = [name for name in ("upos", "xpos") if name in columns]
        self.tag = tags[0] if tags else None
        self.given_tag = tuple(name for name in ("xpos", "feats") if name in columns and name != self.tag)
        self.chain = make_chain() if self.tag else None
        self.morphology = ByTag(make_labeler, TAB.join([MISSING] * len(self.given_tag))) if self.given_tag else None
        self.lemmatizer = Lemmatizer(make_labeler) if "lemmas" in columns else None

    def fit(self, treebank: Treebank, around: np.ndarray | None = None) -> "Tagger":
        """Learn from the columns of a treebank.

        Parameters
        ----------
        treebank : Treebank
        around : list of str (n_words,), optional
            Tags that a model would give which has not seen the sentence: morphology is learned beside these, as it
            meets such when it predicts. The gold ones by default.
        """
        forms, tags = strings_of(treebank, "forms"), self._tags_of(treebank)
        if self.chain is not None:
            self.chain.fit(sentences_of(forms, treebank.offsets), sentences_of(tags, treebank.offsets))
        if self.morphology is not None:
            labels = list(map(TAB.join, zip(*(strings_of(treebank, name) for name in self.given_tag))))
            features = morphology_features(forms, tags if around is None else around, treebank.offsets)
            self.morphology.fit({
                tag: ([[features[i] for i in run] for run in runs], [[labels[i] for i in run] for run in runs])
                for tag, runs in runs_of(tags, treebank.offsets).items()
            })  # fmt: skip
        if self.lemmatizer is not None:
            self.lemmatizer.fit(self._words(treebank, forms, tags), strings_of(treebank, "lemmas"))
        return self

    def annotate(self, treebank: Treebank) -> Treebank:
        """The same sentences with the columns that this tagger writes; what they have in them is not looked at."""
        forms, tags = strings_of(treebank, "forms"), [""] * treebank.n_words
        if self.chain is not None:
            found = self.chain.predict(sentences_of(forms, treebank.offsets))
            tags = np.concatenate(found).tolist()
            treebank = with_column(treebank, self.tag, tags)
        if self.morphology is not None:
            features = morphology_features(forms, tags, treebank.offsets)
            labels = np.empty(len(forms), dtype=object)
            for tag, runs in runs_of(tags, treebank.offsets).items():
                predicted = self.morphology.predict(tag, [[features[i] for i in run] for run in runs])
                labels[np.concatenate(runs)] = [label for own in predicted for label in own]
            for name, column in zip(self.given_tag, zip(*(label.split(TAB) for label in labels))):
                treebank = with_column(treebank, name, list(column))
        if self.lemmatizer is not None:
            lemmas = self.lemmatizer.predict(self._words(treebank, forms, tags))
            treebank = with_column(treebank, "lemmas", lemmas)
        return treebank

    def _tags_of(self, treebank: Treebank) -> list[str]:
        return [""] * treebank.n_words if self.tag is None else strings_of(treebank, self.tag)

    def _words(self, treebank: Treebank, forms: list[str], tags: list[str]) -> list[tuple[str, str, str]]:
        """What lemmas are learned of: form, tag and morphological features."""
        feats = strings_of(treebank, "feats") if "feats" in self.given_tag else [""] * len(forms)
        return list(zip(forms, tags, feats))

    def parts(self) -> dict[str, Any]:
        """The labelers by name, and the labels of those tags whose words have one label only."""
        parts: dict[str, Any] = {} if self.chain is None else {str(self.tag): self.chain}
        for what, by_tag in (("+".join(self.given_tag), self.morphology), ("lemmas", self.lemmatizer)):
            by_tag = by_tag.edits if isinstance(by_tag, Lemmatizer) else by_tag
            if by_tag is not None:
                parts |= {f"{what} of {tag}" if tag else what: part for tag, part in by_tag.labelers.items()}
        return parts


def strings_of(treebank: Treebank, name: str) -> list[str]:
    """A column of all words as a list of strings."""
    return np.array(treebank.strings[name].tolist(), dtype=object)[getattr(treebank, name)].tolist()


def with_column(treebank: Treebank, name: str | None, values: list[str]) -> Treebank:
    """A treebank with other strings in a column."""
    strings = Strings()
    codes = strings.codes(values, grow=True)
    return replace(treebank, **{str(name): codes}, strings={**treebank.strings, str(name): strings})


def sentences_of(values: list[str], offsets: np.ndarray) -> list[list[str]]:
    """A list for each sentence, of one for all words."""
    bounds = offsets.tolist()
    return [values[low:high] for low, high in zip(bounds[:-1], bounds[1:])]


def runs_of(tags: list[str], offsets: np.ndarray) -> dict[str, list[np.ndarray]]:
    """For each tag, the words that have it, sentence by sentence, as int arrays; sentences without it are left out."""
    names, codes = np.unique(np.array(tags, dtype=object), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    sentences = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    runs = {}
    for name, own in zip(names.tolist(), np.split(order, np.cumsum(np.bincount(codes))[:-1])):
        runs[name] = np.split(own, np.flatnonzero(np.diff(sentences[own])) + 1)
    return runs


def morphology_features(forms: list[str], tags: list[str], offsets: np.ndarray) -> list[dict[str, Any]]:
    """Features of every word to tell its morphology from: its own, its neighbours', and the tags around it."""
    features: list[dict[str, Any]] = []
    for words, own in zip(sentences_of(forms, offsets), sentences_of(tags, offsets)):
        words, own = [BEGIN, *words, END], [BEGIN, BEGIN, *own, END, END]
        for i in range(1, len(words) - 1):
            b2, b1, _, a1, a2 = own[i - 1 : i + 4]
            before, after = words[i - 1].lower(), words[i + 1].lower()
            features.append({
                **own_features(words[i]), "lower[-1]": before, "lower[+1]": after, "suffix3[-1]": before[-3:],
                "suffix3[+1]": after[-3:], "tag[-1]": b1, "tag[+1]": a1, "tag[-2,-1]": f"{b2}|{b1}",
                "tag[+1,+2]": f"{a1}|{a2}", "tag[-1,+1]": f"{b1}|{a1}",
            })  # fmt: skip
    return features
