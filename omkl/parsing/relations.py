"""RelationLabeler, a linear classifier of the relations of arcs."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from omkl._threads import in_threads
from omkl.data import Strings, Treebank
from omkl.estimators.training import Run
from omkl.features.lexicons import Lexicon
from omkl.groups.tables import ExplicitBank
from omkl.groups.templates.language import TemplateSet, of_lexicon
from omkl.groups.templates.layout import ArcFeatureHasher, ArcTokens
from omkl.groups.tokens import Tokens
from omkl.losses import StructuredHinge
from omkl.online.averaging import PolynomialAverage
from omkl.online.driver import fastest_pass
from omkl.online.model import OnlineModel, condensed_state
from omkl.online.rounds import Example, LearnedBlock, Sequences, State
from omkl.online.schedules import DistanceOverGradients
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, Pass, in_order, serial_pass
from omkl.parsing.sentences import ArcExamples, encode, suitable_templates
from omkl.persistence import Arrays, Manifest
from omkl.regularizers import Ridge
from omkl.structures.chain import Chain

#: Number of hash buckets for the features of a template.
ROWS = 2048

#: Number of sentences to label at a time.
TOGETHER = 64

#: Templates for relations: both words, their tags and morphology, their neighbours, and words in
#: between.
RELATION_TEMPLATES = (
    "h.upos m.upos direction", "h.upos m.upos distance", "h.lemma m.upos direction",
    "h.upos m.lemma direction", "h.lemma m.lemma", "m.form", "m.lower h.upos direction",
    "m.upos m.feats direction", "m.feats h.upos direction", "h.feats m.feats direction",
    "h.upos h.feats m.upos direction", "h.upos m-1.upos m.upos direction",
    "h.upos m.upos m+1.upos direction", "h-1.upos h.upos m.upos direction",
    "h.upos h+1.upos m.upos direction", "m-1.lower m.upos direction", "m+1.lower m.upos direction",
    "h.xpos m.xpos direction", "h.lemma m.xpos direction", "h.upos m.lemma m-1.upos direction",
    "h.upos m.lemma m+1.upos direction", "h.upos m.suffix3 direction",
    "h.upos between.upos m.upos direction", "m-2.upos m-1.upos m.upos direction",
    "h.upos between.lower m.upos direction", "m.lower", "h.lemma", "m.lemma m.upos",
    "m.form m-1.lower", "m-1.lemma m.lemma", "m.lemma m+1.lemma", "h.lemma m-1.lower",
    "m.lemma h.upos m.upos distance", "h.xpos m.xpos distance", "m.feats", "h.feats m.upos",
    "h.lemma h.upos m.feats", "m.prefix3 m.upos", "m.suffix2 m.upos", "m.suffix3 m.feats",
    "h.suffix3 m.upos direction", "h.upos m.upos m+1.upos m+2.upos",
)  # fmt: skip
#: Templates of relatives in the tree, for trees of second order.
RELATIVE_TEMPLATES = (
    "h.parent_upos h.upos m.upos direction", "h.parent_lemma m.upos", "h.parent_upos m.lemma",
    "m.before_upos h.upos m.upos direction", "m.after_upos h.upos m.upos direction",
    "m.before_lemma m.upos direction", "m.after_lemma m.upos direction",
    "m.leftmost_upos m.upos h.upos direction", "m.leftmost_lower m.upos direction",
    "m.leftmost_lower h.upos m.upos direction", "m.leftmost_lower h.lemma",
    "m.leftmost_lemma m.lemma", "m.rightmost_upos m.upos h.upos direction",
    "m.rightmost_lower m.upos", "m.rightmost_lower h.upos m.upos direction",
    "m.valency m.upos h.upos direction", "h.leftmost_lower h.upos m.upos direction",
    "h.rightmost_lower h.upos m.upos direction", "h.leftmost_upos h.upos m.upos direction",
    "h.rightmost_upos h.upos m.upos direction", "h.valency h.upos m.upos direction",
)  # fmt: skip


class RelationLabeler:
    """Classifier of the relations of arcs in trees.

    It is an SVM, implemented as a chain without transitions. Arcs from the root can only have
    relations of such arcs in the training data, and arcs between words only relations of arcs
    between words: in Universal Dependencies, ``root`` is for arcs from the root only.

    Parameters
    ----------
    strings : Strings
        Table of the relations.
    templates : TemplateSet
    """

    def __init__(self, strings: Strings, templates: TemplateSet) -> None:
        self.strings = strings
        self.templates = templates
        self._hasher = ArcFeatureHasher(templates, ROWS)
        bank = ExplicitBank(
            templates.names, self._hasher.groups, len(strings), averaging=True, dtype=np.float32
        )
        self.trainer = OnlineTrainer(
            [bank],
            Chain(len(strings), linked=False),
            StructuredHinge(),
            Ridge(),
            lambda_=0.0,
            schedule=DistanceOverGradients(),
            average=PolynomialAverage(2.0),
        )
        #: Relations of arcs between words (row 0) and from the root (row 1) in the training data.
        self._seen = np.zeros((2, len(strings)), dtype=bool)

    @classmethod
    def for_treebank(
        cls,
        treebank: Treebank,
        is_all_data: bool,
        lexicons: Mapping[str, Lexicon],
        relatives: bool = False,
    ) -> "RelationLabeler":
        """Make an untrained labeler, with templates for columns of a treebank and for lexicons.

        With ``relatives``, there are also templates of the relatives of words in the tree. Its
        relations are those of the treebank if ``is_all_data``. For a block of a stream, it starts
        without relations.
        """
        lines = list(RELATION_TEMPLATES)
        if relatives:
            lines += RELATIVE_TEMPLATES
        for name in lexicons:
            lines += [line for line in of_lexicon(name) if line.endswith("direction")]
        templates, _ = suitable_templates(TemplateSet(lines, lexicons), treebank, is_all_data)
        strings = treebank.strings["deprels"].copy() if is_all_data else Strings()
        return cls(strings, templates)

    def fit(
        self,
        treebank: Treebank,
        weights: np.ndarray | None,
        C: float,
        epochs: int,
        run: Run,
        heads: np.ndarray | None,
    ) -> None:
        """Train on gold arcs.

        ``weights`` of sentences are (number of sentences,) or None. Relatives are those in trees
        with these ``heads``: predicted by parsers trained on other sentences, as gold trees would
        be too good.
        """
        codes = _codes_with_head(treebank, treebank.deprels)
        self._remember(treebank.heads, codes)
        examples = ArcExamples.of(treebank, self.templates, weights, heads=heads)
        self.trainer.plan(lambda_=1.0 / (C * examples.total_weight))
        source = ArraySource(_Arcs(examples, codes, self._hasher), run.rng)
        run.loop("relations", self.trainer, source, epochs).run(epochs)

    def learn(self, examples: ArcExamples, trainer: OnlineTrainer, make_pass: Pass) -> None:
        """Train one round on each sentence of a block, with the lambda of ``trainer``.

        New relations are added.
        """
        treebank = examples.treebank
        strings = treebank.strings["deprels"].tolist()
        codes = self.strings.codes(strings, grow=True)[treebank.deprels]
        codes = _codes_with_head(treebank, codes)
        n_new = len(self.strings) - self._seen.shape[1]
        if n_new > 0:
            self.trainer.grow_outputs(Chain(len(self.strings), linked=False), len(self.strings))
            self._seen = np.pad(self._seen, ((0, 0), (0, n_new)))
        self._remember(treebank.heads, codes)
        trees = ArcExamples.of(treebank, self.templates, examples.input_weights)
        arcs = _Arcs(trees, codes, self._hasher)
        self.trainer.plan(lambda_=trainer.lambda_, recompute_every=trainer.recompute_every)
        if make_pass is serial_pass:
            make_pass = fastest_pass(self.trainer, arcs) or serial_pass
        for _ in make_pass(self.trainer, arcs, in_order, 0):
            pass

    def predict(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray:
        """Predict the code of the relation of every word given its head, (number of words,)."""
        codes = self._map_scores(
            treebank, heads, n_jobs, lambda scores: scores.argmax(axis=1).astype(np.int32)
        )
        return np.concatenate([np.zeros(0, np.int32), *codes])

    def scores(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return scores of relations of words given their heads, (n words, n relations)."""
        scores = self._map_scores(treebank, heads, n_jobs, np.asarray)
        return np.concatenate([np.zeros((0, len(self.strings))), *scores])

    def _map_scores(
        self,
        treebank: Treebank,
        heads: np.ndarray,
        n_jobs: int | None,
        function: Callable[[np.ndarray], np.ndarray],
    ) -> list[np.ndarray]:
        """Apply a function to the scores of batches of sentences, in threads."""
        tokens = encode(treebank, self.templates, heads=heads)
        offsets = treebank.offsets
        predictor = self.trainer.predictor()
        # relations that were not seen between words (row 0), or from the root (row 1), are
        # forbidden there
        seen = np.where(self._seen.any(axis=1, keepdims=True), self._seen, self._seen.any(axis=0))
        allowing = np.where(seen, 0.0, -np.inf)

        def apply_to_batch(sentences: range) -> np.ndarray:
            heads_of_batch = heads[offsets[sentences.start] : offsets[sentences.stop]]
            arcs = _hashed_arcs(self._hasher, tokens.only(np.array(sentences)), heads_of_batch)
            are_from_root = (heads_of_batch == 0).astype(np.int64)
            scores = predictor.potentials(arcs.everything()).unary
            return function(scores + allowing[are_from_root])

        n = len(treebank)
        batches = [range(low, min(low + TOGETHER, n)) for low in range(0, n, TOGETHER)]
        return in_threads(apply_to_batch, batches, n_jobs)

    def _remember(self, heads: np.ndarray, relations: np.ndarray) -> None:
        """Remember the relations of arcs in the training data, (number of words,); -1 is none."""
        have_relation = relations >= 0
        are_from_root = (heads[have_relation] == 0).astype(np.int64)
        self._seen[are_from_root, relations[have_relation]] = True

    def describe(self, training: bool = True) -> State:
        """Return JSON values and arrays for a model file.

        ``training`` says whether to include the state for training.
        """
        values = {
            "strings": self.strings.tolist()[1:],
            "templates": self.templates.names,
            "seen": self._seen.tolist(),
        }
        if training:
            return values, self.trainer.state()
        return values, condensed_state(self.trainer)

    @classmethod
    def restored(
        cls, manifest: Manifest, arrays: Arrays, lexicons: Mapping[str, Lexicon]
    ) -> "RelationLabeler":
        """Create a labeler from the result of :meth:`describe`, and lexicons of its templates."""
        labeler = cls(Strings(manifest["strings"]), TemplateSet(manifest["templates"], lexicons))
        labeler._seen = np.array(manifest["seen"], dtype=bool)
        labeler.trainer.load_state(arrays)
        return labeler


def _codes_with_head(treebank: Treebank, relations: np.ndarray) -> np.ndarray:
    """Replace the relations of words without a head by -1, (number of words,)."""
    return np.where(treebank.heads < 0, -1, relations)


def _hashed_arcs(hasher: ArcFeatureHasher, tokens: ArcTokens, heads: np.ndarray) -> Tokens:
    """Return the features of the arc into each word of all sentences, with these heads (n,)."""
    return hasher.tokens(tokens.everything(), heads, tokens.roots - tokens.reach)


class RelationTraining:
    """Callback that trains the relation labeler on each block of a stream, after the trees."""

    def __init__(self, model: OnlineModel, make_pass: Pass) -> None:
        self._model = model
        self._make_pass = make_pass

    def on_block(self, trainer: OnlineTrainer, block: LearnedBlock) -> None:
        labeler: RelationLabeler | None = self._model.codec.relations
        if labeler is not None and isinstance(block.examples, ArcExamples):
            labeler.learn(block.examples, trainer, self._make_pass)


class _Arcs(Sequence[Example]):
    """Gold arcs of a treebank as training examples; their features are computed on demand."""

    are_sequences = True

    def __init__(self, trees: ArcExamples, relations: np.ndarray, hasher: ArcFeatureHasher) -> None:
        self._trees = trees
        self._relations = relations.astype(np.int64)
        self._hasher = hasher

    def __len__(self) -> int:
        return len(self._trees)

    def __getitem__(self, i):
        arcs = self.sequences(np.array([i]))
        return Example(arcs.tokens.everything(), arcs.gold, self._trees.weight(i))

    def part(self, indices: np.ndarray) -> "_Arcs":
        """Select presentations by their indices, and copy their sentences."""
        words = self._trees.words_of(np.unique(self._trees.chosen[indices]))
        return _Arcs(self._trees.part(indices), self._relations[words], self._hasher)

    def sequences(self, order: np.ndarray) -> Sequences:
        """Return the arrays of some examples, for compiled calls."""
        trees = self._trees
        sentences = trees.chosen[order]
        words = trees.words_of(sentences)
        heads = np.maximum(trees.heads[words], 0)  # words without a head have no relation either
        arcs = _hashed_arcs(self._hasher, trees.tokens.only(sentences), heads)
        relations = self._relations[words]
        return Sequences(arcs, relations, np.arange(len(order)), trees.weights(order))
