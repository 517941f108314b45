"""Predictions of a fitted parser under constraints: trees with relations, n best trees, marginals."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from scipy.special import softmax

from omkl._threads import in_threads
from omkl.data import Stream, Strings, Treebank
from omkl.estimators.calibration import at_temperature, relation_temperature, structure_temperature
from omkl.exceptions import InputError
from omkl.features.fields import column_of, values_of
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import Template, TemplateSet, distance_name
from omkl.groups.templates.layout import ArcSentence, ArcTokens, TemplateLayout
from omkl.online.averaging import Predictor
from omkl.online.model import Codec, OnlineModel
from omkl.parsing.sentences import (
    ArcExamples,
    Sentences,
    check_trees,
    joined,
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
            if arcs is not None and not (isinstance(arcs, Sequence) and len(arcs) == n_sentences):
                raise InputError(
                    f"{name} must be a list with a list of arcs for each of the {n_sentences} sentences."
                )

    def __bool__(self) -> bool:
        return any(arcs is not None for arcs in self._arcs.values())

    def applied(self, potentials: Potentials, i: int, structure: TreeStructure) -> Potentials:
        """Return potentials of sentence ``i``, from 0, in which trees that break the constraints
        are forbidden.

        Raises
        ------
        omkl.exceptions.InputError
            If no tree satisfies the constraints.
        """
        if not self:
            return potentials
        n = structure.size_of(potentials)
        forbidden = self._of_sentence("forbidden", i, n)
        for head, word in self._of_sentence("required", i, n):
            forbidden += [(other, word) for other in range(n + 1) if other not in (head, word)]
        own = structure.forbidding(potentials, forbidden)
        if not structure.is_possible(own):
            raise InputError(
                f"Sentence {i + 1}: no tree has all required arcs and none of the forbidden ones."
            )
        return own

    def _of_sentence(self, name: str, i: int, n: int) -> list[tuple[int, int]]:
        """Validate the arcs of one sentence of n words."""
        arcs = self._arcs[name]
        found = []
        for arc in () if arcs is None else arcs[i] or ():
            pair = np.asarray(arc)
            is_pair = pair.shape == (2,) and pair.dtype.kind in "iu"
            if not is_pair or not 0 <= pair[0] <= n or not 0 < pair[1] <= n or pair[0] == pair[1]:
                raise InputError(
                    f"Sentence {i + 1}: {name} must hold arcs (head, word) of its {n} words, got {arc!r}."
                )
            found.append((int(pair[0]), int(pair[1])))
        return found


#: No constraints.
FREE = ArcConstraints()


def potentials_of(predictor: Predictor, sentences: list[ArcSentence]) -> list[Potentials]:
    """Return the potentials of several sentences."""
    found = [x.initial_potentials(predictor.structure) for x in sentences]
    for bank in predictor.banks:
        bank.add_to_all(sentences, found)
    return found


class ArcLabeler(Protocol):
    """Predicts the relations of arcs; see :class:`~omkl.parsing.relations.RelationLabeler`."""

    strings: Strings

    def predict(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray: ...

    def scores(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray: ...


class TreeCodec(Codec):
    """Codec of sentences and trees, as :class:`TreeDecoder` sees it."""

    structure: TreeStructure
    relations: ArcLabeler | None
    features: dict[str, list]
    templates: TemplateSet

    @abstractmethod
    def complete(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        """Yield the blocks, and warn once about missing columns that the parser uses."""

    @abstractmethod
    def tokens(self, treebank: Treebank, **options: Any) -> ArcTokens:
        """Encode sentences to parse; see :class:`omkl.parsing.stages.Asked` for the options."""


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
        predictor, structure = self.model.predictor(), self.structure

        def of_block(numbered: tuple[int, list]) -> list[Result]:
            first, sentences = numbered
            potentials = enumerate(potentials_of(predictor, sentences), first)
            return [function(constraints.applied(own, i, structure)) for i, own in potentials]

        blocks = list(
            self.model.codec.tokens(treebank, constraints=constraints, n_jobs=self.n_jobs).blocks()
        )
        firsts = np.cumsum([0, *map(len, blocks)]).tolist()
        return list(chain.from_iterable(in_threads(of_block, zip(firsts, blocks), self.n_jobs)))

    def _scaled(self, potentials: Potentials) -> Potentials:
        """Divide potentials by the temperature."""
        return at_temperature(potentials, self.temperature or 1.0)

    def trees(self, block: Treebank, constraints: ArcConstraints = FREE) -> list[np.ndarray]:
        """Predict the heads of each sentence."""
        structure = self.structure
        if not self.minimum_risk:
            return self.from_potentials(block, structure.decode, constraints)
        return self.from_potentials(
            block, lambda own: structure.decode_marginals(self._scaled(own)), constraints
        )

    def sure_trees(
        self, block: Treebank, constraints: ArcConstraints = FREE, relations: bool = True
    ) -> tuple[Treebank, list[ParseMarginals]]:
        """Parse sentences, with or without ``relations``, and compute probabilities from the same
        potentials.
        """
        structure, labeler = self.structure, self.model.codec.relations

        def decoded(own: Potentials) -> tuple[np.ndarray, np.ndarray]:
            own = structure.settled(own)
            scaled = self._scaled(own)
            heads = (
                structure.decode_marginals(scaled) if self.minimum_risk else structure.decode(own)
            )
            return heads, structure.arc_probabilities(scaled)

        found = self.from_potentials(block, decoded, constraints)
        trees, arcs = [heads for heads, _ in found], [own for _, own in found]
        if labeler is None:
            return self.with_relations(block, trees), [ParseMarginals(own, None) for own in arcs]
        block = block.with_trees(joined(trees))
        if not relations:
            return block, [ParseMarginals(own, None) for own in arcs]
        scores = labeler.scores(block, joined(trees), self.n_jobs)
        block = block.with_column("deprels", scores.argmax(axis=1).astype(np.int32), self.relations)
        of_arcs = np.split(
            softmax(scores / (self.relation_temperature or 1.0), axis=1), block.offsets[1:-1]
        )
        return block, [ParseMarginals(*own) for own in zip(arcs, of_arcs)]

    def with_relations(self, treebank: Treebank, trees: list[np.ndarray]) -> Treebank:
        """Replace heads, and predict the relations of the new arcs."""
        heads, labeler = joined(trees), self.model.codec.relations
        none = np.zeros(len(heads), np.int32)
        relations = none if labeler is None else labeler.predict(treebank, heads, self.n_jobs)
        return treebank.with_trees(heads).with_column("deprels", relations, self.relations)

    def nbest(self, block: Treebank, constraints: ArcConstraints, n: int) -> Iterator[list[Parse]]:
        """Yield the n best parses of each sentence of a block."""
        structure = self.structure
        trees = self.from_potentials(block, lambda own: structure.decode_best(own, n), constraints)
        owners = np.repeat(np.arange(len(block)), [len(scores) for _, scores in trees])
        parsed = iter(
            self.with_relations(block[owners], [heads for own, _ in trees for heads in own])
        )
        for own, scores in trees:
            yield [
                Parse(heads, next(parsed).deprels, score)
                for heads, score in zip(own, scores.tolist())
            ]

    def noted(self, parsed: Treebank, marginals: list[ParseMarginals]) -> Treebank:
        """Write the probabilities of arcs, and of relations if they are calibrated, into MISC of a
        parsed block.
        """
        notes = confidences(parsed, marginals)
        if self.relation_temperature is None:
            notes.pop(RELATION_CONFIDENCE, None)
        return with_notes(parsed, notes)

    def temperatures(self, X: Sentences) -> tuple[float, float | None]:
        """Fit the temperatures of potentials and of scores of relations to held-out trees."""
        arcs: list[tuple[Potentials, np.ndarray]] = []
        scores: list[np.ndarray] = []
        right: list[np.ndarray] = []
        labeler = self.model.codec.relations
        for gold in treebanks_of(X, trees="partial", single_root=self.structure.single_root):
            check_trees(gold, partial=True)
            trees = gold.trees()
            arcs += zip(self.from_potentials(gold, self.structure.settled), trees)
            if labeler is not None:
                scores.append(labeler.scores(gold, np.maximum(joined(trees), 0), self.n_jobs))
                relations = labeler.strings.codes(gold.strings["deprels"].tolist())[gold.deprels]
                right.append(np.where(gold.heads >= 0, relations, 0))
        temperature = structure_temperature(self.structure, arcs) or 1.0
        if labeler is None:
            return temperature, None
        return temperature, relation_temperature(np.concatenate(scores), np.concatenate(right))


def confidences(parsed: Treebank, marginals: list[ParseMarginals]) -> dict[str, np.ndarray]:
    """Return the probabilities of the arc to each word, and of its relation if known, by their keys
    in MISC.
    """
    arcs = [
        own.arcs[heads, np.arange(1, len(heads) + 1)]
        for own, heads in zip(marginals, parsed.trees())
    ]
    found = {HEAD_CONFIDENCE: np.concatenate([np.zeros(0), *arcs])}
    if relations := [own.relations for own in marginals if own.relations is not None]:
        found[RELATION_CONFIDENCE] = np.concatenate(relations)[
            np.arange(parsed.n_words), parsed.deprels
        ]
    return found


# ---- explanations --------------------------------------------------------------------------------


def strongest_features(
    bank: ArcTemplateBank, treebank: Treebank, examples: ArcExamples, n: int
) -> dict[str, list[tuple[str, float]]]:
    """Return the ``n`` strongest features of each template with their weights, by template."""
    arrays = (
        examples.tokens,
        TemplateLayout(bank.templates).places_in(examples.tokens, examples.heads),
    )
    name = feature_namer(bank.templates, treebank)
    return {
        template.name: [
            (name(template, *place), weight) for weight, place in bank.strongest(k, n, *arrays)
        ]
        for k, template in enumerate(bank.templates)
    }


def feature_namer(templates: TemplateSet, treebank: Treebank) -> Callable[..., str]:
    """Make a function that names the feature of an arc or part, such as ``h.form=dog m-1.upos=DET
    right 2``.

    Its arguments are a template, the index of a sentence, head, modifier, and the third node of a
    part or a token between them. Modifier and third node are -1 if there is none; 0 is an unknown
    token between them.
    """

    def value(sentence: int, field: str, place: int) -> str:
        """Return the value of a field of the word at a position of a sentence."""
        first, last = treebank.offsets[sentence : sentence + 2].tolist()
        if not 0 < place <= last - first:
            return "OUTSIDE" if place else "ROOT"
        column = column_of(field)
        string = treebank.strings[column][treebank.codes(column)[first + place - 1]]
        return values_of(field, [string], templates.lexicons)[0]

    def name(template: Template, sentence: int, head: int, modifier: int, other: int = 0) -> str:
        arc = ("h", head, template.head), ("m", modifier, template.modifier)
        sides = (template.part[0], other, template.third), *arc
        parts = [
            f"{side}{f'{o:+}' if o else ''}.{field}={'NONE' if place < 0 else value(sentence, field, place + o)}"
            for side, place, atoms in sides
            for o, field in atoms
        ]
        if template.between:
            found = f"={value(sentence, template.between, other)}" if other else ""
            parts.append(f"between.{template.between}{found}")
        if template.variant != "arc":
            parts.append("left" if (other if modifier < 0 else modifier) < head else "right")
        if template.variant == "distance" and modifier >= 0:
            parts.append(distance_name(abs(head - modifier)))
        return " ".join(parts) or "arc"

    return name
