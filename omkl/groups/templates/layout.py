"""Templates and sentences for compiled loops, and hashed features of the arcs of given trees."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.groups.base import GuidedInput
from omkl.groups.templates import _jit_arcs as jit
from omkl.groups.templates._jit_arc_scores import LANES
from omkl.groups.templates.language import DISTANCE_BINS, VARIANTS, TemplateSet
from omkl.groups.tokens import Features, Tokens, runs_within
from omkl.structures.trees.arc_factored import TreePotentials, TreeStructure, known_arcs
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
        reach = self.reach
        lengths = self.lengths[sentences]
        # a sentence takes the columns of its root, its tokens, and the padding after them
        bounds = reach + np.concatenate([[0], np.cumsum(lengths + 1 + reach)])
        roots = bounds[:-1]
        shifts = np.repeat(self.roots[sentences] - roots, np.diff(bounds))
        old_columns = shifts + np.arange(reach, bounds[-1])
        padding = self.columns[:, :reach]
        columns = np.concatenate([padding, self.columns[:, old_columns]], axis=1)
        guides = None if self.guides is None else [self.guides[i] for i in sentences]
        return ArcTokens(self.fields, columns, roots, lengths, guides)

    def blocks(self) -> "Iterator[list[ArcSentence]]":
        """Yield lists of consecutive sentences, each list with about :data:`BLOCK` arcs."""
        bounds = np.concatenate([[0], np.cumsum((self.lengths + 1) ** 2)])
        for first, last in runs_within(bounds, BLOCK):
            yield [self.sentence(s) for s in range(first, last)]


@dataclass(slots=True, eq=False)
class ArcSentence(GuidedInput[TreeStructure]):
    """One sentence of ``tokens``, whose root is in column ``root``.

    It may come with advice of a first model.
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

    def initial_potentials(self, structure: TreeStructure) -> TreePotentials | PartPotentials:
        """Return the potentials of the first model; arcs that it finds unlikely are forbidden."""
        if self.guide is None:
            return structure.zeros(self.length)
        candidates = self.likely
        if candidates is None:
            candidates = np.ones((self.length + 1, self.length + 1), dtype=bool)
        potentials = structure.over(candidates)
        if self.guide.potentials is not None:
            potentials.arcs[:] += self.guide.potentials
        return potentials


class GoldTrees(Protocol):
    """A sequence of ``(ArcSentence, gold heads, ...)``."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> tuple: ...


class ArcKeys(NamedTuple):
    """Hashes of the nodes' views as head, modifier and third node of a part, (views, n).

    ``codes`` are those of "between" fields, (fields, n).
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


class DistanceBins(NamedTuple):
    """Bins of distances for compiled loops.

    Attributes
    ----------
    codes : uint64 array of shape (2, N + 1)
        Codes of the distances 0 .. N for arcs to the left and to the right.
    bits : uint64 array of shape (2 N + 1 + LANES,)
        Bucket bits of direction and distance at N + m - h, and zeros to read whole vectors.
    """

    codes: np.ndarray
    bits: np.ndarray


class FieldRows(NamedTuple):
    """Rows of ``fields`` that the atoms of views, and "between" fields, refer to."""

    fields: list[str]
    of_atoms: np.ndarray
    between: np.ndarray


class TemplateLayout:
    """Templates for compiled loops: views of a token, pairs of views, and three groups per pair.

    A pair has the views of head and modifier, and that of the third node of a part, if any. The
    templates of a pair differ in their variant only, such as with or without direction.

    Parameters
    ----------
    templates : TemplateSet
        Templates of one kind of part.
    """

    def __init__(self, templates: TemplateSet) -> None:
        self.part = templates.part
        #: Views, as sorted atoms, and their indices.
        views: dict[tuple, int] = {}
        #: Views of head, modifier and third node, and field between them, of each pair.
        self.identities: list[tuple] = []
        groups: dict[tuple, list[int]] = {}
        for k, template in enumerate(templates):
            nodes = [template.head, template.modifier, template.third]
            views_of_nodes = [tuple(sorted(node)) for node in nodes]
            for view in views_of_nodes:
                views.setdefault(view, len(views))
            identity = (*views_of_nodes, template.between)
            if identity not in groups:
                groups[identity] = [-1] * jit.N_VARIANTS
                self.identities.append(identity)
            groups[identity][VARIANTS.index(template.variant)] = k
        #: Group of each pair and variant, -1 for none, (pairs, variants).
        self.groups = np.array(list(groups.values()), dtype=np.int64)
        fields_between = [identity[-1] for identity in self.identities]
        distinct_between = sorted({field for field in fields_between if field})
        index_of_between = {field: row for row, field in enumerate(distinct_between)}
        self._between = np.array([index_of_between.get(field, -1) for field in fields_between])
        views_of_pairs = [[views[view] for view in identity[:-1]] for identity in self.identities]
        self._views = np.array(views_of_pairs, dtype=np.int64)
        atoms = list(itertools.chain.from_iterable(views))
        self._starts = np.cumsum([0, *map(len, views)]).astype(np.int64)
        self._offsets = np.array([offset for offset, _ in atoms], dtype=np.int64)
        self._fields_of_atoms = [field for _, field in atoms]
        self._fields_between = distinct_between
        self._rows = FieldRows([], *np.zeros((2, 0), np.int64))
        self._bins = DistanceBins(np.zeros((2, 0), dtype=np.uint64), np.zeros(0, dtype=np.uint64))
        self.forget()

    def forget(self) -> None:
        """Clear the cached keys of the latest sentence."""
        self._latest: tuple[ArcSentence, ArcKeys] | None = None

    def tables(self, sizes: ArrayLike) -> PairTables:
        """Return the pairs, with ``sizes`` lines for each pair in a table."""
        bases = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return PairTables(views=self._views, between=self._between, bases=bases)

    def pair_of(self, k: int) -> tuple[int, int]:
        """Return the pair and the variant of a template."""
        pairs, variants = np.nonzero(self.groups == k)
        return int(pairs[0]), int(variants[0])

    def bins(self, n: int) -> DistanceBins:
        """Return the bins of at least the distances 0 .. n."""
        bins = self._bins
        if bins.codes.shape[1] <= n:
            distances = np.arange(2 * n + 2)
            bins_of_distances = np.searchsorted(DISTANCE_BINS, distances, side="right") - 1
            bins_of_distances = bins_of_distances.clip(0)
            to_the_right = bins_of_distances + jit.TO_THE_RIGHT
            codes = np.array([bins_of_distances, to_the_right], dtype=np.uint64)
            codes_left, codes_right = codes
            # the distance from bit 6 on, the direction in bit 3
            blocks = [codes_left[:0:-1] << 6, [0], codes_right[1:] << 6 | 1 << 3, np.zeros(LANES)]
            bits = np.concatenate(blocks, dtype=np.uint64, casting="unsafe")
            # return the local bins: another thread may replace self._bins
            self._bins = bins = DistanceBins(codes, bits)
        return bins

    def arcs(self, wanted: np.ndarray, root: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return cells (n,) and places (5, n) of the arcs with nonzero entries, (nodes, nodes)."""
        heads, modifiers = np.nonzero(wanted)
        are_arcs = (heads != modifiers) & (modifiers > 0)
        heads = heads[are_arcs]
        modifiers = modifiers[are_arcs]
        return heads * len(wanted) + modifiers, self.places(root, heads, modifiers)

    def places(
        self, roots: int | np.ndarray, heads: np.ndarray, modifiers: np.ndarray
    ) -> np.ndarray:
        """List arcs for compiled loops, (5, n).

        Heads and modifiers are relative to the roots, all (n,).
        """
        distances = np.abs(heads - modifiers)
        codes = self.bins(int(distances.max(initial=0))).codes
        side = (modifiers > heads).view(np.int8)
        places = np.full((5, len(heads)), jit.MISSING, np.int32)
        places[jit.ROOT] = roots
        places[jit.HEAD] = roots + heads
        places[jit.MODIFIER] = roots + modifiers
        places[jit.CODE] = codes[side, distances]
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
        n_nodes = len(x) + 1
        columns = x.tokens.columns
        rows = self._rows_of(x.tokens.fields)
        n_views = len(self._starts) - 1
        heads = np.empty((n_views, n_nodes), np.uint64)
        jit.fold_views(columns, x.root, self._starts, self._offsets, rows.of_atoms, heads)
        # heads, modifiers and third nodes have different hashes
        turned = heads * jit.TURN
        modifiers = turned ^ (turned >> jit.HALF)
        thirds = modifiers[:0]
        if self.part != "arc":
            thirds = modifiers * jit.TURN
        codes = columns[rows.between, x.root : x.root + n_nodes]
        return ArcKeys(heads=heads, modifiers=modifiers, thirds=thirds, codes=codes)

    def _rows_of(self, fields: list[str]) -> FieldRows:
        """Return the rows of the templates' fields in the columns of some tokens."""
        rows = self._rows
        if rows.fields is not fields:
            for name in [*self._fields_of_atoms, *self._fields_between]:
                if name not in fields:
                    raise InputError(
                        f"The templates use the field {name!r}, but the tokens have {fields}."
                    )
            of_atoms = list(map(fields.index, self._fields_of_atoms))
            between = list(map(fields.index, self._fields_between))
            self._rows = rows = FieldRows(
                fields, np.array(of_atoms, np.int64), np.array(between, np.int64)
            )
        return rows

    def parts(
        self, lists: PartLists, wanted: np.ndarray, root: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers (n,) and places (5, n) of the parts of a sentence with nonzero entries."""
        most = np.count_nonzero(wanted)
        places = np.empty((5, most), np.int32)
        numbers = np.empty(most, np.int64)
        list_parts = jit.list_grandparents if self.part == "grandparent" else jit.list_siblings
        codes = self.bins(len(lists.starts)).codes
        count = list_parts(lists, wanted, root, codes, places, numbers)
        # contiguous as the places of arcs are, since another type would be compiled once more
        return numbers[:count], np.ascontiguousarray(places[:, :count])

    def count_keys(self, examples: GoldTrees, sample: int) -> np.ndarray:
        """Estimate the number of distinct keys of each pair on gold arcs, (pairs,).

        By linear counting (Whang et al. 1990), on the first sentences, with up to ``sample`` arcs.
        """
        n_pairs = len(self.groups)
        # without variants, the ids of features are lines
        no_variants = np.zeros(n_pairs, np.int64)
        pairs = self.tables([BITS] * n_pairs)
        is_line_of_key = np.zeros(n_pairs * BITS, dtype=bool)
        n_arcs = 0
        for n_sentences in range(1, len(examples) + 1):
            x, heads = examples[n_sentences - 1][:2]
            places = self.tree_places(np.asarray(heads, np.int64))
            features = _features(self.hashed(x), places, pairs, no_variants)
            is_line_of_key[features.ids] = True
            n_arcs += len(x)
            if n_arcs >= sample:
                break
        share_of_free_lines = 1.0 - is_line_of_key.reshape(n_pairs, BITS).mean(axis=1)
        share_of_free_lines = np.maximum(share_of_free_lines, 1.0 / BITS)
        return -np.log(share_of_free_lines) * BITS * (len(examples) / n_sentences)

    def tree_places(self, heads: np.ndarray) -> np.ndarray:
        """List the arcs or parts of a tree, with negative heads if unknown, (5, n).

        Nodes are relative to the root.
        """
        if self.part != "arc":
            return self.parts(*PartLists.of_tree(heads))[1]
        return self.places(0, *known_arcs(heads))

    def places_in(self, tokens: ArcTokens, heads: np.ndarray) -> np.ndarray:
        """List the arcs or parts of the trees of all sentences, (5, n).

        Nodes are those of :meth:`ArcTokens.everything`.
        """
        blocks = [np.zeros((5, 0), np.int32)]
        heads_of_sentences = np.split(heads, np.cumsum(tokens.lengths)[:-1])
        roots = (tokens.roots - tokens.reach).astype(np.int32)
        for root, heads_of_sentence in zip(roots, heads_of_sentences):
            places = self.tree_places(heads_of_sentence)
            moved = np.where(places >= 0, places + root, places)
            moved[jit.CODE] = places[jit.CODE]
            blocks.append(moved)
        return np.concatenate(blocks, axis=1)

    def fair_sizes(self, wanted: ArrayLike, n_lines: float) -> np.ndarray:
        """Return the number of lines of each pair: the wanted number, up to a common cap.

        The cap is the largest one at which all pairs fit.
        """
        n_pairs = len(self.groups)
        if n_lines < FEWEST_LINES * n_pairs:
            raise InputError(
                f"{n_pairs} pairs of views need room for {FEWEST_LINES * n_pairs} lines of "
                f"weights, but the memory is enough for {int(n_lines)}: allow more, or use fewer "
                "templates."
            )
        wanted = np.maximum(np.broadcast_to(wanted, n_pairs), FEWEST_LINES)
        n_free = n_lines
        sizes = np.empty(n_pairs, dtype=np.int64)
        # pairs with few keys leave room to the others
        for n_before, pair in enumerate(np.argsort(wanted, kind="stable").tolist()):
            share = n_free / (n_pairs - n_before)
            sizes[pair] = int(min(wanted[pair], share))
            n_free -= sizes[pair]
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
        # one pair of views for each template, in the order of the templates
        pairs, variants = np.nonzero(layout.groups >= 0)
        order = np.argsort(layout.groups[pairs, variants])
        pairs = pairs[order]
        self._variants = variants[order]
        tables = layout.tables(0)
        bases = np.arange(len(pairs) + 1) * rows
        self._pairs = PairTables(tables.views[pairs], tables.between[pairs], bases)
        self.groups = np.repeat(np.arange(len(pairs), dtype=np.int32), rows)

    def tokens(
        self, x: ArcSentence, heads: np.ndarray, roots: Sequence[int] | np.ndarray = (0,)
    ) -> Tokens:
        """Return one or more sentences as tokens with the features of the arcs into them.

        Parameters
        ----------
        x : ArcSentence
        heads : int array of shape (n,)
        roots : sequence of int
            Columns of the roots of the sentences that ``x`` consists of, relative to its first
            root.
        """
        reach = x.tokens.reach
        # a sentence ends with its tokens; padding and the next root follow
        lengths = np.diff(roots, append=len(x) + 1 + reach) - 1 - reach
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        modifiers = np.arange(1, len(heads) + 1) - np.repeat(offsets[:-1], lengths)
        places = self._layout.places(np.repeat(roots, lengths), heads, modifiers)
        features = _features(self._layout.hashed(x), places, self._pairs, self._variants)
        return Tokens(offsets, features, n_features=len(self.groups))


def _features(
    keys: ArcKeys, places: np.ndarray, pairs: PairTables, variants: np.ndarray
) -> Features:
    """Return the features of arcs, listed as ``places``, (5, n), each of value 1."""
    distances = np.abs(places[jit.HEAD] - places[jit.MODIFIER])
    n_arcs = len(distances)
    n_between = np.count_nonzero(pairs.between >= 0)
    most = n_arcs * len(variants) + int(distances.sum(dtype=np.int64)) * n_between
    starts = np.zeros(n_arcs + 1, np.int64)
    ids = np.empty(most, np.int32)
    count = jit.list_features(keys, places, pairs, variants, starts, ids)
    return Features(starts, ids[:count], np.ones(count))
