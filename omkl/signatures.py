"""Signatures of the compiled functions that parts of a model bring.

They tell the shapes and the meaning of arguments. A part has its functions in its attribute
``compiled``. The driver of training calls them by address (:mod:`omkl._pointers`), and the rounds
in Python call the same functions. All arrays are contiguous. An example has ``n`` tokens and ``K``
labels (K = 1 for a number, and for two labels with one score); there are ``p`` groups.

Arguments that many functions share:

``unary`` (n, K), ``pairwise`` (E, K, K)
    Potentials; E = 0 without pairs of labels.
``gradient`` (n, K), ``pair_gradient`` (E, K, K)
    Gradient of the loss in them.
``bank``, ``x``, ``structure``, ``method``, ``groups``, ``part``
    Addresses of the arrays of a bank, of its input, and so on, see :class:`omkl._pointers.Layout`.
``at``
    Place of the first token of the example in the input ``x``.
"""

from typing import Any, NamedTuple

from numba import types

from omkl._pointers import (
    ADDRESS,
    CUBE,
    FLAG,
    FLOAT,
    INTEGER,
    INTEGERS,
    MATRIX,
    VECTOR,
    Signature,
)

NOTHING = types.void

# ---- banks ---------------------------------------------------------------------------------------

_EXAMPLE = {"bank": ADDRESS, "x": ADDRESS, "at": INTEGER}
_POTENTIALS = {"unary": MATRIX, "pairwise": CUBE}
_GRADIENT = {"gradient": MATRIX, "pair_gradient": CUBE}
#: Add the potentials of all groups to ``unary`` and ``pairwise``.
SCORES = Signature("scores", NOTHING, **_EXAMPLE, **_POTENTIALS)
#: Add the potentials of the averaged model ``(factors_k v_k + u_k) / total``, or ``factors_k v_k``
#: if ``total`` is 0.
AVERAGE = Signature("average", NOTHING, **_EXAMPLE, factors=VECTOR, total=FLOAT, **_POTENTIALS)
#: Step ``v_k -= rate_k g_k``; set the squared norms of ``g_k`` and ``v_k``. A bank may measure the
#: step of empty groups only, and take it when it is called again, with ``postponed``, for those
#: that have left zero.
STEP = Signature("step", NOTHING, **_EXAMPLE, **_GRADIENT, postponed=FLAG)
#: Multiply ``v_k`` of one group by ``factor``, after adding ``a_k v_k`` to its running sum; 0
#: empties the group.
FOLD = Signature("fold", NOTHING, bank=ADDRESS, group=INTEGER, factor=FLOAT)
#: Add inner products of the groups' potentials, before scaling, with the gradient to ``slopes``
#: (p,), and their unary potentials, summed over tokens, to ``totals`` (p, K).
SLOPES = Signature("slopes", NOTHING, **_EXAMPLE, **_GRADIENT, slopes=VECTOR, totals=MATRIX)


class BankFunctions(NamedTuple):
    """Compiled functions of a bank, each with the signature of the same name."""

    scores: Any
    average: Any
    step: Any
    fold: Any
    slopes: Any


# ---- structures ----------------------------------------------------------------------------------

_OF_STRUCTURE = {"structure": ADDRESS}
#: Write the best labels (n,), where each adds ``cost_weight`` times its cost to its score; return
#: its score and cost.
DECODE = Signature(
    "decode",
    FLOAT,
    **_OF_STRUCTURE,
    **_POTENTIALS,
    gold=INTEGERS,
    cost_weight=FLOAT,
    labels=INTEGERS,
)
#: Write the marginals of all parts; return log Z, minus infinity if nothing is allowed. Nan, if it
#: is not precise enough, so that ``marginals_in_logs`` is called.
MARGINALS = Signature("marginals", FLOAT, **_OF_STRUCTURE, **_POTENTIALS, **_GRADIENT)
#: The same, precise at any magnitude.
MARGINALS_IN_LOGS = MARGINALS
#: Return the score of labels (n,).
SCORE = Signature("score", FLOAT, **_OF_STRUCTURE, **_POTENTIALS, labels=INTEGERS)
#: Add ``amount`` to every part of the labels.
INDICATE = Signature(
    "indicate", NOTHING, **_OF_STRUCTURE, **_GRADIENT, labels=INTEGERS, amount=FLOAT
)
#: Return the cost of predicted labels; unknown gold labels (-1) cost nothing.
COST = Signature("cost", FLOAT, **_OF_STRUCTURE, gold=INTEGERS, labels=INTEGERS)
#: Add ``cost_weight`` times the cost of each label to its score.
AUGMENT = Signature(
    "augment", NOTHING, **_OF_STRUCTURE, unary=MATRIX, gold=INTEGERS, cost_weight=FLOAT
)


class StructureFunctions(NamedTuple):
    """Compiled functions of a structure of labels, each with the signature of the same name."""

    decode: Any
    marginals: Any
    score: Any
    indicate: Any
    cost: Any
    augment: Any
    #: None, if there is no such function: a nan of ``marginals`` is then final.
    marginals_in_logs: Any = None


# ---- losses --------------------------------------------------------------------------------------

#: Return the loss of a number ``z`` and its derivative, for the target ``y``; ``parameters`` are
#: those of the loss.
LOSS_OF_NUMBER = Signature(
    "loss of a number", types.UniTuple(FLOAT, 2), y=FLOAT, z=FLOAT, parameters=VECTOR
)
#: Return the loss of labels, and write its gradient. ``gold`` (n,) has -1 for an unknown label. The
#: functions of ``omkl.structures._jit_labels`` decode, and compute marginals.
LOSS_OF_LABELS = Signature(
    "loss of labels",
    FLOAT,
    **_OF_STRUCTURE,
    **_POTENTIALS,
    gold=INTEGERS,
    parameters=VECTOR,
    **_GRADIENT,
)

# ---- regularizers --------------------------------------------------------------------------------

#: Replace the norms (p,) by those after a proximal step; ``memory`` (2, p) is working memory.
PROX = Signature("prox", NOTHING, norms=VECTOR, step=FLOAT, parameters=VECTOR, memory=MATRIX)

# ---- schedules -----------------------------------------------------------------------------------

#: Return the rate of a round; ``factor`` is the round's entry of
#: :meth:`omkl.online.Schedule.factors`.
RATE = Signature("rate", FLOAT, numbers=VECTOR, factor=FLOAT, weight=FLOAT)
#: Add the weighted loss and the squared norm of the weighted gradient; return the rate, which the
#: first one sets.
OBSERVE = Signature(
    "observe", FLOAT, numbers=VECTOR, loss=FLOAT, square_gradient=FLOAT, weight=FLOAT, rate=FLOAT
)
#: Take in the model's distance from the origin, and the length of the gradient step.
REACH = Signature("reach", NOTHING, numbers=VECTOR, distance=FLOAT, step=FLOAT)


class ScheduleFunctions(NamedTuple):
    """Compiled functions of learning rates; ``numbers`` is the state of the schedule."""

    rate: Any
    observe: Any
    reach: Any


# ---- methods -------------------------------------------------------------------------------------

_OF_METHOD = {"method": ADDRESS}
#: Begin a round: count the last model into the average, and set rates and bases.
BEGIN = Signature(
    "begin", NOTHING, **_OF_METHOD, groups=ADDRESS, pending=FLOAT, rate=FLOAT, weight=FLOAT
)
#: Return the squared norm of the unweighted gradient of the latest step.
SQUARE = Signature("square", FLOAT, **_OF_METHOD, groups=ADDRESS, weight=FLOAT)
#: Shrink the norms (p,) before the terms of the regularizer do.
SHRINK = Signature("shrink", NOTHING, **_OF_METHOD, norms=VECTOR, step=FLOAT)
#: Return the distance of the model from the origin, given the norm of all its parameters.
DISTANCE = Signature("distance", FLOAT, **_OF_METHOD, norms=VECTOR, norm=FLOAT)
#: Write the factors (p,) from the directions ``v_k`` to the parts ``f_k`` of the model.
PART_SCALES = Signature("part scales", NOTHING, **_OF_METHOD, groups=ADDRESS, scales=VECTOR)


class MethodFunctions(NamedTuple):
    """Compiled functions of a method of online learning."""

    begin: Any
    square: Any
    shrink: Any
    distance: Any
    part_scales: Any


# ---- parts that examine examples before they are learned -----------------------------------------

_OF_PART = {"part": ADDRESS}
#: Return whether to look at the example after ``round`` rounds; called once for each example.
IS_DUE = Signature("is due", FLAG, **_OF_PART, round=INTEGER)
#: Look at an example: loss of the examined model, and its slopes (p,) and total potentials (p, K)
#: of groups.
LOOK = Signature(
    "look", NOTHING, **_OF_PART, weight=FLOAT, slopes=VECTOR, totals=MATRIX, gradient=MATRIX
)
#: Compare the loss of the examined model with that of the current one; return whether the stream
#: has changed.
COMPARE = Signature(
    "compare",
    FLAG,
    **_OF_PART,
    examined=FLOAT,
    current=FLOAT,
    round=INTEGER,
    losses=FLOAT,
    squares=FLOAT,
)


class ExaminerFunctions(NamedTuple):
    """Compiled functions of a part that examines examples; None for one that it lacks."""

    is_due: Any
    look: Any
    compare: Any


#: Functions that a part may lack.
OPTIONAL = {"marginals_in_logs", "look", "compare"}


def addresses_of(functions: Any) -> dict[str, int]:
    """Return the addresses of the compiled functions of a part, by their names.

    Parameters
    ----------
    functions : named tuple
        Such as :class:`BankFunctions`: each function has the signature of the same name.

    Returns
    -------
    dict of str to int
        0 for functions that are None, where that is allowed.

    Raises
    ------
    InputError
        If one is no compiled function, or has another signature.
    """
    addresses = {}
    for name, function in functions._asdict().items():
        addresses[name] = 0
        if function is not None or name not in OPTIONAL:
            addresses[name] = globals()[name.upper()].address_of(function)
    return addresses
