"""Pictures of calibration, confusions and handwriting show the right numbers."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix

from omkl.exceptions import InputError
from omkl.reports import plot_calibration, plot_confusion, plot_word

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
