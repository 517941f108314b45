"""Sums of regularizers, taken as proximal steps one after the other (Algorithm 1 with J > 1)."""

import numpy as np

from omkl.exceptions import InputError
from omkl.regularizers.base import Regularizer, as_vector
from omkl.regularizers.group_norms import Ridge


class Composite(Regularizer):
    r"""The sum :math:`R_1 + \dots + R_J`, whose proximal step is the steps of its terms in turn.

    Terms are put into the order that makes the composition the exact prox of the sum where one is known: l1 before
    anything on group norms, leaves of a tree before its root, the ridge after every positively homogeneous term, a
    ball last. ``exact`` says whether the composition is the exact prox; when it is not, Lemma 4 of Martins et al.
    (2011) still holds, because every term shrinks.

    Parameters
    ----------
    regularizers : sequence of Regularizer
        All on group norms, or on coordinates for use by themselves; a trainer takes any mixture.
    """

    def __init__(self, regularizers):
        flat = [term for regularizer in regularizers for term in _flatten(regularizer)]
        if not flat or not all(isinstance(term, Regularizer) for term in flat):
            raise InputError("A composite needs at least one regularizer, and nothing else.")
        self.regularizers = sorted(flat, key=lambda term: term.rank)

    @property
    def on_coordinates(self):
        return any(term.on_coordinates for term in self.regularizers)

    @property
    def exact(self):
        """Whether the proximal steps in turn are known to be the exact prox of the sum."""
        on_norms = [term for term in self.regularizers if term.rank > 0]
        if len(on_norms) <= 1:
            return True
        *before, last = on_norms
        separable = all(term.homogeneous and term.rank == 2 for term in before)
        return separable and (isinstance(_unscaled(last), Ridge) or (last.homogeneous and last.rank == 2))

    def value(self, norms):
        return sum(term.value(norms) for term in self.regularizers)

    def prox(self, norms, step):
        norms = as_vector(norms)
        for term in self.regularizers:
            norms = term.prox(norms, step)
        return norms

    def conjugate(self, dual_norms):
        r"""The infimal convolution of the terms' conjugates, by a proximal-point ascent of :math:`y^\top b - \psi(b)`.

        Raises
        ------
        InputError
            If the composition is not the exact prox of the sum, on which the ascent rests.
        """
        if not self.exact:
            raise InputError(
                "The conjugate of this composite is not available: its prox is not exact in any known order."
            )
        dual_norms = as_vector(dual_norms)
        point, step, best = np.zeros_like(dual_norms), 1.0, 0.0
        for _ in range(60):
            moved = self.prox(point + step * dual_norms, step)
            best = max(best, float(dual_norms @ moved) - self.value(moved))
            drift = np.abs(moved - point).max(initial=0.0) / step
            if drift * step <= 1e-12 * (1.0 + np.abs(moved).max(initial=0.0)):
                return best
            point, step = moved, min(step * 4.0, 1e8)
        # the drift of the proximal-point iteration tends to the distance of y from the conjugate's domain
        return best if drift <= 1e-6 else np.inf

    def norm_bound(self, value, n_groups):
        return min(term.norm_bound(value, n_groups) for term in self.regularizers)

    def kernel_weights(self, norms):
        # 1/d_k = psi'(b_k)/b_k is additive over the terms
        inverse = np.zeros_like(as_vector(norms))
        for term in self.regularizers:
            weights = term.kernel_weights(norms)
            inverse += np.divide(1.0, weights, out=np.full_like(weights, np.inf), where=weights > 0)
        return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=np.isfinite(inverse) & (inverse > 0))

    def terms(self):
        return tuple(step for regularizer in self.regularizers for step in regularizer.terms())

    def bind(self, names):
        return Composite([regularizer.bind(names) for regularizer in self.regularizers])


def _flatten(regularizer):
    return regularizer.regularizers if isinstance(regularizer, Composite) else [regularizer]


def _unscaled(regularizer):
    return getattr(regularizer, "regularizer", regularizer)
