"""Edges: the parameter of the labeler of graphs about scores of edges."""

from dataclasses import dataclass
from typing import Any

from omkl.estimators.options import Options
from omkl.estimators.validation import Number, OneOf
from omkl.groups.edges import PAIRS
from omkl.sequences.transitions import SCORES


@dataclass(frozen=True, eq=False, repr=False)
class Edges(Options):
    """Scores of the pairs of labels at the ends of edges, and which pairs are allowed.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels on edges, in the language of the kernels on nodes. None uses a linear kernel on
        arrays.
    pairs : {"full", "symmetric", "equal", "potts"}, dict or None
        Weights of a feature of edges, and of edges without features: one for each ordered pair of
        labels, for each unordered pair, for each label that both ends have, or one for equal
        labels. None is "full" for directed edges, and "symmetric" for undirected ones. A dict gives
        the kind of some groups, as ``{"edge:near": "potts"}`` or ``{"transitions": "equal"}``; None
        is for the others.
    transitions : {"free", "regularized", None}
        Scores of pairs of labels that all edges share: not regularized, an additional regularized
        group, or none.
    allowed : dict, array of shape (K, K) or None
        Allowed labels of the two nodes of an edge, in training and prediction. A dict maps a label
        to the list of labels that the second node may have; labels that are not keys allow all. On
        large graphs with cycles, the search for an allowed labelling may end without one.
    sweeps : int > 0
        Maximum number of sweeps of message passing over a graph with cycles.

    Examples
    --------
    >>> from omkl import Edges, GraphLabeler
    >>> labeler = GraphLabeler("linear", Edges("linear", pairs="potts"))
    """

    constraints = {"transitions": SCORES, "sweeps": Number(above=0, integer=True)}

    kernels: Any = None
    pairs: str | dict[str, str] | None = None
    transitions: str | None = "free"
    allowed: Any = None
    sweeps: int = 400

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pairs, dict):
            OneOf((None, *PAIRS)).check("pairs", self.pairs)
