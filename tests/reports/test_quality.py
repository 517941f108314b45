"""Pictures of calibration, confusions and handwriting show the right numbers."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix

from omkl.exceptions import InputError
from omkl.reports import plot_calibration, plot_confusion, plot_word
from omkl.reports.plots.quality import calibration_bins, confidences, confusion_counts

matplotlib = pytest.importorskip("matplotlib")


def test_bins_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    right = rng.random(1000) < p
    records = calibration_bins(p, right, 8)
    accuracy, confidence = calibration_curve(right, p, n_bins=8, strategy="quantile")
    np.testing.assert_allclose([record["accuracy"] for record in records], accuracy)
    np.testing.assert_allclose([record["confidence"] for record in records], confidence)
    for record in records:
        hits = round(record["accuracy"] * record["count"])
        bounds = binomtest(hits, record["count"]).proportion_ci(method="wilson")
        np.testing.assert_allclose([record["low"], record["high"]], bounds, rtol=1e-5)


def test_confidences_of_tables_and_sequences():
    rng = np.random.default_rng(0)
    tables = [rng.dirichlet(np.ones(3), n) for n in (4, 1, 7)]
    gold = [list(rng.choice(["a", "b", "c"], len(own))) for own in tables]
    flat = np.concatenate(tables)
    expected = flat.max(axis=1), np.array(["a", "b", "c"])[flat.argmax(axis=1)] == np.concatenate(gold)
    for found in (confidences(gold, tables, ["a", "b", "c"]), confidences(np.concatenate(gold), flat, list("abc"))):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(confidences(expected[1], expected[0])[1], expected[1])
    ax = plot_calibration(gold, tables, ["a", "b", "c"], bins=4)
    assert ax.texts[0].get_text().startswith("12 predictions")


@pytest.mark.parametrize(
    "given",
    [([], []), ([1], [0.5, 0.5]), ([1], [np.nan]), ([1], [1.5]), (["a"], [[0.5, 0.5]], ["a"]), ([1, 0], [[0.5, 0.5]])],
)
def test_bad_probabilities_are_refused(given):
    with pytest.raises(InputError, match=r"^[A-Z].*\.$"):
        plot_calibration(*given)


def test_one_probability_is_one_point():
    [record] = calibration_bins([0.5, 0.5, 0.5], [True, False, True])
    assert (record["confidence"], record["count"]) == (0.5, 3)
    assert record["accuracy"] == pytest.approx(2 / 3)


def test_confusions_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    gold, found = rng.choice(list("dcba"), (2, 200))
    labels, counts = confusion_counts(gold, found)
    assert labels == list("abcd")
    np.testing.assert_array_equal(counts, confusion_matrix(gold, found, labels=labels))
    ax = plot_confusion([gold[:50], gold[50:]], [found[:50], found[50:]])
    written = np.array([int(text.get_text()) for text in ax.texts]).reshape(4, 4)
    np.testing.assert_array_equal(written, counts)


def test_many_labels_are_merged():
    gold = [f"label {k}" for k in range(300) for _ in range(3)]
    found = [f"label {(k + (k < 20)) % 300}" for k in range(300) for _ in range(3)]
    ax = plot_confusion(gold, found, n=25)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[-1] == "276 others"
    assert {f"label {k}" for k in range(20)} <= set(names)
    narrow = plot_confusion(gold, found, width=3.3)
    assert 5 < len(narrow.get_yticks()) < 30
    for bad in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(InputError):
            plot_confusion(*bad)


def test_a_word_has_its_letters_below_it():
    images = load_digits().images[:5]
    ax = plot_word(images, [0, 1, 3, 3, 4], [0, 1, 2, 3, 4])
    texts = [(round(text.xy[0] // 9), text.get_text()) for text in ax.texts]
    assert [text for k, text in texts if k == 2] == ["3", "2"]
    assert [text for k, text in texts if k == 4] == ["4"]
    drawn = ax.images[0].get_array()
    np.testing.assert_allclose(drawn[:8, 9:17, 3], images[1] / images.max())
    np.testing.assert_array_equal(plot_word(images.reshape(5, 64), "abcde").images[0].get_array(), drawn)
    assert plot_word(np.ones((3, 128)), "abc").images[0].get_array().shape == (17, 27, 4)
    for bad in (
        (images, "abc"),
        (np.ones((3, 7)), "abc"),
        (np.zeros((0, 8, 8)), ""),
        (np.full((1, 2, 2), np.nan), "a"),
    ):
        with pytest.raises(InputError, match=r"^[A-Z].*\.$"):
            plot_word(*bad)


@pytest.mark.parametrize("width", [None, 3.3, 10.0])
def test_nothing_is_cut_off(width):
    digits = load_digits()
    found = (digits.target + (np.arange(len(digits.target)) % 7 == 0)) % 10
    p = np.random.default_rng(0).dirichlet(np.ones(10), len(found))
    names = [f"label of a rather long name {k}" for k in range(10)]
    gold, read = ([names[k] for k in side] for side in (digits.target, found))
    for ax in (
        plot_word(digits.images[:9], found[:9], digits.target[:9], title="T", width=width),
        plot_confusion(gold, read, title="T", width=width),
        plot_calibration(digits.target, p, title="T", width=width),
    ):
        ax.figure.draw_without_rendering()
        box, size = ax.figure.get_tightbbox(), ax.figure.get_size_inches()
        assert box.min.min() >= 0
        assert (box.max <= size).all()
