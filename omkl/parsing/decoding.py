"""Predictions of a fitted parser: trees with relations, n best trees, and probabilities."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import softmax

from omkl._threads import in_threads
from omkl.data import Stream, Strings, Treebank
from omkl.estimators.calibration import at_temperature, has_marginals, relation_temperature, structure_temperature
from omkl.estimators.persistence import check_is_fitted
from omkl.exceptions import InputError
from omkl.parsing.constraints import ArcConstraints, Arcs
from omkl.parsing.protocol import Parser
from omkl.parsing.sentences import Sentences, check_trees, strings_of, treebanks_of, with_strings
from omkl.structures.base import Potentials

#: Names in MISC of the probability of the arc to a word, and of its relation given the arc.
HEAD_CONFIDENCE, RELATION_CONFIDENCE = "HeadConf", "RelConf"
#: Decimals of a probability in MISC.
DECIMALS = 3
#: No constraints.
FREE = ArcConstraints()

Result = TypeVar("Result")


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


def from_potentials(
    parser: Parser,
    treebank: Treebank,
    function: Callable[[Potentials], Result],
    constraints: ArcConstraints = FREE,
    *,
    all_arcs: bool = False,
    n_jobs: int | None = None,
) -> list[Result]:
    """Apply a function to the potentials of each sentence under constraints, in threads.

    ``all_arcs`` scores also the arcs that a first parser finds unlikely, whose potentials are -inf otherwise;
    constraints do so as well. Threads are by default those of the parser.
    """
    n_jobs = parser.n_jobs if n_jobs is None else n_jobs
    bank, structure = parser.predictor_.banks[0], parser.predictor_.structure

    def of_block(numbered: tuple[int, list]) -> list[Result]:
        first, sentences = numbered
        potentials = enumerate(bank.potentials_of(sentences), first)
        return [function(constraints.applied(own, i, structure)) for i, own in potentials]

    blocks = list(parser.model_.codec.tokens(treebank, all_arcs or bool(constraints), n_jobs).blocks())
    firsts = np.cumsum([0, *map(len, blocks)]).tolist()
    return list(chain.from_iterable(in_threads(of_block, zip(firsts, blocks), n_jobs)))


def blocks_to_parse(
    parser: Parser, X: Sentences, required: Arcs = None, forbidden: Arcs = None
) -> Iterator[tuple[Treebank, ArcConstraints]]:
    """Read sentences block by block, each with the constraints of its trees."""
    check_is_fitted(parser)
    if isinstance(X, Stream) and (required is not None or forbidden is not None):
        raise InputError("required and forbidden must be None for a stream.")
    for block in parser.model_.codec.complete(treebanks_of(X, trees=False)):
        yield block, ArcConstraints(required, forbidden, len(block))


def best_trees(parser: Parser, block: Treebank, constraints: ArcConstraints = FREE) -> list[np.ndarray]:
    """Heads of each sentence: the best tree, or that of the largest expected number of right heads, by ``decode``."""
    structure, temperature = parser.predictor_.structure, parser.temperature_ or 1.0
    if parser.decode == "map":
        return from_potentials(parser, block, structure.decode, constraints)
    check_marginals(parser)

    def of_minimum_risk(own: Potentials) -> np.ndarray:
        return structure.decode_marginals(at_temperature(own, temperature))

    return from_potentials(parser, block, of_minimum_risk, constraints)


def relation_strings(parser: Parser) -> Strings:
    """Relations of a parser, the table of strings of its trees."""
    relations = parser.model_.codec.relations
    return Strings() if relations is None else relations.strings


def with_relations(parser: Parser, treebank: Treebank, trees: list[np.ndarray]) -> Treebank:
    """A treebank with these heads, an array for each sentence, and their predicted relations."""
    heads = np.concatenate([np.zeros(0, np.int64), *trees])
    relations, labeler = np.zeros(len(heads), np.int32), parser.model_.codec.relations
    if labeler is not None:
        relations = labeler.predict(treebank, heads, parser.n_jobs)
    return with_trees(treebank, heads, relations, relation_strings(parser))


def with_trees(treebank: Treebank, heads: np.ndarray, relations: np.ndarray, strings: Strings) -> Treebank:
    """A treebank with other heads and relations."""
    return treebank.with_column("heads", heads).with_column("deprels", relations, strings)


def with_all_trees(
    parser: Parser, block: Treebank, trees: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[Treebank, np.ndarray]:
    """A treebank with several trees of each sentence, and the number of the sentence of each."""
    owners = np.repeat(np.arange(len(block)), [len(scores) for _, scores in trees])
    flat = [heads for own, _ in trees for heads in own]
    return with_relations(parser, block[owners], flat), owners


def best_parses(parser: Parser, block: Treebank, constraints: ArcConstraints, n: int) -> Iterator[list[Parse]]:
    """The n best parses of each sentence of a block."""
    structure = parser.predictor_.structure
    trees = from_potentials(parser, block, lambda own: structure.decode_best(own, n), constraints, all_arcs=True)
    relations = iter(with_all_trees(parser, block, trees)[0])
    for own, scores in trees:
        yield [Parse(heads, next(relations).deprels, score) for heads, score in zip(own, scores.tolist())]


def likeliest_trees(parser: Parser, block: Treebank, n: int) -> tuple[Treebank, np.ndarray, np.ndarray]:
    """The n likeliest trees of each sentence, the number of the sentence of each, and their log-probabilities."""
    structure, temperature = parser.predictor_.structure, parser.temperature_ or 1.0

    def likeliest(potentials: Potentials) -> tuple[np.ndarray, np.ndarray]:
        own = at_temperature(potentials, temperature)
        heads, scores = structure.decode_best(own, n)
        return heads, scores - structure.marginals(own)[0]

    [(block, _)] = blocks_to_parse(parser, block)
    trees = from_potentials(parser, block, likeliest, all_arcs=True)
    return *with_all_trees(parser, block, trees), np.concatenate([np.zeros(0), *(scores for _, scores in trees)])


def marginals_of(
    parser: Parser, block: Treebank, trees: list[np.ndarray], constraints: ArcConstraints
) -> list[ParseMarginals]:
    """Probabilities of all arcs, and of the relations of the arcs of these trees."""
    structure, temperature = parser.predictor_.structure, parser.temperature_ or 1.0

    def arc_probabilities(own: Potentials) -> np.ndarray:
        return structure.arc_probabilities(at_temperature(own, temperature))

    arcs = from_potentials(parser, block, arc_probabilities, constraints)
    labeler, temperature_of_relations = parser.model_.codec.relations, parser.relation_temperature_
    if labeler is None or temperature_of_relations is None:
        return [ParseMarginals(own, None) for own in arcs]
    heads = np.concatenate([np.zeros(0, np.int64), *trees])
    scores = labeler.scores(block, heads, parser.n_jobs) / temperature_of_relations
    relations = np.split(softmax(scores, axis=1), block.offsets[1:-1])
    return [ParseMarginals(own, of_arcs) for own, of_arcs in zip(arcs, relations)]


def check_marginals(parser: Parser) -> None:
    """Raise an InputError where a parser has no probabilities."""
    try:
        has_marginals(parser)
    except AttributeError as error:
        raise InputError(str(error)) from None


def with_confidence(parser: Parser, block: Treebank, parsed: Treebank, constraints: ArcConstraints) -> Treebank:
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


def fit_temperatures(parser: Parser, X: Sentences) -> tuple[float, float | None]:
    """Temperatures of potentials and of the scores of relations, on trees that the parser has not learned from."""
    arcs: list[tuple[Potentials, np.ndarray]] = []
    scores: list[np.ndarray] = []
    right: list[np.ndarray] = []
    labeler = parser.model_.codec.relations
    for gold in treebanks_of(X, trees="partial", single_root=parser.single_root):
        check_trees(gold, partial=True)
        heads = gold.heads.astype(np.int64)
        trees = np.split(heads, gold.offsets[1:-1])
        arcs += zip(from_potentials(parser, gold, lambda own: own), trees)
        if labeler is not None:
            scores.append(labeler.scores(gold, np.maximum(heads, 0), parser.n_jobs))
            relations = labeler.strings.codes(gold.strings["deprels"].tolist())[gold.deprels]
            right.append(np.where(heads >= 0, relations, 0))
    temperature = structure_temperature(parser.predictor_.structure, arcs) or 1.0
    if labeler is None:
        return temperature, None
    return temperature, relation_temperature(np.concatenate(scores), np.concatenate(right))
