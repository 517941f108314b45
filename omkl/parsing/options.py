"""Options of the parser: the form of its trees, and how it searches them."""

from __future__ import annotations

from dataclasses import dataclass

from omkl.estimators.options import Options
from omkl.estimators.validation import Number, OneOf


@dataclass(frozen=True, eq=False, repr=False)
class TreeForm(Options):
    """Form of the trees that a parser learns and predicts.

    Parameters
    ----------
    projective : bool
        Restrict trees to projective ones. Non-projective training sentences are dropped, with a
        warning.
    single_root : bool
        Require a single child of the root, as in Universal Dependencies. Other training sentences
        raise an error.
    labeled : bool
        Learn and predict relations.

    Examples
    --------
    >>> from omkl import DependencyParser, TreeForm
    >>> parser = DependencyParser(trees=TreeForm(projective=True))
    """

    constraints = dict.fromkeys(("projective", "single_root", "labeled"), OneOf((True, False)))

    projective: bool = False
    single_root: bool = True
    labeled: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class TreeSearch(Options):
    """Arcs and parts that a parser scores, and the tree that it predicts.

    Parameters
    ----------
    order : {1, 2}
        Largest parts of trees with scores. 1: arcs. 2: also grandparent parts (an arc and the arc
        to its head) and sibling parts (two adjacent modifiers on one side of a head), if there are
        templates for these. A parser of order 1 is trained first, and a second training learns the
        templates of parts, given the potentials of parsers trained on other sentences. It takes at
        most three epochs; ``early_stopping`` and ``callbacks`` refer to it. The best tree is
        searched by hill climbing. Order 2 takes two to three times as long to train, and is not for
        streams or ``loss="crf"``.
    likely : float, optional
        Coarse-to-fine parsing (Charniak and Johnson 2005; Rush and Petrov 2012): a small parser
        selects the arcs to score. These are the arcs of its tree, and arcs within a margin of the
        best arc of each word. The margin is the smallest one for which this fraction, in (0, 1), of
        the gold arcs is selected. Other arcs have probability 0. Not for streams. None scores all
        arcs.
    folds : int
        Number of folds of the training data for first parsers, at least 2.
    decode : {"map", "marginal"}
        Predict the highest-scoring tree, or the tree with the largest expected number of correct
        heads (minimum risk). The latter requires probabilities like
        :meth:`~omkl.DependencyParser.predict_marginals`, and takes O(n^3) time for n words.

    Examples
    --------
    >>> from omkl import DependencyParser, TreeSearch
    >>> parser = DependencyParser(search=TreeSearch(order=1, likely=0.99))
    """

    constraints = {
        "order": OneOf((1, 2)),
        "likely": Number(above=0, below=1, also=(None,)),
        "folds": Number(above=1, integer=True),
        "decode": OneOf(("map", "marginal")),
    }

    order: int = 2
    likely: float | None = None
    folds: int = 2
    decode: str = "map"
