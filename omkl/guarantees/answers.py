"""Predictions of models with confidences, and with correct outputs which of them are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from omkl.annotation.tagger import Tagger
from omkl.data import Treebank
from omkl.estimators.calibration import at_temperature, needs_probabilities
from omkl.estimators.persistence import SavedEstimator
from omkl.estimators.sources import ExamplesLike, OutputsLike, TrainingBlock, blocks_of
from omkl.exceptions import InputError
from omkl.parsing.decoding import (
    HEAD_CONFIDENCE,
    RELATION_CONFIDENCE,
    ParseMarginals,
    TreeDecoder,
    confidences,
)
from omkl.parsing.sentences import (
    Sentences,
    check_sentences,
    check_trees,
    strings_of,
    treebanks_of,
    with_notes,
)
from omkl.sequences.evaluation import entity_finder
from omkl.sequences.labeler import Labeler, SequenceLabeler
from omkl.sequences.labeling import read_inputs, warn_of_unknown
from omkl.structures.base import Potentials, Structure

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin

#: Confidence of tokens outside of entities, below every threshold.
OUTSIDE = -1.0
#: Columns of trees.
TREE = ("heads", "deprels")


class Answer(NamedTuple):
    """Prediction for an example of n tokens; a row is one token.

    Attributes
    ----------
    labels : array of shape (n,)
        Predicted labels, classes or heads.
    sure : float
        Confidence of the whole output, in [0, 1].
    tokens : array of shape (n,)
        Confidence of each token, in [0, 1].
    values : array of shape (n, K)
        Probability of each label or head at each token.
    names : array of shape (K,)
        Labels or heads.
    gold : list of n correct labels, if known
    wrong : bool array of shape (n,), or False
        Tokens that are wrong, in this column or in others.
    right : array of shape (n,)
        Probability of the correct label or head of each token; set by :meth:`compared`.
    """

    labels: np.ndarray
    sure: float
    tokens: np.ndarray
    values: np.ndarray
    names: np.ndarray
    gold: Sequence = ()
    wrong: Any = False
    right: np.ndarray = np.zeros(0)

    def compared(self, unknown: dict[object, None]) -> Answer:
        """Compare with the correct labels, and collect those that the model does not know."""
        codes = {name: k for k, name in enumerate(self.names.tolist())}
        right = np.zeros(len(self.gold))
        wrong = np.zeros(len(self.gold), dtype=bool)
        for i, (label, predicted) in enumerate(zip(self.gold, self.labels.tolist())):
            wrong[i] = label != predicted
            if label in codes:
                right[i] = self.values[i, codes[label]]
            elif codes:
                unknown[label] = None
        return self._replace(wrong=self.wrong | wrong, right=right)

    def times(self, probabilities: np.ndarray) -> Answer:
        """Multiply by further probabilities of the tokens, (n,)."""
        sure = float(self.sure * probabilities.prod())
        return self._replace(sure=sure, tokens=self.tokens * probabilities)

    def with_heads(self, marginals: ParseMarginals) -> Answer:
        """Show the probabilities of the heads of the words of a sentence."""
        probabilities = marginals.arcs[:, 1:].T
        return self._replace(values=probabilities, names=np.arange(probabilities.shape[1]))

    def in_entities(self) -> tuple[Answer, list[int]]:
        """Return confidences and errors of predicted entities, and their first tokens.

        The confidence of an entity is at all of its tokens, and its error at the first one. Tokens
        outside of entities have the confidence -1.
        """
        labels = list(dict.fromkeys([*self.names.tolist(), *self.gold]))
        finder = entity_finder(labels)
        if finder is None:
            raise InputError(
                "unit='entity' needs labels that mark entities, such as 'B-PER' and 'O'."
            )
        _, find_entities = finder

        def entities_of(labels_of_tokens: Iterable) -> list[list[int]]:
            codes = [labels.index(label) for label in labels_of_tokens]
            lengths = np.array([len(codes)])
            return find_entities(np.array(codes, dtype=np.int64), lengths).tolist()

        predicted_entities = entities_of(self.labels)
        gold_entities = entities_of(self.gold)
        tokens = np.full(len(self.labels), OUTSIDE)
        wrong = np.zeros(len(self.labels), dtype=bool)
        firsts = []
        for first, last, kind in predicted_entities:
            # the token after an entity tells where it ends
            tokens[first : last + 1] = self.tokens[first : last + 2].min()
            wrong[first] = [first, last, kind] not in gold_entities
            firsts.append(first)
        return self._replace(tokens=tokens, wrong=wrong), firsts


def answers_of(
    model: SavedEstimator,
    X: ExamplesLike,
    y: OutputsLike = None,
    column: str | None = None,
    compare: bool = False,
) -> Iterator[Answer]:
    """Yield predictions for examples, with ``compare`` compared with the correct outputs.

    Examples are decoded once.
    """
    unknown: dict[object, None] = {}
    for answer in READERS[model.example_kind](model, X, y, column, compare):
        yield answer.compared(unknown) if compare else answer
    warn_of_unknown(unknown)


# ---- labels --------------------------------------------------------------------------------------


def _labelled(
    model: Labeler,
    X: ExamplesLike,
    y: OutputsLike = None,
    column: None = None,
    compare: bool = False,
) -> Iterator[Answer]:
    """Predict labels of tokens or nodes; an output is as sure as its posterior probability."""
    needs_probabilities(model, InputError)
    trained = model.model_
    codec = trained.codec
    classes = codec.codes.as_array()
    for data in read_inputs(trained, blocks_of(X, y), compare):
        if compare and None in data.labels:
            raise InputError(
                "y must hold the label of every token: an unknown label is neither right nor wrong."
            )
        bounds = pairwise(data.offsets.tolist())
        for (first, end), potentials in zip(bounds, codec.potentials(trained, data)):
            answer = _answer_from(potentials, codec.structure, classes, model.temperature_ or 1.0)
            if compare:
                answer = answer._replace(gold=data.labels[first:end])
            yield answer


def _answer_from(
    potentials: Potentials, structure: Structure, classes: np.ndarray, temperature: float
) -> Answer:
    """Return the best labels, and marginals at a temperature, of an example of n tokens."""
    n_tokens = len(potentials.unary)
    if not n_tokens:
        return Answer(classes[:0], 1.0, np.zeros(0), potentials.unary, classes)
    best = structure.decode(potentials)
    scaled = at_temperature(potentials, temperature)
    log_total, expected = structure.marginals(scaled)
    probability = min(np.exp(structure.score(scaled, best) - log_total), 1.0)
    marginals = expected.unary
    return Answer(
        labels=classes[best],
        sure=float(probability),
        tokens=marginals[np.arange(n_tokens), best],
        values=marginals,
        names=classes,
    )


def _rows(
    model: ClassifierMixin, X: ExamplesLike, y: OutputsLike, column: None, compare: bool
) -> Iterator[Answer]:
    """Predict classes of rows."""
    for block in blocks_of(X, y):
        try:
            probabilities = np.asarray(model.predict_proba(block.X))
        except AttributeError as error:
            raise InputError(str(error.__cause__ or error)) from None
        gold: list = [()] * len(probabilities)
        if compare:
            gold = row_outputs(block, len(probabilities))[:, None].tolist()
        for probabilities_of_row, gold_of_row in zip(probabilities, gold):
            best = [int(probabilities_of_row.argmax())]
            yield Answer(
                labels=model.classes_[best],
                sure=float(probabilities_of_row[best][0]),
                tokens=probabilities_of_row[best],
                values=probabilities_of_row[None],
                names=model.classes_,
                gold=gold_of_row,
            )


def row_outputs(block: TrainingBlock, n: int) -> np.ndarray:
    """Return the correct outputs of n rows, (n,)."""
    y = np.asarray(block.y)
    if y.shape != (n,):
        raise InputError(
            f"y must have one output for each of the {n} rows of X, "
            f"got an array of shape {y.shape}."
        )
    return y


# ---- sentences -----------------------------------------------------------------------------------


class SentenceModel(Protocol):
    """A parser or an annotator."""

    @property
    def columns_(self) -> tuple[str, ...]:
        """Predicted columns."""

    def _models_for(
        self, treebank: Treebank, trees: bool
    ) -> tuple[Tagger | None, TreeDecoder | None]:
        """Return the models that annotate sentences, with probabilities."""


def _sentences(
    model: SentenceModel,
    X: Sentences,
    y: OutputsLike,
    column: str | None,
    compare: bool,
) -> Iterator[Answer]:
    """Annotate sentences; an answer is wrong where one of the wanted columns is."""
    judged = model.columns_ if column is None else (column,)
    has_trees = not set(judged).isdisjoint(TREE)
    for treebank in treebanks_of(check_sentences(X, y), compare and has_trees):
        if compare:
            for name in judged:
                if name != "heads" and not treebank.codes(name).any():
                    raise InputError(f"X must have correct {name}.")
            if has_trees:
                treebank = check_trees(treebank)
        if not len(treebank):
            continue
        predicted, answers = annotated(model, treebank, judged, judged)
        if not compare:
            yield from answers
            continue
        wrong = np.zeros(treebank.n_words, dtype=bool)
        for name in judged:
            wrong |= column_of(treebank, name) != column_of(predicted, name)
        shown = "heads" if "heads" in judged else judged[0]
        gold = column_of(treebank, shown).tolist()
        for answer, (first, end) in zip(answers, pairwise(treebank.offsets.tolist())):
            yield answer._replace(gold=gold[first:end], wrong=wrong[first:end])


def column_of(treebank: Treebank, name: str) -> np.ndarray:
    """Return the heads, or a column of strings, of all words."""
    if name == "heads":
        return treebank.heads
    return np.array(strings_of(treebank, name), dtype=object)


def annotated(
    model: SentenceModel,
    treebank: Treebank,
    wanted: Sequence[str],
    predicted: Sequence[str],
    confidence: bool = False,
) -> tuple[Treebank, list[Answer]]:
    """Annotate sentences; return them, and an answer for each.

    An answer is as sure as the product of the probabilities of its tags, arcs and relations.
    ``wanted`` are the columns that may be wrong, and ``predicted`` these and others. ``confidence``
    writes probabilities to MISC, as the model does.
    """
    predicts_trees = not set(predicted).isdisjoint(TREE)
    tagger, decoder = model._models_for(treebank, predicts_trees)
    answers = []
    for length in treebank.lengths:
        nothing = np.zeros((length, 0))
        answers.append(Answer(nothing, 1.0, np.ones(length), values=nothing, names=np.zeros(0)))
    if tagger is not None:
        treebank, answers = _tagged(tagger, treebank, answers, wanted[0], confidence)
    if decoder is not None:
        relations = "deprels" in predicted
        treebank, answers = _parsed(decoder, treebank, answers, wanted, relations, confidence)
    shown = "heads" if "heads" in wanted else wanted[0]
    labels = np.split(column_of(treebank, shown), treebank.offsets[1:-1])
    return treebank, [answer._replace(labels=words) for answer, words in zip(answers, labels)]


def _tagged(
    tagger: Tagger, treebank: Treebank, answers: list[Answer], shown: str, confidence: bool
) -> tuple[Treebank, list[Answer]]:
    """Return sentences with tags, and answers as sure as the tags, unless these cannot be wrong.

    The answers have the probabilities of tags if these are the column ``shown``.
    """
    tags: list[Answer] = []

    def predict(labeler: SequenceLabeler, words: list) -> list[np.ndarray]:
        tags.extend(_labelled(labeler, words))
        return [answer.labels for answer in tags]

    treebank = tagger.annotate(treebank, predict)
    if confidence and tagger.tag is not None:
        probabilities = np.ones(treebank.n_words)
        if tags:
            probabilities = np.concatenate([tag.tokens for tag in tags])
        treebank = with_notes(treebank, {f"{tagger.tag.capitalize()}Conf": probabilities})
    if not tags or shown in TREE:
        return treebank, answers
    if shown == tagger.tag:
        return treebank, tags
    pairs = zip(answers, tags)
    return treebank, [answer._replace(sure=tag.sure, tokens=tag.tokens) for answer, tag in pairs]


def _parsed(
    decoder: TreeDecoder,
    treebank: Treebank,
    answers: list[Answer],
    wanted: Sequence[str],
    relations: bool,
    confidence: bool,
) -> tuple[Treebank, list[Answer]]:
    """Return sentences with trees, and answers as sure as their wanted columns allow."""
    [(treebank, _)] = decoder.blocks(treebank)
    treebank, marginals = decoder.trees_with_marginals(treebank, relations=relations)
    probabilities = confidences(treebank, marginals)
    names = []
    if not set(wanted).isdisjoint(TREE):
        names.append(HEAD_CONFIDENCE)
    if "deprels" in wanted and RELATION_CONFIDENCE in probabilities:
        names.append(RELATION_CONFIDENCE)
    for name in names:
        confidences_of_sentences = np.split(probabilities[name], treebank.offsets[1:-1])
        answers = list(map(Answer.times, answers, confidences_of_sentences))
    if "heads" in wanted:
        answers = list(map(Answer.with_heads, answers, marginals))
    if confidence:
        treebank = decoder.with_confidences(treebank, marginals)
    return treebank, answers


#: Reader of examples by their kind.
READERS: dict[str | None, Callable[..., Iterator[Answer]]] = {
    "sequences": _labelled,
    "graphs": _labelled,
    "rows": _rows,
    "trees": _sentences,
    "annotations": _sentences,
}
