"""Figures show the numbers they are given."""

import numpy as np

from omkl.reports import plot_accuracies, plot_group_weights


def test_figures_from_a_history(tmp_path):
    history = [{"epoch": e, "weight:a": 1 / e, "weight:b": 1 - 1 / e} for e in (1, 2, 3)]
    figure = plot_group_weights(history, tmp_path / "w.png")
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["a", "b"]
    np.testing.assert_allclose(lines[0].get_ydata(), [1, 0.5, 1 / 3])
    rows = [
        {"name": "x", "accuracy": 80.0, "sd": 1.0, "references": {"paper": 75.0}},
        {"name": "y", "accuracy": 85, "sd": 1},
    ]
    assert plot_accuracies(rows, tmp_path / "a.png").axes[0].get_ylim()[0] < 75
    assert (tmp_path / "a.png").exists()
