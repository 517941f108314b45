"""The cache against a naive one: it is correct, bounded, and keeps the most recently used entries."""

import numpy as np
import pytest

from omkl._cache import RecentlyUsed


@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_places_hold_the_most_recently_used(capacity, rng):
    recent, held, order = RecentlyUsed(capacity), [None] * capacity, []

    def fill(keys, indices):
        assert not set(keys) & set(order[-capacity:])
        for key, index in zip(keys, indices):
            held[index] = key

    for _ in range(300):
        keys = rng.permutation(10)[: rng.integers(1, capacity + 1)].tolist()
        indices = recent.indices(keys, fill)
        assert [held[index] for index in indices] == keys
        # within one call, known keys count as used before new ones
        known = [key for key in keys if key in order[-capacity:]]
        order = [key for key in order if key not in keys] + known + [key for key in keys if key not in known]
        assert {key for key in range(10) if key in recent} == set(order[-capacity:])
    assert sorted(key for key in held if key is not None) == sorted(key for key in range(10) if key in recent)


def test_what_could_not_be_filled_is_not_known():
    recent, held = RecentlyUsed(2), [None, None]

    def fill(keys, indices):
        for key, index in zip(keys, indices):
            held[index] = 1 / key

    recent.indices([1, 2], fill)
    with pytest.raises(ZeroDivisionError):
        recent.indices([0], fill)
    assert 0 not in recent
    assert [held[index] for index in recent.indices([2, 4], fill)] == [0.5, 0.25]
    assert np.all([held[index] for index in recent.indices([4, 2])] == np.array([0.25, 0.5]))
