"""The script that fetches the OCR data set: verified, atomic, one sentence when it fails."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "data_scripts" / "fetch_ocr.py"


@pytest.fixture
def fetch_ocr(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(SCRIPT.parent)  # as where the script is run
    spec = importlib.util.spec_from_file_location("fetch_ocr", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wrong_file_is_refused_and_the_old_one_stays(fetch_ocr, tmp_path, capsys):
    target = tmp_path / "cache" / "omkl" / "ocr" / "letter.data.gz"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"old")
    (tmp_path / "wrong.gz").write_bytes(b"something else")
    assert fetch_ocr.main(["--from", str(tmp_path / "wrong.gz")]) == 2
    assert "is not the file that was expected" in capsys.readouterr().err
    assert target.read_bytes() == b"old"
    assert [path.name for path in target.parent.iterdir()] == ["letter.data.gz"]
    assert fetch_ocr.main(["--from", str(tmp_path / "missing.gz")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_local_copy_is_verified_and_found_by_the_reader(fetch_ocr, real_data, monkeypatch, tmp_path):
    source = real_data("ocr/letter.data.gz")
    assert fetch_ocr.main(["--from", str(source)]) == 0
    monkeypatch.delenv("OMKL_DATA", raising=False)
    from omkl.data import read_ocr

    assert len(read_ocr()) == 6877
