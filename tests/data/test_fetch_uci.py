"""The script that fetches benchmark sets: raw files become the tables that are expected, and nothing else is kept."""

import gzip
import hashlib
import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "data_scripts" / "fetch_uci.py"
NAMES = ["pima", "ionosphere", "sonar", "splice", "liver", "wpbc", "ringnorm", "twonorm", "waveform"]
SPLICE = """label,instance_name,sequence
EI,    SOME-DONOR-521,               ACGT
IE,    SOME-ACCEPTOR-1,              TTCA
N,     SOME-NEG-1,                   ACNT
N,     SOME-NEG-2,                   GGGA
"""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def fetch_uci(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(SCRIPT.parent)  # as where the script is run
    spec = importlib.util.spec_from_file_location("fetch_uci", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "omkl" / "uci"


@pytest.fixture
def toy(fetch_uci, monkeypatch, tmp_path):
    """The script, for a raw file of two samples whose home is a folder."""
    raw, table = b"0.10,2,g\n-1,0,b", b"x0,x1,y\n0.10,2,1\n-1,0,-1\n"
    (tmp_path / "raw.csv").write_bytes(raw)
    home = (tmp_path / "raw.csv").as_uri()
    source = fetch_uci.Raw(home, sha256(raw), fetch_uci.labelled_table, ["x0", "x1"], {"g": 1, "b": -1})
    monkeypatch.setattr(fetch_uci, "RAW", {"toy": source})
    monkeypatch.setattr(fetch_uci, "TABLES", {"toy": sha256(table)})
    return fetch_uci


def test_a_raw_file_becomes_a_table_and_is_fetched_once(toy, cache, tmp_path, capsys):
    assert toy.main([]) == 0
    assert gzip.decompress((cache / "toy.csv.gz").read_bytes()) == b"x0,x1,y\n0.10,2,1\n-1,0,-1\n"
    (tmp_path / "raw.csv").unlink()
    assert toy.main([]) == 0
    assert "is there already" in capsys.readouterr().out


def test_a_wrong_raw_file_is_refused_and_the_old_table_stays(toy, cache, tmp_path, capsys):
    cache.mkdir(parents=True)
    (cache / "toy.csv.gz").write_bytes(b"old")
    (tmp_path / "raw.csv").write_bytes(b"0.10,2,g\n-1,0,unknown")
    assert toy.main([]) == 2
    error = capsys.readouterr().err
    assert "raw.csv is not the file that was expected" in error
    assert error.count("\n") == 1
    assert [(path.name, path.read_bytes()) for path in cache.iterdir()] == [("toy.csv.gz", b"old")]


def test_splice_is_coded_and_unknown_bases_are_left_out(fetch_uci):
    table = fetch_uci.splice_table(SPLICE.splitlines(), ["p0", "p1", "p2", "p3"], fetch_uci.RAW["splice"].signs)
    assert table == b"p0,p1,p2,p3,y\n1,2,3,4,1\n4,4,2,1,1\n3,3,3,1,-1\n"


LIVER = [
    "mcv,alkphos,sgpt,sgot,gammagt,drinks,selector",
    *["85,92,45,27,31,0.0,1"] * 145,
    *["85,64,59,32,23,0.5,2"] * 200,
]
WPBC = [
    f"8423,{label},61,{','.join(['0.5'] * 31)},{nodes}"
    for label, nodes, n in (("N", 2, 148), ("R", 0, 46), ("N", "?", 3), ("R", "?", 1))
    for _ in range(n)
]


@pytest.mark.parametrize(
    ("name", "lines", "shape", "n_positive"), [("liver", LIVER, (345, 6), 145), ("wpbc", WPBC, (194, 33), 46)]
)
def test_tables_without_checksum_are_verified_by_what_uci_documents(
    fetch_uci, cache, monkeypatch, tmp_path, capsys, name, lines, shape, n_positive
):
    from omkl.data import read_uci

    raw = tmp_path / "raw.data"
    monkeypatch.setitem(fetch_uci.RAW, name, fetch_uci.RAW[name]._replace(url=raw.as_uri()))
    raw.write_text("\n".join(lines))
    assert fetch_uci.main(["--only", name]) == 0
    assert "Verified by its counts" in capsys.readouterr().out
    X, y = read_uci(cache / f"{name}.csv.gz")
    assert X.shape == shape
    assert (y == 1).sum() == n_positive
    assert fetch_uci.main(["--only", name]) == 0
    assert "is there already" in capsys.readouterr().out
    kept = (cache / f"{name}.csv.gz").read_bytes()
    (cache / f"{name}.csv.gz").write_bytes(kept[:-9])
    for wrong, message in (
        (lines[:-9], "where there are"),
        ([*lines, "85,92,45"], "is not the file that was expected"),
        ([line.replace("0.5", "nan") for line in lines], "is not a table of"),
    ):
        raw.write_text("\n".join(wrong))
        assert fetch_uci.main(["--only", name]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
        assert (cache / f"{name}.csv.gz").read_bytes() == kept[:-9]


def test_what_cannot_be_had_is_one_sentence(fetch_uci, cache, monkeypatch, tmp_path, capsys):
    source = fetch_uci.RAW["sonar"]._replace(url="http://127.0.0.1:9/sonar.csv")
    monkeypatch.setitem(fetch_uci.RAW, "sonar", source)
    monkeypatch.setattr(fetch_uci, "SEED", 1)  # as a numpy that draws other numbers
    for arguments, message in (
        (["--only", "sonar"], "cannot be reached"),
        (["--only", "ringnorm"], "is not the file that was expected"),
        (["--from", str(tmp_path)], "There is no table"),
        (["--from", str(tmp_path), "--only", "sonar"], "There is no sonar.csv.gz, nor sonar.csv"),
    ):
        assert fetch_uci.main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not list(cache.glob("*"))


@pytest.mark.parametrize("name", ["ringnorm", "twonorm", "waveform"])
def test_the_sets_that_are_drawn_are_the_expected_ones(fetch_uci, cache, name):
    assert fetch_uci.main(["--only", name]) == 0
    assert sha256(gzip.decompress((cache / f"{name}.csv.gz").read_bytes())) == fetch_uci.TABLES[name]


def test_local_copies_are_found_by_the_reader(fetch_uci, real_data, monkeypatch, capsys):
    folder = real_data("uci/splice.csv.gz").parent
    assert fetch_uci.main(["--from", str(folder)]) == 0
    assert capsys.readouterr().out.count("Verified") == len(NAMES) - len(("liver", "wpbc"))
    monkeypatch.delenv("OMKL_DATA", raising=False)
    from omkl.data import read_uci

    assert read_uci("splice")[0].shape == (3175, 60)
