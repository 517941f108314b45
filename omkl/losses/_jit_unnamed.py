"""Functions of a structure that refuse to be called.

:mod:`omkl.testing` puts them in the place of the functions that ``calls`` of a loss does not name.
In training, these are not compiled, and have no address. Signatures are those of
:mod:`omkl.signatures`. Addresses are never negative: a function that only raises would have another
signature.
"""

from omkl._compilation import compiled


@compiled
def decode(structure, unary, pairwise, gold, cost_weight, labels):
    """Raise an error."""
    if structure >= 0:
        raise AssertionError("`calls` must name 'decode', which the compiled function calls.")
    return 0.0


@compiled
def marginals(structure, unary, pairwise, unary_marginals, pair_marginals):
    """Raise an error."""
    if structure >= 0:
        raise AssertionError("`calls` must name 'marginals', which the compiled function calls.")
    return 0.0


@compiled
def score(structure, unary, pairwise, labels):
    """Raise an error."""
    if structure >= 0:
        raise AssertionError("`calls` must name 'score', which the compiled function calls.")
    return 0.0


@compiled
def indicate(structure, unary, pairwise, labels, amount):
    """Raise an error."""
    if structure >= 0:
        raise AssertionError("`calls` must name 'indicate', which the compiled function calls.")


@compiled
def cost(structure, gold, labels):
    """Raise an error."""
    if structure >= 0:
        raise AssertionError("`calls` must name 'cost', which the compiled function calls.")
    return 0.0


@compiled
def augment(structure, unary, gold, cost_weight):
    """Raise an error."""
    if structure >= 0:
        raise AssertionError("`calls` must name 'augment', which the compiled function calls.")


#: These functions by their names.
UNNAMED = {
    "decode": decode,
    "marginals": marginals,
    "score": score,
    "indicate": indicate,
    "cost": cost,
    "augment": augment,
}
