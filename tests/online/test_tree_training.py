"""Algorithm 1 on trees, as it is: nothing in the trainer or the losses knows what an output looks like."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from omkl.groups.tables import DenseBank
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.online import Example, InverseSqrt, OnlineTrainer, lipschitz_constant
from omkl.regularizers import SquaredL21
from omkl.structures import NonProjectiveTree, ProjectiveTree

from ..passes import fit

N_TAGS = 4
TRUE_WEIGHTS = np.random.default_rng(0).normal(size=(N_TAGS + 1) ** 2)


class TaggedSentence(NamedTuple):
    """What a toy parser sees of an arc: the tags of both ends, and a feature that says nothing."""

    tags: np.ndarray
    noise: np.ndarray

    def __len__(self):
        return len(self.tags)

    @property
    def pairs(self):
        tags = np.append(N_TAGS, self.tags)
        return tags[:, None] * (N_TAGS + 1) + tags


class ArcBank(DenseBank):
    """One weight for every value of one feature of an arc."""

    def __init__(self, name, n_values):
        super().__init__(name, (1, 1, n_values))

    def add_potentials(self, x, potentials):
        potentials.arcs[:] += self.group_state.scales[0] * self.table[0, 0][getattr(x, self.names[0])]

    def step(self, x, gradient):
        self._values = getattr(x, self.names[0])
        super().step(x, gradient)

    def _own(self, gradient):
        sums = np.bincount(self._values.ravel(), weights=gradient.arcs.ravel(), minlength=self.table.size)
        return sums.reshape(self.table.shape)


def sentences(structure, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = rng.integers(2, 9)
        x = TaggedSentence(rng.integers(0, N_TAGS, size=n), rng.integers(0, 50, size=(n + 1, n + 1)))
        yield Example(x, structure.decode(TRUE_WEIGHTS[x.pairs]))


@pytest.mark.parametrize("structure", [NonProjectiveTree(), NonProjectiveTree(False), ProjectiveTree()], ids=repr)
@pytest.mark.parametrize("loss", [StructuredHinge(), CRF(), Perceptron()], ids=lambda loss: type(loss).__name__)
def test_the_trainer_learns_to_parse_and_which_features_matter(structure, loss):
    trainer = OnlineTrainer(
        [ArcBank("pairs", (N_TAGS + 1) ** 2), ArcBank("noise", 50)], structure, loss, SquaredL21(),
        lambda_=1e-3, schedule=InverseSqrt(0.5),
    )  # fmt: skip
    fit(trainer, list(sentences(structure, 60, 1)), epochs=8, rng=np.random.default_rng(0))
    lost = lost_untrained = 0.0
    for x, gold, _ in sentences(structure, 60, 2):
        # many trees are as good as the gold one: compare what they truly score
        true = TRUE_WEIGHTS[x.pairs]
        best = structure.score(true, gold)
        lost += best - structure.score(true, structure.decode(trainer.predictor().potentials(x)))
        lost_untrained += best - structure.score(true, structure.decode(structure.zeros(len(x))))
    assert lost < 0.1 * lost_untrained
    assert trainer.kernel_weights()["pairs"] > 0.6


def trees_of(structure, n):
    """All heads of n words that the structure allows: no cycle, and no crossing or second root where it forbids it."""
    for heads in product(range(n + 1), repeat=n):
        paths = [list(follow(heads, m)) for m in range(1, n + 1)]
        if any(path[-1] != 0 for path in paths) or (structure.single_root and heads.count(0) > 1):
            continue
        spans = [sorted((h, m)) for m, h in enumerate(heads, 1)]
        crossing = any(a < c < b < d for a, b in spans for c, d in spans)
        if not (crossing and isinstance(structure, ProjectiveTree)):
            yield [(h, m) for m, h in enumerate(heads, 1)]


def follow(heads, m):
    """The words from m up to the root, or to where a cycle is closed."""
    seen = set()
    while m and m not in seen:
        yield m
        seen.add(m)
        m = heads[m - 1]
    yield m


@pytest.mark.parametrize("structure", [NonProjectiveTree(), NonProjectiveTree(False), ProjectiveTree()], ids=repr)
def test_the_lipschitz_constant_of_trees_bounds_every_tree(structure):
    """It is the formula of its docstring, over all trees one by one, and no tree has longer features."""
    rng = np.random.default_rng(0)
    inputs = [
        TaggedSentence(rng.integers(0, N_TAGS, size=n), rng.integers(0, 3, size=(n + 1, n + 1))) for n in (1, 3, 4)
    ]
    banks = [ArcBank("pairs", (N_TAGS + 1) ** 2), ArcBank("noise", 3)]
    trainer = OnlineTrainer(banks, structure, StructuredHinge(), SquaredL21(), lambda_=0.1, schedule=InverseSqrt(0.5))
    bound = longest = 0.0
    for x in inputs:
        trees = list(trees_of(structure, len(x)))
        kernel = lambda a, b, x=x: float(x.pairs[a] == x.pairs[b]) + float(x.noise[a] == x.noise[b])  # noqa: E731
        row = {a: max(sum(kernel(a, b) for b in tree) for tree in trees) for tree in trees for a in tree}
        bound = max(bound, max(sum(row[a] for a in tree) for tree in trees))
        longest = max(longest, max(sum(kernel(a, b) for a in tree for b in tree) for tree in trees))
    found = lipschitz_constant(trainer, inputs)
    assert found == pytest.approx(2 * np.sqrt(bound))
    assert found >= 2 * np.sqrt(longest)
