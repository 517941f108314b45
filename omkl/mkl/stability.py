"""Stability selection of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from omkl._components import check_number
from omkl.exceptions import InputError
from omkl.mkl.training import TrainingSet


@dataclass(frozen=True)
class StabilitySelection:
    r"""Selection frequencies of M kernels on halves of the data, and the kernels selected by them.

    Attributes
    ----------
    names : list of str
        The kernels.
    Cs_ : array of shape (n_Cs,)
        Values of C in increasing order, up to the first that does not count.
    frequencies_ : array of shape (n_Cs, M)
        Share of the halves on which each kernel is active, for each C.
    n_chosen_ : array of shape (n_Cs,)
        Mean number q of kernels that are active on a half at this or a smaller C.
    threshold : float
        Smallest frequency :math:`\tau` of selected kernels.
    n_used : int
        Number of Cs that count, from the smallest.

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
        """Largest frequency of each kernel at the Cs that count, in [0, 1]."""
        largest = self.frequencies_[: self.n_used].max(axis=0, initial=0.0)
        return dict(zip(self.names, largest.tolist()))

    @property
    def selected_(self) -> list[str]:
        """Names of the kernels with a frequency of at least the threshold."""
        return [name for name, frequency in self.selection_frequency_.items() if frequency >= self.threshold]

    @property
    def expected_false_(self) -> float:
        r"""Bound on the expected number of uninformative kernels among the selected: :math:`q^2 / ((2\tau - 1) M)`.

        This is theorem 1 of Meinshausen and Buhlmann (2010), with q estimated by its mean over halves. It assumes that
        uninformative kernels are exchangeable, and no more likely to be active than by chance.
        """
        return float(self.bounds_[self.n_used - 1]) if self.n_used else 0.0

    @property
    def bounds_(self) -> np.ndarray:
        """Bound as in :attr:`expected_false_` for each C, if it and all smaller Cs count: (n_Cs,), increasing."""
        return np.square(self.n_chosen_) / ((2.0 * self.threshold - 1.0) * len(self.names))

    @classmethod
    def of(
        cls, names: list[str], Cs: np.ndarray, chosen: np.ndarray, threshold: float, max_false: float | None
    ) -> StabilitySelection:
        """Compute the frequencies of kernels.

        ``chosen`` (n_solved, n_halves, M) are masks of the kernels that are active at each of the first Cs.
        """
        n_chosen = np.logical_or.accumulate(chosen, axis=0).sum(axis=2).mean(axis=1)
        found = cls(names, Cs[: len(chosen)], chosen.mean(axis=1), n_chosen, threshold, len(chosen))
        if max_false is None:
            return found
        return replace(found, n_used=int(np.searchsorted(found.bounds_, max_false, side="right")))


def stable_kernels(
    training: TrainingSet,
    names: list[str],
    C: int | ArrayLike,
    n_pairs: int,
    threshold: float,
    max_false: float | None,
    n_jobs: int | None,
    random_state: int | np.random.RandomState | None,
) -> StabilitySelection:
    """Select kernels by their frequencies; see :meth:`omkl.MKLClassifier.stability_selection`."""
    check_number("n_pairs", n_pairs, above=0, integer=True)
    check_number("threshold", threshold, above=0.5, below=1.0 + 1e-12)
    if max_false is not None:
        check_number("max_false", max_false, above=0)
    if not training.settings.regularizer.is_sparse:
        raise InputError("Stability selection needs a sparse regularizer, such as block1 or mkl.")
    y, random = training.y, check_random_state(random_state)
    Cs, n_threads = training.path_values(C), training.n_threads(n_jobs)
    halves = complementary_halves(len(y), n_pairs, random)
    if training.settings.loss.classifies:
        # skip halves with a single class: no kernel is active
        halves = (half for half in halves if (y[half] != y[half[0]]).any())
    paths = [_HalfPath(training, half, n_threads) for half in halves]
    chosen: list[np.ndarray] = []
    for value in Cs.tolist():
        active = Parallel(n_jobs=n_threads, prefer="threads")(delayed(path.active_at)(value) for path in paths)
        chosen.append(np.zeros((2 * n_pairs, len(names)), dtype=bool))
        chosen[-1][: len(paths)] = active
        report = StabilitySelection.of(names, Cs, np.array(chosen), threshold, max_false)
        if report.n_used < len(chosen):
            break
    return report


def complementary_halves(n_samples: int, n_pairs: int, random: np.random.RandomState) -> Iterator[np.ndarray]:
    """Draw halves of the samples as increasing indices, each followed by a disjoint half.

    These are the complementary pairs of Shah and Samworth (2013). Each pair omits one sample if their number is odd.
    """
    half = n_samples // 2
    for _ in range(n_pairs):
        order = random.permutation(n_samples)
        yield np.sort(order[:half])
        yield np.sort(order[half : 2 * half])


class _HalfPath:
    """A path on half of the samples; each C starts from the previous solutions."""

    def __init__(self, training: TrainingSet, samples: np.ndarray, n_copies: int) -> None:
        self.training, self.samples, self.n_copies = training, samples, n_copies
        self.starts: list[Any] | None = None
        self.kept: np.ndarray | None = None

    def active_at(self, C: float) -> np.ndarray:
        """Return a mask (M,) of the kernels that are active at C in one of the problems."""
        # copy the half for each C: copies of all halves may not fit into memory
        half, own = self.training.on(self.samples, self.n_copies), self.training.settings
        if self.starts is None:
            half.select()
            self.kept = half.kept
        half.kept = self.kept
        problems = half.problems(C)
        starts = self.starts or [None] * len(problems)
        solutions = [own.solver.solve(p, own.tol, own.max_iter, start) for p, start in zip(problems, starts)]
        self.starts = [solution.start for solution in solutions]
        active = np.zeros(half.stored.n_kernels, dtype=bool)
        active[np.concatenate([solution.model.active for solution in solutions])] = True
        return active
