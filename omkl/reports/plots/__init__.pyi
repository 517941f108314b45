from .canvas import to_svg
from .curves import plot_curves, plot_panels
from .quality import plot_calibration, plot_confusion
from .search import plot_pruning, plot_search
from .training import plot_gap, plot_history
from .weights import plot_group_weights, plot_path, plot_weights
from .words import plot_word

__all__ = [
    "plot_calibration",
    "plot_confusion",
    "plot_curves",
    "plot_gap",
    "plot_group_weights",
    "plot_history",
    "plot_panels",
    "plot_path",
    "plot_pruning",
    "plot_search",
    "plot_weights",
    "plot_word",
    "to_svg",
]
