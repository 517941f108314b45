"""RelationLabeler, a linear classifier of the relations of arcs."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from omkl._threads import in_threads
from omkl.data import Strings, Treebank
from omkl.estimators.training import Run
from omkl.features.lexicons import Lexicon
from omkl.groups.tables import ExplicitBank
from omkl.groups.templates.language import TemplateSet, of_lexicon
from omkl.groups.templates.layout import ArcFeatureHasher, ArcSentence
from omkl.losses import StructuredHinge
from omkl.online.averaging import PolynomialAverage
from omkl.online.model import OnlineModel, condensed_state
from omkl.online.rounds import Example, LearnedBlock
from omkl.online.schedules import DistanceOverGradients
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, Pass
from omkl.parsing.sentences import ArcExamples, encode, suited
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
    "h.upos m.upos direction", "h.upos m.upos distance", "h.lemma m.upos direction", "h.upos m.lemma direction",
    "h.lemma m.lemma", "m.form", "m.lower h.upos direction", "m.upos m.feats direction", "m.feats h.upos direction",
    "h.feats m.feats direction", "h.upos h.feats m.upos direction", "h.upos m-1.upos m.upos direction",
    "h.upos m.upos m+1.upos direction", "h-1.upos h.upos m.upos direction", "h.upos h+1.upos m.upos direction",
    "m-1.lower m.upos direction", "m+1.lower m.upos direction", "h.xpos m.xpos direction", "h.lemma m.xpos direction",
    "h.upos m.lemma m-1.upos direction", "h.upos m.lemma m+1.upos direction", "h.upos m.suffix3 direction",
    "h.upos between.upos m.upos direction", "m-2.upos m-1.upos m.upos direction",
    "h.upos between.lower m.upos direction", "m.lower", "h.lemma", "m.lemma m.upos", "m.form m-1.lower",
    "m-1.lemma m.lemma", "m.lemma m+1.lemma", "h.lemma m-1.lower", "m.lemma h.upos m.upos distance",
    "h.xpos m.xpos distance", "m.feats", "h.feats m.upos", "h.lemma h.upos m.feats", "m.prefix3 m.upos",
    "m.suffix2 m.upos", "m.suffix3 m.feats", "h.suffix3 m.upos direction", "h.upos m.upos m+1.upos m+2.upos",
)  # fmt: skip
#: Templates of relatives in the tree, for trees of second order.
RELATIVE_TEMPLATES = (
    "h.parent_upos h.upos m.upos direction", "h.parent_lemma m.upos", "h.parent_upos m.lemma",
    "m.before_upos h.upos m.upos direction", "m.after_upos h.upos m.upos direction", "m.before_lemma m.upos direction",
    "m.after_lemma m.upos direction", "m.leftmost_upos m.upos h.upos direction", "m.leftmost_lower m.upos direction",
    "m.leftmost_lower h.upos m.upos direction", "m.leftmost_lower h.lemma", "m.leftmost_lemma m.lemma",
    "m.rightmost_upos m.upos h.upos direction", "m.rightmost_lower m.upos", "m.rightmost_lower h.upos m.upos direction",
    "m.valency m.upos h.upos direction", "h.leftmost_lower h.upos m.upos direction",
    "h.rightmost_lower h.upos m.upos direction", "h.leftmost_upos h.upos m.upos direction",
    "h.rightmost_upos h.upos m.upos direction", "h.valency h.upos m.upos direction",
)  # fmt: skip


class RelationLabeler:
    """Classifier of the relations of arcs in given trees: an SVM, implemented as a chain without
    transitions.

    Arcs from the root can only have relations of such arcs in the training data, and likewise for
    all other arcs: in Universal Dependencies, ``root`` for arcs from the root only. ``strings`` is
    the table of relations.
    """

    def __init__(self, strings: Strings, templates: TemplateSet) -> None:
        self.strings, self.templates, self._hasher = (
            strings,
            templates,
            ArcFeatureHasher(templates, ROWS),
        )
        bank = ExplicitBank(
            templates.names, self._hasher.groups, len(strings), averaging=True, dtype=np.float32
        )
        model, average = (
            ([bank], Chain(len(strings), linked=False), StructuredHinge(), Ridge()),
            PolynomialAverage(2.0),
        )
        self.trainer = OnlineTrainer(
            *model, lambda_=0.0, schedule=DistanceOverGradients(), average=average
        )
        # relations of arcs between words (row 0) and from the root (row 1) in the training data
        self._seen = np.zeros((2, len(strings)), dtype=bool)

    @classmethod
    def for_treebank(
        cls,
        treebank: Treebank,
        whole: bool,
        lexicons: Mapping[str, Lexicon],
        relatives: bool = False,
    ) -> "RelationLabeler":
        """Make an untrained labeler, with templates for the columns of a treebank and for each
        lexicon.

        With ``relatives``, there are also templates of the relatives of words in the tree. Its
        relations are those of the ``whole`` data. For a stream, it starts without relations.
        """
        own = [line for name in lexicons for line in of_lexicon(name) if line.endswith("direction")]
        lines = [*RELATION_TEMPLATES, *(RELATIVE_TEMPLATES if relatives else ()), *own]
        templates, _ = suited(TemplateSet(lines, lexicons), treebank, whole)
        return cls(treebank.strings["deprels"].copy() if whole else Strings(), templates)

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
        codes = _known(treebank, treebank.deprels)
        self._note(treebank.heads, codes)
        examples = ArcExamples.of(treebank, self.templates, weights, heads=heads)
        self.trainer.plan(lambda_=1.0 / (C * examples.total_weight))
        source = ArraySource(_Arcs(examples, codes, self._hasher), run.rng)
        run.loop("relations", self.trainer, source, epochs).run(epochs)

    def learn(self, examples: ArcExamples, trainer: OnlineTrainer, make_pass: Pass) -> None:
        """Train one round on each sentence of a block, with the lambda of ``trainer``; new
        relations are added.
        """
        treebank = examples.treebank
        codes = self.strings.codes(treebank.strings["deprels"].tolist(), grow=True)[
            treebank.deprels
        ]
        codes = _known(treebank, codes)
        if (new := len(self.strings) - self._seen.shape[1]) > 0:
            self.trainer.grow_outputs(Chain(len(self.strings), linked=False), len(self.strings))
            self._seen = np.pad(self._seen, ((0, 0), (0, new)))
        self._note(treebank.heads, codes)
        arcs = _Arcs(
            ArcExamples.of(treebank, self.templates, examples.input_weights), codes, self._hasher
        )
        self.trainer.plan(lambda_=trainer.lambda_, recompute_every=trainer.recompute_every)
        for _ in make_pass(self.trainer, arcs, lambda sizes: list(map(np.arange, sizes)), 0):
            pass

    def predict(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray:
        """Predict the code of the relation of every word given its head, (number of words,)."""

        best = self._scored(
            treebank, heads, n_jobs, lambda scores: scores.argmax(axis=1).astype(np.int32)
        )
        return np.concatenate([np.zeros(0, np.int32), *best])

    def scores(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray:
        """Compute scores of relations of every word given its head, (number of words, number of
        relations).
        """
        none = np.zeros((0, len(self.strings)))
        return np.concatenate([none, *self._scored(treebank, heads, n_jobs, lambda scores: scores)])

    def _scored(
        self, treebank: Treebank, heads: np.ndarray, n_jobs: int | None, made: Callable
    ) -> list[np.ndarray]:
        """Apply a function to the scores of batches of sentences, in threads."""
        tokens, offsets = encode(treebank, self.templates, heads=heads), treebank.offsets
        # relations that were not seen between words (row 0), or from the root (row 1), are
        # forbidden there
        seen = np.where(self._seen.any(axis=1, keepdims=True), self._seen, self._seen.any(axis=0))
        predictor, potentials = self.trainer.predictor(), np.where(seen, 0.0, -np.inf)

        def of_part(sentences: range) -> np.ndarray:
            own, roots = (
                heads[offsets[sentences.start] : offsets[sentences.stop]],
                tokens.roots[sentences],
            )
            first, length = int(roots[0]), int(roots[-1] - roots[0] + tokens.lengths[sentences[-1]])
            arcs = self._hasher.tokens(ArcSentence(tokens, first, length), own, roots - first)
            return made(
                predictor.potentials(arcs.everything()).unary
                + potentials[(own == 0).astype(np.int64)]
            )

        n = len(treebank)
        return in_threads(
            of_part, [range(low, min(low + TOGETHER, n)) for low in range(0, n, TOGETHER)], n_jobs
        )

    def _note(self, heads: np.ndarray, relations: np.ndarray) -> None:
        """Remember the relations of arcs in the training data."""
        known = relations >= 0
        self._seen[(heads[known] == 0).astype(np.int64), relations[known]] = True

    def describe(self, training: bool = True) -> tuple[Manifest, Arrays]:
        """Return ``(JSON values, arrays)`` for a model file, with or without the state for
        ``training``.
        """
        values = {
            "strings": self.strings.tolist()[1:],
            "templates": self.templates.names,
            "seen": self._seen.tolist(),
        }
        return values, self.trainer.state() if training else condensed_state(self.trainer)

    @classmethod
    def restored(
        cls, manifest: Manifest, arrays: Arrays, lexicons: Mapping[str, Lexicon]
    ) -> "RelationLabeler":
        """The inverse of :meth:`describe`, given the lexicons of the templates."""
        labeler = cls(Strings(manifest["strings"]), TemplateSet(manifest["templates"], lexicons))
        labeler._seen = np.array(manifest["seen"], dtype=bool)
        labeler.trainer.load_state(arrays)
        return labeler


def _known(treebank: Treebank, relations: np.ndarray) -> np.ndarray:
    """Replace the relations of words without a head by -1."""
    return np.where(treebank.heads < 0, -1, relations)


def relations_beside(model: OnlineModel, make_pass: Pass) -> list[SimpleNamespace]:
    """Return a callback that trains the relation labeler on each block of a stream, after the
    trees.
    """

    def on_block(trainer: OnlineTrainer, block: LearnedBlock) -> None:
        relations: RelationLabeler | None = model.codec.relations
        if relations is not None and isinstance(block.examples, ArcExamples):
            relations.learn(block.examples, trainer, make_pass)

    return [SimpleNamespace(on_block=on_block)]


class _Arcs(Sequence[Example]):
    """Gold arcs of a treebank as training examples; features are computed on demand to save memory."""

    def __init__(self, trees: ArcExamples, relations: np.ndarray, hasher: ArcFeatureHasher) -> None:
        self._trees, self._relations, self._hasher = trees, relations.astype(np.int64), hasher

    def part(self, indices: np.ndarray) -> "_Arcs":
        """Select presentations by their indices, and copy their sentences."""
        offsets = self._trees.offsets
        words = [
            np.arange(offsets[s], offsets[s + 1]) for s in np.unique(self._trees.chosen[indices])
        ]
        return _Arcs(
            self._trees.part(indices), self._relations[np.concatenate(words)], self._hasher
        )

    def __len__(self) -> int:
        return len(self._trees)

    def __getitem__(self, i):
        x, heads, weight = self._trees[i]
        s = self._trees.chosen[i]
        arcs = self._hasher.tokens(
            x, np.maximum(heads, 0)
        )  # words without a head have no relation either
        return Example(
            arcs.everything(), self._relations[slice(*self._trees.offsets[s : s + 2])], weight
        )
