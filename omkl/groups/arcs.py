"""Groups of dependency arcs: feature templates, hashed on the fly."""

from dataclasses import dataclass

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_arcs as jit
from omkl.groups._jit_arc_features import find_examples, list_features
from omkl.groups.templates import DISTANCE_BINS, VARIANTS, TemplateSet
from omkl.groups.tokens import Features, Tokens

#: No pair of views needs more lines than this for each key that was counted for it; mistakes have keys too.
LINES_A_KEY = 0.5
FEWEST_LINES = 32
ALIGNMENT = 128
#: Arcs that are scored at a time when nothing is learned in between.
BLOCK = 2**17


@dataclass(slots=True, eq=False)
class ArcTokens:
    """Sentences as 64-bit codes of the fields of their tokens.

    Parameters
    ----------
    fields : list of str
    columns : uint64 array of shape (number of fields, number of tokens with padding)
        A sentence is its root, which has codes of its own, and its tokens; on both sides of it there are as many
        codes for "outside" as any template reaches.
    roots : int64 array of shape (number of sentences,)
        Where in ``columns`` each sentence's root is.
    lengths : int64 array of shape (number of sentences,)
        Tokens of each sentence, without the root.
    """

    fields: list
    columns: np.ndarray
    roots: np.ndarray
    lengths: np.ndarray

    def __len__(self):
        return len(self.roots)

    def sentence(self, i):
        """One sentence, as the trainer and the bank take it."""
        return ArcSentence(self, int(self.roots[i]), int(self.lengths[i]))

    def blocks(self):
        """Lists of sentences, all in order, each list with about :data:`BLOCK` arcs."""
        arcs = np.cumsum((self.lengths + 1) ** 2)
        first = 0
        while first < len(self):
            limit = BLOCK + (arcs[first - 1] if first else 0)
            last = max(int(np.searchsorted(arcs, limit, side="right")), first + 1)
            yield [self.sentence(s) for s in range(first, last)]
            first = last


@dataclass(slots=True, eq=False)
class ArcSentence:
    """The sentence whose root is at ``root``; its length is its number of tokens."""

    tokens: ArcTokens
    root: int
    length: int

    def __len__(self):
        return self.length


class ArcTemplateBank:
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

    def __init__(self, templates, averaging=False, dtype=np.float32, sizes=None, memory=256):
        self.templates = TemplateSet.resolve(templates)
        self.names = self.templates.names
        self.averaging = bool(averaging)
        self._dtype = np.dtype(dtype)
        self._layout = _Layout(self.templates)
        if sizes is None:
            sizes = self._layout.fair_sizes(np.inf, _lines_in(memory, averaging, dtype))
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._bases = np.concatenate([[0], np.cumsum(self.sizes)])
        self.table = _aligned(int(self._bases[-1]), self._dtype)
        self._sums = _aligned(int(self._bases[-1]) if self.averaging else 0, self._dtype)
        self._stored = np.zeros(len(self.names), dtype=bool)
        self._groups = self._layout.groups

    @classmethod
    def plan(cls, templates, examples, memory, averaging=True, dtype=np.float32, sample=200_000):
        """A bank with as many lines for each pair of views as the gold arcs of a training set ask for.

        Parameters
        ----------
        templates : TemplateSet
        examples : sequence of (ArcSentence, gold heads, ...)
        memory : float
            Megabytes that parameters (and their averages) may take. Pairs with few keys get what they need, the
            others share the rest evenly.
        """
        layout = _Layout(TemplateSet.resolve(templates))
        wanted = LINES_A_KEY * layout.count_keys(examples, sample)
        return cls(templates, averaging, dtype, layout.fair_sizes(wanted, _lines_in(memory, averaging, dtype)))

    @property
    def nbytes(self):
        """Bytes of all parameters."""
        return self.table.nbytes + self._sums.nbytes

    def n_features(self):
        """Number of features whose weight is not zero."""
        return int(np.count_nonzero(self.table))

    def attach(self, ledger):
        self.ledger = ledger

    def add_potentials(self, x, potentials):
        n_nodes = len(x) + 1
        nodes, cells = np.array([0, n_nodes]), np.array([0, n_nodes**2])
        self._add_scores(self._layout.keys(x), nodes, len(x), potentials.reshape(-1), cells)

    def potentials_of(self, sentences):
        """Potentials of several sentences: a list of arrays (n + 1, n + 1). Faster than one at a time."""
        layout = self._layout
        sizes = np.array([len(x) + 1 for x in sentences])
        nodes, cells = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([[0], np.cumsum(sizes**2)])
        keys = [np.concatenate(parts, axis=1) for parts in zip(*map(layout.keys, sentences))]
        scores = np.zeros(cells[-1])
        self._add_scores(keys, nodes, int(sizes.max()), scores, cells)
        return [scores[low:high].reshape(n, n) for low, high, n in zip(cells[:-1], cells[1:], sizes)]

    def _add_scores(self, keys, nodes, longest, scores, cells):
        layout = self._layout
        jit.add_scores(
            *keys, nodes, layout.pairs, layout.between, self._bases, self._groups, self.ledger.scales, self.table,
            layout.bins(longest), scores, cells,
        )  # fmt: skip

    def step(self, x, gradient):
        ledger = self.ledger
        jit.step(
            *self._arcs(x, gradient), self.table, self._sums, self.averaging, ledger.rates, ledger.averages,
            ledger.empty, ledger.square_norms, ledger.square_gradients,
        )  # fmt: skip

    def settle(self, x, gradient):
        ledger = self.ledger
        ledger.died &= self._stored  # of the others nothing was kept
        for k, factor in ledger.fold():
            ledger.square_norms[k] = self._scale_group(k, factor)
            ledger.averages[k] = 0.0
            self._stored[k] = factor != 0.0
        born = ledger.born & ~self._stored
        if born.any():
            jit.bear(*self._arcs(x, gradient), self.table, ledger.rates, born, ledger.square_norms)
            self._stored |= born

    def _arcs(self, x, gradient):
        """What the arcs with a gradient are, for the jitted functions."""
        layout = self._layout
        parts = layout.pairs, layout.between, self._bases, self._groups, layout.bins(len(x))
        return *layout.keys(x), *parts, jit.gradient_arcs(gradient)

    def _scale_group(self, k, factor):
        p, variant = self._layout.place(k)
        first, last = jit.FIRST_SLOT[variant], jit.LAST_SLOT[variant]
        return jit.scale_group(
            self._bases[p], self._bases[p + 1], first, last, factor, self.table, self._sums, self.averaging,
            self.ledger.averages[k],
        )  # fmt: skip

    def recompute_norms(self):
        jit.squared_norms(self._bases, self._groups, self.table, self.ledger.square_norms)

    def averaged(self):
        """A frozen bank with the averaged parameters; templates that are zero cost it nothing."""
        frozen = ArcTemplateBank(self.templates, dtype=self._dtype, sizes=self.sizes)
        averages, total = self.ledger.average_weights()
        sums = self._sums
        if not self.averaging or total == 0:
            averages, total, sums = self.ledger.scales, 1.0, np.broadcast_to(np.zeros(1, self._dtype), self.table.shape)
        jit.combine(self._bases, self._groups, averages, total, self.table, sums, frozen.table)
        norms = np.empty(len(self.names))
        jit.squared_norms(self._bases, self._groups, frozen.table, norms)
        frozen._groups = np.where(norms[self._groups] > 0, self._groups, -1)
        return frozen

    def restricted(self, templates):
        """A bank for some of the templates, with their weights as they are."""
        kept = _Layout(templates)
        pairs = [self._layout.identities.index(identity) for identity in kept.identities]
        bank = ArcTemplateBank(templates, self.averaging, self._dtype, self.sizes[pairs])
        for new, old in enumerate(pairs):
            lines, own = slice(*self._bases[old : old + 2]), slice(*bank._bases[new : new + 2])
            for k, first, last in zip(kept.groups[new], jit.FIRST_SLOT, jit.LAST_SLOT):
                if k >= 0:
                    bank.table[own, first:last] = self.table[lines, first:last]
                    if self.averaging:
                        bank._sums[own, first:last] = self._sums[lines, first:last]
        bank._stored[:] = self._stored[[self.names.index(name) for name in bank.names]]
        return bank

    def strongest(self, k, n, tokens, heads, offsets):
        """The largest weights of one template, and an arc of a treebank that fires each.

        Returns
        -------
        list of (float, int, int, int)
            Weight, sentence, modifier, token between (0 for none); the largest magnitude first. Weights that no gold
            arc fires are left out.
        """
        layout = self._layout
        p, variant = layout.place(k)
        first, last = jit.FIRST_SLOT[variant], jit.LAST_SLOT[variant]
        weights = self.ledger.scales[k] * self.table[self._bases[p] : self._bases[p + 1], first:last]
        order = np.argsort(-np.abs(weights), axis=None, kind="stable")[: 4 * n]
        order = order[weights.flat[order] != 0]
        wanted = np.full((len(weights), jit.LINE), -1, dtype=np.int32)
        rows, slots = np.unravel_index(order, weights.shape)
        wanted[rows, slots + first] = np.arange(len(order))
        found = np.full((len(order), 3), -1, dtype=np.int64)
        find_examples(
            tokens.columns, tokens.roots, offsets, heads, layout.view(p, 0), layout.view(p, 1), layout.between_field(p),
            layout.bins(int(tokens.lengths.max())), variant, wanted, found,
        )  # fmt: skip
        seen = [(float(weights.flat[o]), *place) for o, place in zip(order, found.tolist()) if place[0] >= 0]
        return seen[:n]

    def state(self):
        return {"sizes": self.sizes, "table": self.table, "sums": self._sums, "stored": self._stored}

    def load_state(self, state):
        self.table[:], self._sums[:], self._stored[:] = state["table"], state["sums"], state["stored"]


def _aligned(n_lines, dtype):
    """Zeros (n_lines, LINE) that begin at a pair of cache lines, so that no look-up touches more."""
    room = np.zeros(n_lines * jit.LINE * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + n_lines * jit.LINE * dtype.itemsize].view(dtype).reshape(n_lines, jit.LINE)


def _lines_in(megabytes, averaging, dtype):
    return megabytes * 1e6 / (jit.LINE * np.dtype(dtype).itemsize * (2 if averaging else 1))


class _Layout:
    """Templates as the jitted functions take them: views of a token, pairs of views, three groups a pair."""

    def __init__(self, templates):
        self.fields = templates.fields
        views, pairs = {}, {}
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
        self.between = np.array([self._looked_at.index(pair[2]) if pair[2] else -1 for pair in pairs], dtype=np.int64)
        self._between_fields = np.array([self.fields.index(field) for field in self._looked_at], dtype=np.int64)
        self._starts = np.cumsum([0, *map(len, views)]).astype(np.int64)
        atoms = [atom for view in views for atom in view]
        self._offsets = np.array([offset for offset, _ in atoms], dtype=np.int64)
        self._fields = np.array([self.fields.index(field) for _, field in atoms], dtype=np.int64)
        self._bins = np.zeros((2, 0), dtype=np.uint64)
        self._latest = (None, None)

    def view(self, p, side):
        """``(offsets, fields)`` of the head's view (side 0) or the modifier's (1) in a pair."""
        atoms = slice(*self._starts[self.pairs[p, side] : self.pairs[p, side] + 2])
        return self._offsets[atoms], self._fields[atoms]

    def between_field(self, p):
        """Row of the field that a pair looks at between its tokens, or -1."""
        return -1 if self.between[p] < 0 else int(self._between_fields[self.between[p]])

    def place(self, k):
        """The pair and the variant of a template."""
        return tuple(int(i[0]) for i in np.nonzero(self.groups == k))

    def bins(self, n):
        """Bin of each distance 0 .. n to the left, and to the right."""
        if self._bins.shape[1] <= n:
            bins = (np.searchsorted(DISTANCE_BINS, np.arange(2 * n + 2), side="right") - 1).clip(0)
            self._bins = np.array([bins, bins + 8], dtype=np.uint64)
        return self._bins

    def keys(self, x):
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

    def count_keys(self, examples, sample):
        """Estimated number of different keys of each pair on gold arcs, by linear counting (Whang et al. 1990)."""
        bitmaps = np.zeros((len(self.pairs), 2**17), dtype=bool)
        n_arcs = 0
        for n_sentences in range(1, len(examples) + 1):
            x, heads = examples[n_sentences - 1][:2]
            arcs = heads, np.arange(1, len(x) + 1), np.ones(len(x))
            jit.mark_lines(*self.keys(x), self.pairs, self.between, self.bins(len(x)), arcs, bitmaps)
            n_arcs += len(x)
            if n_arcs >= sample:
                break
        free = np.maximum(1.0 - bitmaps.mean(axis=1), 1.0 / bitmaps.shape[1])
        return -np.log(free) * bitmaps.shape[1] * (len(examples) / n_sentences)

    def fair_sizes(self, wanted, n_lines):
        """Lines of each pair's table: what is wanted, up to the cap at which all of them fit."""
        n_pairs = len(self.pairs)
        if n_lines < FEWEST_LINES * n_pairs:
            raise InputError(
                f"{n_pairs} pairs of views need room for {FEWEST_LINES * n_pairs} lines of weights, but the memory is "
                f"enough for {int(n_lines)}: allow more, or use fewer templates."
            )
        wanted = np.maximum(np.broadcast_to(wanted, n_pairs), FEWEST_LINES)
        order = np.argsort(wanted, kind="stable")
        room = n_lines
        sizes = np.empty(n_pairs, dtype=np.int64)
        for place, pair in enumerate(order.tolist()):  # those that want little leave the rest to the others
            sizes[pair] = int(min(wanted[pair], room / (n_pairs - place)))
            room -= sizes[pair]
        return sizes


class ArcFeatureHasher:
    """Lists the hashed features of the arcs of a tree, for classifiers of arcs: each template is a group.

    Parameters
    ----------
    templates : TemplateSet
    rows : int
        Features of each template are hashed to this many rows.
    """

    def __init__(self, templates, rows):
        self._layout = layout = _Layout(templates)
        p, variant = np.nonzero(layout.groups >= 0)
        order = np.argsort(layout.groups[p, variant])
        p, self._variants = p[order], variant[order]
        self._pairs, self._between = layout.pairs[p], layout.between[p]
        self._bases = np.arange(len(p) + 1) * rows
        self.groups = np.repeat(np.arange(len(p), dtype=np.int32), rows)

    def tokens(self, x, heads):
        """The arc into each token of a sentence as a token with features, the sentence as one sequence."""
        n = len(x)
        keys = self._layout.keys(x)
        room = n * (len(self._pairs) + n * int(np.count_nonzero(self._between >= 0)))
        starts, ids = np.zeros(n + 1, np.int64), np.empty(room, np.int32)
        count = list_features(
            *keys, self._pairs, self._between, self._variants, self._bases, self._layout.bins(n), heads, starts, ids
        )
        features = Features(starts, ids[:count], np.ones(count))
        return Tokens(np.array([0, n]), features, n_features=int(self._bases[-1]))
