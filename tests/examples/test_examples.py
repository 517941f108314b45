"""The examples run at small sizes, agree with theory and enumeration, and write finite figures."""

import csv
import importlib.util
import itertools
import re
import subprocess
import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl.data import Treebank, synthetic_treebank, write_treebank
from omkl.exceptions import MissingDependencyError
from omkl.online import values_of
from omkl.structures import UnaryPotentials

from ..commands import read_json

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(name, folder, *options):
    """Run an example in a folder, and return its output."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def table_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def figures_of(tmp_path):
    """A function that runs an example, and returns the JSON file that it writes to a new folder."""

    def run(name, *options):
        folder = tmp_path / "new" / "folder"
        printed = run_example(name, tmp_path, *options, "-o", str(folder))
        assert (folder / f"{name}.png").exists() or "No figure" in printed
        return read_json(folder / f"{name}.json")

    return run


#: The option that names the output of each example that writes one.
OUTPUTS = {}
for path in sorted(EXAMPLES.glob("*.py")):
    code = path.read_text(encoding="utf-8")
    for option in re.findall(r'add_argument\((?:"-o", )?"(--output|--json)"', code):
        OUTPUTS[path.stem] = option


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_that_cannot_be_written_are_refused_before_work(name, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(
        sys,
        "argv",
        [name, OUTPUTS[name], str(tmp_path / "file" / "folder")],
    )
    monkeypatch.syspath_prepend(EXAMPLES)  # some import others
    monkeypatch.setenv("OMKL_DATA", str(tmp_path))  # work would begin by looking for data
    with pytest.raises((NotADirectoryError, FileExistsError)):
        load_example(name).main()


def test_uci_methods_reach_the_gap_and_one_solution(figures_of, real_data):
    real_data("uci/sonar.csv.gz")
    options = ("--data", "sonar", "--C", "2", "--tol", "0.01", "--limit", "60")
    methods = ("spicy-logistic", "spicy-hinge", "elastic-logistic", "hessian")
    rows = figures_of("spicymkl_uci", *options, "--methods", *methods)["rows"]
    assert [row["method"] for row in rows] == list(methods)
    for row in rows:
        assert row["end"] == ""
        assert 0 <= row["gap"] <= 0.01
        assert row["accuracy"] > 60
        if row["excess"] is not None:
            assert -0.01 <= row["excess"] <= 2.0


def test_scaling_in_kernels_and_samples(figures_of, real_data):
    real_data("uci/ringnorm.csv.gz")
    figures = figures_of(
        "spicymkl_scaling", "--data", "ringnorm", "--methods", "spicy-hinge", "elastic-logistic",
        "--repetitions", "2", "--kernels", "5", "20", "--few-samples", "40",
        "--samples", "40", "80", "--few-kernels", "5",
    )  # fmt: skip
    assert len(figures["rows"]) == 2 * 4 * 2
    assert all(row["end"] == "" and row["cpu"] > 0 for row in figures["rows"])
    assert all(min(row["peaks"]) >= 1.0 for row in figures["peak_memory"])


def test_gaps_fall_with_time(figures_of, real_data):
    real_data("uci/sonar.csv.gz")
    methods = ("spicy-logistic", "hessian")
    options = ("--C", "2", "--tol", "0.001")
    traces = figures_of("duality_gap", *options, "--methods", *methods)["traces"]
    assert list(traces) == list(methods)
    for trace in traces.values():
        assert trace[-1]["gap"] <= 0.001 < trace[0]["gap"]
        seconds = [record["cpu"] for record in trace]
        assert seconds == sorted(seconds)


def test_online_approaches_the_batch_optimum(figures_of):
    figures = figures_of("online_meets_batch", "--samples", "80", "--epochs", "40")
    assert figures["gap"] <= 1e-6
    for method in ("fobos", "rda"):
        values = figures["suboptimality"][method]["1 / sqrt(t)"]
        assert min(values) >= -1e-6
        assert values[-1] < 0.1
        assert values[-1] < 0.2 * values[0]


def test_a_row_for_words_and_one_for_gold_tags(tmp_path):
    treebank = synthetic_treebank(60, vocabulary=10, random_state=0)
    write_treebank(tmp_path / "train.conllu", treebank[:45])
    write_treebank(tmp_path / "test.conllu", treebank[45:])
    options = ["--train", "train.conllu", "--test", "test.conllu", "--no-udpipe", "-o", "."]
    run_example("annotator", tmp_path, *options)
    words, gold_tags = table_of(tmp_path / "annotator.csv")
    assert float(gold_tags["upos"]) == float(gold_tags["lemmas"]) == 100.0
    assert 0.0 < float(words["uas"]) < 100.0
    assert 0.0 < float(words["upos"]) < 100.0


def test_every_story_ends_well(capsys):
    results = load_example("in_scikit_learn").main()
    assert results["columns_of_many_kinds"] > 0.9
    assert results["a_table_as_it_is"] > 0.9
    assert set(results["a_grid_search"]) == {"mklclassifier__C", "mklclassifier__regularizer"}
    assert max(results["probabilities_of_a_hinge"]) < 0.08
    assert max(results["what_matters"], key=results["what_matters"].get).startswith("petal")
    assert results["the_learned_kernel_elsewhere"] > 0.95
    assert results["several_outputs"] == ((20, 3), (100, 5))
    assert results["frames_that_come_in_parts"] > 0.85
    assert len(capsys.readouterr().out.splitlines()) == len(results)


def test_combinations_find_the_one_kernel_and_cannot_add_up_several(tmp_path):
    options = ["--examples", "1500", "--streams", "sum", "one of ten"]
    printed = run_example("online_opponents", tmp_path, *options)
    records = read_json(tmp_path / "online_opponents.json")["records"]
    assert all(record["method"] in printed for record in records)
    error = {(record["stream"], record["method"]): record["error"] for record in records}
    for method in ("Hedge", "OMKC", "Raker", "AdaRaker"):
        assert error["sum", "MKL"] < error["sum", method]
    assert max(error["one of ten", method] for method in ("Hedge", "OMKC", "Raker")) < 0.35


@pytest.mark.parametrize("options", [[], ["--budget", "100"]])
def test_the_weights_follow_the_drift(options, tmp_path):
    pytest.importorskip("matplotlib")
    run_example("stream_mkl", tmp_path, "--examples", "4800", "--quiet", *options)
    figures = read_json(tmp_path / "stream_mkl.json")
    for model in figures["models"]:
        weights = [values_of(record, "weight") for record in model["records"]]
        before_drift = weights[len(weights) // 2 - 1]
        assert max(before_drift, key=before_drift.get) == "vector 1"
        assert weights[-1]["vector 2"] > weights[-1]["vector 3"]
    assert (tmp_path / "stream_mkl.png").stat().st_size > 10_000


def test_useless_columns_stand_beside_what_is_there():
    example = load_example("templates")
    treebank = synthetic_treebank(20)
    hidden = example.with_useless_columns(treebank, seed=1)
    for sentence, changed in zip(treebank, hidden):
        assert sentence.forms == changed.forms
        assert sentence.xpos == changed.xpos
        assert sentence.heads == changed.heads
        for feats, columns in zip(sentence.feats, changed.feats):
            all_feats, *attributes = columns.split("|")
            useless = attributes[-len(example.JUNK) :]
            assert all_feats == f"Whole={feats}".replace("|", ",")
            assert "|".join(attributes[: -len(example.JUNK)]) == feats
            assert [entry.partition("=")[0] for entry in useless] == list(example.JUNK)
    values = example.useless_values(treebank, seed=2)
    assert example.useless_values(treebank, seed=1) != values
    numbers = {columns["Word"] for columns in itertools.chain.from_iterable(values)}
    assert len(numbers) == treebank.n_words


def test_no_useless_template_and_no_useless_key_is_left(tmp_path):
    sentences = list(synthetic_treebank(150))
    for sentence in sentences:
        # forms that tell a tagger something
        sentence.forms = [form + tag.lower() for form, tag in zip(sentence.forms, sentence.upos)]
    treebank = Treebank.from_sentences(sentences)
    write_treebank(tmp_path / "train.conllu", treebank[:110])
    write_treebank(tmp_path / "test.conllu", treebank[110:])
    options = ["--templates", "small", "--sentences", "100", "--seeds", "0", "--keep", "10"]
    options += ["--epochs", "3", "-o", "."]
    printed = run_example("templates", tmp_path, "train.conllu", "test.conllu", *options)
    assert (tmp_path / "templates.png").exists() or "No figure" in printed
    rows = {row["method"]: row for row in table_of(tmp_path / "templates.csv")}
    assert all(name in printed for name in rows)
    assert rows["l2"]["useless alive"] == rows["mkl by norms"]["useless alive"] == "100"
    for name in ("mkl", "l2, survivors", "mkl, pruned", "mkl tagger + junk"):
        assert rows[name]["useless alive"] == "0"
        assert int(rows[name]["useful alive"]) > 0
    assert float(rows["mkl"]["score"]) > float(rows["l2"]["score"])


WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


@pytest.fixture(scope="module")
def made_up():
    """Views of 120 digits that tell them, the one more than the other."""
    rng = np.random.default_rng(0)
    digits = np.repeat(np.arange(10), 12)
    views = {}
    for k, (name, width) in enumerate(WIDTHS.items()):
        centers = (1 + k / 5) * rng.standard_normal((10, width))
        views[name] = centers[digits] + rng.standard_normal((120, width))
    return views, digits


def test_easymkl_is_the_quadratic_program(made_up):
    example = load_example("views")
    split = example.Split(*made_up, n_train=50, n_useless=2, n_columns=3, seed=0)
    lambda_ = 0.3
    outputs, weights = example.easy(split.kernels, split.y, split.kernels_test, lambda_)
    expected = []
    margins = []
    for digit in range(10):
        signs = np.where(split.y == digit, 1.0, -1.0)

        def distribution(kernel, signs=signs):
            gamma = cp.Variable(50, nonneg=True)
            margin = cp.quad_form(cp.multiply(signs, gamma), cp.psd_wrap(kernel))
            classes = [cp.sum(gamma[signs > 0]) == 1, cp.sum(gamma[signs < 0]) == 1]
            objective = cp.Minimize((1 - lambda_) * margin + lambda_ * cp.sum_squares(gamma))
            cp.Problem(objective, classes).solve(solver=cp.CLARABEL)
            return signs * gamma.value

        gamma = distribution(split.kernels.mean(axis=0))
        shares = np.einsum("i,mij,j->m", gamma, split.kernels, gamma)
        expected.append(shares / shares.sum())
        gamma = distribution(np.tensordot(expected[-1], split.kernels, 1))
        margins.append((1 - lambda_) * np.tensordot(expected[-1], split.kernels_test, 1) @ gamma)
    assert_allclose(weights, np.mean(expected, axis=0), atol=1e-4)
    # biases differ by digit, outputs otherwise by nothing
    centred = outputs - outputs.mean(axis=0)
    assert_allclose(
        centred,
        np.array(margins).T - np.mean(margins, axis=1),
        atol=1e-3,
    )


def test_the_table_tells_views_from_noise(made_up, tmp_path):
    views, digits = made_up
    names = []
    for name, width in WIDTHS.items():
        names += [f"{name}{i}" for i in range(width)]
    header = ",".join([*names, "y"])
    numbers = np.column_stack([*views.values(), digits])
    path = tmp_path / "mfeat.csv"
    np.savetxt(path, numbers, "%.4f", delimiter=",", header=header, comments="")
    methods = [
        "SVC, all columns",
        "best view",
        "uniform",
        "EasyMKL",
        "mkl",
        "online, unseen",
        "batch, unseen",
        "told",
    ]
    options = ["--data", "mfeat.csv", "--train", "50", "--useless", "0", "3", "--splits", "1"]
    options += ["-o", "."]
    printed = run_example("views", tmp_path, *options, "--methods", *methods)
    assert (tmp_path / "views.png").exists() or "No figure" in printed
    rows = table_of(tmp_path / "views.csv")
    assert [row["method"] for row in rows] == methods + methods
    assert [row["useless"] for row in rows] == ["0"] * len(methods) + ["3"] * len(methods)
    assert all(float(row["accuracy"]) > 80 for row in rows)
    alive = {row["method"]: row["useless alive"] for row in rows if row["useless"] == "3"}
    assert alive["uniform"] == "3"
    assert alive["batch, unseen"] == alive["told"] == "0"


example = load_example("semi_markov")


def segmentations(n):
    """Every segmentation of n tokens."""
    for cuts in itertools.product([False, True], repeat=n - 1):
        stops = [t + 1 for t in range(n - 1) if cuts[t]] + [n]
        lengths = np.diff([0, *stops])
        if lengths.max() <= example.LONGEST:
            for labels in itertools.product(range(example.LABELS), repeat=len(stops)):
                yield np.column_stack([stops, lengths, labels])


def score(potentials, output):
    rows = (output[:, 0] - 1) * example.LONGEST + output[:, 1] - 1
    return sum(potentials.unary[row, label] for row, label in zip(rows, output[:, 2]))


def wrong_tokens(gold, output):
    return int(np.sum(np.repeat(gold[:, 2], gold[:, 1]) != np.repeat(output[:, 2], output[:, 1])))


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_decoding_with_and_without_costs_is_the_best_of_all_segmentations(n):
    rng = np.random.default_rng(n)
    structure = example.SemiMarkov()
    every = list(segmentations(n))
    for _ in range(5):
        potentials = UnaryPotentials(rng.normal(size=(n * example.LONGEST, example.LABELS)))
        gold = every[rng.integers(len(every))]
        decoded = structure.decode(potentials)
        best = max(score(potentials, y) for y in every)
        assert score(potentials, decoded) == pytest.approx(best)
        decoded = structure.loss_augmented(potentials, gold)
        best = max(score(potentials, y) + wrong_tokens(gold, y) for y in every)
        cost = wrong_tokens(gold, decoded)
        assert score(potentials, decoded) + cost == pytest.approx(best)
        assert structure.cost(gold, decoded) == cost
        difference, _ = structure.difference(potentials, decoded, gold)
        assert difference == pytest.approx(score(potentials, decoded) - score(potentials, gold))


def test_it_learns_which_groups_tell_the_segments_and_predicts_unseen_ones():
    model = example.segmenter(epochs=10).fit(*example.sentences(100, np.random.default_rng(0)))
    X, y = example.sentences(50, np.random.default_rng(1))
    tokens = sum(segments[-1, 0] for segments in y)
    assert -model.score(X, y) * len(X) < 0.15 * tokens
    weights = model.kernel_weights_
    assert weights["noise"] < 0.1
    code = (EXAMPLES / "semi_markov.py").read_text().split('"""', 2)[2]
    assert len(list(filter(None, code.splitlines()))) < 80


def test_pairs_of_arcs_help(tmp_path):
    informative = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
    treebank = synthetic_treebank(120, informative=informative, vocabulary=10, random_state=3)
    train = tmp_path / "train.conllu"
    test = tmp_path / "test.conllu"
    write_treebank(train, treebank[:90])
    write_treebank(test, treebank[90:])
    options = ["--seeds", "1", "-o", str(tmp_path)]
    run_example("parser_orders", tmp_path, str(train), str(test), *options)
    (row,) = read_json(tmp_path / "parser_orders.json")["rows"]
    assert row["uas"] > 30
    assert row["search_errors"] < 20


def test_likelihoods_need_a_larger_C_than_the_hinge(tmp_path, real_data):
    real_data("uci/sonar.csv.gz")
    run_example("default_c", tmp_path, "--sets", "sonar", "--seeds", "2", "--json", "c.json")
    rows = read_json(tmp_path / "c.json")["rows"]
    accuracies = {(row["loss"], row["C"]): row["accuracy"] for row in rows}
    assert len(accuracies) == 18
    assert accuracies["crf", 0.3] < accuracies["hinge", 0.3]
    assert accuracies["crf", 0.3] + 5 < accuracies["crf", 10.0] < 100


def test_snakes_follow_from_their_neighbours(figures_of, real_data):
    real_data("graphs/snakes.npz")
    options = ("--seeds", "1", "--epochs", "4", "--train", "60", "--test", "20")
    rows = figures_of("snakes", *options)["rows"]
    both_edges, direction, useless = rows
    assert both_edges["accuracy"] > direction["accuracy"] > 75
    assert useless["accuracy"] > 85
    assert useless["largest useless weight"] < 0.3


def test_edges_help_words_to_be_right_as_a_whole(tmp_path, real_data):
    for name in ("UD_Danish-DDT/da_ddt-ud-test", "UD_English-EWT/en_ewt-ud-test"):
        real_data(f"ud/{name}.conllu.gz")
    sizes = ("--sentences", "40", "--documents", "12", "--rows", "60", "--seeds", "1")
    printed = run_example("graph_tasks", tmp_path, *sizes, "-o", str(tmp_path))
    rows = read_json(tmp_path / "graph_tasks.json")["rows"]
    tasks = [row["model"].split(":")[0] for row in rows]
    assert tasks == ["words"] * 3 + ["documents"] * 2 + ["rows"] * 4
    assert all(row["model"] in printed and row["nodes"] > 60 for row in rows)
    assert [rows[i]["gain nodes"] for i in (0, 3, 5)] == [0.0, 0.0, 0.0]
    assert min(rows[1]["gain whole"], rows[2]["gain whole"]) > 1


def test_kernels_on_columns_are_as_good_as_a_support_vector_machine(tmp_path):
    options = ["--tables", "wine", "--splits", "1", "--methods", "elastic-net", "SVM"]
    options += ["--json", "columns.json"]
    run_example("column_kernels", tmp_path, *options)
    rows = read_json(tmp_path / "columns.json")["rows"]
    assert [row["noise"] for row in rows] == [False, False, True, True]
    assert [row["method"] for row in rows] == ["elastic-net", "SVM", "elastic-net", "SVM"]
    assert min(row["scores"][0] for row in rows) > 85.0


@pytest.mark.parametrize(
    ("method", "module", "package"),
    [("EBM", "interpret", "interpret-core"), ("pyGAM", "pygam", "pygam")],
)
def test_models_of_other_libraries_say_what_to_install(method, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    message = f"{method} needs another package: pip install {package}"
    with pytest.raises(MissingDependencyError, match=message):
        load_example("column_kernels").score("wine", 0, False, method, "gaussian")


@pytest.mark.parametrize("unit", ["output", "token"])
def test_halves_accept_more_for_larger_errors(unit, rng):
    example = load_example("guarantees")
    sure = rng.beta(4.0, 1.0, (800, 1))
    wrong = rng.random((800, 1)) > sure**0.2
    measured = example.measure(list(sure), list(wrong), 20, 0, unit)
    accepted, errors, broken = measured.mean(axis=0).T
    assert (np.diff(accepted) >= 0).all()
    assert accepted[-1] > 0.5
    assert (errors <= example.ERRORS).all()
    assert_array_equal(broken, (measured[:, :, 1] > example.ERRORS).mean(axis=0))
