"""Streams: blocks, and a random order through a bounded buffer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from omkl.data import Block, Stream, synthetic_treebank
from omkl.exceptions import InputError

sizes = st.integers(1, 12)


def numbers(n, block_size=10):
    return Stream.from_arrays(np.arange(n), np.arange(n) * 2, block_size)


def examples_of(stream, epoch=0):
    blocks = list(stream.blocks(epoch))
    assert all(len(block.X) == stream.block_size for block in blocks[:-1])
    assert all(0 < len(block.X) <= stream.block_size for block in blocks)
    for block in blocks:
        assert_array_equal(np.asarray(block.y), 2 * np.asarray(block.X))
    return np.concatenate([block.X for block in blocks]) if blocks else np.zeros(0, int)


@given(n=st.integers(0, 50), block_size=sizes)
def test_blocks_hold_all_examples_in_order(n, block_size):
    stream = numbers(n, block_size)
    assert_array_equal(examples_of(stream), np.arange(n))
    assert_array_equal(examples_of(stream, epoch=3), np.arange(n))
    assert [(int(x), int(y)) for x, y in stream] == [(i, 2 * i) for i in range(n)]


def test_blocks_of_arrays_are_views_and_of_sparse_matrices_their_rows(tmp_path):
    np.save(tmp_path / "X.npy", np.arange(30.0).reshape(10, 3))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for X in (np.arange(30.0).reshape(10, 3), mapped):
        assert all(np.shares_memory(block.X, X) for block in Stream.from_arrays(X, block_size=4).blocks())
    X = sparse.random_array((10, 5), density=0.5, format="csr", random_state=0)
    blocks = list(Stream.from_arrays(X, np.arange(10), block_size=4).blocks())
    assert_array_equal(sparse.vstack([block.X for block in blocks]).toarray(), X.toarray())
    assert_array_equal(next(iter(Stream.from_arrays(X)))[0].toarray(), X[:1].toarray())


@given(n=st.integers(0, 60), block_size=sizes, buffer=st.integers(2, 40), seed=st.integers(0, 5))
def test_shuffling_is_a_permutation(n, block_size, buffer, seed):
    shuffled = numbers(n, block_size).shuffled(buffer, random_state=seed)
    assert_array_equal(np.sort(examples_of(shuffled)), np.arange(n))


def test_same_seed_same_order_and_each_epoch_its_own():
    def orders(seed):
        stream = numbers(500).shuffled(100, random_state=seed)
        return [examples_of(stream, epoch).tolist() for epoch in (2, 0, 1)]

    first = orders(7)
    assert orders(7) == first
    assert len({tuple(order) for order in [*first, *orders(8)]}) == 6


def test_a_buffer_bounds_how_early_an_example_comes_and_holds_no_more(monkeypatch):
    places = np.argsort(examples_of(numbers(5000).shuffled(200, random_state=0)))
    shift = places - np.arange(5000)
    assert shift.min() >= -(200 + 10)
    assert 100 < np.abs(shift).mean() < 200
    assert shift.max() > 200  # but some are late by more
    taken = []
    endless = Stream.from_iterable(lambda: ((i, 2 * i) for i in iter(lambda: taken.append(0) or len(taken), -1)), 10)
    blocks = endless.shuffled(200, random_state=0).blocks()
    for n in range(1, 100):
        next(blocks)
        assert len(taken) <= 10 * n + 200 + 10


def test_a_buffer_that_holds_everything_makes_all_orders_alike():
    orders = [tuple(examples_of(numbers(3, 2).shuffled(10, random_state=0), epoch)) for epoch in range(1200)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 200) ** 2 / 200).sum() < 20.5  # chi-square, 5 degrees of freedom, p = 0.001


@pytest.mark.parametrize("kind", ["dense", "csr", "list", "treebank"])
def test_shuffling_keeps_every_kind_of_input_together(kind):
    treebank = synthetic_treebank(95, random_state=0)
    dense = np.arange(95.0)[:, None] + np.arange(3)
    X = {"dense": dense, "csr": sparse.csr_array(dense), "list": list(dense), "treebank": treebank}[kind]
    key = [[1000 * i + len(treebank[i])] for i in range(95)]
    stream = Stream.from_arrays(X, key, 10).shuffled(50, random_state=0)
    blocks = list(stream.blocks())
    assert sorted(y for block in blocks for y in block.y) == key
    for X, y in blocks:
        rows = [i // 1000 for (i,) in y]
        if kind == "treebank":
            assert [s.forms for s in X] == [treebank[i].forms for i in rows]
        else:
            assert_array_equal(X.toarray() if kind == "csr" else np.array(X), dense[rows])


def test_iterables_are_grouped():
    dicts = [({"word": w}, w) for w in "abcde"]
    for source in (dicts, lambda: iter(dicts)):
        stream = Stream.from_iterable(source, block_size=2)
        for _ in range(2):
            blocks = list(stream.blocks())
            assert [block.n_examples for block in blocks] == [2, 2, 1]
            assert [x for block in blocks for x in block.X] == [x for x, _ in dicts]
    vectors = Stream.from_iterable([(np.array([1.0, 2.0]), "a"), ([3.0, 4.0], "b")])
    (block,) = vectors.blocks()
    assert_array_equal(block.X, [[1, 2], [3, 4]])
    assert block.y.tolist() == ["a", "b"]
    rows = sparse.csr_array(np.eye(3))
    (block,) = Stream.from_iterable([(rows[i : i + 1], None) for i in range(3)]).blocks()
    assert_array_equal(block.X.toarray(), np.eye(3))
    assert block.y is None
    sequences = [([{"a": 1.0}], ["x"]), ([{"a": 1.0}, {"b": 1.0}], ["x", "y"])]
    assert list(Stream.from_iterable(sequences)) == sequences
    numbered = [(np.eye(2), [0, 1]), (np.eye(2)[:1], [1])]  # numeric labels are not vectors
    assert [y for _, y in Stream.from_iterable(numbered)] == [[0, 1], [1]]


def test_iterables_of_blocks_are_cut_to_size():
    parts = [Block(np.arange(low, high), 2 * np.arange(low, high)) for low, high in [(0, 3), (3, 4), (4, 25)]]
    assert_array_equal(examples_of(Stream.from_iterable(parts, block_size=5)), np.arange(25))


def test_an_iterator_is_passed_over_once():
    stream = Stream.from_iterable(iter([(1.0, 2.0)]))
    assert len(list(stream)) == 1
    with pytest.raises(InputError, match="reads an iterator, only once"):
        list(stream)


def test_blocks_are_mapped():
    assert examples_of(numbers(30).mapped(lambda block: (block.X + 1, block.y + 2))).tolist() == list(range(1, 31))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stream.from_arrays(np.zeros(3), np.zeros(2)), "got 3 of X and 2 of y"),
        (lambda: Stream.from_arrays(np.zeros(3), block_size=0), "block_size must be"),
        (lambda: Stream.from_arrays(np.zeros((10**15, 0))), "got the shape"),
        (lambda: Stream.from_iterable(3), "iterable of pairs"),
        (lambda: list(Stream.from_iterable([1, 2])), "pairs"),
        (lambda: list(Stream.from_iterable([(1, 2), (1, None)])), "1 of 2 examples of the stream have no y"),
        (lambda: list(Stream.from_iterable([([1.0], 2), ([1.0, 2.0], 3)])), "equally long"),
        (lambda: list(Stream.from_iterable([Block(np.eye(2)), Block(np.eye(3))])), "do not fit together"),
        (lambda: list(Stream.from_iterable([Block([1]), Block([1], [2])])), "do not fit together"),
        (lambda: numbers(3).shuffled(1), "buffer must be"),
    ],
)
def test_what_is_no_stream_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
