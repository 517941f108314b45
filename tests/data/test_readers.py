"""Readers and data sets: results, and one clear error for every kind of wrong file."""

import gzip
import os
import threading

import numpy as np
import pytest

from omkl.data import Treebank, digit_views, handwritten_dates, iter_words, read_ocr, read_sequences, read_uci
from omkl.data.datasets import FIRST_DAY, LAST_DAY
from omkl.exceptions import DataFileError, InputError


def ocr_line(number, letter, following, word, position, fold, pixels=None):
    pixels = ["0"] * 128 if pixels is None else pixels
    return "\t".join([str(number), letter, str(following), str(word), str(position), str(fold), *pixels]) + "\t\n"


WORDS = [
    ocr_line(1, "o", 2, 1, 1, 0, ["1"] + ["0"] * 127),
    ocr_line(2, "k", -1, 1, 2, 0),
    ocr_line(3, "a", -1, 2, 1, 7, ["0"] * 127 + ["1"]),
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
        ([WORDS[1]], "line 1: expected the next letter"),
        ([WORDS[0], ocr_line(2, "k", -1, 1, 2, 3)], "line 2: expected"),
        ([ocr_line(1, "o", -1, 1, 1, 12)], "line 1: expected"),
        ([ocr_line(1, "o", -1, 1, 1, "")], "line 1: expected"),
        (["1\to\t-1\t1\t1\n"], "line 1: expected"),
        ([ocr_line(1, "o", -1, 1, 1, 0, ["0"] * 127)], "line 1: expected"),
        ([ocr_line(1, "o", -1, 1, 1, 0, ["2"] + ["0"] * 127)], "line 1: expected"),
        ([ocr_line(1, "o", -1, 1, 1, 0, ["ü"] + ["0"] * 127)], "line 1: expected"),
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
        day, month, year = int(text[:2]), int(text[2:4]), int(text[4:])
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
    thread = threading.Thread(target=path.write_bytes, args=[b"D\tw=the\nN\tw=dog\n\n"], daemon=True)
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
    assert [sentence.forms for block in blocks for sentence in block] == [["the", "bobas"], ["the", "\u00e9t\u00e9"]]
    assert len(Treebank.concatenate(blocks)) == 2
    comments = [line for block in blocks for line in block.text.decode().splitlines() if line.startswith("#")]
    assert comments == ["# sent_id = 1", "# text = the bobas", "# sent_id = 2", "# text = the \u00e9t\u00e9"]
    # spaces within numbers are no ends of words
    (tmp_path / "in.txt").write_bytes("# 10\u00a0000\u202f000\r\n_ \x1f 1-2\t3.1\r\n".encode())
    (found,) = iter_words(tmp_path / "in.txt")
    assert [s.forms for s in found] == [["#", "10\u00a0000\u202f000"], ["_", "\x1f", "1-2", "3.1"]]
    for content, message in ((b"\n \n", "holds no word"), (b"ok\n\xff\xfe\n", "line 2: this is not UTF-8")):
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
        assert (X.dtype, y.dtype) == (float, int)
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
    with pytest.raises(DataFileError, match=r"sonar\.csv\.gz: run data_scripts/fetch_uci\.py, or set OMKL_DATA"):
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
    assert (np.sum(y == 1), np.sum(y == -1)) == (n_positive, shape[0] - n_positive)


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
        columns, rows = list(image.T), list(image)
        assert views["profiles"][i] == pytest.approx([np.mean(line) for line in rows + columns])
        outline = [line[::way] for lines in (columns, rows) for way in (1, -1) for line in lines]
        assert views["outline"][i].tolist() == [steps_to_ink(line) for line in outline]
        assert views["spectrum"][i].reshape(8, 5) == pytest.approx(np.abs(np.fft.fft2(image))[:, :5] / 8)


@pytest.mark.parametrize("images", [np.zeros((2, 63)), np.zeros(64), np.zeros((1, 8, 8))])
def test_other_images_are_refused(images):
    with pytest.raises(InputError, match="64 pixels"):
        digit_views(images)
