"""Banks of all kinds in compiled passes over sequences of tokens; their functions are those that the banks call."""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, inner
from omkl.groups import _jit_tables as tables
from omkl.groups.expansions import _jit_budget as budget
from omkl.groups.expansions._jit_budget import Held as Budgeted
from omkl.groups.expansions._jit_kernel import add_scaled, has_gradient, kernel_inner_products, measure, move


class Explicit(NamedTuple):
    """Features of tokens as CSR, and the arrays of a table with a row of label weights a feature."""

    features: tuple
    table: np.ndarray
    sums: np.ndarray
    groups: np.ndarray
    links: np.ndarray
    heads: np.ndarray


class Mapped(NamedTuple):
    """Dense features of the tokens of these rounds, all groups side by side, and a table with a row a label.

    All are None without feature maps.
    """

    features: np.ndarray | None
    starts: np.ndarray | None
    table: np.ndarray | None
    sums: np.ndarray | None
    touched: np.ndarray | None


class Cached(NamedTuple):
    """Gram matrices and potentials of all tokens, and dual coefficients."""

    grams: np.ndarray
    potentials: np.ndarray
    coefficients: np.ndarray
    sums: np.ndarray
    moved: np.ndarray


class Kernels(NamedTuple):
    """Kernel groups, cached or on a budget."""

    cached: Cached | None
    budgeted: Budgeted | None


class Banks(NamedTuple):
    """Banks in the order of their groups.

    Kernels, transitions and the arrays of feature maps that a model does not have are None: functions that take them
    return at once, and Numba does not compile the rest of them. Features and an intercept are cheap to compile, and
    have empty arrays then, which saves variants. Transitions and intercept are pairs of a table and its running sums.
    """

    explicit: Explicit
    mapped: Mapped
    kernels: Kernels
    transitions: tuple | None
    intercept: tuple


class Groups(NamedTuple):
    """Arrays of the group state for all groups, and for those of each bank."""

    rescaled: tuple
    rates: np.ndarray
    averages: np.ndarray
    bases: np.ndarray
    square_norms: np.ndarray
    square_gradients: np.ndarray
    #: Of the regularized groups, and of all.
    left_out: np.ndarray
    all_left_out: np.ndarray
    #: Number of groups up to the end of each bank.
    firsts: np.ndarray
    #: StepArrays and scales of the groups of each bank, or None.
    explicit: tuple
    mapped: tuple
    kernels: tuple | None
    transitions: tuple | None
    intercept: tuple


@borrowing
def add_potentials(banks, groups, low, first, last, unary, pairwise):
    """Compute the potentials of a sequence; its tokens are ``first .. last`` of those of all rounds."""
    unary[:] = 0.0
    explicit, mapped = banks.explicit, banks.mapped
    if len(explicit.heads):
        high = low + last - first
        tables.add_scores(explicit.features, low, high, explicit.table, explicit.groups, groups.explicit[1], unary)
    own = mapped.starts, mapped.table, mapped.sums, groups.mapped[1], 0.0
    left_out = groups.all_left_out[groups.firsts[0] : groups.firsts[1]]
    tables.add_mapped_scores(mapped.features, first, *own, left_out, unary)
    add_cached(banks.kernels.cached, groups.kernels, low, unary)
    add_budgeted(banks.kernels.budgeted, groups.kernels, first, unary)
    has_transitions = groups.firsts[2] < groups.firsts[3]  # not True, for which Numba would compile once more
    add_dense(banks, groups, has_transitions, unary, pairwise)


@inner
def add_cached(cached, own, low, unary):
    """Add the potentials of cached kernel groups."""
    if cached is not None:
        add_scaled(own[1], potentials_of(cached, low, len(unary)), unary)


@inner
def add_budgeted(budgeted, own, first, unary):
    """Add the potentials of kernel groups on a budget."""
    if budgeted is not None:
        add_scaled(own[1], budget.at_hand(budgeted, first, len(unary))[1], unary)


@borrowing
def add_dense(banks, groups, has_transitions, unary, pairwise):
    """Add the intercept, and set the potentials of transitions."""
    set_transitions(banks.transitions, groups.transitions, has_transitions, pairwise)
    if len(banks.intercept[0]):
        tables.add_constants(banks.intercept[0], groups.intercept[1][0], unary)


@borrowing
def set_transitions(transitions, own, has_transitions, pairwise):
    """Set the potentials of transitions."""
    if pairwise is not None:
        pairwise[:] = 0.0
        if transitions is not None and has_transitions:
            tables.add_constants(transitions[0], own[1][0], pairwise[0])


@borrowing
def add_averaged_dense(bank, factor, total, left_out, out):
    """Add the average of a dense table of one matrix, unless its group is left out."""
    if bank is not None:
        table, sums = bank
        for i in range(0 if left_out else out.shape[0]):
            row = min(i, table.shape[1] - 1)  # all tokens share a constant
            for j in range(out.shape[1]):
                value = factor * table[0, row, j]
                out[i, j] += (value + sums[0, row, j]) / total if total > 0.0 else value


@borrowing
def add_average(banks, groups, pending, total, factors, low, first, last, unary, pairwise):
    """Compute the potentials of the averaged model, without cached kernels; ``factors`` is working memory."""
    firsts, out = groups.firsts, groups.all_left_out
    for k in range(len(factors)):
        factors[k] = groups.rescaled.scales[k]
        if total > 0.0:
            factors[k] = groups.averages[k] + pending * factors[k]
    unary[:] = 0.0
    explicit, mapped = banks.explicit, banks.mapped
    if len(explicit.heads):
        average = explicit.table, explicit.sums, explicit.groups, factors, total, out
        tables.add_averaged_scores(explicit.features, low, low + last - first, *average, unary)
    own = slice(firsts[0], firsts[1])
    arrays = mapped.starts, mapped.table, mapped.sums
    tables.add_mapped_scores(mapped.features, first, *arrays, factors[own], total, out[own], unary)
    own = slice(firsts[1], firsts[2])
    budget.add_averaged(banks.kernels.budgeted, factors[own], total, out[own], first, unary)
    add_averaged_transitions(banks.transitions, factors, total, out, firsts[2], pairwise)
    if len(banks.intercept[0]):
        add_averaged_dense(banks.intercept, factors[firsts[3]], total, out[firsts[3]], unary)


@borrowing
def add_averaged_transitions(transitions, factors, total, left_out, k, pairwise):
    """Set the average of transitions, group k."""
    if pairwise is not None:
        pairwise[:] = 0.0
        add_averaged_dense(transitions, factors[k], total, left_out[k], pairwise[0])


@inner
def potentials_of(cached, low, n):
    """Return the potentials of each cached kernel group at some tokens, (p, n, K), a view."""
    return cached.potentials[:, :, low : low + n].transpose(0, 2, 1)


@inner
def slopes_of_cached(cached, low, gradient, slopes, totals):
    """Write the inner products of cached kernel groups with a gradient."""
    if cached is not None:
        kernel_inner_products(potentials_of(cached, low, len(gradient)), gradient, slopes, totals)


@inner
def slopes_of_budgeted(budgeted, first, gradient, slopes, totals):
    """Write those of kernel groups on a budget."""
    if budgeted is not None:
        kernel_inner_products(budget.at_hand(budgeted, first, len(gradient))[1], gradient, slopes, totals)


@inner
def measure_kernels(values, potentials, own, gradient, alone):
    """Measure the step of kernel groups, given kernel values among tokens; return whether nonempty ones move."""
    moving = has_gradient(gradient)
    among = np.empty((len(values), len(moving), len(moving)), values.dtype)
    for k in range(len(values)):
        for i in range(len(moving)):
            for j in range(len(moving)):
                among[k, i, j] = values[k, moving[i], moving[j]]
    return measure(among, potentials, moving, gradient, own[0], alone)


@inner
def step_cached(cached, own, low, gradient):
    """Take the gradient step of cached kernel groups; empty ones wait for :func:`move_cached`."""
    if cached is not None:
        n = len(gradient)
        values = cached.grams[:, low : low + n, low : low + n]
        if measure_kernels(values, potentials_of(cached, low, n), own, gradient, False):
            move_cached(cached, own, low, gradient, ~own[0].empty)


@inner
def step_budgeted(budgeted, own, first, gradient):
    """Take that of kernel groups on a budget."""
    if budgeted is not None and measure_kernels(*budget.at_hand(budgeted, first, len(gradient)), own, gradient, True):
        move_budgeted(budgeted, own, first, gradient, ~own[0].empty)


@inner
def move_cached(cached, own, low, gradient, chosen):
    """Change the coefficients and potentials of the chosen cached kernel groups along the gradient."""
    if cached is not None:
        moving = has_gradient(gradient)
        tokens = low + moving
        arrays = cached.potentials, cached.coefficients, cached.sums
        move(cached.grams, tokens, tokens, gradient[moving], chosen, *arrays, own[0].rates, own[0].averages)
        for k in range(len(chosen)):
            cached.moved[k] |= chosen[k]


@inner
def move_budgeted(budgeted, own, first, gradient, chosen):
    """Change those on a budget, and their norms."""
    moving = has_gradient(gradient)
    budget.step(moving, gradient[moving], chosen, first, len(gradient), own[1], own[0], budgeted)


@inner
def activate_budgeted(budgeted, own, first, gradient, activated):
    """Take the postponed step, whose norms are known, of groups on a budget; steps add to the norms."""
    if budgeted is not None:
        for k in range(len(activated)):
            if activated[k]:
                own[0].square_norms[k] = 0.0
        move_budgeted(budgeted, own, first, gradient, activated)


@borrowing
def step_along(banks, groups, low, first, last, gradient, pair_gradient, total):
    """Take the gradient step of all banks; ``total`` (1, 1, K) is working memory."""
    explicit, mapped = banks.explicit, banks.mapped
    if len(explicit.heads):
        arrays = explicit.table, explicit.sums, explicit.groups, explicit.links, explicit.heads
        tables.step_features(explicit.features, low, gradient, *arrays, groups.explicit[0])
    own = mapped.table, mapped.sums, mapped.touched
    tables.step_maps(mapped.features, first, mapped.starts, gradient, *own, groups.mapped[0])
    step_cached(banks.kernels.cached, groups.kernels, low, gradient)
    step_budgeted(banks.kernels.budgeted, groups.kernels, first, gradient)
    step_transitions(banks.transitions, groups.transitions, pair_gradient)
    if len(banks.intercept[0]):
        total[:] = 0.0
        for i in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                total[0, 0, j] += gradient[i, j]
        tables.step_dense(total, banks.intercept[0], banks.intercept[1], groups.intercept[0])


@borrowing
def step_transitions(transitions, own, gradient):
    """Take the gradient step of transitions."""
    if transitions is not None:
        tables.step_dense(gradient, transitions[0], transitions[1], own[0])


@borrowing
def fold_dense(bank, factor, average):
    """Multiply the direction of a group with a dense table, after adding its share of the average to its sums."""
    if bank is not None:
        table, sums = bank
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                if len(sums):
                    sums[0, i, j] += average * table[0, i, j]
                table[0, i, j] *= factor


@inner
def fold_cached(cached, k, factor, average):
    """Multiply the direction of a kernel group likewise."""
    if cached is not None and cached.moved[k]:
        for i in range(cached.coefficients.shape[1]):
            for j in range(cached.coefficients.shape[2]):
                if cached.sums.shape[1]:
                    cached.sums[k, i, j] += average * cached.coefficients[k, i, j]
                cached.coefficients[k, i, j] *= factor
        for j in range(cached.potentials.shape[1]):
            for i in range(cached.potentials.shape[2]):
                cached.potentials[k, j, i] *= cached.potentials.dtype.type(factor)
        cached.moved[k] = factor != 0.0


@inner
def fold_budgeted(budgeted, k, factor, average):
    """Multiply the direction of a kernel group on a budget likewise."""
    if budgeted is not None:
        own = budgeted.coefficients[k], budgeted.sums[k], budgeted.squares[k], budgeted.diagonals[k]
        budget.fold(factor, average, *own)


@borrowing
def fold(k, factor, banks, firsts, averages):
    """Multiply the direction of group k, after what it gave to the average is added to its sums."""
    explicit, mapped = banks.explicit, banks.mapped
    if k < firsts[0]:
        tables.scale_group(k, factor, explicit.table, explicit.sums, explicit.links, explicit.heads, averages[k])
    elif k < firsts[1]:
        own = mapped.starts, mapped.table, mapped.sums, mapped.touched
        tables.scale_map(k - firsts[0], factor, *own, averages[k])
    elif k < firsts[2]:
        fold_cached(banks.kernels.cached, k - firsts[1], factor, averages[k])
        fold_budgeted(banks.kernels.budgeted, k - firsts[1], factor, averages[k])
    elif k < firsts[3]:
        fold_dense(banks.transitions, factor, averages[k])
    else:
        fold_dense(banks.intercept, factor, averages[k])
    averages[k] = 0.0


@borrowing
def apply_events(banks, groups, allowed, low, first, gradient, moves):
    """Empty groups that have reached zero, activate others, and fold scales out of the range of good precision."""
    arrays, firsts = groups.rescaled, groups.firsts
    activated = arrays.activated[firsts[1] : firsts[2]]
    if moves and activated.any():
        move_cached(banks.kernels.cached, groups.kernels, low, gradient, activated)
        activate_budgeted(banks.kernels.budgeted, groups.kernels, first, gradient, activated)
    for k in range(len(arrays.scales)):
        if arrays.deactivated[k]:
            fold(k, 0.0, banks, firsts, groups.averages)
        scale = arrays.scales[k]
        if scale != 0.0 and (scale < allowed[0] or scale > allowed[1]):
            arrays.square_norms[k] *= scale**2
            arrays.scales[k] = 1.0
            fold(k, scale, banks, firsts, groups.averages)


@borrowing
def add_reference(banks, groups, unary, pairwise):
    """Compute the potentials of a model without its regularized groups."""
    unary[:] = 0.0
    add_dense(banks, groups, groups.firsts[2] >= len(groups.left_out), unary, pairwise)


@borrowing
def slopes_of(banks, groups, low, first, last, gradient, pair_gradient, slopes, totals):
    """Write inner products of the potentials of regularized groups with a gradient, and sums of these potentials."""
    firsts = groups.firsts
    slopes[:], totals[:] = 0.0, 0.0
    explicit, mapped = banks.explicit, banks.mapped
    if len(explicit.heads):
        weights = explicit.table, explicit.groups, slopes[: firsts[0]], totals[: firsts[0]]
        tables.inner_products(explicit.features, low, gradient, *weights)
    own = slice(firsts[0], firsts[1])
    arrays = mapped.starts, mapped.table, gradient, slopes[own], totals[own]
    tables.mapped_inner_products(mapped.features, first, *arrays)
    own = slice(firsts[1], firsts[2])
    slopes_of_cached(banks.kernels.cached, low, gradient, slopes[own], totals[own])
    slopes_of_budgeted(banks.kernels.budgeted, first, gradient, slopes[own], totals[own])
    slopes_of_transitions(banks.transitions, pair_gradient, slopes[firsts[2] :])


@borrowing
def slopes_of_transitions(transitions, gradient, slopes):
    """Write the inner product of transitions with a gradient, if they are regularized."""
    if transitions is not None:
        table = transitions[0]
        for k in range(min(len(slopes), 1)):
            for i in range(table.shape[1]):
                for j in range(table.shape[2]):
                    slopes[k] += table[0, i, j] * gradient[0, i, j]
