"""Predictions of a fitted parser under constraints: trees, relations, n best trees, marginals."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy.special import softmax

from omkl._threads import in_threads
from omkl.data import Stream, Strings, Treebank
from omkl.estimators.calibration import at_temperature, relation_temperature, structure_temperature
from omkl.exceptions import InputError
from omkl.groups.base import initial_potentials
from omkl.groups.templates.language import TemplateSet
from omkl.groups.templates.layout import ArcSentence, ArcTokens
from omkl.online.averaging import Predictor
from omkl.online.model import Codec, OnlineModel
from omkl.parsing.sentences import (
    Sentences,
    check_trees,
    concatenate_heads,
    treebanks_of,
    with_notes,
)
from omkl.structures.base import Potentials
from omkl.structures.trees.arc_factored import TreeStructure

#: Pairs ``(head, word)`` of each sentence, or None.
Arcs: TypeAlias = Sequence[Iterable[tuple[int, int]] | None] | None
#: Keys in MISC of the probability of the arc to a word, and of its relation given the arc.
HEAD_CONFIDENCE, RELATION_CONFIDENCE = "HeadConf", "RelConf"

Result = TypeVar("Result")


class Parse(NamedTuple):
    """Parse tree of a sentence.

    Attributes
    ----------
    heads : int array of shape (n,)
        0 is the root.
    deprels : list of str
        ``_`` if the parser is not labeled.
    score : float
        Sum of the potentials of the arcs; larger is better. Only scores of the same sentence are
        comparable.
    """

    heads: np.ndarray
    deprels: list[str]
    score: float


class ParseMarginals(NamedTuple):
    """Probabilities of the arcs and relations of a sentence of n words.

    Attributes
    ----------
    arcs : array of shape (n + 1, n + 1)
        ``arcs[h, m]`` is the probability of the arc from ``h`` to ``m``; 0 is the root. Columns
        from 1 on sum to 1.
    relations : array of shape (n, K), or None
        Probability of each relation in ``relations_`` for the predicted arc to each word, given
        that the arc is correct. None unless the parser is labeled and calibrated.
    """

    arcs: np.ndarray
    relations: np.ndarray | None


class ArcConstraints:
    """Required and forbidden arcs of the trees of sentences."""

    def __init__(self, required: Arcs = None, forbidden: Arcs = None, n_sentences: int = 0) -> None:
        self._arcs: dict[str, Any] = {"required": required, "forbidden": forbidden}
        for name, arcs in self._arcs.items():
            is_list = isinstance(arcs, Sequence) and len(arcs) == n_sentences
            if arcs is not None and not is_list:
                raise InputError(
                    f"{name} must be a list with a list of arcs "
                    f"for each of the {n_sentences} sentences."
                )

    def __bool__(self) -> bool:
        return any(arcs is not None for arcs in self._arcs.values())

    def applied(self, potentials: Potentials, i: int, structure: TreeStructure) -> Potentials:
        """Return potentials of sentence ``i``, from 0, that forbid to break the constraints.

        Raises
        ------
        omkl.exceptions.InputError
            If no tree satisfies the constraints.
        """
        if not self:
            return potentials
        n_words = structure.size_of(potentials)
        forbidden = self._of_sentence("forbidden", i, n_words)
        for head, word in self._of_sentence("required", i, n_words):
            forbidden += [(h, word) for h in range(n_words + 1) if h not in (head, word)]
        constrained = structure.forbidding(potentials, forbidden)
        if not structure.is_possible(constrained):
            raise InputError(
                f"Sentence {i + 1}: no tree has all required arcs and none of the forbidden ones."
            )
        return constrained

    def _of_sentence(self, name: str, i: int, n_words: int) -> list[tuple[int, int]]:
        """Validate the required or forbidden arcs of one sentence."""
        arcs = self._arcs[name]
        if arcs is None:
            return []
        valid_arcs = []
        for arc in arcs[i] or ():
            pair = np.asarray(arc)
            if pair.shape == (2,) and pair.dtype.kind in "iu":
                head, word = pair.tolist()
                if 0 <= head <= n_words and 0 < word <= n_words and head != word:
                    valid_arcs.append((head, word))
                    continue
            raise InputError(
                f"Sentence {i + 1}: {name} must hold arcs (head, word) of its {n_words} words, "
                f"got {arc!r}."
            )
        return valid_arcs


#: No constraints.
FREE = ArcConstraints()


class AdviceRequest(NamedTuple):
    """Request for the advice of a first parser.

    Attributes
    ----------
    constraints : ArcConstraints
    right : sequence of int arrays
        Heads of all words; their arcs are candidates as well.
    n_jobs : int or None
    wide : bool
        Whether to ignore the margin of candidates.
    """

    constraints: ArcConstraints = FREE
    right: Sequence[np.ndarray] = ()
    n_jobs: int | None = None
    wide: bool = False


#: Request without constraints and further arcs.
NARROW = AdviceRequest()


def potentials_of(predictor: Predictor, sentences: list[ArcSentence]) -> list[Potentials]:
    """Return the potentials of several sentences."""
    potentials = [initial_potentials(predictor.structure, x) for x in sentences]
    for bank in predictor.banks:
        bank.add_to_all(sentences, potentials)
    return potentials


class TreeCodec(Codec):
    """Codec of sentences and trees, as :class:`TreeDecoder` sees it."""

    structure: TreeStructure
    #: A RelationLabeler, or None.
    relations: Any
    features: dict[str, list]
    templates: TemplateSet

    @abstractmethod
    def complete(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        """Yield the blocks, and warn once about missing columns that the parser uses."""

    @abstractmethod
    def tokens(self, treebank: Treebank, request: AdviceRequest = NARROW) -> ArcTokens:
        """Encode sentences to parse, with the advice of a first parser if there is one."""


@dataclass(frozen=True)
class TreeDecoder:
    """Predictions of a fitted parser.

    Parameters
    ----------
    model : OnlineModel
    temperature, relation_temperature : float or None
        Temperatures of potentials and of scores of relations; None before calibration.
    minimum_risk : bool
        Predict the tree with the largest expected number of correct heads, instead of the
        highest-scoring tree.
    n_jobs : int or None
        Number of threads.
    """

    model: OnlineModel[TreeCodec]
    temperature: float | None = None
    relation_temperature: float | None = None
    minimum_risk: bool = False
    n_jobs: int | None = None

    @property
    def structure(self) -> TreeStructure:
        """Structure of the trees."""
        return self.model.codec.structure

    @property
    def relations(self) -> Strings:
        """Table of the relations."""
        labeler = self.model.codec.relations
        return Strings() if labeler is None else labeler.strings

    def blocks(
        self, X: Sentences, required: Arcs = None, forbidden: Arcs = None
    ) -> Iterator[tuple[Treebank, ArcConstraints]]:
        """Read sentences block by block, with the constraints on their trees."""
        if isinstance(X, Stream) and (required is not None or forbidden is not None):
            raise InputError("required and forbidden must be None for a stream.")
        for block in self.model.codec.complete(treebanks_of(X, trees=False)):
            yield block, ArcConstraints(required, forbidden, len(block))

    def from_potentials(
        self,
        treebank: Treebank,
        function: Callable[[Potentials], Result],
        constraints: ArcConstraints = FREE,
    ) -> list[Result]:
        """Apply a function to the potentials of each sentence under constraints, in threads.

        Arcs that are no candidates in a first parser have potential -inf.
        """
        predictor = self.model.predictor()
        structure = self.structure

        def results_of_block(first: int, sentences: list[ArcSentence]) -> list[Result]:
            """Return the results of sentences, whose numbers begin with ``first``."""
            results = []
            for i, potentials in enumerate(potentials_of(predictor, sentences), first):
                results.append(function(constraints.applied(potentials, i, structure)))
            return results

        request = AdviceRequest(constraints=constraints, n_jobs=self.n_jobs)
        blocks = list(self.model.codec.tokens(treebank, request).blocks())
        firsts = np.cumsum([0, *map(len, blocks)]).tolist()
        results = in_threads(
            lambda block: results_of_block(*block), zip(firsts, blocks), self.n_jobs
        )
        return list(chain.from_iterable(results))

    def _scaled(self, potentials: Potentials) -> Potentials:
        """Divide potentials by the temperature."""
        return at_temperature(potentials, self.temperature or 1.0)

    def trees(self, block: Treebank, constraints: ArcConstraints = FREE) -> list[np.ndarray]:
        """Predict the heads of each sentence."""
        return self.from_potentials(block, self._decode, constraints)

    def _decode(self, potentials: Potentials) -> np.ndarray:
        """Return the heads of the predicted tree, (n,)."""
        if self.minimum_risk:
            return self.structure.decode_marginals(self._scaled(potentials))
        return self.structure.decode(potentials)

    def trees_with_marginals(
        self, block: Treebank, constraints: ArcConstraints = FREE, relations: bool = True
    ) -> tuple[Treebank, list[ParseMarginals]]:
        """Parse sentences, and compute probabilities from the same potentials.

        ``relations`` says whether a labeled parser predicts relations.
        """
        labeler = self.model.codec.relations

        def decode(potentials: Potentials) -> tuple[np.ndarray, np.ndarray]:
            settled = self.structure.settled(potentials)
            probabilities = self.structure.arc_probabilities(self._scaled(settled))
            return self._decode(settled), probabilities

        results = self.from_potentials(block, decode, constraints)
        trees = [heads for heads, _ in results]
        marginals = [ParseMarginals(arcs=arcs, relations=None) for _, arcs in results]
        if labeler is None:
            return self.with_relations(block, trees), marginals
        block = block.with_trees(concatenate_heads(trees))
        if not relations:
            return block, marginals
        scores = labeler.scores(block, concatenate_heads(trees), self.n_jobs)
        block = block.with_column("deprels", scores.argmax(axis=1).astype(np.int32), self.relations)
        probabilities = softmax(scores / (self.relation_temperature or 1.0), axis=1)
        relations_of_sentences = np.split(probabilities, block.offsets[1:-1])
        return block, [
            arcs._replace(relations=relations_of_sentence)
            for arcs, relations_of_sentence in zip(marginals, relations_of_sentences)
        ]

    def with_relations(self, treebank: Treebank, trees: list[np.ndarray]) -> Treebank:
        """Replace heads, and predict the relations of the new arcs."""
        heads = concatenate_heads(trees)
        labeler = self.model.codec.relations
        if labeler is None:
            relations = np.zeros(len(heads), np.int32)
        else:
            relations = labeler.predict(treebank, heads, self.n_jobs)
        return treebank.with_trees(heads).with_column("deprels", relations, self.relations)

    def nbest(self, block: Treebank, constraints: ArcConstraints, n: int) -> Iterator[list[Parse]]:
        """Yield the n best parses of each sentence of a block."""
        structure = self.structure
        results = self.from_potentials(
            block, lambda potentials: structure.decode_best(potentials, n), constraints
        )
        sentences = np.repeat(np.arange(len(block)), [len(scores) for _, scores in results])
        trees = list(chain.from_iterable(trees_of_sentence for trees_of_sentence, _ in results))
        parsed = iter(self.with_relations(block[sentences], trees))
        for trees_of_sentence, scores in results:
            parses = []
            for heads, score in zip(trees_of_sentence, scores.tolist()):
                parses.append(Parse(heads=heads, deprels=next(parsed).deprels, score=score))
            yield parses

    def with_confidences(self, parsed: Treebank, marginals: list[ParseMarginals]) -> Treebank:
        """Write probabilities of arcs, and calibrated ones of relations, to MISC of a block."""
        notes = confidences(parsed, marginals)
        if self.relation_temperature is None:
            notes.pop(RELATION_CONFIDENCE, None)
        return with_notes(parsed, notes)

    def temperatures(self, X: Sentences) -> tuple[float, float | None]:
        """Fit the temperatures of potentials and of scores of relations to held-out trees."""
        arcs: list[tuple[Potentials, np.ndarray]] = []
        scores = []
        gold_relations = []
        labeler = self.model.codec.relations
        for gold in treebanks_of(X, trees="partial", single_root=self.structure.single_root):
            check_trees(gold, partial=True)
            trees = gold.trees()
            arcs += zip(self.from_potentials(gold, self.structure.settled), trees)
            if labeler is not None:
                heads = np.maximum(concatenate_heads(trees), 0)
                scores.append(labeler.scores(gold, heads, self.n_jobs))
                codes = labeler.strings.codes(gold.strings["deprels"].tolist())[gold.deprels]
                gold_relations.append(np.where(gold.heads >= 0, codes, 0))
        temperature = structure_temperature(self.structure, arcs) or 1.0
        if labeler is None:
            return temperature, None
        return temperature, relation_temperature(
            np.concatenate(scores), np.concatenate(gold_relations)
        )


def confidences(parsed: Treebank, marginals: list[ParseMarginals]) -> dict[str, np.ndarray]:
    """Return the probabilities of the arc to each word, and of its relation if there are any.

    Their names are the keys in MISC.
    """
    arcs = [np.zeros(0)]
    relations = []
    for marginals_of_sentence, heads in zip(marginals, parsed.trees()):
        arcs.append(marginals_of_sentence.arcs[heads, np.arange(1, len(heads) + 1)])
        if marginals_of_sentence.relations is not None:
            relations.append(marginals_of_sentence.relations)
    confidence = {HEAD_CONFIDENCE: np.concatenate(arcs)}
    if relations:
        words = np.arange(parsed.n_words)
        confidence[RELATION_CONFIDENCE] = np.concatenate(relations)[words, parsed.deprels]
    return confidence
