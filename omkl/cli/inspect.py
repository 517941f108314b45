"""``omkl inspect`` and ``omkl report``: show what a saved model has learned, and how good it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import omkl
from omkl import reports
from omkl._components import check_choice
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, counted, table
from omkl.cli.files import Model, class_with_article, labelled_data, load_model, naming
from omkl.cli.options import Options, option
from omkl.data import output_file

#: Maximum length of names of groups in tables; longer ones are shortened in the middle.
NAME_WIDTH = 44
#: A group helps measurably if the loss without it increases by more than this number of standard
#: errors.
MEASURABLE = 2.0
#: Entries of the records of groups, and their formats, by the heads of columns.
COLUMNS = {
    "weight": ("weight", ".1%"),
    "norm": ("norm", ".3g"),
    "bytes": ("bytes_share", ".2%"),
}
#: The same for groups that were measured on data.
MEASURED = {
    "loss without": ("loss_without", ".4g"),
    "increase": ("loss_increase", "+.2g"),
    "std. error": ("standard_error", ".1g"),
}
#: Number of groups to list, of one model and of each model of an annotator.
GROUPS_OF_MODEL = 30
GROUPS_OF_PART = 10


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
    opt.DATA,
    opt.JOBS,
    opt.METRICS,
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
        opt.refuse(f"is for annotators, not {class_with_article(model)}", "part")
    options.annotator = None
    if kind == "annotations":
        if options.part is None:
            reason = "needs --part NAME for an annotator, which has several models"
            opt.refuse(reason, "data", "group")
            _inspect_annotator(model, options)
            return
        check_choice("--part", options.part, model.models())
        options.annotator = model
        model = model.models()[options.part]
    metrics = _metrics(model, kind, options)
    n_groups = GROUPS_OF_MODEL if options.groups is None else options.groups
    lines = list(_lines(metrics, _size(model), n_groups))
    options.report(lines, metrics)


def _inspect_annotator(annotator: omkl.Annotator, options: Options) -> None:
    """Report on the weights of the groups of all models of an annotator."""
    n_groups = GROUPS_OF_PART if options.groups is None else options.groups
    weights = annotator.kernel_weights_
    lines = [f"Annotator: {', '.join(annotator.parts_)}, by {len(weights)} models"]
    for part, weights_of_part in weights.items():
        n_zero = sum(weight == 0 for weight in weights_of_part.values())
        lines += ["", f"{part}: {len(weights_of_part)} groups, {n_zero} of them zero"]
        lines += bar_chart(weights_of_part, n_groups)
    metrics: Record = {
        "class": "Annotator",
        "parts": annotator.parts_,
        "kernel_weights": weights,
    }
    options.report(lines, metrics)


def _metrics(model: Model, kind: str, options: Options) -> Record:
    """Return parameters, sizes and groups of a model."""
    parameters = model.get_params(deep=False)
    sections = model.report_sections
    metrics: Record = {"class": type(model).__name__, **_size(model)}
    for name in ("loss", "regularizer"):
        if name in parameters:
            metrics[name] = str(parameters[name])
    for name in ("C", "alpha"):
        learned = getattr(model, f"{name}_", parameters.get(name))
        if learned is not None:
            metrics[name] = learned
    metrics |= {"kernel_weights": {}, "left_out": [], "group_report": [], "top_features": []}
    metrics["column_scales"] = model.column_scales_ if "scales" in sections else {}
    if "features" in sections:
        metrics |= {
            "C": model.model_.settings.C,
            "epochs": model.n_iter_,
            "memory": model.memory_usage(),
            "group_report": _group_report(model, kind, options),
            "top_features": model.top_features(options.top, options.group),
        }
    else:
        opt.refuse(
            f"is for models that are trained online, not {class_with_article(model)}",
            "data",
            "group",
        )
        metrics |= {"iterations": model.n_iter_, "dual_gap": model.dual_gap_}
    if "coefficients" not in sections:
        metrics |= {"kernel_weights": model.kernel_weights_, "left_out": model.left_out_}
    return metrics


def _group_report(model: Model, kind: str, options: Options) -> list[Record]:
    """Return the records of groups, measured on the file of ``--data`` if there is one."""
    if options.data is None:
        return model.group_report_
    with naming(options.data):
        reader = options.annotator or model
        held_out = labelled_data(options.data, reader, kind, options)
        if options.annotator is not None:
            from omkl.reports.quality import data_of_part

            held_out = data_of_part(options.annotator, options.part, held_out[0])
        return model.group_report(*held_out)


def _size(model: Model) -> dict[str, int]:
    """Return the size of a model, in units of its class."""
    if model.example_kind == "trees":
        return {"templates": len(model.templates_), "features": model.n_features()}
    if hasattr(model, "classes_"):
        return {"labels": len(model.classes_)}
    is_linear = "coefficients" in model.report_sections
    return {"columns": model.coef_.size} if is_linear else {"groups": len(model.kernel_weights_)}


def _lines(metrics: Record, size: dict[str, int], n_groups: int) -> Iterator[str]:
    """Yield lines about a model: its size and settings, groups, scales and strongest features."""
    facts = [f"{count} {unit}" for unit, count in size.items()]
    facts += [f"{name} {metrics[name]}" for name in ("loss", "regularizer") if name in metrics]
    facts += [f"{name} = {metrics[name]:g}" for name in ("C", "alpha") if name in metrics]
    if "dual_gap" in metrics:
        facts.append(f"relative duality gap {np.max(metrics['dual_gap']):.2g}")
    else:
        megabytes = metrics["memory"]["prediction"]
        facts.append(f"{counted(metrics['epochs'], 'epoch')}, {megabytes:.1f} MB of parameters")
    yield f"{metrics['class']}: {', '.join(facts)}"
    if metrics["group_report"]:
        yield from group_lines(metrics["group_report"], n_groups)
    elif metrics["kernel_weights"]:
        yield "\nWeights of the groups"
        yield from bar_chart(metrics["kernel_weights"], n_groups)
        yield from _rest(len(metrics["kernel_weights"]) - n_groups)
    if metrics["left_out"]:
        n_left_out = len(metrics["left_out"])
        yield f"{n_left_out} are left out: they do not help on examples not learned from."
    scales = metrics["column_scales"]
    if scales:
        rows = [(name, f"{mean:.4g}", f"{scale:.4g}") for name, (mean, scale) in scales.items()]
        yield "\nScales of the columns"
        yield from table(rows[:n_groups], ("column", "mean", "deviation"))
        yield from _rest(len(rows) - n_groups)
    if metrics["top_features"]:
        yield "\nStrongest features"
        yield from _feature_table(metrics["top_features"])


def _feature_table(features: list[Record]) -> list[str]:
    """Return a table of features with their labels, or where there are none with their groups."""
    has_labels = "label" in features[0]
    rows = []
    for feature in features:
        label_or_group = feature.get("label", feature["group"])
        rows.append((feature["feature"], label_or_group, f"{feature['weight']:+.3f}"))
    return table(rows, ("feature", "label" if has_labels else "group", "weight"))


def group_lines(records: list[Record], n: int) -> Iterator[str]:
    """Yield a table of n groups, and a summary of the others.

    The groups are those that help most, or without data weigh most.
    """
    from omkl.reports.plots.canvas import shortened

    measured = "loss_increase" in records[0]
    rank_by = "loss_increase" if measured else "weight"

    def rank(record: Record) -> tuple[float, float]:
        value = record[rank_by]
        if value is None:
            value = -np.inf
        return value, record["norm"]

    ranked = sorted(records, key=rank, reverse=True)
    columns = COLUMNS | MEASURED if measured else COLUMNS
    rows = []
    names = shortened([record["group"] for record in ranked[:n]], NAME_WIDTH)
    for name, record in zip(names, ranked):
        cells = [name]
        for entry, form in columns.values():
            value = record[entry]
            cells.append("-" if value is None else format(value, form))
        rows.append(cells)
    yield "\nGroups"
    yield from table(rows, ["group", *columns])
    yield from _rest(len(ranked) - n)
    active = [record for record in records if record["norm"] > 0]
    n_zero = len(records) - len(active)
    if n_zero:
        yield f"{n_zero} of {len(records)} groups are zero."
    if measured:
        idle = [record for record in active if not _helps_measurably(record)]
        share = sum(record["bytes_share"] for record in idle)
        yield (
            f"{len(idle)} of {len(active)} others do not help measurably "
            f"({MEASURABLE:g} standard errors), with {share:.0%} of the bytes. "
            "Each is measured beside all others: of two alike, only one can go."
        )


def _helps_measurably(record: Record) -> bool:
    """Tell whether the loss without a group is larger by more than chance explains."""
    return record["loss_increase"] > MEASURABLE * (record["standard_error"] or 0.0)


def _rest(n_more: int) -> Iterator[str]:
    if n_more > 0:
        yield f"and {n_more} more; --groups N shows N of them."


# ---- omkl report ---------------------------------------------------------------------------------


@opt.command(
    "report",
    opt.MODEL,
    opt.argument("data", type=opt.READ, required=False),
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
    opt.DATA,
    opt.JOBS,
    opt.METRICS,
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
    name = type(model).__name__
    title = f"Report on {name}"
    n_examples = None
    if X is not None:
        n_examples = n_rows(X)
        unit = "sentences" if kind in ("trees", "annotations") else kind
        title += f" on {n_examples} {unit}"
    metrics = {
        "class": name,
        "examples": n_examples,
        "output": options.output,
        "bytes": len(page.encode()),
    }
    options.report([f"{title}: {options.output}"], metrics)
