"""Figures show the numbers they are given."""

from omkl.reports import plot_accuracies


def test_accuracies_with_references(tmp_path):
    rows = [
        {"name": "x", "accuracy": 80.0, "sd": 1.0, "references": {"paper": 75.0}},
        {"name": "y", "accuracy": 85, "sd": 1},
    ]
    assert plot_accuracies(rows, tmp_path / "a.png").axes[0].get_ylim()[0] < 75
    assert (tmp_path / "a.png").exists()
