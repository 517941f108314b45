"""Tagger, which predicts tags, morphology and lemmas of words, and the Lemmatizer that it uses."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias, TypeVar

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
from omkl.sequences.labeler import Labeler, SequenceLabeler

#: A labeler, or the label if there is only one.
Model: TypeAlias = SequenceLabeler | str
#: Function that trains a labeler; see
#: :meth:`omkl.annotation.training.TrainingSequence.fit_labeler`.
Learn: TypeAlias = Callable[..., SequenceLabeler]
Word = TypeVar("Word")
Result = TypeVar("Result")
#: Templates of features of a form without context, and their keys.
FORM_TEMPLATES = [template for template in TEMPLATES if template.offsets == (0,)]
FORM_KEYS = tuple(template.name for template in FORM_TEMPLATES)
#: Keys of the features for lemmas.
LEMMA_KEYS = (*FORM_KEYS, "suffix6", "feats", *(f"suffix{k}|feats" for k in (1, 2, 3, 4)))
#: Minimum number of distinct words for a label of single words to be learned.
LEAST_WORDS = 2


def train_model(
    X: list, y: list, learn: Learn, default: str, linked: bool = False, weighting: str | None = None
) -> Model:
    """Train a labeler, or return the only label, or ``default`` if all labels are unknown."""
    labels = set(chain.from_iterable(y)) - {None}
    if len(labels) > 1:
        return learn(X, y, linked, weighting)
    return labels.pop() if labels else default


def train_on_words(
    examples: Collection[tuple[Word, str]],
    keys: Sequence[str],
    values_of: Callable[[Word], tuple],
    learn: Learn,
    default: str,
) -> Model:
    """Train a labeler of single words, with the labels of at least :data:`LEAST_WORDS` words."""
    n_words = Counter(label for _, label in examples)
    X = []
    y = []
    for word, label in examples:
        if n_words[label] >= LEAST_WORDS:
            X.append([as_dict(keys, values_of(word))])
            y.append([label])
    return train_model(X, y, learn, default)


def predict_labels(
    model: Model, keys: Sequence[str], words: Collection[Word], values_of: Callable[[Word], tuple]
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
        As for :func:`predict_labels`.
    apply : callable
        ``apply(label, word)`` returns None if the label cannot be applied to the word.

    Returns
    -------
    list
        The result for each word; None if no label can be applied.
    """
    labels = predict_labels(model, keys, words, values_of)
    results = list(map(apply, labels, words))
    if isinstance(model, str):
        return results
    weights = _weights_of(model)
    without_result = [i for i, result in enumerate(results) if result is None]
    ids_of_words = _feature_ids(model, keys, [words[i] for i in without_result], values_of)
    for i, ids in zip(without_result, ids_of_words):
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
    words: Collection[Word],
    values_of: Callable[[Word], tuple],
) -> np.ndarray:
    """Look up the features of words, (n_words, n_keys) int32; -1 is an unknown feature."""
    vocabulary = model.model_.codec.encoder.vocabulary
    lookups = [vocabulary.ids.get(key, {}).get for key in keys]
    ids: list[int] = []
    for word in words:
        ids.extend(look_up(value, -1) for look_up, value in zip(lookups, values_of(word)))
    return np.array(ids, np.int32).reshape(len(words), len(keys))


def model_name(columns: str, tag: str) -> str:
    """Return the name of the model of some columns of the words with a tag.

    The tag is empty if there are no tags.
    """
    return f"{columns} of {tag}" if tag else columns


def is_for_some_words(name: str) -> bool:
    """Return whether a model of an annotator is only for words of one tag or of multiword tokens.

    ``name`` is its name in :meth:`Annotator.models`, such as "lemmas of NOUN".
    """
    return " of " in name


class TaggedWord(NamedTuple):
    """Form of a word with its tag and morphological features; they are empty if not predicted."""

    form: str
    tag: str
    feats: str

    @property
    def keys(self) -> tuple[str, str]:
        """Keys of the word in the lemmas of a lemmatizer, with and without features."""
        return TAB.join(self), f"{self.form}{TAB}{self.tag}"


class Lemmatizer:
    """Predictor of the lemmas of words, given form, tag and morphological features.

    Known words get their most frequent lemma in the training data, by form, tag and features, or by
    form and tag. For other words, one classifier per tag predicts an edit from the ends of the form
    and the features.

    Parameters
    ----------
    models : dict of str to SequenceLabeler or str, optional
        Where to keep the classifiers of edits, or the only edits, by name: ``"lemmas of NOUN"``.

    Attributes
    ----------
    lemmas : dict of str to str
        Lemmas by form, tag and features, and by form and tag, which are joined by tabs.
    """

    #: The edit that keeps the form.
    default = edit_of("as", "as")

    def __init__(self, models: dict[str, Model] | None = None) -> None:
        self.models = {} if models is None else models
        self.lemmas: dict[str, str] = {}

    def fit(self, examples: Iterable[tuple[TaggedWord, str]], learn: Learn) -> "Lemmatizer":
        """Train on pairs of a word and its lemma."""
        counts = Counter(examples)
        self.lemmas = _most_frequent_lemmas(counts)
        edits_by_tag: dict[str, list[tuple[TaggedWord, str]]] = defaultdict(list)
        for word, lemma in counts:
            edits_by_tag[word.tag].append((word, edit_of(word.form, lemma)))
        for tag, edits in edits_by_tag.items():
            self.models[model_name("lemmas", tag)] = train_on_words(
                edits, LEMMA_KEYS, lemma_values, learn, self.default
            )
        return self

    def predict(self, words: list[TaggedWord]) -> list[str]:
        """Predict the lemma of each word."""
        lemmas = {}
        unknown_words: dict[str, list[TaggedWord]] = defaultdict(list)
        for word in dict.fromkeys(words):
            key, key_without_features = word.keys
            lemma = self.lemmas.get(key) or self.lemmas.get(key_without_features)
            if lemma is None:
                unknown_words[word.tag].append(word)
            else:
                lemmas[word] = lemma
        for tag, words_of_tag in unknown_words.items():
            model = self.models.get(model_name("lemmas", tag), self.default)
            results = best_results(
                model,
                LEMMA_KEYS,
                words_of_tag,
                lemma_values,
                lambda edit, word: apply_edit(edit, word.form),
            )
            for word, result in zip(words_of_tag, results):
                lemmas[word] = word.form if result is None else result
        return [lemmas[word] for word in words]


def _most_frequent_lemmas(counts: Mapping[tuple[TaggedWord, str], int]) -> dict[str, str]:
    """Return the most frequent lemma by the keys of words; ties are broken alphabetically."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for (word, lemma), n in counts.items():
        for key in word.keys:
            votes[key][lemma] += n
    lemmas = {}
    for key, n_by_lemma in votes.items():
        lemmas[key], _ = min(n_by_lemma.items(), key=lambda entry: (-entry[1], entry[0]))
    return lemmas


@lru_cache(maxsize=1 << 14)  # about two kilobytes per word
def form_values(form: str) -> tuple:
    """Return the values of :data:`FORM_KEYS` of a form: strings, NUMBER for True, and False."""
    values = [template.property(form) for template in FORM_TEMPLATES]
    return tuple(NUMBER if value is True else value for value in values)


def lemma_values(word: TaggedWord) -> tuple:
    """Return the values of :data:`LEMMA_KEYS` of a word: shape, both ends, and morphology."""
    lower = word.form.lower()
    with_feats = [f"{lower[-k:]}|{word.feats}" for k in (1, 2, 3, 4)]
    return (*form_values(word.form), lower[-6:], word.feats, *with_feats)


def as_dict(keys: Sequence[str], values: tuple) -> dict[str, str | bool]:
    """Return the features of a word as a dict, to train a labeler."""
    return {key: True if value is NUMBER else value for key, value in zip(keys, values)}


# ---- tags, morphology and lemmas -----------------------------------------------------------------

#: Columns that a tagger can predict, in order.
COLUMNS = ("upos", "xpos", "feats", "lemmas")
#: Keys of the features for morphology.
KEYS = (*FORM_KEYS, "lower[-1]", "lower[+1]", "suffix3[-1]", "suffix3[+1]")
KEYS += ("tag[-1]", "tag[+1]", "tag[-2,-1]", "tag[+1,+2]", "tag[-1,+1]")
#: Number of words before and after a word that features for morphology read.
REACH = 2


class Tagger:
    """Predictor of tags by a chain model, morphology given the tag, and lemmas given both.

    The tags of the chain are UPOS, or XPOS if there is no UPOS. XPOS (if it is not the tag) and
    FEATS are combined to one label. For each tag, a labeler predicts it from the forms of words and
    the tags around them.

    Parameters
    ----------
    columns : sequence of str
        Columns to predict, from :data:`COLUMNS`.
    lexicons : dict of str to Lexicon
        Lexicons for morphology; the labeler of tags has its own parameter.

    Attributes
    ----------
    tag : str or None
        Column of the chain.
    morphology : tuple of str
        Columns that are predicted given the tag.
    all_models : dict of str to SequenceLabeler or str
        Labelers, or the only labels, by name: ``"upos"`` for tags, ``"xpos+feats of NOUN"`` and
        ``"lemmas of NOUN"``.
    lemmatizer : Lemmatizer or None
    """

    def __init__(self, columns: tuple[str, ...], lexicons: dict[str, Lexicon]) -> None:
        self.columns = columns
        self.lexicons = lexicons
        self.tag = next((name for name in ("upos", "xpos") if name in columns), None)
        self.morphology = tuple(
            name for name in ("xpos", "feats") if name in columns and name != self.tag
        )
        #: Label of words whose tag did not occur in training.
        self._no_morphology = TAB.join([MISSING] * len(self.morphology))
        self.all_models: dict[str, Model] = {}
        self.lemmatizer = Lemmatizer(self.all_models) if "lemmas" in columns else None

    def _name_of_morphology(self, tag: str) -> str:
        """Return the name of the model of the morphology of the words with a tag."""
        return model_name("+".join(self.morphology), tag)

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
        forms = strings_of(treebank, "forms")
        tags = self._tags_of(treebank)
        if self.tag is not None:
            X = by_sentence(forms, treebank.offsets)
            gold = [None if tag == MISSING else tag for tag in tags]
            y = by_sentence(gold, treebank.offsets)
            self.all_models[self.tag] = train_model(X, y, learn, MISSING, linked=True)
        if self.morphology:
            context = tags if around is None else around
            features = _MorphologyFeatures(forms, context, treebank.offsets, self.lexicons)
            self._fit_morphology(treebank, learn, tags, features)
        if self.lemmatizer is not None:
            words = self._words(treebank, forms, tags)
            examples = []
            for word, lemma in zip(words, strings_of(treebank, "lemmas")):
                has_lemma = lemma != MISSING or word.form == MISSING
                if has_lemma and word.tag != MISSING:
                    examples.append((word, lemma))
            self.lemmatizer.fit(examples, learn)
        return self

    def _fit_morphology(
        self, treebank: Treebank, learn: Learn, tags: list[str], features: "_MorphologyFeatures"
    ) -> None:
        """Train a model of the morphology of the words with each tag."""
        columns = [strings_of(treebank, name) for name in self.morphology]
        labels = list(map(TAB.join, zip(*columns)))
        for tag, runs in runs_by_tag(tags, treebank.offsets).items():
            if tag == MISSING:
                continue
            X = []
            y = []
            for run in runs:
                X.append([as_dict(features.keys, features.values(i)) for i in run])
                y.append([labels[i] for i in run])
            # if all words of a tag but a few have one label, "out-of-sample" keeps a group by
            # chance
            self.all_models[self._name_of_morphology(tag)] = train_model(
                X, y, learn, self._no_morphology, weighting="norms"
            )

    def annotate(
        self,
        treebank: Treebank,
        predict: Callable[[SequenceLabeler, list], Iterable] = SequenceLabeler.predict,
    ) -> Treebank:
        """Replace the columns of the tagger by predictions from the forms.

        ``predict`` predicts the tags of the words of sentences by the labeler.
        """
        forms = strings_of(treebank, "forms")
        tags = [""] * len(forms)
        if self.tag is not None:
            if self.labeler is None:
                tags = [str(self.all_models[self.tag])] * len(forms)
            else:
                sentences = by_sentence(forms, treebank.offsets)
                labels_of_sentences = predict(self.labeler, sentences)
                tags = list(chain.from_iterable(map(np.ndarray.tolist, labels_of_sentences)))
            treebank = treebank.with_strings(self.tag, tags)
        if self.morphology:
            features = _MorphologyFeatures(forms, tags, treebank.offsets, self.lexicons)
            labels = self._predict_morphology(tags, features)
            columns = zip(*(label.split(TAB) for label in labels))
            for name, column in zip(self.morphology, columns):
                treebank = treebank.with_strings(name, column)
        if self.lemmatizer is not None:
            lemmas = self.lemmatizer.predict(self._words(treebank, forms, tags))
            treebank = treebank.with_strings("lemmas", lemmas)
        return treebank

    def _predict_morphology(self, tags: list[str], features: "_MorphologyFeatures") -> list[str]:
        """Predict the morphology of words, with columns joined by tabs, given their tags."""
        labels = [self._no_morphology] * len(tags)
        for tag, [words] in runs_by_tag(tags, np.array([0, len(tags)])).items():
            model = self.all_models.get(self._name_of_morphology(tag), self._no_morphology)
            labels_of_tag = predict_labels(model, features.keys, words, features.values)
            for i, label in zip(words, labels_of_tag):
                labels[i] = label
        return labels

    @property
    def labeler(self) -> SequenceLabeler | None:
        """The chain over tags; None if there is at most one tag."""
        model = self.all_models.get(self.tag or "")
        return model if isinstance(model, SequenceLabeler) else None

    def calibrate(self, gold: Treebank) -> None:
        """Calibrate the probabilities of tags on held-out sentences."""
        if self.labeler is not None:
            X = by_sentence(strings_of(gold, "forms"), gold.offsets)
            self.labeler.calibrate(X, by_sentence(self._tags_of(gold), gold.offsets))

    def confidence(self, annotated: Treebank) -> list[float]:
        """Return the probability of each predicted tag."""
        if self.labeler is None:
            return [1.0] * annotated.n_words
        words = by_sentence(strings_of(annotated, "forms"), annotated.offsets)
        tags = by_sentence(self._tags_of(annotated), annotated.offsets)
        return np.concatenate(confidences(self.labeler, words, tags)).tolist()

    def _tags_of(self, treebank: Treebank) -> list[str]:
        return [""] * treebank.n_words if self.tag is None else strings_of(treebank, self.tag)

    def _words(self, treebank: Treebank, forms: list[str], tags: list[str]) -> list[TaggedWord]:
        """Return the words of a treebank for the lemmatizer."""
        feats = [""] * len(forms)
        if "feats" in self.morphology:
            feats = strings_of(treebank, "feats")
        return list(map(TaggedWord, forms, tags, feats))

    def models(self) -> dict[str, SequenceLabeler]:
        """Return the labelers by name."""
        models = self.all_models.items()
        return {name: model for name, model in models if not isinstance(model, str)}

    def describe(self, packer: Packer) -> Manifest:
        """Return JSON values for a model file, without the labelers.

        Arrays are added to the packer.
        """
        if self.lemmatizer is not None:
            packer.arrays["lemmas"] = pack_json(self.lemmatizer.lemmas)
        fixed = {name: model for name, model in self.all_models.items() if isinstance(model, str)}
        packer.arrays.update(pack_lexicons(self.lexicons))
        return {"columns": list(self.columns), "fixed": fixed, "lexicons": list(self.lexicons)}

    @classmethod
    def restored(
        cls, values: Manifest, arrays: Arrays, models: dict[str, SequenceLabeler]
    ) -> "Tagger":
        """Create a tagger from the result of :meth:`describe`, and its :meth:`models`."""
        tagger = cls(tuple(values["columns"]), unpack_lexicons(values["lexicons"], arrays))
        tagger.all_models |= models | values["fixed"]
        if tagger.lemmatizer is not None:
            tagger.lemmatizer.lemmas = unpack_json(arrays["lemmas"])
        return tagger


class _MorphologyFeatures:
    """Features of words for morphology: their forms, and the words and tags around them.

    Values are computed on demand, because they take a kilobyte per word.

    Parameters
    ----------
    forms, tags : list of str
        Of the words of all sentences.
    offsets : int array of shape (number of sentences + 1,)
    lexicons : dict of str to Lexicon

    Attributes
    ----------
    keys : list of str
        Keys of the features.
    """

    def __init__(
        self,
        forms: list[str],
        tags: list[str],
        offsets: np.ndarray,
        lexicons: Mapping[str, Lexicon],
    ) -> None:
        self._forms = forms
        templates = lexicon_templates(lexicons)
        self._lexicon_templates = [template for template in templates if template.offsets == (0,)]
        self.keys = [*KEYS, *(template.name for template in self._lexicon_templates)]
        #: Forms in lower case and tags of all words, with REACH marks around each sentence.
        self._lower: list[str] = []
        self._tags: list[str] = []
        #: Position of each word in these lists.
        self._positions: list[int] = []
        before = [BEGIN] * REACH
        after = [END] * REACH
        for low, high in pairwise(offsets.tolist()):
            first = len(self._lower) + REACH
            self._positions += range(first, first + high - low)
            self._lower += [*before, *map(str.lower, forms[low:high]), *after]
            self._tags += [*before, *tags[low:high], *after]

    def values(self, i: int) -> tuple:
        """Return the values of the features of a word, given its index."""
        position = self._positions[i]
        form_before = self._lower[position - 1]
        form_after = self._lower[position + 1]
        second_before, before, _, after, second_after = self._tags[position - 2 : position + 3]
        form = self._forms[i]
        return (
            *form_values(form),
            form_before,
            form_after,
            form_before[-3:],
            form_after[-3:],
            before,
            after,
            f"{second_before}|{before}",
            f"{after}|{second_after}",
            f"{before}|{after}",
            *(template.property(form) for template in self._lexicon_templates),
        )


def confidences(labeler: Labeler, X: Sequence, predicted: Sequence[list]) -> list[np.ndarray]:
    """Return the probability of each predicted label of each sequence."""
    columns = {label: k for k, label in enumerate(labeler.classes_.tolist())}
    confidence = []
    for marginals, labels in zip(labeler.predict_marginals(X), predicted):
        chosen = [columns[label] for label in labels]
        confidence.append(marginals[np.arange(len(labels)), chosen])
    return confidence


def by_sentence(values: list, offsets: np.ndarray) -> list[list]:
    """Split a list over all words into one for each sentence."""
    return [values[low:high] for low, high in pairwise(offsets.tolist())]


def runs_by_tag(tags: list[str], offsets: np.ndarray) -> dict[str, list[list[int]]]:
    """Group the indices of words by tag and sentence; sentences without the tag are skipped."""
    runs: dict[str, list[list[int]]] = defaultdict(list)
    for low, high in pairwise(offsets.tolist()):
        words_by_tag: dict[str, list[int]] = defaultdict(list)
        for i in range(low, high):
            words_by_tag[tags[i]].append(i)
        for tag, words in words_by_tag.items():
            runs[tag].append(words)
    return runs
