"""Stability selection: how often each kernel is chosen on halves of the data, and how many of those are false."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from omkl._components import check_number
from omkl.estimators.stored_kernels import StoredKernels, informative, target_columns
from omkl.exceptions import InputError


@dataclass(frozen=True)
class StabilitySelection:
    r"""How often each of M kernels is chosen on halves of the data, and what follows from it.

    Attributes
    ----------
    names : list of str
        The kernels.
    Cs_ : array of shape (n_Cs,)
        In increasing order: up to the first that does not count.
    frequencies_ : array of shape (n_Cs, M)
        In which part of the halves each kernel is in the model, for each C.
    n_chosen_ : array of shape (n_Cs,)
        The mean number q of kernels that are in the model of a half at this C or a smaller one.
    threshold : float
        The frequency :math:`\tau` from which a kernel is selected.
    n_used : int
        The frequencies that count are those at so many Cs, from the smallest.

    References
    ----------
    Meinshausen and Buhlmann (2010), Stability selection. Shah and Samworth (2013), Variable selection with error
    control: another look at stability selection.
    """

    names: list[str]
    Cs_: np.ndarray
    frequencies_: np.ndarray = field(repr=False)
    n_chosen_: np.ndarray
    threshold: float
    n_used: int

    @property
    def selection_frequency_(self) -> dict[str, float]:
        """For each kernel the largest frequency of all Cs that count, in [0, 1]."""
        largest = self.frequencies_[: self.n_used].max(axis=0, initial=0.0)
        return dict(zip(self.names, largest.tolist()))

    @property
    def selected_(self) -> list[str]:
        """The kernels chosen at least as often as the threshold."""
        return [name for name, frequency in self.selection_frequency_.items() if frequency >= self.threshold]

    @property
    def expected_false_(self) -> float:
        r"""A bound on the expected number of useless kernels among the selected: :math:`q^2 / ((2\tau - 1) M)`.

        It is theorem 1 of Meinshausen and Buhlmann (2010), with q estimated by its mean over halves: useless kernels
        must be exchangeable, and no more likely to be chosen than by chance.
        """
        return float(self.bounds_[self.n_used - 1]) if self.n_used else 0.0

    @property
    def bounds_(self) -> np.ndarray:
        """That bound for each C, if it and all smaller ones count: (n_Cs,), increasing."""
        return expected_false(self.n_chosen_, self.threshold, len(self.names))


def expected_false(n_chosen: Any, threshold: float, n_kernels: int) -> np.ndarray:
    r""":math:`q^2 / ((2\tau - 1) M)`, the bound of theorem 1 of Meinshausen and Buhlmann (2010)."""
    return np.square(n_chosen) / ((2.0 * threshold - 1.0) * n_kernels)


def complementary_halves(n_samples: int, n_pairs: int, random: np.random.RandomState) -> list[np.ndarray]:
    """Increasing indices of halves of the samples, each followed by one that shares none with it.

    These are the complementary pairs of Shah and Samworth (2013); of an odd number of samples each pair leaves out one.
    """
    half, halves = n_samples // 2, []
    for _ in range(n_pairs):
        order = random.permutation(n_samples)
        halves += [np.sort(order[:half]), np.sort(order[half : 2 * half])]
    return halves


def chosen_on_halves(
    kernels: StoredKernels, targets: list, weights: np.ndarray, Cs: np.ndarray, halves: list[np.ndarray],
    n_jobs: int | None, enough: Callable[[np.ndarray], bool],
) -> np.ndarray:  # fmt: skip
    """Which kernels are in the model of each half at each C: booleans (n_halves, n_solved, M).

    Parameters
    ----------
    kernels : StoredKernels
    targets : list of (rows, target)
        The binary problems, rows None for all samples; a kernel is in the model that is active in one of them. Where a
        half has signs of one kind only, none is.
    weights : array of shape (N,)
    Cs : array of shape (n_Cs,)
        In increasing order.
    halves : list of int arrays
    n_jobs : int, optional
        Halves solved at once, in threads.
    enough : callable
        Of what was chosen so far: whether larger Cs need not be solved.
    """

    jobs, columns = kernels.n_threads(n_jobs), target_columns(targets, len(weights))

    def chosen(half: np.ndarray, C: float, starts: list, kept: list) -> np.ndarray:
        active, local = np.zeros(kernels.stack.n_kernels, dtype=bool), kernels.on(half, jobs)
        if not kept:
            kept.append(local.helpful(columns[half], weights[half]))
        local = local.keeping(kept[0])
        for p, (rows, target) in enumerate(targets):
            part = None if rows is None else np.flatnonzero(np.isin(half, rows))
            samples = half if part is None else half[part]
            own = target[samples if rows is None else np.searchsorted(rows, samples)]
            if own.ndim == 2 and kernels.loss.classifies:
                own = informative(own, bool(((own > 0).sum(axis=1) == 1).all()))[1]
            if kernels.loss.classifies and len(set(own.ravel().tolist())) < 2:
                continue
            solution = local.on(part).solve(own, weights[samples], C, start=starts[p])
            starts[p] = solution.start
            active[solution.model.active] = True
        return active

    found = []
    starts: list[list] = [[None] * len(targets) for _ in halves]
    kept: list[list] = [[] for _ in halves]
    for C in Cs.tolist():
        each = (delayed(chosen)(half, C, *own) for half, *own in zip(halves, starts, kept))
        found.append(Parallel(n_jobs=jobs, prefer="threads")(each))
        if enough(np.array(found).swapaxes(0, 1)):
            break
    return np.array(found).swapaxes(0, 1)


def selection_of(
    names: list[str], Cs: np.ndarray, chosen: np.ndarray, threshold: float, max_false: float | None
) -> StabilitySelection:
    """The frequencies, and how many Cs count where the bound must be at most ``max_false``."""
    n_chosen = np.logical_or.accumulate(chosen, axis=1).sum(axis=2).mean(axis=0)
    bounds = expected_false(n_chosen, threshold, len(names))
    n_used = len(bounds) if max_false is None else int(np.searchsorted(bounds, max_false, side="right"))
    return StabilitySelection(names, Cs[: len(bounds)], chosen.mean(axis=0), n_chosen, threshold, n_used)


def check_selection(n_samples: int, n_pairs: int, threshold: float, max_false: float | None) -> None:
    """Refuse what is no number of pairs, threshold or number of kernels."""
    check_number("n_pairs", n_pairs, above=0, integer=True)
    check_number("threshold", threshold, above=0.5, below=1.0 + 1e-12)
    if max_false is not None:
        check_number("max_false", max_false, above=0)
    if n_samples < 4:
        raise InputError(f"Stability selection needs at least 4 samples of weight > 0, not {n_samples}.")
