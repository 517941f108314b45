"""Pictures of training, cross-validation, calibration, confusions and handwriting show the numbers of their records."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.metrics import confusion_matrix

import omkl
from omkl.exceptions import InputError
from omkl.reports import (
    plot_calibration,
    plot_confusion,
    plot_curves,
    plot_history,
    plot_panels,
    plot_search,
    plot_word,
)
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


pytest.importorskip("matplotlib")


def test_calibration_of_tables_and_sequences():
    rng = np.random.default_rng(0)
    tables = [rng.dirichlet(np.ones(3), n) for n in (40, 10, 70)]
    gold = [list(rng.choice(["a", "b", "c"], len(own))) for own in tables]
    flat, labels = np.concatenate(tables), np.concatenate(gold)
    right = np.array(["a", "b", "c"])[flat.argmax(axis=1)] == labels
    expected = calibration_curve(right, flat.max(axis=1), n_bins=8, strategy="quantile")
    for arguments in ((gold, tables, list("abc")), (labels, flat, list("abc")), (right, flat.max(axis=1))):
        line = plot_calibration(*arguments, bins=8).lines[1]
        np.testing.assert_allclose([line.get_ydata(), line.get_xdata()], expected)


def test_confusions_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    gold, found = rng.choice(list("dcba"), (2, 200))
    ax = plot_confusion([gold[:50], gold[50:]], [found[:50], found[50:]])
    assert [label.get_text() for label in ax.get_yticklabels()] == list("abcd")
    written = np.array([int(text.get_text()) for text in ax.texts]).reshape(4, 4)
    np.testing.assert_array_equal(written, confusion_matrix(gold, found, labels=list("abcd")))
    shares = confusion_matrix(gold, found, labels=list("abcd"), normalize="true")
    np.testing.assert_allclose(ax.images[0].get_array(), shares)


def test_of_many_labels_the_most_confused_are_shown():
    gold = [f"label {k}" for k in range(300) for _ in range(3)]
    found = [f"label {(k + (k < 20)) % 300}" for k in range(300) for _ in range(3)]
    ax = plot_confusion(gold, found, n=21)
    assert {label.get_text() for label in ax.get_yticklabels()} == {f"label {k}" for k in range(21)}
    for bad in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(InputError):
            plot_confusion(*bad)


def test_a_word_has_its_letters_below_it():
    images = load_digits().images[:5]
    ax = plot_word(images, [0, 1, 3, 3, 4], [0, 1, 2, 3, 4])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1", "3\n(2)", "3", "4"]
    drawn = ax.images[0].get_array()
    np.testing.assert_allclose(drawn[:, 9:17], images[1])
    np.testing.assert_array_equal(plot_word(images.reshape(5, 64), "abcde").images[0].get_array(), drawn)
    assert plot_word(np.ones((3, 128)), "abc").images[0].get_array().shape == (16, 27)
    with pytest.raises(InputError):
        plot_word(np.ones((3, 7)), "abc")
