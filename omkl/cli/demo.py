"""``omkl demo``: learn to combine kernels, or feature templates, with nothing to download."""

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import omkl
from omkl.cli import demo_parser
from omkl.cli.common import add_output_options, as_typed, bar_chart, write_json
from omkl.exceptions import MissingDependencyError

KERNELS = ["linear", "quadratic", "gaussian"]
NEXT = """\
Next:
  {omkl} inspect {model}
  {omkl} train labeler --help           train on files of your own
  {python} examples/ocr_table1.py       Table 1 of the paper, on 52,152 handwritten letters
  in Python: omkl.load("{model}").predict(images)"""


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
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Run the demonstration."""
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    (demo_parser.run if arguments.kind == "parser" else _label)(arguments, folder)


def _label(arguments, folder):
    say = (lambda *_: None) if arguments.quiet else print
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
    rows, labelers = [], {}
    for name, kernels in competitors.items():
        started = time.perf_counter()
        labeler = omkl.SequenceLabeler(
            kernels, C=arguments.C, epochs=arguments.epochs, random_state=arguments.random_state,
            verbose=not arguments.quiet,
        ).fit(dates.train_images, dates.train_digits)  # fmt: skip
        seconds = time.perf_counter() - started
        accuracy = labeler.score(dates.test_images, dates.test_digits)
        labelers[name] = labeler
        rows.append({"kernels": name, "accuracy": accuracy, "seconds": seconds})
        say(f"  {name:<22}{accuracy:7.2%} of digits right   ({seconds:.2f} s)")
    mkl = labelers["MKL of the three"]

    best = max(rows[: len(KERNELS)], key=lambda row: row["accuracy"])
    ahead = rows[-1]["accuracy"] - best["accuracy"]
    say(f"\nMKL is {abs(ahead):.2%} {'ahead of' if ahead >= 0 else 'behind'} {best['kernels']}, the best kernel alone, "
        "and found out by itself which that is.")  # fmt: skip
    say("What it learned: the weight of each kernel")
    say("\n".join(bar_chart(mkl.kernel_weights_)))
    say("\nOne of the test dates, and what the model reads in it:")
    say("\n".join(_drawing(dates.test_images[0])))
    say("".join(f"{digit:^9}" for digit in mkl.predict(dates.test_images[:1])[0]))

    model, metrics = folder / "dates.npz", folder / "metrics.json"
    mkl.save(model)
    summary = {"results": rows, "kernel_weights": mkl.kernel_weights_, "history": mkl.history_}
    write_json(metrics, summary)
    write_json(arguments.json, summary)
    say(f"\nSaved the model to {model} and the metrics to {metrics}.")
    try:
        figure = folder / "group_weights.png"
        omkl.reports.plot_group_weights(mkl.history_, figure)
        say(f"Saved a figure of the weights along the epochs to {figure}.")
    except MissingDependencyError as error:
        say(f"No figure: {error}")
    say("\n" + NEXT.format(model=model, omkl=as_typed("omkl"), python=as_typed("python")))


def _drawing(images, shades=" .:-=+*#%@"):
    """The images of one date side by side, as text."""
    levels = (images.clip(0, 1) * (len(shades) - 1)).astype(int).reshape(len(images), 8, 8)
    return [" ".join("".join(shades[level] for level in image[row]) for image in levels) for row in range(8)]
