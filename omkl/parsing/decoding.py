"""Predictions of a fitted parser: trees with relations, n best trees, and probabilities."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import softmax

from omkl.data import Strings, Treebank
from omkl.estimators.calibration import at_temperature, has_marginals, relation_temperature, structure_temperature
from omkl.estimators.persistence import check_is_fitted
from omkl.exceptions import InputError
from omkl.online import OnlineModel, Predictor, in_threads
from omkl.parsing.constraints import ArcConstraints, Arcs
from omkl.parsing.sentences import Sentences, check_trees, strings_of, treebanks_of, with_strings
from omkl.structures import Potentials
from omkl.structures.trees import ArcFactored

#: Names in MISC of the probability of the arc to a word, and of its relation given the arc.
HEAD_CONFIDENCE, RELATION_CONFIDENCE = "HeadConf", "RelConf"
#: Decimals of a probability in MISC.
DECIMALS = 3


class TrainedParser(Protocol):
    """A fitted :class:`~omkl.DependencyParser`, as predictions use it."""

    decode: str
    single_root: bool
    n_jobs: int | None
    temperature_: float | None
    relation_temperature_: float | None

    @property
    def model_(self) -> OnlineModel:
        """Codec and trainer."""

    @property
    def predictor_(self) -> Predictor:
        """The averaged model, frozen."""


class Parse(NamedTuple):
    """A tree of a sentence.

    Attributes
    ----------
    heads : int array of shape (n,)
        0 is the root.
    deprels : list of str
        ``_`` if the parser is not labeled.
    score : float
        Sum of the potentials of the arcs: the larger the better. Scores of the same sentence can be compared.
    """

    heads: np.ndarray
    deprels: list[str]
    score: float


class ParseMarginals(NamedTuple):
    """Probabilities of the arcs and relations of a sentence of n words.

    Attributes
    ----------
    arcs : array of shape (n + 1, n + 1)
        ``arcs[h, m]`` is the probability of the arc from ``h`` to ``m``, 0 the root; columns but the first sum to 1.
    relations : array of shape (n, K), or None
        Probability of each relation of the parser's ``relations_`` for the predicted arc to each word, given that the
        arc is right. None unless the parser is labeled and calibrated.
    """

    arcs: np.ndarray
    relations: np.ndarray | None


@dataclass
class TreeDecoder:
    """Decoding of the potentials of a sentence, under constraints.

    Parameters
    ----------
    structure : ArcFactored
    constraints : ArcConstraints
    temperature : float
        Divisor of potentials that makes log-probabilities of them.
    minimum_risk : bool
        Decode the tree of the largest expected number of right heads, not the tree of the highest score.
    """

    structure: ArcFactored
    constraints: ArcConstraints
    temperature: float = 1.0
    minimum_risk: bool = False

    @classmethod
    def of(cls, parser: TrainedParser, constraints: ArcConstraints | None = None) -> "TreeDecoder":
        """The decoder that a fitted parser asks for by its parameters."""
        if parser.decode not in ("map", "marginal"):
            raise InputError(f"`decode` must be one of 'map', 'marginal', got {parser.decode!r}.")
        if parser.decode == "marginal":
            check_marginals(parser)
        constraints = ArcConstraints() if constraints is None else constraints
        return cls(parser.predictor_.structure, constraints, parser.temperature_ or 1.0, parser.decode == "marginal")

    def tree(self, potentials: Potentials, i: int) -> np.ndarray:
        """Heads of the predicted tree of the sentence number ``i``."""
        own = self.constraints.applied(potentials, i, self.structure)
        if self.minimum_risk:
            return self.structure.decode_marginals(at_temperature(own, self.temperature))
        return self.structure.decode(own)

    def best(self, potentials: Potentials, i: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n trees of the highest scores, (m, n_words), and these scores, (m,)."""
        return self.structure.decode_best(self.constraints.applied(potentials, i, self.structure), n)

    def likeliest(self, potentials: Potentials, i: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n likeliest trees, and their log-probabilities."""
        own = at_temperature(potentials, self.temperature)
        heads, scores = self.structure.decode_best(own, n)
        return heads, scores - self.structure.marginals(own)[0]

    def marginals(self, potentials: Potentials, i: int) -> np.ndarray:
        """Probability of each arc, (n + 1, n + 1)."""
        own = self.constraints.applied(potentials, i, self.structure)
        return self.structure.arc_probabilities(at_temperature(own, self.temperature))


def from_potentials(
    parser: TrainedParser,
    treebank: Treebank,
    function: Callable[[Potentials, int], Any],
    all_arcs: bool = False,
    n_jobs: int | None = None,
) -> list[Any]:
    """Apply a function to the potentials of each sentence, in threads.

    Parameters
    ----------
    parser : DependencyParser
        Fitted.
    treebank : Treebank
    function : callable
        Called with the potentials and the number of a sentence.
    all_arcs : bool
        Score also the arcs that a first parser finds unlikely, whose potentials are -inf otherwise.
    n_jobs : int, optional
        Threads; those of the parser by default.
    """
    n_jobs = parser.n_jobs if n_jobs is None else n_jobs
    bank = parser.predictor_.banks[0]

    def of_block(numbered: tuple[int, list]) -> list[Any]:
        first, sentences = numbered
        return [function(own, first + i) for i, own in enumerate(bank.potentials_of(sentences))]

    blocks = list(parser.model_.codec.tokens(treebank, all_arcs, n_jobs).blocks())
    firsts = np.cumsum([0, *map(len, blocks)]).tolist()
    return list(chain.from_iterable(in_threads(of_block, zip(firsts, blocks), n_jobs)))


def blocks_to_parse(
    parser: TrainedParser, X: Sentences, required: Arcs = None, forbidden: Arcs = None
) -> Iterator[tuple[Treebank, ArcConstraints]]:
    """Read sentences block by block, each with the constraints of its trees."""
    check_is_fitted(parser)
    constraints = ArcConstraints(required, forbidden)
    for number, block in enumerate(parser.model_.codec.complete(treebanks_of(X, trees=False))):
        if constraints:
            if number:
                raise InputError("required= and forbidden= go with sentences that are all at hand, not a stream.")
            constraints.check_number(len(block))
        yield block, constraints


def parsed_block(parser: TrainedParser, block: Treebank, constraints: ArcConstraints) -> Treebank:
    """A block with the predicted trees."""
    trees = from_potentials(parser, block, TreeDecoder.of(parser, constraints).tree, bool(constraints))
    return with_relations(parser, block, trees)


def relation_strings(parser: TrainedParser) -> Strings:
    """Relations of a parser, the table of strings of its trees."""
    relations = parser.model_.codec.relations
    return Strings() if relations is None else relations.strings


def with_relations(parser: TrainedParser, treebank: Treebank, trees: list[np.ndarray]) -> Treebank:
    """A treebank with these heads, an array for each sentence, and their predicted relations."""
    heads = np.concatenate([np.zeros(0, np.int64), *trees])
    relations, labeler = np.zeros(len(heads), np.int32), parser.model_.codec.relations
    if labeler is not None:
        relations = labeler.predict(labeler.encode(treebank), heads, treebank.offsets, parser.n_jobs)
    return with_trees(treebank, heads, relations, relation_strings(parser))


def with_trees(treebank: Treebank, heads: np.ndarray, relations: np.ndarray, strings: Strings) -> Treebank:
    """A treebank with other heads and relations."""
    return treebank.with_column("heads", heads).with_column("deprels", relations, strings)


def with_all_trees(
    parser: TrainedParser, block: Treebank, trees: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[Treebank, np.ndarray]:
    """A treebank with several trees of each sentence, and the number of the sentence of each."""
    owners = np.repeat(np.arange(len(block)), [len(scores) for _, scores in trees])
    flat = [heads for own, _ in trees for heads in own]
    return with_relations(parser, block[owners], flat), owners


def best_parses(parser: TrainedParser, block: Treebank, constraints: ArcConstraints, n: int) -> Iterator[list[Parse]]:
    """The n best parses of each sentence of a block."""
    decoder = TreeDecoder(parser.predictor_.structure, constraints)
    trees = from_potentials(parser, block, lambda potentials, i: decoder.best(potentials, i, n), all_arcs=True)
    relations = iter(with_all_trees(parser, block, trees)[0])
    for own, scores in trees:
        yield [Parse(heads, next(relations).deprels, score) for heads, score in zip(own, scores.tolist())]


def likeliest_trees(parser: TrainedParser, X: Sentences, n: int) -> tuple[Treebank, np.ndarray, np.ndarray]:
    """The n likeliest trees of each sentence.

    Returns
    -------
    treebank : Treebank
        All these trees.
    owners : int array
        The number of the sentence of each tree.
    scores : array
        Log-probabilities of the trees.
    """
    decoder = TreeDecoder(parser.predictor_.structure, ArcConstraints(), parser.temperature_ or 1.0)
    parsed, owners, scores, first = [], [], [np.zeros(0)], 0
    for block, _ in blocks_to_parse(parser, X):
        trees = from_potentials(parser, block, lambda own, i: decoder.likeliest(own, i, n), all_arcs=True)
        found, numbers = with_all_trees(parser, block, trees)
        parsed.append(found)
        owners.append(numbers + first)
        scores += [own for _, own in trees]
        first += len(block)
    return Treebank.concatenate(parsed), np.concatenate(owners), np.concatenate(scores)


def marginals_of(
    parser: TrainedParser, block: Treebank, trees: list[np.ndarray], constraints: ArcConstraints
) -> list[ParseMarginals]:
    """Probabilities of all arcs, and of the relations of the arcs of these trees."""
    decoder = TreeDecoder(parser.predictor_.structure, constraints, parser.temperature_ or 1.0)
    arcs = from_potentials(parser, block, decoder.marginals, bool(constraints))
    labeler, temperature = parser.model_.codec.relations, parser.relation_temperature_
    if labeler is None or temperature is None:
        return [ParseMarginals(own, None) for own in arcs]
    heads = np.concatenate([np.zeros(0, np.int64), *trees])
    scores = labeler.scores(labeler.encode(block), heads, block.offsets, parser.n_jobs) / temperature
    relations = np.split(softmax(scores, axis=1), block.offsets[1:-1])
    return [ParseMarginals(own, of_arcs) for own, of_arcs in zip(arcs, relations)]


def check_marginals(parser: TrainedParser) -> None:
    """Raise an InputError where a parser has no probabilities."""
    try:
        has_marginals(parser)
    except AttributeError as error:
        raise InputError(str(error)) from None


def with_confidence(parser: TrainedParser, block: Treebank, parsed: Treebank, constraints: ArcConstraints) -> Treebank:
    """A parsed block whose MISC has the probabilities of its arcs and relations."""
    check_marginals(parser)
    if not len(parsed):
        return parsed
    trees = np.split(parsed.heads.astype(np.int64), parsed.offsets[1:-1])
    marginals = marginals_of(parser, block, trees, constraints)
    arcs = [own.arcs[heads, np.arange(1, len(heads) + 1)] for own, heads in zip(marginals, trees)]
    columns = {HEAD_CONFIDENCE: np.concatenate(arcs).tolist()}
    if marginals[0].relations is not None:
        relations = np.concatenate([own.relations for own in marginals if own.relations is not None])
        columns[RELATION_CONFIDENCE] = relations[np.arange(len(relations)), parsed.deprels].tolist()
    return with_notes(parsed, columns)


def with_notes(block: Treebank, columns: dict[str, list[float]]) -> Treebank:
    """A treebank with numbers of each word noted in MISC, by their names."""
    written = [
        _noted(misc, {name: values[word] for name, values in columns.items()})
        for word, misc in enumerate(strings_of(block, "misc"))
    ]
    return with_strings(block, "misc", written)


def _noted(misc: str, values: dict[str, float]) -> str:
    """MISC with these attributes after its others."""
    others = [entry for entry in misc.split("|") if entry != "_" and entry.partition("=")[0] not in values]
    return "|".join([*others, *(f"{name}={value:.{DECIMALS}f}" for name, value in values.items())])


def fit_temperatures(parser: TrainedParser, X: Sentences) -> tuple[float, float | None]:
    """Temperatures of potentials and of the scores of relations, on trees that the parser has not learned from."""
    arcs: list[tuple[Potentials, np.ndarray]] = []
    scores: list[np.ndarray] = []
    right: list[np.ndarray] = []
    labeler = parser.model_.codec.relations
    for gold in treebanks_of(X, trees="partial", single_root=parser.single_root):
        check_trees(gold, partial=True)
        heads = gold.heads.astype(np.int64)
        trees = np.split(heads, gold.offsets[1:-1])
        arcs += zip(from_potentials(parser, gold, lambda potentials, i: potentials), trees)
        if labeler is not None:
            scores.append(labeler.scores(labeler.encode(gold), np.maximum(heads, 0), gold.offsets, parser.n_jobs))
            relations = labeler.strings.codes(gold.strings["deprels"].tolist())[gold.deprels]
            right.append(np.where(heads >= 0, relations, 0))
    temperature = structure_temperature(parser.predictor_.structure, arcs) or 1.0
    if labeler is None:
        return temperature, None
    return temperature, relation_temperature(np.concatenate(scores), np.concatenate(right))
