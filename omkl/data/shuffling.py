"""A random order through a bounded buffer."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from omkl.data.rows import Block, join, take


class Seed:
    """A seed that gives every epoch its own random numbers, whatever happened before."""

    def __init__(self, random_state: Any) -> None:
        if isinstance(random_state, np.random.Generator):
            random_state = int(random_state.integers(1 << 63))
        self._entropy = np.random.SeedSequence(random_state).entropy

    def generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(epoch,)))


def shuffled(blocks: Iterable[Block], buffer: int, rng: np.random.Generator) -> Iterator[Block]:
    """The same examples after they have passed through a buffer.

    The buffer is filled, and a random half of it leaves, until nothing is left to fill it with. So an example is
    copied a bounded number of times, about four, however small the blocks are; with a buffer from which each block
    drives out a block, it would be copied ``buffer / block size`` times.

    Parameters
    ----------
    blocks : iterator of Block
    buffer : int
        Examples that are held, at least 2.
    rng : numpy.random.Generator

    Yields
    ------
    Block
        Of at most as many examples as the blocks that came.
    """
    held, n_held, largest = [], 0, 1
    for block in blocks:
        held.append(block)
        n_held += block.n_examples
        largest = max(largest, block.n_examples)
        while n_held >= buffer:
            pool, order = join(held), rng.permutation(n_held)
            leaving, staying = np.split(order, [buffer // 2])
            yield from _in_pieces(pool, leaving, largest)
            held, n_held = [take(pool, staying)], len(staying)
    if held:
        yield from _in_pieces(join(held), rng.permutation(n_held), largest)


def _in_pieces(pool, order, size):
    for low in range(0, len(order), size):
        yield take(pool, order[low : low + size])
