"""Tagger, which predicts tags, morphology and lemmas of words, and the Lemmatizer that it uses."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from omkl.annotation.edits import TAB, apply_edit, edit_of
from omkl.data import Treebank
from omkl.data.treebank.strings import MISSING
from omkl.features import _jit_words as jit
from omkl.features.lexicons import Lexicon, pack_lexicons, unpack_lexicons
from omkl.features.vocabulary import NUMBER
from omkl.features.words import BEGIN, END, TEMPLATES, lexicon_templates
from omkl.parsing.sentences import strings_of
from omkl.persistence import Arrays, Manifest, Packer, pack_json, unpack_json
from omkl.sequences.labeler import SequenceLabeler

#: A labeler, or the label if there is only one.
Model: TypeAlias = SequenceLabeler | str
#: Function that trains a labeler; see
#: :meth:`omkl.annotation.training.TrainingSequence.fit_labeler`.
Learn: TypeAlias = Callable[..., SequenceLabeler]
Word = TypeVar("Word")
Result = TypeVar("Result")
#: Features of a word without context.
OWN = [template for template in TEMPLATES if template.offsets == (0,)]
OWN_KEYS = tuple(template.name for template in OWN)
LEMMA_KEYS = (*OWN_KEYS, "suffix6", "feats", *(f"suffix{k}|feats" for k in (1, 2, 3, 4)))
#: Minimum number of distinct words for an edit to be learned.
LEAST_WORDS = 2


def learned(
    X: list, y: list, learn: Learn, default: str, linked: bool = False, weighting: str | None = None
) -> Model:
    """Train a labeler, or return the only label, or ``default`` if all labels are unknown."""
    labels = {label for sequence in y for label in sequence} - {None}
    if len(labels) > 1:
        return learn(X, y, linked, weighting)
    return labels.pop() if labels else default


def labels_by(
    model: Model, keys: Sequence[str], words: Collection, values_of: Callable[[Any], tuple]
) -> list[str]:
    """Predict the labels of single words, given the values of the keys of their features."""
    if isinstance(model, str):
        return [model] * len(words)
    ids = _feature_ids(model, keys, words, values_of)
    codes = np.empty(len(words), np.int64)
    jit.best_labels(ids, _weights_of(model), codes)
    return model.classes_[codes].tolist()


def best_results(
    model: Model,
    keys: Sequence[str],
    words: Sequence[Word],
    values_of: Callable[[Word], tuple],
    apply: Callable[[str, Word], Result | None],
) -> list[Result | None]:
    """Apply to each word the best of the labels that can be applied to it.

    Parameters
    ----------
    model, keys, words, values_of
        As for :func:`labels_by`.
    apply : callable
        ``apply(label, word)`` returns None if the label cannot be applied to the word.

    Returns
    -------
    list
        The result for each word; None if no label can be applied.
    """
    labels = labels_by(model, keys, words, values_of)
    results = [apply(label, word) for label, word in zip(labels, words)]
    if isinstance(model, str):
        return results
    weights = _weights_of(model)
    refused = [i for i, result in enumerate(results) if result is None]
    ids_of_refused = _feature_ids(model, keys, [words[i] for i in refused], values_of)
    for i, ids in zip(refused, ids_of_refused):
        scores = weights[ids[ids >= 0]].sum(axis=0, dtype=np.float64)
        ranking = model.classes_[np.argsort(-scores, kind="stable")].tolist()
        candidates = (apply(label, words[i]) for label in ranking)
        results[i] = next((result for result in candidates if result is not None), None)
    return results


def _weights_of(model: SequenceLabeler) -> np.ndarray:
    """Return the weights of the features of single words, (n_features, n_labels)."""
    return model.model_.predictor().banks[0].table


def _feature_ids(
    model: SequenceLabeler,
    keys: Sequence[str],
    words: Collection,
    values_of: Callable[[Any], tuple],
) -> np.ndarray:
    """Look up the features of words, (n_words, n_keys) int32; -1 is an unknown feature."""
    vocabulary = model.model_.codec.encoder.vocabulary
    lookups = [vocabulary.ids.get(key, {}).get for key in keys]
    ids = (look_up(value, -1) for word in words for look_up, value in zip(lookups, values_of(word)))
    return np.fromiter(ids, np.int32).reshape(len(words), len(keys))


def name_of(columns: str, tag: str) -> str:
    """Return the name of the model of some columns of the words with a tag, which is empty if there
    are no tags.
    """
    return f"{columns} of {tag}" if tag else columns


class Lemmatizer:
    """Predictor of the lemmas of words, given form, tag and morphological features.

    Known words get their most frequent lemma in the training data, by form, tag and features, or by
    form and tag. For other words, one classifier per tag predicts an edit from the ends of the form
    and the features.

    Parameters
    ----------
    named : dict of str to SequenceLabeler or str, optional
        Where to keep the classifiers of edits, or the only edits, by name: ``"lemmas of NOUN"``.

    Attributes
    ----------
    known : dict of str to str
        Lemmas by form, tag and features, and by form and tag; parts of keys are joined by tabs.
    """

    #: The edit that keeps the form.
    default = edit_of("as", "as")

    def __init__(self, named: dict[str, Model] | None = None) -> None:
        self.named: dict[str, Model] = {} if named is None else named
        self.known: dict[str, str] = {}

    def fit(
        self, examples: Iterable[tuple[tuple[str, str, str], str]], learn: Learn
    ) -> "Lemmatizer":
        """Train on pairs of a word ``(form, tag, features)`` and its lemma."""
        counts = Counter(examples)
        votes: dict[str, Counter[str]] = {}
        for (word, lemma), n in counts.items():
            for key in (TAB.join(word), TAB.join(word[:2])):
                votes.setdefault(key, Counter())[lemma] += n
        # the most frequent lemma; ties are broken alphabetically
        self.known = {
            key: min(own, key=lambda lemma: (-own[lemma], lemma)) for key, own in votes.items()
        }
        edits = {(word, lemma): edit_of(word[0], lemma) for word, lemma in counts}
        usual = Counter((tag, edit) for ((_, tag, _), _), edit in edits.items())
        taught: dict[str, tuple[list, list]] = {}
        for ((form, tag, feats), _), edit in edits.items():
            X, y = taught.setdefault(tag, ([], []))
            if usual[tag, edit] >= LEAST_WORDS:
                X.append([as_dict(LEMMA_KEYS, lemma_values((form, tag, feats)))])
                y.append([edit])
        for tag, (X, y) in taught.items():
            self.named[name_of("lemmas", tag)] = learned(X, y, learn, self.default)
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
            model = self.named.get(name_of("lemmas", tag), self.default)
            lemmas = best_results(model, LEMMA_KEYS, own, lemma_values, _lemma_by)
            found.update(
                {word: word[0] if lemma is None else lemma for word, lemma in zip(own, lemmas)}
            )
        return [found[word] for word in words]


def _lemma_by(edit: str, word: tuple[str, str, str]) -> str | None:
    """Apply an edit to the form of a word; see :func:`apply_edit`."""
    return apply_edit(edit, word[0])


@lru_cache(maxsize=1 << 14)  # about two kilobytes per word
def own_values(form: str) -> tuple:
    """Return the values of :data:`OWN_KEYS` of a word: strings, NUMBER for True, and False."""
    return tuple(NUMBER if value is True else value for value in (of(form) for _, of, _ in OWN))


def lemma_values(word: tuple[str, str, str]) -> tuple:
    """Return the values of :data:`LEMMA_KEYS` of a word ``(form, tag, features)``: shape, both
    ends, and morphology.
    """
    form, _, feats = word
    lower = form.lower()
    return (*own_values(form), lower[-6:], feats, *(f"{lower[-k:]}|{feats}" for k in (1, 2, 3, 4)))


def as_dict(keys: Sequence[str], values: tuple) -> dict[str, str | bool]:
    """Return the features of a word as a dict, to train a labeler."""
    return {key: True if value is NUMBER else value for key, value in zip(keys, values)}


# ---- tags, morphology and lemmas -----------------------------------------------------------------

#: Columns that a tagger can predict, in order.
COLUMNS = ("upos", "xpos", "feats", "lemmas")
#: Keys of the features for morphology.
KEYS = (*OWN_KEYS, "lower[-1]", "lower[+1]", "suffix3[-1]", "suffix3[+1]")
KEYS += ("tag[-1]", "tag[+1]", "tag[-2,-1]", "tag[+1,+2]", "tag[-1,+1]")


class Tagger:
    """Predictor of tags by a chain model, morphology given the tag, and lemmas given both.

    The tags of the chain are UPOS, or XPOS if there is no UPOS. XPOS (if it is not the tag) and
    FEATS are combined to one label. For each tag, a labeler predicts it from the forms of words and
    the tags around them.

    Parameters
    ----------
    columns : sequence of str
        Columns to predict, from :data:`COLUMNS`.
    lexicons : mapping of str to Lexicon, optional
        Lexicons for morphology; the labeler of tags has its own parameter.

    Attributes
    ----------
    tag : str or None
        Column of the chain.
    named : dict of str to SequenceLabeler or str
        Labelers, or the only labels, by name: ``"upos"`` for tags, ``"xpos+feats of NOUN"`` and
        ``"lemmas of NOUN"``.
    lemmatizer : Lemmatizer or None
    """

    def __init__(
        self, columns: tuple[str, ...], lexicons: Mapping[str, Lexicon] | None = None
    ) -> None:
        self.columns = columns
        self.lexicons = dict(lexicons or {})
        self.tag = next((name for name in ("upos", "xpos") if name in columns), None)
        self.given_tag = tuple(
            name for name in ("xpos", "feats") if name in columns and name != self.tag
        )
        #: Label of words whose tag did not occur in training.
        self._no_morphology = TAB.join([MISSING] * len(self.given_tag))
        self.named: dict[str, Model] = {}
        self.lemmatizer = Lemmatizer(self.named) if "lemmas" in columns else None

    def fit(self, treebank: Treebank, learn: Learn, around: list[str] | None = None) -> "Tagger":
        """Train on the columns of a treebank.

        Missing lemmas, and the morphology of words without a tag, are ignored.

        Parameters
        ----------
        treebank : Treebank
        learn : Learn
            Trains a labeler.
        around : list of str (n_words,), optional
            Cross-fitted tags, as context for morphology; the gold tags by default.

        Returns
        -------
        self
        """
        forms, tags = strings_of(treebank, "forms"), self._tags_of(treebank)
        if self.tag is not None:
            gold = [None if tag == MISSING else tag for tag in tags]
            X, y = by_sentence(forms, treebank.offsets), by_sentence(gold, treebank.offsets)
            self.named[self.tag] = learned(X, y, learn, MISSING, linked=True)
        if self.given_tag:
            labels = list(
                map(TAB.join, zip(*(strings_of(treebank, name) for name in self.given_tag)))
            )
            keys, values = self._in_context(
                forms, tags if around is None else around, treebank.offsets
            )
            for tag, runs in runs_of(tags, treebank.offsets).items():
                if tag != MISSING:
                    X = [[as_dict(keys, values(i)) for i in run] for run in runs]
                    y = [[labels[i] for i in run] for run in runs]
                    # if all words of a tag but a few have one label, "out-of-sample" keeps a group
                    # by chance
                    name = name_of("+".join(self.given_tag), tag)
                    self.named[name] = learned(X, y, learn, self._no_morphology, weighting="norms")
        if self.lemmatizer is not None:
            words, lemmas = self._words(treebank, forms, tags), strings_of(treebank, "lemmas")
            known = (
                (word, lemma)
                for word, lemma in zip(words, lemmas)
                if word[1] != MISSING and (lemma != MISSING or word[0] == MISSING)
            )
            self.lemmatizer.fit(known, learn)
        return self

    def annotate(
        self, treebank: Treebank, predict: Callable[[list], Iterable] | None = None
    ) -> Treebank:
        """Replace the columns of the tagger by predictions from the forms; ``predict`` is called
        for tags if given.
        """
        forms, tags = strings_of(treebank, "forms"), [""] * treebank.n_words
        if self.tag is not None:
            if self.labeler is None:
                tags = [str(self.named[self.tag])] * len(forms)
            else:
                found = (predict or self.labeler.predict)(by_sentence(forms, treebank.offsets))
                tags = [tag for labels in found for tag in labels.tolist()]
            treebank = treebank.with_strings(self.tag, tags)
        if self.given_tag:
            (keys, values), labels = (
                self._in_context(forms, tags, treebank.offsets),
                dict[int, str](),
            )
            for tag, (own,) in runs_of(tags, np.array([0, len(tags)])).items():
                model = self.named.get(name_of("+".join(self.given_tag), tag), self._no_morphology)
                labels.update(zip(own, labels_by(model, keys, own, values)))
            for name, column in zip(
                self.given_tag, zip(*(labels[i].split(TAB) for i in range(len(forms))))
            ):
                treebank = treebank.with_strings(name, column)
        if self.lemmatizer is not None:
            lemmas = self.lemmatizer.predict(self._words(treebank, forms, tags))
            treebank = treebank.with_strings("lemmas", lemmas)
        return treebank

    @property
    def labeler(self) -> SequenceLabeler | None:
        """The chain over tags; None if there is at most one tag."""
        chain = self.named.get(self.tag or "")
        return chain if isinstance(chain, SequenceLabeler) else None

    def calibrate(self, gold: Treebank) -> None:
        """Calibrate the probabilities of tags on held-out sentences."""
        if self.labeler is not None:
            columns = (strings_of(gold, "forms"), self._tags_of(gold))
            self.labeler.calibrate(*(by_sentence(column, gold.offsets) for column in columns))

    def confidence(self, annotated: Treebank) -> list[float]:
        """Return the probability of each predicted tag."""
        if self.labeler is None:
            return [1.0] * annotated.n_words
        words = by_sentence(strings_of(annotated, "forms"), annotated.offsets)
        tags = by_sentence(self._tags_of(annotated), annotated.offsets)
        return np.concatenate(confidences(self.labeler, words, tags)).tolist()

    def _tags_of(self, treebank: Treebank) -> list[str]:
        return [""] * treebank.n_words if self.tag is None else strings_of(treebank, self.tag)

    def _in_context(
        self, forms: list[str], tags: list[str], offsets: np.ndarray
    ) -> tuple[list[str], Callable[[int], tuple]]:
        """Return keys of the features for morphology, and a function from the index of a word to
        their values.

        Values are computed on demand, because they take a kilobyte per word.
        """
        own = [
            template for template in lexicon_templates(self.lexicons) if template.offsets == (0,)
        ]
        lower: list[str] = []
        padded: list[str] = []
        for words, around in zip(by_sentence(forms, offsets), by_sentence(tags, offsets)):
            lower += [BEGIN, BEGIN, *map(str.lower, words), END, END]
            padded += [BEGIN, BEGIN, *around, END, END]
        places = (
            np.arange(len(forms)) + 4 * np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) + 2
        ).tolist()

        def values(i: int) -> tuple:
            at = places[i]
            b2, b1, _, a1, a2 = padded[at - 2 : at + 3]
            before, after = lower[at - 1], lower[at + 1]
            context = (
                before,
                after,
                before[-3:],
                after[-3:],
                b1,
                a1,
                f"{b2}|{b1}",
                f"{a1}|{a2}",
                f"{b1}|{a1}",
            )
            return (
                *own_values(forms[i]),
                *context,
                *(template.property(forms[i]) for template in own),
            )

        return [*KEYS, *(template.name for template in own)], values

    def _words(
        self, treebank: Treebank, forms: list[str], tags: list[str]
    ) -> list[tuple[str, str, str]]:
        """Return form, tag and morphological features of each word, for the lemmatizer."""
        feats = strings_of(treebank, "feats") if "feats" in self.given_tag else [""] * len(forms)
        return list(zip(forms, tags, feats))

    def models(self) -> dict[str, SequenceLabeler]:
        """Return the labelers by name."""
        return {name: model for name, model in self.named.items() if not isinstance(model, str)}

    def describe(self, packer: Packer) -> dict[str, Any]:
        """Return JSON values for a model file, without the labelers; arrays are added to the
        packer.
        """
        if self.lemmatizer is not None:
            packer.arrays["lemmas"] = pack_json(self.lemmatizer.known)
        fixed = {name: model for name, model in self.named.items() if isinstance(model, str)}
        packer.arrays.update(pack_lexicons(self.lexicons))
        return {"columns": list(self.columns), "fixed": fixed, "lexicons": list(self.lexicons)}

    @classmethod
    def restored(
        cls, values: Manifest, arrays: Arrays, models: dict[str, SequenceLabeler]
    ) -> "Tagger":
        """The inverse of :meth:`describe`, given the :meth:`models`."""
        tagger = cls(tuple(values["columns"]), unpack_lexicons(values["lexicons"], arrays))
        tagger.named |= models | values["fixed"]
        if tagger.lemmatizer is not None:
            tagger.lemmatizer.known = unpack_json(arrays["lemmas"])
        return tagger


def confidences(labeler: Any, X: Sequence, predicted: Sequence[list]) -> list[np.ndarray]:
    """Return the probability of each predicted label of each sequence."""
    column = {label: k for k, label in enumerate(labeler.classes_.tolist())}
    pairs = zip(labeler.predict_marginals(X), predicted)
    return [
        own[np.arange(len(labels)), [column[label] for label in labels]] for own, labels in pairs
    ]


def by_sentence(values: list[Any], offsets: np.ndarray) -> list[list[Any]]:
    """Split a list over all words into one for each sentence."""
    return [values[low:high] for low, high in pairwise(offsets.tolist())]


def runs_of(tags: list[str], offsets: np.ndarray) -> dict[str, list[list[int]]]:
    """Group the indices of words by tag and sentence; sentences without the tag are skipped."""
    runs: dict[str, list[list[int]]] = {}
    for low, high in pairwise(offsets.tolist()):
        own: dict[str, list[int]] = {}
        for i in range(low, high):
            own.setdefault(tags[i], []).append(i)
        for tag, run in own.items():
            runs.setdefault(tag, []).append(run)
    return runs
