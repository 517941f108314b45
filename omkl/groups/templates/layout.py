"""Templates and sentences as the jitted functions take them, and the hashed features of the arcs of given trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.groups.base import GuidedInput
from omkl.groups.templates import _jit_templates as jit
from omkl.groups.templates._jit_arcs import list_features
from omkl.groups.templates.language import DISTANCE_BINS, KINSHIP, VARIANTS, TemplateSet
from omkl.groups.tokens import Features, Tokens
from omkl.structures.trees import TreePotentials

#: Arcs that are scored at a time when nothing is learned in between.
BLOCK = 2**17
#: A pair of views has no fewer lines.
FEWEST_LINES = 32


class ArcGuide(NamedTuple):
    """Advice of a first model on the arcs of a sentence of n tokens.

    Attributes
    ----------
    potentials : array of shape (n + 1, n + 1), optional
        Potentials that the templates add to; zeros by default.
    likely : bool array of shape (n + 1, n + 1), optional
        Arcs whose templates are looked up; all others have the potential -inf. All by default.
    """

    potentials: np.ndarray | None = None
    likely: np.ndarray | None = None


@dataclass(slots=True, eq=False)
class ArcTokens:
    """Sentences as 64-bit codes of the fields of their tokens.

    Parameters
    ----------
    fields : list of str
    columns : uint64 array of shape (number of fields, number of tokens with padding)
        A sentence is its root, which has codes of its own, and its tokens; on both sides of it there are as many
        codes for "outside" as any template reaches; the columns begin with them.
    roots : int64 array of shape (number of sentences,)
        Where in ``columns`` each sentence's root is.
    lengths : int64 array of shape (number of sentences,)
        Tokens of each sentence, without the root.
    guides : list of ArcGuide, optional
        Advice of a first model on each sentence.
    """

    fields: list[str]
    columns: np.ndarray
    roots: np.ndarray
    lengths: np.ndarray
    guides: list[ArcGuide] | None = None

    def __len__(self) -> int:
        return len(self.roots)

    def sentence(self, i: int) -> "ArcSentence":
        """Return one sentence, as the trainer and the bank take it.

        Parameters
        ----------
        i : int
        """
        guide = None if self.guides is None else self.guides[i]
        return ArcSentence(self, int(self.roots[i]), int(self.lengths[i]), guide)

    def only(self, sentences: np.ndarray) -> "ArcTokens":
        """Return some of the sentences as tokens of their own, which share no memory with these.

        Parameters
        ----------
        sentences : int array
        """
        reach, lengths = int(self.roots[0]), self.lengths[sentences]
        starts = reach + np.concatenate([[0], np.cumsum(lengths + 1 + reach)])
        old = np.repeat(self.roots[sentences] - starts[:-1], np.diff(starts)) + np.arange(reach, starts[-1])
        columns = np.concatenate([self.columns[:, :reach], self.columns[:, old]], axis=1)
        guides = None if self.guides is None else [self.guides[i] for i in sentences]
        return ArcTokens(self.fields, columns, starts[:-1], lengths, guides)

    def blocks(self) -> "Iterator[list[ArcSentence]]":
        """Lists of sentences, all in order, each list with about :data:`BLOCK` arcs."""
        arcs = np.cumsum((self.lengths + 1) ** 2)
        first = 0
        while first < len(self):
            limit = BLOCK + (arcs[first - 1] if first else 0)
            last = max(int(np.searchsorted(arcs, limit, side="right")), first + 1)
            yield [self.sentence(s) for s in range(first, last)]
            first = last


@dataclass(slots=True, eq=False)
class ArcSentence(GuidedInput):
    """One sentence of ``tokens``, whose root is in column ``root``, with the advice of a first model, if any."""

    tokens: ArcTokens
    root: int
    length: int
    guide: ArcGuide | None = None

    def __len__(self) -> int:
        return self.length

    @property
    def likely(self) -> np.ndarray | None:
        """Arcs whose templates are looked up, bool (n + 1, n + 1); None for all."""
        return None if self.guide is None else self.guide.likely

    def apply_guide(self, potentials: TreePotentials) -> None:
        """Add the potentials of the first model in place, and forbid arcs that it finds unlikely."""
        if self.guide is not None:
            if self.guide.potentials is not None:
                potentials.arcs[:] += self.guide.potentials
            if self.guide.likely is not None:
                potentials.arcs[~self.guide.likely] = -np.inf


class TemplateLayout:
    """Templates as the jitted functions take them: views of a token, pairs of views, three groups a pair."""

    def __init__(self, templates: TemplateSet) -> None:
        self.fields = templates.fields
        views: dict[tuple, int] = {}
        pairs: dict[tuple, list[int]] = {}
        for k, template in enumerate(templates):
            head, modifier = (tuple(sorted(side)) for side in (template.head, template.modifier))
            pair = (views.setdefault(head, len(views)), views.setdefault(modifier, len(views)), template.between)
            pairs.setdefault(pair, [-1] * jit.N_VARIANTS)[VARIANTS.index(template.variant)] = k
        names = list(views)
        #: What each pair looks at: views of head and modifier, and a field between.
        self.identities = [(names[head], names[modifier], between) for head, modifier, between in pairs]
        self.pairs = np.array([pair[:2] for pair in pairs], dtype=np.int64)
        self.groups = np.array(list(pairs.values()), dtype=np.int64)
        self._looked_at = sorted({pair[2] for pair in pairs if pair[2]})
        rows = [self._looked_at.index(pair[2]) if pair[2] else -1 for pair in pairs]
        #: Row of the field between that a pair looks at, -1 for none; -2 - row for the heads that tell kinship.
        self.between = np.array(
            [-2 - row if pair[2] == KINSHIP else row for row, pair in zip(rows, pairs)], dtype=np.int64
        )
        self._between_fields = np.array([self.fields.index(field) for field in self._looked_at], dtype=np.int64)
        self._starts = np.cumsum([0, *map(len, views)]).astype(np.int64)
        atoms = [atom for view in views for atom in view]
        self._offsets = np.array([offset for offset, _ in atoms], dtype=np.int64)
        self._fields = np.array([self.fields.index(field) for _, field in atoms], dtype=np.int64)
        self._bins = np.zeros((2, 0), dtype=np.uint64)
        self._latest: tuple[Any, Any] = (None, None)

    def view(self, p: int, side: int) -> tuple[np.ndarray, np.ndarray]:
        """``(offsets, fields)`` of the head's view (side 0) or the modifier's (1) in a pair."""
        atoms = slice(*self._starts[self.pairs[p, side] : self.pairs[p, side] + 2])
        return self._offsets[atoms], self._fields[atoms]

    def between_field(self, p: int) -> int:
        """Row of the field that a pair looks at between its tokens, or -1; -2 - row of that of heads for kinship."""
        row = int(self.between[p])
        if row == -1:
            return row
        return int(self._between_fields[row]) if row >= 0 else -2 - int(self._between_fields[-2 - row])

    def pair_of(self, k: int) -> tuple[int, int]:
        """The pair and the variant of a template."""
        pairs, variants = np.nonzero(self.groups == k)
        return int(pairs[0]), int(variants[0])

    def bins(self, n: int) -> np.ndarray:
        """Bin of each distance 0 .. n to the left, and to the right."""
        bins = self._bins
        if bins.shape[1] <= n:
            own = (np.searchsorted(DISTANCE_BINS, np.arange(2 * n + 2), side="right") - 1).clip(0)
            # another thread may set its own meanwhile
            self._bins = bins = np.array([own, own + 8], dtype=np.uint64)
        return bins

    def keys(self, x: ArcSentence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hashes of the views of each token, as head and as modifier, and the codes of the fields between."""
        latest, keys = self._latest
        if latest is not x:
            n_nodes, columns = len(x) + 1, x.tokens.columns
            if x.tokens.fields != self.fields:
                raise InputError(f"Templates look at {self.fields}, but the tokens are encoded as {x.tokens.fields}.")
            keys = np.empty((2, len(self._starts) - 1, n_nodes), np.uint64)
            jit.fold_views(columns, x.root, n_nodes, self._starts, self._offsets, self._fields, keys[0], keys[1])
            keys = (keys[0], keys[1], columns[self._between_fields, x.root : x.root + n_nodes])
            self._latest = (x, keys)
        return keys

    def count_keys(self, examples: Sequence[tuple], sample: int) -> np.ndarray:
        """Estimated number of different keys of each pair on gold arcs, by linear counting (Whang et al. 1990)."""
        bitmaps = np.zeros((len(self.pairs), 2**17), dtype=bool)
        n_arcs = 0
        for n_sentences in range(1, len(examples) + 1):
            x, gold = examples[n_sentences - 1][:2]
            heads = np.asarray(gold)
            known = np.flatnonzero(heads >= 0)
            arcs = heads[known], known + 1, np.ones(len(known))
            jit.mark_lines(*self.keys(x), self.pairs, self.between, self.bins(len(x)), arcs, bitmaps)
            n_arcs += len(x)
            if n_arcs >= sample:
                break
        free = np.maximum(1.0 - bitmaps.mean(axis=1), 1.0 / bitmaps.shape[1])
        return -np.log(free) * bitmaps.shape[1] * (len(examples) / n_sentences)

    def fair_sizes(self, wanted: ArrayLike, n_lines: float) -> np.ndarray:
        """Lines of each pair's table: what is wanted, up to the cap at which all of them fit."""
        n_pairs = len(self.pairs)
        if n_lines < FEWEST_LINES * n_pairs:
            raise InputError(
                f"{n_pairs} pairs of views need room for {FEWEST_LINES * n_pairs} lines of weights, but the memory is "
                f"enough for {int(n_lines)}: allow more, or use fewer templates."
            )
        wanted = np.maximum(np.broadcast_to(wanted, n_pairs), FEWEST_LINES)
        order = np.argsort(wanted, kind="stable")
        left = n_lines
        sizes = np.empty(n_pairs, dtype=np.int64)
        for before, pair in enumerate(order.tolist()):  # those that want little leave the rest to the others
            sizes[pair] = int(min(wanted[pair], left / (n_pairs - before)))
            left -= sizes[pair]
        return sizes


class ArcFeatureHasher:
    """Lists the hashed features of the arcs of a tree, for classifiers of arcs: each template is a group.

    Parameters
    ----------
    templates : TemplateSet
    rows : int
        Features of each template are hashed to this many rows.
    """

    def __init__(self, templates: TemplateSet, rows: int) -> None:
        self._layout = layout = TemplateLayout(templates)
        p, variant = np.nonzero(layout.groups >= 0)
        order = np.argsort(layout.groups[p, variant])
        p, self._variants = p[order], variant[order]
        self._pairs, self._between = layout.pairs[p], layout.between[p]
        self._bases = np.arange(len(p) + 1) * rows
        self.groups = np.repeat(np.arange(len(p), dtype=np.int32), rows)

    def tokens(self, x: ArcSentence, heads: np.ndarray) -> Tokens:
        """Return the arc into each token of a sentence as a token with features, the sentence as one sequence.

        Parameters
        ----------
        x : ArcSentence
        heads : int array of shape (n,)
        """
        n = len(x)
        keys = self._layout.keys(x)
        most = n * (len(self._pairs) + n * int(np.count_nonzero(self._between >= 0)))
        starts, ids = np.zeros(n + 1, np.int64), np.empty(most, np.int32)
        count = list_features(
            *keys, self._pairs, self._between, self._variants, self._bases, self._layout.bins(n), heads, starts, ids
        )
        features = Features(starts, ids[:count], np.ones(count))
        return Tokens(np.array([0, n]), features, n_features=int(self._bases[-1]))
