"""Pictures of weights show the right numbers, and their texts do not overlap."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris

import omkl
from omkl.exceptions import InputError
from omkl.reports import plot_group_weights, plot_path, plot_weights, to_svg
from omkl.reports.plots.end_labels import EndLabels
from omkl.reports.plots.names import shortened

matplotlib = pytest.importorskip("matplotlib")
X, y = load_iris(return_X_y=True)
KERNELS = ["linear", "gaussian", "gaussian:sigma2=100"]


@pytest.fixture(scope="module")
def online():
    return omkl.OnlineMKLClassifier(KERNELS, epochs=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def batch():
    return omkl.MKLClassifier(KERNELS, C=10.0).fit(X, y)


def bars(ax):
    """Widths of bars by the name beside each."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    return dict(zip(names, (patch.get_width() for patch in ax.patches)))


def names_of(ax):
    return [text.get_text() for own in ax.findobj(EndLabels) for text in own.texts]


def long_history(p, n_epochs=20):
    weights = np.random.default_rng(0).dirichlet(np.full(p, 0.2), n_epochs)
    names = [f"gaussian kernel of width {k / 7:.3f} on all pixels of the letter" for k in range(p)]
    return [{"epoch": t, **{f"weight:{n}": w for n, w in zip(names, row)}} for t, row in enumerate(weights, 1)]


def test_groups_that_were_never_heavy_have_no_curve_beside_others():
    history = [{"epoch": t, "weight:a": 0.5, "weight:b": 0.5 - t / 10, "weight:c": 0.0} for t in range(5)]
    for record in history:
        record |= {f"weight:faint {k}": 0.001 * (4 - record["epoch"]) for k in range(20)}
    assert set(names_of(plot_group_weights(history))) == {"a", "b", "21 others"}


def test_weights_that_are_alike_are_written_with_as_many_digits_as_tell_them_apart():
    weights = {f"template {k}": 0.004 - k / 20_000 for k in range(10)}
    weights["distance"] = 1.0 - sum(weights.values())
    written = [text.get_text() for text in plot_weights(weights).texts]
    assert len(set(written)) == len(weights)
    assert [float(own.rstrip("%")) / 100 for own in written] == pytest.approx(
        sorted(weights.values(), reverse=True), rel=2e-3
    )


def test_weights_of_estimators_and_runs(online, batch):
    for model in (online, batch, batch.path(X, y, [1.0, 10.0])[-1]["model"]):
        assert bars(plot_weights(model)) == pytest.approx(model.kernel_weights_)
    runs = [omkl.MKLClassifier(KERNELS, C=10.0).fit(X[k::3], y[k::3]) for k in range(3)]
    table = np.array([list(run.kernel_weights_.values()) for run in runs])
    ax = plot_weights(runs)
    assert bars(ax) == pytest.approx(dict(zip(KERNELS, table.mean(axis=0))))
    lines = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(np.sort(lines, axis=0), np.sort([table.min(axis=0), table.max(axis=0)], axis=1).T)


def test_a_report_on_groups_has_intervals_of_two_standard_errors(online):
    records = online.group_report(X, y)
    ax = plot_weights(records)
    assert bars(ax) == pytest.approx({record["group"]: record["loss_increase"] for record in records})
    widths = sorted(float(np.ptp(segment[:, 0])) for segment in ax.collections[0].get_segments())
    np.testing.assert_allclose(widths, sorted(4 * record["standard_error"] for record in records))


def test_norms_of_groups_of_columns():
    data = load_diabetes()
    groups = np.repeat(["first", "last"], 5)
    model = omkl.GroupLasso(0.05, groups=groups).fit(data.data, data.target)
    norms = [np.linalg.norm(model.coef_[:5]), np.linalg.norm(model.coef_[5:])]
    assert bars(plot_weights(model)) == pytest.approx(dict(zip(["first", "last"], norms)))
    path = omkl.GroupLasso().path(data.data, data.target, [2.0, 1.0, 0.5])
    ax = plot_path(path, names=data.feature_names, n=20)
    for line in ax.lines:
        coefficients = [abs(record["coef"][data.feature_names.index(line.get_label())]) for record in path]
        np.testing.assert_allclose(line.get_ydata(), coefficients)
    assert ax.get_xlim() == (2.0, 0.5)  # it fits closer from left to right
    lists = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    by_group = {line.get_label(): line.get_ydata()[-1] for line in plot_path(path, groups=lists).lines}
    expected = {f"group {g}": np.linalg.norm(path[-1]["coef"][own]) for g, own in enumerate(lists)}
    assert by_group == pytest.approx(expected)


def test_curves_of_histories_paths_and_callbacks(online, batch):
    for source in (online, online.history_):
        ax = plot_group_weights(source)
        assert ax.get_xlabel() == "epoch"
        assert all(tick == round(tick) for tick in ax.get_xticks())
        for line in ax.lines:
            expected = [record[f"weight:{line.get_label()}"] for record in online.history_]
            np.testing.assert_allclose(line.get_ydata(), expected)
    path = batch.path(X, y, [0.1, 1.0, 10.0])
    for ax in (plot_group_weights(path), plot_path(path, chosen=1.0)):
        found = {line.get_label(): line.get_ydata() for line in ax.lines if line.get_label() in KERNELS}
        alive = [name for name in KERNELS if any(record["model"].kernel_weights_[name] for record in path)]
        assert set(alive) <= set(found)
        for name, values in found.items():
            np.testing.assert_allclose(values, [record["model"].kernel_weights_[name] for record in path])
    meter = omkl.online.ProgressiveValidation(every=50)
    omkl.OnlineMKLClassifier(KERNELS, callbacks=[meter], random_state=0).partial_fit(X, y)
    ax = plot_group_weights(meter)
    assert ax.get_xlabel() == "examples learned from"
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [50, 100, 150])


def test_stability_selection(batch):
    found = batch.stability_selection(X, y, [0.1, 1.0], n_pairs=3, max_false=None, random_state=0)
    assert bars(plot_weights(found)) == pytest.approx(found.selection_frequency_)
    frequencies = {line.get_label(): line.get_ydata() for line in plot_path(found).lines}
    for name, own in zip(found.names, found.frequencies_.T):
        if own.any():
            np.testing.assert_allclose(frequencies[name], own)


@pytest.mark.parametrize("width", [None, 3.3])
@pytest.mark.parametrize("p", [3, 300])
def test_names_are_told_apart_and_lie_neither_on_curves_nor_on_each_other(p, width):
    history = long_history(p)
    ax = plot_group_weights(history, width=width)
    ax.figure.draw_without_rendering()
    texts = [text for own in ax.findobj(EndLabels) for text in own.texts]
    assert len(texts) == min(p, 11)
    assert len({text.get_text() for text in texts}) == len(texts)
    boxes = [text.get_window_extent() for text in texts]
    page = ax.figure.get_window_extent()
    for box in boxes:
        assert box.x0 > ax.get_window_extent().x1  # curves end there
        assert box.x1 <= page.x1 + 1
        assert box.y0 >= page.y0 - 1
        assert box.y1 <= page.y1 + 1
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    band = [text.get_text() for text in texts if "others" in text.get_text()]
    assert band == (["290 others"] if p == 300 else [])


@pytest.mark.parametrize("width", [None, 3.3])
def test_three_hundred_bars_are_thirty(width):
    last = long_history(300)[-1]
    weights = {name.removeprefix("weight:"): w for name, w in last.items() if name != "epoch"}
    ax = plot_weights(weights, width=width)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == len(set(labels)) == 30
    assert labels[-1] == "271 others"
    ranked = sorted(weights.values(), reverse=True)
    np.testing.assert_allclose([patch.get_width() for patch in ax.patches], ranked[:30])
    assert f"{100 * sum(ranked[29:]):.1f}% in sum" in ax.texts[-1].get_text()
    ax.figure.draw_without_rendering()
    page = ax.figure.get_window_extent()
    assert all(text.get_window_extent().x1 <= page.x1 for text in ax.texts)


def test_axes_are_taken_and_returned():
    from matplotlib.figure import Figure

    for ax in Figure(figsize=(7, 3), layout="constrained").subplots(1, 2):
        assert plot_group_weights(long_history(300), ax=ax) is ax
        assert len(names_of(ax)) <= 11
        assert len({*names_of(ax)}) == len(names_of(ax))
        ax.clear()
        assert plot_weights({f"k{k}": 1.0 + k for k in range(300)}, ax=ax) is ax
        assert len(ax.get_yticks()) < 30


@pytest.mark.parametrize("draw", [plot_weights, plot_group_weights, plot_path])
@pytest.mark.parametrize("nothing", [3, [], {}, "weights", [1, 2], {"a": "b"}, {"a": np.nan}, {"a": {"b": 1.0}}])
def test_sources_without_weights_are_refused(draw, nothing):
    with pytest.raises(InputError, match=r"^[A-Z].*\.$"):
        draw(nothing)


def test_errors_name_the_right_function(batch):
    with pytest.raises(InputError, match="plot_gap"):
        plot_group_weights(batch.history_)
    with pytest.raises(InputError, match="plot_group_weights"):
        plot_path(long_history(3))


@settings(max_examples=60)
@given(names=st.sets(st.text("ab .=", min_size=1, max_size=60), min_size=1, max_size=8), width=st.integers(8, 40))
def test_names_are_cut_to_the_room_there_is(names, width):
    names = sorted(names)
    found = shortened(names, width)
    assert all(len(own) <= width for own in found)
    if width >= 12:
        assert len(set(found)) == len(names)


def test_svg_takes_the_colour_of_the_page(online):
    from xml.etree import ElementTree

    text = to_svg(plot_group_weights(online))
    assert text == to_svg(plot_group_weights(online))
    assert ElementTree.fromstring(text).get("fill") == "currentColor"
    assert "#000000" not in text
    assert "#ffffff" not in text
