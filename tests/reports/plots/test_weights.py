"""Pictures of weights show the right numbers."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import omkl
from omkl.exceptions import InputError
from omkl.reports import plot_group_weights, plot_path, plot_weights, to_svg
from omkl.reports.plots.canvas import shortened

pytest.importorskip("matplotlib")
X, y = load_iris(return_X_y=True)
KERNELS = ["linear", "gaussian", "gaussian:sigma2=100"]


@pytest.fixture(scope="module")
def online():
    return omkl.OnlineMKLClassifier(KERNELS, epochs=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def batch():
    return omkl.MKLClassifier(KERNELS, C=10.0).fit(X, y)


def bars(ax):
    """Return widths of bars by the name beside each."""
    return dict(zip((label.get_text() for label in ax.get_yticklabels()), (bar.get_width() for bar in ax.patches)))


def curves(ax):
    return {line.get_label(): line.get_ydata() for line in ax.lines}


def history(p, n_epochs=20):
    weights = np.random.default_rng(0).dirichlet(np.full(p, 0.2), n_epochs)
    return [{"epoch": t, **{f"weight:{k}": w for k, w in enumerate(row)}} for t, row in enumerate(weights, 1)]


def test_weights_of_estimators(online, batch):
    for model in (online, batch):
        assert bars(plot_weights(model)) == pytest.approx(model.kernel_weights_)
    assert bars(plot_weights(online.group_report_))["linear"] == pytest.approx(online.kernel_weights_["linear"])


def test_a_group_report_has_intervals_of_two_standard_errors(online):
    records = online.group_report(X, y)
    ax = plot_weights(records)
    assert bars(ax) == pytest.approx({record["group"]: record["loss_increase"] for record in records})
    [lines] = [own for own in ax.collections if hasattr(own, "get_segments")]
    widths = sorted(float(np.ptp(segment[:, 0])) for segment in lines.get_segments())
    np.testing.assert_allclose(widths, sorted(4 * record["standard_error"] for record in records))


def test_norms_of_groups_of_columns():
    data = load_diabetes()
    first_half, last_half = slice(0, 5), slice(5, 10)
    model = omkl.GroupLasso(0.05, groups=np.repeat(["first", "last"], 5)).fit(data.data, data.target)
    norms = [np.linalg.norm(model.coef_[half]) for half in (first_half, last_half)]
    assert sorted(bars(plot_weights(model)).values()) == pytest.approx(sorted(norms))
    path = omkl.GroupLasso().path(data.data, data.target, [2.0, 1.0, 0.5])
    ax = plot_path(path, names=data.feature_names, n=20)
    for name, values in curves(ax).items():
        np.testing.assert_allclose(values, [abs(record["coef"][data.feature_names.index(name)]) for record in path])
    assert ax.get_xlim() == (2.0, 0.5)
    ends = [values[-1] for values in curves(plot_path(path, groups=[[*range(5)], [*range(5, 10)]])).values()]
    expected = [np.linalg.norm(path[-1]["coef"][half]) for half in (first_half, last_half)]
    assert sorted(ends) == pytest.approx(sorted(expected))


def test_curves_of_histories_paths_and_callbacks(online, batch):
    for source in (online, online.history_):
        ax = plot_group_weights(source)
        assert ax.get_xlabel() == "epoch"
        for name, values in curves(ax).items():
            np.testing.assert_allclose(values, [record[f"weight:{name}"] for record in online.history_])
    path = batch.path(X, y, [0.1, 1.0, 10.0])
    for name, values in curves(plot_path(path)).items():
        np.testing.assert_allclose(values, [record["model"].kernel_weights_[name] for record in path])
    meter = omkl.online.ProgressiveValidation(every=50)
    omkl.OnlineMKLClassifier(KERNELS, callbacks=[meter], random_state=0).partial_fit(X, y)
    ax = plot_group_weights(meter)
    assert ax.get_xlabel() == "examples learned from"
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [50, 100, 150])


def test_many_groups_are_summarized():
    records = history(300)
    last = {name: w for name, w in records[-1].items() if name != "epoch"}
    ax = plot_weights(last)
    assert len(ax.patches) == len(ax.get_yticks()) == 30
    assert "270 smaller ones" in ax.get_xlabel()
    ax = plot_group_weights(records, ax=plot_weights(last).figure.add_subplot())
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    heaviest = sorted(last, key=last.get)[:-11:-1]
    assert labels == [*(name.removeprefix("weight:") for name in heaviest), "290 others"]


@pytest.mark.parametrize("draw", [plot_weights, plot_group_weights, plot_path])
@pytest.mark.parametrize(
    "nothing", [3, [], {}, "weights", [1, 2], {"a": "b"}, {"a": np.nan}, {"a": {"b": 1.0}}, [{"epoch": 1}]]
)
def test_sources_without_weights_are_refused(draw, nothing):
    with pytest.raises(InputError):
        draw(nothing)


def test_names_are_cut_in_the_middle():
    assert shortened(["short", "h.form m.form distance direction"], 12) == ["short", "h.form…ction"]


def test_svg_takes_the_colour_of_the_page(online):
    from xml.etree import ElementTree

    text = to_svg(plot_group_weights(online))
    assert text == to_svg(plot_group_weights(online))
    assert ElementTree.fromstring(text).get("fill") == "currentColor"
    assert "#000000" not in text
    assert "#ffffff" not in text
