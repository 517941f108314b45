from .plots import plot_accuracies, plot_curves, plot_group_weights, plot_panels

__all__ = ["plot_accuracies", "plot_curves", "plot_group_weights", "plot_panels"]
