"""Groups of columns by name."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError


def by_position(groups: Any, names: Sequence[str] | None) -> Any:
    """Return groups as lists of positions, where they or their columns are given by name; all else as it is.

    Parameters
    ----------
    groups : dict of lists of int or str, or what :func:`column_labels` takes
        Labels in a ``Series`` whose index has the names of the columns are those of these columns.
    names : sequence of str or None
        What the columns are called.

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
    place = {} if names is None else {name: j for j, name in enumerate(names)}
    if unknown := [name for group in groups for name in group if isinstance(name, str) and name not in place]:
        why = "but columns have no names: give a data frame" if names is None else "but there is no such column"
        raise InputError(f"groups has the column {str(unknown[0])!r}, {why}.")
    return [[place[column] if isinstance(column, str) else column for column in group] for group in groups]


def by_index(values: Any, names: Sequence | None, what: str, of: str) -> list | None:
    """Return values of a dict, or of a ``Series`` with an index of names, in the order of the names; else None.

    Parameters
    ----------
    values : dict, Series or anything else
    names : sequence or None
        None where there are none; then a ``Series`` is in order.
    what, of : str
        What values are called in messages, and what the names are of.
    """
    if hasattr(values, "reindex"):
        if names is None or not all(isinstance(name, str) for name in values.index):
            return None
        if not values.index.is_unique:
            raise InputError(f"{what} has several values of the same name: give one for each {of}.")
        values = dict(zip(values.index, values.to_list()))
    if not isinstance(values, dict):
        return None
    if names is None:
        raise InputError(f"{what} has values by the names of {of}s, but these have none: give them in order.")
    if unknown := [name for name in values if name not in names]:
        raise InputError(f"{what} has a value for {unknown[0]!r}, which is no {of}.")
    if missing := [name for name in names if name not in values]:
        raise InputError(f"{what} has no value for the {of} {missing[0]!r}.")
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
    known = group_names(groups, names)
    known = list(range(n_groups)) if known is None else known
    return [str(name) if isinstance(name, str) or isinstance(groups, dict) else f"group {name}" for name in known]


def _has_members(group: Any) -> bool:
    """Return whether this is a list of columns, and not a label."""
    return isinstance(group, Iterable) and not isinstance(group, (str, bytes, dict))
