"""``omkl inspect`` and ``omkl report``: show what a saved model has learned, and how good it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from omkl import reports
from omkl._components import check_choice
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, table
from omkl.cli.files import labelled_data, load_model, naming, of_class
from omkl.cli.options import Options, option
from omkl.data import output_file

#: Maximum length of names of groups in tables; longer ones are shortened in the middle.
NAME_WIDTH = 44
#: A group helps measurably if the loss without it increases by more than this number of standard
#: errors.
MEASURABLE = 2.0
#: Entries of the records of groups, and their formats, by the heads of columns; those of measured
#: groups.
COLUMNS = {"weight": ("weight", ".1%"), "norm": ("norm", ".3g"), "bytes": ("bytes_share", ".2%")}
MEASURED = {"loss without": ("loss_without", ".4g"), "increase": ("loss_increase", "+.2g")}
MEASURED |= {"std. error": ("standard_error", ".1g")}


@opt.command(
    "inspect",
    opt.MODEL,
    option("--top", type=opt.COUNT, default=10, metavar="N", help="List the N strongest features."),
    option("--group", metavar="NAME", help="Only features of this group."),
    option(
        "--groups",
        type=opt.COUNT,
        metavar="N",
        help="List N groups; 30 by default, or 10 of each part.",
    ),
    option(
        "--part",
        metavar="NAME",
        help="Annotators: only the model of this part, such as upos or trees.",
    ),
    option(
        "--data",
        type=opt.READ,
        metavar="FILE",
        help="Measure how much each group helps on this held-out file.",
    ),
    *(opt.DATA, opt.JOBS, opt.METRICS),
)
def inspect(options: Options) -> None:
    """Show the groups of the saved MODEL, their weights and sizes, and its strongest features.

    Examples:
      omkl inspect model.npz --top 20
      omkl inspect parser.npz --groups 100 --json groups.json
      omkl inspect annotator.npz --part upos --data test.conllu
      omkl inspect labeler.npz --data held-out.crfsuite   # what each group is worth there
    """
    model, kind = load_model(options)
    if options.data is None:
        opt.refuse("goes with --data FILE", *opt.OF_DATA)
    if kind != "annotations":
        opt.refuse(f"is for annotators, not {of_class(model)}", "part")
    if kind == "annotations" and options.part is None:
        opt.refuse("needs --part NAME for an annotator, which has several models", "data", "group")
        weights, n = model.kernel_weights_, 10 if options.groups is None else options.groups
        lines = [f"Annotator: {', '.join(model.parts_)}, by {len(weights)} models"]
        for name, own in weights.items():
            n_zero = sum(weight == 0 for weight in own.values())
            lines += ["", f"{name}: {len(own)} groups, {n_zero} of them zero", *bar_chart(own, n)]
        metrics: Record = {"class": "Annotator", "parts": model.parts_, "kernel_weights": weights}
    else:
        options.groups = 30 if options.groups is None else options.groups
        options.annotator = model if kind == "annotations" else None
        if kind == "annotations":
            check_choice("--part", options.part, model.models())
            model = model.models()[options.part]
        metrics = _metrics(model, kind, options)
        lines = list(_lines(metrics, _size(model), options.groups))
    options.report(lines, metrics)


def _metrics(model: Any, kind: str, options: Options) -> Record:
    """Return parameters, sizes and groups of a model."""
    parameters = model.get_params(deep=False)
    metrics = {"class": type(model).__name__, **_size(model)}
    metrics |= {
        name: str(parameters[name]) for name in ("loss", "regularizer") if name in parameters
    }
    learned = {name: getattr(model, f"{name}_", parameters.get(name)) for name in ("C", "alpha")}
    metrics |= {name: value for name, value in learned.items() if value is not None}
    metrics |= {"kernel_weights": {}, "left_out": [], "group_report": [], "top_features": []}
    metrics["column_scales"] = model.column_scales_ if "scales" in model.report_sections else {}
    if "features" in model.report_sections:
        metrics |= {
            "C": model.model_.settings.C,
            "epochs": model.n_iter_,
            "memory": model.memory_usage(),
        }
        if options.data is None:
            metrics["group_report"] = model.group_report_
        else:
            with naming(options.data):
                held_out = labelled_data(options.data, options.annotator or model, kind, options)
                if options.annotator is not None:
                    from omkl.reports.quality import data_of_part

                    held_out = data_of_part(options.annotator, options.part, held_out[0])
                metrics["group_report"] = model.group_report(*held_out)
        metrics["top_features"] = model.top_features(options.top, options.group)
    else:
        opt.refuse(f"is for models that are trained online, not {of_class(model)}", "data", "group")
        metrics |= {"iterations": model.n_iter_, "dual_gap": model.dual_gap_}
    if "coefficients" not in model.report_sections:
        metrics |= {"kernel_weights": model.kernel_weights_, "left_out": model.left_out_}
    return metrics


def _size(model: Any) -> dict[str, int]:
    """Return the size of a model, in units of its class."""
    if model.example_kind == "trees":
        return {"templates": len(model.templates_), "features": model.n_features()}
    if hasattr(model, "classes_"):
        return {"labels": len(model.classes_)}
    is_linear = "coefficients" in model.report_sections
    return {"columns": model.coef_.size} if is_linear else {"groups": len(model.kernel_weights_)}


def _lines(metrics: Record, size: dict[str, int], n_groups: int) -> Iterator[str]:
    facts = [f"{n} {what}" for what, n in size.items()]
    facts += [f"{name} {metrics[name]}" for name in ("loss", "regularizer") if name in metrics]
    facts += [f"{name} = {metrics[name]:g}" for name in ("C", "alpha") if name in metrics]
    if "dual_gap" in metrics:
        facts.append(f"relative duality gap {np.max(metrics['dual_gap']):.2g}")
    else:
        facts.append(
            f"{metrics['epochs']} epochs, {metrics['memory']['prediction']:.1f} MB of parameters"
        )
    yield f"{metrics['class']}: {', '.join(facts)}"
    if metrics["group_report"]:
        yield from group_lines(metrics["group_report"], n_groups)
    elif metrics["kernel_weights"]:
        yield "\nWeights of the groups"
        yield from bar_chart(metrics["kernel_weights"], n_groups)
        yield from _rest(len(metrics["kernel_weights"]) - n_groups)
    if metrics["left_out"]:
        yield f"{len(metrics['left_out'])} are left out: they do not help on examples not learned from."
    if scales := metrics["column_scales"]:
        yield "\nScales of the columns"
        rows = [(name, f"{mean:.4g}", f"{scale:.4g}") for name, (mean, scale) in scales.items()]
        yield from table(rows[:n_groups], ("column", "mean", "deviation"))
        yield from _rest(len(rows) - n_groups)
    features = metrics["top_features"]
    if features:
        rows = [(f["feature"], f.get("label", f["group"]), f"{f['weight']:+.3f}") for f in features]
        yield "\nStrongest features"
        yield from table(
            rows, ("feature", "label" if "label" in features[0] else "group", "weight")
        )


def group_lines(records: list[Record], n: int) -> Iterator[str]:
    """Yield a table of the n groups that help most, or without data weigh most, and a summary of
    the others.
    """
    measured = "loss_increase" in records[0]
    first = "loss_increase" if measured else "weight"
    ranked = sorted(
        records, key=lambda r: (-np.inf if r[first] is None else r[first], r["norm"]), reverse=True
    )
    columns = COLUMNS | (MEASURED if measured else {})
    rows = []
    for record in ranked[:n]:
        name = record["group"]
        short = (
            name
            if len(name) <= NAME_WIDTH
            else f"{name[: NAME_WIDTH // 2 - 1]}…{name[-NAME_WIDTH // 2 :]}"
        )
        cells = (
            "-" if record[key] is None else format(record[key], form)
            for key, form in columns.values()
        )
        rows.append([short, *cells])
    yield "\nGroups"
    yield from table(rows, ["group", *columns])
    yield from _rest(len(ranked) - n)
    alive = [record for record in records if record["norm"] > 0]
    if len(alive) < len(records):
        yield f"{len(records) - len(alive)} of {len(records)} groups are zero."
    if measured:
        idle = [r for r in alive if r["loss_increase"] <= MEASURABLE * (r["standard_error"] or 0.0)]
        yield (
            f"{len(idle)} of {len(alive)} others do not help measurably ({MEASURABLE:g} standard errors), with "
            f"{sum(r['bytes_share'] for r in idle):.0%} of the bytes. Each is measured beside all others: of two "
            "alike, only one can go."
        )


def _rest(n_more: int) -> Iterator[str]:
    if n_more > 0:
        yield f"and {n_more} more; --groups N shows N of them."


# ---- omkl report ---------------------------------------------------------------------------------


@opt.command(
    "report",
    *(opt.MODEL, opt.argument("data", type=opt.READ, required=False)),
    option(
        "-o", "--output", type=opt.WRITE, default="-", metavar="FILE", help="HTML file to write."
    ),
    option(
        "--title", metavar="TEXT", help="Heading of the page; by default the class of the model."
    ),
    option(
        "--worst",
        type=opt.COUNT,
        default=10,
        metavar="N",
        help="Show the N examples with the worst mistakes.",
    ),
    *(opt.DATA, opt.JOBS, opt.METRICS),
)
def report(options: Options) -> None:
    """Write a self-contained HTML page about the saved MODEL.

    The page shows what the model has learned, and how it was trained. With a file DATA of held-out
    data, it also shows scores by label, relation and length, calibration, and explanations of the
    worst mistakes. Plots need omkl[plot].

    Examples:
      omkl report labeler.npz test.crfsuite -o report.html
      omkl report parser.npz test.conllu -o report.html --title "English, gold tags"
      omkl report classifier.npz test.csv --target species -o report.html
      omkl report model.npz > report.html                 # what the model says of itself
    """
    from omkl.data.blocks import n_rows

    model, kind = load_model(options)
    X = y = None
    if options.data is None:
        opt.refuse("is about labelled data: name a file of them", *opt.OF_DATA)
    with naming(options.data or options.model):
        if options.data is not None:
            X, y = labelled_data(options.data, model, kind, options)
            if kind == "rows":
                X, y = X.read()
        page = reports.make_report(
            options.checked or model, X, y, title=options.title, n_worst=options.worst
        )
    with output_file(options.output) as file:
        file.write(page.encode())
    name, n = type(model).__name__, None if X is None else n_rows(X)
    on = "" if n is None else f" on {n} {'sentences' if kind in ('trees', 'annotations') else kind}"
    metrics = {"class": name, "examples": n, "output": options.output, "bytes": len(page.encode())}
    options.report([f"Report on {name}{on}: {options.output}"], metrics)
