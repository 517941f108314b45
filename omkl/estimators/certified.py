"""What all batch estimators share: parameters that are checked alike."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.base import ClassifierMixin

from omkl._components import check_flags, check_number, resolve
from omkl.estimators.saving import SavedEstimator
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss

#: C is below: sums of weighted losses must not overflow.
LARGEST_C = 1e100

#: Records of a solver's history in a model file: of more, evenly chosen ones, and the last of each problem.
RECORDS = 10_000


@contextmanager
def unchanged_if_refused(estimator: Any) -> Iterator[None]:
    """Where a fit ends in an error, or is interrupted, the estimator is what it was: the earlier model predicts."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class CertifiedEstimator(SavedEstimator):
    """An estimator that solves a convex problem to a duality gap: it has ``loss``, ``tol`` and ``max_iter``."""

    #: The parameter that weighs losses against the regularizer.
    _tradeoff = "C"
    #: Learned attributes that a model file holds as they are.
    _plain_attributes: tuple[str, ...] = ("classes_", "loss_", "n_features_in_", "dual_gap_", "n_iter_", "history_")
    _progress = "iteration"
    #: Whether it predicts what a loss with a link expects.
    _takes_links = False

    @property
    def _classifies(self) -> bool:
        """Whether losses are those of classification."""
        return isinstance(self, ClassifierMixin)

    @property
    def _learned_loss(self) -> PointwiseLoss:
        """The loss that the model was learned with, whatever has been set since; before ``fit`` the one that is set."""
        return resolve(PointwiseLoss, vars(self).get("loss_", self.loss), "loss")

    def _resolve_loss(self) -> PointwiseLoss:
        """The loss, and a check of the parameters that all have."""
        check_flags(self)
        below = LARGEST_C if self._tradeoff == "C" else math.inf
        check_number(self._tradeoff, getattr(self, self._tradeoff), above=0, below=below)
        check_number("tol", self.tol, above=0)
        if self.max_iter is not None:
            check_number("max_iter", self.max_iter, above=0, integer=True)
        loss = resolve(PointwiseLoss, self.loss, "loss")
        if loss.classifies != self._classifies:
            kind = "classification" if loss.classifies else "regression"
            raise InputError(f"{loss!r} is a loss of {kind}, which {type(self).__name__} does not do: choose another.")
        if loss.has_link and not self._takes_links:
            raise InputError(f"{loss!r} has a link, which {type(self).__name__} does not know: GroupLasso does.")
        return loss

    def _saved_records(self) -> list[dict[str, Any]]:
        records = self.history_
        step = -(-len(records) // RECORDS)
        last = {record.get("problem"): i for i, record in enumerate(records)}.values()
        kept = sorted({*range(0, len(records), max(step, 1)), *last})
        return [records[i] for i in kept]
