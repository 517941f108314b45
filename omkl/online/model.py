"""The model of an online estimator: a codec for its data, and a trainer."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from omkl._components import check_number, resolve
from omkl.exceptions import InputError
from omkl.groups.base import Bank, check_ability
from omkl.groups.tables import ExplicitBank
from omkl.groups.tokens import Span, Tokens
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Average, Predictor
from omkl.online.methods import as_method
from omkl.online.rounds import Examples, State, Values
from omkl.online.schedules import GrowingHorizon, Schedule
from omkl.online.trainer import RECOMPUTE_EVERY, OnlineTrainer
from omkl.persistence import Packer, Unpacker
from omkl.regularizers.base import Regularizer
from omkl.structures.base import Potentials, Structure

#: Bound of learning rates and their inverses: their squares must not overflow.
LARGEST = 1e100
#: Most tokens that are scored without a copy of the averaged model.
FEW = 32
#: Data as an estimator has read and checked them.
Data: TypeAlias = Any


class Codec(Protocol):
    """Turns data, as the estimator has read and checked it, into examples, and defines groups and outputs."""

    @property
    def structure(self) -> Structure:
        """The structure of outputs; there is none before :meth:`start`."""

    def start(self, data: Data) -> Examples:
        """Learn from first data which groups and outputs there are, and encode them."""

    def encode(self, data: Data, trainer: OnlineTrainer) -> Examples:
        """Encode later data; the trainer gains new groups, features and outputs."""

    def encode_known(self, data: Data) -> Examples:
        """Encode data to measure the model on; unknown labels are an error."""

    def banks(self, averaging: bool, *given: Any) -> tuple[list, list]:
        """Return untrained banks, for examples that are given: regularized ones, and free ones."""

    @property
    def order(self) -> list[str]:
        """Names of the groups in the order in which the user gave them."""

    def learned(self) -> Values:
        """Return learned attributes of the estimator, by name."""

    def pack(self, packer: Packer, condensed: dict[str, np.ndarray] | None = None) -> State:
        """Return ``(JSON values, arrays)`` for a model file.

        For a file that only predicts, ``condensed`` is the state of the trainer; arrays of the same names replace it.
        """

    def unpack(self, values: Values, arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        """Load what :meth:`pack` has returned."""


@dataclass
class OnlineSettings:
    """Settings of training as objects; see :class:`~omkl.SequenceLabeler` for the parameters."""

    loss: Any
    regularizer: Regularizer | None
    schedule: Schedule
    average: Average | None
    weighting: str = "norms"
    method: str = "fobos"
    C: float = 1.0
    epochs: int = 1
    radius: float | str | None = None
    n_examples: float | None = None

    @classmethod
    def of(cls, estimator: Any, losses: type, automatic: Schedule) -> "OnlineSettings":
        """Make settings of the parameters of an estimator, whose numbers have been checked.

        ``losses`` is the family that ``loss`` names a member of, ``automatic`` what ``eta0="auto"`` means.
        """
        loss, average, regularizer = resolve(losses, estimator.loss, "loss"), estimator.average, estimator.regularizer
        if estimator.get_params(deep=False).get("cost") is not None and not loss.uses_cost:
            raise InputError(f"`cost` needs a loss with a margin, such as 'hinge', got {loss!r}.")
        regularizer = None if regularizer is None else resolve(Regularizer, regularizer, "regularizer")
        return cls(
            loss=loss,
            regularizer=regularizer,
            schedule=_schedule(estimator.eta0, estimator.schedule, automatic),
            average=None if average in (None, "last") else resolve(Average, average, "average"),
            weighting=_weighting(estimator.weighting, regularizer),
            method=as_method(estimator.method).name,
            C=float(estimator.C),
            epochs=int(estimator.epochs),
            radius=estimator.radius,
            n_examples=None if estimator.n_examples is None else float(estimator.n_examples),
        )

    @property
    def probabilistic(self) -> bool:
        """True if potentials are log-probabilities."""
        return isinstance(self.loss, StructuredLoss) and self.loss.is_likelihood


class OnlineModel:
    """A codec, and the trainer over its groups: all that is learned, in one place."""

    #: Whether it was loaded from a file without what training goes on from.
    predicts_only = False

    def __init__(self, codec: Codec, settings: OnlineSettings) -> None:
        self.codec: Any = codec  # an estimator knows more of its own
        self.settings = settings
        #: Parameters of the estimator that the model was made of.
        self.parameters: Values = {}
        #: An OnlineTrainer; None until there are data.
        self.trainer: Any = None
        self._scored_at = -1

    def start(self, *banks: list, given: tuple = ()) -> OnlineTrainer:
        """Make the trainer for some banks, by default those that the codec makes for what is ``given``."""
        settings, codec = self.settings, self.codec
        regularized, *free = banks or codec.banks(settings.average is not None, *given)
        self.trainer = OnlineTrainer(
            regularized,
            codec.structure,
            settings.loss,
            settings.regularizer,
            lambda_=GrowingHorizon(settings.C),
            schedule=settings.schedule.fresh(),
            method=settings.method,
            average=settings.average,
            unpenalized=free[0] if free else (),
            order=codec.order,
            weighting=settings.weighting,
        )
        return self.trainer

    def encode(self, data: Data) -> Examples:
        """Encode training data; the first ones start the model."""
        if self.trainer is not None:
            return self.codec.encode(data, self.trainer)
        examples = self.codec.start(data)
        self.start().radius = self._radius_without_data()
        return examples

    def expect(self, n_examples: float | None, weight: float | None = None, n_shards: int = 1) -> None:
        """Set lambda, and what depends on how many rounds there will be.

        If the number m of examples is known, rates decay up to the last of ``epochs * m`` rounds, norms are recomputed
        every m rounds, and lambda is ``1 / (C M)``, M the sum ``weight`` of their weights. Else the mean is over the
        examples so far. A round of shards has as many examples.
        """
        trainer, settings = self.trainer, self.settings
        m = n_examples if settings.n_examples is None else settings.n_examples
        total = weight if settings.n_examples is None else settings.n_examples
        trainer.lambda_ = GrowingHorizon(settings.C * n_shards) if total is None else 1.0 / (settings.C * total)
        trainer.recompute_every = RECOMPUTE_EVERY if m is None else max(1, int(m))
        if m is not None:
            trainer.schedule.plan(settings.epochs * m / n_shards - trainer.began)

    def set_objective(self, training: Examples, total_weight: float) -> None:
        """Set lambda and the radius for all training examples and the sum of their weights, before the first round."""
        trainer, settings = self.trainer, self.settings
        trainer.lambda_ = 1.0 / (settings.C * (total_weight if settings.n_examples is None else settings.n_examples))
        if settings.radius != "auto":
            trainer.radius = self._radius_without_data()
            return
        if trainer.regularizer is None or len(trainer.group_names) < len(trainer.group_state.names):
            raise InputError('radius="auto" needs every group regularized, transitions among them.')
        largest_loss = trainer.mean_loss(training)  # of the model whose parameters are zero
        if not largest_loss > 0:
            raise InputError(f'radius="auto" needs a loss with a margin, got {trainer.loss!r}.')
        # no minimiser is farther from the origin, where the objective is the mean loss (Martins et al. 2011, Prop. 8)
        trainer.radius = trainer.bound.norm_bound(largest_loss / trainer.lambda_, len(trainer.group_names))

    def _radius_without_data(self) -> float:
        if self.settings.radius == "auto":
            raise InputError('`radius` must be a number or None for a stream or partial_fit, got "auto".')
        return math.inf if self.settings.radius is None else float(self.settings.radius)

    def take(self, other: "OnlineModel") -> None:
        """Continue from a model that has more groups than this one, whose banks hold the weights already."""
        trainer, theirs = self.trainer, other.trainer
        names, state = theirs.group_state.names, theirs.group_state.state()
        indices = [names.index(name) for name in trainer.group_state.names]
        trainer.group_state.load_state(
            {name: array if name == "weights" else array[indices] for name, array in state.items()}
        )
        if trainer.evidence is not None and theirs.evidence is not None:
            trainer.evidence.take_over(theirs.evidence, indices[: trainer.n_penalized])
        if theirs.method.has_weights:
            trainer.hedge()
            trainer.method.take(theirs.method, indices[: trainer.n_penalized])
        trainer.lambda_, trainer.radius = theirs.lambda_, theirs.radius
        trainer.schedule.load_state(theirs.schedule.state())
        trainer.go_on(theirs.round, theirs.presented)
        trainer.began, self.predicts_only = theirs.began, other.predicts_only

    def predictor(self) -> Predictor:
        """The averaged model as it is now, frozen."""
        return self.trainer.predictor()

    def blocks(self, tokens: Tokens) -> Iterator[tuple[Tokens, Potentials]]:
        """Return blocks of tokens with their potentials in the averaged model, in order.

        A copy of the averaged model takes time for all parameters. So a few tokens that come between two training
        rounds are scored without one.
        """
        between = self._scored_between(tokens)
        return self.predictor().blocks(tokens) if between is None else iter([(tokens, between)])

    def decode(self, tokens: Tokens, n_jobs: int | None = None) -> np.ndarray:
        """Decode all sequences with the averaged model."""
        between = self._scored_between(tokens)
        if between is None:
            return self.predictor().decode(tokens, n_jobs)
        return self.trainer.structure.decode_many(between, tokens.offsets)

    def _scored_between(self, tokens: Tokens) -> Potentials | None:
        """Potentials of a few tokens that come between two training rounds, else None."""
        trainer = self.trainer
        if trainer.average_at_hand or not 0 < tokens.n_tokens <= FEW or self._scored_at == trainer.round:
            return None
        self._scored_at = trainer.round
        return _averaged_potentials(trainer.banks, trainer.structure, tokens.everything())

    def memory_usage(self) -> dict[str, float]:
        """Return megabytes of the parameters for ``"training"`` and for ``"prediction"``."""
        training = 0 if self.predicts_only else sum(bank.nbytes for bank in self.trainer.banks)
        return {"training": training / 1e6, "prediction": self.predictor().nbytes / 1e6}

    def pack(self, packer: Packer, training: bool) -> State:
        """Return ``(JSON values, arrays)`` for a model file, which continues training or only predicts."""
        if training:
            values, arrays = self.describe(packer)
            return values, {**arrays, **self.trainer.state()}
        state = condensed_state(self.trainer)
        values, arrays = self.describe(packer, state)
        return {**values, "training": False}, {**state, **arrays}

    def describe(self, packer: Packer, condensed: dict[str, np.ndarray] | None = None) -> State:
        """Return ``(JSON values, arrays)`` of everything except the trainer's state; see :meth:`Codec.pack`."""
        values, arrays = self.codec.pack(packer, condensed)
        lambda_ = None if callable(self.trainer.lambda_) else self.trainer.lambda_
        radius = packer.pack(self.trainer.radius, "radius")
        return {**values, "lambda_": lambda_, "radius": radius, "order": self.trainer.order}, arrays

    def unpack(self, values: Values, arrays: dict[str, np.ndarray], unpacker: Unpacker) -> "OnlineModel":
        """Load a model that has not started from values and arrays, which hold the trainer's state as well."""
        self.predicts_only = not values.get("training", True)
        if self.predicts_only:
            self.settings = replace(self.settings, average=None)
        self.codec.unpack(values, arrays, unpacker)
        trainer = self.start()
        trainer.regroup(values["order"])
        trainer.load_state(arrays)
        if values["lambda_"] is not None:
            trainer.lambda_ = values["lambda_"]
        trainer.radius = unpacker.unpack(values["radius"])
        return self


def condensed_state(trainer: OnlineTrainer) -> dict[str, np.ndarray]:
    """State of a trainer that only predicts: the averaged model of this one takes the place of the current model.

    Raises an InputError if a bank cannot leave out what only training needs.
    """
    purpose, remedy = "A file that only predicts has averaged weights alone", "save it with training=True"
    check_ability(trainer.banks, "condense", purpose, remedy)
    norms, before = trainer.predictor().norms, trainer.group_state.state()
    groups = {
        "scales": np.where(before["left_out"], 0.0, 1.0),
        "square_norms": norms**2,
        "averages": np.zeros_like(norms),
        "empty": norms == 0.0,
    }
    arrays = {f"groups/{name}": array for name, array in {**before, **groups}.items()}
    for index, bank in enumerate(trainer.banks):
        arrays.update({f"bank{index}/{name}": array for name, array in bank.condensed().items()})
    # the weights of groups may be the method's own
    return arrays | {f"method/{name}": array for name, array in trainer.method.state().items()}


def _schedule(eta0: float | str, schedule: Schedule | str | None, automatic: Schedule) -> Schedule:
    """The learning rates that these parameters ask for."""
    if isinstance(eta0, str) if schedule is None else isinstance(schedule, Schedule):
        if eta0 != "auto":
            raise InputError(f'`eta0` must be "auto" for `schedule` {schedule!r}, got {eta0!r}.')
        return automatic if schedule is None else schedule.fresh()
    check_number("eta0", eta0, above=1.0 / LARGEST, below=LARGEST)
    return type(resolve(Schedule, schedule or "sqrt", "schedule"))(float(eta0))


def _weighting(weighting: str, regularizer: Regularizer | None) -> str:
    """Resolve ``weighting``; "auto" is "out-of-sample" if the regularizer selects groups."""
    if weighting != "auto":
        return weighting
    selects = regularizer is not None and regularizer.is_sparse and not regularizer.on_coordinates
    return "out-of-sample" if selects else "norms"


def _averaged_potentials(banks: Sequence[Bank], structure: Structure, x: Span) -> Potentials:
    """Potentials of an input in the current averaged model, with the bits of a :class:`Predictor`.

    Banks that can average only what the input needs do so.
    """
    potentials = structure.zeros(len(x))
    others = Predictor([bank for bank in banks if not isinstance(bank, ExplicitBank)], structure)
    frozen = iter(others.banks)
    for bank in banks:
        if isinstance(bank, ExplicitBank):
            bank.add_averaged_potentials(x, potentials)
        else:
            next(frozen).add_potentials(x, potentials)
    return potentials
