"""Losses of structured prediction: functions of potentials, with gradients in potentials."""

from typing import ClassVar

import numpy as np

from omkl._components import NO_PARAMETERS, Component, check_number
from omkl.losses import _jit_structured as jit
from omkl.losses.base import ValueAndGradient
from omkl.structures.base import Output, Potentials, Structure, map_arrays


def complete_output(structure: Structure, potentials: Potentials, gold: Output) -> Output:
    """Fill in the unknown parts of a gold output: the best ones that agree with the known parts.

    This is learning with hidden variables, as in the latent structured perceptron (Sun, Matsuzaki,
    Okanohara, Tsujii 2009). A structure with partial outputs defines ``is_partial(gold)`` and
    ``agreeing(potentials, gold)``.

    Parameters
    ----------
    structure : Structure
    potentials : Potentials
    gold : Output
    """
    if not structure.is_partial(gold):
        return gold
    return structure.decode(structure.agreeing(potentials, gold))


class StructuredLoss(Component):
    """Base of structured losses: convex functions of the potentials, given the gold output.

    For partial gold outputs they are differences of two convex functions.

    ``value_and_gradient`` returns the value and the gradient ``D`` with respect to the potentials,
    or ``None`` if the gradient is zero, so that a trainer can skip the step.
    """

    #: True if the loss depends on the cost of outputs.
    uses_cost: ClassVar[bool] = True
    #: False if the compiled function calls no marginals: graphs then need not prepare them.
    uses_marginals: ClassVar[bool] = True
    #: True if trained potentials are log-probabilities, so that marginals need no calibration.
    is_likelihood: ClassVar[bool] = False
    #: Weight of the losses for ``C="auto"``.
    default_c: ClassVar[float] = 1.0
    required = ("value_and_gradient",)

    def value_and_gradient(
        self, structure: Structure, potentials: Potentials, gold: Output
    ) -> ValueAndGradient:
        """Return value and gradient of the loss at these potentials.

        Parameters
        ----------
        structure : omkl.structures.Structure
        potentials : Potentials
        gold : Output
            Parts may be unknown, if the structure defines ``is_partial`` and ``agreeing``. The loss
            then compares with the best output (CRF: all outputs) that agrees with the known parts;
            unknown parts cost nothing.

        Returns
        -------
        value : float >= 0
        gradient : Potentials or None
            Same shapes as ``potentials``; None if it is zero.
        """
        self.must_define("value_and_gradient")


class StructuredHinge(StructuredLoss):
    r"""Structured hinge loss, the max-margin loss of structured SVMs (Martins et al. 2011, Eq. 4).

    .. math:: L = \max_{y'} f(x, y') - f(x, y) + \ell(y, y'), \qquad D = 1[\hat y] - 1[y].

    Parameters
    ----------
    cost_weight : float >= 0
        Factor of the structure's cost, the required margin; 1 by default.
    """

    aliases = {"hinge": {}}
    compiled = property(lambda self: (jit.hinge, np.array([self.cost_weight])))
    uses_marginals = False

    def __init__(self, cost_weight: float = 1.0) -> None:
        check_number("cost_weight", cost_weight, least=0)
        self.cost_weight = float(cost_weight)

    def value_and_gradient(
        self, structure: Structure, potentials: Potentials, gold: Output
    ) -> ValueAndGradient:
        predicted = structure.loss_augmented(potentials, gold, self.cost_weight)
        correct = complete_output(structure, potentials, gold)
        gap, gradient = structure.difference(potentials, predicted, correct)
        value = gap + self.cost_weight * structure.cost(gold, predicted)
        if value <= 0.0:
            return 0.0, None
        return value, gradient


class CRF(StructuredLoss):
    r"""Negative log-likelihood of a conditional random field (Martins et al. 2011, Eq. 3).

    .. math:: L = \log \sum_{y'} \exp(f(x, y') - f(x, y)), \qquad D = E[1[y']] - 1[y].
    """

    aliases = {"crf": {}, "log": {}}
    uses_cost = False
    is_likelihood = True
    compiled = jit.crf, NO_PARAMETERS
    default_c = 10.0  # at C = 1 labelers are 1 to 4 points less accurate

    def value_and_gradient(
        self, structure: Structure, potentials: Potentials, gold: Output
    ) -> ValueAndGradient:
        log_partition, marginals = structure.marginals(potentials)
        if structure.is_partial(gold):
            agreeing = structure.agreeing(potentials, gold)
            log_partition_of_gold, marginals_of_gold = structure.marginals(agreeing)
            gradient = map_arrays(np.subtract, marginals, marginals_of_gold)
            return max(log_partition - log_partition_of_gold, 0.0), gradient
        gold_score = structure.score(potentials, gold)
        structure.subtract_indicator(marginals, gold)  # in place: they become the gradient
        return max(log_partition - gold_score, 0.0), marginals


class SoftmaxMargin(CRF):
    r"""Likelihood with the cost of wrong outputs added to their scores.

    .. math:: L = \log \sum_{y'} \exp(f(x, y') - f(x, y) + \ell(y, y')),
        \qquad D = E_{f + \ell}[1[y']] - 1[y]

    (Gimpel and Smith 2010, Softmax-margin CRFs). It bounds the structured hinge and the likelihood
    from above. Potentials are not log-probabilities: marginals are calibrated on held-out data, as
    for the hinge.

    Parameters
    ----------
    cost_weight : float >= 0
        Factor of the structure's cost; 1 by default.
    """

    aliases = {"softmax-margin": {}}
    uses_cost = True
    is_likelihood = False
    compiled = property(lambda self: (jit.softmax_margin, np.array([self.cost_weight])))

    def __init__(self, cost_weight: float = 1.0) -> None:
        check_number("cost_weight", cost_weight, least=0)
        self.cost_weight = float(cost_weight)

    def value_and_gradient(
        self, structure: Structure, potentials: Potentials, gold: Output
    ) -> ValueAndGradient:
        # the cost of the gold output is 0, or cancels in the difference
        augmented = structure.cost_augmented(potentials, gold, self.cost_weight)
        return super().value_and_gradient(structure, augmented, gold)


class Perceptron(StructuredLoss):
    r"""Loss of the structured perceptron (Collins 2002): the hinge without a margin.

    .. math:: L = \max_{y'} f(x, y') - f(x, y), \qquad D = 1[\hat y] - 1[y].

    With a constant rate, no regularizer and the averaged model, Algorithm 1 is the averaged
    perceptron.
    """

    aliases = {"perceptron": {}}
    compiled = jit.perceptron, NO_PARAMETERS
    uses_cost = False
    uses_marginals = False

    def value_and_gradient(
        self, structure: Structure, potentials: Potentials, gold: Output
    ) -> ValueAndGradient:
        predicted = structure.decode(potentials)
        correct = complete_output(structure, potentials, gold)
        if np.array_equal(predicted, correct):
            return 0.0, None
        gap, gradient = structure.difference(potentials, predicted, correct)
        return max(gap, 0.0), gradient
