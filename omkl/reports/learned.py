"""The section of a report on groups and features that a model has learned."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from omkl.reports import plots
from omkl.reports.markup import ROWS, details, html, number, share_cell, signed_cell, table
from omkl.reports.quality import drawn

#: Features of a label, labels, and strongest features that these are chosen from.
FEATURES, LABELS, CHOSEN_FROM = 8, 60, 20_000
#: Features of a model without labels.
MOST = 40


def learned_parts(model: Any, measured: list[dict[str, Any]] | None) -> list[str]:
    """Weights of groups, and the strongest features; ``measured`` is the ``group_report`` on data, or None."""
    weights = getattr(model, "kernel_weights_", None)
    if isinstance(weights, Mapping) and weights and all(isinstance(own, Mapping) for own in weights.values()):
        return _of_parts(model, weights)
    parts = [drawn(plots.plot_weights, model, caption="Weights of the groups, the heaviest first.")]
    left_out = getattr(model, "left_out_", [])
    if left_out:
        parts.append(html.paragraph(f"Left out, as they do not help on examples not learned from: {_named(left_out)}."))
    if measured:
        parts += _measured(measured)
    elif hasattr(model, "group_report"):
        parts.append(_group_table(model, None))
    elif weights:
        parts.append(details("All weights", _weight_table(weights)))
    if hasattr(model, "coef_"):
        parts.append(_coefficients(model))
    if hasattr(model, "top_features"):
        parts.append(_features(model))
    return parts


def _of_parts(annotator: Any, weights: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The groups of the parts of an annotator: those of tags and trees in full, those of single words as tables."""
    parts, models = [], annotator.models()
    of_words = [name for name in weights if " of " in name]
    for name, own in weights.items():
        if name not in of_words:
            shown = details("All groups", _weight_table(own))
            parts += [
                html.heading(f"Weights of {name}"),
                drawn(plots.plot_weights, own),
                shown,
                _features(models[name]),
            ]
            continue
        if name == of_words[0]:
            parts.append(html.heading("Weights of the models of single tags"))
        ranked = sorted(own.items(), key=lambda pair: -pair[1])
        first = ", ".join(f"{group} {weight:.0%}" for group, weight in ranked[:4] if weight > 0)
        parts.append(details(f"{name}: {first}", _weight_table(own)))
    return parts


def _weight_table(weights: Mapping[str, float]) -> str:
    """Groups and their weights, the heaviest first; those that have none by their names."""
    ranked = sorted((pair for pair in weights.items() if pair[1]), key=lambda pair: -pair[1])
    without = [name for name, weight in weights.items() if not weight]
    told = html.paragraph(f"Without weight: {_named(without, ROWS)}.", soft=True) if without else ""
    return table(["group", "weight"], [[group, share_cell(weight)] for group, weight in ranked]) + told


def _measured(records: list[dict[str, Any]]) -> list[str]:
    caption = "By how much the loss would grow without each group, by two standard errors more or less."
    return [
        html.heading("What each group is worth"),
        drawn(plots.plot_weights, records, caption=caption),
        _group_table(None, records),
    ]


def _group_table(model: Any, records: list[dict[str, Any]] | None) -> str:
    """A table of groups."""
    records = model.group_report_ if records is None else records
    header = ["group", "weight", "norm", "bytes"]
    is_measured = "loss_increase" in records[0]
    header += ["loss without it", "increase", "standard error"] if is_measured else []
    told = ("loss_without", "loss_increase", "standard_error") if is_measured else ()
    rows = [
        [
            r["group"],
            share_cell(r["weight"]),
            float(r["norm"]),
            share_cell(r["bytes_share"]),
            *(r[name] for name in told),
        ]
        for r in sorted(records, key=lambda r: -(r["weight"] or 0.0))
    ]
    return details("All groups", table(header, rows, limit=1000))


def _features(model: Any) -> str:
    """The strongest features: of each label, where there are labels."""
    found = model.top_features(CHOSEN_FROM if hasattr(model, "classes_") else MOST)
    if not found:
        return ""
    if "label" not in found[0]:
        rows = [[f["feature"], f["group"], signed_cell(f["weight"])] for f in found[:MOST]]
        return html.heading("Strongest features") + table(["feature", "group", "weight"], rows)
    by_label = defaultdict(list)
    for f in found:
        by_label[f["label"]].append(f)
    binary = len(by_label) == 1  # of two classes one has potentials
    rows = []
    for label, own in sorted(by_label.items(), key=lambda pair: str(pair[0]))[:LABELS]:
        rows.append(
            [str(label), *(html.features([f for f in own if side * f["weight"] > 0][:FEATURES]) for side in (1, -1))]
        )
    more = html.paragraph(f"and {len(by_label) - LABELS} more labels.", soft=True) if len(by_label) > LABELS else ""
    title = "Strongest features" if binary else "Strongest features by label"
    return html.heading(title) + table(["label", "speak for it", "speak against it"], rows) + more


def _coefficients(model: Any) -> str:
    """The largest coefficients of a linear model."""
    table_of = np.atleast_2d(model.coef_)
    names = getattr(model, "feature_names_in_", None)
    rows_of = getattr(model, "classes_", None)
    order = np.argsort(-np.abs(table_of), axis=None, kind="stable")[:MOST]
    rows = []
    for k, j in zip(*np.unravel_index(order, table_of.shape)):
        if table_of[k, j] != 0:
            of = "" if len(table_of) == 1 else str(k if rows_of is None else rows_of[k])
            name = f"column {j}" if names is None else str(names[j])
            rows.append([name, *([of] if of else []), signed_cell(table_of[k, j], 4)])
    header = ["column", *(["output"] if len(table_of) > 1 else []), "coefficient"]
    count = f"{number(int(np.count_nonzero(table_of)))} of {number(table_of.size)} coefficients are not zero."
    return html.heading("Coefficients") + html.paragraph(count) + table(header, rows)


def _named(names: list[str], n: int = 12) -> str:
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")
