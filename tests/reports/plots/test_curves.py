"""Pictures of training and cross-validation show the numbers of their records."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import omkl
from omkl.exceptions import InputError
from omkl.reports import plot_curves, plot_history, plot_panels, plot_search
from omkl.reports.plots.canvas import STYLES, style

pytest.importorskip("matplotlib")
X, y = load_iris(return_X_y=True)
KERNELS = ["linear", "gaussian"]


def names_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def test_losses_of_one_run_and_of_several():
    runs = {
        name: omkl.OnlineMKLClassifier(KERNELS, regularizer=name, epochs=3, random_state=0).fit(X, y)
        for name in ("mkl", "l2")
    }
    ax = plot_history(runs)
    assert names_of(ax) == ["mkl", "l2"]
    for line, run in zip(ax.lines, runs.values()):
        np.testing.assert_allclose(line.get_ydata(), [record["loss"] for record in run.history_])
    ax = plot_history(runs["mkl"].history_, "objective")
    assert (ax.get_xlabel(), ax.get_ylabel(), names_of(ax)) == ("epoch", "objective", [])


def test_the_gap_of_each_problem_against_time_and_iterations():
    single = omkl.MKLRegressor(KERNELS, tol=1e-3).fit(X, y)
    for along in (None, "iteration"):
        ax = plot_history(single, "gap", along)
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [record["gap"] for record in single.history_])
        np.testing.assert_allclose(ax.lines[0].get_xdata(), [record[ax.get_xlabel()] for record in single.history_])
        assert ax.get_yscale() == "log"
    several = omkl.SparseLogisticRegression(0.01, multiclass="ovr").fit(X, y)
    assert names_of(plot_history(several, "gap")) == ["problem 0", "problem 1", "problem 2"]
    assert plot_history(single).get_ylabel() == "primal objective"
    assert plot_history([{"loss": 1.0}, {"loss": 0.5}]).get_xlabel() == "record"


@pytest.mark.parametrize(
    ("source", "of", "along"),
    [
        ({}, None, None),
        (3, None, None),
        ([], None, None),
        ([{"loss": 1.0}], "gap", None),
        ([{"loss": 1}], None, "hour"),
    ],
)
def test_missing_records_are_refused(source, of, along):
    with pytest.raises(InputError):
        plot_history(source, of, along)


def test_scores_along_a_search():
    data = load_diabetes()
    design = omkl.GroupLassoCV(5, cv=3).fit(data.data, data.target)
    kernels = omkl.MKLClassifierCV(KERNELS, Cs=[0.1, 1.0], cv=3).fit(X, y)
    for model, values, chosen in ((design, design.alphas_, design.alpha_), (kernels, kernels.Cs_, kernels.C_)):
        ax = plot_search(model)
        for line, fold in zip(ax.lines, model.scores_):
            np.testing.assert_allclose(line.get_ydata(), fold)
        np.testing.assert_allclose(ax.lines[3].get_ydata(), model.scores_.mean(axis=0))
        assert ax.get_xlim() == (values[0], values[-1])  # the penalty gets weaker
        assert ax.lines[4].get_xdata()[0] == chosen


def test_curves_and_panels(tmp_path):
    assert len({str(style(k)) for k in range(STYLES)}) == STYLES == 15
    lines = {f"run {k}": ([0, 1], [k, k]) for k in range(20)}
    ax = plot_curves({**lines, "band": ([0, 1], [1, 2], [0, 1], [2, 3])}, tmp_path / "a.png", log="x")
    assert ax.get_xscale() == "log"
    assert len({line.get_color() for line in ax.lines[15:]}) == 1
    with pytest.raises(InputError):
        plot_curves({})
    figure = plot_panels([[{"curves": lines, "title": "a"}, {"curves": {"run 3": lines["run 3"]}}]], tmp_path / "b.png")
    assert figure.axes[0].lines[3].get_color() == figure.axes[1].lines[0].get_color()
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "b.png"}
