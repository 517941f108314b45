"""Templates and sentences for compiled loops, and hashed features of the arcs of given trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.groups.base import GuidedInput
from omkl.groups.templates import _jit_arcs as jit
from omkl.groups.templates._jit_arc_scores import LANES
from omkl.groups.templates.language import DISTANCE_BINS, VARIANTS, TemplateSet
from omkl.groups.tokens import Features, Tokens, runs_within
from omkl.structures.trees.arc_factored import TreePotentials
from omkl.structures.trees.parts import PartLists, PartPotentials

#: Number of arcs that are scored at a time without learning.
BLOCK = 2**17
#: Minimum number of lines of a pair of views.
FEWEST_LINES = 32
#: Number of bits to count the keys of a pair of views.
BITS = 2**17


class ArcGuide(NamedTuple):
    """Advice of a first model on the arcs of a sentence of n tokens.

    Attributes
    ----------
    potentials : array of shape (n + 1, n + 1), optional
        Potentials that the templates add to; zeros by default.
    likely : bool array of shape (n + 1, n + 1), optional
        Arcs to score; all others have the potential -inf. All by default.
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
        A sentence is its root, which has its own codes, and its tokens. Both sides are padded with
        codes for "outside", as many as any template reaches; the columns begin with padding.
    roots : int64 array of shape (number of sentences,)
        Index in ``columns`` of the root of each sentence.
    lengths : int64 array of shape (number of sentences,)
        Number of tokens of each sentence, without the root.
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
        """Return one sentence, as an input of trainers and banks.

        Parameters
        ----------
        i : int
        """
        guide = None if self.guides is None else self.guides[i]
        return ArcSentence(self, int(self.roots[i]), int(self.lengths[i]), guide)

    @property
    def reach(self) -> int:
        """Number of codes for "outside" between two sentences."""
        return int(self.roots[0])

    def everything(self) -> "ArcSentence":
        """Return all columns between the first root and the last token as one sentence."""
        return ArcSentence(self, self.reach, self.columns.shape[1] - 2 * self.reach - 1)

    def only(self, sentences: np.ndarray) -> "ArcTokens":
        """Return a copy of some of the sentences, which shares no memory with this object.

        Parameters
        ----------
        sentences : int array
        """
        reach, lengths = self.reach, self.lengths[sentences]
        starts = reach + np.concatenate([[0], np.cumsum(lengths + 1 + reach)])
        old = np.repeat(self.roots[sentences] - starts[:-1], np.diff(starts)) + np.arange(
            reach, starts[-1]
        )
        columns = np.concatenate([self.columns[:, :reach], self.columns[:, old]], axis=1)
        guides = None if self.guides is None else [self.guides[i] for i in sentences]
        return ArcTokens(self.fields, columns, starts[:-1], lengths, guides)

    def blocks(self) -> "Iterator[list[ArcSentence]]":
        """Yield lists of consecutive sentences, each list with about :data:`BLOCK` arcs."""
        bounds = np.concatenate([[0], np.cumsum((self.lengths + 1) ** 2)])
        for first, last in runs_within(bounds, BLOCK):
            yield [self.sentence(s) for s in range(first, last)]


@dataclass(slots=True, eq=False)
class ArcSentence(GuidedInput):
    """One sentence of ``tokens``, whose root is in column ``root``, with optional advice of a first
    model.
    """

    tokens: ArcTokens
    root: int
    length: int
    guide: ArcGuide | None = None

    def __len__(self) -> int:
        return self.length

    @property
    def likely(self) -> np.ndarray | None:
        """Arcs to score, bool (n + 1, n + 1); None for all."""
        return None if self.guide is None else self.guide.likely

    def initial_potentials(self, structure: Any) -> TreePotentials | PartPotentials:
        """Return the potentials of the first model; arcs that it finds unlikely are forbidden."""
        if self.guide is None:
            return structure.zeros(self.length)
        candidates = (
            np.ones((self.length + 1,) * 2, dtype=bool) if self.likely is None else self.likely
        )
        potentials = structure.over(candidates)
        if self.guide.potentials is not None:
            potentials.arcs[:] += self.guide.potentials
        return potentials


class GoldTrees(Protocol):
    """A sequence of ``(ArcSentence, gold heads, ...)``."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> tuple: ...


class ArcKeys(NamedTuple):
    """Hashes of the nodes' views as head, modifier and third node of a part, (views, n); codes of
    "between" fields.
    """

    heads: np.ndarray
    modifiers: np.ndarray
    thirds: np.ndarray
    codes: np.ndarray


class PairTables(NamedTuple):
    """Pairs of views and their lines in a table, for compiled loops.

    Attributes
    ----------
    views : int array of shape (number of pairs, 3)
        Views of head, modifier and third node.
    between : int array of shape (number of pairs,)
        Row of the "between" field in the codes, -1 for none.
    bases : int array of shape (number of pairs + 1,)
        Bounds of the lines of each pair.
    """

    views: np.ndarray
    between: np.ndarray
    bases: np.ndarray


class TemplateLayout:
    """Templates for compiled loops: views of a token, pairs of views, and three groups per pair.

    Parameters
    ----------
    templates : TemplateSet
        Templates of one kind of part.
    """

    def __init__(self, templates: TemplateSet) -> None:
        self.part = templates.part
        views: dict[tuple, int] = {}
        pairs: dict[tuple, list[int]] = {}
        for k, template in enumerate(templates):
            nodes = template.head, template.modifier, template.third
            pair = (
                *(views.setdefault(tuple(sorted(node)), len(views)) for node in nodes),
                template.between,
            )
            pairs.setdefault(pair, [-1] * jit.N_VARIANTS)[VARIANTS.index(template.variant)] = k
        names = list(views)
        #: Views of head, modifier and third node, and field between them, of each pair.
        self.identities = [(*(names[view] for view in own), between) for *own, between in pairs]
        self.groups = np.array(list(pairs.values()), dtype=np.int64)
        looked_at = sorted({pair[-1] for pair in pairs if pair[-1]})
        self._between = np.array([looked_at.index(pair[-1]) if pair[-1] else -1 for pair in pairs])
        self._views = np.array([pair[:-1] for pair in pairs], dtype=np.int64)
        self._names = [[field for view in views for _, field in view], looked_at]
        self._known: tuple[list[str], np.ndarray, np.ndarray] = [], *np.zeros((2, 0), np.int64)
        self._starts = np.cumsum([0, *map(len, views)]).astype(np.int64)
        atoms = [atom for view in views for atom in view]
        self._offsets = np.array([offset for offset, _ in atoms], dtype=np.int64)
        self._bins = np.zeros((2, 0), dtype=np.uint64), np.zeros(0, dtype=np.uint64)
        self.forget()

    def forget(self) -> None:
        """Clear the cached keys of the latest sentence."""
        self._latest: tuple[ArcSentence, ArcKeys] | None = None

    def tables(self, sizes: ArrayLike) -> PairTables:
        """Return the pairs, with ``sizes`` lines for each pair in a table."""
        return PairTables(
            self._views, self._between, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        )

    def pair_of(self, k: int) -> tuple[int, int]:
        """Return the pair and the variant of a template."""
        pairs, variants = np.nonzero(self.groups == k)
        return int(pairs[0]), int(variants[0])

    def bins(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the bins of the distances 0 ..

        N >= n, for arcs to the left and to the right, and their bucket bits.

        Returns
        -------
        bins : uint64 array of shape (2, N + 1)
        bits : uint64 array of shape (2 N + 1 + LANES,)
            Those of direction and distance at N + m - h, and zeros to read whole vectors.
        """
        found = self._bins
        if found[0].shape[1] <= n:
            own = (np.searchsorted(DISTANCE_BINS, np.arange(2 * n + 2), side="right") - 1).clip(0)
            left, right = bins = np.array([own, own + 8], dtype=np.uint64)
            bits = [left[:0:-1] << 6, [0], right[1:] << 6 | 1 << 3, np.zeros(LANES)]
            # return the local arrays: another thread may replace self._bins
            self._bins = found = bins, np.concatenate(bits, dtype=np.uint64, casting="unsafe")
        return found

    def arcs(self, wanted: np.ndarray, root: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return cells (n,) and places (5, n) of the arcs with nonzero entries in ``wanted``,
        (nodes, nodes).
        """
        heads, modifiers = np.nonzero(wanted)
        fit = (heads != modifiers) & (modifiers > 0)
        heads, modifiers = heads[fit], modifiers[fit]
        return heads * len(wanted) + modifiers, self.places(root, heads, modifiers)

    def places(
        self, roots: int | np.ndarray, heads: np.ndarray, modifiers: np.ndarray
    ) -> np.ndarray:
        """List arcs for compiled loops, (5, n); heads and modifiers are relative to the roots, all
        (n,).
        """
        distances = np.abs(heads - modifiers)
        places = np.full((5, len(heads)), -1, np.int32)
        places[0], places[1], places[2] = roots, roots + heads, roots + modifiers
        places[3] = self.bins(int(distances.max(initial=0)))[0][
            (modifiers > heads).view(np.int8), distances
        ]
        return places

    def keys(self, x: ArcSentence) -> ArcKeys:
        """Hash the views of each token; cache the latest sentence."""
        latest = self._latest
        if latest is None or latest[0] is not x:  # another thread may replace the cache meanwhile
            self._latest = latest = x, self.hashed(x)
        return latest[1]

    def hashed(self, x: ArcSentence) -> ArcKeys:
        """Hash the views of each token.

        Nothing is cached, as ``x`` refers to all sentences of its treebank.
        """
        n_nodes, columns = len(x) + 1, x.tokens.columns
        fields, between = self._rows(x.tokens.fields)
        hashes = np.empty(
            (2 if self.part == "arc" else 3, len(self._starts) - 1, n_nodes), np.uint64
        )
        heads, modifiers, thirds = (*hashes, hashes[0, :0])[:3]
        jit.fold_views(
            columns, x.root, n_nodes, self._starts, self._offsets, fields, heads, modifiers, thirds
        )
        return ArcKeys(heads, modifiers, thirds, columns[between, x.root : x.root + n_nodes])

    def _rows(self, fields: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the fields of views, and of fields between tokens, in the columns of
        some tokens.
        """
        known = self._known
        if known[0] is not fields:
            if lacking := [name for own in self._names for name in own if name not in fields]:
                raise InputError(
                    f"The templates use the field {lacking[0]!r}, but the tokens have {fields}."
                )
            rows, between = (
                np.array([fields.index(name) for name in own], np.int64) for own in self._names
            )
            self._known = known = fields, rows, between
        return known[1], known[2]

    def parts(
        self, lists: PartLists, wanted: np.ndarray, root: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers (n,) and places (5, n) of the parts of a sentence with nonzero entries in
        ``wanted``.
        """
        n_wanted = np.count_nonzero(wanted)
        places, kept = np.empty((5, n_wanted), np.int32), np.empty(n_wanted, np.int64)
        kind = 0 if self.part == "grandparent" else 1
        count = jit.list_parts(
            lists, wanted, kind, root, self.bins(len(lists.starts))[0], places, kept
        )
        return kept[:count], places[:, :count]

    def count_keys(self, examples: GoldTrees, sample: int) -> np.ndarray:
        """Estimate the number of distinct keys of each pair on gold arcs, by linear counting (Whang
        et al. 1990).
        """
        n_pairs = len(self.groups)
        marks, pairs = np.zeros(n_pairs * BITS, dtype=bool), self.tables([BITS] * n_pairs)
        n_arcs = 0
        for n_sentences in range(1, len(examples) + 1):
            x, gold = examples[n_sentences - 1][:2]
            places = self.tree_places(np.asarray(gold, np.int64))
            # without variants, the ids of features are lines
            marks[_features(self.hashed(x), places, pairs, np.zeros(n_pairs, np.int64))[1]] = True
            n_arcs += len(x)
            if n_arcs >= sample:
                break
        free = np.maximum(1.0 - marks.reshape(n_pairs, BITS).mean(axis=1), 1.0 / BITS)
        return -np.log(free) * BITS * (len(examples) / n_sentences)

    def tree_places(self, heads: np.ndarray) -> np.ndarray:
        """List the arcs or parts of a tree, with negative heads if unknown; nodes are relative to
        the root.
        """
        known = np.flatnonzero(heads >= 0)
        if self.part == "arc":
            return self.places(np.zeros_like(known), heads[known], known + 1)
        return self.parts(*PartLists.of_tree(heads))[1]

    def places_in(self, tokens: ArcTokens, heads: np.ndarray) -> np.ndarray:
        """List the arcs or parts of the trees of all sentences, with nodes of
        :meth:`ArcTokens.everything`.
        """
        found = [np.zeros((5, 0), np.int32)]
        for own, root in zip(
            np.split(heads, np.cumsum(tokens.lengths)[:-1]), tokens.roots - tokens.reach
        ):
            places = self.tree_places(own)
            found.append(
                np.where(
                    (places >= 0) & (np.arange(5) != 3)[:, None], places + np.int32(root), places
                )
            )
        return np.concatenate(found, axis=1)

    def fair_sizes(self, wanted: ArrayLike, n_lines: float) -> np.ndarray:
        """Return the number of lines of each pair: the wanted number, up to a cap at which all
        pairs fit.
        """
        n_pairs = len(self.groups)
        if n_lines < FEWEST_LINES * n_pairs:
            raise InputError(
                f"{n_pairs} pairs of views need room for {FEWEST_LINES * n_pairs} lines of weights, but the memory is "
                f"enough for {int(n_lines)}: allow more, or use fewer templates."
            )
        wanted = np.maximum(np.broadcast_to(wanted, n_pairs), FEWEST_LINES)
        order = np.argsort(wanted, kind="stable")
        left = n_lines
        sizes = np.empty(n_pairs, dtype=np.int64)
        for before, pair in enumerate(
            order.tolist()
        ):  # pairs with few keys leave the rest to the others
            sizes[pair] = int(min(wanted[pair], left / (n_pairs - before)))
            left -= sizes[pair]
        return sizes


class ArcFeatureHasher:
    """Hashed features of the arcs of a tree, for classifiers of arcs; each template is a group.

    Parameters
    ----------
    templates : TemplateSet
    rows : int
        Number of rows for the hashed features of each template.
    """

    def __init__(self, templates: TemplateSet, rows: int) -> None:
        self._layout = layout = TemplateLayout(templates)
        p, variant = np.nonzero(layout.groups >= 0)
        order = np.argsort(layout.groups[p, variant])
        p, self._variants = p[order], variant[order]
        views, between, _ = layout.tables(0)
        self._pairs = PairTables(views[p], between[p], np.arange(len(p) + 1) * rows)
        self.groups = np.repeat(np.arange(len(p), dtype=np.int32), rows)

    def tokens(
        self, x: ArcSentence, heads: np.ndarray, roots: Sequence[int] | np.ndarray = (0,)
    ) -> Tokens:
        """Return one or more sentences as a sequence of tokens with the features of the arc into
        each token.

        Parameters
        ----------
        x : ArcSentence
        heads : int array of shape (n,)
        roots : sequence of int
            Columns of the roots of the sentences that ``x`` consists of, relative to its first
            root.
        """
        n, layout, pairs, reach = len(heads), self._layout, self._pairs, x.tokens.reach
        lengths = np.diff(roots, append=len(x) + 1 + reach) - 1 - reach
        modifiers = np.arange(1, n + 1) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = layout.places(np.repeat(roots, lengths), heads, modifiers)
        starts, ids = _features(layout.hashed(x), places, pairs, self._variants)
        features = Features(starts, ids, np.ones(len(ids)))
        return Tokens(np.array([0, n]), features, n_features=len(self.groups))


def _features(
    keys: ArcKeys, places: np.ndarray, pairs: PairTables, variants: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return where the features of each arc begin, (n + 1,), and their ids."""
    apart = int(np.abs(places[1] - places[2]).sum(dtype=np.int64))
    most = places.shape[1] * len(variants) + apart * np.count_nonzero(pairs.between >= 0)
    starts, ids = np.zeros(places.shape[1] + 1, np.int64), np.empty(most, np.int32)
    return starts, ids[: jit.list_features(keys, places, pairs, variants, starts, ids)]
