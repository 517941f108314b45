"""Functions that the batch estimators share: constraints of parameters, the loss, records of the solvers."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin

from omkl._components import resolve
from omkl.estimators.validation import Constraint, Number
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss

#: Valid values of the parameters that all batch estimators have.
CONSTRAINTS: dict[str, Constraint] = {
    "tol": Number(above=0),
    "max_iter": Number(above=0, integer=True, also=(None,)),
}
#: Records of a solver's history in a model file; of more, evenly spread ones are saved, and the last of each problem.
RECORDS = 10_000


def resolve_loss(estimator: Any, links: bool = False) -> PointwiseLoss:
    """The loss of a batch estimator.

    Parameters
    ----------
    estimator : classifier or regressor
        Has a parameter ``loss``.
    links : bool
        Whether losses with a link are accepted, as Poisson's.

    Raises
    ------
    omkl.exceptions.InputError
        If the loss is unknown, or a loss of regression for a classifier.
    """
    loss = resolve(PointwiseLoss, estimator.loss, "loss")
    if loss.classifies != is_a_classifier(estimator):
        kind = "classification" if loss.classifies else "regression"
        raise InputError(f"{loss!r} is a loss of {kind}, which {type(estimator).__name__} does not do: choose another.")
    if loss.has_link and not links:
        raise InputError(f"{loss!r} has a link, which {type(estimator).__name__} does not know: GroupLasso does.")
    return loss


def is_a_classifier(estimator: Any) -> bool:
    """Return whether an estimator has scores of classes; for ``available_if``."""
    return isinstance(estimator, ClassifierMixin)


def evenly_spread(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about 10,000 records, evenly spread, with the last one of each problem."""
    step = -(-len(records) // RECORDS)
    last = {record.get("problem"): i for i, record in enumerate(records)}.values()
    return [records[i] for i in sorted({*range(0, len(records), max(step, 1)), *last})]
