"""Weights and curves of groups, read from estimators, histories, paths and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from omkl.batch import ColumnGroups
from omkl.exceptions import InputError
from omkl.mkl.paths import StabilitySelection
from omkl.online.progress import values_of


@dataclass(frozen=True)
class Weights:
    """A number for each group, with intervals; ``add_up`` if they are shares of one whole."""

    values: dict[str, float]
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    label: str = "weight"
    add_up: bool = True
    mark: float | None = None


@dataclass(frozen=True)
class Curves:
    """Numbers for each group along an axis; ``counts`` are the numbers of groups in the model."""

    x: np.ndarray
    xlabel: str
    values: dict[str, np.ndarray]
    ylabel: str = "weight"
    is_log: bool = False
    is_reversed: bool = False
    is_whole: bool = False
    counts: np.ndarray | None = None
    mark: float | None = None


def weights_of(source: Any) -> Weights:
    """The weights of a source of :func:`~omkl.reports.plot_weights`."""
    if isinstance(source, StabilitySelection):
        return Weights(source.selection_frequency_, label="share of the halves", add_up=False, mark=source.threshold)
    if isinstance(source, Mapping):
        return _of_mapping(source)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return _of_sequence(source)
    if hasattr(source, "kernel_weights_"):
        return _of_mapping(source.kernel_weights_)
    if hasattr(source, "coef_"):
        names = getattr(source, "feature_names_in_", None)
        values = group_norms(np.atleast_2d(source.coef_)[None], getattr(source, "groups", None), names)
        return Weights({name: float(own[0]) for name, own in values.items()}, label=NORM, add_up=False)
    _refuse(source, "weights", "an estimator that was fitted, a dict of numbers by name, or a list of these")


def _of_mapping(source: Mapping) -> Weights:
    if "model" in source and "kernel_weights" in source:
        return weights_of(source["model"])
    if source and all(isinstance(own, Mapping) for own in source.values()):
        raise InputError(f"There are weights for each of {', '.join(map(repr, source))}: take those of one of them.")
    try:
        values = {str(name): float(value) for name, value in source.items()}
    except (TypeError, ValueError):
        raise InputError("Weights are a number for each name: give a dict of those.") from None
    if not values or not np.isfinite(list(values.values())).all():
        raise InputError("Weights are finite numbers, and there must be at least one.")
    total = sum(values.values())
    return Weights(values, add_up=min(values.values()) >= 0 and abs(total - 1.0) < 1e-6)


def _of_sequence(source: Sequence) -> Weights:
    """Means and ranges of several runs, or the records of a report on groups."""
    if not source:
        raise InputError("There is nothing to draw: the list is empty.")
    if isinstance(source[0], Mapping) and "group" in source[0]:
        return _of_report(source)
    runs = [weights_of(own) for own in source]
    names = list(dict.fromkeys(name for own in runs for name in own.values))
    table = np.array([[own.values.get(name, 0.0) for name in names] for own in runs])
    values = dict(zip(names, table.mean(axis=0).tolist()))
    label = f"{runs[0].label}: mean and range of {len(runs)} runs"
    return Weights(values, table.min(axis=0), table.max(axis=0), label, runs[0].add_up, runs[0].mark)


def _of_report(records: Sequence[Mapping[str, Any]]) -> Weights:
    """The loss without each group, with intervals of two standard errors; or weights alone."""
    if "loss_increase" not in records[0]:
        return _of_mapping({r["group"]: r["weight"] for r in records if r["weight"] is not None})
    values = {record["group"]: record["loss_increase"] for record in records}
    means = np.array(list(values.values()))
    errors = np.array([record["standard_error"] or 0.0 for record in records])
    return Weights(values, means - 2 * errors, means + 2 * errors, "increase of the loss without it", False)


NORM = "norm of the coefficients"


def group_norms(coefficients: np.ndarray, groups: Any, names: Any = None) -> dict[str, np.ndarray]:
    """Norms of the coefficients (n, K, d) of each group of columns: arrays (n,) by name."""
    squares = np.square(coefficients).sum(axis=1)
    if groups is None:
        labels = [f"column {j}" for j in range(squares.shape[1])] if names is None else [str(name) for name in names]
        if len(labels) != squares.shape[1]:
            raise InputError(f"There are {squares.shape[1]} columns, and {len(labels)} names: give a name for each.")
        return dict(zip(labels, np.sqrt(squares).T))
    own = ColumnGroups(groups, squares.shape[1])
    starts = np.concatenate([[0], np.cumsum(own.blocks.sizes)[:-1]])
    ordered = squares if own.order is None else squares[:, own.order]
    is_labels = np.ndim(groups[0]) == 0
    labels = [str(label) for label in np.unique(groups)] if is_labels else [f"group {g}" for g in range(own.n_groups)]
    return dict(zip(labels, np.sqrt(np.add.reduceat(ordered, starts, axis=1)).T))


def curves_of(source: Any, groups: Any = None, names: Any = None) -> Curves:
    """The curves of a source of :func:`~omkl.reports.plot_group_weights`."""
    if isinstance(source, StabilitySelection):
        values = dict(zip(source.names, source.frequencies_.T))
        return Curves(
            source.Cs_, "C", values, "share of the halves", is_log=True, counts=source.n_chosen_, mark=source.threshold
        )
    records = records_of(source)
    first = records[0]
    if "kernel_weights" in first:
        own = list(first["model"].kernel_weights_) if names is None else [str(name) for name in names]
        table = np.array([record["kernel_weights"] for record in records])
        counts = np.array([record["active"] for record in records])
        return Curves(_column(records, "C"), "C", dict(zip(own, table.T)), is_log=True, counts=counts)
    if "coef" in first:
        values = group_norms(np.stack([np.atleast_2d(record["coef"]) for record in records]), groups, names)
        counts = np.count_nonzero(list(values.values()), axis=0)
        return Curves(_column(records, "alpha"), "alpha", values, NORM, True, is_reversed=True, counts=counts)
    kinds = [kind for kind in ("weight", "norm") if values_of(records[-1], kind)]
    if not kinds:
        raise InputError(
            "These records hold no weights: plot_gap draws those of a batch solver, plot_weights its weights, and "
            "plot_path the path of an estimator."
        )
    weights = [values_of(record, kinds[0]) for record in records]
    own = list(dict.fromkeys(name for each in weights for name in each))
    values = {name: np.array([each.get(name, 0.0) for each in weights], dtype=np.float64) for name in own}
    return Curves(*progress_of(records), values, kinds[0], is_whole=True)


def records_of(source: Any) -> Sequence[dict[str, Any]]:
    """The records of an estimator or a callback, or the list of them itself."""
    for name in ("history_", "records", "history"):
        source = getattr(source, name, source)
    if isinstance(source, Sequence) and not source:
        raise InputError("There are no records: models that are saved to predict only keep none.")
    if not isinstance(source, Sequence) or not all(isinstance(record, Mapping) for record in source):
        _refuse(source, "records", "an estimator that was fitted, its history_, or its path")
    return source


def progress_of(records: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, str]:
    """Progress of training at each record, and its unit: epochs if each record has its own, examples or rounds."""
    epochs = np.array([record.get("epoch", 0) for record in records])
    if "epoch" in records[0] and (np.diff(epochs) > 0).all():
        return epochs, "epoch"
    if "examples" in records[0]:
        return np.cumsum(_column(records, "examples")), "examples learned from"
    if "round" in records[0]:
        return _column(records, "round"), "rounds"
    if "iteration" in records[0]:
        return _column(records, "iteration"), "iteration"
    return np.arange(1, len(records) + 1), "record"


def _column(records: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    return np.array([record[name] for record in records])


def _refuse(source: Any, what: str, instead: str) -> NoReturn:
    raise InputError(f"There are no {what} to draw in this {type(source).__name__}: give {instead}.")
