from .plots import plot_accuracies, plot_curves, plot_group_weights, plot_panels
from .trees import draw_tree

__all__ = ["draw_tree", "plot_accuracies", "plot_curves", "plot_group_weights", "plot_panels"]
