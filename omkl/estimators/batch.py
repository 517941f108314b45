"""Functions that the batch estimators share: constraints, the loss, progress, groups of columns by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from omkl._components import resolve
from omkl._progress import progress_bar
from omkl.estimators.validation import Constraint, Number
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss

#: Valid values of the parameters that all batch estimators have.
CONSTRAINTS: dict[str, Constraint] = {
    "tol": Number(above=0),
    "max_iter": Number(above=0, integer=True, also=(None,)),
}


def resolve_loss(estimator: Any, links: bool = False) -> PointwiseLoss:
    """The loss of a batch classifier or regressor, which must fit it; ``links`` accepts losses with a link."""
    loss = resolve(PointwiseLoss, estimator.loss, "loss")
    if loss.classifies != is_a_classifier(estimator):
        kind = "classification" if loss.classifies else "regression"
        raise InputError(f"{loss!r} is a loss of {kind}, which {type(estimator).__name__} does not do: choose another.")
    if loss.has_link and not links:
        raise InputError(f"{loss!r} has a link, which {type(estimator).__name__} does not know: GroupLasso does.")
    return loss


def is_a_classifier(estimator: BaseEstimator) -> bool:
    """Return whether an estimator has scores of classes; for ``available_if``."""
    return isinstance(estimator, ClassifierMixin)


class GapProgress:
    """A progress bar of the duality gap; called with every record of a solver's history.

    Parameters
    ----------
    verbose : bool
        Show it, if the search takes longer than a second; where standard error is no terminal, a line every half
        minute.
    active : str
        Name of the active parts of the model.
    """

    def __init__(self, verbose: bool, active: str) -> None:
        self.active = active
        self.bar = progress_bar(verbose, unit=" iterations")

    def __call__(self, record: dict[str, Any]) -> None:
        self.bar.update()
        self.bar.set_postfix({"gap": f"{record['gap']:.2g}", self.active: record["active"]})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()


# ---- groups of columns by name ----------------------------------------------------------------------------------


def by_position(groups: Any, names: Sequence[str] | None) -> Any:
    """Return groups as lists of positions, where they or their columns are given by name; all else as it is.

    Parameters
    ----------
    groups : dict of lists of int or str, or what :func:`column_labels` takes
        Labels in a ``Series`` whose index has the names of the columns are those of these columns.
    names : sequence of str or None
        Names of the columns.

    Raises
    ------
    omkl.exceptions.InputError
        If a group of a dict is no list, or there is no column of a name.
    """
    if hasattr(groups, "reindex"):
        labels = by_index(groups, names, "groups", "column")
        return groups.to_numpy() if labels is None else np.array(labels)
    if isinstance(groups, dict):
        if single := [name for name, group in groups.items() if not _has_members(group)]:
            raise InputError(f"groups must have a list of columns for {single[0]!r}, not {groups[single[0]]!r}.")
        groups = list(groups.values())
    if not isinstance(groups, (list, tuple)) or not all(map(_has_members, groups)):
        return groups
    place = {name: j for j, name in enumerate(() if names is None else names)}
    if unknown := [name for group in groups for name in group if isinstance(name, str) and name not in place]:
        raise InputError(f"groups has {unknown[0]!r}, which is no name of a column: names are those of a data frame.")
    return [[place[column] if isinstance(column, str) else column for column in group] for group in groups]


def by_index(values: Any, names: Sequence | None, what: str, of: str) -> list | None:
    """Return values of a dict, or of a ``Series`` with an index of names, in the order of the names; else None.

    Parameters
    ----------
    values : dict, Series or anything else
    names : sequence or None
        None where there are none; then a ``Series`` is in order.
    what, of : str
        The parameter, and the kind of thing that the names are of, for messages.
    """
    if hasattr(values, "reindex"):
        if names is None or not all(isinstance(name, str) for name in values.index):
            return None
        if not values.index.is_unique:
            raise InputError(f"{what} has several values of the same name: give one for each {of}.")
        values = values.to_dict()
    if not isinstance(values, dict):
        return None
    if names is None:
        raise InputError(f"{what} is by the name of each {of}, but there are no names.")
    if values.keys() != set(names):
        wrong = sorted(values.keys() ^ set(names), key=repr)
        raise InputError(f"{what} must have a value for the name of each {of}, and no other; see {wrong[0]!r}.")
    return [values[name] for name in names]


def group_names(groups: Any, names: Sequence[str] | None) -> list | None:
    """Return the names of groups, in their order: keys of a dict, labels, or columns that are groups of their own.

    None where they are lists; parameters are those of :func:`by_position`.
    """
    if groups is None:
        return None if names is None else list(names)
    if isinstance(groups, dict):
        return list(groups)
    if isinstance(groups, (list, tuple)) and any(map(_has_members, groups)):
        return None
    return np.unique(np.asarray(groups)).tolist()


def called(groups: Any, names: Sequence[str] | None, n_groups: int) -> list[str]:
    """Return names of groups for explanations and regularizers; parameters are those of :func:`by_position`."""
    if groups is None:
        return [f"column {j}" for j in range(n_groups)] if names is None else list(map(str, names))
    known = group_names(groups, names) or range(n_groups)
    return [str(name) if isinstance(name, str) or isinstance(groups, dict) else f"group {name}" for name in known]


def _has_members(group: object) -> bool:
    """Return whether this is a list of columns, and not a label."""
    return isinstance(group, Iterable) and not isinstance(group, (str, bytes, dict))
