"""``omkl demo``: multiple kernel learning on handwritten digits, without downloads."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import omkl
from omkl._files import PathLike
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, write_json
from omkl.cli.options import Options, option
from omkl.cli.train import strength
from omkl.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from omkl.online import OnlineTrainer, Step

USEFUL = ("pixels", "profiles", "spectrum", "outline")
#: Number of bits of each checksum.
CHECKSUMS = (64, 128, 256)
USELESS = (
    *(f"{view} of another digit" for view in USEFUL),
    "place on the page",
    "number of the form",
)
USELESS += tuple(f"checksum of {bits} bits" for bits in CHECKSUMS)
DIGITS_OF_FORM = 8
INTRODUCTION = """\
{n_train} handwritten dates to train on, {n_test} to test on, 8 digits each; no image is in both.
A chain learns which digit follows which, and 13 Gaussian kernels what digits look like:
4 see the digit, by its pixels, profiles, spectrum and outline; 9 do not, for they see
another digit in the same ways, the place of the date on the page, the number of the form
it stands on, or checksums, all drawn at random. Only the last two models are told which.
"""
ALIKE, MKL, BY_NORMS = "all 13 alike", "MKL out of sample", "MKL by norms"
TOLD_ALIKE, TOLD_MKL = "the 4 alike", "MKL of the 4"
#: Kernels and parameters of every model.
LABELERS: dict[str, tuple[Sequence[str], Record]] = {
    **{f"{view} alone": ([view], {}) for view in USEFUL},
    ALIKE: (USEFUL + USELESS, {"regularizer": "l2"}),
    BY_NORMS: (USEFUL + USELESS, {"weighting": "norms"}),
    MKL: (USEFUL + USELESS, {"weighting": "out-of-sample"}),
    TOLD_ALIKE: (USEFUL, {"regularizer": "l2"}),
    TOLD_MKL: (USEFUL, {"weighting": "out-of-sample"}),
}


class WeightHistory:
    """Callback that records weights: after 1, 2, 3, ... dates, then whenever the number has grown
    by a tenth.
    """

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.weights: list[dict[str, float]] = []

    def on_round(self, trainer: OnlineTrainer, step: Step) -> None:
        """Record the weights."""
        if not self.rounds or trainer.round >= 1.1 * self.rounds[-1]:
            self.rounds.append(trainer.round)
            self.weights.append(trainer.kernel_weights(trainer.norms))


@opt.command(
    "demo",
    option(
        "-o",
        "--output",
        default="omkl-demo",
        metavar="DIR",
        help="Folder for model, figure and metrics.",
    ),
    option("--n-train", type=int, default=80, metavar="N", help="Number of dates to train on."),
    option("--n-test", type=int, default=400, metavar="N", help="Number of dates to test on."),
    strength(epochs=20),
    opt.SEED,
    opt.METRICS,
)
def demo(options: Options) -> None:
    """Train labelers of handwritten dates with useful and useless kernels.

    Compares each useful kernel alone, all kernels with equal weights, all kernels with weights from
    MKL, and the useful kernels only. Shows the weights that MKL learns, and how much it helps.

    Examples:
      omkl demo                                           # model, metrics and figure land in
      omkl-demo/ omkl demo -o other-dates --random-state 1 --n-train 40
    """
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    dates = omkl.data.handwritten_dates(options.n_train, options.n_test, options.random_state)
    options.say(INTRODUCTION.format(n_train=options.n_train, n_test=options.n_test))
    labelers, ways, results = _compare_labelers(dates, options)
    mkl, by_norms = labelers[MKL], labelers[BY_NORMS]
    options.say("", *describe_weights(mkl.kernel_weights_, by_norms.kernel_weights_))
    metrics: Record = {"results": results, "useful": USEFUL, "useless": USELESS}
    for name, model in (("", mkl), ("_by_norms", by_norms)):
        metrics |= {
            f"kernel_weights{name}": model.kernel_weights_,
            f"history{name}": model.history_,
        }
    path, metrics_file, figure = (
        folder / name for name in ("dates.npz", "metrics.json", "group_weights.png")
    )
    mkl.save(path)
    write_json(metrics_file, metrics)
    write_json(options.json, metrics)
    options.say(f"\nSaved the model to {path} and the metrics to {metrics_file}.")
    try:
        _draw_weights({"By norms": ways[BY_NORMS], "Out of sample": ways[MKL]}, figure)
        options.say(f"Saved a figure of the weights while they were learned to {figure}.")
    except MissingDependencyError as error:
        options.say(f"No figure: {error}")
    options.say(
        "\nNext:",
        f"  {sys.argv[0]} inspect {path}",
        f"  {sys.argv[0]} train labeler --help           train on files of your own",
        f'  in Python: omkl.load("{path}").predict(dates)',
    )


def _compare_labelers(
    dates: Bunch, options: Options
) -> tuple[dict[str, omkl.SequenceLabeler], dict[str, WeightHistory], list[Record]]:
    """Train and compare all models; return the models, their weights during training, and their
    accuracies.
    """
    rng = np.random.default_rng([options.random_state, 1])
    train, test = tokens_of(dates.train_images, rng), tokens_of(dates.test_images, rng)
    settings = {"verbose": not options.quiet, **options.values("C", "epochs", "random_state")}
    labelers, ways, results = {}, {}, []
    for name, (views, own) in LABELERS.items():
        if name == TOLD_ALIKE:
            options.say("  told which 4 see the digit:")
        ways[name] = WeightHistory()
        kernels = {view: f"gaussian:on={view}" for view in views}
        labelers[name] = omkl.SequenceLabeler(kernels, callbacks=[ways[name]], **settings, **own)
        labelers[name].fit(train, dates.train_digits)
        seconds, accuracy = (
            labelers[name].fit_seconds_,
            labelers[name].score(test, dates.test_digits),
        )
        results.append({"kernels": name, "accuracy": accuracy, "seconds": seconds})
        options.say(f"  {name:<20}{accuracy:7.2%} of digits right   ({seconds:.2f} s)")
    return labelers, ways, results


def tokens_of(
    dates: Sequence[np.ndarray], rng: np.random.Generator
) -> list[list[dict[str, np.ndarray]]]:
    """Convert dates to sequences of dicts, with one view of each digit for every kernel."""
    images, n = np.vstack(dates), len(dates)
    each = [len(date) for date in dates]
    another = images[rng.permutation(len(images))]
    form = np.eye(10)[rng.integers(0, 10, (n, DIGITS_OF_FORM))].reshape(n, -1)
    views = omkl.data.digit_views(images)
    views |= {
        f"{view} of another digit": array for view, array in omkl.data.digit_views(another).items()
    }
    views["place on the page"] = np.repeat(rng.random((n, 2)), each, axis=0)
    views["number of the form"] = np.repeat(form, each, axis=0)
    views |= {
        f"checksum of {bits} bits": rng.integers(0, 2, (len(images), bits)) for bits in CHECKSUMS
    }
    tokens = (dict(zip(views, rows)) for rows in zip(*views.values()))
    return [[next(tokens) for _ in date] for date in dates]


def describe_weights(weights: dict[str, float], by_norms: dict[str, float]) -> list[str]:
    """Return lines about the weights: a bar for each nonzero kernel, and the names of the others."""
    useful, before = (sum(each[view] for view in USEFUL) for each in (weights, by_norms))
    marked = {
        f"{'*' if view in USEFUL else ' '} {view}": weight for view, weight in weights.items()
    }
    lines = [
        f"{useful:.1%} of the weight is on the {len(USEFUL)} that see the digit (by norms {before:.1%}):"
    ]
    lines += bar_chart({name: weight for name, weight in marked.items() if weight > 0})
    zero = [name.strip() for name, weight in marked.items() if weight == 0]
    lines += textwrap.wrap(f"At zero: {', '.join(zero) if zero else 'none'}.", 88)
    return [*lines, "(* sees the digit)"]


def _draw_weights(found: dict[str, WeightHistory], path: PathLike) -> None:
    """Plot weights during training: a curve for each useful kernel, and one for the sum of useless
    kernels.
    """
    from omkl.reports.plots.canvas import figure_for

    figure = figure_for(9.0, 3.2)
    for ax, (title, way) in zip(figure.subplots(1, len(found), sharey=True), found.items()):
        sums = {view: [weights[view] for weights in way.weights] for view in USEFUL}
        rest = [sum(weights[view] for view in USELESS) for weights in way.weights]
        sums[f"the {len(USELESS)} useless, in sum"] = rest
        curves = {name: (way.rounds, values) for name, values in sums.items()}
        omkl.reports.plot_curves(curves, None, title, "dates learned from", "weight", "x", ax=ax)
    ax.set_ylim(bottom=-0.01)
    figure.savefig(path, dpi=150)
