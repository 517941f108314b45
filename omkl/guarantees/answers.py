"""Predictions of models with confidences, and with correct outputs which of them are wrong."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl.data import Treebank
from omkl.estimators.calibration import at_temperature, has_marginals
from omkl.estimators.sources import TrainingBlock, blocks_of
from omkl.exceptions import InputError
from omkl.parsing.decoding import confidences
from omkl.parsing.sentences import (
    check_sentences,
    check_trees,
    strings_of,
    treebanks_of,
    with_notes,
)
from omkl.sequences.evaluation import entity_finder
from omkl.sequences.labeling import read_inputs, warn_of_unknown

#: Collected labels that a model does not know; None if answers are not compared.
Unknown: TypeAlias = dict[object, None] | None
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
    gold : list of n correct labels, if the answer is compared
    wrong : bool array of shape (n,)
    right : array of shape (n,)
        Probability of the correct label or head of each token.
    """

    labels: np.ndarray
    sure: float
    tokens: np.ndarray
    values: np.ndarray
    names: np.ndarray
    gold: Sequence = ()
    wrong: np.ndarray = np.zeros(0)
    right: np.ndarray = np.zeros(0)

    def compared(self, gold: list, unknown: dict[object, None]) -> "Answer":
        """Compare with correct labels, and collect those that the model does not know."""
        codes = {name: k for k, name in enumerate(self.names.tolist())}
        unknown |= dict.fromkeys(label for label in gold if codes and label not in codes)
        known, right = [i for i, label in enumerate(gold) if label in codes], np.zeros(len(gold))
        right[known] = self.values[known, [codes[gold[i]] for i in known]]
        wrong = np.array(
            [label != own for label, own in zip(gold, self.labels.tolist())], dtype=bool
        )
        return self._replace(gold=gold, wrong=wrong, right=right)

    def in_entities(self) -> tuple["Answer", list[int]]:
        """Return the answer with confidences and errors of predicted entities for their tokens, and
        their first tokens.

        Tokens outside of entities have the confidence -1.
        """
        members = list(dict.fromkeys([*self.names.tolist(), *self.gold]))
        finder, n = entity_finder(members), len(self.labels)
        if finder is None:
            raise InputError(
                "unit='entity' needs labels that mark entities, such as 'B-PER' and 'O'."
            )
        sides = (
            np.array([members.index(own) for own in side], dtype=np.int64)
            for side in (self.labels, self.gold)
        )
        found, correct = (finder[1](codes, np.array([len(codes)])).tolist() for codes in sides)
        tokens, wrong = np.full(n, -1.0), np.zeros(n, dtype=bool)
        for first, last, kind in found:
            # the token after an entity tells where it ends
            tokens[first : last + 1] = self.tokens[first : last + 2].min()
            wrong[first] = [first, last, kind] not in correct
        return self._replace(tokens=tokens, wrong=wrong), [first for first, _, _ in found]


def answers_of(
    model: Any, X: Any, y: Any = None, column: str | None = None, compare: bool = False
) -> Iterator[Answer]:
    """Yield the predictions for examples, which are decoded once; ``compare`` them with the correct
    outputs.
    """
    unknown: dict[object, None] | None = {} if compare else None
    yield from READERS[model.example_kind](model, X, y, column, unknown)
    warn_of_unknown(unknown or {})


# ---- labels --------------------------------------------------------------------------------------


def _labelled(
    model: Any, X: Any, y: Any = None, column: None = None, unknown: Unknown = None
) -> Iterator[Answer]:
    """Predict labels of tokens or nodes; an output is as sure as its posterior probability."""
    has_marginals(model, InputError)
    own, labelled = model.model_, unknown is not None
    structure, classes = own.codec.structure, own.codec.codes.as_array()
    for data in read_inputs(own, blocks_of(X, y), labelled):
        if labelled and None in data.labels:
            raise InputError(
                "y must hold the label of every token: an unknown label is neither right nor wrong."
            )
        gold = (
            [list(data.labels[low:high]) for low, high in pairwise(data.offsets.tolist())]
            if labelled
            else []
        )
        for potentials, right in zip_longest(own.codec.potentials(own, data), gold):
            answer = Answer(classes[:0], 1.0, np.zeros(0), potentials.unary, classes)
            if len(potentials.unary):
                best, scaled = (
                    structure.decode(potentials),
                    at_temperature(potentials, model.temperature_ or 1.0),
                )
                log_total, expected = structure.marginals(scaled)
                sure, values = (
                    min(np.exp(structure.score(scaled, best) - log_total), 1.0),
                    expected.unary,
                )
                answer = Answer(
                    classes[best], float(sure), values[np.arange(len(best)), best], values, classes
                )
            yield answer if unknown is None else answer.compared(right, unknown)


def _rows(model: Any, X: Any, y: Any, column: None, unknown: Unknown) -> Iterator[Answer]:
    """Predict classes of rows."""
    for block in blocks_of(X, y):
        try:
            values = np.asarray(model.predict_proba(block.X))
        except AttributeError as error:
            raise InputError(str(error.__cause__ or error)) from None
        gold = [] if unknown is None else row_outputs(block, len(values)).tolist()
        for own, right in zip_longest(values, gold):
            best = [int(own.argmax())]
            answer = Answer(
                model.classes_[best], float(own[best][0]), own[best], own[None], model.classes_
            )
            yield answer if unknown is None else answer.compared([right], unknown)


def row_outputs(block: TrainingBlock, n: int) -> np.ndarray:
    """Return the correct outputs of n rows, (n,)."""
    y = np.asarray(block.y)
    if y.shape != (n,):
        raise InputError(
            f"y must have one output for each of the {n} rows of X, got an array of shape {y.shape}."
        )
    return y


# ---- sentences -----------------------------------------------------------------------------------


def columns_of(model: Any) -> tuple[str, ...]:
    """Return the columns that a parser or an annotator predicts."""
    return (
        model.columns_
        if model.example_kind == "annotations"
        else TREE
        if model.labeled
        else TREE[:1]
    )


def _sentences(
    model: Any, X: Any, y: Any, column: str | None, unknown: Unknown
) -> Iterator[Answer]:
    """Annotate sentences, and compare the wanted columns."""
    wanted = columns_of(model) if column is None else (column,)
    has_trees = not set(wanted).isdisjoint(TREE)
    for gold in treebanks_of(check_sentences(X, y), unknown is not None and has_trees):
        if unknown is not None:
            if missing := [
                name for name in wanted if name != "heads" and not gold.codes(name).any()
            ]:
                raise InputError(f"X must have correct {missing[0]}.")
            gold = check_trees(gold) if has_trees else gold
        found, answers = annotated(model, gold, wanted, wanted) if len(gold) else (gold, [])
        if unknown is None:
            yield from answers
            continue
        wrong = np.any([column_of(gold, name) != column_of(found, name) for name in wanted], axis=0)
        shown = column_of(gold, "heads" if "heads" in wanted else wanted[0]).tolist()
        for answer, (low, high) in zip(answers, pairwise(gold.offsets.tolist())):
            yield answer.compared(shown[low:high], unknown)._replace(wrong=wrong[low:high])


def column_of(treebank: Treebank, name: str) -> np.ndarray:
    """Return the heads, or a column of strings, of all words."""
    return treebank.heads if name == "heads" else np.array(strings_of(treebank, name), dtype=object)


def annotated(
    model: Any,
    treebank: Treebank,
    wanted: Sequence[str],
    predicted: Sequence[str],
    confidence: bool = False,
) -> tuple[Treebank, list[Answer]]:
    """Annotate sentences; an answer is as sure as the product of the probabilities of its tags,
    arcs and relations.

    ``wanted`` are the columns that may be wrong, and ``predicted`` these and others. ``confidence``
    writes probabilities to MISC, as the model does.
    """
    tagger, parser = None, model
    if model.example_kind == "annotations":
        model._prepare(treebank)
        model.check_probabilities(trees=not set(predicted).isdisjoint(TREE))
        tagger, parser = model.tagger_, model.parser_
    n, ends, tags, shown = len(treebank), treebank.offsets[1:-1], list[Answer](), wanted[0]
    sure, tokens = np.ones(n), np.ones(treebank.n_words)
    values, names = [np.zeros((length, 0)) for length in treebank.lengths], [np.zeros(0)] * n
    if tagger is not None:

        def predict(words: list) -> list[np.ndarray]:
            tags.extend(_labelled(tagger.labeler, words))
            return [answer.labels for answer in tags]

        treebank = tagger.annotate(treebank, predict)
        found = np.concatenate([own.tokens for own in tags]) if tags else tokens
        if confidence and tagger.tag is not None:
            treebank = with_notes(treebank, {f"{tagger.tag.capitalize()}Conf": found})
        if tags and shown not in TREE:
            sure, tokens = np.array([own.sure for own in tags]), found
            if shown == tagger.tag:
                values, names = [own.values for own in tags], [own.names for own in tags]
    if not set(predicted).isdisjoint(TREE):
        has_marginals(parser, InputError)
        [(treebank, _)] = parser._decoder.blocks(treebank)
        treebank, marginals = parser._decoder.sure_trees(treebank, relations="deprels" in predicted)
        parts = [*confidences(treebank, marginals).values()][
            : 2 if "deprels" in wanted else "heads" in wanted
        ]
        for own in parts:
            tokens, sure = tokens * own, sure * [words.prod() for words in np.split(own, ends)]
        if "heads" in wanted:
            arcs = [own.arcs[:, 1:].T for own in marginals]
            shown, values, names = "heads", arcs, [np.arange(own.shape[1]) for own in arcs]
        if confidence:
            treebank = parser._decoder.noted(treebank, marginals)
    labels = np.split(column_of(treebank, shown), ends)
    return treebank, [
        Answer(*own) for own in zip(labels, sure.tolist(), np.split(tokens, ends), values, names)
    ]


#: Reader of examples by their kind.
READERS: dict[str, Callable[..., Iterator[Answer]]] = {
    "sequences": _labelled,
    "graphs": _labelled,
    "rows": _rows,
}
READERS |= dict.fromkeys(("trees", "annotations"), _sentences)
