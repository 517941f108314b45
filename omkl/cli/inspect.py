"""``omkl inspect``: what a saved model has learned."""

from argparse import Namespace
from typing import Any

import numpy as np

from omkl import estimators
from omkl.cli.common import OUTPUT, add_options, bar_chart, report, table


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "inspect",
        help="what a model has learned",
        description="Weights of the groups of a saved model, and its strongest features.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="list the N strongest features (default 10)")
    parser.add_argument("--group", metavar="NAME", help="only features of this group")
    parser.add_argument("--groups", type=int, default=30, metavar="N", help="list the N heaviest groups (default 30)")
    add_options(parser, *OUTPUT)
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
    model = estimators.load(arguments.model)
    metrics = {"class": type(model).__name__, **size(model)}
    metrics.update({name: str(getattr(model, name)) for name in ("loss", "regularizer") if hasattr(model, name)})
    metrics.update({name: getattr(model, name) for name in ("C", "alpha") if hasattr(model, name)})
    if hasattr(model, "dual_gap_"):
        metrics.update({"iterations": model.n_iter_, "dual_gap": model.dual_gap_})
    else:
        metrics.update({"epochs": model.n_iter_, "memory": model.memory_usage()})
    metrics["kernel_weights"] = getattr(model, "kernel_weights_", {})
    is_online = hasattr(model, "top_features")
    metrics["top_features"] = model.top_features(arguments.top, arguments.group) if is_online else []
    report(arguments, _lines(metrics, size(model), arguments), metrics)


def _lines(metrics, extent, arguments):
    facts = [f"{n} {what}" for what, n in extent.items()]
    facts += [f"{name} {metrics[name]}" for name in ("loss", "regularizer") if name in metrics]
    facts += [f"{name} = {metrics[name]:g}" for name in ("C", "alpha") if name in metrics]
    if "dual_gap" in metrics:
        facts.append(f"relative duality gap {np.max(metrics['dual_gap']):.2g}")
    else:
        facts.append(f"{metrics['epochs']} epochs, {metrics['memory']['prediction']:.1f} MB of parameters")
    yield f"{metrics['class']}: {', '.join(facts)}"
    ranked = sorted(metrics["kernel_weights"].items(), key=lambda item: -item[1])
    if ranked:
        yield "\nWeights of the groups"
        yield from bar_chart(dict(ranked[: arguments.groups]))
    if len(ranked) > arguments.groups:
        yield (f"and {len(ranked) - arguments.groups} more; --groups N shows N of them.")
    features = metrics["top_features"]
    if features:
        rows = [(f["feature"], f.get("label", f["group"]), f"{f['weight']:+.3f}") for f in features]
        yield "\nStrongest features"
        yield from table(rows, ("feature", "label" if "label" in features[0] else "group", "weight"))
