"""``omkl demo labeler``: handwritten dates, read with kernels some of which see the digit and some of which do not."""

import textwrap
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

import omkl
from omkl.cli.common import PathLike, bar_chart, table
from omkl.cli.verdicts import Comparison, conclude, joined

USEFUL = ("pixels", "profiles", "spectrum", "outline")
#: Bits of each checksum.
CHECKSUMS = (64, 128, 256)
USELESS = (
    *(f"{view} of another digit" for view in USEFUL), "place on the page", "number of the form",
    *(f"checksum of {bits} bits" for bits in CHECKSUMS),
)  # fmt: skip
N_USEFUL, N_USELESS = len(USEFUL), len(USELESS)
N = N_USEFUL + N_USELESS
DIGITS_OF_FORM = 8
INTRODUCTION = f"""\
{{n_train}} handwritten dates to train on, {{n_test}} to test on, 8 digits each; no image is in both.
A chain learns which digit follows which, and {N} Gaussian kernels what digits look like:
{N_USEFUL} see the digit, by its {joined(USEFUL)}; {N_USELESS} do not,
for they see another digit in the same ways, the place of the date on the page, the
number of the form it stands on, or checksums, all drawn at random. Only the last two
models are told which.
"""
ALIKE, MKL, BY_NORMS = f"all {N} alike", "MKL out of sample", "MKL by norms"
TOLD_ALIKE, TOLD_MKL = f"the {N_USEFUL} alike", f"MKL of the {N_USEFUL}"
# alike all kernels count in full, while the weights of MKL sum to one: at the same C the former fits closer
SVM, OUT_OF_SAMPLE = {"regularizer": "l2"}, {"weighting": "out-of-sample"}
#: Kernels and settings of every model.
COMPETITORS: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    **{f"{view} alone": ([view], {}) for view in USEFUL},
    ALIKE: (USEFUL + USELESS, SVM),
    BY_NORMS: (USEFUL + USELESS, {"weighting": "norms"}),
    MKL: (USEFUL + USELESS, OUT_OF_SAMPLE),
    TOLD_ALIKE: (USEFUL, SVM),
    TOLD_MKL: (USEFUL, OUT_OF_SAMPLE),
}
LINE = 88


@dataclass(frozen=True)
class Reader:
    """A trained labeler, how it found its weights, which digits of each test date it reads right, and its time."""

    labeler: Any
    weights: "WeightsOnTheWay"
    correct: np.ndarray
    seconds: float


class WeightsOnTheWay:
    """Callback: the weights after 1, 2, 3, ... dates, and then whenever their number has grown by a tenth."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.weights: list[dict[str, float]] = []

    def on_round(self, trainer: Any, step: Any) -> None:
        """Take the weights down where it is time."""
        if not self.rounds or trainer.round >= 1.1 * self.rounds[-1]:
            self.rounds.append(trainer.round)
            self.weights.append(trainer.iterate_weights())


def show(arguments: Namespace, say: Callable[[str], None]) -> tuple[Any, dict[str, Any], Callable]:
    """Compare labelers of handwritten dates; returns that by MKL, the metrics, and what draws the figure."""
    n_train = 80 if arguments.n_train is None else arguments.n_train
    dates = omkl.data.handwritten_dates(n_train, arguments.n_test, arguments.random_state)
    rng = np.random.default_rng([arguments.random_state, 1])
    train, test = tokens_of(dates.train_images, rng), tokens_of(dates.test_images, rng)
    say(INTRODUCTION.format(n_train=n_train, n_test=arguments.n_test))
    readers = {}
    for name in COMPETITORS:
        if name == TOLD_ALIKE:
            say(f"  told which {N_USEFUL} see the digit:")
        reader = readers[name] = _read(name, (train, dates.train_digits), (test, dates.test_digits), arguments)
        say(f"  {name:<20}{reader.correct.mean():7.2%} of digits right   ({reader.seconds:.2f} s)")
    mkl, by_norms = readers[MKL], readers[BY_NORMS]
    comparisons, verdict = compare({name: reader.correct for name, reader in readers.items()})
    weights, weights_by_norms = mkl.labeler.kernel_weights_, by_norms.labeler.kernel_weights_
    say(f"\n{MKL} beside others, in points of accuracy (level: within two standard errors)\n")
    say("\n".join(table(map(Comparison.cells, comparisons), ("", "difference", "standard error", ""))))
    say("\n".join(["", *verdict, "", *describe(weights, weights_by_norms)]))
    say("\nOne of the test dates, and what the model reads in it:")
    say("\n".join(_drawing(dates.test_images[0])))
    say("".join(f"{digit:^9}" for digit in mkl.labeler.predict(test[:1])[0]))
    metrics = {
        "results": [{"kernels": name, "accuracy": reader.correct.mean(), "seconds": reader.seconds}
                    for name, reader in readers.items()],
        "comparisons": list(map(asdict, comparisons)), "verdict": " ".join(verdict),
        "useful": USEFUL, "useless": USELESS,
        "kernel_weights": weights, "kernel_weights_by_norms": weights_by_norms,
        "history": mkl.labeler.history_, "history_by_norms": by_norms.labeler.history_,
    }  # fmt: skip
    return mkl.labeler, metrics, partial(draw, {"By norms": by_norms.weights, "Out of sample": mkl.weights})


def tokens_of(dates: Sequence[np.ndarray], rng: np.random.Generator) -> list[list[dict[str, np.ndarray]]]:
    """Dates as sequences of dicts: what every kernel sees of each digit."""
    images, n = np.vstack(dates), len(dates)
    each = [len(date) for date in dates]
    another = images[rng.permutation(len(images))]
    form = np.eye(10)[rng.integers(0, 10, (n, DIGITS_OF_FORM))].reshape(n, -1)
    views = omkl.data.digit_views(images)
    views |= {f"{view} of another digit": array for view, array in omkl.data.digit_views(another).items()}
    views["place on the page"] = np.repeat(rng.random((n, 2)), each, axis=0)
    views["number of the form"] = np.repeat(form, each, axis=0)
    views |= {f"checksum of {bits} bits": rng.integers(0, 2, (len(images), bits)) for bits in CHECKSUMS}
    tokens = (dict(zip(views, rows)) for rows in zip(*views.values()))
    return [[next(tokens) for _ in date] for date in dates]


def _read(name, train, test, arguments):
    """Train one of the competitors, and let it read the test dates."""
    views, settings = COMPETITORS[name]
    weights = WeightsOnTheWay()
    labeler = omkl.SequenceLabeler(
        {view: f"gaussian:on={view}" for view in views}, C=arguments.C, epochs=arguments.epochs,
        random_state=arguments.random_state, callbacks=[weights], verbose=not arguments.quiet, **settings,
    )  # fmt: skip
    started = time.perf_counter()
    labeler.fit(*train)
    seconds = time.perf_counter() - started
    return Reader(labeler, weights, np.array(labeler.predict(test[0])) == np.array(test[1]), seconds)


def compare(correct: dict[str, np.ndarray]) -> tuple[list[Comparison], list[str]]:
    """Compare MKL with all kernels alike, the best one alone, and the rest; and say what that comes to."""
    best = max((f"{view} alone" for view in USEFUL), key=lambda name: correct[name].mean())
    rivals = (ALIKE, best, BY_NORMS, TOLD_ALIKE, TOLD_MKL)
    comparisons = [Comparison.of(name, correct[MKL], correct[name]) for name in rivals]
    return comparisons, conclude("MKL", comparisons[:2], comparisons[2:])


def describe(weights: dict[str, float], by_norms: dict[str, float]) -> list[str]:
    """Lines that tell where the weight is: a bar for each kernel that has some, the names of the others."""
    useful, before = (sum(each[view] for view in USEFUL) for each in (weights, by_norms))
    marked = {f"{'*' if view in USEFUL else ' '} {view}": weight for view, weight in weights.items()}
    lines = [f"{useful:.1%} of the weight is on the {N_USEFUL} that see the digit (by norms {before:.1%}):"]
    lines += bar_chart({name: weight for name, weight in marked.items() if weight > 0})
    zero = [name.strip() for name, weight in marked.items() if weight == 0]
    lines += textwrap.wrap(f"At zero: {', '.join(zero) if zero else 'none'}.", LINE)
    return [*lines, "(* sees the digit)"]


def draw(found: dict[str, WeightsOnTheWay], path: PathLike) -> None:
    """Draw the weights while they are learned: a curve for each kernel that sees the digit, and one for all others."""
    from omkl.reports.plots.canvas import figure_for

    figure = figure_for(9.0, 3.2)
    for ax, (title, way) in zip(figure.subplots(1, len(found), sharey=True), found.items()):
        sums = {view: [weights[view] for weights in way.weights] for view in USEFUL}
        sums[f"the {N_USELESS} useless, in sum"] = [sum(weights[view] for view in USELESS) for weights in way.weights]
        curves = {name: (way.rounds, values) for name, values in sums.items()}
        omkl.reports.plot_curves(curves, None, title, "dates learned from", "weight", "x", ax=ax)
    ax.set_ylim(bottom=-0.01)
    figure.savefig(path, dpi=150)


def _drawing(images, shades=" .:-=+*#%@"):
    """The images of one date side by side, as text."""
    levels = (images.clip(0, 1) * (len(shades) - 1)).astype(int).reshape(len(images), 8, 8)
    return [" ".join("".join(shades[level] for level in image[row]) for image in levels) for row in range(8)]
