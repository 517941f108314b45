"""GroupSelection, and the weights of groups that it is computed from."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from omkl.estimators.base import OnlineEstimator
from omkl.estimators.batch import groups_of
from omkl.exceptions import InputError
from omkl.linear.base import SparseLinear, group_norms
from omkl.mkl.base import BatchMKL


@dataclass(frozen=True)
class GroupSelection:
    """Groups of an estimator that are selected with a bound on the useless ones among them.

    Attributes
    ----------
    method : {"knockoffs", "stability"}
    bound : float
        "knockoffs": bound on the false discovery rate, which is the expected share of useless
        groups among the selected ones. "stability": bound on their expected number.
    statistics : dict of str to float
        For each group, "knockoffs": its weight minus the weight of its knockoff; "stability": the
        share of halves of the data on which it is among the heaviest groups.
    threshold : float
        Smallest statistic of selected groups; infinite if no group is selected.
    """

    method: str
    bound: float
    statistics: dict[str, float]
    threshold: float

    @property
    def selected(self) -> list[str]:
        """Names of the selected groups."""
        return [name for name, statistic in self.statistics.items() if statistic >= self.threshold]

    def __str__(self) -> str:
        n_selected = len(self.selected)
        kind = "expected number of useless groups"
        if self.method == "knockoffs":
            kind = "false discovery rate"
        return (
            f"{n_selected} of {len(self.statistics)} groups selected, {kind} at most {self.bound:g}"
        )


def group_weights(model: BaseEstimator) -> dict[str, float]:
    """Return the weight of each group of a fitted estimator.

    For groups of columns, these are norms of the coefficients.
    """
    if isinstance(model, (OnlineEstimator, BatchMKL)):
        return model.kernel_weights_
    if isinstance(model, SparseLinear):
        norms = group_norms(np.atleast_2d(model.coef_)[None], groups_of(model))
        return {name: float(values[0]) for name, values in norms.items()}
    raise InputError(f"{type(model).__name__} has no groups to select.")
