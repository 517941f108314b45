"""Many problems with the same kernels: paths of C, and stability selection."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from omkl._components import check_number, warn_caller
from omkl.estimators.validation import COLUMNS
from omkl.exceptions import InputError
from omkl.mkl.gram_storage import StoredKernels
from omkl.mkl.tasks import Encoded, encode_targets, warn_of_selection


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
    encoded = encode_targets(y, weights, settings)
    kernels = estimator._stored(source, settings, client).selected(encoded)
    warn_of_selection(kernels.kept)
    columns = {name: value for name, value in vars(estimator).items() if name in COLUMNS}
    records = []
    for points in zip(*kernels.paths(encoded, kernels.path_values(encoded, C))):
        model, solutions = estimator._at(points[0].value), [point.solution for point in points]
        model.__dict__.update(columns)
        model._learn(source, kernels, encoded, solutions)
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
        return np.square(self.n_chosen_) / ((2.0 * self.threshold - 1.0) * len(self.names))

    @classmethod
    def of(
        cls, names: list[str], Cs: np.ndarray, chosen: np.ndarray, threshold: float, max_false: float | None
    ) -> StabilitySelection:
        """Compute frequencies of kernels.

        Parameters
        ----------
        names : list of str
        Cs : array of shape (n_Cs,)
        chosen : bool array of shape (n_solved, n_halves, M)
            Kernels that are active at each of the first Cs, on each half.
        threshold : float
        max_false : float or None
            Largest bound at a C that counts.
        """
        n_chosen = np.logical_or.accumulate(chosen, axis=0).sum(axis=2).mean(axis=1)
        found = cls(names, Cs[: len(chosen)], chosen.mean(axis=1), n_chosen, threshold, len(chosen))
        if max_false is None:
            return found
        return replace(found, n_used=int(np.searchsorted(found.bounds_, max_false, side="right")))


def stable_kernels(
    estimator: Any,
    data: tuple[Any, Any, Any],
    C: int | ArrayLike,
    n_pairs: int,
    threshold: float,
    max_false: float | None,
    n_jobs: int | None,
    random_state: int | np.random.RandomState | None,
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
    encoded = encode_targets(y, weights, settings)
    kernels = estimator._stored(source, settings, client)
    Cs, n_threads = kernels.path_values(encoded, C), kernels.n_threads(n_jobs)
    halves = []
    for half in complementary_halves(source.n_samples, n_pairs, random):
        # a half of one class has no problem, and so no active kernel
        if not settings.loss.classifies or (y[half] != y[half[0]]).any():
            part = encode_targets(y[half], weights[half], settings, warns=False)
            halves.append(_Half(kernels, part, half, n_threads))
    chosen: list[np.ndarray] = []
    for value in Cs.tolist():
        active = Parallel(n_jobs=n_threads, prefer="threads")(delayed(half.active_at)(value) for half in halves)
        chosen.append(np.zeros((2 * n_pairs, len(source.names)), dtype=bool))
        chosen[-1][: len(halves)] = active
        report = StabilitySelection.of(source.names, Cs, np.array(chosen), threshold, max_false)
        if report.n_used < len(chosen):
            break
    return report


def complementary_halves(n_samples: int, n_pairs: int, random: np.random.RandomState) -> list[np.ndarray]:
    """Draw halves of the samples, each followed by one that shares none with it.

    These are the complementary pairs of Shah and Samworth (2013); of an odd number of samples each pair leaves out one.

    Parameters
    ----------
    n_samples, n_pairs : int
    random : RandomState

    Returns
    -------
    list of int arrays
        Increasing indices.
    """
    half, halves = n_samples // 2, []
    for _ in range(n_pairs):
        order = random.permutation(n_samples)
        halves += [np.sort(order[:half]), np.sort(order[half : 2 * half])]
    return halves


class _Half:
    """A path on half of the samples; each C starts from the solutions of the one before."""

    def __init__(self, kernels: StoredKernels, encoded: Encoded, samples: np.ndarray, n_copies: int) -> None:
        self.kernels, self.encoded, self.samples, self.n_copies = kernels, encoded, samples, n_copies
        self.starts: list[Any] = [None] * len(encoded.tasks)
        self.kept: np.ndarray | None = None

    def active_at(self, C: float) -> np.ndarray:
        """Return a mask (M,) of the kernels that are active at C in one of the problems."""
        # copied anew for each C, as copies of all halves may not fit into memory
        local = self.kernels.on(self.samples, self.n_copies)
        local = local.selected(self.encoded) if self.kept is None else local.keeping(self.kept)
        self.kept, own = local.kept, self.kernels.settings
        active = np.zeros(self.kernels.stack.n_kernels, dtype=bool)
        for p, problem in enumerate(local.problems(self.encoded, C)):
            solution = own.solver.solve(problem, own.tol, own.max_iter, self.starts[p])
            self.starts[p] = solution.start
            active[solution.model.active] = True
        return active
