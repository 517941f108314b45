"""Tagger: tags, morphology and lemmas of words."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from omkl.annotation.labelers import ByTag, Learn
from omkl.annotation.lemmatizer import TAB, Lemmatizer, own_features
from omkl.data import Treebank
from omkl.data.treebank.strings import MISSING
from omkl.features.words import BEGIN, END
from omkl.parsing.sentences import strings_of, with_strings
from omkl.persistence import Packer
from omkl.sequences.labeler import SequenceLabeler

#: Columns that a tagger can write, in order.
COLUMNS = ("upos", "xpos", "feats", "lemmas")


class StoppedError(Exception):
    """Raised where a model begins to learn after a callback has ended all training."""


class Tagger:
    """Tags by a chain over the words, then morphology given the tag, then lemmas given both.

    The chain is over UPOS, or over XPOS where there is no UPOS. The rest of XPOS and FEATS is one label, predicted
    for the words of each tag from their forms and the tags around them.

    Parameters
    ----------
    columns : sequence of str
        Those of :data:`COLUMNS` to learn and write.

    Attributes
    ----------
    chain, morphology : ByTag or None
    lemmatizer : Lemmatizer or None
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        tags = [name for name in ("upos", "xpos") if name in columns]
        self.tag = tags[0] if tags else None
        self.given_tag = tuple(name for name in ("xpos", "feats") if name in columns and name != self.tag)
        self.chain = ByTag(MISSING) if self.tag else None
        self.morphology = ByTag(TAB.join([MISSING] * len(self.given_tag))) if self.given_tag else None
        self.lemmatizer = Lemmatizer() if "lemmas" in columns else None

    def fit(
        self, treebank: Treebank, learn_chain: Learn, learn_words: Learn, around: list[str] | None = None
    ) -> "Tagger":
        """Learn from the columns of a treebank.

        Nothing is learned of a missing lemma, nor of the morphology of a word without a tag.

        Parameters
        ----------
        treebank : Treebank
        learn_chain : callable
            ``learn_chain(X, y)`` is a labeler trained on sentences.
        learn_words : callable
            The same for labelers without transitions.
        around : list of str (n_words,), optional
            Tags of a model that has not seen the sentence, as context for morphology; the gold ones by default.

        Returns
        -------
        self
            With the columns learned to the end, where :class:`StoppedError` is raised in between.
        """
        forms, tags = strings_of(treebank, "forms"), self._tags_of(treebank)
        learned: list[str] = []
        try:
            if self.chain is not None:
                gold = [None if tag == MISSING else tag for tag in tags]
                self.chain.fit(
                    [("", by_sentence(forms, treebank.offsets), by_sentence(gold, treebank.offsets))], learn_chain
                )
                learned.append(str(self.tag))
            if self.morphology is not None:
                context = tags if around is None else around
                self.morphology.fit(self._morphology_of(treebank, forms, tags, context), learn_words)
                learned += self.given_tag
            if self.lemmatizer is not None:
                self.lemmatizer.fit(*self._lemmas_of(treebank, forms, tags), learn_words)
        except StoppedError:
            self.columns = tuple(learned)
            self.given_tag = tuple(name for name in self.given_tag if name in learned)
            self.morphology, self.lemmatizer = self.morphology if self.given_tag else None, None
        return self

    def _morphology_of(
        self, treebank: Treebank, forms: list[str], tags: list[str], around: list[str]
    ) -> Iterator[tuple[str, list, list]]:
        """Training data of morphology for each tag: features of words, and the rest of their tags."""
        labels = list(map(TAB.join, zip(*(strings_of(treebank, name) for name in self.given_tag))))
        surroundings = Surroundings(forms, around, treebank.offsets)
        for tag, runs in runs_of(tags, treebank.offsets).items():
            if tag != MISSING:
                yield tag, surroundings.features(runs), [[labels[i] for i in run] for run in runs]

    def _lemmas_of(
        self, treebank: Treebank, forms: list[str], tags: list[str]
    ) -> tuple[list[tuple[str, str, str]], list[str]]:
        """Words with their gold tags and features, and their lemmas, where these are annotated."""
        words, lemmas = self._words(treebank, forms, tags), strings_of(treebank, "lemmas")
        known = [
            (word, lemma)
            for word, lemma in zip(words, lemmas)
            if word[1] != MISSING and (lemma != MISSING or word[0] == MISSING)
        ]
        return [word for word, _ in known], [lemma for _, lemma in known]

    def annotate(self, treebank: Treebank) -> Treebank:
        """The same sentences with the columns that this tagger writes; what they have in them is not looked at."""
        forms, tags = strings_of(treebank, "forms"), [""] * treebank.n_words
        if self.chain is not None:
            found = self.chain.predict("", by_sentence(forms, treebank.offsets))
            tags = [tag for sentence in found for tag in sentence]
        return self._beside(treebank, forms, tags)

    def nbest(self, treebank: Treebank, n: int) -> tuple[Treebank, np.ndarray, np.ndarray]:
        """The n likeliest annotations of each sentence.

        Returns
        -------
        treebank : Treebank
            The sentences, each as often as it has annotations.
        owners : int array
            Which of the sentences each is.
        scores : array
            Logarithms of the probabilities of their tags.
        """
        chains = self.chains
        if not chains:
            return self.annotate(treebank), np.arange(len(treebank)), np.zeros(len(treebank))
        found = chains[0]._likeliest(by_sentence(strings_of(treebank, "forms"), treebank.offsets), n)
        owners = np.repeat(np.arange(len(treebank)), [len(own) for own in found])
        tags = [tag for own in found for labels, _ in own for tag in labels.tolist()]
        repeated = treebank[owners]
        scores = np.array([score for own in found for _, score in own])
        return self._beside(repeated, strings_of(repeated, "forms"), tags), owners, scores

    def _beside(self, treebank: Treebank, forms: list[str], tags: list[str]) -> Treebank:
        """A treebank with these tags, and the morphology and lemmas predicted from them."""
        if self.chain is not None:
            treebank = with_strings(treebank, str(self.tag), tags)
        if self.morphology is not None:
            surroundings = Surroundings(forms, tags, treebank.offsets)
            labels = [""] * len(forms)
            for tag, runs in runs_of(tags, treebank.offsets).items():
                predicted = self.morphology.predict(tag, surroundings.features(runs))
                for run, own in zip(runs, predicted):
                    for i, label in zip(run, own):
                        labels[i] = label
            for name, column in zip(self.given_tag, zip(*(label.split(TAB) for label in labels))):
                treebank = with_strings(treebank, name, list(column))
        if self.lemmatizer is not None:
            lemmas = self.lemmatizer.predict(self._words(treebank, forms, tags))
            treebank = with_strings(treebank, "lemmas", lemmas)
        return treebank

    @property
    def chains(self) -> list[SequenceLabeler]:
        """The chain over tags; empty where there is no more than one tag."""
        labelers = [] if self.chain is None else self.chain.labelers.values()
        return [labeler for labeler in labelers if not isinstance(labeler, str)]

    def calibrate(self, gold: Treebank) -> None:
        """Calibrate the probabilities of tags on sentences that the tagger has not learned from."""
        for chain in self.chains:
            columns = (strings_of(gold, "forms"), self._tags_of(gold))
            chain.calibrate(*(by_sentence(column, gold.offsets) for column in columns))

    def confidence(self, annotated: Treebank) -> list[float]:
        """Probability of each predicted tag."""
        confidence = np.ones(annotated.n_words)
        for chain in self.chains:
            column = {tag: k for k, tag in enumerate(chain.classes_.tolist())}
            words = by_sentence(strings_of(annotated, "forms"), annotated.offsets)
            marginals = np.concatenate(chain.predict_marginals(words))
            codes = [column[tag] for tag in self._tags_of(annotated)]
            confidence = marginals[np.arange(len(codes)), codes]
        return confidence.tolist()

    def _tags_of(self, treebank: Treebank) -> list[str]:
        return [""] * treebank.n_words if self.tag is None else strings_of(treebank, self.tag)

    def _words(self, treebank: Treebank, forms: list[str], tags: list[str]) -> list[tuple[str, str, str]]:
        """Form, tag and morphological features of each word, from which lemmas are predicted."""
        feats = strings_of(treebank, "feats") if "feats" in self.given_tag else [""] * len(forms)
        return list(zip(forms, tags, feats))

    def _by_tag(self) -> dict[str, ByTag]:
        """Labelers by the columns that they predict."""
        named = {str(self.tag): self.chain, "+".join(self.given_tag): self.morphology}
        named["lemmas"] = None if self.lemmatizer is None else self.lemmatizer.edits
        return {name: by_tag for name, by_tag in named.items() if by_tag is not None}

    def models(self) -> dict[str, SequenceLabeler]:
        """The labelers by name: ``"upos"``, ``"xpos+feats of NOUN"``."""
        return {
            _name_of(columns, tag): model
            for columns, by_tag in self._by_tag().items()
            for tag, model in by_tag.labelers.items()
            if not isinstance(model, str)
        }

    def describe(self, packer: Packer) -> dict[str, Any]:
        """JSON values of a model file, without the labelers; arrays go to the packer."""
        known = {} if self.lemmatizer is None else self.lemmatizer.known
        text = "\n".join(f"{key}\r{lemma}" for key, lemma in known.items())
        packer.arrays["lemmas"] = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        tags = {columns: list(by_tag.labelers) for columns, by_tag in self._by_tag().items()}
        fixed = {
            columns: {tag: label for tag, label in by_tag.labelers.items() if isinstance(label, str)}
            for columns, by_tag in self._by_tag().items()
        }
        return {"columns": list(self.columns), "tags": tags, "fixed": fixed}

    def restore(
        self, values: dict[str, Any], arrays: dict[str, np.ndarray], models: dict[str, SequenceLabeler]
    ) -> None:
        """The inverse of :meth:`describe`, given the :meth:`models`."""
        for columns, by_tag in self._by_tag().items():
            fixed = values["fixed"][columns]
            by_tag.labelers = {
                tag: fixed[tag] if tag in fixed else models[_name_of(columns, tag)] for tag in values["tags"][columns]
            }
        text = arrays["lemmas"].tobytes().decode("utf-8", "surrogatepass")
        if self.lemmatizer is not None:
            self.lemmatizer.known = dict(line.split("\r") for line in text.split("\n")) if text else {}


def _name_of(columns: str, tag: str) -> str:
    return f"{columns} of {tag}" if tag else columns


def by_sentence(values: list[Any], offsets: np.ndarray) -> list[list[Any]]:
    """Split a list over all words into one for each sentence."""
    return [values[low:high] for low, high in pairwise(offsets.tolist())]


def runs_of(tags: list[str], offsets: np.ndarray) -> dict[str, list[list[int]]]:
    """Indices of the words of each tag, by sentence; sentences without the tag are left out."""
    runs: dict[str, list[list[int]]] = {}
    for low, high in pairwise(offsets.tolist()):
        own: dict[str, list[int]] = {}
        for i in range(low, high):
            own.setdefault(tags[i], []).append(i)
        for tag, run in own.items():
            runs.setdefault(tag, []).append(run)
    return runs


class Surroundings:
    """Features of morphology: the forms of words and their neighbours, and the tags around them.

    They are made on demand, since those of a word take kilobytes.
    """

    def __init__(self, forms: list[str], tags: list[str], offsets: np.ndarray) -> None:
        self._lower: list[str] = []
        self._tags: list[str] = []
        for words, own in zip(by_sentence(forms, offsets), by_sentence(tags, offsets)):
            self._lower += [BEGIN, BEGIN, *map(str.lower, words), END, END]
            self._tags += [BEGIN, BEGIN, *own, END, END]
        self._forms = forms
        self._places = (
            np.arange(len(forms)) + 4 * np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) + 2
        ).tolist()

    def features(self, runs: list[list[int]]) -> list[list[dict[str, Any]]]:
        """Features of words, sequence by sequence."""
        return [list(map(self._of_word, run)) for run in runs]

    def _of_word(self, i: int) -> dict[str, Any]:
        at = self._places[i]
        b2, b1, _, a1, a2 = self._tags[at - 2 : at + 3]
        before, after = self._lower[at - 1], self._lower[at + 1]
        return {
            **own_features(self._forms[i]),
            "lower[-1]": before,
            "lower[+1]": after,
            "suffix3[-1]": before[-3:],
            "suffix3[+1]": after[-3:],
            "tag[-1]": b1,
            "tag[+1]": a1,
            "tag[-2,-1]": f"{b2}|{b1}",
            "tag[+1,+2]": f"{a1}|{a2}",
            "tag[-1,+1]": f"{b1}|{a1}",
        }
