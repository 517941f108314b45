"""The examples run at small sizes, and write finite figures that agree with theory."""

import json

import pytest

from omkl.data import Treebank, synthetic_treebank, write_treebank
from omkl.online import values_of

from .running import load_example, run_example, table_of


@pytest.fixture
def figures_of(tmp_path):
    """A function that runs an example, and returns the JSON file that it writes."""

    def run(name, *options):
        printed = run_example(name, tmp_path, *options, "-o", str(tmp_path))
        assert (tmp_path / f"{name}.png").exists() or "No figure" in printed
        return json.loads((tmp_path / f"{name}.json").read_text())

    return run


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
        "spicymkl_scaling", "--data", "ringnorm", "--methods", "spicy-hinge", "elastic-logistic", "--repetitions", "2",
        "--kernels", "5", "20", "--few-samples", "40", "--samples", "40", "80", "--few-kernels", "5",
    )  # fmt: skip
    assert len(figures["rows"]) == 2 * 4 * 2
    assert all(row["end"] == "" and row["cpu"] > 0 for row in figures["rows"])
    assert all(min(row["peaks"]) >= 1.0 for row in figures["peak_memory"])


def test_gaps_fall_with_time(figures_of, real_data):
    real_data("uci/sonar.csv.gz")
    methods = ("spicy-logistic", "hessian")
    traces = figures_of("duality_gap", "--C", "2", "--tol", "0.001", "--methods", *methods)["traces"]
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
    found = load_example("in_scikit_learn").main()
    assert found["columns_of_many_kinds"] > 0.9
    assert found["a_table_as_it_is"] > 0.9
    assert set(found["a_grid_search"]) == {"mklclassifier__C", "mklclassifier__regularizer"}
    assert max(found["probabilities_of_a_hinge"]) < 0.08
    assert max(found["what_matters"], key=found["what_matters"].get).startswith("petal")
    assert found["the_learned_kernel_elsewhere"] > 0.95
    assert found["several_outputs"] == ((20, 3), (100, 5))
    assert found["frames_that_come_in_parts"] > 0.85
    assert len(capsys.readouterr().out.splitlines()) == len(found)


def test_combinations_find_the_one_kernel_and_cannot_add_up_several(tmp_path):
    printed = run_example("online_opponents", tmp_path, "--examples", "1500", "--streams", "sum", "one of ten")
    records = json.loads((tmp_path / "online_opponents.json").read_text())["records"]
    assert all(record["method"] in printed for record in records)
    error = {(record["stream"], record["method"]): record["error"] for record in records}
    assert error["sum", "MKL"] < min(error["sum", method] for method in ("Hedge", "OMKC", "Raker", "AdaRaker"))
    assert max(error["one of ten", method] for method in ("Hedge", "OMKC", "Raker")) < 0.35


@pytest.mark.parametrize("options", [[], ["--budget", "100"]])
def test_the_weights_follow_the_drift(options, tmp_path):
    pytest.importorskip("matplotlib")
    run_example("stream_mkl", tmp_path, "--examples", "8000", "--quiet", *options)
    found = json.loads((tmp_path / "stream_mkl.json").read_text())
    for model in found["models"]:
        weights = [values_of(record, "weight") for record in model["records"]]
        assert max(weights[len(weights) // 2 - 1], key=weights[len(weights) // 2 - 1].get) == "vector 1"
        assert weights[-1]["vector 2"] > weights[-1]["vector 3"]
    assert (tmp_path / "stream_mkl.png").stat().st_size > 10_000


def test_useless_columns_stand_beside_what_is_there():
    example = load_example("templates")
    treebank = synthetic_treebank(20)
    hidden = example.with_useless_columns(treebank, seed=1)
    for own, beside in zip(treebank, hidden):
        assert (own.forms, own.xpos, own.heads) == (beside.forms, beside.xpos, beside.heads)
        for feats, columns in zip(own.feats, beside.feats):
            whole, *attributes = columns.split("|")
            assert whole == f"Whole={feats}".replace("|", ",")
            assert "|".join(attributes[: -len(example.JUNK)]) == feats
            assert [attribute.partition("=")[0] for attribute in attributes[-len(example.JUNK) :]] == list(example.JUNK)
    others = example.useless_values(treebank, seed=2)
    assert example.useless_values(treebank, seed=1) != others
    numbers = [columns["Word"] for words in others for columns in words]
    assert len(set(numbers)) == treebank.n_words


def test_no_useless_template_and_no_useless_key_is_left(tmp_path):
    sentences = list(synthetic_treebank(150))
    for sentence in sentences:  # forms that tell a tagger something
        sentence.forms = [form + tag.lower() for form, tag in zip(sentence.forms, sentence.upos)]
    treebank = Treebank.from_sentences(sentences)
    for name, part in (("train", treebank[:110]), ("test", treebank[110:])):
        write_treebank(tmp_path / f"{name}.conllu", part)
    options = ["--templates", "small", "--sentences", "100", "--seeds", "0", "--keep", "10", "--epochs", "3", "-o", "."]
    printed = run_example("templates", tmp_path, "train.conllu", "test.conllu", *options)
    assert (tmp_path / "templates.png").exists() or "No figure" in printed
    rows = {row["method"]: row for row in table_of(tmp_path / "templates.csv")}
    assert all(name in printed for name in rows)
    assert rows["l2"]["useless alive"] == rows["mkl by norms"]["useless alive"] == "100"
    for name in ("mkl", "l2, survivors", "mkl, pruned", "mkl tagger + junk"):
        assert rows[name]["useless alive"] == "0"
        assert int(rows[name]["useful alive"]) > 0
    assert float(rows["mkl"]["score"]) > float(rows["l2"]["score"])
