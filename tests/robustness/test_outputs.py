"""Outputs are written completely or not at all, and existing files are not damaged."""

import io
import os
import re
import signal
import stat
import sys
import threading

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import omkl
from omkl._files import check_output, replacing
from omkl.cli import main
from omkl.exceptions import InputError, NotFittedError, OutputFileError

from ..commands import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files as POSIX has them")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file of rows, and a model trained on it."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    dump_svmlight_file(
        X,
        X[:, 0] > 0,
        str(folder / "rows.svm"),
        zero_based=False,
    )
    train = [
        "train",
        "classifier",
        folder / "rows.svm",
        "--kernels",
        "linear",
        "--epochs",
        "2",
        "--quiet",
    ]
    run(*train, "-o", folder / "model.npz")
    return folder


def write(path, text="new", mode="w"):
    with replacing(path, mode) as file:
        file.write(text if "b" not in mode else text.encode())


def test_mode_and_links_of_the_previous_file_stay(tmp_path):
    path = tmp_path / "a"
    link = tmp_path / "link"
    other = tmp_path / "other"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to("a")
    os.link(path, other)
    write(link)
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert other.read_text() == "old"  # another name keeps what it named
    dangling = tmp_path / "dangling"
    dangling.symlink_to("made")
    write(dangling)
    assert (tmp_path / "made").read_text() == "new"


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_pipes_and_devices_are_written_in_place(tmp_path, mode):
    pipe = tmp_path / "pipe"
    got = []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "through", mode)
    reader.join()
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    write(null, mode=mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["null", "pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_full_disk_is_one_error_that_names_the_file(rows, tmp_path, capsys):
    with pytest.raises(OutputFileError, match="/dev/full cannot be written: No space left"):
        write("/dev/full", "x" * 100_000)
    assert (
        main(["predict", str(rows / "model.npz"), str(rows / "rows.svm"), "-o", "/dev/full"]) == 2
    )
    assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_keeps_the_previous_file_alone(failing, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(*_):
        raise OSError(
            28, "No space left on device", *(map(str, _[:1]) if failing == "replace" else ())
        )

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OutputFileError, match=f"{path} cannot be written: No space left"):
        write(path)
    with pytest.raises(KeyboardInterrupt), replacing(path):
        raise KeyboardInterrupt
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(path):
        os.stat("/nowhere/elsewhere")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{}/no/model.npz", "no directory"),
        ("{}", "is a directory"),
        ("{}/", "is a directory"),
        ("{}/folder", "is a directory"),
        ("", "is a directory"),
        ("{}/" + "x" * 300, "name too long"),
        ("{}/a\0b", "no file has such a name"),
        ("{}/loop", "symbolic links"),
    ],
)
def test_paths_that_cannot_be_written_are_refused_before(path, message, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputFileError, match=f"(?i){message}") as error:
        check_output(path.format(tmp_path))
    assert str(error.value).count("\n") == 0
    assert isinstance(error.value, (OSError, InputError))


def test_outputs_are_checked_before_inputs_are_read(rows, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("omkl.OnlineMKLClassifier.fit", None)
    monkeypatch.setattr("omkl.OnlineMKLClassifier.predict", None)
    data = str(rows / "rows.svm")
    model = str(rows / "model.npz")
    before = (rows / "rows.svm").read_bytes(), (rows / "model.npz").read_bytes()
    alias = tmp_path / "alias"
    hard = tmp_path / "hard"
    alias.symlink_to(data)
    os.link(model, hard)
    train = ["train", "classifier"]
    predict = ["predict", model, data]
    for command, message in [
        ([*train, data, "-o", data], "would replace"),
        ([*train, data, "-o", str(alias)], "would replace"),
        ([*train, data, "-o", str(tmp_path)], "is a directory"),
        ([*train, data, "-o", str(tmp_path / "no" / "m.npz")], "no directory"),
        ([*train, data, "-o", str(tmp_path / "m"), "--json", data], "--json .* would replace"),
        ([*train, data, "-o", str(tmp_path / "m"), "--json", str(tmp_path / "m")], "are one file"),
        ([*train, data, "--dev", model, "-o", str(hard)], "would replace"),
        ([*predict, "-o", model], "would replace"),
        ([*predict, "-o", data], "would replace"),
        (["prune", model, "--keep", "1", "-o", model], "would replace"),
        (["evaluate", model, data, "--json", model], "would replace"),
    ]:
        assert main(command) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert re.search(message, line), line
    assert before == ((rows / "rows.svm").read_bytes(), (rows / "model.npz").read_bytes())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alias", "hard"]


def unread_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    ("opened", "code", "said"),
    [
        (unread_pipe, 141, ""),
        (
            lambda: os.open("/dev/full", os.O_WRONLY),
            2,
            "omkl: error: standard output: No space left on device.\n",
        ),
    ],
    ids=["nobody reads", "full"],
)
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_standard_output_that_takes_nothing(opened, code, said, command, rows, monkeypatch, capsys):
    with os.fdopen(opened(), "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main([command, str(rows / "model.npz"), str(rows / "rows.svm")]) == code
        out.flush()  # as the interpreter does when it ends
        assert capsys.readouterr().err == said


def test_a_terminal_without_letters(rows, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, "ascii"))
    run("inspect", rows / "model.npz")
    assert b"OnlineMKLClassifier: 2 labels" in written.getvalue()


def test_a_terminated_command_leaves_no_file(rows, tmp_path, monkeypatch, capsys):
    """An interrupted prediction keeps the old file and leaves no temporary one."""
    out = tmp_path / "labels"
    out.write_text("old")

    def terminated(self, X):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("omkl.OnlineMKLClassifier.predict", terminated)
    assert main(["predict", str(rows / "model.npz"), str(rows / "rows.svm"), "-o", str(out)]) == 143
    assert "omkl: terminated; no output file was changed." in capsys.readouterr().err
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_no_model_without_a_fit():
    with pytest.raises(NotFittedError, match="call fit first"):
        omkl.OnlineMKLClassifier().save("nowhere/x")
    for call in (
        lambda: omkl.OnlineMKLClassifier().top_features(),
        lambda: omkl.DependencyParser().prune(1),
        lambda: omkl.SequenceLabeler().score([["a"]], [["D"]]),
        lambda: omkl.SequenceLabeler().memory_usage(),
        lambda: omkl.SequenceLabeler().calibrate([["a"]], [["D"]]),
    ):
        with pytest.raises(NotFittedError, match="call fit first"):
            call()
    assert not hasattr(omkl.SequenceLabeler(), "model_")
    fitted = omkl.OnlineMKLClassifier(["linear"], epochs=1).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(
        OutputFileError, match="nosuch/x cannot be written: there is no directory nosuch"
    ):
        fitted.save("nosuch/x")
