"""The relation of each arc, once the tree is known: a linear classifier on templates of the arc."""

import numpy as np

from omkl.data import Strings
from omkl.estimators.arcs import ArcExamples, encode
from omkl.estimators.treebanks import absent_fields
from omkl.groups import ArcFeatureHasher, ExplicitBank, TemplateSet
from omkl.losses import StructuredHinge
from omkl.online import DistanceOverGradients, Example, OnlineTrainer, PolynomialAverage
from omkl.regularizers import Ridge
from omkl.structures import Chain

#: Rows that the features of a template are hashed to.
ROWS = 2048

#: What tells a relation: both words, their tags and morphology, and what stands beside them.
RELATION_TEMPLATES = (
    "h.upos m.upos direction", "h.upos m.upos distance", "h.lemma m.upos direction", "h.upos m.lemma direction",
    "h.lemma m.lemma", "m.form", "m.lower h.upos direction", "m.upos m.feats direction", "m.feats h.upos direction",
    "h.feats m.feats direction", "h.upos h.feats m.upos direction", "h.upos m-1.upos m.upos direction",
    "h.upos m.upos m+1.upos direction", "h-1.upos h.upos m.upos direction", "h.upos h+1.upos m.upos direction",
    "m-1.lower m.upos direction", "m+1.lower m.upos direction", "h.xpos m.xpos direction", "h.lemma m.xpos direction",
    "h.upos m.lemma m-1.upos direction", "h.upos m.lemma m+1.upos direction", "h.upos m.suffix3 direction",
    "h.upos between.upos m.upos direction", "m-2.upos m-1.upos m.upos direction",
)  # fmt: skip


class RelationLabeler:
    """Relations of the arcs of given trees: a support vector machine, each sentence a chain without transitions.

    Parameters
    ----------
    strings : omkl.data.Strings
        The relations, and their codes in treebanks.
    fields : collection of str
        Templates that look at other fields are left out.
    """

    def __init__(self, strings, templates):
        self.strings = strings
        self.templates = templates
        self._hasher = ArcFeatureHasher(templates, ROWS)
        names = templates.names
        bank = ExplicitBank(names, self._hasher.groups, len(strings), averaging=True, dtype=np.float32)
        self.trainer = OnlineTrainer(
            [bank], Chain(len(strings)), StructuredHinge(), Ridge(), strength=0.0, schedule=DistanceOverGradients(),
            average=PolynomialAverage(2.0),
        )  # fmt: skip

    @classmethod
    def for_treebank(cls, treebank):
        """An untrained labeler for the relations of a treebank; templates that need absent fields are left out."""
        templates = TemplateSet(RELATION_TEMPLATES)
        absent = set(absent_fields(treebank, templates.fields))
        return cls(treebank.strings["deprels"].copy(), TemplateSet([t for t in templates if not t.fields & absent]))

    @classmethod
    def for_stream(cls):
        """An untrained labeler that knows no relation yet, with all templates."""
        return cls(Strings(), TemplateSet(RELATION_TEMPLATES))

    def fit(self, treebank, C, epochs, run, progress):
        """Train on gold trees; returns the history."""
        self.trainer.strength = 1.0 / (C * len(treebank))
        examples = _Arcs.of(self, treebank, treebank.deprels)
        return run.fit("relations", self.trainer, examples, epochs=epochs, progress=progress)

    def partial_fit(self, treebank, trees, mixing=None):
        """One round for each sentence, regularized as the trainer of the trees is; new relations join the others."""
        codes = self.strings.codes(treebank.strings["deprels"].tolist(), grow=True)[treebank.deprels]
        if len(self.strings) > self.trainer.structure.n_labels:
            self.trainer.grow_outputs(Chain(len(self.strings)))
        self.trainer.strength, self.trainer.recompute_every = trees.strength, trees.recompute_every
        arcs = _Arcs.of(self, treebank, codes)
        if mixing is not None:
            mixing.one_pass(self.trainer, arcs)
            return
        for s in range(len(arcs)):
            self.trainer.update(*arcs[s])

    def predict(self, tokens, heads, offsets):
        """Code of the relation of every word, given its head; ``tokens`` as :meth:`encode` makes them."""
        predictor = self.trainer.predictor()
        codes = np.empty(len(heads), dtype=np.int32)
        for s, (low, high) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
            arcs = self._hasher.tokens(tokens.sentence(s), heads[low:high])
            # without transitions the best labels are the best of each token
            codes[low:high] = predictor.potentials(arcs.everything()).unary.argmax(axis=1)
        return codes

    def describe(self):
        """``(manifest entry, arrays)`` that :meth:`restored` takes back."""
        return {"strings": self.strings.tolist()[1:], "templates": self.templates.names}, self.trainer.state()

    @classmethod
    def restored(cls, manifest, arrays):
        """The inverse of :meth:`describe`."""
        labeler = cls(Strings(manifest["strings"]), TemplateSet(manifest["templates"]))
        labeler.trainer.load_state(arrays)
        return labeler

    def encode(self, treebank):
        """Sentences as the templates look at them."""
        return encode(treebank, self.templates)


class _Arcs:
    """The gold arcs of a treebank as training examples, listed when asked for: all of them would be large."""

    def __init__(self, templates, trees, relations):
        self._templates = templates
        self._hasher = ArcFeatureHasher(templates, ROWS)
        self._trees = trees
        self._relations = relations

    @classmethod
    def of(cls, labeler, treebank, relations):
        return cls(labeler.templates, ArcExamples.of(treebank, labeler.templates), relations.astype(np.int64))

    def part(self, places):
        offsets = self._trees.offsets
        words = [np.arange(offsets[s], offsets[s + 1]) for s in places]
        return _Arcs(self._templates, self._trees.part(places), self._relations[np.concatenate(words)])

    def __len__(self):
        return len(self._trees)

    def __getitem__(self, s):
        x, heads, _ = self._trees[s]
        arcs = self._hasher.tokens(x, heads)
        return Example(arcs.everything(), self._relations[slice(*self._trees.offsets[s : s + 2])])
