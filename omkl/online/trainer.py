"""The trainer: Algorithm 1 of Martins et al. (2011)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, TypeVar

import numpy as np

from omkl._components import check_choice
from omkl.exceptions import DivergenceError, InputError
from omkl.groups.base import Bank, check_ability
from omkl.groups.group_state import GroupState
from omkl.losses.evaluation import LossFunction
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Average, Predictor
from omkl.online.examiners.drift import DriftTest
from omkl.online.examiners.evidence import Evidence
from omkl.online.methods import METHODS, Method, OutOfSampleWeights
from omkl.online.rounds import (
    Change,
    Example,
    Record,
    Step,
    TrainerPart,
    below,
    potentials_of,
    prefixed,
)
from omkl.online.schedules import Schedule
from omkl.regularizers.base import ProximalStep, Regularizer
from omkl.regularizers.separable import L21
from omkl.structures.base import Output, Potentials, Structure

P = TypeVar("P", bound=TrainerPart)

#: Rounds between recomputations of group norms in streams, because the recursion accumulates
#: rounding errors.
RECOMPUTE_EVERY = 100_000
#: Maximum number of rounds between steps on coordinates, each of which costs as much as there are
#: parameters, and maximum sum of lambda over these rounds: much less than the gradient of an
#: example.
SHRINK_EVERY, SHRINK_BY = 128, 1 / 16
#: Parts of each kind of weighting, and parts that join during training, by the role that they take.
EXAMINERS: Mapping[str, dict[str, type[TrainerPart]]] = {
    "norms": {},
    "out-of-sample": {"evidence": Evidence},
}
LATER: Mapping[str, type[TrainerPart]] = {"method": OutOfSampleWeights, "drift": DriftTest}


class OnlineTrainer:
    r"""Online proximal algorithm for :math:`\lambda R(\theta) + \frac1m \sum_i L(\theta; x_i,
    y_i)`.

    The trainer is independent of inputs, parameters and outputs: banks compute potentials of an
    input, the loss computes a gradient from potentials, and the regularizer shrinks group norms.

    Parameters
    ----------
    banks : sequence of Bank
        Banks whose groups are regularized.
    structure : Structure
    loss : StructuredLoss
    regularizer : Regularizer or None
        For a composite, the proximal steps of its terms are taken one after the other. Steps on
        coordinates are taken together for up to :data:`SHRINK_EVERY` rounds; see
        :meth:`shrink_coordinates`.
    lambda_ : float or callable
        :math:`\lambda`, or a function that computes it from the total weight of all rounds so far.
    schedule : Schedule
        Learning rates.
    method : {"fobos", "rda"}
    radius : float
        Radius of the ball onto which every iterate is projected; infinite by default.
    average : Average or None
        Weights of the averaged model, which requires banks with ``averaging=True``. None uses the
        last iterate.
    unpenalized : sequence of Bank
        Banks whose groups are not regularized.
    order : sequence of str
        Names of groups in the user's order, for arguments of regularizers that refer to groups by
        position.
    weighting : {"norms", "out-of-sample"}
        "out-of-sample" removes groups that do not help on new examples (see ``evidence.Evidence``).
        In a single pass of "fobos" with the squared mixed norm, Hedge learns the group weights (see
        ``methods.OutOfSampleWeights``).

    Attributes
    ----------
    method : Method
    schedule : Schedule
    examiners : dict of str to TrainerPart
        Parts that look at examples before they are learned, by their role.
    """

    def __init__(
        self,
        banks: Sequence[Bank],
        structure: Structure,
        loss: StructuredLoss,
        regularizer: Regularizer | None,
        *,
        lambda_: float | Callable[[float], float],
        schedule: Schedule,
        method: str = "fobos",
        radius: float = math.inf,
        average: Average | None = None,
        unpenalized: Sequence[Bank] = (),
        order: Iterable[str] = (),
        weighting: str = "norms",
    ) -> None:
        self.banks = [*banks, *unpenalized]
        self.structure = structure
        self.loss = loss
        self.regularizer = regularizer
        self.lambda_ = lambda_
        self.schedule = schedule
        self.n_penalized = sum(len(bank.names) for bank in banks)
        check_choice("`method`", method, METHODS)
        self.method = METHODS[method]()
        self.examiners = {role: kind() for role, kind in EXAMINERS[weighting].items()}
        self.radius = float(radius)
        self.average = average
        self.order = list(order)
        self.recompute_every = RECOMPUTE_EVERY
        self._loss_function: LossFunction | None = None
        #: The compiled driver, which keeps its working memory between calls.
        self.driver: Any = None
        self.round, self.presented, self.shrinkage = 0, 0.0, 0.0
        self.shrunk = 0.0  # part of the shrinkage that coordinates have taken
        self.began = 0  # number of rounds before the learning rates and the average last began
        self._predictor: Predictor | None = None
        self.group_state = GroupState(self.banks)
        self.start_parts()
        self.penalized_banks = list(banks)
        self._bind_regularizer()
        if self.coordinate_terms:
            purpose = f"{self.regularizer!r} shrinks single coordinates"
            remedy = "hold kernels as explicit features, or choose a regularizer on group norms"
            check_ability(self.penalized_banks, "coordinates", purpose, remedy)
            if not self.method.forgets:
                raise InputError(
                    f"{self.regularizer!r} acts on coordinates, which dual averaging does not support."
                )
            if any(term.elastic is None or term.elastic[1] for term in self.coordinate_terms):
                raise InputError(
                    f"{self.regularizer!r} acts on coordinates otherwise than by their l1 norm."
                )

    @property
    def group_names(self) -> list[str]:
        """Names of the regularized groups."""
        return self.group_state.names[: self.n_penalized]

    @property
    def norms(self) -> np.ndarray:
        """Norms of the regularized groups."""
        return self.group_state.norms[: self.n_penalized]

    @property
    def parts(self) -> dict[str, TrainerPart]:
        """All parts with a state of their own, by the role under which files have their states."""
        return {"method": self.method, "schedule": self.schedule, **self.examiners}

    def find(self, kind: type[P]) -> P | None:
        """Return the part of a class, if there is one."""
        return next((part for part in self.parts.values() if isinstance(part, kind)), None)

    def start_parts(self) -> None:
        """Fit the parts to the group state."""
        for part in self.parts.values():
            part.start(self.group_state, self.n_penalized)

    def join(self, role: str) -> None:
        """Let the part that takes a role during training join, unless it has.

        Hedge learns group weights in place of the method. A test for drift looks at examples, and
        the average is that for a stream.
        """
        if isinstance(self.parts.get(role), LATER[role]):
            return
        part = LATER[role]()
        part.start(self.group_state, self.n_penalized)
        if isinstance(part, Method):
            self.method = part
            self._bind_regularizer()
            return
        self.examiners[role] = part
        before, t = self.average, self.round - self.began
        if before is not None:
            self.average = before.in_stream()
            if t > 0:
                self.discount(self.average.weight(t) / before.weight(t))

    def _bind_regularizer(self) -> None:
        names = self.group_names
        known = set(names)
        # groups that are not in the order, such as transitions, come last
        self.order = [name for name in dict.fromkeys([*self.order, *names]) if name in known]
        self.bound = None if self.regularizer is None else self.regularizer.bind(names, self.order)
        steps = () if self.bound is None else self.bound.terms()
        self.terms = self.method.terms([term for term in steps if not term.on_coordinates])
        self.coordinate_terms = [term for term in steps if term.on_coordinates]
        self._l1_weight = sum(
            term.elastic[0] for term in self.coordinate_terms if term.elastic is not None
        )

    @property
    def can_watch(self) -> bool:
        """True if a stream can be tested for drift: there is an average whose potentials can be
        computed in a round.

        In dual averaging, the model is proportional to the rate, which cannot restart.
        """
        is_ready = self.average is not None and self.method.forgets
        return is_ready and all("watch" in bank.abilities for bank in self.banks)

    def update(self, x: Sized, y: Output, weight: float = 1.0) -> Step:
        r"""Perform one round of Algorithm 1 (Martins et al. 2011) on one example.

        For an example of weight w, the gradient step has size :math:`w \eta_t` and the proximal
        step
        :math:`w \eta_t \lambda`. An example of weight 0 changes nothing.

        Parameters
        ----------
        x : Span, ArcSentence or the like
            Encoded input.
        y : array or int
            Gold output.
        weight : float >= 0

        Returns
        -------
        Step
        """
        if weight == 0.0:
            return Step(0.0, self.norms, 0.0, 0.0, self.potentials(x), y, weight=0.0)
        potentials = None
        for part in self.examiners.values():
            computed = part.before(self, x, y, weight)
            potentials = potentials if computed is None else computed
        if potentials is None:
            potentials = self.potentials(x)  # line 4
        self.round += 1
        self.presented += weight
        self._predictor = None
        t = self.round - self.began
        schedule, method, group_state = self.schedule, self.method, self.group_state
        rate = schedule.rate(t, weight)
        method.begin(group_state, rate, weight)
        loss, gradient = self._loss_and_gradient(potentials, y)
        change = None
        for part in self.examiners.values():
            change = part.after(self, loss) or change
        square_gradient = 0.0
        if gradient is not None:  # None means zero
            for bank in self.banks:
                bank.step(x, gradient)  # line 5
            # products, since powers of compiled and of other numbers round differently
            square_gradient = weight * weight * method.observe(group_state, weight)
            adapted = schedule.observe(weight * loss, square_gradient, weight, rate)
            if adapted != rate:  # the very first step gets its rate only now
                group_state.bases *= adapted / rate
                rate = adapted
        step = rate * (method.proximal_weight(weight, self.presented) * self.current_lambda)
        self.shrinkage += step
        norms = self.prox(group_state.measure()[: self.n_penalized], step)  # lines 6-8
        events, norm = group_state.rescale(norms, self.radius, method.forgets)  # line 9
        distance = method.distance(norms, norm)
        schedule.reach(distance, rate * math.sqrt(max(square_gradient, 0.0)))
        if events:
            for bank in self.banks:
                bank.apply_events(x, gradient)
        group_state.pending_weight = 0.0
        if self.average is not None:
            group_state.pending_weight = weight * self.average.weight(t)
            group_state.total_weight += group_state.pending_weight
        self.upkeep()
        if change is not None:
            self.restart_average(change)
        return Step(
            weight * loss,
            norms,
            rate,
            square_gradient,
            potentials,
            y,
            1,
            weight,
            changed=change is not None,
        )

    def restart_average(self, change: Change) -> None:
        """Restart the average, and all parts, at the beginning of a change of the stream."""
        for part in self.parts.values():
            part.forget(change.sums, change.start - self.began, self.round - change.start)
        self.began, self._predictor = change.start, None
        self.discount(0.0)

    def plan(
        self,
        *,
        rounds: float | None = None,
        lambda_: float | Callable[[float], float] | None = None,
        radius: float | None = None,
        recompute_every: int | None = None,
    ) -> None:
        """Set what follows from the data and from the length of training; None leaves a value as it
        is.

        Parameters
        ----------
        rounds : float, optional
            Number of rounds up to the end of training, for rates that decay to zero.
        lambda_ : float or callable, optional
        radius : float, optional
        recompute_every : int, optional
            Number of rounds between recomputations of the norms.
        """
        if rounds is not None:
            self.schedule.plan(rounds - self.began)
        if lambda_ is not None:
            self.lambda_ = lambda_
        if radius is not None:
            self.radius = float(radius)
        if recompute_every is not None:
            self.recompute_every = int(recompute_every)

    def restart(self) -> None:
        """Set parameters to zero, and restart rates and averages; left-out groups stay left out."""
        self.group_state.restart()
        self.start_parts()
        for bank in self.banks:
            bank.restart()
        for part in self.parts.values():
            part.restart()
        self.began = self.round
        self.go_on(self.round, 0.0)

    def discount(self, factor: float) -> None:
        """Multiply the weights of all models in the average."""
        self.group_state.discount(factor)
        for part in self.parts.values():
            part.discount(factor)
        for bank in self.banks:
            bank.discount(factor)

    @property
    def part_scales(self) -> np.ndarray:
        """Factors (p,) from the directions ``v_k`` of groups to the parts ``f_k`` of the model."""
        return self.method.part_scales(self.group_state)

    @property
    def sums(self) -> tuple[float, float]:
        """Sums of the losses and of the squared norms of gradients, where rates depend on them."""
        return self.schedule.sums

    def potentials(self, x: Sized) -> Potentials:
        """Return the potentials of an input in the current model."""
        return potentials_of(self.banks, self.structure, x)

    def _loss_and_gradient(
        self, potentials: Potentials, y: Output
    ) -> tuple[float, Potentials | None]:
        """Return the loss and its gradient with respect to potentials, None for zero."""
        loss, gradient = self.loss_function(potentials, y)
        if not math.isfinite(loss):
            raise self.divergence(loss)
        return loss, gradient

    def divergence(self, loss: float) -> DivergenceError:
        """Make the error for a loss that is not finite."""
        message = f"Training diverged in round {self.round}, where the loss is {loss}"
        return DivergenceError(f"{message}: choose a smaller eta0, or a radius.")

    @property
    def loss_function(self) -> LossFunction:
        """The loss of the structure as a function of potentials, by compiled functions if there
        are.
        """
        known = self._loss_function
        if known is None or known.structure is not self.structure:
            self._loss_function = known = LossFunction(self.loss, self.structure)
        return known

    @property
    def compiled_steps(self) -> list[list[ProximalStep] | None]:
        """Compiled proximal steps of each term, None for a term without any; not stored, as they
        are slow to copy.
        """
        return [term.compiled_steps() for term in self.terms]

    def found_change(self) -> Change:
        """Return the change of the stream that a part has just found."""
        return next(part.change for part in self.examiners.values() if isinstance(part, DriftTest))

    def prox(self, norms: np.ndarray, step: float) -> np.ndarray:
        """Return the norms (p,) after the proximal steps on groups; norms of left-out groups are
        zero.
        """
        # left-out groups before the terms, whose shrinkage can depend on all norms
        norms = np.where(self.group_state.left_out[: self.n_penalized], 0.0, norms)
        self.method.shrink(norms, step)
        for term, compiled_steps in zip(self.terms, self.compiled_steps):
            if compiled_steps is None:
                norms = term.prox(norms, step)
                continue
            memory = np.empty((2, len(norms)))
            for proximal_step in compiled_steps:
                proximal_step.take(norms, step, memory)
        return norms

    @property
    def _rounds_between_shrinkage(self) -> int:
        """Number of rounds between steps on coordinates: a power of two, so that it divides later
        ones.
        """
        most = min(SHRINK_EVERY, self.round // 8)
        if most > 1 and (strength := self._l1_weight * self.current_lambda) > 0.0:
            most = min(most, int(SHRINK_BY / strength))
        return 1 << max(most, 1).bit_length() - 1

    def until_upkeep(self) -> int:
        """Return the number of rounds up to the next one after which :meth:`upkeep` has something
        to do.
        """
        rounds = self.recompute_every - self.round % self.recompute_every
        if self.coordinate_terms:
            rounds = min(
                rounds, self._rounds_between_shrinkage - self.round % self._rounds_between_shrinkage
            )
        if self.average is None or not self.average.period:
            return rounds
        return min(rounds, self.average.period - (self.round - self.began) % self.average.period)

    def upkeep(self) -> None:
        """Discount the average, recompute norms, and shrink coordinates, after the rounds where
        that is due.
        """
        average, is_end = self.average, self.round % self.recompute_every == 0
        if (
            average is not None
            and average.period
            and (self.round - self.began) % average.period == 0
        ):
            self.discount(1.0 / average.weight(self.round - self.began))
        if is_end:
            self.recompute_norms()
        if self.coordinate_terms and (is_end or self.round % self._rounds_between_shrinkage == 0):
            self.shrink_coordinates()

    def shrink_coordinates(self) -> None:
        """Shrink coordinates by the steps since the last time: truncated gradient (Langford, Li,
        Zhang 2009).

        Steps in every round would cost as much as there are parameters, and not as there are
        features in the input.
        """
        step = self._l1_weight * (self.shrinkage - self.shrunk)
        self.shrunk = self.shrinkage
        for bank in self.penalized_banks:
            bank.shrink_coordinates(step)

    @property
    def current_lambda(self) -> float:
        r""":math:`\lambda` in this round."""
        return self.lambda_(self.presented) if callable(self.lambda_) else self.lambda_

    def grow_outputs(self, structure: Structure, n_outputs: int) -> None:
        """Continue with a structure that has more labels; weights of new labels are zero."""
        self._predictor = None
        check_ability(
            self.banks,
            "grow",
            "There are labels that were not known before",
            "declare all labels at first",
        )
        self.structure = structure
        for bank in self.banks:
            bank.grow_outputs(n_outputs)

    @property
    def average_at_hand(self) -> bool:
        """True if the averaged model is computed and up to date."""
        return self._predictor is not None

    def predictor(self) -> Predictor:
        """Return the current averaged model, frozen; cached until the next round."""
        if self._predictor is None:
            self._predictor = Predictor(self.banks, self.structure)
        return self._predictor

    def mean_loss(self, examples: Iterable[Example]) -> float:
        """Return the weighted mean loss on examples of the current iterate, not of the averaged
        model.
        """
        pairs = [
            (self._loss_and_gradient(self.potentials(x), y)[0], weight) for x, y, weight in examples
        ]
        losses, weights = np.array(pairs).T
        return float(losses @ weights / weights.sum())

    def penalty(self) -> float:
        r"""Return :math:`R(\theta)` of the current model."""
        coordinates = (
            [bank.coordinates() for bank in self.penalized_banks] if self.coordinate_terms else []
        )
        on_coordinates = sum(
            term.value(values) for term in self.coordinate_terms for values in coordinates
        )
        return on_coordinates + self.method.value(self.norms, self.terms)

    def record(self, epoch: int, examples: int, loss: float, seconds: float) -> Record:
        """Make a record of the state of training.

        Parameters
        ----------
        epoch : int
            From 1.
        examples : int
            Number of examples that the record covers.
        loss : float
            Mean of the losses of these examples, each before its update.
        seconds : float
            Time spent on these examples.

        Returns
        -------
        dict
            The arguments, and ``round``, ``penalty`` (R of the current iterate), ``objective``
            (loss plus lambda times penalty), ``rate``, and ``norm:NAME`` and ``weight:NAME`` of
            each group. Norms and weights are those of the current iterate, not of the averaged
            model.
        """
        penalty, norms = self.penalty(), self.group_state.norms
        return {
            "epoch": epoch,
            "round": self.round,
            "examples": examples,
            "loss": loss,
            "penalty": penalty,
            "objective": loss + self.current_lambda * penalty,
            "rate": self.schedule(self.round - self.began),
            **{f"norm:{name}": norm for name, norm in zip(self.group_state.names, norms.tolist())},
            **{
                f"weight:{name}": weight
                for name, weight in self.kernel_weights(norms[: self.n_penalized]).items()
            },
            "seconds": seconds,
        }

    def recompute_norms(self) -> None:
        """Recompute all group norms, because the recursion accumulates rounding errors."""
        for bank in self.banks:
            bank.recompute_norms()
        self.group_state.square_norms[self.group_state.empty] = 0.0

    def kernel_weights(self, norms: np.ndarray | None = None) -> dict[str, float]:
        """Return the weights of the regularized groups by name, in the user's order.

        Parameters
        ----------
        norms : array of shape (p,), optional
            By default the norms of the averaged model. Ignored if Hedge learns the weights.

        Returns
        -------
        dict of str to float
            The weights sum to one. All are zero before training.
        """
        weights = self.method.kernel_weights(
            self.group_state.pending_weight, self.group_state.total_weight
        )
        if weights is None:
            norms = self.predictor().norms[: self.n_penalized] if norms is None else norms
            weights = (L21() if self.bound is None else self.bound).normalized_kernel_weights(norms)
        weight_of = dict(zip(self.group_names, weights.tolist()))
        return {name: weight_of[name] for name in self.order}

    def check_new_groups(self, names: Iterable[str]) -> None:
        """Raise an InputError if the regularizer cannot take new groups of these names."""
        if self.regularizer is not None and self.bound is not self.regularizer:
            new = [name for name in names if name not in self.order]
            self.regularizer.bind([*self.group_names, *new], [*self.order, *new])

    def regroup(self, order: Iterable[str] = ()) -> None:
        """Add new groups of the banks to the group state; ``order`` has the names of all groups."""
        self._predictor, self.order = None, list(order)
        n_known = len(self.group_state.names)
        self.group_state = self.group_state.rebuilt(self.banks)
        self.n_penalized += len(self.group_state.names) - n_known
        self.start_parts()
        self._bind_regularizer()

    def go_on(self, rounds: float, presented: float) -> None:
        """Set the number of past rounds and the total weight of their examples."""
        self._predictor = None
        self.round, self.presented = int(rounds), float(presented)

    def forget_input(self) -> None:
        """Clear the caches of the latest input in banks, and the cached averaged model."""
        self._predictor = None
        for bank in self.banks:
            bank.forget_input()

    def release(self) -> None:
        """Convert kernel groups cached over a training set to expansions, which score any input,
        and forget the set.
        """
        self.forget_input()
        self.driver = None  # it holds the banks
        for index, bank in enumerate(self.banks):
            self.banks[index] = released = bank.release()
            released.group_state = bank.group_state
        self.penalized_banks = self.banks[: len(self.penalized_banks)]

    @property
    def owners(self) -> dict[str, Any]:
        """Everything that has a state, by the name under which files have it."""
        banks = {f"bank{k}": bank for k, bank in enumerate(self.banks)}
        return {"groups": self.group_state, **banks, **self.parts}

    def state(self) -> dict[str, np.ndarray]:
        """Return the training state, except for the random generator, as named arrays."""
        arrays = prefixed({name: own.state() for name, own in self.owners.items()})
        if self.coordinate_terms:
            arrays["coordinates"] = np.array([self.shrinkage, self.shrunk])
        return {
            **arrays,
            "counters": np.array([self.round, self.presented, self.began], dtype=np.float64),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`."""
        for role in LATER:
            if below(state, f"{role}/"):
                self.join(role)
        for name, own in self.owners.items():
            arrays = below(state, f"{name}/")
            if arrays or name not in self.parts:  # a model that only predicts lacks some parts
                own.load_state(arrays)
        if "counters" not in state:  # a model without training state
            for bank in self.banks:
                bank.frozen = True
            return
        if "coordinates" in state:
            self.shrinkage, self.shrunk = state["coordinates"].tolist()
        rounds, presented, began = state["counters"].tolist()
        self.go_on(rounds, presented)
        self.began = int(began)

    def take(self, other: "OnlineTrainer") -> None:
        """Take the state of a trainer with more groups; the banks of this one already have its
        parameters.
        """
        names, state = other.group_state.names, other.group_state.state()
        indices = [names.index(name) for name in self.group_state.names]
        own = {
            name: array if name == "weights" else array[indices] for name, array in state.items()
        }
        self.group_state.load_state(own)
        for role, part in other.parts.items():
            if role in LATER and isinstance(part, LATER[role]):
                self.join(role)
            if role in self.parts:
                self.parts[role].take(part, indices[: self.n_penalized])
        self.lambda_, self.radius, self.average = other.lambda_, other.radius, other.average
        self.go_on(other.round, other.presented)
        self.began = other.began
