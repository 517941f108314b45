"""What a trained parser does: trees, alternatives, probabilities."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if

from omkl._components import check_number
from omkl.data import Strings, Treebank
from omkl.estimators.arc_constraints import ArcConstraints
from omkl.estimators.calibration import relation_temperature, tree_temperature
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.labelings import has_marginals
from omkl.estimators.learned_templates import LearnedTemplates
from omkl.estimators.tree_prediction import from_potentials, labeled, relation_strings
from omkl.estimators.treebanks import check_trees, treebanks_of
from omkl.exceptions import InputError

#: What MISC calls the probabilities of the arc to a word, and of its relation where the arc is right.
HEAD_CONFIDENCE, RELATION_CONFIDENCE = "HeadConf", "RelConf"
#: Characters of a probability in MISC.
DECIMALS = 3


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
        Probability of each relation of the parser's ``relations_`` for the arc to each word in the tree that is
        predicted, where that arc is right. None unless the parser is labeled and has been calibrated.
    """

    arcs: np.ndarray
    relations: np.ndarray | None


class PredictsTrees(LearnedTemplates):
    """Predictions of a model over trees; see :class:`~omkl.DependencyParser`."""

    temperature_: float | None
    relation_temperature_: float | None
    decode: str
    single_root: bool
    n_jobs: int | None

    def parse(self, X: Any, *, required: Any = None, forbidden: Any = None, confidence: bool = False) -> Treebank:
        """Parse sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Stream, or sentences
            A sentence is a list of words, a :class:`~omkl.data.Sentence`, a ``TokenList`` of the library conllu or a
            ``Doc`` of spaCy (whose white space is left out, and which may be several); give one of the latter three,
            or an iterable of any. Heads and relations in it are not looked at. What the parser has learned from and
            the input lacks, such as tags in lists of words, is named by one warning.
        required, forbidden : list of iterables of (int, int), optional
            For each sentence the arcs ``(head, word)`` that its tree must have, or must not have; words are counted
            from 1, and the head 0 is the root. The tree is the best of those that are left.
        confidence : bool
            Whether the probability of the arc to each word is noted in MISC, as ``HeadConf=0.987``, and that of its
            relation, as ``RelConf=0.912``; see :meth:`predict_marginals` for when there are some.

        Returns
        -------
        Treebank
            The same sentences with the best tree of each, and the relations if the parser is labeled. Iterate it for
            sentences, or write it with :func:`omkl.data.write_treebank`.

        Raises
        ------
        omkl.exceptions.InputError
            If arcs contradict each other, leave no tree, or are not those of the sentence; or if there are no
            probabilities where they are asked for.
        """
        parsed = []
        for block, constraints in self._blocks(X, required, forbidden):
            trees = from_potentials(self, block, self._decoder(constraints), bool(constraints))
            found = labeled(self, block, trees, relation_strings(self))
            parsed.append(self._with_confidence(block, found, constraints) if confidence else found)
        return Treebank.concatenate(parsed)

    def predict(self, X: Any) -> list[np.ndarray]:
        """Heads of each sentence: a list of int arrays; 0 is the root."""
        parsed = self.parse(X)
        return np.split(parsed.heads, parsed.offsets[1:-1]) if len(parsed) else []

    def predict_nbest(self, X: Any, n: int = 5, *, required: Any = None, forbidden: Any = None) -> list[list[Parse]]:
        """The best trees of each sentence, best first.

        They are those of the highest scores, whatever ``decode`` is (Lawler 1972); each takes as long as parsing the
        sentence once for each of its words.

        Parameters
        ----------
        X, required, forbidden
            As for :meth:`parse`.
        n : int > 0
            How many; fewer where a sentence has not so many.

        Returns
        -------
        list of list of Parse
            ``(heads, deprels, score)``.
        """
        check_number("n", n, above=0, integer=True)
        found: list[list[Parse]] = []
        for block, constraints in self._blocks(X, required, forbidden):
            structure = self.predictor_.structure

            def best(potentials: np.ndarray, i: int, structure: Any = structure, kept: Any = constraints) -> Any:
                return structure.decode_best(kept.applied(potentials, i, structure) if kept else potentials, int(n))

            trees = from_potentials(self, block, best, all_arcs=True)
            relations = iter(self._with_all(block, trees)[0])
            found += [
                [Parse(heads, next(relations).deprels, score) for heads, score in zip(own, scores.tolist())]
                for own, scores in trees
            ]
        return found

    def _with_all(self, block: Treebank, trees: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Treebank, np.ndarray]:
        """A treebank with several trees of each sentence, and which of the sentences each is of."""
        owners = np.repeat(np.arange(len(block)), [len(scores) for _, scores in trees])
        flat = [heads for own, _ in trees for heads in own]
        return labeled(self, block[owners], flat, relation_strings(self)), owners

    def _nbest_trees(self, treebank: Treebank, n: int) -> tuple[Treebank, np.ndarray, np.ndarray]:
        """The n likeliest trees of each sentence: a treebank of them all, whose each is, and its log-probability."""
        structure, temperature = self.predictor_.structure, getattr(self, "temperature_", None) or 1.0

        def best(potentials: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
            own = potentials / temperature
            heads, scores = structure.decode_best(own, n)
            return heads, scores - structure.marginals(own)[0]

        parsed, owners, logs, first = [], [], [np.zeros(0)], 0
        for block, _ in self._blocks(treebank, None, None):
            trees = from_potentials(self, block, best, all_arcs=True)
            found, own = self._with_all(block, trees)
            parsed.append(found)
            owners.append(own + first)
            logs += [scores for _, scores in trees]
            first += len(block)
        return Treebank.concatenate(parsed), np.concatenate(owners), np.concatenate(logs)

    @property
    def relations_(self) -> list[str]:
        """The relations that a labeled parser knows, in the order of the columns of their probabilities."""
        return relation_strings(self).tolist()

    @available_if(has_marginals)
    def predict_marginals(self, X: Any, *, required: Any = None, forbidden: Any = None) -> list[ParseMarginals]:
        """Probabilities of arcs, and of the relations of those that are predicted.

        With ``loss="crf"`` those of arcs are the model's own until it is calibrated; with others there are none before,
        see :meth:`calibrate`. Those of relations, which a support vector machine finds, need that in any case.

        Parameters
        ----------
        X, required, forbidden
            As for :meth:`parse`: probabilities are then those given the constraints.

        Returns
        -------
        list of ParseMarginals
            ``(arcs, relations)`` of each sentence.
        """
        found: list[ParseMarginals] = []
        for block, constraints in self._blocks(X, required, forbidden):
            trees = from_potentials(self, block, self._decoder(constraints), bool(constraints))
            found += self._marginals(block, trees, constraints)
        return found

    def calibrate(self, X: Any) -> Any:
        """Find the temperatures that make probabilities of the model's scores, on trees that it has not learned from.

        Potentials of arcs are divided by ``temperature_``, and the scores of relations by ``relation_temperature_``:
        the numbers at which the right heads and relations are likeliest, word by word (temperature scaling: Guo,
        Pleiss, Sun, Weinberger 2017). The best tree stays the same. ``fit`` does this by itself on the sentences that
        ``early_stopping`` holds out, unless there is a ``first`` parser, which learns from them. Another ``fit`` or
        ``partial_fit`` takes the temperatures away.

        Parameters
        ----------
        X : as for :meth:`fit`
            Words whose head is not known do not count.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        arcs: list[tuple[np.ndarray, np.ndarray]] = []
        scores: list[np.ndarray] = []
        right: list[np.ndarray] = []
        labeler = self.model_.codec.relations
        for gold in treebanks_of(X, trees="partial", single_root=self.single_root):
            check_trees(gold, partial=True)
            heads = gold.heads.astype(np.int64)
            trees = np.split(heads, gold.offsets[1:-1])
            arcs += zip(from_potentials(self, gold, lambda potentials, i: potentials), trees)
            if labeler is not None:
                scores.append(labeler.scores(labeler.encode(gold), np.maximum(heads, 0), gold.offsets, self.n_jobs))
                relations = labeler.strings.codes(gold.strings["deprels"].tolist())[gold.deprels]
                right.append(np.where(heads >= 0, relations, 0))
        self.temperature_ = tree_temperature(self.predictor_.structure, arcs)
        if labeler is not None:
            self.relation_temperature_ = relation_temperature(np.concatenate(scores), np.concatenate(right))
        return self

    def _blocks(self, X: Any, required: Any, forbidden: Any) -> Iterator[tuple[Treebank, ArcConstraints]]:
        """Sentences to parse, block by block, and the constraints of their trees."""
        check_is_fitted(self)
        constraints = ArcConstraints(required, forbidden)
        for number, block in enumerate(self.model_.codec.complete(treebanks_of(X, trees=False))):
            if constraints:
                if number:
                    raise InputError("required= and forbidden= go with sentences that are all at hand, not a stream.")
                constraints.check_number(len(block))
            yield block, constraints

    def _decoder(self, constraints: ArcConstraints) -> Any:
        """What finds the tree of a sentence: a function of its potentials and its number."""
        structure, temperature = self.predictor_.structure, getattr(self, "temperature_", None) or 1.0
        if self.decode not in ("map", "marginal"):
            raise InputError(f'decode must be "map" or "marginal", not {self.decode!r}.')
        if self.decode == "marginal":
            _check_marginals(self)

        def tree(potentials: np.ndarray, i: int) -> np.ndarray:
            own = constraints.applied(potentials, i, structure) if constraints else potentials
            return structure.decode(own) if self.decode == "map" else structure.decode_marginals(own / temperature)

        return tree

    def _marginals(self, block: Treebank, trees: list[np.ndarray], constraints: ArcConstraints) -> list[ParseMarginals]:
        """Probabilities of arcs, and of the relations of the arcs of these trees."""
        structure, temperature = self.predictor_.structure, getattr(self, "temperature_", None) or 1.0

        def probabilities(potentials: np.ndarray, i: int) -> np.ndarray:
            own = constraints.applied(potentials, i, structure) if constraints else potentials
            return structure.marginals(own / temperature)[1]

        arcs = from_potentials(self, block, probabilities, bool(constraints))
        labeler, temperature_of_relations = self.model_.codec.relations, getattr(self, "relation_temperature_", None)
        if labeler is None or temperature_of_relations is None:
            return [ParseMarginals(own, None) for own in arcs]
        heads = np.concatenate([np.zeros(0, np.int64), *trees])
        scores = labeler.scores(labeler.encode(block), heads, block.offsets, self.n_jobs) / temperature_of_relations
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        relations = np.split(weights / weights.sum(axis=1, keepdims=True), block.offsets[1:-1])
        return [ParseMarginals(own, of_arcs) for own, of_arcs in zip(arcs, relations)]

    def _with_confidence(self, block: Treebank, parsed: Treebank, constraints: ArcConstraints) -> Treebank:
        """A parsed treebank whose MISC has the probabilities of its arcs and relations."""
        _check_marginals(self)
        if not len(parsed):
            return parsed
        trees = np.split(parsed.heads.astype(np.int64), parsed.offsets[1:-1])
        marginals = self._marginals(block, trees, constraints)
        notes = [
            [(HEAD_CONFIDENCE, own.arcs[heads, np.arange(1, len(heads) + 1)]) for own, heads in zip(marginals, trees)]
        ]
        if marginals[0].relations is not None:
            codes = np.split(parsed.deprels, parsed.offsets[1:-1])
            notes.append([
                (RELATION_CONFIDENCE, own.relations[np.arange(len(of_arcs)), of_arcs])
                for own, of_arcs in zip(marginals, codes) if own.relations is not None
            ])  # fmt: skip
        columns = {own[0][0]: np.concatenate([values for _, values in own]).tolist() for own in notes}
        return with_notes(parsed, columns)


def with_notes(block: Treebank, columns: dict[str, list[float]]) -> Treebank:
    """A treebank whose MISC has numbers of each word, by their names."""
    misc, strings = block.strings["misc"].tolist(), Strings()
    written = [
        _noted(misc[code], {name: values[word] for name, values in columns.items()})
        for word, code in enumerate(block.misc.tolist())
    ]
    return block.with_column("misc", strings.codes(written, grow=True), strings)


def _check_marginals(parser: Any) -> None:
    try:
        has_marginals(parser)
    except AttributeError as error:
        raise InputError(str(error)) from None


def _noted(misc: str, values: dict[str, float]) -> str:
    """MISC with these attributes beside its others."""
    others = [entry for entry in misc.split("|") if entry != "_" and entry.partition("=")[0] not in values]
    return "|".join([*others, *(f"{name}={value:.{DECIMALS}f}" for name, value in values.items())])
