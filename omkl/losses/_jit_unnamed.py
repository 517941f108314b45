"""Functions of a structure that refuse to be called.

:mod:`omkl.testing` puts them in the place of the functions that ``calls`` of a loss does not name.
In training, these are not compiled, and have no address. Signatures are those of
:mod:`omkl.signatures`.
"""

from omkl._compilation import compiled, inner


@inner
def refuse(structure, name):
    """Raise an error that names the function; only the compiler believes that a number returns."""
    if structure >= 0:  # as all addresses are; after a bare `raise` there is no type of the result
        raise AssertionError("`calls` must name '" + name + "', which the compiled function calls.")
    return 0.0


@compiled
def decode(structure, unary, pairwise, gold, cost_weight, labels):
    """Raise an error."""
    return refuse(structure, "decode")


@compiled
def marginals(structure, unary, pairwise, unary_marginals, pair_marginals):
    """Raise an error."""
    return refuse(structure, "marginals")


@compiled
def score(structure, unary, pairwise, labels):
    """Raise an error."""
    return refuse(structure, "score")


@compiled
def indicate(structure, unary, pairwise, labels, amount):
    """Raise an error."""
    refuse(structure, "indicate")


@compiled
def cost(structure, gold, labels):
    """Raise an error."""
    return refuse(structure, "cost")


@compiled
def augment(structure, unary, gold, cost_weight):
    """Raise an error."""
    refuse(structure, "augment")


#: These functions by their names.
UNNAMED = {
    "decode": decode,
    "marginals": marginals,
    "score": score,
    "indicate": indicate,
    "cost": cost,
    "augment": augment,
}
