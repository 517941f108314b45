from .canvas import to_svg
from .curves import plot_accuracies, plot_curves, plot_panels
from .weights import plot_group_weights, plot_path, plot_weights

__all__ = [
    "plot_accuracies",
    "plot_curves",
    "plot_group_weights",
    "plot_panels",
    "plot_path",
    "plot_weights",
    "to_svg",
]
