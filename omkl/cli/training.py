"""Options and steps that all training commands share; Ctrl-C ends training, and keeps what is learned."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.cli.console import Record, table
from omkl.cli.files import destination
from omkl.cli.options import CHOICE, JOBS, READ, SEED, WRITE, AutoOr, Options, argument, declare, option, refuse
from omkl.data.blocks import Block, n_rows
from omkl.exceptions import DataWarning, InputError
from omkl.online.callbacks import RecordLog

if TYPE_CHECKING:
    from omkl import data
    from omkl.estimators.base import OnlineEstimator
    from omkl.online import OnlineTrainer, Step

#: Multiples of an estimator's default C that ``--C auto`` tries, and parts of the data that it compares models on.
FACTORS, N_FOLDS = (0.01, 0.1, 1.0, 10.0, 100.0), 3
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
    help="Kernels such as linear, quadratic, gaussian:sigma2=5, linear:on=0:10; these three by default for dense "
    "vectors, linear for sparse ones. Words need none.",
)
BUDGET = option("--budget", type=int, metavar="B", help="At most B support vectors for kernels.")


def strength(epochs: int, C: float, auto: bool = False) -> Callable:
    """Declare ``--epochs`` and ``--C`` with these defaults; ``auto`` is whether C can be chosen."""
    choice = " auto: best of five, on --dev or by cross-validation." if auto else ""
    kind = AutoOr(float) if auto else float
    return declare(
        option("--epochs", type=int, metavar="N", default=epochs, help="Passes over the data."),
        option("--C", "C", type=kind, metavar="C", default=C, help=f"Weight of the losses, 1/(lambda m).{choice}"),
    )


def training_options(epochs: int, losses: tuple[str, ...] = LOSSES, C: float = 1.0) -> Callable:
    """Declare the options of all online estimators; the first of the losses is the default."""
    return declare(
        *(TRAIN, OUTPUT, DEV),
        option("--loss", metavar="L", default=losses[0], help=f"{', '.join(losses)}."),
        option("--regularizer", metavar="R", default="mkl", help="mkl, l2, group-lasso, elastic-net, lq:q=1.5, ..."),
        option(
            "--weighting",
            type=CHOICE(["auto", "out-of-sample", "norms"]),
            default="auto",
            help="Weigh groups by their norms, or leave out those that do not help on examples not yet learned from; "
            "auto: where the regularizer selects groups.",
        ),
        strength(epochs, C, auto=True),
        option("--method", type=CHOICE(["fobos", "rda"]), default="fobos", help="Online method."),
        option("--eta0", type=AutoOr(float), metavar="RATE", default="auto", help="Scale of the learning rate."),
        option("--average", metavar="A", default="quadratic", help="quadratic, uniform or last."),
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
    """Callback: the first Ctrl-C ends training after the example at hand, and a second one the program.

    Attributes
    ----------
    happened : bool
    """

    happened = False
    _before: Any = None

    def __deepcopy__(self, memo: dict) -> Interruption:
        return self  # also of estimators that are cloned

    def on_start(self, trainer: OnlineTrainer, source: object) -> bool:
        """Listen to Ctrl-C; returns whether it has come already."""
        # a process that ignores it, as a job in the background of a script, stays so
        if not self.happened and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            with suppress(ValueError):  # only the main thread gets signals
                self._before = signal.signal(signal.SIGINT, self._note)
        return self.happened

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        self.on_end(None)

    def on_end(self, trainer: OnlineTrainer | None) -> None:
        """Restore the handler of Ctrl-C."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def on_round(self, trainer: OnlineTrainer, step: Step) -> bool:
        """End training after Ctrl-C."""
        return self.happened

    on_block = on_epoch = on_round


class Training:
    """Training of an online estimator as the options of a command say."""

    def __init__(self, options: Options) -> None:
        options.predict_only |= options.precision is not None
        if options.predict_only and options.budget:
            raise InputError("--predict-only does not go with --budget, whose models need what training needs.")
        if options.C == "auto" and options.stream:
            raise InputError("--C auto trains several times on data in memory: leave --stream out, or give C.")
        self.options, self.interruption = options, Interruption()

    def parameters(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        options = self.options
        names = ("loss", "regularizer", "weighting", "epochs", "method", "eta0", "average", "random_state")
        parameters = options.values(*names, "early_stopping", *([] if options.C == "auto" else ["C"]))
        log = [] if options.log is None else [RecordLog(destination(options.log))]
        callbacks = [self.interruption, *log]
        return {**parameters, "callbacks": callbacks, "n_jobs": options.jobs, "verbose": not options.quiet}

    def shuffled(self, stream: data.Stream) -> data.Stream:
        """A stream in a fresh order every epoch, the same in a run that is resumed."""
        return stream.shuffled(random_state=self.options.random_state or 0)

    def fit(
        self, model: OnlineEstimator, X: Any, y: Any, dev: tuple, **declared: Any
    ) -> tuple[list[str], dict[str, Any]]:
        """Choose C if it is to be chosen, and train; returns lines and metrics about the choice.

        ``dev`` are the arguments of ``score`` on the data of ``--dev``, empty without. Workers end with the training.
        """
        options, opened = self.options, nullcontext()
        lines: list[str] = []
        metrics: dict[str, Any] = {}
        if options.C == "auto":
            lines, metrics = self._choose_strength(model, X.X if isinstance(X, Block) else X, y, dev)
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
        return lines, metrics

    def _choose_strength(self, model: OnlineEstimator, X: Any, y: Any, dev: tuple) -> tuple[list[str], dict[str, Any]]:
        """Set ``C`` to the best of five values, on ``dev`` or by cross-validation."""
        from sklearn.base import clone

        candidates = [model.C * factor for factor in FACTORS]
        models = [clone(model).set_params(C=C, callbacks=None, verbose=False) for C in candidates]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # training on all data warns as well
            if dev:
                scores = [float(own.fit(X, y).score(*dev)) for own in models]
            else:
                scores = _cross_validated(models, X, y, self.options.random_state or 0)
        best = candidates[int(np.argmax(scores))]
        model.set_params(C=best)
        where = "the data of --dev" if dev else f"{N_FOLDS}-fold cross-validation"
        rows = [(f"{C:g}", f"{score:.4f}") for C, score in zip(candidates, scores)]
        lines = [f"C = {best:g} is best on {where}:", *table(rows, ("C", "score"))]
        if best in (candidates[0], candidates[-1]):
            lines.append("No value beyond it was tried: give others as --C.")
        return lines, {"C": best, "C_scores": [{"C": C, "score": score} for C, score in zip(candidates, scores)]}

    def save(self, model: OnlineEstimator) -> None:
        """Save the trained model."""
        settings = {"dtype": self.options.precision} if self.options.precision else {}
        model.save(destination(self.options.output), training=not self.options.predict_only, **settings)

    def report(self, model: OnlineEstimator, lines: list[str], metrics: Record) -> None:
        """Print lines about the training and the file, and write metrics."""
        options, interrupted = self.options, self.interruption.happened
        if interrupted:
            again = f" To go on, call the command again with --resume and --checkpoint {options.checkpoint}."
            where = f"Interrupted in epoch {model.n_iter_}: the model so far is saved."
            lines.append(f"{where}{again if options.checkpoint else ''}")
        facts = {
            "epochs": model.n_iter_,
            "seconds": model.fit_seconds_,
            "memory": model.memory_usage(),
            "kernel_weights": model.kernel_weights_,
            "interrupted": interrupted,
            "history": model.history_,
        }
        options.report([*lines, f"Saved to {options.output}."], {**metrics, **facts})


def _cross_validated(models: list[OnlineEstimator], X: Sequence, y: Sequence | None, seed: int) -> list[float]:
    """Mean scores over folds, which are stratified for classifiers."""
    from sklearn.base import is_classifier
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    if n_rows(X) < N_FOLDS:
        raise InputError(f"--C auto compares models on {N_FOLDS} parts of the data, of {n_rows(X)} examples: give C.")
    folds = (StratifiedKFold if is_classifier(models[0]) else KFold)(N_FOLDS, shuffle=True, random_state=seed)
    return [float(cross_val_score(model, X, y, cv=folds, error_score="raise").mean()) for model in models]


def progress_of(model: OnlineEstimator, example: str) -> str:
    """Epochs, seconds and last loss of a training, as text."""
    loss = f"last loss {model.history_[-1]['loss']:.4g} {example}"
    return f"{model.n_iter_} epochs in {model.fit_seconds_:.1f} s, {loss}"
