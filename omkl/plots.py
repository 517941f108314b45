"""Figures. They need matplotlib: the extra ``plot``."""

from omkl.exceptions import MissingDependencyError


def plot_group_weights(history, path=None, title="Group weights along the epochs"):
    """Draw how the weight of each group changes with the epochs (Martins et al. 2011, Figure 1, bottom left).

    Parameters
    ----------
    history : list of dict
        ``history_`` of an estimator.
    path : path-like, optional
        Save the figure here, in the format of the suffix.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.
    """
    figure, axes = _figure()
    epochs = [record["epoch"] for record in history]
    for name in history[-1]["kernel_weights"]:
        weights = [record["kernel_weights"].get(name, 0.0) for record in history]
        axes.plot(epochs, weights, marker="o", markersize=3, label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("weight")
    axes.set_ylim(bottom=0.0)
    axes.set_title(title)
    if len(history[-1]["kernel_weights"]) <= 25:
        axes.legend(fontsize="small", frameon=False)
    figure.tight_layout()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_accuracies(rows, path=None, title="Accuracy"):
    """Draw named accuracies as bars with error bars, beside reference values.

    Parameters
    ----------
    rows : list of dict
        ``name``, ``accuracy`` and ``sd`` in percent, and optionally ``references``, a dict of named percentages.
    path : path-like, optional
        Save the figure here.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(width=1.0 + 0.9 * len(rows))
    places = range(len(rows))
    axes.bar(places, [row["accuracy"] for row in rows], yerr=[row["sd"] for row in rows], color="#4c72b0", label="omkl")
    markers = iter("ovsD^")
    for reference in dict.fromkeys(name for row in rows for name in row.get("references", {})):
        known = [
            (i, row["references"][reference]) for i, row in enumerate(rows) if reference in row.get("references", {})
        ]
        axes.plot(*zip(*known), next(markers), color="black", markersize=5, linestyle="none", label=reference)
    axes.set_xticks(places, [row["name"] for row in rows], rotation=30, ha="right")
    lowest = min(min([row["accuracy"], *row.get("references", {}).values()]) for row in rows)
    axes.set_ylim(lowest - 3, 100)
    axes.set_ylabel("accuracy, %")
    axes.set_title(title)
    axes.legend(fontsize="small", frameon=False)
    figure.tight_layout()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_curves(curves, path=None, title="", xlabel="", ylabel=""):
    """Draw named curves.

    Parameters
    ----------
    curves : dict of str to (x, y)
    path : path-like, optional
        Save the figure here.
    title, xlabel, ylabel : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure()
    for (name, (x, y)), marker in zip(curves.items(), "osvD^xP*" * len(curves)):
        axes.plot(x, y, marker=marker, markersize=4, label=name)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.legend(fontsize="small", frameon=False)
    figure.tight_layout()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _figure(width=6.4):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("Figures need matplotlib: install it with 'pip install omkl[plot]'.") from None
    # a figure of its own, not pyplot's: no global state, no display needed
    figure = Figure(figsize=(width, 4.2))
    return figure, figure.subplots()
