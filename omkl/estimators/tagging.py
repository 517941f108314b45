"""Tags, morphology and lemmas of words: from words to the columns of a treebank."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.strings import MISSING
from omkl.estimators.by_tag import ByTag
from omkl.estimators.lemmas import TAB, Lemmatizer, own_features
from omkl.estimators.sequence import SequenceLabeler
from omkl.features import BEGIN, END
from omkl.persistence import Packer

#: What a tagger can write, in the order in which it does.
COLUMNS = ("upos", "xpos", "feats", "lemmas")


class StoppedError(Exception):
    """Raised where a labeler begins to learn after a callback has ended all training."""


class Tagger:
    """Tags by a chain over the words, then morphology given the tag, then lemmas given both.

    The chain is over UPOS, or over XPOS where there is no UPOS. What is left of XPOS and FEATS is one label, told apart
    among the words of each tag by what they and the tags around them look like. Lemmas are
    :class:`~omkl.estimators.lemmas.Lemmatizer`'s.

    Parameters
    ----------
    columns : sequence of str
        Which of :data:`COLUMNS` are learned and written.

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
        self, treebank: Treebank, learn: Callable[..., SequenceLabeler], around: list[str] | None = None
    ) -> "Tagger":  # fmt: skip
        """Learn from the columns of a treebank.

        Parameters
        ----------
        treebank : Treebank
        learn : callable
            ``learn(X, y, chain=True)`` is a labeler that has learned from sentences and their labels,
            ``learn(X, y, chain=False)`` one without transitions.
        around : list of str (n_words,), optional
            Tags that a model would give which has not seen the sentence: morphology is learned beside these, as it
            meets such when it predicts. The gold ones by default.

        A word without a tag is not annotated: the chain learns from the others around it, nothing is learned of its
        morphology. Nor is anything of a lemma that is not there; features that are not there are what words have none
        of. Where a labeler raises :class:`StoppedError`, the columns are those that were learned to the end.
        """
        forms, tags = strings_of(treebank, "forms"), self._tags_of(treebank)
        learned: list[str] = []
        try:
            if self.chain is not None:
                gold: list[Any] = [None if tag == MISSING else tag for tag in tags]
                sentences = by_sentence(forms, treebank.offsets), by_sentence(gold, treebank.offsets)
                self.chain.fit([("", *sentences)], partial(learn, chain=True))
                learned.append(str(self.tag))
            if self.morphology is not None:
                taught = self._morphology_of(treebank, forms, tags, tags if around is None else around)
                self.morphology.fit(taught, partial(learn, chain=False))
                learned += self.given_tag
            if self.lemmatizer is not None:
                self.lemmatizer.fit(*self._lemmas_of(treebank, forms, tags), partial(learn, chain=False))
        except StoppedError:
            self.columns = tuple(learned)
            self.given_tag = tuple(name for name in self.given_tag if name in learned)
            self.morphology, self.lemmatizer = self.morphology if self.given_tag else None, None
        return self

    def _morphology_of(
        self, treebank: Treebank, forms: list[str], tags: list[str], around: list[str]
    ) -> Iterator[tuple[str, list, list]]:
        """For every tag what morphology is learned from: words beside the tags around, and what tags do not say."""
        labels = list(map(TAB.join, zip(*(strings_of(treebank, name) for name in self.given_tag))))
        surroundings = Surroundings(forms, around, treebank.offsets)
        for tag, runs in runs_of(tags, treebank.offsets).items():
            if tag != MISSING:
                yield tag, surroundings.features(runs), [[labels[i] for i in run] for run in runs]

    def _lemmas_of(
        self, treebank: Treebank, forms: list[str], tags: list[str]
    ) -> tuple[list[tuple[str, str, str]], list[str]]:
        """Words beside their gold tags and features, and their lemmas, where there are some."""
        words, lemmas = self._words(treebank, forms, tags), strings_of(treebank, "lemmas")
        known = [
            (word, lemma) for word, lemma in zip(words, lemmas)
            if word[1] != MISSING and (lemma != MISSING or word[0] == MISSING)
        ]  # fmt: skip
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
        found = chains[0].nbest_with_probabilities(by_sentence(strings_of(treebank, "forms"), treebank.offsets), n)
        owners = np.repeat(np.arange(len(treebank)), [len(own) for own in found])
        tags = [tag for own in found for labels, _ in own for tag in labels.tolist()]
        repeated = treebank[owners]
        scores = np.array([score for own in found for _, score in own])
        return self._beside(repeated, strings_of(repeated, "forms"), tags), owners, scores

    def _beside(self, treebank: Treebank, forms: list[str], tags: list[str]) -> Treebank:
        """A treebank with these tags, and what is learned beside tags."""
        if self.chain is not None:
            treebank = with_column(treebank, str(self.tag), tags)
        if self.morphology is not None:
            surroundings = Surroundings(forms, tags, treebank.offsets)
            labels = [""] * len(forms)
            for tag, runs in runs_of(tags, treebank.offsets).items():
                predicted = self.morphology.predict(tag, surroundings.features(runs))
                for run, own in zip(runs, predicted):
                    for i, label in zip(run, own):
                        labels[i] = label
            for name, column in zip(self.given_tag, zip(*(label.split(TAB) for label in labels))):
                treebank = with_column(treebank, name, list(column))
        if self.lemmatizer is not None:
            lemmas = self.lemmatizer.predict(self._words(treebank, forms, tags))
            treebank = with_column(treebank, "lemmas", lemmas)
        return treebank

    @property
    def chains(self) -> list[SequenceLabeler]:
        """The chain over tags, if it has more than one to choose from."""
        labelers = [] if self.chain is None else self.chain.labelers.values()
        return [labeler for labeler in labelers if not isinstance(labeler, str)]

    def calibrate(self, gold: Treebank) -> None:
        """Make probabilities of the scores of tags; ``gold`` has not been learned from."""
        for chain in self.chains:
            columns = (strings_of(gold, "forms"), self._tags_of(gold))
            chain.calibrate(*(by_sentence(column, gold.offsets) for column in columns))

    def confidence(self, annotated: Treebank) -> list[float]:
        """The probability of each tag that the chain has given."""
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
        """What lemmas are learned of: form, tag and morphological features."""
        feats = strings_of(treebank, "feats") if "feats" in self.given_tag else [""] * len(forms)
        return list(zip(forms, tags, feats))

    def _by_tag(self) -> dict[str, ByTag]:
        """What is learned by classifiers, by the columns that it tells."""
        named = {str(self.tag): self.chain, "+".join(self.given_tag): self.morphology}
        named["lemmas"] = None if self.lemmatizer is None else self.lemmatizer.edits
        return {name: by_tag for name, by_tag in named.items() if by_tag is not None}

    def models(self) -> dict[str, SequenceLabeler]:
        """The labelers by name: ``"upos"``, ``"xpos+feats of NOUN"``."""
        return {
            _name_of(what, tag): model
            for what, by_tag in self._by_tag().items() for tag, model in by_tag.labelers.items()
            if not isinstance(model, str)
        }  # fmt: skip

    def describe(self, packer: Packer) -> dict[str, Any]:
        """JSON values of all but the labelers; arrays go to the packer."""
        known = {} if self.lemmatizer is None else self.lemmatizer.known
        text = "\n".join(f"{key}\r{lemma}" for key, lemma in known.items())
        packer.arrays["lemmas"] = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        tags = {what: list(by_tag.labelers) for what, by_tag in self._by_tag().items()}
        fixed = {
            what: {tag: label for tag, label in by_tag.labelers.items() if isinstance(label, str)}
            for what, by_tag in self._by_tag().items()
        }
        return {"columns": list(self.columns), "tags": tags, "fixed": fixed}

    def restore(
        self, values: dict[str, Any], arrays: dict[str, np.ndarray], models: dict[str, SequenceLabeler]
    ) -> None:
        """The inverse of :meth:`describe`, beside the :meth:`models`."""
        for what, by_tag in self._by_tag().items():
            fixed = values["fixed"][what]
            by_tag.labelers = {tag: fixed[tag] if tag in fixed else models[_name_of(what, tag)]
                               for tag in values["tags"][what]}  # fmt: skip
        text = arrays["lemmas"].tobytes().decode("utf-8", "surrogatepass")
        if self.lemmatizer is not None:
            self.lemmatizer.known = dict(line.split("\r") for line in text.split("\n")) if text else {}


def _name_of(what: str, tag: str) -> str:
    return f"{what} of {tag}" if tag else what


def strings_of(treebank: Treebank, name: str) -> list[str]:
    """A column of all words as a list of strings."""
    return np.array(treebank.strings[name].tolist(), dtype=object)[getattr(treebank, name)].tolist()


def with_column(treebank: Treebank, name: str, values: list[str]) -> Treebank:
    """A treebank with other strings in a column."""
    strings = Strings()
    return treebank.with_column(name, strings.codes(values, grow=True), strings)


def by_sentence(values: list[Any], offsets: np.ndarray) -> list[list[Any]]:
    """A list for each sentence, of one for all words."""
    return [values[low:high] for low, high in pairwise(offsets.tolist())]


def runs_of(tags: list[str], offsets: np.ndarray) -> dict[str, list[list[int]]]:
    """For each tag, the words that have it, sentence by sentence; sentences without it are left out."""
    runs: dict[str, list[list[int]]] = {}
    for low, high in pairwise(offsets.tolist()):
        own: dict[str, list[int]] = {}
        for i in range(low, high):
            own.setdefault(tags[i], []).append(i)
        for tag, run in own.items():
            runs.setdefault(tag, []).append(run)
    return runs


class Surroundings:
    """What the morphology of words is told from: their own forms, their neighbours', and the tags around them.

    Features are made of some words at a time, since those of a word take kilobytes.
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
            **own_features(self._forms[i]), "lower[-1]": before, "lower[+1]": after, "suffix3[-1]": before[-3:],
            "suffix3[+1]": after[-3:], "tag[-1]": b1, "tag[+1]": a1, "tag[-2,-1]": f"{b2}|{b1}",
            "tag[+1,+2]": f"{a1}|{a2}", "tag[-1,+1]": f"{b1}|{a1}",
        }  # fmt: skip
