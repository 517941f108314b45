"""Hashed features of the arcs of given trees."""

from __future__ import annotations

import numpy as np

from omkl.groups._jit_arc_features import list_features
from omkl.groups.arc_layout import ArcSentence, TemplateLayout
from omkl.groups.templates import TemplateSet
from omkl.groups.tokens import Features, Tokens


class ArcFeatureHasher:
    """Lists the hashed features of the arcs of a tree, for classifiers of arcs: each template is a group.

    Parameters
    ----------
    templates : TemplateSet
    rows : int
        Features of each template are hashed to this many rows.
    """

    def __init__(self, templates: TemplateSet, rows: int) -> None:
        self._layout = layout = TemplateLayout(templates)
        p, variant = np.nonzero(layout.groups >= 0)
        order = np.argsort(layout.groups[p, variant])
        p, self._variants = p[order], variant[order]
        self._pairs, self._between = layout.pairs[p], layout.between[p]
        self._bases = np.arange(len(p) + 1) * rows
        self.groups = np.repeat(np.arange(len(p), dtype=np.int32), rows)

    def tokens(self, x: ArcSentence, heads: np.ndarray) -> Tokens:
        """The arc into each token of a sentence as a token with features, the sentence as one sequence."""
        n = len(x)
        keys = self._layout.keys(x)
        most = n * (len(self._pairs) + n * int(np.count_nonzero(self._between >= 0)))
        starts, ids = np.zeros(n + 1, np.int64), np.empty(most, np.int32)
        count = list_features(
            *keys, self._pairs, self._between, self._variants, self._bases, self._layout.bins(n), heads, starts, ids
        )
        features = Features(starts, ids[:count], np.ones(count))
        return Tokens(np.array([0, n]), features, n_features=int(self._bases[-1]))
