"""Figures show the numbers they are given."""

from omkl.reports import plot_accuracies


def test_accuracies_with_references(tmp_path):
    rows = [
        {"name": "x", "accuracy": 80.0, "sd": 1.0, "references": {"paper": 75.0}},
        {"name": "y", "accuracy": 85, "sd": 1},
    ]
    assert [tick.get_text() for tick in plot_accuracies(rows, tmp_path / "a.png").get_yticklabels()] == ["x", "y"]
    assert (tmp_path / "a.png").exists()
