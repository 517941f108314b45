from .markup import draw_tree
from .plots.canvas import to_svg
from .plots.curves import (
    plot_curves,
    plot_guarantee,
    plot_history,
    plot_panels,
    plot_pruning,
    plot_search,
)
from .plots.quality import plot_calibration, plot_confusion, plot_word
from .plots.shapes import plot_shapes
from .plots.weights import plot_group_weights, plot_path, plot_selection, plot_weights
from .report import make_report

__all__ = [
    "draw_tree",
    "make_report",
    "plot_calibration",
    "plot_confusion",
    "plot_curves",
    "plot_group_weights",
    "plot_guarantee",
    "plot_history",
    "plot_panels",
    "plot_path",
    "plot_pruning",
    "plot_search",
    "plot_selection",
    "plot_shapes",
    "plot_weights",
    "plot_word",
    "to_svg",
]
