from . import plots
from .plots import (
    plot_accuracies,
    plot_curves,
    plot_group_weights,
    plot_panels,
    plot_path,
    plot_weights,
    to_svg,
)
from .trees import draw_tree

__all__ = [
    "draw_tree",
    "plot_accuracies",
    "plot_curves",
    "plot_group_weights",
    "plot_panels",
    "plot_path",
    "plot_weights",
    "plots",
    "to_svg",
]
