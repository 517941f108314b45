"""``omkl demo``: learn to combine kernels, or feature templates, with nothing to download."""

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import omkl
from omkl.cli.common import OUTPUT, add_options, as_typed, bar_chart, table, write_json
from omkl.exceptions import MissingDependencyError

KERNELS = ["linear", "quadratic", "gaussian"]
USELESS = (
    "h.form m.form direction", "h.form m.feats", "m.form distance", "h.feats m.feats direction", "h-1.form h.feats",
    "h.feats m.form direction", "h+1.form m-1.form", "m.feats direction", "h.feats distance",
)  # fmt: skip
#: For each kind of model: files for model, metrics and figure, title of the figure, what to do next.
KINDS = {
    "labeler": (
        "dates.npz", "metrics.json", "group_weights.png", "Group weights along the epochs",
        "examples/ocr_table1.py       Table 1 of the paper, on 52,152 handwritten letters", "predict(images)",
    ),
    "parser": (
        "parser.npz", "parser-metrics.json", "template_weights.png", "Template weights along the epochs",
        "examples/parser_english.py   English with 507 templates, beside other parsers", "parse(sentences)",
    ),
}  # fmt: skip
NEXT = """
Next:
  {omkl} inspect {model}
  {omkl} train {kind} --help           train on files of your own
  {python} {example}
  in Python: omkl.load("{model}").{call}"""


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "demo",
        help="train a labeler of handwritten dates, and see how it combines kernels; or a parser",
        description="Train labelers of handwritten dates with three kernels alone, averaged and combined by MKL; or "
        "parsers of a made-up language, and see which feature templates they find.",
    )
    parser.add_argument(
        "kind", nargs="?", choices=("labeler", "parser"), default="labeler", help="what to train (default labeler)"
    )
    parser.add_argument(
        "-o", "--output", default="omkl-demo", metavar="DIR", help="folder for model, figure and metrics"
    )
    parser.add_argument("--n-train", type=int, metavar="N", help="dates or sentences to train on (default 80; 1500)")
    parser.add_argument("--n-test", type=int, default=400, metavar="N", help="to test on (default 400)")
    parser.add_argument("--C", type=float, default=1.0, help="weight of the losses (default 1)")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data (default 20)")
    parser.add_argument("--random-state", type=int, default=0, metavar="N", help="seed (default 0)")
    add_options(parser, *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Run the demonstration."""
    folder, kind = Path(arguments.output), arguments.kind
    folder.mkdir(parents=True, exist_ok=True)
    say = (lambda *_: None) if arguments.quiet else print
    mkl, rows, weights = (_parse if kind == "parser" else _label)(arguments, say)
    *names, title, example, call = KINDS[kind]
    model, metrics, figure = (folder / name for name in names)
    mkl.save(model)
    summary = {"results": rows, f"{'template' if kind == 'parser' else 'kernel'}_weights": weights,
               "history": mkl.history_}  # fmt: skip
    write_json(metrics, summary)
    write_json(arguments.json, summary)
    say(f"\nSaved the model to {model} and the metrics to {metrics}.")
    try:
        omkl.reports.plot_group_weights(mkl.history_, figure, title)
        say(f"Saved a figure of the weights along the epochs to {figure}.")
    except MissingDependencyError as error:
        say(f"No figure: {error}")
    programs = {"omkl": as_typed("omkl"), "python": as_typed("python")}
    say(NEXT.format(model=model, kind=kind, example=example, call=call, **programs))


def _label(arguments, say):
    """Compare labelers of handwritten dates; returns that by MKL, the rows of the table, and its weights."""
    dates = omkl.data.handwritten_dates(
        80 if arguments.n_train is None else arguments.n_train, arguments.n_test, arguments.random_state
    )
    say(
        f"{len(dates.train_digits)} handwritten dates to train on, {len(dates.test_digits)} to test on, 8 digits each; "
        "no\nimage is in both. A first-order chain learns which digit follows which.\n"
    )
    competitors = {name: [name] for name in KERNELS}
    competitors["average of the three"] = [omkl.kernels.Average(KERNELS)]
    competitors["MKL of the three"] = KERNELS
    rows = []
    for name, kernels in competitors.items():
        started = time.perf_counter()
        labeler = omkl.SequenceLabeler(
            kernels, C=arguments.C, epochs=arguments.epochs, random_state=arguments.random_state,
            verbose=not arguments.quiet,
        ).fit(dates.train_images, dates.train_digits)  # fmt: skip
        seconds = time.perf_counter() - started
        accuracy = labeler.score(dates.test_images, dates.test_digits)
        rows.append({"kernels": name, "accuracy": accuracy, "seconds": seconds})
        say(f"  {name:<22}{accuracy:7.2%} of digits right   ({seconds:.2f} s)")
    mkl = labeler  # the last of them
    best = max(rows[: len(KERNELS)], key=lambda row: row["accuracy"])
    ahead = rows[-1]["accuracy"] - best["accuracy"]
    say(f"\nMKL is {abs(ahead):.2%} {'ahead of' if ahead >= 0 else 'behind'} {best['kernels']}, the best kernel alone, "
        "and found out by itself which that is.")  # fmt: skip
    say("What it learned: the weight of each kernel")
    say("\n".join(bar_chart(mkl.kernel_weights_)))
    say("\nOne of the test dates, and what the model reads in it:")
    say("\n".join(_drawing(dates.test_images[0])))
    say("".join(f"{digit:^9}" for digit in mkl.predict(dates.test_images[:1])[0]))
    return mkl, rows, mkl.kernel_weights_


def _drawing(images, shades=" .:-=+*#%@"):
    """The images of one date side by side, as text."""
    levels = (images.clip(0, 1) * (len(shades) - 1)).astype(int).reshape(len(images), 8, 8)
    return [" ".join("".join(shades[level] for level in image[row]) for image in levels) for row in range(8)]


def _parse(arguments, say):
    """Compare parsers of a made-up language; returns that by MKL, the rows of the table, and its weights."""
    from omkl.data.synthetic import INFORMATIVE

    n_train = 1500 if arguments.n_train is None else arguments.n_train
    treebank = omkl.data.synthetic_treebank(
        n_train + arguments.n_test, vocabulary=10, random_state=arguments.random_state
    )
    train, test = treebank[:n_train], treebank[n_train:]
    say(f"{n_train} sentences of a made-up language to train on, {len(test)} to test on. Which word depends on which\n"
        f"is told by {len(INFORMATIVE)} feature templates; {len(USELESS)} others are useless. "
        "The noise in the trees lets nobody find more than 84%.\n")  # fmt: skip
    competitors: dict[str, Any] = {
        "an SVM on all templates": {"regularizer": "l2"},
        "MKL on all templates": {},
        "an SVM on those that tell": {"regularizer": "l2", "templates": INFORMATIVE},
        "an SVM on the useless": {"regularizer": "l2", "templates": USELESS},
    }
    rows, parsers = [], {}
    for name, settings in competitors.items():
        settings = {"templates": INFORMATIVE + USELESS, **settings}
        parser = omkl.DependencyParser(
            C=arguments.C, epochs=arguments.epochs, random_state=arguments.random_state, memory=60, labeled=False,
            verbose=not arguments.quiet, **settings,
        ).fit(train)  # fmt: skip
        parsers[name] = parser
        rows.append({"parser": name, "uas": parser.score(test), "seconds": parser.fit_seconds_})
    mkl = parsers["MKL on all templates"]
    pruned = mkl.prune(len(INFORMATIVE)).set_params(regularizer="l2").fit(train)
    rows.append({"parser": f"an SVM on MKL's best {len(INFORMATIVE)}", "uas": pruned.score(test),
                 "seconds": pruned.fit_seconds_})  # fmt: skip
    cells = [(row["parser"], f"{row['uas']:.2%}", f"{row['seconds']:.2f}") for row in rows]
    say("\n".join(table(cells, ("", "heads right", "seconds"))))
    found = set(mkl.ranking()[: len(INFORMATIVE)])
    say(f"\nMKL ranks {len(found & set(INFORMATIVE))} of the {len(INFORMATIVE)} first. What it learned:")
    say("\n".join(bar_chart({f"{'*' if n in INFORMATIVE else ' '} {n}": w for n, w in mkl.template_weights_.items()})))
    say("(* tells the heads)\n\nIts strongest features:")
    features = [(f["feature"], f"{f['weight']:+.3f}") for f in mkl.top_features(5)]
    say("\n".join(table(features, ("feature", "weight"))))
    return mkl, rows, mkl.template_weights_
