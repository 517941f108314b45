"""``omkl inspect``: what a saved model has learned."""

from omkl.cli.common import add_output_options, bar_chart, table, write_json
from omkl.estimators import DependencyParser, load


def add_parser(subparsers):
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
    add_output_options(parser)
    parser.set_defaults(run=run)


def size(model):
    """How large a model is, in its own terms."""
    if isinstance(model, DependencyParser):
        return {"templates": len(model.templates_), "features": model.n_features()}
    return {"labels": len(model.classes_)} if hasattr(model, "classes_") else {"groups": len(model.kernel_weights_)}


def run(arguments):
    """Show a model."""
    model = load(arguments.model)
    features = model.top_features(arguments.top, arguments.group)
    metrics = {
        "class": type(model).__name__,
        **size(model),
        "loss": str(model.loss),
        "regularizer": str(model.regularizer),
        "C": model.C,
        "epochs": model.n_iter_,
        "memory": model.memory_usage(),
        "kernel_weights": model.kernel_weights_,
        "top_features": features,
    }
    if not arguments.quiet:
        extent = ", ".join(f"{n} {what}" for what, n in size(model).items())
        print(f"{metrics['class']}: {extent}, loss {metrics['loss']}, regularizer "
              f"{metrics['regularizer']}, C = {model.C:g}, {model.n_iter_} epochs, "
              f"{metrics['memory']['prediction'] / 1e6:.1f} MB of parameters")  # fmt: skip
        print("\nWeights of the groups")
        ranked = sorted(model.kernel_weights_.items(), key=lambda item: -item[1])
        print("\n".join(bar_chart(dict(ranked[: arguments.groups]))))
        if len(ranked) > arguments.groups:
            print(f"and {len(ranked) - arguments.groups} more; --groups N shows N of them.")
        if features:
            rows = [(f["feature"], f.get("label", f["group"]), f"{f['weight']:+.3f}") for f in features]
            print("\nStrongest features")
            print("\n".join(table(rows, ("feature", "label" if "label" in features[0] else "group", "weight"))))
    write_json(arguments.json, metrics)
