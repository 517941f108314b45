"""The semi-Markov segmenter of the examples against all segmentations, one by one."""

import itertools

import numpy as np
import pytest

from omkl.structures import UnaryPotentials

from .running import EXAMPLES, load_example

example = load_example("semi_markov")


def segmentations(n):
    """Every segmentation of n tokens."""
    for cuts in itertools.product([False, True], repeat=n - 1):
        stops = [t + 1 for t in range(n - 1) if cuts[t]] + [n]
        lengths = np.diff([0, *stops])
        if lengths.max() <= example.LONGEST:
            for labels in itertools.product(range(example.LABELS), repeat=len(stops)):
                yield np.column_stack([stops, lengths, labels])


def score(potentials, output):
    rows = (output[:, 0] - 1) * example.LONGEST + output[:, 1] - 1
    return sum(potentials.unary[row, label] for row, label in zip(rows, output[:, 2]))


def wrong_tokens(gold, output):
    return int(np.sum(np.repeat(gold[:, 2], gold[:, 1]) != np.repeat(output[:, 2], output[:, 1])))


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_decoding_with_and_without_costs_is_the_best_of_all_segmentations(n):
    rng, structure, every = np.random.default_rng(n), example.SemiMarkov(), list(segmentations(n))
    for _ in range(5):
        potentials = UnaryPotentials(rng.normal(size=(n * example.LONGEST, example.LABELS)))
        gold = every[rng.integers(len(every))]
        found = structure.decode(potentials)
        assert score(potentials, found) == pytest.approx(max(score(potentials, y) for y in every))
        found = structure.loss_augmented(potentials, gold)
        best = max(score(potentials, y) + wrong_tokens(gold, y) for y in every)
        assert score(potentials, found) + wrong_tokens(gold, found) == pytest.approx(best)
        assert structure.cost(gold, found) == wrong_tokens(gold, found)
        difference, _ = structure.difference(potentials, found, gold)
        assert difference == pytest.approx(score(potentials, found) - score(potentials, gold))


def test_it_learns_which_groups_tell_the_segments_and_predicts_unseen_ones():
    model = example.segmenter(epochs=10).fit(*example.sentences(100, np.random.default_rng(0)))
    X, y = example.sentences(50, np.random.default_rng(1))
    tokens = sum(segments[-1, 0] for segments in y)
    assert -model.score(X, y) * len(X) < 0.15 * tokens
    weights = model.kernel_weights_
    assert weights["noise"] < 0.1
    code = (EXAMPLES / "semi_markov.py").read_text().split('"""', 2)[2]
    assert len(code.splitlines()) < 80
