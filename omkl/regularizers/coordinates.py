"""Regularizers with structure inside or across groups: l1, sparse group lasso, overlapping and tree groups.

:class:`L1` and :class:`SparseGroup` need the coordinates of the parameters, so they serve explicit features only.
:class:`OverlappingGroups` and :class:`TreeGroups` act on whichever vector they are given. Norms of unions of groups,
:math:`\\|\\theta_g\\| = (\\sum_{k \\in g} b_k^2)^{1/2}`, are functions of the group norms, so Proposition 1 holds for
them: in a trainer they take unions of the model's own groups, kernels included. For overlaps between single
features, let every feature be a group of its own.
"""

import numpy as np

from omkl.exceptions import InputError
from omkl.regularizers._jit_prox import prox_overlapping, shrink_groups_in_turn, soft_threshold
from omkl.regularizers.base import Regularizer, as_vector
from omkl.regularizers.group_norms import L21


class L1(L21):
    r"""The lasso penalty :math:`\sum_i |\theta_i|` on every coordinate."""

    aliases = {"l1": {}, "lasso": {}}
    on_coordinates = True
    rank = 0


class _UnionOfGroups(Regularizer):
    r""":math:`\sum_g w_g \|x_g\|_2` over index sets g; shared by overlapping and tree groups."""

    rank = 1
    homogeneous = True

    def __init__(self, groups, weights=None):
        self.groups = [list(group) for group in groups]
        if not self.groups or not all(self.groups):
            raise InputError("groups must be a non-empty list of non-empty lists of indices or names.")
        self.weights = np.ones(len(self.groups)) if weights is None else np.array(weights, dtype=np.float64)
        if self.weights.shape != (len(self.groups),) or not np.all(self.weights >= 0):
            raise InputError(f"weights must hold one number >= 0 for each of the {len(self.groups)} groups.")
        if all(isinstance(member, (int, np.integer)) for group in self.groups for member in group):
            self._prepare()

    def parameters(self):
        return {"groups": self.groups, "weights": self.weights.tolist()}

    def _prepare(self):
        self._size = 1 + max(map(max, self.groups))
        order = self._order()
        self._starts = np.cumsum([0] + [len(self.groups[g]) for g in order])
        self._members = np.array([member for g in order for member in self.groups[g]], dtype=np.int64)
        self._ordered_weights = self.weights[order]

    def _order(self):
        return list(range(len(self.groups)))

    def bind(self, names):
        index = {name: k for k, name in enumerate(names)}
        try:
            groups = [[index[m] if isinstance(m, str) else m for m in group] for group in self.groups]
        except KeyError as error:
            raise InputError(f"No group is called {error.args[0]!r}; there are {', '.join(names)}.") from None
        return type(self)(groups, self.weights)

    def _checked(self, norms):
        norms = as_vector(norms)
        if norms.size < self._size:
            raise InputError(f"groups refers to index {self._size - 1}, but the vector has {norms.size} entries.")
        return norms

    def _union_norms(self, norms):
        return np.sqrt(np.add.reduceat(self._checked(norms)[self._members] ** 2, self._starts[:-1]))

    def value(self, norms):
        return float(self._ordered_weights @ self._union_norms(norms))

    def conjugate(self, dual_norms):
        # the conjugate of a norm is the indicator of its dual ball, where the unit proximal step gives zero; on the
        # boundary the ascent for it converges slowly
        scale = np.abs(dual_norms).max(initial=0.0)
        return 0.0 if np.abs(self._exact_prox(dual_norms, 1.0)).max(initial=0.0) <= 1e-4 * scale else np.inf

    def _exact_prox(self, norms, step):
        norms = self._checked(norms)
        tolerance = 1e-13 * (1.0 + np.abs(norms).max(initial=0.0))
        return prox_overlapping(norms, self._starts, self._members, step * self._ordered_weights, tolerance, 10_000)

    def kernel_weights(self, norms):
        norms = np.abs(self._checked(norms))
        # d_k = b_k / psi'(b_k), with psi'(b_k) = sum over the unions g that hold k of w_g b_k / ||b_g||
        inverse = np.zeros_like(norms)
        union_norms = self._union_norms(norms)
        slopes = np.divide(self._ordered_weights, union_norms, out=np.zeros_like(union_norms), where=union_norms > 0)
        np.add.at(inverse, self._members, np.repeat(slopes, np.diff(self._starts)))
        covered = np.divide(1.0, inverse, out=np.zeros_like(norms), where=inverse > 0)
        return np.where((inverse == 0) & (norms > 0), np.inf, np.where(norms > 0, covered, 0.0))


class OverlappingGroups(_UnionOfGroups):
    r"""Group lasso with overlapping groups: :math:`\sum_g w_g \|x_g\|_2` (Jenatton et al. 2009).

    Parameters
    ----------
    groups : list of lists
        Members of each union, by index or by the name of a group of the model.
    weights : array of shape (number of unions,), optional
        Weights ``w_g >= 0``; 1 by default.
    exact : bool
        False takes Algorithm 1's composite step, the prox of each union in turn. For general overlaps that is only a
        sequence of proximal steps, not the prox of the sum (Lemma 4 of Martins et al. needs no more). True solves
        for the prox of the sum, by block coordinate ascent on its dual; it costs several sweeps instead of one.
    """

    aliases = {"overlapping": {}}

    def __init__(self, groups, weights=None, exact=False):
        self.exact = bool(exact)
        super().__init__(groups, weights)

    def parameters(self):
        return {**super().parameters(), "exact": self.exact}

    def bind(self, names):
        bound = super().bind(names)
        bound.exact = self.exact
        return bound

    def prox(self, norms, step):
        if self.exact:
            return self._exact_prox(norms, step)
        return shrink_groups_in_turn(self._checked(norms), self._starts, self._members, step * self._ordered_weights)


class TreeGroups(_UnionOfGroups):
    r"""Hierarchical penalty :math:`\sum_g w_g \|x_g\|_2` whose unions are nested or disjoint (Zhao et al. 2008).

    Any two unions must be disjoint, or one within the other; they may be listed in any order. Taking the proximal
    steps from the leaves to the root makes their composition the exact prox of the sum (Jenatton et al. 2011).

    >>> TreeGroups([[0, 1, 2], [0], [1, 2]]).prox([3.0, 0.4, 0.3], step=1.0)
    array([1., 0., 0.])
    """

    aliases = {"tree": {}}

    def _order(self):
        return sorted(range(len(self.groups)), key=lambda g: len(self.groups[g]))

    def _prepare(self):
        sets = [frozenset(group) for group in self.groups]
        for i, first in enumerate(sets):
            for j, second in enumerate(sets[:i]):
                if first & second and not (first <= second or second <= first):
                    raise InputError(
                        f"Groups {j} and {i} overlap and neither contains the other, so they form no tree: "
                        "use OverlappingGroups."
                    )
        super()._prepare()

    def prox(self, norms, step):
        return shrink_groups_in_turn(self._checked(norms), self._starts, self._members, step * self._ordered_weights)


class SparseGroup(Regularizer):
    r"""Sparse group lasso :math:`\sigma \sum_g \|x_g\|_2 + (1 - \sigma) \|x\|_1` (Friedman et al. 2010).

    Parameters
    ----------
    sigma : float in [0, 1]
        1 is the group lasso, 0 the lasso.
    groups : list of lists of int, optional
        A partition of the coordinates. Left out in a trainer, where the model's own groups are meant.

    Notes
    -----
    The prox takes the l1 step before the group step, which makes the composition exact; the other order is not.
    """

    aliases = {"sparse-group": {}}
    on_coordinates = True
    homogeneous = True

    def __init__(self, sigma=0.5, groups=None):
        if not 0 <= sigma <= 1:
            raise InputError(f"sigma must lie in [0, 1], not {sigma!r}.")
        self.sigma = float(sigma)
        self.groups = None if groups is None else [list(group) for group in groups]
        if groups is not None:
            members = sorted(i for group in self.groups for i in group)
            if members != list(range(len(members))):
                raise InputError("groups must be a partition of 0 .. n-1: every coordinate in exactly one group.")

    def _unions(self):
        if self.groups is None:
            raise InputError("SparseGroup needs groups to be evaluated by itself: give a partition of the coordinates.")
        return OverlappingGroups(self.groups)

    def value(self, norms):
        return self.sigma * self._unions().value(norms) + (1 - self.sigma) * float(np.abs(norms).sum())

    def prox(self, norms, step):
        return self._unions().prox(soft_threshold(as_vector(norms), step * (1 - self.sigma)), step * self.sigma)

    def conjugate(self, dual_norms):
        # y lies in sigma * group ball + (1 - sigma) * l_inf ball iff what exceeds the latter fits the former
        excess = self._unions()._union_norms(soft_threshold(as_vector(dual_norms), 1 - self.sigma))
        return 0.0 if excess.max(initial=0.0) <= self.sigma * (1 + 1e-12) else np.inf

    def norm_bound(self, value, n_groups):
        return value

    def kernel_weights(self, norms):
        return np.abs(as_vector(norms))

    def terms(self):
        steps = []
        if self.sigma < 1:
            steps.append((1 - self.sigma) * L1())
        if self.sigma > 0:
            steps.append(self.sigma * L21())
        return tuple(steps)
