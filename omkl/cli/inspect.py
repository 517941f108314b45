"""``omkl inspect``: show what a saved model has learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import omkl
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, table
from omkl.cli.files import (
    Columns,
    check_about_data,
    labelled_sequences,
    load_model,
    naming,
    of_class,
    open_rows,
    read_gold,
)
from omkl.cli.options import Options, option

if TYPE_CHECKING:
    from omkl.reports.model import Model

#: Longer names of groups are cut in the middle, so that a table fits a terminal.
NAME_WIDTH = 44
#: A group helps measurably where the loss grows by more than so many standard errors without it.
MEASURABLE = 2.0


@opt.command(
    "inspect",
    """
    omkl inspect model.npz --top 20
    omkl inspect parser.npz --groups 100 --json groups.json
    omkl inspect labeler.npz --data held-out.crfsuite   # what each group is worth there
    """,
    opt.MODEL,
    option("--top", type=opt.COUNT, default=10, metavar="N", help="List the N strongest features."),
    option("--group", metavar="NAME", help="Only features of this group."),
    option("--groups", type=opt.COUNT, default=30, metavar="N", help="List the N heaviest groups."),
    option("--data", type=opt.READ, metavar="FILE", help="Measure how much each group helps on this held-out file."),
    *(opt.DATA, opt.JOBS, opt.METRICS),
)
def inspect(options: Options) -> None:
    """Show the groups of the saved MODEL, their weights and sizes, and its strongest features."""
    check_about_data(options)
    model, kind = load_model(options)
    if kind == "annotations":
        opt.refuse("is for single models, and an annotator has several", "data", "group")
        lines, metrics = _inspect_annotator(model, min(options.groups, options.top))
    else:
        metrics = _metrics(model, kind, options)
        if hasattr(model, "top_features"):
            metrics["top_features"] = model.top_features(options.top, options.group)
        lines = list(_lines(metrics, _size(model), options.groups))
    options.report(lines, metrics)


def _inspect_annotator(annotator: omkl.Annotator, n: int) -> tuple[list[str], Record]:
    """The heaviest groups of every part."""
    weights = annotator.kernel_weights_
    lines = [f"Annotator: {', '.join(annotator.parts_)}, by {len(weights)} models"]
    for name, own in weights.items():
        ranked = sorted(own.items(), key=lambda item: -item[1])
        n_zero = sum(weight == 0 for weight in own.values())
        lines += ["", f"{name}: {len(own)} groups, {n_zero} of them zero", *bar_chart(dict(ranked[:n]))]
    return lines, {"class": "Annotator", "parts": annotator.parts_, "kernel_weights": weights}


def _metrics(model: Model, kind: str, options: Options) -> Record:
    """Settings, sizes and groups of a model."""
    metrics = {"class": type(model).__name__, **_size(model)}
    parameters = model.get_params(deep=False)
    metrics.update({name: str(parameters[name]) for name in ("loss", "regularizer") if name in parameters})
    metrics.update({name: getattr(model, name) for name in ("C", "alpha") if hasattr(model, name)})
    if hasattr(model, "dual_gap_"):
        metrics.update({"iterations": model.n_iter_, "dual_gap": model.dual_gap_})
    else:
        metrics.update({"epochs": model.n_iter_, "memory": model.memory_usage()})
    metrics["kernel_weights"] = getattr(model, "kernel_weights_", {})
    metrics["left_out"] = getattr(model, "left_out_", [])
    metrics["group_report"] = group_records(model, kind, options)
    metrics["top_features"] = []
    return metrics


def _size(model: Model) -> dict[str, int]:
    """Size of a model in its own terms."""
    if isinstance(model, omkl.DependencyParser):
        return {"templates": len(model.templates_), "features": model.n_features()}
    if hasattr(model, "classes_"):
        return {"labels": len(model.classes_)}
    weights = getattr(model, "kernel_weights_", None)
    return {"columns": model.coef_.size} if weights is None else {"groups": len(weights)}


def group_records(model: Model, kind: str, options: Options) -> list[Record]:
    """A record for each group of a model; with ``options.data`` also of how much each helps there."""
    if not hasattr(model, "group_report"):
        opt.refuse(f"is for models that are trained online, not {of_class(model)}", "data", "kind")
        return []
    if options.data is None:
        return model.group_report_
    if kind == "trees":
        return model.group_report(read_gold(options.data, model, options))
    if kind == "sequences":
        return model.group_report(*labelled_sequences(options.data, options, model))
    with naming(options.data):
        return model.group_report(open_rows(options.data, options, Columns.of_model(model)))


def _lines(metrics: Record, size: dict[str, int], n_groups: int) -> Iterator[str]:
    facts = [f"{n} {what}" for what, n in size.items()]
    facts += [f"{name} {metrics[name]}" for name in ("loss", "regularizer") if name in metrics]
    facts += [f"{name} = {metrics[name]:g}" for name in ("C", "alpha") if name in metrics]
    if "dual_gap" in metrics:
        facts.append(f"relative duality gap {np.max(metrics['dual_gap']):.2g}")
    else:
        facts.append(f"{metrics['epochs']} epochs, {metrics['memory']['prediction']:.1f} MB of parameters")
    yield f"{metrics['class']}: {', '.join(facts)}"
    if metrics["group_report"]:
        yield from group_lines(metrics["group_report"], n_groups)
    elif metrics["kernel_weights"]:
        ranked = sorted(metrics["kernel_weights"].items(), key=lambda item: -item[1])
        yield "\nWeights of the groups"
        yield from bar_chart(dict(ranked[:n_groups]))
        yield from _rest(len(ranked) - n_groups)
    if metrics["left_out"]:
        yield f"{len(metrics['left_out'])} are left out: they do not help on examples not learned from."
    features = metrics["top_features"]
    if features:
        rows = [(f["feature"], f.get("label", f["group"]), f"{f['weight']:+.3f}") for f in features]
        yield "\nStrongest features"
        yield from table(rows, ("feature", "label" if "label" in features[0] else "group", "weight"))


def group_lines(records: list[Record], n: int) -> Iterator[str]:
    """A table of the n groups that help most, or weigh most without data; and a summary of the groups that do not."""
    measured = "loss_increase" in records[0]
    first = "loss_increase" if measured else "weight"
    ranked = sorted(records, key=lambda r: (-np.inf if r[first] is None else r[first], r["norm"]), reverse=True)
    header = ["group", "weight", "norm", "bytes"]
    header += ["loss without", "increase", "std. error"] if measured else []
    yield "\nGroups"
    yield from table([_cells(record, measured) for record in ranked[:n]], header)
    yield from _rest(len(ranked) - n)
    dead = sum(record["norm"] == 0 for record in records)
    if dead:
        yield f"{dead} of {len(records)} groups are zero."
    if measured:
        alive = [record for record in records if record["norm"] > 0]
        idle = [r for r in alive if r["loss_increase"] <= MEASURABLE * (r["standard_error"] or 0.0)]
        yield (
            f"{len(idle)} of {len(alive)} others do not help measurably ({MEASURABLE:g} standard errors), with "
            f"{sum(r['bytes_share'] for r in idle):.0%} of the bytes. Each is measured beside all others: of two "
            "alike, only one can go."
        )


def _cells(record: Record, measured: bool) -> list[str]:
    name, weight = record["group"], record["weight"]
    if len(name) > NAME_WIDTH:
        name = f"{name[: NAME_WIDTH // 2 - 1]}…{name[-NAME_WIDTH // 2 :]}"
    row = [name, "-" if weight is None else f"{weight:.1%}", f"{record['norm']:.3g}", f"{record['bytes_share']:.2%}"]
    if measured:
        error = record["standard_error"]
        row += [f"{record['loss_without']:.4g}", f"{record['loss_increase']:+.2g}"]
        row.append("-" if error is None else f"{error:.1g}")
    return row


def _rest(n_more: int) -> Iterator[str]:
    if n_more > 0:
        yield f"and {n_more} more; --groups N shows N of them."
