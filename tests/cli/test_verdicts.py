"""Sentences about who is ahead are true of the numbers, whatever these are."""

import numpy as np
import pytest

from omkl.cli.verdicts import Comparison, conclude, joined, standing


def correct(n, right, length=8, seed=0):
    return np.random.default_rng(seed).random((n, length)) < right


def test_equal_lengths_give_the_paired_standard_error():
    mine, theirs = correct(200, 0.9, seed=1), correct(200, 0.8, seed=2)
    comparison = Comparison.of("other", mine, theirs)
    differences = mine.mean(axis=1) - theirs.mean(axis=1)
    assert comparison.difference == pytest.approx(differences.mean())
    assert comparison.standard_error == pytest.approx(differences.std(ddof=1) / np.sqrt(200))
    assert comparison.outcome == "ahead"
    assert Comparison.of("other", theirs, mine).outcome == "behind"


def test_standard_error_of_ragged_examples_is_that_of_the_bootstrap():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, 300)
    mine, theirs = ([rng.random(n) < right for n in lengths] for right in (0.8, 0.75))
    gains = np.array([m.sum() - t.sum(dtype=float) for m, t in zip(mine, theirs)])
    draws = rng.integers(0, 300, (4000, 300))
    bootstrap = (gains[draws].sum(axis=1) / lengths[draws].sum(axis=1)).std()
    comparison = Comparison.of("other", mine, theirs)
    assert comparison.difference == pytest.approx(np.concatenate(mine).mean() - np.concatenate(theirs).mean())
    assert comparison.standard_error == pytest.approx(bootstrap, rel=0.05)


def test_equals_are_level_and_few_examples_tell_nothing():
    right = correct(50, 0.9)
    assert Comparison.of("itself", right, right).outcome == "level"
    assert Comparison.of("other", right[:9], ~right[:9]).outcome == "unclear"
    single = Comparison.of("other", right[:1], ~right[:1])
    assert (single.outcome, single.standard_error) == ("unclear", None)
    assert single.cells()[2:] == ("", "unclear")


def test_conclusions():
    ahead, level, behind, unclear = (Comparison(o, 0.0, 0.0, o) for o in ("ahead", "level", "behind", "unclear"))
    assert conclude("MKL", [ahead, ahead]) == ["MKL pays here: it is ahead of ahead and ahead."]
    assert conclude("MKL", [ahead, level])[0].startswith(
        "MKL pays here in part: it is ahead of ahead; level with level"
    )
    for simpler in ([level], [level, level], [behind, ahead], [level, behind], [behind]):
        assert conclude("MKL", simpler)[0].startswith("MKL does not pay here: it is ")
    assert conclude("MKL", [ahead], [level, behind])[1] == "Beside the rest it is level with level; behind behind."
    assert "no telling" in conclude("MKL", [unclear], [unclear])[0]
    assert standing([unclear]) == "not to be told from unclear"


def test_names_in_a_sentence():
    assert [joined("a"), joined("ab"), joined("abc")] == ["a", "a and b", "a, b and c"]
