"""Classifiers and regressors on the command line: the same model as in Python, from every format of
rows.
"""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_diabetes, load_iris
from sklearn.metrics import r2_score

import omkl
from omkl.cli import main
from omkl.cli.train import Interruption

from ..commands import read_json, run


@pytest.fixture(scope="module")
def tables():
    X, y = load_iris(return_X_y=True)
    Z, t = load_diabetes(return_X_y=True)
    # decimals that every format holds exactly
    return {"classifier": (X, y), "regressor": ((Z[:150] / Z.std(axis=0)).round(3), t[:150])}


def write(path, X, y):
    """Write a file in the format of its suffix; return the arguments that name the outputs."""
    if path.suffix == ".svm":
        dump_svmlight_file(X, y, str(path))
        return ["--zero-based"]
    if path.suffix == ".npz":
        np.savez(path, X=X, y=y)
        return []
    header = ",".join(["out", *(f"x{j}" for j in range(X.shape[1]))])
    np.savetxt(
        path,
        np.column_stack([y, X]),
        "%.17g",
        ",",
        header=header,
        comments="",
    )
    return ["--target", "out"]


def column_of(records, name):
    return [record[name] for record in records]


KINDS = {"classifier": omkl.OnlineMKLClassifier, "regressor": omkl.OnlineMKLRegressor}
KERNELS = ["linear", "linear:on=0:2"]


@pytest.mark.parametrize("suffix", [".svm", ".npz", ".csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_train_predict_evaluate_and_inspect(kind, suffix, tables, tmp_path, capsys):
    X, y = tables[kind]
    data = tmp_path / f"data{suffix}"
    model = tmp_path / "m.npz"
    report = tmp_path / "report.json"
    target = write(data, X, y)
    options = ["--epochs", "3", "--random-state", "0", "--dev", data, "--json", report]
    run("train", kind, data, "-o", model, *target, *options, "--kernels", *KERNELS)
    trained = read_json(report)
    assert trained["examples"] == 150
    assert trained["epochs"] == 3

    if suffix == ".svm":
        X = sparse.csr_array(X)
    ours = KINDS[kind](KERNELS, epochs=3, random_state=0).fit(X, y)
    assert trained["kernel_weights"] == pytest.approx(ours.kernel_weights_)

    output = tmp_path / "out.txt"
    run("predict", model, data, "-o", output, *target)
    assert_allclose(np.array(output.read_text().split(), dtype=float), ours.predict(X))

    run("evaluate", model, data, *target, "--json", report)
    check_scores(read_json(report), trained["dev"], ours, X, y)

    run("inspect", model, "--data", data, *target, "--json", report)
    check_group_report(read_json(report)["group_report"], ours.group_report(X, y))
    assert "std. error" in capsys.readouterr().out

    run("inspect", model, "--top", "2", "--json", report)
    assert len(read_json(report)["top_features"]) == 2
    assert "linear:on=0:2" in capsys.readouterr().out


def check_scores(scores, scores_in_training, ours, X, y):
    predicted = ours.predict(X)
    if isinstance(ours, omkl.OnlineMKLClassifier):
        assert scores["accuracy"] == scores_in_training["accuracy"]
        assert scores["accuracy"] == pytest.approx(ours.score(X, y))
        assert sum(times for _, _, times in scores["confusions"]) == np.sum(predicted != y)
        assert sum(row["gold"] for row in scores["labels"]) == len(y)
    else:
        assert scores["r2"] == scores_in_training["r2"] == pytest.approx(r2_score(y, predicted))
        assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - predicted) ** 2)))


def check_group_report(records, expected):
    groups = [*KERNELS, "intercept"]
    assert column_of(records, "group") == column_of(expected, "group") == groups
    for name in ("norm", "loss_increase", "standard_error"):
        assert_allclose(
            column_of(records, name),
            column_of(expected, name),
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_a_stream_is_partial_fit_on_its_shuffled_blocks(kind, tables, tmp_path):
    X, y = tables[kind]
    data = tmp_path / "data.svm"
    model = tmp_path / "model.npz"
    zero_based = write(data, X, y)
    arguments = [
        *zero_based,
        "--stream",
        "--epochs",
        "3",
        "--weighting",
        "norms",
        "--random-state",
        "0",
        "--quiet",
    ]
    run("train", kind, data, "-o", model, *arguments)
    stream = omkl.data.open_stream(data, zero_based=True).shuffled(random_state=0)
    ours = type(omkl.load(model))(
        random_state=0, epochs=omkl.Passes(3, n_examples=150), weighting="norms"
    )
    for epoch in range(3):
        for rows, outputs in stream.blocks(epoch):
            ours.partial_fit(rows, outputs.astype(int))
    assert_array_equal(omkl.load(model).predict(X), ours.predict(X))


@pytest.mark.parametrize("kind", [omkl.OnlineMKLClassifier, omkl.MKLClassifier])
def test_confidence_is_the_probability_of_the_class(kind, tables, tmp_path):
    X, y = tables["classifier"]
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = kind(["linear"], loss="crf" if kind is omkl.OnlineMKLClassifier else "logistic").fit(
        X, names
    )
    model.save(tmp_path / "m.npz")
    write(tmp_path / "x.npz", X, y)
    predict = [
        "predict",
        tmp_path / "m.npz",
        tmp_path / "x.npz",
        "--confidence",
        "--quiet",
        "-o",
    ]
    for output in ("o.txt", "o.jsonl"):
        run(*predict, tmp_path / output)
    records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    expected = model.predict_proba(X).max(axis=1)
    assert_allclose([record["confidence"] for record in records], expected, atol=5.1e-4)
    assert [record["y"] for record in records] == model.predict(X).tolist()
    lines = (tmp_path / "o.txt").read_text().splitlines()
    assert lines == [f"{record['y']}\t{record['confidence']:.3f}" for record in records]


def test_columns_of_strings_are_groups(tmp_path):
    data, model, output = (tmp_path / name for name in ("data.csv", "model.npz", "out.jsonl"))
    data.write_text(
        "colour,size,kind\n" + "red,1,cherry\ngreen,8,melon\nred,2,cherry\ngreen,9,melon\n" * 5
    )
    run("train", "classifier", data, "-o", model, "--quiet")
    kernels = {"linear", "quadratic", "gaussian", "narrow gaussian", "quadratic:ranges"}
    assert set(omkl.load(model).kernel_weights_) == kernels | {"colour"}
    unlabelled = tmp_path / "new.csv"
    unlabelled.write_text("colour,size\nred,1\ngreen,7\n")
    run("predict", model, unlabelled, "-o", output, "--quiet")
    assert [json.loads(line)["y"] for line in output.read_text().splitlines()] == [
        "cherry",
        "melon",
    ]


def test_text_columns_stay_text(tmp_path):
    data, new, model, out = (
        tmp_path / name for name in ("data.csv", "new.csv", "model.npz", "out.jsonl")
    )
    rows = [(f"{k % 9:02d}", k, "high" if k % 9 > 4 else "low") for k in range(90)]
    data.write_text("zip,size,y\n" + "".join(f"{code},{size},{y}\n" for code, size, y in rows))
    new.write_text("zip,size\n02,1\n07,1\n")
    train = ["train", "classifier", data, "-o", model, "--quiet", "--dev", data]
    for early in ([], ["--early-stopping"]):
        run(*train, "--categorical", "zip", *early)
        assert omkl.load(model).model_.codec.encoder.vocabulary.is_text("zip")
        run("predict", model, new, "-o", out, "--quiet")
        assert [json.loads(line)["y"] for line in out.read_text().splitlines()] == ["low", "high"]


def test_the_same_command_gives_the_same_model(tmp_path, rng):
    data, model, out = (tmp_path / name for name in ("data.csv", "model.npz", "out.jsonl"))
    data.write_text(
        "x,y\n" + "".join(f"{x},{int(x + e > 0)}\n" for x, e in rng.normal(size=(60, 2)))
    )
    seen = []
    for _ in range(2):  # the held-out tenth and the order are drawn
        run("train", "classifier", data, "-o", model, "--quiet", "--early-stopping")
        run("predict", model, data, "-o", out, "--quiet", "--confidence")
        seen.append(out.read_text())
    assert seen[0] == seen[1]


def test_a_table_may_have_no_header(tmp_path):
    data = tmp_path / "data.csv"
    model = tmp_path / "model.npz"
    data.write_text("1,a\n-1,b\n2,a\n-2,b\n")
    for option, n_examples in (([], 3), (["--no-header"], 4)):
        report = tmp_path / "report.json"
        arguments = ["--kernels", "linear", "--json", report, "--quiet", *option]
        run("train", "classifier", data, "-o", model, *arguments)
        assert read_json(report)["examples"] == n_examples


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.svm", "1 1:2\nnonsense\n", "line 2"),
        ("a.conllu", "", "holds no rows"),
        ("a.svm", "0.5 1:1\n1.25 1:2\n", "Unknown label type"),
        ("missing.svm", None, "missing.svm"),
        ("a.csv", "a,b,\n1,2,\n2,3,\n", "the last column has no name"),
    ],
)
def test_bad_files_are_named_in_a_sentence(name, content, expected, tmp_path, refused):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    for message in (expected, name):
        refused(["train", "classifier", path, "-o", tmp_path / "model.npz"], message)
    assert not (tmp_path / "model.npz").exists()


def test_models_of_the_batch_side_are_inspected_too(tables, tmp_path, capsys):
    X, y = tables["classifier"]
    omkl.MKLClassifier(["linear", "gaussian"]).fit(X, y == 0).save(tmp_path / "mkl.npz")
    omkl.GroupLasso(0.001, groups=[[0, 1], [2, 3]]).fit(X, y * 1.0).save(tmp_path / "lasso.npz")
    for name, shown in (("mkl", "gaussian"), ("lasso", "4 columns")):
        run("inspect", tmp_path / f"{name}.npz")
        printed = capsys.readouterr().out
        assert "relative duality gap" in printed
        assert shown in printed


@pytest.mark.parametrize("kind", [omkl.MKLClassifier, omkl.OnlineMKLClassifier])
def test_scales_of_columns_are_inspected(kind, tables, tmp_path, capsys):
    X, y = tables["classifier"]
    model = kind().fit(1e3 * X, y)
    model.save(tmp_path / "model.npz")
    run("inspect", tmp_path / "model.npz", "--groups", "3", "--json", tmp_path / "m.json")
    scales = read_json(tmp_path / "m.json")["column_scales"]
    assert_allclose(
        list(scales.values()), np.transpose([1e3 * X.mean(axis=0), 1e3 * X.std(axis=0)])
    )
    printed = capsys.readouterr().out.partition("Scales of the columns")[2].splitlines()
    first = next(iter(scales))
    assert printed[1].split() == ["column", "mean", "deviation"]
    assert printed[3].split() == [*first.split(), "5843", "825.3"]
    assert printed[6] == "and 1 more; --groups N shows N of them."


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_columns_are_found_by_their_names(tmp_path, stream, rng):
    """A model predicts the same when columns are reordered, and names missing columns."""
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(int)
    files = {"same": "abcy", "turned": "cybxa", "short": "aby"}
    for name, columns in files.items():
        values = dict(zip("abcyx", [*X.T, y, y]))
        rows = zip(*(values[column].tolist() for column in columns))
        (tmp_path / f"{name}.csv").write_text(
            "\n".join(",".join(map(str, row)) for row in [columns, *rows])
        )
    model = str(tmp_path / "m.npz")
    target = ["--target", "y", "--quiet"]
    training = ["-o", model, "--epochs", "9", "--random-state", "0", *target, *stream]
    run("train", "classifier", tmp_path / "same.csv", *training)
    for name in ("same", "turned"):
        report = tmp_path / f"{name}.json"
        run(
            "evaluate",
            model,
            tmp_path / f"{name}.csv",
            "--json",
            report,
            *target,
        )
    assert (tmp_path / "same.json").read_text() == (tmp_path / "turned.json").read_text()
    assert read_json(tmp_path / "same.json")["accuracy"] > 0.9
    assert main(["evaluate", model, str(tmp_path / "short.csv"), *target]) == 2


class Watcher:
    """Callback that notes the rounds of each step, and presses Ctrl-C after ``last`` rounds."""

    reads_costs = False

    def __init__(self, last):
        self.last = last
        self.sizes = []

    def room(self):
        return 1000

    def on_round(self, trainer, step):
        self.sizes.append(step.n_examples)
        if trainer.round == self.last:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("kind", [omkl.OnlineMKLRegressor, omkl.SequenceLabeler])
def test_the_callback_for_ctrl_c_goes_with_compiled_passes(kind, rng):
    """The command line trains in compiled passes, and Ctrl-C ends them."""
    X = rng.normal(size=(400, 3))
    y = rng.normal(size=400)
    if kind is omkl.SequenceLabeler:
        X = [[["a"], ["b"]]] * 400
        y = [["A", "B"]] * 400
    interruption = Interruption()
    watcher = Watcher(last=200)
    model = kind(epochs=5, callbacks=[interruption, watcher], random_state=0).fit(X, y)
    assert interruption.happened
    assert max(watcher.sizes) == 100
    assert sum(watcher.sizes) == 300
    assert model.n_iter_ == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


#: Learns from a table by the library, as a user's script does.
SCRIPT = """
import sys
import numpy as np
import omkl
table = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1)
model = omkl.OnlineMKLClassifier(["linear"], random_state=0)
model.partial_fit(table[:, 1:], table[:, 0].astype(int))
print(model.history_[-1]["changes"])
"""


@pytest.mark.slow
def test_commands_print_changes_of_a_stream_and_the_library_does_not(tmp_path, rng):
    X = rng.normal(size=(4000, 2))
    y = np.where(np.arange(4000) < 2000, X[:, 0], -X[:, 0]) > 0
    options = write(tmp_path / "rows.csv", X, y.astype(int))
    command = ["-m", "omkl", "train", "classifier", "rows.csv", *options, "--stream"]
    command += ["--epochs", "1", "--kernels", "linear", "--output", "model.npz"]
    settings = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    printed = subprocess.run([sys.executable, *command], **settings)
    assert "The averaged model lags behind the stream at row 2" in printed.stderr
    assert "1 epoch in" in printed.stdout
    script = subprocess.run([sys.executable, "-c", SCRIPT, "rows.csv"], **settings)
    assert script.stdout.startswith("[2")
    assert not script.stderr
