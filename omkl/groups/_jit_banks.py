"""Banks of all kinds in compiled passes over sequences of tokens; their functions are those that the banks call."""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, uncached
from omkl.groups._jit_tables import (
    add_averaged_maps,
    add_averaged_scores,
    add_constants,
    add_mapped_scores,
    add_scores,
    add_transitions,
    inner_products,
    mapped_inner_products,
    scale_group,
    scale_map,
    step_dense,
    step_features,
    step_maps,
)
from omkl.groups.expansions._jit_kernel import add_scores as add_cached_scores
from omkl.groups.expansions._jit_kernel import has_gradient, kernel_inner_products, measure, move


class Explicit(NamedTuple):
    """Features of tokens as CSR, and the arrays of a table with a row of label weights a feature."""

    features: tuple
    table: np.ndarray
    sums: np.ndarray
    groups: np.ndarray
    links: np.ndarray
    heads: np.ndarray


class Mapped(NamedTuple):
    """Dense features of the tokens of these rounds, all groups side by side, and a table with a row a label."""

    features: np.ndarray
    starts: np.ndarray
    table: np.ndarray
    sums: np.ndarray
    touched: np.ndarray


class Cached(NamedTuple):
    """Gram matrices and potentials of all tokens, and dual coefficients."""

    grams: np.ndarray
    potentials: np.ndarray
    coefficients: np.ndarray
    sums: np.ndarray
    moved: np.ndarray


class Banks(NamedTuple):
    """Banks in the order of their groups; those that a model does not have are empty.

    Transitions and intercept are pairs of a table and its running sums.
    """

    explicit: Explicit
    mapped: Mapped
    cached: Cached
    transitions: tuple
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
    #: StepArrays and scales of the groups of each bank.
    explicit: tuple
    mapped: tuple
    cached: tuple
    transitions: tuple
    intercept: tuple


@borrowing
def add_potentials(banks, groups, low, first, last, unary, pairwise):
    """Compute the potentials of a sequence; its tokens are ``first .. last`` of those of all rounds."""
    explicit, mapped, cached = banks.explicit, banks.mapped, banks.cached
    unary[:] = 0.0
    if len(explicit.heads):
        high = low + last - first
        add_scores(explicit.features, low, high, explicit.table, explicit.groups, groups.explicit[1], unary)
    if len(mapped.starts) > 1:
        add_mapped_scores(mapped.features[first:last], mapped.starts, mapped.table, groups.mapped[1], unary)
    if len(cached.moved):
        add_cached_scores(cached.potentials, groups.cached[1], low, low + last - first, unary)
    add_dense(banks, groups, len(banks.transitions[0]) > 0, unary, pairwise)


@borrowing
def add_dense(banks, groups, has_transitions, unary, pairwise):
    """Add the intercept, and set the potentials of transitions."""
    if len(pairwise):
        pairwise[:] = 0.0
    if has_transitions:
        # sequences do not matter where all positions share their transitions
        add_transitions(banks.transitions[0], groups.transitions[1][0], groups.firsts, 0, 0, pairwise)
    if len(banks.intercept[0]):
        add_constants(banks.intercept[0], groups.intercept[1][0], unary)


@borrowing
def add_averaged_dense(table, sums, factor, total, out):
    """Add the average of a dense table of one matrix."""
    for i in range(out.shape[0]):
        row = min(i, table.shape[1] - 1)  # all tokens share a constant
        for j in range(out.shape[1]):
            value = factor * table[0, row, j]
            out[i, j] += (value + sums[0, row, j]) / total if total > 0.0 else value


@borrowing
def add_average(banks, groups, pending, total, factors, low, first, last, unary, pairwise):
    """Compute the potentials of the averaged model, without cached kernels; ``factors`` is working memory."""
    explicit, mapped, firsts, out = banks.explicit, banks.mapped, groups.firsts, groups.all_left_out
    for k in range(len(factors)):
        factors[k] = groups.rescaled.scales[k]
        if total > 0.0:
            factors[k] = groups.averages[k] + pending * factors[k]
    unary[:] = 0.0
    pairwise[:] = 0.0
    if len(explicit.heads):
        average = explicit.table, explicit.sums, explicit.groups, factors, total, out
        add_averaged_scores(explicit.features, low, low + last - first, *average, unary)
    if len(mapped.starts) > 1:
        own = slice(firsts[0], firsts[1])
        average = mapped.table, mapped.sums, factors[own], total, out[own]
        add_averaged_maps(mapped.features[first:last], mapped.starts, *average, unary)
    if len(banks.transitions[0]) and not out[firsts[2]]:
        add_averaged_dense(banks.transitions[0], banks.transitions[1], factors[firsts[2]], total, pairwise[0])
    if len(banks.intercept[0]) and not out[firsts[3]]:
        add_averaged_dense(banks.intercept[0], banks.intercept[1], factors[firsts[3]], total, unary)


@uncached
def potentials_of(cached, low, n):
    """Return the potentials of each kernel group at some tokens, (p, n, K)."""
    own = np.empty((len(cached.moved), n, cached.potentials.shape[1]))
    for k in range(own.shape[0]):
        for i in range(n):
            for j in range(own.shape[2]):
                own[k, i, j] = cached.potentials[k, j, low + i]
    return own


@uncached
def slopes_of_cached(cached, low, gradient, slopes, totals):
    """Write the inner products of kernel groups with a gradient."""
    kernel_inner_products(potentials_of(cached, low, len(gradient)), gradient, slopes, totals)


@uncached
def step_cached(cached, step, low, gradient):
    """Take the gradient step of kernel groups; empty ones wait for :func:`move_cached`."""
    moving = has_gradient(gradient)
    among = np.empty((len(cached.moved), len(moving), len(moving)), cached.grams.dtype)
    for k in range(len(cached.moved)):
        for i in range(len(moving)):
            for j in range(len(moving)):
                among[k, i, j] = cached.grams[k, low + moving[i], low + moving[j]]
    if measure(among, potentials_of(cached, low, len(gradient)), moving, gradient, step, False):
        move_cached(cached, step, low, gradient, ~step.empty)


@uncached
def move_cached(cached, step, low, gradient, chosen):
    """Change the coefficients and potentials of the chosen kernel groups along the gradient."""
    moving = has_gradient(gradient)
    tokens, D = low + moving, np.empty((len(moving), gradient.shape[1]))
    for i in range(len(moving)):
        for j in range(D.shape[1]):
            D[i, j] = gradient[moving[i], j]
    arrays = cached.potentials, cached.coefficients, cached.sums
    move(cached.grams, tokens, tokens, D, chosen, *arrays, step.rates, step.averages)
    for k in range(len(chosen)):
        cached.moved[k] |= chosen[k]


@borrowing
def step_along(banks, groups, low, first, last, gradient, pair_gradient, total):
    """Take the gradient step of all banks; ``total`` (1, 1, K) is working memory."""
    explicit, mapped = banks.explicit, banks.mapped
    if len(explicit.heads):
        arrays = explicit.table, explicit.sums, explicit.groups, explicit.links, explicit.heads
        step_features(explicit.features, low, gradient, *arrays, groups.explicit[0])
    if len(mapped.starts) > 1:
        arrays = mapped.starts, gradient, mapped.table, mapped.sums, mapped.touched
        step_maps(mapped.features[first:last], *arrays, groups.mapped[0])
    if len(banks.cached.moved):
        step_cached(banks.cached, groups.cached[0], low, gradient)
    if len(banks.transitions[0]):
        step_dense(pair_gradient, banks.transitions[0], banks.transitions[1], groups.transitions[0])
    if len(banks.intercept[0]):
        total[:] = 0.0
        for i in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                total[0, 0, j] += gradient[i, j]
        step_dense(total, banks.intercept[0], banks.intercept[1], groups.intercept[0])


@borrowing
def fold_dense(table, sums, factor, average):
    """Multiply the direction of a group with a dense table, after adding its share of the average to its sums."""
    for i in range(table.shape[1]):
        for j in range(table.shape[2]):
            if len(sums):
                sums[0, i, j] += average * table[0, i, j]
            table[0, i, j] *= factor


@uncached
def fold_cached(cached, k, factor, average):
    """Multiply the direction of a kernel group likewise."""
    if cached.moved[k]:
        for i in range(cached.coefficients.shape[1]):
            for j in range(cached.coefficients.shape[2]):
                if cached.sums.shape[1]:
                    cached.sums[k, i, j] += average * cached.coefficients[k, i, j]
                cached.coefficients[k, i, j] *= factor
        for j in range(cached.potentials.shape[1]):
            for i in range(cached.potentials.shape[2]):
                cached.potentials[k, j, i] *= cached.potentials.dtype.type(factor)
        cached.moved[k] = factor != 0.0


@borrowing
def fold(k, factor, banks, firsts, averages):
    """Multiply the direction of group k, after what it gave to the average is added to its sums."""
    if k < firsts[0]:
        explicit = banks.explicit
        scale_group(k, factor, explicit.table, explicit.sums, explicit.links, explicit.heads, averages[k])
    elif k < firsts[1]:
        mapped, own = banks.mapped, k - firsts[0]
        scale_map(own, factor, mapped.starts, mapped.table, mapped.sums, mapped.touched, averages[k])
    elif k < firsts[2]:
        fold_cached(banks.cached, k - firsts[1], factor, averages[k])
    elif k < firsts[3]:
        fold_dense(banks.transitions[0], banks.transitions[1], factor, averages[k])
    else:
        fold_dense(banks.intercept[0], banks.intercept[1], factor, averages[k])
    averages[k] = 0.0


@borrowing
def apply_events(banks, groups, allowed, low, gradient, moves):
    """Empty groups that have reached zero, activate others, and fold scales out of the range of good precision."""
    arrays, firsts = groups.rescaled, groups.firsts
    activated = arrays.activated[firsts[1] : firsts[2]]
    if moves and activated.any():
        move_cached(banks.cached, groups.cached[0], low, gradient, activated)
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
    has_transitions = len(banks.transitions[0]) > 0 and groups.firsts[2] >= len(groups.left_out)
    add_dense(banks, groups, has_transitions, unary, pairwise)


@borrowing
def slopes_of(banks, groups, low, first, last, gradient, pair_gradient, slopes, totals):
    """Write inner products of the potentials of regularized groups with a gradient, and sums of these potentials."""
    explicit, mapped, cached, firsts = banks.explicit, banks.mapped, banks.cached, groups.firsts
    slopes[:], totals[:] = 0.0, 0.0
    if len(explicit.heads):
        arrays = explicit.table, explicit.groups, slopes[: firsts[0]], totals[: firsts[0]]
        inner_products(explicit.features, low, gradient, *arrays)
    if len(mapped.starts) > 1:
        own = slice(firsts[0], firsts[1])
        arrays = mapped.starts, mapped.table, gradient, slopes[own], totals[own]
        mapped_inner_products(mapped.features[first:last], *arrays)
    if len(cached.moved):
        own = slice(firsts[1], firsts[2])
        slopes_of_cached(cached, low, gradient, slopes[own], totals[own])
    if len(banks.transitions[0]) and firsts[2] < len(slopes):
        table = banks.transitions[0]
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                slopes[firsts[2]] += table[0, i, j] * pair_gradient[0, i, j]
