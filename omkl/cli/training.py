"""Options and steps of all training commands; Ctrl-C ends training, and keeps the model."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from click import BadParameter, Context, Parameter
from click.exceptions import Exit

from omkl.cli.console import Record
from omkl.cli.files import destination
from omkl.cli.options import CHOICE, JOBS, READ, SEED, WRITE, AutoOr, Options, argument, declare, option, refuse
from omkl.exceptions import InputError

if TYPE_CHECKING:
    from omkl import data
    from omkl.estimators.base import OnlineEstimator
    from omkl.online import OnlineTrainer, Step

WEIGHTING = CHOICE(["auto", "out-of-sample", "norms"])
LOSSES = ("hinge", "crf", "softmax-margin", "perceptron")

TRAIN = argument("train", type=READ)
OUTPUT = option("-o", "--output", type=WRITE, metavar="MODEL", required=True, help="File to save the model to, .npz.")
DEV = option("--dev", type=READ, metavar="FILE", help="Measure the model and calibrate probabilities on this file.")
CHECKPOINTS = declare(
    option("--checkpoint", metavar="DIR", help="Keep the state of training in this directory."),
    option("--checkpoint-every", default="60s", metavar="TIME", help='30s, 5m, 2h or "1000 rounds".'),
    option("--resume", is_flag=True, help="Go on from the latest checkpoint, where there is one."),
)
KERNELS = option(
    "--kernels",
    multiple=True,
    metavar="K...",
    help="Kernels such as linear, quadratic, gaussian:sigma2=5, linear:on=0:10; these three by default for "
    "numbers and dense vectors, linear for sparse ones. Words need none.",
)


def _lexicons(context: Context, parameter: Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    """Parse ``NAME=FILE`` arguments to a dict from names of lexicons to files, or None."""
    found = dict(value.partition("=")[::2] for value in values)
    if len(found) < len(values) or not all(name and path for name, path in found.items()):
        raise BadParameter("a lexicon is NAME=FILE, with a unique name.", context, parameter)
    return found or None


LEXICON = option(
    "--lexicon",
    multiple=True,
    callback=_lexicons,
    metavar="NAME=FILE",
    help="Clusters or other values of words, as features; h.NAME in templates.",
)
BUDGET = option("--budget", type=int, metavar="B", help="At most B support vectors for kernels.")


def check_options(options: Options) -> None:
    """Check kernels, templates and times of checkpoints, and read lexicons, before the data."""
    from omkl.features.lexicons import as_lexicons
    from omkl.groups.templates.language import TemplateSet
    from omkl.kernels import as_kernel
    from omkl.online.checkpointing import parsed_interval

    options.lexicon = as_lexicons(options.lexicon) or None
    if options.templates is not None:
        TemplateSet.resolve(options.templates, options.lexicon)
    for kernel in options.kernels:
        as_kernel(kernel)
    parsed_interval(options.checkpoint_every)
    if options.resume and options.checkpoint is None:
        raise InputError("--resume needs --checkpoint DIR.")


def strength(epochs: int, C: float | str = "auto") -> Callable:
    """Declare ``--epochs`` and ``--C`` with these defaults."""
    return declare(
        option("--epochs", type=int, metavar="N", default=epochs, help="Passes over the data."),
        option("--C", "C", type=AutoOr(float), metavar="C", default=C, help="Weight of the losses, 1/(lambda m)."),
    )


def training_options(epochs: int, losses: tuple[str, ...] = LOSSES, C: float | str = "auto") -> Callable:
    """Declare the options of all online estimators; the first of the losses is the default."""
    return declare(
        *(TRAIN, OUTPUT, DEV),
        option("--loss", metavar="L", default=losses[0], help=f"{', '.join(losses)}."),
        option("--regularizer", metavar="R", default="mkl", help="mkl, l2, group-lasso, elastic-net, lq:q=1.5, ..."),
        option("--weighting", type=WEIGHTING, default="auto", help="Select groups by norms or on new examples."),
        strength(epochs, C),
        option("--method", type=CHOICE(["fobos", "rda"]), default="fobos", help="Online method."),
        option("--eta0", type=AutoOr(float), metavar="RATE", default="auto", help="Scale of the learning rate."),
        option("--average", metavar="A", default="auto", help="auto, quadratic, uniform or last."),
        option("--early-stopping", is_flag=True, help="Keep the best epoch, on --dev or a held-out tenth."),
        option("--stream", is_flag=True, help="Never hold the file whole: read it once an epoch, through a buffer."),
        *(SEED, JOBS, CHECKPOINTS),
        option("--log", type=WRITE, metavar="FILE", help="Write a line of JSON for every epoch while training."),
        option("--predict-only", is_flag=True, help="Save only what predicts: a much smaller file, not to go on from."),
        option("--precision", type=CHOICE(["float32", "float16"]), help="Round the weights, and imply --predict-only."),
        option("--workers", type=int, metavar="N", help="Train in shards on N processes here (needs omkl[dask])."),
        option("--scheduler", metavar="URL", help="Train in shards on the workers of this Dask scheduler."),
        option("--shards", type=int, metavar="K", help="Number of shards; by default one a worker."),
    )


class Interruption:
    """Callback: the first Ctrl-C ends training after the current example, and the second one ends the program.

    Attributes
    ----------
    happened : bool
    """

    happened = False
    _before: Any = None

    def __deepcopy__(self, memo: dict) -> Interruption:
        return self  # cloned estimators share the callback

    def on_start(self, trainer: OnlineTrainer, source: object) -> bool:
        """Install a handler of Ctrl-C; return whether Ctrl-C was already pressed."""
        # background jobs of scripts ignore Ctrl-C, and must continue to do so
        if not self.happened and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            with suppress(ValueError):  # only the main thread receives signals
                self._before = signal.signal(signal.SIGINT, self._note)
        return self.happened

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        self.on_end(None)

    def on_end(self, trainer: OnlineTrainer | None) -> None:
        """Restore the previous handler of Ctrl-C."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def on_round(self, trainer: OnlineTrainer, step: Step) -> bool:
        """End training after Ctrl-C."""
        return self.happened

    on_block = on_epoch = on_round


#: Options that are parameters of online estimators.
PARAMETERS = (
    *("loss", "regularizer", "weighting", "epochs", "C", "method", "eta0", "average"),
    *("random_state", "early_stopping"),
)


class Training:
    """Training of an online estimator according to the options of a command."""

    def __init__(self, options: Options) -> None:
        options.predict_only |= options.precision is not None
        if options.predict_only and options.budget:
            raise InputError("--predict-only does not go with --budget, whose models cannot drop their training state.")
        check_options(options)
        self.options, self.interruption = options, Interruption()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        options = self.options
        parameters = options.values(*PARAMETERS)
        log = []
        if options.log is not None:
            from omkl.online.callbacks import RecordLog

            log = [RecordLog(destination(options.log))]
        callbacks = [self.interruption, *log]
        return {**parameters, "callbacks": callbacks, "n_jobs": options.jobs, "verbose": not options.quiet}

    def shuffled(self, stream: data.Stream) -> data.Stream:
        """Shuffle a stream, in a new order every epoch; a resumed run has the same orders."""
        return stream.shuffled(random_state=self.options.random_state or 0)

    def fit(self, model: OnlineEstimator, X: Any, y: Any = None, **declared: Any) -> None:
        """Train, on Dask workers if the options say so; local workers end with the training."""
        options, opened = self.options, nullcontext()
        if options.scheduler is not None:
            from omkl.distributed import running_client

            refuse("does not go with --scheduler", "workers")
            opened = running_client(options.scheduler)
        elif options.workers is not None:
            from omkl.distributed import local_client

            opened = local_client(options.workers)
        with opened as client:
            if client is not None:
                declared["client"] = client
            model.fit(X, y, **declared, **options.values("checkpoint", "checkpoint_every", "resume", "shards"))

    def save(self, model: OnlineEstimator) -> None:
        """Save the trained model."""
        settings = {"dtype": self.options.precision} if self.options.precision else {}
        model.save(destination(self.options.output), training=not self.options.predict_only, **settings)

    def report(self, model: OnlineEstimator, lines: list[str], metrics: Record) -> None:
        """Print lines about the training and the output file, and write metrics; exit with 130 after Ctrl-C."""
        options, interrupted = self.options, self.interruption.happened
        if interrupted:
            again = f" To go on, call the command again with --resume and --checkpoint {options.checkpoint}."
            where = f"Interrupted in epoch {model.n_iter_}: the model so far is saved."
            lines.append(f"{where}{again if options.checkpoint else ''}")
        metrics |= {"epochs": model.n_iter_, "seconds": model.fit_seconds_, "memory": model.memory_usage()}
        metrics |= {"kernel_weights": model.kernel_weights_, "interrupted": interrupted, "history": model.history_}
        options.report([*lines, f"Saved to {options.output}."], metrics)
        if interrupted:
            raise Exit(130)


def progress_of(model: OnlineEstimator, example: str) -> str:
    """Return epochs, seconds and last loss of a training as text."""
    loss = f"last loss {model.history_[-1]['loss']:.4g} {example}"
    return f"{model.n_iter_} epochs in {model.fit_seconds_:.1f} s, {loss}"
