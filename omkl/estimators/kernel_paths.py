"""Many problems with the same kernels: paths of C, and stability selection."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from omkl._components import check_number
from omkl.batch import PathPoint, smallest_c
from omkl.batch.core.solver import is_number_of_values, ordered
from omkl.estimators.batch_mkl import BatchMKL
from omkl.estimators.certified import LARGEST_C
from omkl.estimators.classes import LEARNED_OF_TARGETS
from omkl.estimators.inputs import COLUMNS
from omkl.estimators.stability import (
    StabilitySelection,
    check_selection,
    chosen_on_halves,
    complementary_halves,
    selection_of,
)
from omkl.estimators.stored_kernels import StoredKernels, in_precision, of_each_output, target_columns
from omkl.exceptions import InputError


class KernelPaths(BatchMKL):
    """What the batch estimators do beside a fit: solve along paths of C, on all samples and on halves of them."""

    def _at(self, C: float) -> BatchMKL:
        """An estimator like this one, for a C."""
        return clone(self).set_params(C=C)

    def path(
        self, X: Any, y: ArrayLike, C: int | ArrayLike = 20, sample_weight: ArrayLike | None = None, *,
        client: Any = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Solve for a sequence of C, each from the solution of the one before.

        Parameters
        ----------
        X, y, sample_weight, client
            As for :meth:`fit`.
        C : int or array
            Values of C; a number of them is spread evenly in the logarithm over three decades above the largest C at
            which no kernel is active under the block 1-norm.

        Returns
        -------
        list of dict
            For each C, from the smallest: ``C``, ``kernel_weights`` (array of M, summing to one), ``active`` (number of
            kernels), ``dual_gap`` (relative), ``objective``, ``n_iter``, ``seconds``, and ``model``: an estimator as
            :meth:`fit` would return it at this C.
        """
        # what is fitted stays as it is
        records = list(clone(self)._path(X, y, C, sample_weight, client))
        gaps = [abs(record["dual_gap"]) for record in records]
        if (n_above := sum(gap > self.tol for gap in gaps)) > 0:
            warnings.warn(
                f"{n_above} of {len(gaps)} values of C stopped above tol={self.tol:g}, at relative duality gaps of up "
                f"to {max(gaps):.2g}: raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return records

    def _path(self, X: Any, y: ArrayLike, C: Any, sample_weight: ArrayLike | None, client: Any) -> Iterator[dict]:
        self._resolve()
        source, y, weights = self._read(X, y, sample_weight)
        targets, weights = self._targets(y, weights)

        def paths_of(kernels: StoredKernels) -> tuple[Any, list[list[PathPoint]]]:
            kernels = kernels.chosen(target_columns(targets, len(weights)), weights)
            values = path_values(kernels, targets, weights, C)
            return kernels.kept, [
                kernels.on(rows).path(target, weights if rows is None else weights[rows], values)
                for rows, target in targets
            ]

        kept, paths = in_precision(self, source, client, paths_of)
        self._warn_of_choice(kept, stacklevel=4)
        for points in zip(*paths):
            model = self._at(points[0].value)
            for name in (*LEARNED_OF_TARGETS, *COLUMNS):
                if hasattr(self, name):
                    setattr(model, name, getattr(self, name))
            solutions = [point.solution for point in points]
            model._learn(source, *of_each_output(targets, solutions), kept)
            yield {
                "C": points[0].value,
                "kernel_weights": np.array(list(model.kernel_weights_.values())),
                "active": model.n_active_,
                "dual_gap": model.dual_gap_,
                "objective": sum(solution.certificate.primal for solution in solutions),
                "n_iter": model.n_iter_,
                "seconds": sum(point.seconds for point in points),
                "model": model,
            }

    def stability_selection(
        self, X: Any, y: ArrayLike, C: int | ArrayLike = 20, sample_weight: ArrayLike | None = None, *,
        n_pairs: int = 50, threshold: float = 0.9, max_false: float | None = 1.0, n_jobs: int | None = None,
        random_state: Any = None, client: Any = None,
    ) -> StabilitySelection:  # fmt: skip
        """Ask on many halves of the data which kernels are chosen: those chosen often are no accident.

        What is fitted stays as it is. The kernels are computed once, and each half is one path of C.

        Parameters
        ----------
        X, y, sample_weight, client
            As for :meth:`fit`.
        C : int or array
            As for :meth:`path`; a half has half of the losses, each of them with the weight C.
        n_pairs : int
            Pairs of halves that share no sample.
        threshold : float in (0.5, 1]
            A kernel is selected that is chosen in this part of the halves, at one of the Cs that count.
        max_false : float > 0, optional
            The Cs that count are the smallest ones, as many as keep the bound on the expected number of useless
            kernels that are selected at most here; None counts all.
        n_jobs : int, optional
            Halves solved at once, in threads; -1 for as many as there are processors.
        random_state : int, RandomState or None

        Returns
        -------
        StabilitySelection
            ``selection_frequency_`` (dict of kernels), ``selected_`` (their names), ``expected_false_`` (the bound).

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or the regularizer leaves no kernel out.
        """
        return clone(self)._select(
            X, y, C, sample_weight, n_pairs, threshold, max_false, n_jobs, check_random_state(random_state), client
        )

    def _select(
        self, X: Any, y: ArrayLike, C: Any, sample_weight: Any, n_pairs: int, threshold: float,
        max_false: float | None, n_jobs: int | None, random: np.random.RandomState, client: Any,
    ) -> StabilitySelection:  # fmt: skip
        if not self._resolve()[1].is_sparse:
            raise InputError("Stability selection needs a regularizer that leaves kernels out, as block1 and mkl do.")
        source, y, weights = self._read(X, y, sample_weight)
        check_selection(source.n_samples, n_pairs, threshold, max_false)
        targets, weights = self._targets(y, weights)
        halves = complementary_halves(source.n_samples, n_pairs, random)

        def selected(kernels: StoredKernels) -> StabilitySelection:
            Cs = path_values(kernels, targets, weights, C)

            def report(chosen: np.ndarray) -> StabilitySelection:
                return selection_of(source.names, Cs, chosen, threshold, max_false)

            def enough(chosen: np.ndarray) -> bool:
                return report(chosen).n_used < chosen.shape[1]

            return report(chosen_on_halves(kernels, targets, weights, Cs, halves, n_jobs, enough))

        return in_precision(self, source, client, selected)


def path_values(kernels: StoredKernels, targets: list, weights: np.ndarray, C: int | ArrayLike) -> np.ndarray:
    """The values of C of a path, in increasing order: of a number, three decades from where the first kernel enters."""
    if is_number_of_values(C):
        problems = (
            kernels.on(rows).problem(target, weights if rows is None else weights[rows]) for rows, target in targets
        )
        first = min(map(smallest_c, problems))
        C = np.geomspace(1.0, 1e3, C) * (first if np.isfinite(first) else 1.0)
    values = ordered(C)
    check_number("C", values[-1], above=0, below=LARGEST_C)
    return values
