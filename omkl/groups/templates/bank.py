"""Groups of dependency arcs: feature templates, hashed on the fly."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from omkl.groups.base import Bank
from omkl.groups.group_state import Mixture
from omkl.groups.templates import _jit_arc_scores as all_arcs
from omkl.groups.templates import _jit_arcs as arcs
from omkl.groups.templates import _jit_templates as jit
from omkl.groups.templates.language import TemplateSet
from omkl.groups.templates.layout import ArcSentence, ArcTokens, TemplateLayout
from omkl.structures import TreePotentials

#: No pair of views needs more lines than this for each key that was counted for it; mistakes have keys too.
LINES_A_KEY = 0.5
ALIGNMENT = 128
#: Where the buckets of each variant begin, and the last ones end.
EDGES = np.array([*jit.FIRST_BUCKET, jit.LINE])


class ArcTemplateBank(Bank):
    """A group of hashed features for each template of an arc.

    Potentials are one array of arc scores S (n + 1, n + 1). Features are never listed: the fields of head and modifier
    are hashed to a line of a table that belongs to their pair of views alone, so that templates never collide with one
    another. A template whose group is zero costs no look-up.

    Parameters
    ----------
    templates : TemplateSet
    averaging : bool
        Whether the averaged parameters are kept, which doubles the memory.
    dtype : float32 or float64
    sizes : int array, optional
        Number of lines of each pair of views; see :meth:`plan`.
    memory : float
        Without ``sizes``: megabytes for the parameters, the same for every pair of views.
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
        if sizes is None:
            sizes = self._layout.fair_sizes(np.inf, _lines_in(memory, averaging, dtype))
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._bases = np.concatenate([[0], np.cumsum(self.sizes)])
        self._lines = [slice(low, high) for low, high in zip(self._bases.tolist(), self._bases[1:].tolist())]
        self.table = _aligned(int(self._bases[-1]), self._dtype)
        self._sums = _aligned(int(self._bases[-1]) if self.averaging else 0, self._dtype)
        self._stored = np.zeros(len(self.names), dtype=bool)
        self._groups = self._layout.groups

    @classmethod
    def plan(
        cls,
        templates: TemplateSet,
        examples: Any,
        memory: float,
        averaging: bool = True,
        dtype: DTypeLike = np.float32,
        sample: int = 200_000,
    ) -> "ArcTemplateBank":
        """A bank with as many lines for each pair of views as the gold arcs of a training set ask for.

        Parameters
        ----------
        templates : TemplateSet
        examples : sequence of (ArcSentence, gold heads, ...)
        memory : float
            Megabytes that parameters (and their averages) may take. Pairs with few keys get what they need, the
            others share the rest evenly.
        """
        layout = TemplateLayout(TemplateSet.resolve(templates))
        wanted = LINES_A_KEY * layout.count_keys(examples, sample)
        sizes = layout.fair_sizes(wanted, _lines_in(memory, averaging, dtype))
        return cls(templates, averaging, dtype, sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        return self.table.nbytes + self._sums.nbytes

    def group_nbytes(self) -> np.ndarray:
        """Bytes of each template, (p,): those that look at the same views share their lines evenly."""
        nbytes = np.zeros(len(self.names))
        for size, groups in zip(self.sizes, self._layout.groups):
            own = [k for k in groups if k >= 0]
            nbytes[own] = size * jit.LINE * self._dtype.itemsize / len(own)
        return nbytes

    def n_features(self) -> int:
        """Number of features whose weight is not zero."""
        return int(np.count_nonzero(self.table))

    def collision_rate(self) -> float:
        """Share of the features that must share a weight with another, from how full the tables are.

        If ``m`` features fall into ``n`` buckets at random, a share ``1 - exp(-m / n)`` of the buckets is taken.
        """
        features = taken = 0.0
        for p, groups in enumerate(self._layout.groups):
            for k, first, last in zip(groups, jit.FIRST_BUCKET, jit.LAST_BUCKET):
                if k >= 0:
                    buckets = self.table[self._bases[p] : self._bases[p + 1], first:last]
                    n = np.count_nonzero(buckets)
                    taken += n
                    features -= buckets.size * np.log1p(-min(n / buckets.size, 1.0 - 1.0 / buckets.size))
        return 1.0 - taken / features if features > 0 else 0.0

    def add_potentials(self, x: ArcSentence, potentials: TreePotentials) -> None:
        nodes = np.array([0, len(x) + 1])
        self._add_scores(self._layout.keys(x), nodes, nodes**2, [x], potentials.arcs.reshape(-1))

    def potentials_of(self, sentences: Sequence[ArcSentence]) -> list[TreePotentials]:
        """Potentials of several sentences, faster than one at a time."""
        sizes = np.array([len(x) + 1 for x in sentences])
        nodes, cells = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([[0], np.cumsum(sizes**2)])
        keys = [np.concatenate(parts, axis=1) for parts in zip(*map(self._layout.keys, sentences))]
        scores = np.zeros(cells[-1])
        self._add_scores(keys, nodes, cells, sentences, scores)
        found = [TreePotentials(scores[low:high].reshape(n, n)) for low, high, n in zip(cells[:-1], cells[1:], sizes)]
        for x, potentials in zip(sentences, found):
            x.apply_guide(potentials)
        return found

    def _add_scores(self, keys, nodes, cells, sentences, scores):
        """Add what the templates give to the scores of all likely arcs."""
        layout, bins = self._layout, self._layout.bins(max(map(len, sentences)))
        templates = (
            layout.pairs,
            layout.between,
            self._bases,
            self._groups,
            self.group_state.scales,
            self.table,
        )
        if all(x.likely is None for x in sentences):
            all_arcs.add_scores(*keys, nodes, *templates, bins, scores, cells)
            return
        likely = np.ones(cells[-1])
        for x, low, high in zip(sentences, cells[:-1], cells[1:]):
            if x.likely is not None:
                likely[low:high] = x.likely.ravel()
        chosen, places = _listed(likely, nodes, cells, bins)
        own = scores[chosen]
        arcs.add_scores(*keys, nodes, places, *templates, own)
        scores[chosen] = own

    def step(self, x: ArcSentence, gradient: TreePotentials) -> None:
        group_state = self.group_state
        jit.step(
            *self._arcs(x, gradient),
            self.table,
            self._sums,
            self.averaging,
            group_state.rates,
            group_state.averages,
            group_state.empty,
            group_state.square_norms,
            group_state.square_gradients,
        )
        self._stored |= ~group_state.empty

    def inner_products(self, x: ArcSentence, gradient: TreePotentials, totals: np.ndarray | None) -> np.ndarray:
        layout, products, nodes = self._layout, np.zeros(len(self.names)), np.array([0, len(x) + 1])
        arcs_at, places = _listed(gradient.arcs.reshape(-1), nodes, nodes**2, layout.bins(len(x)))
        arcs.inner_products(
            *layout.keys(x),
            nodes,
            places,
            layout.pairs,
            layout.between,
            self._bases,
            self._groups,
            self.group_state.empty,
            self.table,
            gradient.arcs.reshape(-1)[arcs_at],
            products,
        )
        return products

    def _activate(self, x: ArcSentence, gradient: TreePotentials) -> None:
        group_state = self.group_state
        activated = group_state.activated & ~self._stored
        if activated.any():
            arrays = *self._arcs(x, gradient), self.table, group_state.rates, activated, group_state.square_norms
            jit.activate(*arrays)
            self._stored |= activated

    def _arcs(self, x: ArcSentence, gradient: TreePotentials) -> tuple:
        """Arguments of jitted functions for the arcs with a gradient."""
        layout = self._layout
        parts = layout.pairs, layout.between, self._bases, self._groups, layout.bins(len(x))
        return *layout.keys(x), *parts, arcs.gradient_arcs(gradient.arcs)

    def _scale_group(self, k: int, factor: float) -> None:
        if not self._stored[k]:  # nothing was kept of it
            return
        p, variant = self._layout.pair_of(k)
        first, last = jit.FIRST_BUCKET[variant], jit.LAST_BUCKET[variant]
        self.group_state.square_norms[k] = arcs.scale_group(
            self._bases[p],
            self._bases[p + 1],
            first,
            last,
            factor,
            self.table,
            self._sums,
            self.averaging,
            self.group_state.averages[k],
        )
        self._stored[k] = factor != 0.0

    def recompute_norms(self) -> None:
        arcs.squared_norms(self._bases, self._groups, EDGES, self.table, self.group_state.square_norms)

    def averaged(self) -> "ArcTemplateBank":
        """A frozen bank with the averaged parameters; templates that are zero cost it nothing."""
        if self.frozen:
            frozen = copy(self)
            frozen._groups = np.where((self._groups >= 0) & self._stored[self._groups], self._groups, -1)
            return frozen
        frozen = ArcTemplateBank(self.templates, dtype=self._dtype, sizes=self.sizes)
        averages, total = self.group_state.average_weights()
        sums = self._sums
        if not self.averaging or total == 0:
            averages, total = self.group_state.scales, 1.0
            sums = np.broadcast_to(np.zeros(1, self._dtype), self.table.shape)
        arcs.combine(self._bases, self._groups, EDGES, averages, total, self.table, sums, frozen.table)
        norms = np.empty(len(self.names))
        arcs.squared_norms(self._bases, self._groups, EDGES, frozen.table, norms)
        norms[self.group_state.left_out] = 0.0
        frozen._groups = np.where(norms[self._groups] > 0, self._groups, -1)
        return frozen

    def restricted(self, templates: TemplateSet) -> "ArcTemplateBank":
        """A bank for some of the templates, with their weights as they are."""
        layout = TemplateLayout(templates)
        pairs = [self._layout.identities.index(identity) for identity in layout.identities]
        bank = ArcTemplateBank(templates, self.averaging, self._dtype, self.sizes[pairs])
        for new, old in enumerate(pairs):
            lines, own = slice(*self._bases[old : old + 2]), slice(*bank._bases[new : new + 2])
            for k, first, last in zip(layout.groups[new], jit.FIRST_BUCKET, jit.LAST_BUCKET):
                if k >= 0:
                    bank.table[own, first:last] = self.table[lines, first:last]
                    if self.averaging:
                        bank._sums[own, first:last] = self._sums[lines, first:last]
        bank._stored[:] = self._stored[[self.names.index(name) for name in bank.names]]
        return bank

    def strongest(
        self, k: int, n: int, tokens: ArcTokens, heads: np.ndarray, offsets: np.ndarray
    ) -> list[tuple[float, int, int, int]]:
        """The largest weights of one template, and an arc of a treebank that fires each.

        Returns
        -------
        list of (float, int, int, int)
            Weight, sentence, modifier, token between (0 for none); the largest magnitude first. Weights that no gold
            arc fires are left out.
        """
        layout = self._layout
        p, variant = layout.pair_of(k)
        first, last = jit.FIRST_BUCKET[variant], jit.LAST_BUCKET[variant]
        weights = self.group_state.scales[k] * self.table[self._bases[p] : self._bases[p + 1], first:last]
        order = largest(weights, 4 * n)
        if not len(order):
            return []
        wanted = np.full((len(weights), jit.LINE), -1, dtype=np.int32)
        rows, buckets = np.unravel_index(order, weights.shape)
        wanted[rows, buckets + first] = np.arange(len(order))
        found = np.full((len(order), 3), -1, dtype=np.int64)
        arcs.find_examples(
            tokens.columns,
            tokens.roots,
            offsets,
            heads,
            layout.view(p, 0),
            layout.view(p, 1),
            layout.between_field(p),
            layout.bins(int(tokens.lengths.max())),
            variant,
            wanted,
            found,
        )
        pairs = [(o, where) for o, where in zip(order, found.tolist()) if where[0] >= 0]
        return [(float(weights.flat[o]), sentence, m, between) for o, (sentence, m, between) in pairs[:n]]

    def blueprint(self) -> "Callable[[], ArcTemplateBank]":
        return partial(ArcTemplateBank, self.templates, self.averaging, self._dtype, self.sizes)

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        for p, rows in enumerate(self._lines):
            if self.averaging:
                parts = zip(mixture.averages, mixture.weights, states)
                self._sums[rows] = sum(self._spread(a, p) * s["table"][rows] + w * s["sums"][rows] for a, w, s in parts)
            self.table[rows] = sum(
                self._spread(point, p) * s["table"][rows] for point, s in zip(mixture.points, states)
            )
        self.recompute_norms()
        self._stored[:] = self.group_state.square_norms > 0

    def _spread(self, values, p):
        """Broadcast one number per group to the buckets of a line of a pair of views."""
        groups = self._layout.groups[p]
        return np.repeat(np.where(groups >= 0, values[groups], 0.0), np.diff(EDGES)).astype(self._dtype)

    def state(self) -> dict[str, np.ndarray]:
        return {"sizes": self.sizes, "table": self.table, "sums": self._sums, "stored": self._stored}

    def condensed(self) -> dict[str, np.ndarray]:
        frozen = self.averaged()
        frozen._stored[:] = False
        for p, variant in np.argwhere(self._layout.groups >= 0).tolist():
            k = int(frozen._groups[p, variant])
            if k >= 0:
                frozen._stored[k] = True
            else:  # a template that is left out, or zero
                first, last = jit.FIRST_BUCKET[variant], jit.LAST_BUCKET[variant]
                frozen.table[self._bases[p] : self._bases[p + 1], first:last] = 0.0
        return frozen.state()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.table[:], self._sums[:] = state["table"], state["sums"]
        self._stored[:] = state["stored"]


def _listed(wanted, nodes, cells, bins):
    """Cells of the arcs whose number in ``wanted`` is not 0, and where the arcs are."""
    n_arcs = np.count_nonzero(wanted)
    places, kept = np.empty((4, n_arcs), np.int32), np.empty(n_arcs, np.int64)
    count = arcs.list_arcs(wanted, nodes, cells, bins, places, kept)
    return kept[:count], places[:, :count]


def _aligned(n_lines, dtype):
    """Zeros (n_lines, LINE) that begin at a pair of cache lines, so that no look-up touches more."""
    raw = np.zeros(n_lines * jit.LINE * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + n_lines * jit.LINE * dtype.itemsize].view(dtype).reshape(n_lines, jit.LINE)


def _lines_in(megabytes: float, averaging: bool, dtype: DTypeLike) -> float:
    return megabytes * 1e6 / (jit.LINE * np.dtype(dtype).itemsize * (2 if averaging else 1))


def largest(weights: np.ndarray, n: int) -> np.ndarray:
    """Flat indices of at most n weights that are not zero, by their magnitude, of equal ones the first first."""
    sizes = np.abs(weights).ravel()
    least = np.partition(sizes, -n)[-n] if n < len(sizes) else 0.0
    indices = np.flatnonzero((sizes >= least) & (sizes > 0.0))
    return indices[np.argsort(-sizes[indices], kind="stable")[:n]]
