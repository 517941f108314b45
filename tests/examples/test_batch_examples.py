"""The examples of batch MKL run at tiny sizes, and write finite figures that agree with theory."""

import json

import pytest

from .running import run_example


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
