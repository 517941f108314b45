"""What a regularizer is: a convex function of a vector, known by its value, its prox and its conjugate."""

from typing import ClassVar

import numpy as np

from omkl._components import Component
from omkl.exceptions import InputError


class Regularizer(Component):
    r"""A convex, even function :math:`\psi` of a vector, increasing in every magnitude.

    The vector is the group norms :math:`b_k = \|\theta_k\|` when ``on_coordinates`` is False: by Proposition 1 of
    Martins et al. (2011) the proximity operator of :math:`R(\theta) = \psi(b)` moves every group along its own ray,
    so a regularizer needs nothing else, and works in an RKHS. It is the coordinates of :math:`\theta` otherwise.

    Terms are scaled and added with the usual operators: ``0.3 * L1() + 0.7 * L21()`` is a
    :class:`~omkl.regularizers.Composite`.

    Every method takes one-dimensional arrays. Signed vectors are accepted: the functions are even, and the prox
    keeps signs.
    """

    on_coordinates: ClassVar[bool] = False
    #: Place in an ordered composite: terms with a smaller rank take their proximal step first.
    rank: ClassVar[int] = 2
    #: A sum over groups: :math:`\\psi(b) = \\sum_k \\psi_k(b_k)`.
    separable: ClassVar[bool] = False
    #: Positively homogeneous (``psi(c x) = c psi(x)``): a ridge term after it composes exactly.
    homogeneous: ClassVar[bool] = False

    def value(self, norms):
        r""":math:`\psi(b)`, a float (``inf`` outside the domain)."""
        raise NotImplementedError

    def prox(self, norms, step):
        r""":math:`\arg\min_x\ t \psi(x) + \frac12 \|x - b\|^2` with ``t = step >= 0``; an array like ``norms``."""
        raise NotImplementedError

    def conjugate(self, dual_norms):
        r""":math:`\psi^*(y) = \sup_b\ y^\top b - \psi(b)`, a float (``inf`` outside the domain)."""
        raise NotImplementedError

    def kernel_weights(self, norms):
        r"""The weights of the kernels at the solution with these group norms (section 2 of the MKL correspondence).

        A regularizer that is a sum of :math:`g_k(\|f_k\|^2)` gives :math:`d_k = 1 / (2 g_k'(b_k^2))`; the squared
        mixed norms give weights that sum to one.
        """
        raise NotImplementedError

    def dual_scale(self, dual_norms):
        r"""The largest factor in (0, 1] at which :math:`\psi^*` is finite: it makes a dual point feasible."""
        return 1.0

    @property
    def differentiable_prox(self):
        """Whether the two methods below are there, which Newton's method for proximal steps needs."""
        return self.separable

    def prox_slope(self, norms, step):
        r"""Diagonal s of the Jacobian of :math:`\mathrm{prox}_{t \psi}` at ``b >= 0``, but for its coupling; in [0, 1].

        The whole is :math:`\mathrm{diag}(s) - c c^\top` with the coupling c. Of a sum over groups these are the
        derivatives of :math:`\mathrm{prox}_{t \psi_k}`.
        """
        raise NotImplementedError

    def prox_coupling(self, norms, step):
        """The vector c of :meth:`prox_slope`; None for a sum over groups, which has none."""
        return None

    def conjugate_gradient(self, dual_norms):
        r"""Derivative of each :math:`\psi_k^*` at ``y_k >= 0``; only where :math:`\psi_k^*` is smooth."""
        raise NotImplementedError

    def conjugate_curvature(self, dual_norms):
        r"""Second derivative of each :math:`\psi_k^*` at ``y_k >= 0``, from the right."""
        raise NotImplementedError

    def norm_bound(self, value, n_groups):
        r"""The largest :math:`\|b\|_2` with :math:`\psi(b) \le` ``value``; ``inf`` where none is known."""
        return np.inf

    def terms(self):
        """The proximal steps that Algorithm 1 takes for this regularizer, in order: itself, unless it is composite."""
        return (self,)

    def bind(self, names):
        """The same regularizer for groups with these names; only those that refer to groups by name differ."""
        return self

    def __mul__(self, factor):
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __add__(self, other):
        from omkl.regularizers.composite import Composite

        return Composite([self, other])


class Scaled(Regularizer):
    r""":math:`c\, \psi(b)` for a factor :math:`c > 0`; written ``c * regularizer``.

    >>> from omkl.regularizers import L21
    >>> (2 * L21()).prox([3.0, 1.0], step=0.5)
    array([2., 0.])
    """

    def __init__(self, regularizer, factor):
        if not factor > 0 or not np.isfinite(factor):
            raise InputError(f"A regularizer can only be scaled by a finite factor > 0, not {factor!r}.")
        self.regularizer = regularizer
        self.factor = float(factor)

    @property
    def on_coordinates(self):
        return self.regularizer.on_coordinates

    @property
    def rank(self):
        return self.regularizer.rank

    @property
    def homogeneous(self):
        return self.regularizer.homogeneous

    def value(self, norms):
        return self.factor * self.regularizer.value(norms)

    def prox(self, norms, step):
        return self.regularizer.prox(norms, self.factor * step)

    def conjugate(self, dual_norms):
        return self.factor * self.regularizer.conjugate(np.asarray(dual_norms) / self.factor)

    def kernel_weights(self, norms):
        return self.regularizer.kernel_weights(norms) / self.factor

    @property
    def separable(self):
        return self.regularizer.separable

    def dual_scale(self, dual_norms):
        return self.regularizer.dual_scale(np.asarray(dual_norms) / self.factor)

    @property
    def differentiable_prox(self):
        return self.regularizer.differentiable_prox

    def prox_slope(self, norms, step):
        return self.regularizer.prox_slope(norms, self.factor * step)

    def prox_coupling(self, norms, step):
        return self.regularizer.prox_coupling(norms, self.factor * step)

    def conjugate_gradient(self, dual_norms):
        return self.regularizer.conjugate_gradient(np.asarray(dual_norms) / self.factor)

    def conjugate_curvature(self, dual_norms):
        return self.regularizer.conjugate_curvature(np.asarray(dual_norms) / self.factor) / self.factor

    def norm_bound(self, value, n_groups):
        return self.regularizer.norm_bound(value / self.factor, n_groups)

    def terms(self):
        inner = self.regularizer.terms()
        return (self,) if len(inner) == 1 else tuple(Scaled(term, self.factor) for term in inner)

    def bind(self, names):
        return Scaled(self.regularizer.bind(names), self.factor)


def as_vector(values):
    """A one-dimensional float64 array of ``values``, without a copy where it already is one."""
    return np.asarray(values, dtype=np.float64)


def ratio_or_zero(numerator, denominator):
    """Elementwise quotient, 0 where the denominator is 0."""
    numerator = as_vector(numerator)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=np.asarray(denominator) != 0)
