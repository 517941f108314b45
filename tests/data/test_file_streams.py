"""Readers and streams: blocks, orders through a bounded buffer, files, data sets, and what is wrong
with them.
"""

import gzip
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from omkl.data import (
    Block,
    Stream,
    StreamFormat,
    Treebank,
    digit_views,
    find_format,
    handwritten_dates,
    iter_words,
    open_stream,
    read_ocr,
    read_sequences,
    read_treebank,
    read_uci,
    stream_conllu,
    stream_npz,
    stream_sequences,
    synthetic_treebank,
    write_treebank,
)
from omkl.data.datasets import FIRST_DAY, LAST_DAY
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError

from ..commands import read_json, run
from .stream_files import cut_short, damage, read_all, write
from .treebank.treebank_files import columns_of


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A treebank of 600 sentences."""
    path = tmp_path_factory.mktemp("text") / "a.conllu"
    write_treebank(path, synthetic_treebank(600, random_state=0))
    return path.read_bytes()


def test_treebanks_share_their_strings_between_files_and_passes(tmp_path, text):
    sentences = text.split(b"\n\n")
    write(tmp_path / "1.conllu", b"\n\n".join(sentences[300:]))
    write(tmp_path / "2.conllu.gz", b"\n\n".join(sentences[:300]) + b"\n\n")
    stream = stream_conllu(tmp_path, block_size=100)
    both = columns_of(
        list(read_treebank(tmp_path / "1.conllu")) + list(read_treebank(tmp_path / "2.conllu.gz"))
    )
    assert columns_of(read_all(stream)[0]) == both
    shuffled = stream.shuffled(200, random_state=0)
    assert sorted(columns_of(read_all(shuffled)[0])) == sorted(both)


CRFSUITE = "B\tw=dog\tlen:3\nO\tw=cat\n\n\nO\tw=a\\:b\n\n"


def test_sequences_without_labels(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"x": [[0, 1]]}\n' * 5)
    assert read_all(stream_sequences(path, block_size=2)) == ([[[0, 1]]] * 5, None)
    assert [y for _, y in stream_sequences(path)] == [None] * 5


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, "<U3"])
def test_archives_joined_are_the_whole_file(tmp_path, rng, save, dtype):
    X = rng.integers(0, 100, (203, 7)).astype(dtype)
    y = rng.integers(0, 3, 203)
    save(tmp_path / "a.npz", X=X, y=y, other=np.zeros(3))
    stream = stream_npz(tmp_path / "a.npz", block_size=50)
    for epoch in range(2):
        X_of_stream, y_of_stream = read_all(stream, epoch)
        assert_array_equal(X_of_stream, X)
        assert_array_equal(y_of_stream, y)
        assert X_of_stream.dtype == dtype
    save(tmp_path / "b.npz", inputs=X)
    assert_array_equal(read_all(stream_npz(tmp_path / "b.npz", X="inputs"))[0], X)
    assert read_all(stream_npz(tmp_path / "b.npz", X="inputs"))[1] is None


def test_archives_that_are_wrong_are_named(tmp_path, rng):
    X = rng.standard_normal((2000, 50))
    path = tmp_path / "a.npz"
    np.savez(
        path,
        X=X,
        y=np.zeros(1999),
        F=np.asfortranarray(X),
        scalar=3.0,
    )
    for arguments, message in (
        ({"X": "Z"}, "must hold an array 'Z'; its arrays are 'X', 'y', 'F', 'scalar'"),
        ({"y": "Z"}, "must hold an array 'Z'"),
        ({}, "not 2000 and 1999"),
        ({"X": "scalar"}, "must hold arrays of numbers or strings in rows"),
    ):
        with pytest.raises(DataFileError, match=message):
            read_all(stream_npz(path, **arguments))
    np.savez(path, X=X)
    for change in (damage, cut_short):
        broken = change(write(tmp_path / f"{change.__name__}.npz", path.read_bytes()))
        with pytest.raises(DamagedFileError, match=r"after \d+ examples: the file is damaged"):
            read_all(stream_npz(broken))
        stream = stream_npz([broken, path], on_error="skip")
        with pytest.warns(DataWarning, match="the rest of it is left out"):
            assert_array_equal(read_all(stream)[0][-2000:], X)
        assert stream.skipped == 1


def test_the_name_of_a_file_tells_its_format(tmp_path, text):
    np.savez(
        tmp_path / "a.npz",
        X=np.eye(3),
        label=np.arange(3),
    )
    files = {
        "a9a": "1 1:1\n",
        "a.svm.bz2": "1 1:1\n",
        "a.LIBSVM": "1 1:1\n",
        "a.csv": "u,v\n1,2\n",
        "a.tsv.gz": "u\tv\n1\t2\n",
        "a.conllu.gz": text,
        "a.jsonl": json.dumps({"x": [{"a": 1}], "y": ["b"]}),
        "a.crfsuite": CRFSUITE,
    }
    for name, content in files.items():
        write(tmp_path / name, content)
    for name in ("a9a", "a.svm.bz2", "a.LIBSVM"):
        assert read_all(open_stream(tmp_path / name, n_features=3))[0].shape == (1, 3)
    for name in ("a.csv", "a.tsv.gz"):
        X, y = read_all(open_stream(tmp_path / name, target=-1, block_size=5))
        assert X.tolist() == [[1.0]]
        assert y.tolist() == [2]
    assert len(read_all(open_stream(tmp_path / "a.conllu.gz"))[0]) == 600
    assert read_all(open_stream(tmp_path / "a.jsonl"))[1] == [["b"]]
    assert read_all(open_stream(tmp_path / "a.crfsuite"))[1] == [["B", "O"], ["O"]]
    assert read_all(open_stream(tmp_path / "a.npz", target="label"))[1].tolist() == [0, 1, 2]
    for arguments, message in (
        ({"format": "xml"}, "Unknown format 'xml'"),
        ({"target": "y"}, "fixed place for outputs"),
        ({"delimiter": ";"}, "read as svmlight, for which there is no delimiter="),
    ):
        with pytest.raises(InputError, match=message):
            open_stream(tmp_path / "a9a", **arguments)


class Semicolons(StreamFormat):
    """Numbers between semicolons; the last one is the output."""

    aliases = {"semicolons": {}}
    suffixes = (".semi",)

    def open(self, path, *, scale=1.0):
        rows = np.loadtxt(path, delimiter=";", ndmin=2)
        return Stream.from_arrays(
            scale * rows[:, :-1],
            rows[:, -1],
        )


@pytest.fixture
def path(tmp_path, rng):
    X = rng.normal(size=(60, 3))
    np.savetxt(
        tmp_path / "rows.semi",
        np.column_stack([X, X[:, 0] > 0]),
        delimiter=";",
    )
    return tmp_path / "rows.semi"


def test_it_is_found_by_its_suffix_and_by_its_name(path):
    assert open_stream(path).read().X.shape == (60, 3)
    other = path.rename(path.with_suffix(".txt"))
    assert isinstance(find_format(other, "semicolons"), Semicolons)
    assert_array_equal(
        open_stream(other, "semicolons", scale=2.0).read().X,
        2 * open_stream(other, Semicolons()).read().X,
    )


def test_the_command_line_trains_on_it(path, tmp_path):
    run("train", "classifier", path, "-o", tmp_path / "m.npz", "--epochs", "5", "--quiet")
    report = tmp_path / "report.json"
    run("evaluate", tmp_path / "m.npz", path, "--json", report, "--quiet")
    assert read_json(report)["accuracy"] > 0.9


def test_what_it_does_not_take_is_refused(path):
    with pytest.raises(InputError, match="read as semicolons, for which there is no n_features="):
        open_stream(path, n_features=3)
    with pytest.raises(InputError, match="leave target= out"):
        open_stream(path, target="y")
    with pytest.raises(InputError, match=r"Unknown format 'xml': choose one of .*semicolons"):
        open_stream(path, "xml")


sizes = st.integers(1, 12)


def numbers(n, block_size=10):
    return Stream.from_arrays(
        np.arange(n),
        np.arange(n) * 2,
        block_size,
    )


def examples_of(stream, epoch=0):
    blocks = list(stream.blocks(epoch))
    assert all(len(block.X) == stream.block_size for block in blocks[:-1])
    assert all(0 < len(block.X) <= stream.block_size for block in blocks)
    for block in blocks:
        assert_array_equal(
            np.asarray(block.y),
            2 * np.asarray(block.X),
        )
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
        assert all(
            np.shares_memory(block.X, X) for block in Stream.from_arrays(X, block_size=4).blocks()
        )
    X = sparse.random_array((10, 5), density=0.5, format="csr", random_state=0)
    blocks = list(Stream.from_arrays(X, np.arange(10), block_size=4).blocks())
    assert_array_equal(sparse.vstack([block.X for block in blocks]).toarray(), X.toarray())
    assert_array_equal(
        next(iter(Stream.from_arrays(X)))[0].toarray(),
        X[:1].toarray(),
    )


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
    endless = Stream.from_iterable(
        lambda: ((i, 2 * i) for i in iter(lambda: taken.append(0) or len(taken), -1)), 10
    )
    blocks = endless.shuffled(200, random_state=0).blocks()
    for n in range(1, 100):
        next(blocks)
        assert len(taken) <= 10 * n + 200 + 10


def test_a_buffer_that_holds_everything_makes_all_orders_alike():
    orders = [
        tuple(examples_of(numbers(3, 2).shuffled(10, random_state=0), epoch))
        for epoch in range(1200)
    ]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 200) ** 2 / 200).sum() < 20.5  # chi-square, 5 degrees of freedom, p = 0.001


@pytest.mark.parametrize("kind", ["dense", "csr", "list", "treebank"])
def test_shuffling_keeps_every_kind_of_input_together(kind):
    treebank = synthetic_treebank(95, random_state=0)
    dense = np.arange(95.0)[:, None] + np.arange(3)
    X = {"dense": dense, "csr": sparse.csr_array(dense), "list": list(dense), "treebank": treebank}[
        kind
    ]
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
    blocks = [
        Block(np.arange(low, high), 2 * np.arange(low, high))
        for low, high in [(0, 3), (3, 4), (4, 25)]
    ]
    assert_array_equal(examples_of(Stream.from_iterable(blocks, block_size=5)), np.arange(25))


def test_an_iterator_is_passed_over_once():
    stream = Stream.from_iterable(iter([(1.0, 2.0)]))
    assert len(list(stream)) == 1
    with pytest.raises(InputError, match="reads an iterator, only once"):
        list(stream)


def test_blocks_are_mapped():
    assert examples_of(
        numbers(30).mapped(lambda block: (block.X + 1, block.y + 2))
    ).tolist() == list(range(1, 31))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stream.from_arrays(np.zeros(3), np.zeros(2)), "got 3 of X and 2 of y"),
        (lambda: Stream.from_arrays(np.zeros(3), block_size=0), "block_size must be"),
        (lambda: Stream.from_arrays(np.zeros((10**15, 0))), "got the shape"),
        (lambda: Stream.from_iterable(3), "iterable of pairs"),
        (lambda: list(Stream.from_iterable([1, 2])), "pairs"),
        (
            lambda: list(Stream.from_iterable([(1, 2), (1, None)])),
            "1 of 2 examples of the stream have no y",
        ),
        (lambda: list(Stream.from_iterable([([1.0], 2), ([1.0, 2.0], 3)])), "equally long"),
        (
            lambda: list(Stream.from_iterable([Block(np.eye(2)), Block(np.eye(3))])),
            "do not fit together",
        ),
        (lambda: list(Stream.from_iterable([Block([1]), Block([1], [2])])), "do not fit together"),
        (lambda: numbers(3).shuffled(1), "buffer must be"),
    ],
)
def test_what_is_no_stream_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def ocr_line(number, letter, following, word, position, fold, pixels=None):
    pixels = ["0"] * 128 if pixels is None else pixels
    return (
        "\t".join(
            [str(number), letter, str(following), str(word), str(position), str(fold), *pixels]
        )
        + "\t\n"
    )


WORDS = [
    ocr_line(
        1,
        "o",
        2,
        1,
        1,
        0,
        ["1"] + ["0"] * 127,
    ),
    ocr_line(2, "k", -1, 1, 2, 0),
    ocr_line(
        3,
        "a",
        -1,
        2,
        1,
        7,
        ["0"] * 127 + ["1"],
    ),
]


def write_gz(path, text):
    with gzip.open(path, "wt") as file:
        file.write(text)
    return path


def test_ocr_words(tmp_path):
    for path in (write_gz(tmp_path / "letter.data.gz", "".join(WORDS)), tmp_path / "letter.data"):
        if path.suffix == ".data":
            path.write_text("".join(WORDS))
        words = read_ocr(path)
        assert words.letters == [["o", "k"], ["a"]]
        assert words.folds.tolist() == [0, 7]
        assert [image.shape for image in words.images] == [(2, 128), (1, 128)]
        assert words.images[0][0, 0] == 1 == words.images[1][0, 127]
        assert sum(image.sum() for image in words.images) == 2
        assert words.of_folds(7)[1] == [["a"]]
        assert len(words.of_folds([0, 7])[0]) == len(words) == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "ends in the middle of a word"),
        ([WORDS[0]], "ends in the middle of a word"),
        ([ocr_line(1, "o", -1, 1, 1, "")], "line 1: expected the next letter"),
        (["1\to\t-1\t1\t1\n"], "line 1: expected"),
        ([ocr_line(1, "o", -1, 1, 1, 0, ["0"] * 127)], "line 1: expected"),
        ([WORDS[0], ocr_line(2, "k", -1, 1, 2, 0, ["ü"] + ["0"] * 127)], "line 2: expected"),
    ],
)
def test_ocr_lines_that_are_wrong_are_named(tmp_path, lines, message):
    path = tmp_path / "letter.data"
    path.write_text("".join(lines))
    with pytest.raises(DataFileError, match=message):
        read_ocr(path)


def test_the_real_ocr_data_set_is_read_whole(ocr):
    assert len(ocr) == 6877
    assert np.bincount(ocr.folds).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    letters = [letter for word in ocr.letters for letter in word]
    assert len(letters) == 52152
    assert letters.count("e") == 4955
    assert np.concatenate(ocr.images).mean() == pytest.approx(0.2197, abs=1e-4)


def test_dates_are_dates_and_share_no_image():
    data = handwritten_dates(50, 70, random_state=3)
    assert len(data.train_images) == len(data.train_digits) == 50
    assert all(images.shape == (8, 64) for images in data.test_images)
    for digits in data.train_digits + data.test_digits:
        text = "".join(map(str, digits))
        day = int(text[:2])
        month = int(text[2:4])
        year = int(text[4:])
        assert FIRST_DAY <= FIRST_DAY.replace(year=year, month=month, day=day) <= LAST_DAY
    train = {row.tobytes() for images in data.train_images for row in images}
    test = {row.tobytes() for images in data.test_images for row in images}
    assert not train & test
    again = handwritten_dates(50, 70, random_state=3)
    assert all((a == b).all() for a, b in zip(data.train_images, again.train_images))
    with pytest.raises(InputError):
        handwritten_dates(0)


def test_crfsuite_attribute_lists(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("B\tw=dog\tlen:3\tflag\nO\tw=a\\:b\tt=x\tt=y:0.5\n\n\nB\tw=cat\n")
    X, y = read_sequences(path)
    assert y == [["B", "O"], ["B"]]
    assert X[0][0] == {"w": {"dog": 1.0}, "len": 3.0, "flag": 1.0}
    assert X[0][1] == {"w": {"a:b": 1.0}, "t": {"x": 1.0, "y": 0.5}}


def test_tabs_between_columns_are_not_taken_for_attributes(tmp_path):
    """A file of columns is not read as attributes."""
    path = tmp_path / "train.conll"
    path.write_text("the\tDET\ndog\tNOUN\n")
    with pytest.raises(InputError, match=r"may hold columns"):
        read_sequences(path)
    assert read_sequences(path, "columns")[1] == [["DET", "NOUN"]]
    assert read_sequences(path, "crfsuite")[1] == [["the", "dog"]]
    for line in ("A\tw=the\tbias\n", "A\tn:1\n"):
        path.write_text(line)
        assert read_sequences(path)[1] == [["A"]]


COMMENTED = {
    "columns of comments": (
        "columns",
        (
            "# id 0 domain=train\nDogs NOUN _ B-X\nrun VERB _ O\n\n# id 1 domain=train\n# two\n#"
            " SYM _ O\n#tag X _ O\n# SYM _ O\n\n# end\n"
        ),
        [["Dogs", "run"], ["#", "#tag", "#"]],
        [["B-X", "O"], ["O", "O", "O"]],
    ),
    "tokens": ("columns", "# O\n#tag B\n\n#\tO\n", [["#", "#tag"], ["#"]], [["O", "B"], ["O"]]),
    "attributes": (
        "crfsuite",
        "# a comment\nA\tx=1\n\n# one\tw=2\nB\tx=2\n# A\tx=3\n",
        [["1"], ["2", "3"]],
        [["A"], ["B", "# A"]],
    ),
}


@pytest.mark.parametrize("name", COMMENTED)
def test_comments_before_a_sequence_are_no_tokens(tmp_path, name):
    format, text, words, labels = COMMENTED[name]
    (tmp_path / "train.txt").write_text(text)
    X, y = read_sequences(tmp_path / "train.txt", format)
    assert [
        [token["c0"] if format == "columns" else next(iter(token["x"])) for token in x] for x in X
    ] == words
    assert y == labels
    if name != "tokens":  # the format is that of the first token
        assert read_sequences(tmp_path / "train.txt") == (X, y)


@pytest.mark.parametrize("blank", [" ", "\t", " \t ", "\r"])
def test_a_line_of_spaces_parts_sequences_in_all_formats_of_lines(tmp_path, blank):
    """In CRFsuite's format too, where it could be a token with a blank label."""
    path = tmp_path / "train.crfsuite"
    path.write_bytes(f"B\tw=a\n{blank}\nO\tw=b\n".encode())
    assert read_sequences(path) == ([[{"w": {"a": 1.0}}], [{"w": {"b": 1.0}}]], [["B"], ["O"]])
    path.write_text("B\tw=a\n \tw=b\n")
    with pytest.raises(DataFileError, match="line 2: a token needs a label"):
        read_sequences(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_whose_name_says_nothing_is_read_once(tmp_path):
    path = tmp_path / "63"
    os.mkfifo(path)
    thread = threading.Thread(
        target=path.write_bytes, args=[b"D\tw=the\nN\tw=dog\n\n"], daemon=True
    )
    thread.start()
    assert read_sequences(path)[1] == [["D", "N"]]
    thread.join()


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    for text, expected in (
        (
            '{"x": [{"w": "a"}, {"w": "b"}], "y": ["A", "B"]}\n\n{"x": [{}], "y": [["t", 1]]}\n',
            ([[{"w": "a"}, {"w": "b"}], [{}]], [["A", "B"], [("t", 1)]]),
        ),
        ('{"x": [[0, 1]]}\n', ([[[0, 1]]], None)),
    ):
        path.write_text(text)
        assert read_sequences(path) == expected
    path.write_text("")
    with pytest.raises(DataFileError, match="holds no sequence"):
        read_sequences(path)


def test_text_has_a_sentence_a_line(tmp_path):
    (tmp_path / "in.txt").write_text("the bobas\n\n  the \u00e9t\u00e9 \n")
    blocks = list(iter_words(tmp_path / "in.txt", block_size=1))
    assert [sentence.forms for block in blocks for sentence in block] == [
        ["the", "bobas"],
        ["the", "\u00e9t\u00e9"],
    ]
    assert len(Treebank.concatenate(blocks)) == 2
    comments = [
        line
        for block in blocks
        for line in block.text.decode().splitlines()
        if line.startswith("#")
    ]
    assert comments == [
        "# sent_id = 1",
        "# text = the bobas",
        "# sent_id = 2",
        "# text = the \u00e9t\u00e9",
    ]
    # spaces within numbers are no ends of words
    (tmp_path / "in.txt").write_bytes("# 10\u00a0000\u202f000\r\n_ \x1f 1-2\t3.1\r\n".encode())
    (sentences,) = iter_words(tmp_path / "in.txt")
    assert [s.forms for s in sentences] == [
        ["#", "10\u00a0000\u202f000"],
        ["_", "\x1f", "1-2", "3.1"],
    ]
    for content, message in (
        (b"\n \n", "holds no word"),
        (b"ok\n\xff\xfe\n", "line 2: this is not UTF-8"),
    ):
        (tmp_path / "bad.txt").write_bytes(content)
        with pytest.raises(DataFileError, match=message):
            list(iter_words(tmp_path / "bad.txt"))


TABLE = "a,b,y\n1,-2.5,1\n0,1e-3,-1\n3,4,+1\n"


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_table_is_read_by_its_path_and_by_its_name(tmp_path, monkeypatch, suffix):
    monkeypatch.setenv("OMKL_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    path = tmp_path / "uci" / f"toy{suffix}"
    path.write_bytes(gzip.compress(TABLE.encode()) if suffix == ".csv.gz" else TABLE.encode())
    for source in (path, str(path), *(["toy"] if suffix == ".csv.gz" else [])):
        X, y = read_uci(source)
        assert X.tolist() == [[1, -2.5], [0, 0.001], [3, 4]]
        assert y.tolist() == [1, -1, 1]
        assert X.dtype == float
        assert y.dtype == int
        assert X.flags.c_contiguous


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1,2,1\n",
        "y\n1\n",
        "a,b,y\n",
        "a,b,y\n1,2,1\n1,1\n",
        "a,b,y\n1,2,1,1\n",
        "a,b,y\n1,2,1\n\n1,2,1\n",
        "a,b,y\n1,?,1\n",
        "a,b,y\n1,nan,1\n",
        'a,b,y\n1,"2,1\n',
        "a,b,y\n1,2,1\n1,2,0\n",
        "a,b,y\n1," + "2" * 200_000 + ",1\n",
    ],
)
def test_tables_that_are_wrong_are_refused(tmp_path, text):
    path = tmp_path / "toy.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match=f"^{path} must have names of columns"):
        read_uci(path)


def test_files_cut_short_or_missing(tmp_path, monkeypatch):
    path = tmp_path / "toy.csv.gz"
    path.write_bytes(gzip.compress(TABLE.encode())[:-9])
    with pytest.raises(DataFileError, match="cut short or damaged"):
        read_uci(path)
    with pytest.raises(DataFileError, match="no file"):
        read_uci(tmp_path / "nowhere.csv")
    monkeypatch.setenv("OMKL_DATA", str(tmp_path))
    with pytest.raises(
        DataFileError, match=r"sonar\.csv\.gz: run data_scripts/fetch_uci\.py, or set OMKL_DATA"
    ):
        read_uci("sonar")


@pytest.mark.parametrize(
    ("name", "shape", "n_positive"),
    [
        ("pima", (768, 8), 268),
        ("ionosphere", (351, 34), 225),
        ("sonar", (208, 60), 111),
        ("splice", (3175, 60), 1527),
        ("ringnorm", (5000, 20), 2533),
        ("twonorm", (5000, 20), 2545),
        ("waveform", (5000, 21), 1675),
    ],
)
def test_the_real_sets_are_read_whole(real_data, name, shape, n_positive):
    real_data(f"uci/{name}.csv.gz")
    X, y = read_uci(name)
    assert X.shape == shape
    assert np.sum(y == 1) == n_positive
    assert np.sum(y == -1) == shape[0] - n_positive


def steps_to_ink(line):
    return next((i for i, pixel in enumerate(line) if pixel > 0.3), 8) / 8


def test_views_are_what_a_loop_finds():
    images = np.vstack(handwritten_dates(3, 1).train_images)
    views = digit_views(images)
    assert {name: view.shape for name, view in views.items()} == {
        "pixels": (24, 64),
        "profiles": (24, 16),
        "spectrum": (24, 40),
        "outline": (24, 32),
    }
    for i, image in enumerate(images.reshape(-1, 8, 8)):
        columns = list(image.T)
        rows = list(image)
        assert views["profiles"][i] == pytest.approx([np.mean(line) for line in rows + columns])
        outline = [line[::way] for lines in (columns, rows) for way in (1, -1) for line in lines]
        assert views["outline"][i].tolist() == [steps_to_ink(line) for line in outline]
        assert views["spectrum"][i].reshape(8, 5) == pytest.approx(
            np.abs(np.fft.fft2(image))[:, :5] / 8
        )


@pytest.mark.parametrize("images", [np.zeros((2, 63)), np.zeros(64), np.zeros((1, 8, 8))])
def test_other_images_are_refused(images):
    with pytest.raises(InputError, match="64 pixels"):
        digit_views(images)
