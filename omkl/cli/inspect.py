"""``omkl inspect``: what a saved model has learned."""

from argparse import Namespace
from typing import Any

import numpy as np

from omkl import data, estimators
from omkl.cli.common import (
    OUTPUT,
    ROWS,
    add_command,
    add_options,
    bar_chart,
    check_about_data,
    count,
    load_model,
    of_class,
    report,
    table,
)
from omkl.cli.inputs import labelled_sequences
from omkl.cli.rows import naming, open_rows
from omkl.exceptions import InputError

#: Longer names of groups are cut in the middle, so that a table fits a terminal.
NAME_WIDTH = 44
#: A group helps measurably where the loss grows by more than so many standard errors without it.
MEASURABLE = 2.0


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "inspect",
        summary="what a model has learned",
        description="Groups of a saved model, what they weigh and cost, and with --data how much each helps on data "
        "that the model has not learned from; its strongest features.",
        examples="""
            omkl inspect model.npz --top 20
            omkl inspect parser.npz --groups 100 --json groups.json
            omkl inspect labeler.npz --data held-out.crfsuite   # what each group is worth there
        """,
    )
    add_options(parser, "model")
    parser.add_argument("--top", type=count, default=10, metavar="N", help="list the N strongest features (default 10)")
    parser.add_argument("--group", metavar="NAME", help="only features of this group")
    parser.add_argument("--groups", type=count, default=30, metavar="N", help="list the N heaviest groups (default 30)")
    parser.add_argument("--data", metavar="FILE", help="measure how much each group helps on this held-out file "
                        "(- for standard input)")  # fmt: skip
    add_options(parser, "--format", "--folds", *ROWS, "--on-error", "--jobs", *OUTPUT)
    parser.set_defaults(run=run)


def size(model: Any) -> dict[str, int]:
    """How large a model is, in its own terms."""
    if isinstance(model, estimators.DependencyParser):
        return {"templates": len(model.templates_), "features": model.n_features()}
    if hasattr(model, "classes_"):
        return {"labels": len(model.classes_)}
    return (
        {"groups": len(model.kernel_weights_)} if hasattr(model, "kernel_weights_") else {"columns": model.coef_.size}
    )


def run(arguments: Namespace) -> None:
    """Show a model."""
    check_about_data(arguments)
    model, kind = load_model(arguments)
    if kind == "annotations":
        _inspect_annotator(model, arguments)
        return
    metrics = {"class": type(model).__name__, **size(model)}
    metrics.update({name: str(getattr(model, name)) for name in ("loss", "regularizer") if hasattr(model, name)})
    metrics.update({name: getattr(model, name) for name in ("C", "alpha") if hasattr(model, name)})
    if hasattr(model, "dual_gap_"):
        metrics.update({"iterations": model.n_iter_, "dual_gap": model.dual_gap_})
    else:
        metrics.update({"epochs": model.n_iter_, "memory": model.memory_usage()})
    metrics["kernel_weights"] = getattr(model, "kernel_weights_", {})
    metrics["left_out"] = getattr(model, "left_out_", [])
    is_online = hasattr(model, "top_features")
    metrics["group_report"] = group_records(model, kind, arguments) if is_online else []
    if arguments.data is not None and not is_online:
        raise InputError(f"--data measures the groups of models that are trained online, not of {of_class(model)}.")
    metrics["top_features"] = model.top_features(arguments.top, arguments.group) if is_online else []
    report(arguments, _lines(metrics, size(model), arguments), metrics)


def _inspect_annotator(annotator, arguments):
    """The heaviest groups of every part."""
    if arguments.data is not None or arguments.group is not None:
        raise InputError("--data and --group look at one model, and an annotator has several: leave them out.")
    weights = annotator.kernel_weights_
    metrics = {"class": type(annotator).__name__, "parts": annotator.parts_, "kernel_weights": weights}
    lines = [f"Annotator: {', '.join(annotator.parts_)}, by {len(weights)} models"]
    for name, own in weights.items():
        ranked = sorted(own.items(), key=lambda item: -item[1])
        n_zero = sum(weight == 0 for weight in own.values())
        lines += ["", f"{name}: {len(own)} groups, {n_zero} of them zero"]
        lines += bar_chart(dict(ranked[: min(arguments.groups, arguments.top)]))
    report(arguments, lines, metrics)


def group_records(model: Any, kind: str, arguments: Namespace) -> list[dict[str, Any]]:
    """A record for each group; those of ``--data`` where it is given."""
    if arguments.data is None:
        return model.group_report_ if model.model_.trainer.has_groups else []
    if kind == "trees":
        gold = data.read_treebank(arguments.data, single_root=model.single_root, on_error=arguments.on_error)
        return model.group_report(gold)
    if kind == "sequences":
        return model.group_report(*labelled_sequences(arguments.data, arguments))
    with naming(arguments.data):
        return model.group_report(open_rows(arguments.data, arguments, model))


def _lines(metrics, extent, arguments):
    facts = [f"{n} {what}" for what, n in extent.items()]
    facts += [f"{name} {metrics[name]}" for name in ("loss", "regularizer") if name in metrics]
    facts += [f"{name} = {metrics[name]:g}" for name in ("C", "alpha") if name in metrics]
    if "dual_gap" in metrics:
        facts.append(f"relative duality gap {np.max(metrics['dual_gap']):.2g}")
    else:
        facts.append(f"{metrics['epochs']} epochs, {metrics['memory']['prediction']:.1f} MB of parameters")
    yield f"{metrics['class']}: {', '.join(facts)}"
    if metrics["group_report"]:
        yield from _group_lines(metrics["group_report"], arguments.groups)
    elif metrics["kernel_weights"]:
        ranked = sorted(metrics["kernel_weights"].items(), key=lambda item: -item[1])
        yield "\nWeights of the groups"
        yield from bar_chart(dict(ranked[: arguments.groups]))
        yield from _rest(len(ranked) - arguments.groups)
    if metrics["left_out"]:
        yield f"{len(metrics['left_out'])} are left out: they do not help on examples not learned from."
    features = metrics["top_features"]
    if features:
        rows = [(f["feature"], f.get("label", f["group"]), f"{f['weight']:+.3f}") for f in features]
        yield "\nStrongest features"
        yield from table(rows, ("feature", "label" if "label" in features[0] else "group", "weight"))


def _group_lines(records, n_shown):
    """A table of groups, those first that help most, or weigh most where no data tells; and what could go."""
    measured = "loss_increase" in records[0]
    first = "loss_increase" if measured else "weight"
    ranked = sorted(records, key=lambda r: (-np.inf if r[first] is None else r[first], r["norm"]), reverse=True)
    header = ["group", "weight", "norm", "bytes"]
    header += ["time", "loss without", "increase", "std. error"] if measured else []
    yield "\nGroups"
    yield from table([_row(record, measured) for record in ranked[:n_shown]], header)
    yield from _rest(len(ranked) - n_shown)
    dead = sum(record["norm"] == 0 for record in records)
    if dead:
        yield f"{dead} of {len(records)} groups are zero."
    if measured:
        alive = [record for record in records if record["norm"] > 0]
        idle = [r for r in alive if r["loss_increase"] <= MEASURABLE * (r["standard_error"] or 0.0)]
        yield (
            f"{len(idle)} of {len(alive)} others do not help measurably ({MEASURABLE:g} standard errors), with "
            f"{sum(r['bytes_share'] for r in idle):.0%} of the bytes and {sum(r['time_share'] for r in idle):.0%} of "
            "the time. Each is measured beside all others: of two alike, only one can go."
        )


def _row(record, measured):
    name, weight = record["group"], record["weight"]
    if len(name) > NAME_WIDTH:
        name = f"{name[: NAME_WIDTH // 2 - 1]}…{name[-NAME_WIDTH // 2 :]}"
    row = [name, "-" if weight is None else f"{weight:.1%}", f"{record['norm']:.3g}", f"{record['bytes_share']:.2%}"]
    if measured:
        error = record["standard_error"]
        row += [f"{record['time_share']:.2%}", f"{record['loss_without']:.4g}", f"{record['loss_increase']:+.2g}"]
        row.append("-" if error is None else f"{error:.1g}")
    return row


def _rest(n_more):
    if n_more > 0:
        yield f"and {n_more} more; --groups N shows N of them."
