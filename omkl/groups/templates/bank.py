"""Groups of dependency arcs and pairs of arcs: feature templates, hashed on the fly."""

import itertools
from collections.abc import Sequence
from copy import copy
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

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
ALIGNMENT = 128
#: Arcs with a smaller gradient are skipped: most arcs of a trained CRF, which hardly change the
#: gradient.
NEGLIGIBLE = 1e-5


class ArcTemplateBank(Bank):
    """A group of hashed features for each template of an arc, of a grandparent part, or of a
    sibling part.

    Potentials are one array of arc scores S (n + 1, n + 1), or also an array of scores of the parts
    of
    :class:`~omkl.structures.SecondOrderTree`. Features are never listed. The fields of head and modifier
    are hashed to a line of a table that belongs to one pair of views, so that templates never
    collide with one another. A template whose group is zero costs no look-up.

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
        self.names, self.averaging = self.templates.names, bool(averaging)
        self._dtype = np.dtype(dtype)
        self._layout = TemplateLayout(self.templates)
        self.part = self.templates.part
        if sizes is None:
            sizes = self._layout.fair_sizes(np.inf, _lines_in(memory, averaging, dtype))
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._pairs = self._layout.tables(self.sizes)
        n_lines = int(self._pairs.bases[-1])
        self.table, self._sums = (
            _aligned(n, self._dtype) for n in (n_lines, n_lines if self.averaging else 0)
        )
        self._stored = np.zeros(len(self.names), dtype=bool)
        self._groups = self._layout.groups
        #: Lines and buckets of the table for each group.
        self._blocks = []
        for p, variant in map(self._layout.pair_of, range(len(self.names))):
            lines = slice(*self._pairs.bases[p : p + 2].tolist())
            self._blocks.append((lines, slice(jit.FIRST_BUCKET[variant], jit.LAST_BUCKET[variant])))

    @classmethod
    def plan(
        cls,
        templates: TemplateSet,
        examples: GoldTrees,
        memory: float,
        averaging: bool = True,
        dtype: DTypeLike = np.float32,
    ) -> "ArcTemplateBank":
        """Make a bank, with lines for each pair of views according to its keys on the gold arcs of
        a training set.

        Parameters
        ----------
        templates : TemplateSet
        examples : sequence of (ArcSentence, gold heads, ...)
        memory : float
            Maximum megabytes of the parameters and their averages. Pairs with few keys get what
            they need; the others share the rest evenly.
        averaging : bool
        dtype : float32 or float64
        """
        layout = TemplateLayout(TemplateSet.resolve(templates))
        wanted = LINES_A_KEY * layout.count_keys(examples, SAMPLE)
        return cls(
            templates,
            averaging,
            dtype,
            layout.fair_sizes(wanted, _lines_in(memory, averaging, dtype)),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        return self.table.nbytes + self._sums.nbytes

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each template, (p,); templates with the same views share their lines
        evenly.
        """
        nbytes = np.zeros(len(self.names))
        for size, groups in zip(self.sizes, self._layout.groups):
            own = [k for k in groups if k >= 0]
            nbytes[own] = size * jit.LINE * self._dtype.itemsize / len(own)
        return nbytes

    def n_features(self) -> int:
        """Return the number of features with a nonzero weight."""
        return int(np.count_nonzero(self.table))

    def collision_rate(self) -> float:
        """Estimate the share of features that share a weight with another, from the fill of the
        tables.

        If ``m`` features fall into ``n`` buckets at random, a share ``1 - exp(-m / n)`` of the
        buckets is taken.
        """
        features = taken = 0.0
        for block in self._blocks:
            size, n = self.table[block].size, np.count_nonzero(self.table[block])
            taken += n
            features -= size * np.log1p(-min(n / size, 1.0 - 1.0 / size))
        return 1.0 - taken / features if features > 0 else 0.0

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
        sizes = np.array([len(x) + 1 for x in sentences])
        nodes = np.concatenate([[0], np.cumsum(sizes)])
        # in training, the hashes of the sentence are used again
        own = map(self._layout.keys if len(sentences) == 1 else self._layout.hashed, sentences)
        keys = ArcKeys(*(np.concatenate(parts, axis=1) for parts in zip(*own)))
        if self.part == "arc":
            cells = np.concatenate([[0], np.cumsum(sizes**2)])
            scores = np.zeros(cells[-1])
            self._add_scores(keys, nodes, cells, sentences, scores)
            for own, low, high in zip(potentials, cells[:-1], cells[1:]):
                own.arcs[:] += scores[low:high].reshape(own.arcs.shape)
            return
        listed = [
            self._layout.parts(own.lists, np.ones(len(own.parts)), root)
            for own, root in zip(potentials, nodes.tolist())
        ]
        places = np.concatenate([own for _, own in listed], axis=1)
        scores, scales = np.zeros(places.shape[1]), self.group_state.scales
        jit.add_scores(keys, places, self._pairs, self._groups, scales, self.table, scores)
        ends = np.cumsum([len(numbers) for numbers, _ in listed])
        for own, (numbers, _), values in zip(potentials, listed, np.split(scores, ends[:-1])):
            own.parts[numbers] += values

    def _add_scores(
        self,
        keys: ArcKeys,
        nodes: np.ndarray,
        cells: np.ndarray,
        sentences: Sequence[ArcSentence],
        scores: np.ndarray,
    ) -> None:
        """Add the weights of the templates to the scores of all likely arcs."""
        scales = self.group_state.scales
        if all(x.likely is None for x in sentences):
            self._add_all_arcs(keys, nodes, cells, scores)
            return
        listed = [
            self._layout.arcs(np.ones((len(x) + 1,) * 2) if x.likely is None else x.likely, root)
            for x, root in zip(sentences, nodes.tolist())
        ]
        chosen = np.concatenate([low + own for (own, _), low in zip(listed, cells)])
        places = np.concatenate([own for _, own in listed], axis=1)
        own = scores[chosen]
        jit.add_scores(keys, places, self._pairs, self._groups, scales, self.table, own)
        scores[chosen] = own

    def _add_all_arcs(
        self, keys: ArcKeys, nodes: np.ndarray, cells: np.ndarray, scores: np.ndarray
    ) -> None:
        """Add the weights of the templates to the scores of all arcs."""
        pairs, table = self._pairs, self.table
        scales = np.where(self._groups >= 0, self.group_state.scales[self._groups], 0.0)
        lengths = np.diff(nodes)
        bins, turns = self._layout.bins(int(lengths.max()))
        first, n_arcs = np.repeat(nodes[:-1], lengths), np.repeat(lengths - 1, lengths)
        widths = -(-n_arcs // all_arcs.LANES) * all_arcs.LANES
        starts = np.concatenate([[0], np.cumsum(1 + widths)])
        rows = np.zeros(starts[-1])
        padded = np.zeros((len(keys.modifiers), nodes[-1] + all_arcs.LANES), np.uint64)
        padded[:, : nodes[-1]] = keys.modifiers
        all_arcs.copy(nodes, cells, scores, starts, rows, True)
        live, arrays = np.flatnonzero(scales.any(axis=1)).tolist(), (scales, table)
        for is_between, run in itertools.groupby(live, lambda p: pairs.between[p] >= 0):
            own = list(run)
            if not is_between:
                sizes = first, n_arcs, int(widths.max())
                all_arcs.add_pairs(
                    keys.heads, padded, *sizes, pairs, np.array(own), *arrays, turns, starts, rows
                )
                continue
            for p in own:
                hashes = keys.heads, padded, keys.codes
                all_arcs.add_pair_between(*hashes, nodes, pairs, p, *arrays, bins, starts, rows)
        all_arcs.copy(nodes, cells, scores, starts, rows, False)

    def step(self, x: ArcSentence, gradient: TreePotentials) -> None:
        arrays = self._groups, self.table, self._sums, self.group_state.step
        jit.step(self._layout.keys(x), *self._arcs_of(x, gradient), self._pairs, *arrays)
        self._stored |= ~self.group_state.empty

    def _activate(self, x: ArcSentence, gradient: TreePotentials) -> None:
        activated = self.group_state.activated & ~self._stored
        if activated.any():
            groups = np.where((self._groups >= 0) & activated[self._groups], self._groups, -1)
            moved, unused = np.zeros((2, len(self.names)))
            arrays = self.group_state.step._replace(
                empty=~activated, square_norms=moved, square_gradients=unused
            )
            own = self._arcs_of(x, gradient)
            jit.step(
                self._layout.keys(x), *own, self._pairs, groups, self.table, self._sums, arrays
            )
            self.group_state.square_norms[activated] = np.maximum(moved[activated], 0.0)
            self._stored |= activated

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
        products, empty = np.zeros(len(self.names)), self.group_state.empty
        arcs = self._arcs_of(x, gradient)
        jit.inner_products(
            self._layout.keys(x), *arcs, self._pairs, self._groups, empty, self.table, products
        )
        return products

    def _scale_group(self, k: int, factor: float) -> None:
        if not self._stored[k]:  # no weights were stored yet
            return
        bounds = [(block.start, block.stop) for block in self._blocks[k]]
        average = self.group_state.averages[k]
        self.group_state.square_norms[k] = jit.scale_group(
            *bounds, factor, self.table, self._sums, average
        )
        self._stored[k] = factor != 0.0

    def recompute_norms(self) -> None:
        self.group_state.square_norms[:] = self._square_norms()

    def _square_norms(self) -> np.ndarray:
        """Return the sum of squares of each group."""
        own = [self.table[block] for block in self._blocks]
        return np.array(
            [np.einsum("ij,ij->", weights, weights, dtype=np.float64) for weights in own]
        )

    def averaged(self) -> "ArcTemplateBank":
        """Return a frozen bank with the averaged parameters; templates of weight zero cost nothing."""
        frozen = copy(self)
        if not self.frozen:
            frozen = ArcTemplateBank(self.templates, dtype=self._dtype, sizes=self.sizes)
            for k, block in enumerate(self._blocks):
                sums = self._sums[block] if self.averaging else self._sums
                frozen.table[block] = self.group_state.average(
                    self.table[block], sums, itemgetter(k)
                )
            frozen._stored[:] = frozen._square_norms() > 0
        # -1 for groups of zero
        frozen._groups = np.where(
            (self._groups >= 0) & frozen._stored[self._groups], self._groups, -1
        )
        return frozen

    def restricted(self, templates: TemplateSet) -> "ArcTemplateBank":
        """Return a bank with some of the templates and their present weights.

        Parameters
        ----------
        templates : TemplateSet
        """
        pairs = [
            self._layout.identities.index(identity)
            for identity in TemplateLayout(templates).identities
        ]
        bank = ArcTemplateBank(templates, self.averaging, self._dtype, self.sizes[pairs])
        kept = [self.names.index(name) for name in bank.names]
        for own, k in zip(bank._blocks, kept):
            bank.table[own] = self.table[self._blocks[k]]
            if self.averaging:
                bank._sums[own] = self._sums[self._blocks[k]]
        bank._stored[:] = self._stored[kept]
        return bank

    def strongest(
        self, k: int, n: int, tokens: ArcTokens, places: np.ndarray
    ) -> list[tuple[float, tuple[int, ...]]]:
        """Return the largest weights of one template, and for each an arc or part of a treebank
        with this feature.

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
        p, variant = self._layout.pair_of(k)
        weights = self.group_state.scales[k] * self.table[self._blocks[k]]
        order = largest(weights, 4 * n)
        if not len(order):
            return []
        wanted = np.full(weights.shape, -1, np.int32)
        wanted.flat[order] = np.arange(len(order))
        layout, x = TemplateLayout(self.templates[k : k + 1]), tokens.everything()
        keys, pairs, roots = (
            layout.keys(x),
            layout.tables(self.sizes[p]),
            tokens.roots - tokens.reach,
        )
        arcs, lines, buckets = jit.find_lines(keys, places, pairs, 0)
        ranks = wanted[lines, buckets[variant] - jit.FIRST_BUCKET[variant]]
        fired = np.flatnonzero(ranks >= 0)
        found, first = np.unique(ranks[fired], return_index=True)
        strongest = []
        for rank, entry in zip(found[:n].tolist(), fired[first].tolist()):
            arc = arcs[entry]
            root, head, modifier, _, other = places[:, arc].tolist()
            if pairs.between[0] >= 0:  # an arc has an entry for each distinct value
                low, high = sorted((head, modifier))
                _, tokens_of = np.unique(
                    keys.codes[pairs.between[0], low + 1 : high], return_index=True
                )
                other = low + 1 + int(np.sort(tokens_of)[entry - np.searchsorted(arcs, arc)])
            nodes = [node - root if node >= 0 else -1 for node in (head, modifier, other)]
            key = (int(np.searchsorted(roots, root)), *nodes)
            strongest.append((float(weights.flat[order[rank]]), key))
        return strongest

    def nonzero(
        self, values: TreePotentials | PartPotentials
    ) -> list[tuple[tuple[int, ...], float]]:
        """Return the nonzero entries of arrays like potentials: head, modifier, and third node of a
        part; and value.
        """
        if isinstance(values, PartPotentials) and self.part != "arc":
            numbers, places = self._layout.parts(values.lists, values.parts)
            return list(
                zip(map(tuple, places[[1, 2, 4]].T.tolist()), values.parts[numbers].tolist())
            )
        heads, modifiers = np.nonzero(values.arcs)
        return list(
            zip(zip(heads.tolist(), modifiers.tolist()), values.arcs[heads, modifiers].tolist())
        )

    def forget_input(self) -> None:
        self._layout.forget()

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        for k, block in enumerate(self._blocks):
            tables = [state["table"][block] for state in states]
            if self.averaging:
                parts = zip(mixture.averages[:, k], mixture.weights, tables, states)
                self._sums[block] = sum(
                    a * table + w * state["sums"][block] for a, w, table, state in parts
                )
            self.table[block] = sum(
                point * table for point, table in zip(mixture.points[:, k], tables)
            )
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
        self.table[:], self._sums[:] = state["table"], state["sums"]
        self._stored[:] = state["stored"]


def _aligned(n_lines: int, dtype: np.dtype) -> np.ndarray:
    """Return zeros (n_lines, LINE), aligned so that a look-up touches only one pair of cache lines."""
    raw = np.zeros(n_lines * jit.LINE * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return (
        raw[start : start + n_lines * jit.LINE * dtype.itemsize]
        .view(dtype)
        .reshape(n_lines, jit.LINE)
    )


def _lines_in(megabytes: float, averaging: bool, dtype: DTypeLike) -> float:
    return megabytes * 1e6 / (jit.LINE * np.dtype(dtype).itemsize * (2 if averaging else 1))


def largest(weights: np.ndarray, n: int) -> np.ndarray:
    """Return flat indices of at most n nonzero weights, by decreasing magnitude; ties keep their
    order.
    """
    sizes = np.abs(weights).ravel()
    least = np.partition(sizes, -n)[-n] if n < len(sizes) else 0.0
    indices = np.flatnonzero((sizes >= least) & (sizes > 0.0))
    return indices[np.argsort(-sizes[indices], kind="stable")[:n]]
