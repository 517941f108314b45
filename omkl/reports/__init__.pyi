from . import plots
from .plots import (
    plot_calibration,
    plot_confusion,
    plot_curves,
    plot_group_weights,
    plot_history,
    plot_panels,
    plot_path,
    plot_pruning,
    plot_search,
    plot_selection,
    plot_weights,
    plot_word,
    to_svg,
)
from .report import make_report
from .trees import draw_tree

__all__ = [
    "draw_tree",
    "make_report",
    "plot_calibration",
    "plot_confusion",
    "plot_curves",
    "plot_group_weights",
    "plot_history",
    "plot_panels",
    "plot_path",
    "plot_pruning",
    "plot_search",
    "plot_selection",
    "plot_weights",
    "plot_word",
    "plots",
    "to_svg",
]
