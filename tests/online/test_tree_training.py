"""Algorithm 1 on trees: trainer and losses do not depend on the structure."""

from typing import NamedTuple

import numpy as np
import pytest

from omkl.groups.tables import DenseBank
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.online import Example, InverseSqrt
from omkl.structures import NonProjectiveTree, ProjectiveTree

from ..passes import fit, online_trainer

N_TAGS = 4
TRUE_WEIGHTS = np.random.default_rng(0).normal(size=(N_TAGS + 1) ** 2)


class TaggedSentence(NamedTuple):
    """Features of an arc for a toy parser: the tags of both ends, and an uninformative one."""

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
    trainer = online_trainer(
        [ArcBank("pairs", (N_TAGS + 1) ** 2), ArcBank("noise", 50)],
        structure,
        loss=loss,
        lambda_=1e-3,
        schedule=InverseSqrt(0.5),
    )
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
