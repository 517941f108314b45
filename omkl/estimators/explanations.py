"""Why one input gets its output: what each group, and each of the strongest features, adds to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omkl.exceptions import MissingDependencyError
from omkl.online import to_frame

#: Groups that are listed one by one in text and pictures; the others are summed.
SHOWN = 10
#: Characters of a name in a picture, and of a bar in text.
NAME, BAR = 32, 24
#: What speaks for an output, and what against it: two colours that all people tell apart.
FOR, AGAINST = "#0072b2", "#d55e00"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of the parts of a model to the difference of the scores of two outputs.

    Attributes
    ----------
    output : object
        The output that is explained: a class, an array of labels or of heads, a number.
    against : object
        The output that it is compared with, of the same kind; None where the output is a number, which is the sum of
        the parts itself.
    summary : str
        The difference of the two in words.
    margin : float
        Score of ``output`` minus that of ``against``; of a regressor its prediction, on the scale of its potentials.
    groups : dict of str to float
        What each group adds to the margin. They sum to it.
    features : list of dict
        The strongest single parts, largest magnitude first: ``feature``, its ``group``, the ``token`` that has it (from
        0; of a tree the word, from 1; None for inputs of one part) and what it ``adds``. Of a kernel
        with explicit features the parts are columns (``linear[age]``), products of them (``quadratic[age * income]``),
        landmarks of the Nyström method, numbered as the rows of its ``landmarks_``, or random frequencies, cosine and
        sine together, with the columns that these are largest on.

    Examples
    --------
    >>> import numpy as np
    >>> from omkl import OnlineMKLClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = OnlineMKLClassifier({"first": "linear:on=0:1", "second": "linear:on=1:2"}, random_state=0)
    >>> why = model.fit(X, np.where(X[:, 0] > 0, "right", "left")).explain([2.0, 0.1])
    >>> why.summary, max(why.groups, key=why.groups.get)
    ("'right' rather than 'left'", 'first')
    >>> bool(np.isclose(sum(why.groups.values()), why.margin))
    True
    """

    output: Any
    against: Any
    summary: str
    margin: float
    groups: dict[str, float]
    features: list[dict[str, Any]]

    def strongest_groups(self, n: int = SHOWN) -> list[tuple[str, float]]:
        """``(name, what it adds)`` of the groups of the largest magnitude; of more than n all others are one, at the
        end."""
        ranked = sorted(((name, value) for name, value in self.groups.items() if value), key=lambda pair: -abs(pair[1]))
        if len(ranked) <= n:
            return ranked
        return [*ranked[: n - 1], (f"{len(ranked) - n + 1} others", sum(value for _, value in ranked[n - 1 :]))]

    def __str__(self) -> str:
        lines = [f"{self.summary}: {_number(self.margin)}".strip(), ""]
        lines += _table("group", self.strongest_groups())
        if self.features:
            lines += ["", *_table("feature", [(_place(record), record["adds"]) for record in self.features])]
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """A pandas data frame: a row for each group, then one for each of the strongest features.

        Returns
        -------
        pandas.DataFrame
            Columns ``group``, ``feature`` and ``token`` (None in the rows of groups), ``adds``.

        Raises
        ------
        omkl.exceptions.MissingDependencyError
            If pandas is not installed.
        """
        rows = [{"group": name, "feature": None, "token": None, "adds": value} for name, value in self.groups.items()]
        return to_frame(rows + self.features)[["group", "feature", "token", "adds"]]

    def plot(self, ax: Any = None, *, features: bool = False) -> Any:
        """Draw what the strongest groups add as bars: to the right what speaks for the output.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; those of a new figure by default.
        features : bool
            Draw the strongest features in place of groups.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        omkl.exceptions.MissingDependencyError
            If matplotlib is not installed.
        """
        if ax is None:
            ax = _new_axes(2 * SHOWN if features else SHOWN)
        box, dpi = ax.get_window_extent(), ax.figure.dpi
        width, height = box.width / dpi, box.height / dpi
        size = 9.0 if width > 3.5 else 7.0  # of letters, in points
        room = max(3, int(72.0 * height / (1.5 * size)))
        records = [(_place(record), record["adds"]) for record in self.features[: min(room, 2 * SHOWN)]]
        rows = records if features else self.strongest_groups(min(room, SHOWN))
        letters = max(12, min(NAME, int(72.0 * width * 0.4 / (0.55 * size))))
        values = [value for _, value in rows]
        ax.barh(range(len(rows)), values, color=[FOR if value > 0 else AGAINST for value in values])
        ax.set_yticks(range(len(rows)), [_cut(name, letters) for name, _ in rows])
        ax.tick_params(labelsize=size)
        ax.invert_yaxis()
        ax.axvline(0.0, color=ax.xaxis.label.get_color(), linewidth=0.8)
        ax.set_xlabel(f"adds to {_number(self.margin)}", fontsize=size)
        ax.set_title(_cut(self.summary, 2 * letters), fontsize=size)
        for written in (ax.title, *ax.get_yticklabels()):
            written.set_parse_math(False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def _cut(name: str, length: int) -> str:
    """At most so many letters of a name, those that can be drawn."""
    name = name.encode("utf-8", "replace").decode()
    return name if len(name) <= length else f"{name[: length // 2]}…{name[len(name) - (length - 1) // 2 :]}"


def _new_axes(n_rows: int) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("Pictures need matplotlib: install it with 'pip install omkl[plot]'.") from None
    return Figure(figsize=(6.4, 1.2 + 0.28 * max(n_rows, 1)), layout="constrained").subplots()


def _table(title: str, rows: Sequence[tuple[str, float]]) -> list[str]:
    """Lines of numbers, bars and names."""
    largest = max((abs(value) for _, value in rows), default=0.0) or 1.0
    width = min(max((len(name) for name, _ in rows), default=0), 2 * NAME)
    lines = [f"{'adds':>10}  {title}"]
    for name, value in rows:
        bar = ("+" if value > 0 else "-") * max(1, round(BAR * abs(value) / largest))
        lines.append(f"{_number(value):>10}  {name:{width}}  {bar}".rstrip())
    return lines


def _place(record: dict[str, Any]) -> str:
    """The name of a feature, and the token that has it."""
    return record["feature"] if record["token"] is None else f"{record['feature']} at {record['token']}"


def _number(value: float) -> str:
    return f"{value:+.3g}"
