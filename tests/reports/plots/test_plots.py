"""Pictures show the numbers of weights, records and labels.

Their colours are distinct for everyone.
"""

import sys
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.metrics import confusion_matrix

import omkl
from omkl import GroupSelection
from omkl.exceptions import InputError, MissingDependencyError
from omkl.kernels import per_column
from omkl.reports import (
    plot_calibration,
    plot_confusion,
    plot_curves,
    plot_group_weights,
    plot_history,
    plot_panels,
    plot_path,
    plot_search,
    plot_selection,
    plot_shapes,
    plot_weights,
    plot_word,
    to_svg,
)
from omkl.reports.plots.canvas import COLOURS, GREY, STYLES, shortened, style

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
    names = [label.get_text() for label in ax.get_yticklabels()]
    return dict(zip(names, [bar.get_width() for bar in ax.patches]))


def curves(ax):
    return {line.get_label(): line.get_ydata() for line in ax.lines}


def history(p, n_epochs=20):
    weights = np.random.default_rng(0).dirichlet(np.full(p, 0.2), n_epochs)
    records = []
    for epoch, row in enumerate(weights, 1):
        records.append({"epoch": epoch, **{f"weight:{k}": weight for k, weight in enumerate(row)}})
    return records


def test_weights_of_estimators(online, batch):
    for model in (online, batch):
        assert bars(plot_weights(model)) == pytest.approx(model.kernel_weights_)
    assert bars(plot_weights(online.group_report_))["linear"] == pytest.approx(
        online.kernel_weights_["linear"]
    )


def test_a_group_report_has_intervals_of_two_standard_errors(online):
    records = online.group_report(X, y)
    ax = plot_weights(records)
    assert bars(ax) == pytest.approx(
        {record["group"]: record["loss_increase"] for record in records}
    )
    [lines] = [part for part in ax.collections if hasattr(part, "get_segments")]
    widths = sorted(float(np.ptp(segment[:, 0])) for segment in lines.get_segments())
    assert_allclose(widths, sorted(4 * record["standard_error"] for record in records))


def test_selected_groups_stand_out_beside_the_threshold():
    selection = GroupSelection(
        "knockoffs",
        0.2,
        {"a": 0.1, "b": 0.5, "c": -0.1, "d": 0.4},
        0.4,
    )
    ax = plot_selection(selection)
    assert bars(ax) == {"b": 0.5, "d": 0.4, "a": 0.1, "c": -0.1}
    to_hex = pytest.importorskip("matplotlib.colors").to_hex
    assert [to_hex(bar.get_facecolor()).upper() for bar in ax.patches] == [
        COLOURS[0],
        COLOURS[0],
        GREY,
        GREY,
    ]
    assert [line.get_xdata()[0] for line in ax.lines] == [0.4]
    assert ax.get_title() == "2 of 4 groups selected, false discovery rate at most 0.2"
    assert not plot_selection(GroupSelection("stability", 1.0, {"a": 0.1}, np.inf)).lines


def test_norms_of_groups_of_columns():
    data = load_diabetes()
    first_half = slice(0, 5)
    last_half = slice(5, 10)
    model = omkl.GroupLasso(0.05, groups=np.repeat(["first", "last"], 5)).fit(
        data.data, data.target
    )
    norms = [np.linalg.norm(model.coef_[half]) for half in (first_half, last_half)]
    assert sorted(bars(plot_weights(model)).values()) == pytest.approx(sorted(norms))
    path = omkl.GroupLasso().path(data.data, data.target, [2.0, 1.0, 0.5])
    ax = plot_path(path, names=data.feature_names, n=20)
    for name, values in curves(ax).items():
        assert_allclose(
            values, [abs(record["coef"][data.feature_names.index(name)]) for record in path]
        )
    assert ax.get_xlim() == (2.0, 0.5)
    ends = [
        values[-1]
        for values in curves(plot_path(path, groups=[[*range(5)], [*range(5, 10)]])).values()
    ]
    expected = [np.linalg.norm(path[-1]["coef"][half]) for half in (first_half, last_half)]
    assert sorted(ends) == pytest.approx(sorted(expected))


def test_curves_of_histories_paths_and_callbacks(online, batch):
    for source in (online, online.history_):
        ax = plot_group_weights(source)
        assert ax.get_xlabel() == "epoch"
        for name, values in curves(ax).items():
            assert_allclose(values, [record[f"weight:{name}"] for record in online.history_])
    path = batch.path(X, y, [0.1, 1.0, 10.0])
    for name, values in curves(plot_path(path)).items():
        assert_allclose(values, [record["model"].kernel_weights_[name] for record in path])
    meter = omkl.online.ProgressiveValidation(every=50)
    omkl.OnlineMKLClassifier(KERNELS, callbacks=[meter], random_state=0).partial_fit(X, y)
    ax = plot_group_weights(meter)
    assert ax.get_xlabel() == "examples learned from"
    assert_array_equal(ax.lines[0].get_xdata(), [50, 100, 150])


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


def test_a_path_shows_the_groups_that_lead_anywhere_on_it():
    alphas = [4.0, 2.0, 1.0]
    coefficients = np.linspace(0.1, 1.2, 12) * np.array([[0.0], [0.1], [1.0]])
    coefficients[1, 0] = 3.0  # the first column leads in the middle, and is the smallest at the end
    path = [{"alpha": alpha, "coef": row} for alpha, row in zip(alphas, coefficients)]
    names = [f"column {j}" for j in range(12)]
    visible = curves(plot_path(path, names=names, n=5))
    hidden = coefficients[:, [name not in visible for name in names]]
    assert list(visible) == [f"column {j}" for j in (0, 11, 10, 9, 8)]
    assert hidden.max() <= min(map(max, visible.values()))


@pytest.mark.parametrize("draw", [plot_weights, plot_group_weights, plot_path])
@pytest.mark.parametrize(
    "nothing",
    [3, [], {}, "weights", [1, 2], {"a": "b"}, {"a": np.nan}, {"a": {"b": 1.0}}, [{"epoch": 1}]],
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


#: Linear RGB as seen with one type of color blindness: Machado, Oliveira, Fernandes (2009), table
#: 1, severity 1.
BLIND = {
    "nothing": np.eye(3),
    "red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    rgb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(
        rgb <= 0.04045,
        rgb / 12.92,
        ((rgb + 0.055) / 1.055) ** 2.4,
    )


def lab(rgb):
    t = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(
        t > (6 / 29) ** 3,
        np.cbrt(t),
        t / (3 * (6 / 29) ** 2) + 4 / 29,
    )
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", BLIND)
def test_colours_differ_for_anyone(kind):
    seen = [lab(np.array(BLIND[kind]) @ linear(colour)) for colour in (*COLOURS, GREY)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


@pytest.mark.parametrize("colour", [*COLOURS, GREY])
def test_colours_stand_out_from_light_and_dark_pages(colour):
    luminance = TO_XYZ[1] @ linear(colour)
    assert 1.05 / (luminance + 0.05) > 3  # the contrast of WCAG 2, beside white
    assert (luminance + 0.05) / (TO_XYZ[1] @ linear("#121212") + 0.05) > 3


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        plot_weights({"a": 1.0})


PAIR = ["linear", "gaussian"]


def names_of(ax):
    legend = ax.get_legend()
    if legend is None:
        return []
    return [text.get_text() for text in legend.get_texts()]


def test_losses_of_one_run_and_of_several():
    runs = {
        name: omkl.OnlineMKLClassifier(PAIR, regularizer=name, epochs=3, random_state=0).fit(X, y)
        for name in ("mkl", "l2")
    }
    ax = plot_history(runs)
    assert names_of(ax) == ["mkl", "l2"]
    for line, run in zip(ax.lines, runs.values()):
        assert_allclose(line.get_ydata(), [record["loss"] for record in run.history_])
    ax = plot_history(runs["mkl"].history_, "objective")
    assert ax.get_xlabel() == "epoch"
    assert ax.get_ylabel() == "objective"
    assert names_of(ax) == []


def test_the_gap_of_each_problem_against_time_and_iterations():
    single = omkl.MKLRegressor(PAIR, tol=1e-3).fit(X, y)
    for along in (None, "iteration"):
        ax = plot_history(single, "gap", along)
        assert_allclose(
            ax.lines[0].get_ydata(),
            [record["gap"] for record in single.history_],
        )
        assert_allclose(
            ax.lines[0].get_xdata(), [record[ax.get_xlabel()] for record in single.history_]
        )
        assert ax.get_yscale() == "log"
    several = omkl.SparseLogisticRegression(0.01, multiclass="ovr").fit(X, y)
    assert names_of(plot_history(several, "gap")) == ["problem 0", "problem 1", "problem 2"]
    assert plot_history(single).get_ylabel() == "primal objective"
    assert plot_history([{"loss": 1.0}, {"loss": 0.5}]).get_xlabel() == "record"


def test_curves_of_several_runs_share_the_quantity_of_the_x_axis():
    epochs = [{"epoch": 1, "examples": 10, "loss": 2.0}, {"epoch": 2, "examples": 10, "loss": 1.0}]
    stream = [{"epoch": 1, "examples": n, "loss": 1.0 / n} for n in (4, 6)]
    ax = plot_history({"fit": epochs, "stream": stream})
    assert ax.get_xlabel() == "examples learned from"
    assert [line.get_xdata().tolist() for line in ax.lines] == [[10, 20], [4, 10]]
    timed = [{**record, "seconds": 3.0 * record["epoch"]} for record in epochs]
    batch = [{"iteration": i, "seconds": 0.5 * i, "loss": 1.0} for i in (1, 2)]
    ax = plot_history({"fit": timed, "batch": batch})
    assert ax.get_xlabel() == "seconds"
    assert [line.get_xdata().tolist() for line in ax.lines] == [[3.0, 6.0], [0.5, 1.0]]
    with pytest.raises(InputError, match="'fit' has 'epoch', 'batch' has 'seconds'"):
        plot_history({"fit": epochs, "batch": batch})


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
    kernels = omkl.MKLClassifierCV(PAIR, Cs=[0.1, 1.0], cv=3).fit(X, y)
    for model, values, chosen in (
        (design, design.alphas_, design.alpha_),
        (kernels, kernels.Cs_, kernels.C_),
    ):
        ax = plot_search(model)
        for line, fold in zip(ax.lines, model.scores_):
            assert_allclose(line.get_ydata(), fold)
        assert_allclose(
            ax.lines[3].get_ydata(),
            model.scores_.mean(axis=0),
        )
        assert ax.get_xlim() == (values[0], values[-1])  # the penalty gets weaker
        assert ax.lines[4].get_xdata()[0] == chosen


@pytest.mark.slow
def test_curves_and_panels(tmp_path):
    assert len({str(style(k)) for k in range(STYLES)}) == STYLES == 15
    lines = {f"run {k}": ([0, 1], [k, k]) for k in range(20)}
    ax = plot_curves(
        {**lines, "band": ([0, 1], [1, 2], [0, 1], [2, 3])}, tmp_path / "a.png", log="x"
    )
    assert ax.get_xscale() == "log"
    assert len({line.get_color() for line in ax.lines[15:]}) == 1
    with pytest.raises(InputError):
        plot_curves({})
    figure = plot_panels(
        [[{"curves": lines, "title": "a"}, {"curves": {"run 3": lines["run 3"]}}]],
        tmp_path / "b.png",
    )
    assert figure.axes[0].lines[3].get_color() == figure.axes[1].lines[0].get_color()
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "b.png"}


def test_calibration_of_tables_and_sequences(rng):
    tables = [rng.dirichlet(np.ones(3), n) for n in (40, 10, 70)]
    gold = [list(rng.choice(["a", "b", "c"], len(table))) for table in tables]
    flat = np.concatenate(tables)
    labels = np.concatenate(gold)
    right = np.array(["a", "b", "c"])[flat.argmax(axis=1)] == labels
    expected = calibration_curve(right, flat.max(axis=1), n_bins=8, strategy="quantile")
    for arguments in (
        (gold, tables, list("abc")),
        (labels, flat, list("abc")),
        (right, flat.max(axis=1)),
    ):
        line = plot_calibration(*arguments, bins=8).lines[1]
        assert_allclose([line.get_ydata(), line.get_xdata()], expected)


def test_confusions_are_those_of_scikit_learn(rng):
    gold, predicted = rng.choice(list("dcba"), (2, 200))
    ax = plot_confusion(
        [gold[:50], gold[50:]],
        [predicted[:50], predicted[50:]],
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == list("abcd")
    written = np.array([int(text.get_text()) for text in ax.texts]).reshape(4, 4)
    assert_array_equal(written, confusion_matrix(gold, predicted, labels=list("abcd")))
    shares = confusion_matrix(gold, predicted, labels=list("abcd"), normalize="true")
    assert_allclose(ax.images[0].get_array(), shares)


def test_of_many_labels_the_most_confused_are_shown():
    gold = [f"label {k}" for k in range(300) for _ in range(3)]
    predicted = [f"label {(k + (k < 20)) % 300}" for k in range(300) for _ in range(3)]
    ax = plot_confusion(gold, predicted, n=21)
    assert {label.get_text() for label in ax.get_yticklabels()} == {f"label {k}" for k in range(21)}
    for bad in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(InputError):
            plot_confusion(*bad)


def test_a_word_has_its_letters_below_it():
    images = load_digits().images[:5]
    ax = plot_word(
        images,
        [0, 1, 3, 3, 4],
        [0, 1, 2, 3, 4],
    )
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1", "3\n(2)", "3", "4"]
    picture = ax.images[0].get_array()
    assert_allclose(picture[:, 9:17], images[1])
    assert_array_equal(plot_word(images.reshape(5, 64), "abcde").images[0].get_array(), picture)
    assert plot_word(np.ones((3, 128)), "abc").images[0].get_array().shape == (16, 27)
    with pytest.raises(InputError):
        plot_word(np.ones((3, 7)), "abc")


@pytest.mark.slow
def test_shapes_are_curves_bars_and_surfaces_on_one_scale(rng):
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(60, 3))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 2.0 * (X[:, 2] > 0), [0.2, 1.5])
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        job=np.array(["cook", "smith"])[(X[:, 2] > 0).astype(int)]
    )
    kernels = per_column("gaussian", ["a", "b", "job"], pairs=[("b", "c")])
    model = omkl.MKLClassifier(kernels, regularizer="elastic-net", C=1.0).fit(frame, y)
    shapes = model.shapes(frame, y)
    figure = plot_shapes(shapes, n=4, title="all")
    axes = {ax.get_title(): ax for ax in figure.axes}
    first = next(iter(axes)).partition(",")[0]
    assert first == " x ".join(shapes.parts[0].columns)
    assert {"a", "b", "job", "b x c, 0", "b x c, 1", "b x c, 2"} <= axes.keys()
    assert axes["a"].get_ylim() == axes["job"].get_ylim()
    (curve, *_) = axes["a"].lines
    part = next(part for part in shapes.parts if part.columns == ("a",))
    assert_allclose(curve.get_ydata(), part.effect[:, 0])
    assert len(axes["job"].patches) == 6
    assert_allclose(
        axes["b x c, 1"].collections[0].get_offsets(), frame[["b", "c"]].sort_values(["b", "c"])
    )
    assert "<svg" in to_svg(axes["a"])
    with pytest.raises(InputError, match="no column is in the model"):
        plot_shapes(shapes._replace(parts=[]))
