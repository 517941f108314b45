"""Explanations of single predictions by the contributions of groups and features."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from omkl._components import check_number
from omkl.data.blocks import AnyRows, Names
from omkl.data.table_reading import is_list_of_dicts, is_table
from omkl.exceptions import InputError
from omkl.groups.base import Contributions, Piece
from omkl.persistence import Record

#: Maximum number of groups in text; contributions of the other groups are summed.
SHOWN = 10
#: Maximum number of characters of names in text.
NAME = 64
#: Maximum number of characters of bars in text.
BAR = 24
#: Maximum number of differences between two outputs in a summary.
TOLD = 3
#: Function that names pieces of a prediction.
Namer: TypeAlias = Callable[[list[Piece]], list[str]]
#: Name of the group of the intercept.
CONSTANT = "intercept"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of the parts of a model to the score difference of two outputs.

    ``omkl.reports.plot_weights(why.groups)`` plots an explanation ``why``.

    Attributes
    ----------
    output : object
        The explained output: a class, an array of labels or of heads, or a number.
    against : object
        The output to compare with, of the same kind; None for numbers, which are the sum of the
        contributions.
    summary : str
        The difference between the two outputs in words.
    margin : float
        Score of ``output`` minus score of ``against``. For regressors, the prediction on the scale
        of the potentials.
    groups : dict of str to float
        Contribution of each group. Contributions sum to the margin.
    features : list of dict
        The largest contributions of single features, by decreasing magnitude. Records have
        ``feature``, its ``group``, its ``token`` (from 0; for trees its word, from 1; None for
        inputs without tokens) and its contribution ``adds``. For a kernel with explicit features,
        features are columns (``linear[age]``), products of columns (``quadratic[age * income]``),
        landmarks of the Nyström method, by row of ``landmarks_``, or random frequencies, cosine and
        sine together, with the columns of their largest entries. For other kernels, features are
        rows of ``support_vectors_``, or training samples of positive weight in batch
        (``gaussian[row 12]``); on a single column, they are values of it (``gaussian[age = 31]``).

    Examples
    --------
    >>> import numpy as np
    >>> from omkl import OnlineMKLClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> kernels = {"first": "linear:on=0:1", "second": "linear:on=1:2"}
    >>> model = OnlineMKLClassifier(kernels, random_state=0)
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
    features: list[Record]

    def strongest_groups(self, n: int = SHOWN) -> list[tuple[str, float]]:
        """List the groups with the largest contributions.

        Parameters
        ----------
        n : int
            Maximum number of entries. If there are more groups, the last entry is the sum of all
            others.

        Returns
        -------
        list of (name, contribution)
        """
        nonzero = [(name, value) for name, value in self.groups.items() if value]
        ranked = sorted(nonzero, key=lambda pair: -abs(pair[1]))
        if len(ranked) <= n:
            return ranked
        others = ranked[n - 1 :]
        total_of_others = sum(value for _, value in others)
        return [*ranked[: n - 1], (f"{len(others)} others", total_of_others)]

    def __str__(self) -> str:
        lines = [f"{self.summary}: {self.margin:+.3g}", ""]
        lines += _table("group", self.strongest_groups())
        rows = []
        for record in self.features:
            rows.append((name_with_place(record), record["adds"]))
        if rows:
            lines += ["", *_table("feature", rows)]
        return "\n".join(lines)


def name_with_place(feature: Record) -> str:
    """Return the name of a feature of an explanation, with its token if it has one."""
    if feature["token"] is None:
        return feature["feature"]
    return f"{feature['feature']} at {feature['token']}"


def _table(title: str, rows: Sequence[tuple[str, float]]) -> list[str]:
    """Format contributions as lines of numbers, names and bars."""
    largest = max((abs(value) for _, value in rows), default=0.0) or 1.0
    width = min(max((len(name) for name, _ in rows), default=0), NAME)
    lines = [f"{'adds':>10}  {title}"]
    for name, value in rows:
        sign = "+" if value > 0 else "-"
        bar = sign * max(1, round(BAR * abs(value) / largest))
        lines.append(f"{f'{value:+.3g}':>10}  {name:{width}}  {bar}".rstrip())
    return lines


def explanation(
    output: Hashable | np.ndarray,
    against: Hashable | np.ndarray,
    summary: str,
    margin: float,
    adds: Contributions,
    n: int,
    names_of: Namer,
) -> Explanation:
    """Make an explanation from contributions, with the n strongest pieces as features."""
    check_number("n", n, above=0, integer=True)
    nonzero = [piece for piece in adds.pieces if piece.value]
    strongest = sorted(nonzero, key=lambda piece: -abs(piece.value))[: int(n)]
    features = []
    for name, piece in zip(names_of(strongest), strongest):
        features.append(
            {"feature": name, "group": piece.group, "token": piece.at, "adds": piece.value}
        )
    return Explanation(output, against, summary, float(margin), adds.groups, features)


def summary_of(differences: Sequence[str]) -> str:
    """Join the first differences of two outputs, and append the number of others."""
    if not differences:
        return "the same output"
    summary = "; ".join(differences[:TOLD])
    if len(differences) > TOLD:
        summary += f" and {len(differences) - TOLD} more"
    return summary


def other_class(n_classes: int, scores: np.ndarray, chosen: int) -> int:
    """Return the best class other than ``chosen``; ``scores`` are not used for two classes."""
    if n_classes < 2:
        raise InputError(
            "The model has a single class, so there is no other class to compare with."
        )
    if n_classes == 2:
        return 1 - chosen
    return int(np.argmax(np.where(np.arange(n_classes) == chosen, -np.inf, scores)))


def one_row(x: AnyRows | dict) -> Any:
    """Convert a single row to a table with one row."""
    if isinstance(x, dict):
        return [x]
    if is_table(x) or sparse.issparse(x) or is_list_of_dicts(x):
        return x
    if hasattr(x, "to_frame"):  # a row of a data frame
        return x.to_frame().T.infer_objects()
    return np.atleast_2d(x)


def name_of_support(
    group: str, place: str, column: Callable[[int], str], vector: np.ndarray
) -> str:
    """Name a support vector (d,) of a kernel by its value in a single column, else its place."""
    if len(vector) == 1:
        place = f"{column(0)} = {vector[0]:.4g}"
    return f"{group}[{place}]"


def name_of_column(names: Names, j: int) -> str:
    """Return the name of a column of X in the data frame, or its number from 0."""
    if names is None:
        return f"column {j}"
    return str(names[j])
