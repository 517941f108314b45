"""Many problems with the same kernels: paths of C, and stability selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from omkl._components import check_number, warn_caller
from omkl.batch import PathPoint
from omkl.estimators.validation import COLUMNS
from omkl.exceptions import InputError
from omkl.mkl.fit_warnings import warn_of_selection
from omkl.mkl.gram_storage import StoredKernels
from omkl.mkl.tasks import Encoded, Task, informative, target_columns


def kernel_path(
    estimator: Any, X: Any, y: ArrayLike, C: int | ArrayLike, sample_weight: ArrayLike | None, client: Any
) -> list[dict[str, Any]]:
    """Solve for a sequence of C; see :meth:`omkl.MKLClassifier.path`.

    Parameters
    ----------
    estimator : BatchMKL
        A clone, which notes the columns of X.
    X, y, C, sample_weight, client
        As for :meth:`omkl.MKLClassifier.path`.
    """
    settings = estimator._settings()
    source, y, weights = estimator._read(X, y, sample_weight)
    encoded = estimator._encode(y, weights, settings)
    tasks, weights, _ = encoded

    def solve(kernels: StoredKernels) -> tuple[np.ndarray | None, list[list[PathPoint]]]:
        kernels = kernels.selected(target_columns(tasks, len(weights)), weights)
        values = kernels.path_values(tasks, weights, C)
        return kernels.kept, [
            kernels.on(rows).path(target, weights if rows is None else weights[rows], values) for rows, target in tasks
        ]

    kept, paths = estimator._stored(source, settings, client, solve)
    warn_of_selection(kept)
    columns = {name: value for name, value in vars(estimator).items() if name in COLUMNS}
    records = []
    for points in zip(*paths):
        model, solutions = estimator._at(points[0].value), [point.solution for point in points]
        model.__dict__.update(columns)
        model._learn(source, settings, encoded, solutions, kept)
        records.append(
            {
                "C": points[0].value,
                "kernel_weights": np.array(list(model.kernel_weights_.values())),
                "active": model.n_active_,
                "dual_gap": model.dual_gap_,
                "objective": sum(solution.certificate.primal for solution in solutions),
                "n_iter": model.n_iter_,
                "seconds": sum(point.seconds for point in points),
                "model": model,
            }
        )
    gaps = [abs(record["dual_gap"]) for record in records]
    if (n_above := sum(gap > settings.tol for gap in gaps)) > 0:
        warn_caller(
            f"{n_above} of {len(gaps)} values of C stopped above tol={settings.tol:g}, at relative duality gaps of up "
            f"to {max(gaps):.2g}: raise max_iter, or tol.",
            ConvergenceWarning,
        )
    return records


# ---- stability selection ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StabilitySelection:
    r"""Selection frequencies of M kernels on halves of the data, and the kernels selected by them.

    Attributes
    ----------
    names : list of str
        The kernels.
    Cs_ : array of shape (n_Cs,)
        In increasing order: up to the first that does not count.
    frequencies_ : array of shape (n_Cs, M)
        Share of the halves on which each kernel is active, for each C.
    n_chosen_ : array of shape (n_Cs,)
        Mean number q of kernels that are active on a half at this C or a smaller one.
    threshold : float
        The frequency :math:`\tau` from which a kernel is selected.
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
        """The kernels with a frequency of at least the threshold."""
        return [name for name, frequency in self.selection_frequency_.items() if frequency >= self.threshold]

    @property
    def expected_false_(self) -> float:
        r"""Bound on the expected number of uninformative kernels among the selected: :math:`q^2 / ((2\tau - 1) M)`.

        It is theorem 1 of Meinshausen and Buhlmann (2010), with q estimated by its mean over halves: uninformative
        kernels must be exchangeable, and no more likely to be active than by chance.
        """
        return float(self.bounds_[self.n_used - 1]) if self.n_used else 0.0

    @property
    def bounds_(self) -> np.ndarray:
        """The same bound for each C, if it and all smaller ones count: (n_Cs,), increasing."""
        return expected_false(self.n_chosen_, self.threshold, len(self.names))

    @classmethod
    def of(
        cls, names: list[str], Cs: np.ndarray, chosen: np.ndarray, threshold: float, max_false: float | None
    ) -> StabilitySelection:
        """Frequencies from ``chosen``, booleans (n_halves, n_solved, M): kernels that are active at each C."""
        n_chosen = np.logical_or.accumulate(chosen, axis=1).sum(axis=2).mean(axis=0)
        bounds = expected_false(n_chosen, threshold, len(names))
        n_used = len(bounds) if max_false is None else int(np.searchsorted(bounds, max_false, side="right"))
        return cls(names, Cs[: len(bounds)], chosen.mean(axis=0), n_chosen, threshold, n_used)


def expected_false(n_chosen: np.ndarray, threshold: float, n_kernels: int) -> np.ndarray:
    r""":math:`q^2 / ((2\tau - 1) M)`, the bound of theorem 1 of Meinshausen and Buhlmann (2010)."""
    return np.square(n_chosen) / ((2.0 * threshold - 1.0) * n_kernels)


def stable_kernels(
    estimator: Any,
    data: tuple[Any, Any, Any],
    C: int | ArrayLike,
    n_pairs: int,
    threshold: float,
    max_false: float | None,
    n_jobs: int | None,
    random_state: Any,
    client: Any,
) -> StabilitySelection:
    """Select kernels by their frequencies; see :meth:`omkl.MKLClassifier.stability_selection`.

    Parameters
    ----------
    estimator : BatchMKL
        A clone, which notes the columns of X.
    data : tuple of (X, y, sample_weight)
    C, n_pairs, threshold, max_false, n_jobs, random_state, client
        As for :meth:`omkl.MKLClassifier.stability_selection`.
    """
    check_number("n_pairs", n_pairs, above=0, integer=True)
    check_number("threshold", threshold, above=0.5, below=1.0 + 1e-12)
    if max_false is not None:
        check_number("max_false", max_false, above=0)
    settings, random = estimator._settings(), check_random_state(random_state)
    if not settings.regularizer.is_sparse:
        raise InputError("Stability selection needs a regularizer that leaves kernels out, as block1 and mkl do.")
    source, y, weights = estimator._read(*data)
    if source.n_samples < 4:
        raise InputError(f"Stability selection needs at least 4 samples of weight > 0, not {source.n_samples}.")
    encoded = estimator._encode(y, weights, settings)
    halves = complementary_halves(source.n_samples, n_pairs, random)

    def select(kernels: StoredKernels) -> StabilitySelection:
        Cs = kernels.path_values(encoded.tasks, encoded.weights, C)

        def selection(chosen: np.ndarray) -> StabilitySelection:
            return StabilitySelection.of(source.names, Cs, chosen, threshold, max_false)

        def is_enough(chosen: np.ndarray) -> bool:
            return selection(chosen).n_used < chosen.shape[1]

        return selection(active_on_halves(kernels, encoded, Cs, halves, kernels.n_threads(n_jobs), is_enough))

    return estimator._stored(source, settings, client, select)


def complementary_halves(n_samples: int, n_pairs: int, random: np.random.RandomState) -> list[np.ndarray]:
    """Increasing indices of halves of the samples, each followed by one that shares none with it.

    These are the complementary pairs of Shah and Samworth (2013); of an odd number of samples each pair leaves out one.
    """
    half, halves = n_samples // 2, []
    for _ in range(n_pairs):
        order = random.permutation(n_samples)
        halves += [np.sort(order[:half]), np.sort(order[half : 2 * half])]
    return halves


def active_on_halves(
    kernels: StoredKernels,
    encoded: Encoded,
    Cs: np.ndarray,
    halves: Sequence[np.ndarray],
    n_threads: int,
    is_enough: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """Kernels that are active on each half at each C: booleans (n_halves, n_solved, M).

    Parameters
    ----------
    kernels : StoredKernels
    encoded : Encoded
        A kernel counts as active if it is in one of the problems. On a half of one class a problem has none.
    Cs : array of shape (n_Cs,)
        In increasing order.
    halves : sequence of int arrays
    n_threads : int
        Number of halves solved at once.
    is_enough : callable
        ``is_enough(active)`` returns whether larger Cs need not be solved.
    """
    workers, found = [_Half(kernels, encoded, half, n_threads) for half in halves], []
    for C in Cs.tolist():
        found.append(Parallel(n_jobs=n_threads, prefer="threads")(delayed(one.active_at)(C) for one in workers))
        if is_enough(np.array(found).swapaxes(0, 1)):
            break
    return np.array(found).swapaxes(0, 1)


class _Half:
    """A path on half of the samples; each C starts from the solutions of the one before."""

    def __init__(self, kernels: StoredKernels, encoded: Encoded, half: np.ndarray, n_copies: int) -> None:
        self.kernels, self.encoded, self.half, self.n_copies = kernels, encoded, half, n_copies
        self.starts: list[Any] = [None] * len(encoded.tasks)
        self.kept: np.ndarray | None = None
        self.is_first = True

    def active_at(self, C: float) -> np.ndarray:
        """Mask (M,) of the kernels that are active at C."""
        half, (tasks, weights, _) = self.half, self.encoded
        local = self.kernels.on(half, self.n_copies)
        if self.is_first:
            self.kept = local.helpful(target_columns(tasks, len(weights))[half], weights[half])
            self.is_first = False
        local, active = local.keeping(self.kept), np.zeros(self.kernels.stack.n_kernels, dtype=bool)
        for p, task in enumerate(tasks):
            part, target = self._target(task)
            if self.kernels.settings.loss.classifies and len(np.unique(target)) < 2:
                continue
            samples = half if part is None else half[part]
            solution = local.on(part).solve(target, weights[samples], C, start=self.starts[p])
            self.starts[p] = solution.start
            active[solution.model.active] = True
        return active

    def _target(self, task: Task) -> tuple[np.ndarray | None, np.ndarray]:
        """Positions in the half of the samples of a problem, None for all, and their targets."""
        if task.rows is not None:
            part = np.flatnonzero(np.isin(self.half, task.rows))
            return part, task.target[np.searchsorted(task.rows, self.half[part])]
        target = task.target[self.half]
        if target.ndim == 2 and self.kernels.settings.loss.classifies:
            target = informative(target, bool(((target > 0).sum(axis=1) == 1).all()))[1]
        return None, target
