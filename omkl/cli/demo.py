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
    *(f"checksum of {bits} bits" for bits in CHECKSUMS),
)
DIGITS_OF_FORM = 8
INTRODUCTION = """\
{n_train} handwritten dates to train on, {n_test} to test on, 8 digits each; no image is in both.
A chain learns which digit follows which, and 13 Gaussian kernels what digits look like:
4 see the digit, by its pixels, profiles, spectrum and outline; 9 do not, for they see
another digit in the same ways, the place of the date on the page, the number of the form
it stands on, or checksums, all drawn at random. Only the last two models are told which.
"""
ALIKE = "all 13 alike"
MKL = "MKL out of sample"
BY_NORMS = "MKL by norms"
TOLD_ALIKE = "the 4 alike"
TOLD_MKL = "MKL of the 4"
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
    """Callback that records weights.

    It does so after 1, 2, 3, ... dates, then whenever their number has grown by a tenth.
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
      omkl demo                                      # model, metrics and figure are in omkl-demo/
      omkl demo -o other-dates --random-state 1 --n-train 40
    """
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    dates = omkl.data.handwritten_dates(options.n_train, options.n_test, options.random_state)
    options.say(INTRODUCTION.format(n_train=options.n_train, n_test=options.n_test))
    labelers, histories, results = _compare_labelers(dates, options)
    mkl = labelers[MKL]
    by_norms = labelers[BY_NORMS]
    options.say("", *describe_weights(mkl.kernel_weights_, by_norms.kernel_weights_))
    metrics: Record = {
        "results": results,
        "useful": USEFUL,
        "useless": USELESS,
        "kernel_weights": mkl.kernel_weights_,
        "history": mkl.history_,
        "kernel_weights_by_norms": by_norms.kernel_weights_,
        "history_by_norms": by_norms.history_,
    }
    path = folder / "dates.npz"
    metrics_file = folder / "metrics.json"
    figure = folder / "group_weights.png"
    mkl.save(path)
    write_json(metrics_file, metrics)
    write_json(options.json, metrics)
    options.say(f"\nSaved the model to {path} and the metrics to {metrics_file}.")
    try:
        _draw_weights({"By norms": histories[BY_NORMS], "Out of sample": histories[MKL]}, figure)
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
    """Train and compare all models.

    Returns
    -------
    labelers : dict from str to SequenceLabeler
    histories : dict from str to WeightHistory
        Weights during training.
    results : list of dict
        Name, accuracy and seconds of each model.
    """
    rng = np.random.default_rng([options.random_state, 1])
    train = tokens_of(dates.train_images, rng)
    test = tokens_of(dates.test_images, rng)
    settings = {"verbose": not options.quiet, **options.values("C", "epochs", "random_state")}
    labelers = {}
    histories = {}
    results = []
    for name, (views, parameters) in LABELERS.items():
        if name == TOLD_ALIKE:
            options.say("  told which 4 see the digit:")
        history = WeightHistory()
        kernels = {view: f"gaussian:on={view}" for view in views}
        labeler = omkl.SequenceLabeler(kernels, callbacks=[history], **settings, **parameters)
        labeler.fit(train, dates.train_digits)
        accuracy = labeler.score(test, dates.test_digits)
        seconds = labeler.fit_seconds_
        results.append({"kernels": name, "accuracy": accuracy, "seconds": seconds})
        options.say(f"  {name:<20}{accuracy:7.2%} of digits right   ({seconds:.2f} s)")
        labelers[name] = labeler
        histories[name] = history
    return labelers, histories, results


def tokens_of(
    dates: Sequence[np.ndarray], rng: np.random.Generator
) -> list[list[dict[str, np.ndarray]]]:
    """Convert dates to sequences of dicts, with one view of each digit for every kernel."""
    images = np.vstack(dates)
    n_dates = len(dates)
    lengths = [len(date) for date in dates]
    other_images = images[rng.permutation(len(images))]
    digits_of_form = rng.integers(0, 10, (n_dates, DIGITS_OF_FORM))
    form = np.eye(10)[digits_of_form].reshape(n_dates, -1)
    views = omkl.data.digit_views(images)
    for view, array in omkl.data.digit_views(other_images).items():
        views[f"{view} of another digit"] = array
    views["place on the page"] = np.repeat(rng.random((n_dates, 2)), lengths, axis=0)
    views["number of the form"] = np.repeat(form, lengths, axis=0)
    for bits in CHECKSUMS:
        views[f"checksum of {bits} bits"] = rng.integers(0, 2, (len(images), bits))
    tokens = (dict(zip(views, rows)) for rows in zip(*views.values()))
    return [[next(tokens) for _ in date] for date in dates]


def describe_weights(weights: dict[str, float], by_norms: dict[str, float]) -> list[str]:
    """Return lines about weights: a bar for each nonzero kernel, and the names of the others.

    ``by_norms`` are the weights of another model, of which only the useful share is printed.
    """
    share = sum(weights[view] for view in USEFUL)
    share_by_norms = sum(by_norms[view] for view in USEFUL)
    bars = {}
    zero = []
    for view, weight in weights.items():
        if weight > 0:
            mark = "*" if view in USEFUL else " "
            bars[f"{mark} {view}"] = weight
        else:
            zero.append(f"* {view}" if view in USEFUL else view)
    lines = [
        f"{share:.1%} of the weight is on the {len(USEFUL)} that see the digit "
        f"(by norms {share_by_norms:.1%}):"
    ]
    lines += bar_chart(bars)
    lines += textwrap.wrap(f"At zero: {', '.join(zero) if zero else 'none'}.", 88)
    return [*lines, "(* sees the digit)"]


def _draw_weights(histories: dict[str, WeightHistory], path: PathLike) -> None:
    """Plot weights during training.

    There is a curve for each useful kernel, and one for the sum of the useless kernels.
    """
    from omkl.reports.plots.canvas import figure_for

    figure = figure_for(9.0, 3.2)
    axes = figure.subplots(1, len(histories), sharey=True)
    for ax, (title, history) in zip(axes, histories.items()):
        curves = {}
        for view in USEFUL:
            curves[view] = (history.rounds, [weights[view] for weights in history.weights])
        sums = [sum(weights[view] for view in USELESS) for weights in history.weights]
        curves[f"the {len(USELESS)} useless, in sum"] = (history.rounds, sums)
        omkl.reports.plot_curves(
            curves, title=title, xlabel="dates learned from", ylabel="weight", log="x", ax=ax
        )
    ax.set_ylim(bottom=-0.01)
    figure.savefig(path, dpi=150)
