"""The script that fetches treebanks: verified by what is in the files, atomic, one sentence when it fails."""

import gzip
import hashlib
import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "data_scripts" / "fetch_ud.py"
TEXTS = {part: f"1\t{part}\t_\t_\t_\t_\t0\t_\t_\t_\n\n".encode() for part in ("train", "dev", "test")}


@pytest.fixture
def fetch_ud(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(SCRIPT.parent)  # as where the script is run
    spec = importlib.util.spec_from_file_location("fetch_ud", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def toy(fetch_ud, monkeypatch):
    """The script, for a treebank of three words, whose home is a port that nobody listens at."""
    files = [
        fetch_ud.File(f"{part}.conllu", len(text), hashlib.sha256(text).hexdigest(), [f"http://127.0.0.1:9/{part}"])
        for part, text in TEXTS.items()
    ]
    monkeypatch.setattr(fetch_ud, "TREEBANKS", {"Toy": files, "Homeless": [files[0]._replace(urls=[])]})
    return fetch_ud


def write_toy(folder, suffix=""):
    folder.mkdir(parents=True)
    for part, text in TEXTS.items():
        (folder / f"{part}.conllu{suffix}").write_bytes(gzip.compress(text, 1) if suffix else text)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("below", ["", "Toy", "ud/Toy"])
def test_it_does_not_matter_how_the_files_lie_and_are_compressed(toy, tmp_path, capsys, below, suffix):
    write_toy(tmp_path / "mine" / below, suffix)
    cache = tmp_path / "cache" / "omkl" / "ud" / "Toy"
    assert toy.main(["--from", str(tmp_path / "mine"), "--only", "Toy"]) == 0
    assert {path.name: gzip.decompress(path.read_bytes()) for path in cache.iterdir()} == {
        f"{part}.conllu.gz": text for part, text in TEXTS.items()
    }
    assert capsys.readouterr().out.count("Verified") == 3
    assert toy.main(["--only", "Toy"]) == 0  # without a home that answers
    assert capsys.readouterr().out.count("is there already") == 3


def test_a_wrong_file_is_refused_and_the_old_one_stays(toy, tmp_path, capsys):
    write_toy(tmp_path / "mine")
    (tmp_path / "mine" / "dev.conllu").write_bytes(b"something else")
    cache = tmp_path / "cache" / "omkl" / "ud" / "Toy"
    cache.mkdir(parents=True)
    (cache / "dev.conllu.gz").write_bytes(b"old")
    assert toy.main(["--from", str(tmp_path / "mine"), "--only", "Toy"]) == 2
    error = capsys.readouterr().err
    assert "dev.conllu is not the file that was expected" in error
    assert error.count("\n") == 1
    assert (cache / "dev.conllu.gz").read_bytes() == b"old"
    assert sorted(path.name for path in cache.iterdir()) == ["dev.conllu.gz", "train.conllu.gz"]


def test_a_damaged_or_missing_file_is_one_sentence(toy, tmp_path, capsys):
    write_toy(tmp_path / "mine", ".gz")
    whole = (tmp_path / "mine" / "train.conllu.gz").read_bytes()
    (tmp_path / "mine" / "train.conllu.gz").write_bytes(whole[:-9])
    assert toy.main(["--from", str(tmp_path / "mine")]) == 2
    assert "cut short or damaged" in capsys.readouterr().err
    (tmp_path / "mine" / "train.conllu.gz").unlink()
    assert toy.main(["--from", str(tmp_path / "mine")]) == 2
    assert "There is no train.conllu" in capsys.readouterr().err
    assert toy.main(["--from", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list((tmp_path / "cache").rglob("*.gz*"))


def test_no_network_and_no_home_are_one_sentence(toy, capsys):
    for arguments, message in (([], "cannot be reached"), (["--only", "Homeless"], "has no public home")):
        assert toy.main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_parts_are_joined_with_one_empty_line(fetch_ud, tmp_path):
    parts = [b"1\ta\n\n2\tb\n\n", b"1\tc\n", b"1\td\n\n\n"]
    for i, part in enumerate(parts):
        (tmp_path / str(i)).write_bytes(part)
    urls = [(tmp_path / str(i)).as_uri() for i in range(len(parts))]
    assert b"".join(fetch_ud._joined(urls)) == b"1\ta\n\n2\tb\n\n1\tc\n\n1\td\n\n"


def test_a_local_copy_is_found_by_the_reader(fetch_ud, real_data, monkeypatch, capsys):
    folder = real_data("ud/UD_English-EWT/en_ewt-ud-dev.conllu.gz").parent
    assert fetch_ud.main(["--from", str(folder)]) == 0
    assert capsys.readouterr().out.count("Verified") == 3
    monkeypatch.delenv("OMKL_DATA", raising=False)
    from omkl.data import data_home, read_treebank

    assert len(read_treebank(data_home() / "ud/UD_English-EWT/en_ewt-ud-dev.conllu.gz")) == 2001
