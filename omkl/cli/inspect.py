"""``omkl inspect``: what a saved model has learned."""

from omkl.cli.common import add_output_options, bar_chart, table, write_json
from omkl.estimators import load


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
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments):
    """Show a model."""
    model = load(arguments.model)
    features = model.top_features(arguments.top, arguments.group)
    metrics = {
        "class": type(model).__name__,
        "labels": len(model.classes_),
        "loss": str(model.loss),
        "regularizer": str(model.regularizer),
        "C": model.C,
        "epochs": model.n_iter_,
        "memory": model.memory_usage(),
        "kernel_weights": model.kernel_weights_,
        "top_features": features,
    }
    if not arguments.quiet:
        print(f"{metrics['class']}: {metrics['labels']} labels, loss {metrics['loss']}, regularizer "
              f"{metrics['regularizer']}, C = {model.C:g}, {model.n_iter_} epochs, "
              f"{metrics['memory']['prediction'] / 1e6:.1f} MB of parameters")  # fmt: skip
        print("\nWeights of the groups")
        print("\n".join(bar_chart(model.kernel_weights_)))
        if features:
            rows = [(f["feature"], f["label"], f"{f['weight']:+.3f}") for f in features]
            print("\nStrongest features")
            print("\n".join(table(rows, ("feature", "label", "weight"))))
    write_json(arguments.json, metrics)
