"""Pictures of training and cross-validation show the numbers of their records."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import omkl
from omkl.data.treebank.synthetic import INFORMATIVE
from omkl.exceptions import InputError
from omkl.reports import plot_curves, plot_gap, plot_history, plot_pruning, plot_search, pruning_curve
from omkl.reports.plots.canvas import STYLES, style
from omkl.reports.plots.end_labels import EndLabels

matplotlib = pytest.importorskip("matplotlib")
X, y = load_iris(return_X_y=True)
KERNELS = ["linear", "gaussian"]
USELESS = ("h.form m.form direction", "h.form m.feats", "m.form distance")


@pytest.fixture(scope="module")
def treebank():
    return omkl.data.synthetic_treebank(160, vocabulary=10, random_state=0)


@pytest.fixture(scope="module")
def parser(treebank):
    settings = {"epochs": 2, "memory": 60, "labeled": False, "random_state": 0, "verbose": False}
    return omkl.DependencyParser(templates=INFORMATIVE + USELESS, **settings).fit(treebank[:100])


def names_of(ax):
    return [text.get_text() for own in ax.findobj(EndLabels) for text in own.texts]


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
    with pytest.raises(InputError, match=r"'score'.*loss"):
        plot_history(runs["mkl"], "score")


def test_the_gap_of_each_problem_against_time_and_iterations():
    single = omkl.MKLRegressor(KERNELS, tol=1e-3).fit(X, y)
    for along in ("seconds", "iteration"):
        ax = plot_gap(single, along=along)
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [record["gap"] for record in single.history_])
        np.testing.assert_allclose(ax.lines[0].get_xdata(), [record[along] for record in single.history_])
        assert ax.get_yscale() == "log"
        assert list(ax.lines[1].get_ydata()) == [1e-3, 1e-3]
    several = omkl.SparseLogisticRegression(0.01, multiclass="ovr").fit(X, y)
    assert names_of(plot_gap(several)) == ["problem 0", "problem 1", "problem 2"]
    assert plot_history(single).get_ylabel() == "primal objective"
    for bad in ([{"epoch": 1, "loss": 1.0}], {}, 3):
        with pytest.raises(InputError):
            plot_gap(bad)
    with pytest.raises(InputError, match="along"):
        plot_gap(single, along="hours")


def test_scores_along_a_search():
    data = load_diabetes()
    design = omkl.GroupLassoCV(5, cv=3).fit(data.data, data.target)
    kernels = omkl.MKLClassifierCV(KERNELS, Cs=[0.1, 1.0, 10.0], cv=3).fit(X, y)
    for model, values, chosen in ((design, design.alphas_, design.alpha_), (kernels, kernels.Cs_, kernels.C_)):
        ax = plot_search(model)
        for line, fold in zip(ax.lines, model.scores_):
            np.testing.assert_allclose(line.get_ydata(), fold)
        np.testing.assert_allclose(ax.lines[3].get_ydata(), model.scores_.mean(axis=0))
        assert ax.get_xlim() == (values[0], values[-1])  # closer fits are on the right
        assert ax.lines[4].get_xdata()[0] == chosen
    with pytest.raises(InputError, match="cross-validation"):
        plot_search(omkl.GroupLasso())


def test_a_pruning_curve_is_that_of_pruned_parsers(parser, treebank):
    gold = treebank[100:]
    records = pruning_curve(parser, gold, sizes=[1, 3, len(parser.templates_)])
    for record in records:
        smaller = parser.prune(record["templates"])
        assert record["score"] == pytest.approx(smaller.evaluate(gold)["uas"])
    right = [np.equal(a.heads, b.heads) for a, b in zip(parser.parse(gold), gold)]
    rng = np.random.default_rng(0)
    drawn = [np.concatenate([right[k] for k in rng.integers(0, len(right), len(right))]).mean() for _ in range(2000)]
    assert records[-1]["standard_error"] == pytest.approx(np.std(drawn), rel=0.1)  # beside the bootstrap
    ax = plot_pruning({"weights": records, "norms": pruning_curve(parser, gold, [2, 4], by="norms")})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [100 * record["score"] for record in records])
    assert names_of(ax) == ["weights", "norms"]
    assert plot_pruning(pruning_curve(parser, gold)).get_xlabel() == "templates"
    for bad in ([], [{"a": 1}], {"x": []}, [3]):
        with pytest.raises(InputError):
            plot_pruning(bad)
    with pytest.raises(InputError, match="no templates"):
        pruning_curve(omkl.GroupLasso(), gold)


def test_more_curves_than_looks_are_grey():
    assert len({str(style(k)) for k in range(STYLES)}) == STYLES == 15
    ax = plot_curves({f"run {k}": ([0, 1], [k, k]) for k in range(20)})
    assert len(names_of(ax)) == 15
    assert len({line.get_color() for line in ax.lines[15:]}) == 1
    with pytest.raises(InputError):
        plot_curves({})
