"""Data sets, and views of digits."""

import gzip

import numpy as np
import pytest

from omkl.data import digit_views, handwritten_dates, read_uci
from omkl.exceptions import DataFileError, InputError

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
