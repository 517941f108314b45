"""Groups of dependency arcs and pairs of arcs: feature templates, hashed on the fly."""

from collections.abc import Sequence
from copy import copy
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from omkl.groups._jit_group_state import BankGroups
from omkl.groups.base import Bank
from omkl.groups.group_state import Mixture
from omkl.groups.templates import _jit_arc_scores as all_arcs
from omkl.groups.templates import _jit_arcs as jit
from omkl.groups.templates.language import TemplateSet
from omkl.groups.templates.layout import ArcKeys, ArcSentence, ArcTokens, GoldTrees, TemplateLayout
from omkl.structures.base import Potentials
from omkl.structures.trees.arc_factored import TreePotentials
from omkl.structures.trees.parts import PartPotentials

#: Maximum lines of a pair of views per key on gold arcs. The keys of wrong arcs share these lines.
LINES_A_KEY = 0.5
#: Number of gold arcs whose keys are counted.
SAMPLE = 200_000
#: Tables begin at a multiple of so many bytes, a pair of cache lines.
ALIGNMENT = 128
#: Arcs with a smaller gradient are skipped: most arcs of a trained CRF, which hardly change the
#: gradient.
NEGLIGIBLE = 1e-5


class ArcTemplateBank(Bank):
    """A group of hashed features for each template of arcs, or of grandparent or sibling parts.

    Potentials are one array of arc scores S (n + 1, n + 1), or also an array of scores of the parts
    of :class:`~omkl.structures.SecondOrderTree`. Features are never listed. The fields of head and
    modifier are hashed to a line of a table that belongs to one pair of views, so that templates
    never collide with one another. A template whose group is zero costs no look-up.

    Parameters
    ----------
    templates : TemplateSet
        Templates of one kind of part.
    averaging : bool
        Whether to keep the averaged parameters, which doubles the memory.
    dtype : float32 or float64
    sizes : int array, optional
        Number of lines of each pair of views; see :meth:`plan`.
    memory : float
        Without ``sizes``: megabytes for all parameters, split evenly between the pairs of views.
    """

    abilities = frozenset({"mix", "condense"})

    def __init__(
        self,
        templates: TemplateSet,
        averaging: bool = False,
        dtype: DTypeLike = np.float32,
        sizes: ArrayLike | None = None,
        memory: float = 256,
    ) -> None:
        self.templates = TemplateSet.resolve(templates)
        self.names = self.templates.names
        self.averaging = bool(averaging)
        self._dtype = np.dtype(dtype)
        self._layout = TemplateLayout(self.templates)
        self.part = self.templates.part
        if sizes is None:
            sizes = self._layout.fair_sizes(np.inf, _lines_in(memory, averaging, dtype))
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._pairs = self._layout.tables(self.sizes)
        n_lines = int(self._pairs.bases[-1])
        self.table = _aligned(n_lines, self._dtype)
        self._sums = _aligned(n_lines if self.averaging else 0, self._dtype)
        #: Whether weights of a group are stored, (p,).
        self._stored = np.zeros(len(self.names), dtype=bool)
        #: Group of each pair and variant, -1 for none, (pairs, variants).
        self._groups = self._layout.groups
        #: Lines and buckets of the table for each group.
        self._blocks = []
        for k in range(len(self.names)):
            pair, variant = self._layout.pair_of(k)
            first, end = self._pairs.bases[pair : pair + 2].tolist()
            buckets = slice(jit.FIRST_BUCKET[variant], jit.LAST_BUCKET[variant])
            self._blocks.append((slice(first, end), buckets))

    @classmethod
    def plan(
        cls,
        templates: TemplateSet,
        examples: GoldTrees,
        memory: float,
        averaging: bool = True,
        dtype: DTypeLike = np.float32,
    ) -> "ArcTemplateBank":
        """Make a bank with lines for each pair of views according to its number of keys.

        Parameters
        ----------
        templates : TemplateSet
        examples : sequence of (ArcSentence, gold heads, ...)
            The training set; keys are counted on its gold arcs.
        memory : float
            Maximum megabytes of the parameters and their averages. Pairs with few keys get what
            they need; the others share the rest evenly.
        averaging : bool
        dtype : float32 or float64
        """
        layout = TemplateLayout(TemplateSet.resolve(templates))
        lines_of_pairs = LINES_A_KEY * layout.count_keys(examples, SAMPLE)
        sizes = layout.fair_sizes(lines_of_pairs, _lines_in(memory, averaging, dtype))
        return cls(templates, averaging, dtype, sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        return self.table.nbytes + self._sums.nbytes

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each template, (p,).

        Templates with the same views share their lines evenly.
        """
        nbytes = np.zeros(len(self.names))
        for size, groups_of_pair in zip(self.sizes, self._layout.groups):
            groups = groups_of_pair[groups_of_pair >= 0]
            nbytes[groups] = size * jit.LINE * self._dtype.itemsize / len(groups)
        return nbytes

    def n_features(self) -> int:
        """Return the number of features with a nonzero weight."""
        return int(np.count_nonzero(self.table))

    def collision_rate(self) -> float:
        """Estimate the share of features that share a weight with another.

        It follows from the fill of the tables: if ``m`` features fall into ``n`` buckets at random,
        a share ``1 - exp(-m / n)`` of the buckets is filled.
        """
        n_features = 0.0
        n_filled = 0.0
        for block in self._blocks:
            weights = self.table[block]
            n_buckets = weights.size
            n_filled_of_block = np.count_nonzero(weights)
            fill = min(n_filled_of_block / n_buckets, 1.0 - 1.0 / n_buckets)
            n_filled += n_filled_of_block
            n_features -= n_buckets * np.log1p(-fill)
        return 1.0 - n_filled / n_features if n_features > 0 else 0.0

    def add_potentials(self, x: ArcSentence, potentials: Potentials) -> None:
        if self.part != "arc":
            self.add_to_all([x], [potentials])
            return
        nodes = np.array([0, len(x) + 1])
        self._add_scores(self._layout.keys(x), nodes, nodes**2, [x], potentials.arcs.reshape(-1))

    def add_to_all(
        self, sentences: Sequence[ArcSentence], potentials: Sequence[Potentials]
    ) -> None:
        """Add the potentials of several sentences in place, which is faster than one at a time.

        Parameters
        ----------
        sentences : sequence of ArcSentence
        potentials : sequence of TreePotentials or PartPotentials
        """
        n_nodes = np.array([len(x) + 1 for x in sentences])
        nodes = np.concatenate([[0], np.cumsum(n_nodes)])
        if len(sentences) == 1:  # in training, its hashes are used again
            keys = self._layout.keys(sentences[0])
        else:
            keys_of_sentences = map(self._layout.hashed, sentences)
            keys = ArcKeys(*(np.concatenate(rows, axis=1) for rows in zip(*keys_of_sentences)))
        if self.part == "arc":
            cells = np.concatenate([[0], np.cumsum(n_nodes**2)])
            scores = np.zeros(cells[-1])
            self._add_scores(keys, nodes, cells, sentences, scores)
            scores_of_sentences = np.split(scores, cells[1:-1])
            for sentence_potentials, sentence_scores in zip(potentials, scores_of_sentences):
                arcs = sentence_potentials.arcs
                arcs[:] += sentence_scores.reshape(arcs.shape)
        else:
            self._add_to_parts(keys, nodes[:-1].tolist(), potentials)

    def _add_to_parts(
        self, keys: ArcKeys, roots: list[int], potentials: Sequence[Potentials]
    ) -> None:
        """Add the potentials of the parts of several sentences with these roots among the nodes."""
        numbers_of_sentences = []
        places_of_sentences = []
        for sentence_potentials, root in zip(potentials, roots):
            all_parts = np.ones(len(sentence_potentials.parts))
            numbers, places = self._layout.parts(sentence_potentials.lists, all_parts, root)
            numbers_of_sentences.append(numbers)
            places_of_sentences.append(places)
        places = np.concatenate(places_of_sentences, axis=1)
        scores = np.zeros(places.shape[1])
        self._add_weights(keys, places, scores)
        first = 0
        for sentence_potentials, numbers in zip(potentials, numbers_of_sentences):
            sentence_potentials.parts[numbers] += scores[first : first + len(numbers)]
            first += len(numbers)

    def _add_weights(self, keys: ArcKeys, places: np.ndarray, scores: np.ndarray) -> None:
        """Add the weights of the templates to the scores of some arcs or parts, (n,)."""
        scales = self.group_state.scales
        jit.add_scores(keys, places, self._pairs, self._groups, scales, self.table, scores)

    def _add_scores(
        self,
        keys: ArcKeys,
        nodes: np.ndarray,
        cells: np.ndarray,
        sentences: Sequence[ArcSentence],
        scores: np.ndarray,
    ) -> None:
        """Add the weights of the templates to the scores of all likely arcs.

        Sentence ``s`` has the nodes ``nodes[s] : nodes[s + 1]`` and the scores of its arcs in
        ``cells[s] : cells[s + 1]``.
        """
        if all(x.likely is None for x in sentences):
            self._add_all_arcs(keys, nodes, cells, scores)
            return
        cells_of_sentences = []
        places_of_sentences = []
        for x, root, first_cell in zip(sentences, nodes.tolist(), cells):
            likely = x.likely
            if likely is None:
                likely = np.ones((len(x) + 1, len(x) + 1))
            cells_of_sentence, places = self._layout.arcs(likely, root)
            cells_of_sentences.append(first_cell + cells_of_sentence)
            places_of_sentences.append(places)
        likely_cells = np.concatenate(cells_of_sentences)
        likely_scores = scores[likely_cells]
        self._add_weights(keys, np.concatenate(places_of_sentences, axis=1), likely_scores)
        scores[likely_cells] = likely_scores

    def _add_all_arcs(
        self, keys: ArcKeys, nodes: np.ndarray, cells: np.ndarray, scores: np.ndarray
    ) -> None:
        """Add the weights of the templates to the scores of all arcs; see :meth:`_add_scores`."""
        pairs = self._pairs
        scales = np.where(self._groups >= 0, self.group_state.scales[self._groups], 0.0)
        n_nodes = np.diff(nodes)
        bins = self._layout.bins(int(n_nodes.max()))
        # rows of scores, one for each head, padded to whole vectors
        roots_of_heads = np.repeat(nodes[:-1], n_nodes)
        n_arcs = np.repeat(n_nodes - 1, n_nodes)
        widths = -(-n_arcs // all_arcs.LANES) * all_arcs.LANES
        starts = np.concatenate([[0], np.cumsum(1 + widths)])
        rows = np.zeros(starts[-1])
        modifiers = np.zeros((len(keys.modifiers), nodes[-1] + all_arcs.LANES), np.uint64)
        modifiers[:, : nodes[-1]] = keys.modifiers
        all_arcs.copy_scores(nodes, cells, scores, starts, rows, True)
        live = np.flatnonzero(scales.any(axis=1))
        have_between = pairs.between[live] >= 0
        for run in np.split(live, np.flatnonzero(np.diff(have_between)) + 1):
            if len(run) and pairs.between[run[0]] < 0:
                all_arcs.add_pairs(
                    keys.heads,
                    modifiers,
                    roots_of_heads,
                    n_arcs,
                    int(widths.max()),
                    pairs,
                    run,
                    scales,
                    self.table,
                    bins.bits,
                    starts,
                    rows,
                )
                continue
            for p in run.tolist():
                all_arcs.add_pair_between(
                    keys.heads,
                    modifiers,
                    keys.codes,
                    nodes,
                    pairs,
                    p,
                    scales,
                    self.table,
                    bins.codes,
                    starts,
                    rows,
                )
        all_arcs.copy_scores(nodes, cells, scores, starts, rows, False)

    def _groups_in(self, chosen: np.ndarray) -> np.ndarray:
        """Return the group of each pair and variant, -1 for those not ``chosen``, bool (p,)."""
        return np.where((self._groups >= 0) & chosen[self._groups], self._groups, -1)

    def step(self, x: ArcSentence, gradient: TreePotentials) -> None:
        self._take_step(x, gradient, self._groups, self.group_state.arrays)
        self._stored |= ~self.group_state.empty

    def _activate(self, x: ArcSentence, gradient: TreePotentials) -> None:
        activated = self.group_state.activated & ~self._stored
        if not activated.any():
            return
        square_norms, unused = np.zeros((2, len(self.names)))
        arrays = self.group_state.arrays._replace(
            empty=~activated, square_norms=square_norms, square_gradients=unused
        )
        self._take_step(x, gradient, self._groups_in(activated), arrays)
        self.group_state.square_norms[activated] = np.maximum(square_norms[activated], 0.0)
        self._stored |= activated

    def _take_step(
        self, x: ArcSentence, gradient: Potentials, groups: np.ndarray, arrays: BankGroups
    ) -> None:
        """Take the step of some groups (pairs, variants), which are not empty in ``arrays``."""
        keys = self._layout.keys(x)
        places, amounts = self._arcs_of(x, gradient)
        jit.step(keys, places, amounts, self._pairs, groups, self.table, self._sums, arrays)

    def _arcs_of(self, x: ArcSentence, gradient: Potentials) -> tuple[np.ndarray, np.ndarray]:
        """Return places and gradients of the arcs or parts whose gradient is not negligible."""
        if self.part != "arc":
            numbers, places = self._layout.parts(gradient.lists, gradient.parts)
            return places, gradient.parts[numbers]
        cells, places = self._layout.arcs(np.abs(gradient.arcs) > NEGLIGIBLE)
        return places, gradient.arcs.reshape(-1)[cells]

    def inner_products(
        self, x: ArcSentence, gradient: TreePotentials, totals: np.ndarray | None
    ) -> np.ndarray:
        products = np.zeros(len(self.names))
        keys = self._layout.keys(x)
        places, amounts = self._arcs_of(x, gradient)
        empty = self.group_state.empty
        jit.inner_products(
            keys, places, amounts, self._pairs, self._groups, empty, self.table, products
        )
        return products

    def _scale_group(self, k: int, factor: float) -> None:
        if not self._stored[k]:  # no weights were stored yet
            return
        lines, buckets = self._blocks[k]
        self.group_state.square_norms[k] = jit.scale_group(
            (lines.start, lines.stop),
            (buckets.start, buckets.stop),
            factor,
            self.table,
            self._sums,
            self.group_state.averages[k],
        )
        self._stored[k] = factor != 0.0

    def recompute_norms(self) -> None:
        self.group_state.square_norms[:] = self._square_norms()

    def _square_norms(self) -> np.ndarray:
        """Return the sum of squares of each group, (p,)."""
        squares = np.empty(len(self.names))
        for k, block in enumerate(self._blocks):
            weights = self.table[block]
            squares[k] = np.einsum("ij,ij->", weights, weights, dtype=np.float64)
        return squares

    def averaged(self) -> "ArcTemplateBank":
        """Return a frozen bank with averaged parameters; templates of weight zero cost nothing."""
        if self.frozen:
            frozen = copy(self)
        else:
            frozen = ArcTemplateBank(self.templates, dtype=self._dtype, sizes=self.sizes)
            for k, block in enumerate(self._blocks):
                sums = self._sums[block] if self.averaging else self._sums
                average = self.group_state.average(self.table[block], sums, itemgetter(k))
                frozen.table[block] = average
            frozen._stored[:] = frozen._square_norms() > 0
        frozen._groups = self._groups_in(frozen._stored)
        return frozen

    def restricted(self, templates: TemplateSet) -> "ArcTemplateBank":
        """Return a bank with some of the templates and their present weights.

        Parameters
        ----------
        templates : TemplateSet
        """
        identities = TemplateLayout(templates).identities
        pairs = [self._layout.identities.index(identity) for identity in identities]
        bank = ArcTemplateBank(templates, self.averaging, self._dtype, self.sizes[pairs])
        groups = [self.names.index(name) for name in bank.names]
        for new_block, k in zip(bank._blocks, groups):
            bank.table[new_block] = self.table[self._blocks[k]]
            if self.averaging:
                bank._sums[new_block] = self._sums[self._blocks[k]]
        bank._stored[:] = self._stored[groups]
        return bank

    def strongest(
        self, k: int, n: int, tokens: ArcTokens, places: np.ndarray
    ) -> list[tuple[float, tuple[int, ...]]]:
        """Return the largest weights of one template, each with an arc or part of a treebank.

        Parameters
        ----------
        k : int
            Index of the template.
        n : int
            Number of weights.
        tokens : ArcTokens
            Sentences of the treebank.
        places : int32 array of shape (5, number of arcs or parts)
            Arcs or parts of the treebank, listed by :meth:`TemplateLayout.places_in`.

        Returns
        -------
        list of (float, (int, int, int, int))
            Weight, and sentence, head, modifier, and third node or token between (0 for none), in
            decreasing order of magnitude. A modifier or third node of -1 is missing. Weights that
            occur on no gold arc are omitted.
        """
        weights = self.group_state.scales[k] * self.table[self._blocks[k]]
        order = largest(weights, 4 * n)
        if len(order) == 0:
            return []
        pair, variant = self._layout.pair_of(k)
        layout = TemplateLayout(self.templates[k : k + 1])
        keys = layout.keys(tokens.everything())
        pairs = layout.tables(self.sizes[pair])
        arcs, lines, buckets = jit.find_lines(keys, places, pairs, 0)
        # indices in the flattened weights, (lines, buckets of the variant)
        indices = lines * weights.shape[1] + buckets[variant] - jit.FIRST_BUCKET[variant]
        strongest = []
        for index, entry in _first_entries(order, indices, weights.size)[:n]:
            place = places[:, arcs[entry]].copy()
            if pairs.between[0] >= 0:
                # an arc has an entry for each distinct value
                n_before = entry - np.searchsorted(arcs, arcs[entry])
                place[jit.THIRD] = _token_of_value(keys.codes[pairs.between[0]], place, n_before)
            key = _sentence_and_nodes(place, tokens.roots - tokens.reach)
            strongest.append((float(weights.flat[index]), key))
        return strongest

    def nonzero(
        self, values: TreePotentials | PartPotentials
    ) -> list[tuple[tuple[int, ...], float]]:
        """Return the nonzero entries of arrays like potentials.

        Parameters
        ----------
        values : TreePotentials or PartPotentials

        Returns
        -------
        list of ((int, ...), float)
            Head, modifier, and third node of a part; and value.
        """
        if isinstance(values, PartPotentials) and self.part != "arc":
            numbers, places = self._layout.parts(values.lists, values.parts)
            nodes = places[[jit.HEAD, jit.MODIFIER, jit.THIRD]]
            amounts = values.parts[numbers]
        else:
            nodes = np.array(np.nonzero(values.arcs))
            amounts = values.arcs[nodes[0], nodes[1]]
        return list(zip(map(tuple, nodes.T.tolist()), amounts.tolist()))

    def forget_input(self) -> None:
        self._layout.forget()

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        for k, block in enumerate(self._blocks):
            weight_of_group = itemgetter(k)  # of the weights (p,) of a shard
            mixture.write(states, block, weight_of_group, self.table, self._sums)
        self.recompute_norms()
        self._stored[:] = self.group_state.square_norms > 0

    def state(self) -> dict[str, np.ndarray]:
        return {
            "sizes": self.sizes,
            "table": self.table,
            "sums": self._sums,
            "stored": self._stored,
        }

    def condensed(self) -> dict[str, np.ndarray]:
        return self.averaged().state()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.table[:] = state["table"]
        self._sums[:] = state["sums"]
        self._stored[:] = state["stored"]


def _first_entries(order: np.ndarray, indices: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return the indices of ``order`` that occur in ``indices``, and where they first do.

    All indices are below ``size``.
    """
    rank_of_index = np.full(size, len(order))
    rank_of_index[order] = np.arange(len(order))
    ranks, entries = np.unique(rank_of_index[indices], return_index=True)
    occur = ranks < len(order)
    return list(zip(order[ranks[occur]].tolist(), entries[occur].tolist()))


def _token_of_value(codes: np.ndarray, place: np.ndarray, n: int) -> int:
    """Return the first token with the value after n others, between head and modifier."""
    first, end = sorted(place[[jit.HEAD, jit.MODIFIER]].tolist())
    _, tokens = np.unique(codes[first + 1 : end], return_index=True)
    return first + 1 + int(np.sort(tokens)[n])


def _sentence_and_nodes(place: np.ndarray, roots: np.ndarray) -> tuple[int, ...]:
    """Return the sentence of an arc or part, (5,), and its nodes, relative to the root."""
    root = place[jit.ROOT]
    nodes = place[[jit.HEAD, jit.MODIFIER, jit.THIRD]]
    nodes = np.where(nodes >= 0, nodes - root, jit.MISSING)
    return (int(np.searchsorted(roots, root)), *nodes.tolist())


def _aligned(n_lines: int, dtype: np.dtype) -> np.ndarray:
    """Return zeros (n_lines, LINE), of which a look-up touches only one pair of cache lines."""
    nbytes = n_lines * jit.LINE * dtype.itemsize
    memory = np.zeros(nbytes + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes].view(dtype).reshape(n_lines, jit.LINE)


def _lines_in(megabytes: float, averaging: bool, dtype: DTypeLike) -> float:
    """Return the number of lines of a table, and of its running sums, in some memory."""
    n_tables = 2 if averaging else 1
    return megabytes * 1e6 / (jit.LINE * np.dtype(dtype).itemsize * n_tables)


def largest(weights: np.ndarray, n: int) -> np.ndarray:
    """Return flat indices of at most n nonzero weights, by decreasing magnitude.

    Ties keep their order.
    """
    sizes = np.abs(weights).ravel()
    least = np.partition(sizes, -n)[-n] if n < len(sizes) else 0.0
    indices = np.flatnonzero((sizes >= least) & (sizes > 0.0))
    return indices[np.argsort(-sizes[indices], kind="stable")[:n]]
