"""Formats of files."""

import json

import numpy as np
import pytest

from omkl.cli import main
from omkl.data import Stream, StreamFormat, find_format, open_stream
from omkl.exceptions import InputError


class Semicolons(StreamFormat):
    """Numbers between semicolons; the last one is the output."""

    aliases = {"semicolons": {}}
    suffixes = (".semi",)

    def open(self, path, *, scale=1.0):
        rows = np.loadtxt(path, delimiter=";", ndmin=2)
        return Stream.from_arrays(scale * rows[:, :-1], rows[:, -1])


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    np.savetxt(tmp_path / "rows.semi", np.column_stack([X, X[:, 0] > 0]), delimiter=";")
    return tmp_path / "rows.semi"


def test_it_is_found_by_its_suffix_and_by_its_name(path):
    assert open_stream(path).read().X.shape == (60, 3)
    other = path.rename(path.with_suffix(".txt"))
    assert isinstance(find_format(other, "semicolons"), Semicolons)
    np.testing.assert_array_equal(
        open_stream(other, "semicolons", scale=2.0).read().X, 2 * open_stream(other, Semicolons()).read().X
    )


def test_the_command_line_trains_on_it(path, tmp_path):
    assert main(["train", "classifier", str(path), "-o", str(tmp_path / "m.npz"), "--epochs", "5", "--quiet"]) == 0
    report = tmp_path / "report.json"
    assert main(["evaluate", str(tmp_path / "m.npz"), str(path), "--json", str(report), "--quiet"]) == 0
    assert json.loads(report.read_text())["accuracy"] > 0.9


def test_what_it_does_not_take_is_refused(path):
    with pytest.raises(InputError, match="read as semicolons, for which there is no n_features="):
        open_stream(path, n_features=3)
    with pytest.raises(InputError, match="leave target= out"):
        open_stream(path, target="y")
    with pytest.raises(InputError, match=r"Unknown format 'xml': choose one of .*semicolons"):
        open_stream(path, "xml")
