"""OnlineModel: the codec and the trainer of an online estimator."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from omkl._components import check_number, resolve
from omkl.exceptions import InputError
from omkl.groups.base import Bank, check_ability
from omkl.groups.tokens import Tokens
from omkl.losses.base import PointwiseLoss
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Average, Predictor
from omkl.online.examiners.drift import DriftTest
from omkl.online.examiners.evidence import Evidence
from omkl.online.methods import OutOfSampleWeights
from omkl.online.rounds import Examples, Record, State, TrainerPart, Values, prefixed
from omkl.online.schedules import GrowingHorizon, InverseSqrt, Schedule
from omkl.online.trainer import RECOMPUTE_EVERY, OnlineTrainer
from omkl.persistence import Packer, Unpacker
from omkl.regularizers.base import Regularizer
from omkl.structures.base import Potentials, Structure
from omkl.structures.multiclass import Binary

#: Bound of learning rates and of their inverses, so that squares do not overflow.
LARGEST = 1e100
#: Number of epochs for ``epochs="auto"``, if there are many examples.
FEWEST_EPOCHS = 20
#: Maximum number of tokens to score without a copy of the averaged model.
FEW = 32
#: Parts that examine examples, by their roles, for each value of the parameter ``weighting``.
EXAMINERS: Mapping[str, Mapping[str, type[TrainerPart]]] = {
    "norms": {},
    "out-of-sample": {"evidence": Evidence},
}
#: Parts that may join during training, by their roles.
JOINING: Mapping[str, type[TrainerPart]] = {"method": OutOfSampleWeights, "drift": DriftTest}
#: Lambda, or a function of the total weight of all rounds so far.
Lambda: TypeAlias = float | GrowingHorizon
#: Data after validation by an estimator.
Data: TypeAlias = Any


class Codec(Protocol):
    """Encodes validated data as examples, and defines groups and outputs."""

    #: Structure of the outputs; available after :meth:`start`.
    structure: Structure

    def start(self, data: Data) -> Any:
        """Learn groups and outputs from the first data, and encode these data."""

    def encode(self, data: Data, trainer: OnlineTrainer) -> Examples:
        """Encode later data, and add new groups, features and outputs to the trainer."""

    def encode_for_evaluation(self, data: Data) -> Examples:
        """Encode data for evaluation; raises InputError for unknown labels."""

    def facts(self, examples: Any) -> Values:
        """Return facts about the data for a resumed run to compare."""

    def banks(
        self, averaging: bool, training: Any = None, in_shards: bool = False
    ) -> tuple[list[Bank], list[Bank]]:
        """Make untrained banks: a list of regularized and one of unregularized banks.

        ``training`` are the training examples if all are in memory; ``in_shards`` tells whether
        shards learn them.
        """

    @property
    def order(self) -> list[str]:
        """Names of the groups, in the user's order."""

    def before_block(self) -> dict[str, np.ndarray]:
        """Return the arrays of :meth:`pack` before the last :meth:`encode` has changed them."""
        return {}

    def check_declared(self, classes: Sequence | str) -> None:
        """Raise InputError if declared labels differ from those of the model, which has started."""
        raise InputError(f"{type(self).__name__} has no labels to declare.")

    def learned(self) -> Values:
        """Return learned attributes of the estimator, by name."""
        return {}

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[Record]:
        """List the features with the largest weights, if features have names."""
        return []

    def pack(self, packer: Packer, condensed: dict[str, np.ndarray] | None = None) -> State:
        """Return ``(JSON values, arrays)`` for a model file.

        For a file without training state, ``condensed`` is the trainer's state; returned arrays
        override its entries.
        """
        return {}, {}

    def unpack(self, values: Values, arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        """Load what :meth:`pack` has returned."""
        return


#: Kind of codec of an estimator, and of a model.
OwnCodec = TypeVar("OwnCodec", bound=Codec)
ItsCodec = TypeVar("ItsCodec", bound=Codec, covariant=True)


@dataclass
class OnlineSettings:
    """Validated settings of training; see :class:`~omkl.SequenceLabeler` for the parameters."""

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
    def of(cls, estimator: Any, passes: Any, loss: Any, automatic: Schedule) -> "OnlineSettings":
        """Make settings from the parameters of an estimator; its numbers have been validated.

        ``passes`` are its :class:`~omkl.Passes`, ``loss`` is its loss as an object, and
        ``automatic`` the schedule for ``learning_rate="auto"``.
        """
        has_costs = estimator.get_params(deep=False).get("cost") is not None
        if has_costs and not loss.uses_cost:
            raise InputError(f"`cost` needs a loss with a margin, such as 'hinge', got {loss!r}.")
        regularizer = None
        if estimator.regularizer is not None:
            regularizer = resolve(Regularizer, estimator.regularizer, "regularizer")
        schedule = automatic
        if estimator.learning_rate != "auto":
            schedule = _schedule_of(estimator.learning_rate)
        weighting = estimator.weighting
        if weighting == "auto":
            weighting = "out-of-sample" if _selects_groups(regularizer) else "norms"
        average = None
        if estimator.average not in (None, "last"):
            average = resolve(Average, estimator.average, "average")
        n_examples = passes.n_examples
        return cls(
            loss=loss,
            regularizer=regularizer,
            schedule=schedule,
            average=average,
            weighting=weighting,
            method=estimator.method,
            C=loss.default_c if estimator.C == "auto" else float(estimator.C),
            epochs=FEWEST_EPOCHS if passes.epochs == "auto" else int(passes.epochs),
            radius=estimator.radius,
            n_examples=None if n_examples is None else float(n_examples),
        )

    @property
    def probabilistic(self) -> bool:
        """True if potentials are log-probabilities."""
        return isinstance(self.loss, StructuredLoss) and self.loss.is_likelihood


def _schedule_of(learning_rate: float | str | Schedule) -> Schedule:
    """Return an unused schedule; a number is the scale of :class:`InverseSqrt`."""
    if isinstance(learning_rate, (str, Schedule)):
        return resolve(Schedule, learning_rate, "learning_rate").fresh()
    check_number("learning_rate", learning_rate, above=1.0 / LARGEST, below=LARGEST, also=("auto",))
    return InverseSqrt(float(learning_rate))


def _selects_groups(regularizer: Regularizer | None) -> bool:
    """Return whether a regularizer sets whole groups to zero."""
    if regularizer is None:
        return False
    return regularizer.is_sparse and not regularizer.on_coordinates


class OnlineModel(Generic[ItsCodec]):
    """A codec and the trainer of its groups, which hold everything that is learned."""

    #: The trainer, after the first data.
    trainer: OnlineTrainer
    #: Whether the model was loaded from a file without training state.
    predicts_only = False
    #: Whether the latest training was a pass of ``partial_fit``, after which another one needs no
    #: preparation.
    goes_on = False

    def __init__(self, codec: ItsCodec, settings: OnlineSettings) -> None:
        self.codec = codec
        self.settings = settings
        #: Parameters of the estimator with which the model was made.
        self.parameters: Values = {}
        self._scored_at = -1

    @property
    def has_started(self) -> bool:
        """True if the model has a trainer, which the first data make."""
        return hasattr(self, "trainer")

    def start(
        self,
        regularized: Sequence[Bank] | None = None,
        *,
        training: Any = None,
        in_shards: bool = False,
    ) -> OnlineTrainer:
        """Make the trainer for regularized banks, by default for the codec's banks.

        See :meth:`Codec.banks` for ``training`` and ``in_shards``.
        """
        settings = self.settings
        codec = self.codec
        unpenalized: list[Bank] = []
        is_of_two_classes = isinstance(settings.loss, PointwiseLoss) and settings.loss.classifies
        if is_of_two_classes and not isinstance(codec.structure, Binary):
            raise InputError(
                f"The loss {settings.loss!r} is for two classes that are known from the start: "
                "for more, or growing, classes use a StructuredLoss, such as 'crf' or 'hinge'."
            )
        if regularized is None:
            averaging = settings.average is not None
            regularized, unpenalized = codec.banks(averaging, training, in_shards)
        self.trainer = OnlineTrainer(
            regularized,
            codec.structure,
            settings.loss,
            settings.regularizer,
            lambda_=GrowingHorizon(settings.C),
            schedule=settings.schedule.fresh(),
            method=settings.method,
            average=settings.average,
            unpenalized=unpenalized,
            order=codec.order,
            examiners={role: kind() for role, kind in EXAMINERS[settings.weighting].items()},
            joining=JOINING,
        )
        return self.trainer

    def watch_stream(self) -> None:
        """Test the stream for drift from now on, if the model can be tested."""
        if DriftTest.can_watch(self.trainer):
            self.trainer.join("drift")

    def encode(self, data: Data) -> Examples:
        """Encode training data; the first data start the model."""
        if self.has_started:
            return self.codec.encode(data, self.trainer)
        examples = self.codec.start(data)
        self.start().plan(radius=self._radius_without_data())
        return examples

    def expect(
        self, n_examples: float | None, weight: float | None = None, n_shards: int = 1
    ) -> None:
        """Set lambda, and plan the rounds.

        If the number m of examples is known, rates decay until the last of ``epochs * m`` rounds,
        and norms are recomputed every m rounds. Lambda is ``1 / (C M)``, where M is the total
        ``weight``; if that is unknown, M is the weight of the examples so far. If the settings have
        ``n_examples``, it takes the place of both arguments: m and M are ``n_examples``. With
        shards, a round has ``n_shards`` examples.
        """
        settings = self.settings
        m = n_examples
        total = weight
        if settings.n_examples is not None:
            m = settings.n_examples
            total = settings.n_examples
        lambda_: Lambda = GrowingHorizon(settings.C * n_shards)
        if total is not None:
            lambda_ = 1.0 / (settings.C * total)
        rounds = None
        recompute_every = RECOMPUTE_EVERY
        if m is not None:
            rounds = settings.epochs * m / n_shards
            recompute_every = max(1, int(m))
        self.trainer.plan(rounds=rounds, lambda_=lambda_, recompute_every=recompute_every)

    def set_objective(self, training: Examples | None, total_weight: float) -> None:
        """Set lambda and the radius for the training examples, before the first round.

        Without the examples, the radius cannot depend on them.
        """
        trainer = self.trainer
        settings = self.settings
        n_examples = total_weight
        if settings.n_examples is not None:
            n_examples = settings.n_examples
        lambda_ = 1.0 / (settings.C * n_examples)
        trainer.plan(lambda_=lambda_)
        if settings.radius != "auto" or training is None:
            trainer.plan(radius=self._radius_without_data())
            return
        if trainer.regularizer is None or len(trainer.group_names) < len(trainer.group_state.names):
            raise InputError(
                'radius="auto" requires that all groups, including transitions, are regularized.'
            )
        largest_loss = trainer.mean_loss(training)  # at zero parameters
        if not largest_loss > 0:
            raise InputError(f'radius="auto" needs a loss with a margin, got {trainer.loss!r}.')
        # bounds the norm of minimizers, as the objective at zero is the mean loss (Martins et al.
        # 2011, Prop. 8)
        bound: Any = trainer.bound
        radius = bound.norm_bound(largest_loss / lambda_, len(trainer.group_names))
        trainer.plan(radius=radius)

    def _radius_without_data(self) -> float:
        """Return the radius of the settings, which cannot be "auto"."""
        if self.settings.radius == "auto":
            raise InputError(
                "`radius` must be a number or None for streams, collections and partial_fit, "
                'got "auto".'
            )
        if self.settings.radius is None:
            return math.inf
        return float(self.settings.radius)

    def take(self, other: "OnlineModel[Codec]") -> None:
        """Take the state of a model with more groups.

        The banks of this model already have its parameters.
        """
        self.trainer.take(other.trainer)
        self.predicts_only = other.predicts_only

    def predictor(self) -> Predictor:
        """Return the current averaged model, frozen."""
        return self.trainer.predictor()

    def blocks(self, tokens: Tokens) -> Iterator[tuple[Tokens, Potentials]]:
        """Return blocks of tokens and their potentials in the averaged model, in order.

        Copying the averaged model takes time proportional to all parameters. Therefore a few tokens
        between two training rounds are scored without a copy.
        """
        potentials = self._scored_between(tokens)
        if potentials is None:
            return self.predictor().blocks(tokens)
        return iter([(tokens, potentials)])

    def decode(self, tokens: Tokens, n_jobs: int | None = None) -> np.ndarray:
        """Decode all sequences with the averaged model."""
        potentials = self._scored_between(tokens)
        if potentials is None:
            return self.predictor().decode(tokens, n_jobs)
        return self.trainer.structure.decode_many(potentials, tokens.offsets)

    def _scored_between(self, tokens: Tokens) -> Potentials | None:
        """Score a few tokens between two training rounds, without a predictor.

        Return None if there should be a predictor: it exists, or is used more than once.
        """
        trainer = self.trainer
        are_few = 0 < tokens.n_tokens <= FEW
        if trainer.average_at_hand or not are_few or self._scored_at == trainer.round:
            return None
        self._scored_at = trainer.round
        x = tokens.everything()
        potentials = trainer.structure.zeros(tokens.n_tokens)
        for bank in trainer.banks:
            bank.add_averaged_potentials(x, potentials)
        return potentials

    def memory_usage(self) -> dict[str, float]:
        """Return the megabytes of parameters for ``"training"`` and ``"prediction"``."""
        training = 0 if self.predicts_only else sum(bank.nbytes for bank in self.trainer.banks)
        return {"training": training / 1e6, "prediction": self.predictor().nbytes / 1e6}

    def pack(self, packer: Packer, training: bool) -> State:
        """Return ``(JSON values, arrays)`` for a model file.

        They include the state for ``training``, or the averaged model alone.
        """
        if training:
            values, arrays = self.describe(packer)
            return values, {**arrays, **self.trainer.state()}
        state = condensed_state(self.trainer)
        values, arrays = self.describe(packer, state)
        return {**values, "training": False}, {**state, **arrays}

    def describe(self, packer: Packer, condensed: dict[str, np.ndarray] | None = None) -> State:
        """Return ``(JSON values, arrays)`` of everything except the trainer's state.

        See :meth:`Codec.pack` for ``condensed``.
        """
        trainer = self.trainer
        values, arrays = self.codec.pack(packer, condensed)
        values_of_trainer = {
            "lambda_": None if callable(trainer.lambda_) else trainer.lambda_,
            "radius": packer.pack(trainer.radius, "radius"),
            "order": trainer.order,
        }
        return {**values, **values_of_trainer}, arrays

    def unpack(self, values: Values, arrays: dict[str, np.ndarray], unpacker: Unpacker) -> Self:
        """Load values and arrays into a model that has not started; return the model."""
        self.predicts_only = not values.get("training", True)
        if self.predicts_only:
            self.settings = replace(self.settings, average=None)
        self.codec.unpack(values, arrays, unpacker)
        trainer = self.start()
        trainer.regroup(values["order"])
        trainer.load_state(arrays)
        trainer.plan(lambda_=values["lambda_"], radius=unpacker.unpack(values["radius"]))
        return self


def condensed_state(trainer: OnlineTrainer) -> dict[str, np.ndarray]:
    """Return the state of a trainer for prediction only.

    In it, the averaged model replaces the current one.

    Raises
    ------
    InputError
        If a bank cannot drop its training state.
    """
    purpose = "A file that only predicts has averaged weights alone"
    check_ability(trainer.banks, "condense", purpose, "save it with training=True")
    norms = trainer.predictor().norms
    arrays_of_groups = trainer.group_state.state()
    averaged = {
        "scales": np.where(arrays_of_groups["left_out"], 0.0, 1.0),
        "square_norms": norms**2,
        "averages": np.zeros_like(norms),
        "empty": norms == 0.0,
    }
    banks = {f"bank{k}": bank.condensed() for k, bank in enumerate(trainer.banks)}
    parts = {role: part.state() for role, part in trainer.parts.items() if part.predicts}
    return prefixed({"groups": arrays_of_groups | averaged, **banks, **parts})
