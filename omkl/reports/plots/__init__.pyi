from .canvas import to_svg
from .curves import plot_curves, plot_history, plot_panels, plot_pruning, plot_search
from .quality import plot_calibration, plot_confusion, plot_word
from .weights import plot_group_weights, plot_path, plot_selection, plot_weights

__all__ = [
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
    "to_svg",
]
