"""The trainer: Algorithm 1 of Martins et al. (2011)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from itertools import product
from typing import Any, TypeVar

import numpy as np

from omkl._components import check_choice
from omkl.exceptions import DivergenceError, InputError
from omkl.groups.base import Bank, check_ability
from omkl.groups.group_state import GroupState
from omkl.losses.evaluation import LossFunction
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Average, Predictor
from omkl.online.methods import METHODS, Method
from omkl.online.rounds import (
    Change,
    EpochPlan,
    Example,
    Record,
    Step,
    TrainerPart,
    below,
    potentials_of,
    prefixed,
)
from omkl.online.schedules import Schedule, check_schedule
from omkl.regularizers.base import ProximalStep, Regularizer
from omkl.regularizers.separable import L21
from omkl.structures.base import Output, Potentials, Structure

P = TypeVar("P", bound=TrainerPart)

#: Rounds between recomputations of group norms in streams, because the recursion accumulates
#: rounding errors.
RECOMPUTE_EVERY = 100_000
#: Maximum number of rounds between steps on coordinates, each of which costs as much as there are
#: parameters.
SHRINK_EVERY = 128
#: Maximum sum of lambda over the rounds between steps on coordinates: much less than the gradient
#: of an example.
SHRINK_BY = 1 / 16
#: If groups with more than this total weight are left out before an epoch, training restarts.
NEGLIGIBLE = 0.1


class OnlineTrainer:
    r"""Online proximal algorithm.

    It minimizes :math:`\lambda R(\theta) + \frac1m \sum_i L(\theta; x_i, y_i)`. The trainer is
    independent of inputs, parameters and outputs: banks compute potentials of an input, the loss
    computes a gradient from potentials, and the regularizer shrinks group norms.

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
    examiners : mapping of str to TrainerPart
        Parts that look at examples before they are learned, by their role, under which files have
        their states.
    joining : mapping of str to type
        Classes of the parts that may join during training, by the role that they take; see
        :meth:`join`.

    Attributes
    ----------
    method : Method
    schedule : Schedule
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
        examiners: Mapping[str, TrainerPart] | None = None,
        joining: Mapping[str, type[TrainerPart]] | None = None,
    ) -> None:
        check_choice("`method`", method, METHODS)
        check_schedule(schedule)
        self.banks = [*banks, *unpenalized]
        self.structure = structure
        self.loss = loss
        self.regularizer = regularizer
        self.lambda_ = lambda_
        self.schedule = schedule
        self.n_penalized = sum(len(bank.names) for bank in banks)
        self.method = METHODS[method]()
        self.examiners = dict(examiners or {})
        self.joining = dict(joining or {})
        self.radius = float(radius)
        self.average = average
        self.order = list(order)
        self.recompute_every = RECOMPUTE_EVERY
        self._loss_function: LossFunction | None = None
        #: The compiled driver, which keeps its working memory between calls.
        self.driver: Any = None
        #: Number of rounds, and total weight of their examples.
        self.round = 0
        self.presented = 0.0
        #: Number of rounds before the learning rates and the average last began.
        self.began = 0
        #: Sum of the proximal steps, and the part of it that coordinates have taken.
        self.shrinkage = 0.0
        self.shrunk = 0.0
        self._predictor: Predictor | None = None
        self.group_state = GroupState(self.banks)
        self.start_parts()
        self.penalized_banks = list(banks)
        self._bind_regularizer()
        if self.coordinate_terms:
            self._check_coordinates()

    def _check_coordinates(self) -> None:
        """Raise an InputError unless the regularizer can act on coordinates of the parameters."""
        purpose = f"{self.regularizer!r} shrinks single coordinates"
        remedy = "hold kernels as explicit features, or choose a regularizer on group norms"
        check_ability(self.penalized_banks, "coordinates", purpose, remedy)
        acts = f"{self.regularizer!r} acts on coordinates"
        if not self.method.forgets:
            raise InputError(f"{acts}, which dual averaging does not support.")
        for term in self.coordinate_terms:
            if term.elastic is None or term.elastic[1]:
                raise InputError(f"{acts} otherwise than by their l1 norm.")

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
        """All parts with a state of their own, by the role under which files have their states.

        The method is the last one: it begins an epoch without the groups that others leave out.
        """
        return {**self.examiners, "schedule": self.schedule, "method": self.method}

    def find(self, kind: type[P]) -> P | None:
        """Return the part of a class, if there is one."""
        return next((part for part in self.parts.values() if isinstance(part, kind)), None)

    def start_parts(self) -> None:
        """Fit the parts to the group state."""
        for part in self.parts.values():
            part.start(self.group_state, self.n_penalized)

    def join(self, role: str) -> None:
        """Let the part that takes a role during training join, unless it has.

        A method takes the place of the present one. All other parts examine examples.

        Parameters
        ----------
        role : str
            A key of the argument ``joining``.
        """
        kind = self.joining[role]
        if isinstance(self.parts.get(role), kind):
            return
        part = kind()
        part.start(self.group_state, self.n_penalized)
        if isinstance(part, Method):
            self.method = part
            self._bind_regularizer()
        else:
            self.examiners[role] = part
        part.joined(self)

    def average_as_stream(self) -> None:
        """Continue the average, if there is one, as that for a stream."""
        before = self.average
        if before is None:
            return
        self.average = before.in_stream()
        t = self._rounds_of_average
        if t > 0:
            self.discount(self.average.weight(t) / before.weight(t))

    def _bind_regularizer(self) -> None:
        """Set the terms of the regularizer for the present groups and method."""
        names = self.group_names
        # groups that are not in the order, such as transitions, come last
        in_order = dict.fromkeys([*self.order, *names])
        present = set(names)
        self.order = [name for name in in_order if name in present]
        self.bound: Regularizer | None = None
        steps: tuple[Regularizer, ...] = ()
        if self.regularizer is not None:
            self.bound = self.regularizer.bind(names, self.order)
            steps = self.bound.terms()
        self.terms = self.method.terms([term for term in steps if not term.on_coordinates])
        self.coordinate_terms = [term for term in steps if term.on_coordinates]
        elastic = [term.elastic for term in self.coordinate_terms]
        self._l1_weight = sum(linear for linear, _ in filter(None, elastic))

    def update(self, x: Sized, y: Output, weight: float = 1.0) -> Step:
        r"""Perform one round of Algorithm 1 (Martins et al. 2011) on one example.

        For an example of weight w, the gradient step has size :math:`w \eta_t` and the proximal
        step :math:`w \eta_t \lambda`. An example of weight 0 changes nothing.

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
            return Step(
                loss=0.0,
                norms=self.norms,
                rate=0.0,
                square_gradient=0.0,
                potentials=self.potentials(x),
                gold=y,
                weight=0.0,
            )
        potentials = self._examine(x, y, weight)  # line 4
        self.round += 1
        self.presented += weight
        self._predictor = None
        t = self._rounds_of_average
        rate = self.schedule.rate(t, weight)
        self.method.begin(self.group_state, rate, weight)
        loss, gradient = self._loss_and_gradient(potentials, y)
        change = None
        for part in self.examiners.values():
            change = part.after_round(self, loss) or change
        square_gradient = 0.0
        if gradient is not None:  # None means zero
            for bank in self.banks:
                bank.step(x, gradient)  # line 5
            # products, since powers of compiled and of other numbers round differently
            square_gradient = weight * weight * self.method.observe(self.group_state, weight)
            rate = self._adapted_rate(weight * loss, square_gradient, weight, rate)
        has_events = self._shrink(weight, rate, square_gradient)  # lines 6-9
        if has_events:
            for bank in self.banks:
                bank.apply_events(x, gradient)
        self._count_into_average(weight, t)
        self.upkeep()
        if change is not None:
            self.restart_average(change)
        return Step(
            loss=weight * loss,
            norms=self.norms,
            rate=rate,
            square_gradient=square_gradient,
            potentials=potentials,
            gold=y,
            weight=weight,
            changed=change is not None,
        )

    def _examine(self, x: Sized, y: Output, weight: float) -> Potentials:
        """Let parts examine an example; return its potentials in the current model."""
        potentials = None
        for part in self.examiners.values():
            computed = part.before_round(self, x, y, weight)
            if computed is not None:
                potentials = computed
        if potentials is None:
            potentials = self.potentials(x)
        return potentials

    def _adapted_rate(
        self, loss: float, square_gradient: float, weight: float, rate: float
    ) -> float:
        """Take a gradient into the schedule; return the rate, which the very first one sets."""
        adapted = self.schedule.observe(loss, square_gradient, weight, rate)
        if adapted != rate:
            self.group_state.bases *= adapted / rate
        return adapted

    def _shrink(self, weight: float, rate: float, square_gradient: float) -> bool:
        """Take the proximal step of a round; return whether banks have events to apply."""
        method = self.method
        step = rate * (method.proximal_weight(weight, self.presented) * self.current_lambda)
        self.shrinkage += step
        norms = self.prox(self.group_state.measure()[: self.n_penalized], step)
        has_events, norm = self.group_state.rescale(norms, self.radius, method.forgets)
        distance = method.distance(norms, norm)
        self.schedule.reach(distance, rate * math.sqrt(max(square_gradient, 0.0)))
        return has_events

    def _count_into_average(self, weight: float, t: int) -> None:
        """Set the weight of the model after round t in the average."""
        self.group_state.pending_weight = 0.0
        if self.average is not None:
            self.group_state.pending_weight = weight * self.average.weight(t)
            self.group_state.total_weight += self.group_state.pending_weight

    def restart_average(self, change: Change) -> None:
        """Restart the average, and all parts, at the beginning of a change of the stream."""
        n_before = change.start - self.began
        n_after = self.round - change.start
        for part in self.parts.values():
            part.forget(change.sums, n_before, n_after)
        self.began = change.start
        self._predictor = None
        self.discount(0.0)

    def begin_epoch(self, epoch: EpochPlan) -> None:
        """Let the parts prepare an epoch.

        If a part leaves out groups with more than :data:`NEGLIGIBLE` of the weight, the others are
        trained from scratch.
        """
        for role in list(self.parts):  # a part may let another one join
            useless = self.parts[role].before_epoch(self, epoch)
            if useless is not None and self._leave_out(useless) > NEGLIGIBLE:
                self.restart()

    def conclude(self) -> None:
        """Let the parts end training; they may leave out groups."""
        for part in self.parts.values():
            useless = part.after_training(self)
            if useless is not None:
                self._leave_out(useless)

    def _leave_out(self, useless: np.ndarray) -> float:
        """Leave out groups by a mask (p,); return the total weight of all that are left out."""
        weight_of = self.kernel_weights(self.norms)
        left_out = self.group_state.left_out[: self.n_penalized]
        left_out |= useless
        self._predictor = None
        names = [name for name, is_left_out in zip(self.group_names, left_out) if is_left_out]
        return sum(weight_of[name] for name in names)

    def plan(
        self,
        *,
        rounds: float | None = None,
        lambda_: float | Callable[[float], float] | None = None,
        radius: float | None = None,
        recompute_every: int | None = None,
    ) -> None:
        """Set what follows from the data and from the length of training.

        None leaves a value as it is.

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
        return DivergenceError(f"{message}: choose a smaller learning_rate, or a radius.")

    @property
    def loss_function(self) -> LossFunction:
        """The loss of the structure as a function of potentials."""
        if self._loss_function is None or self._loss_function.structure is not self.structure:
            self._loss_function = LossFunction(self.loss, self.structure)
        return self._loss_function

    @property
    def compiled_steps(self) -> list[list[ProximalStep] | None]:
        """Compiled proximal steps of each term, None for a term without any.

        They are not stored, as they are slow to copy.
        """
        return [term.compiled_steps() for term in self.terms]

    def prox(self, norms: np.ndarray, step: float) -> np.ndarray:
        """Return the norms (p,) after the proximal steps on groups; zero for left-out groups."""
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
        """Number of rounds between steps on coordinates.

        It is a power of two, so that it divides later ones.
        """
        most = min(SHRINK_EVERY, self.round // 8)
        if most > 1:
            strength = self._l1_weight * self.current_lambda
            if strength > 0.0:
                most = min(most, int(SHRINK_BY / strength))
        exponent = max(most, 1).bit_length() - 1
        return 1 << exponent

    @property
    def _rounds_of_average(self) -> int:
        """Number of rounds since the average last began."""
        return self.round - self.began

    def until_upkeep(self) -> int:
        """Return the number of rounds up to the next one that needs :meth:`upkeep`."""
        periods = [(self.recompute_every, self.round)]
        if self.coordinate_terms:
            periods.append((self._rounds_between_shrinkage, self.round))
        if self.average is not None and self.average.period:
            periods.append((self.average.period, self._rounds_of_average))
        return min(period - rounds % period for period, rounds in periods)

    def upkeep(self) -> None:
        """Discount the average, recompute norms, and shrink coordinates, where that is due.

        It is called after every round, or after some compiled ones.
        """
        average = self.average
        t = self._rounds_of_average
        if average is not None and average.period and t % average.period == 0:
            self.discount(1.0 / average.weight(t))
        recomputes = self.round % self.recompute_every == 0
        if recomputes:
            self.recompute_norms()
        if not self.coordinate_terms:
            return
        if recomputes or self.round % self._rounds_between_shrinkage == 0:
            self.shrink_coordinates()

    def shrink_coordinates(self) -> None:
        """Shrink coordinates by the steps since the last time.

        This is the truncated gradient of Langford, Li and Zhang (2009). Steps in every round would
        cost as much as there are parameters, and not as there are features in the input.
        """
        step = self._l1_weight * (self.shrinkage - self.shrunk)
        self.shrunk = self.shrinkage
        for bank in self.penalized_banks:
            bank.shrink_coordinates(step)

    @property
    def current_lambda(self) -> float:
        r""":math:`\lambda` in this round."""
        if callable(self.lambda_):
            return self.lambda_(self.presented)
        return self.lambda_

    def grow_outputs(self, structure: Structure, n_outputs: int) -> None:
        """Continue with a structure that has more labels; weights of new labels are zero."""
        self._predictor = None
        purpose = "There are labels that were not known before"
        check_ability(self.banks, "grow", purpose, "declare all labels at first")
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
        """Return the weighted mean loss on examples of the current iterate.

        It is not that of the averaged model.
        """
        pairs = []
        for x, y, weight in examples:
            loss, _ = self._loss_and_gradient(self.potentials(x), y)
            pairs.append((loss, weight))
        losses, weights = np.array(pairs).T
        return float(losses @ weights / weights.sum())

    def penalty(self) -> float:
        r"""Return :math:`R(\theta)` of the current model."""
        of_groups = self.method.value(self.norms, self.terms)
        if not self.coordinate_terms:
            return of_groups
        coordinates = [bank.coordinates() for bank in self.penalized_banks]
        pairs = product(self.coordinate_terms, coordinates)
        return (
            sum(term.value(coordinates_of_bank) for term, coordinates_of_bank in pairs) + of_groups
        )

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
        penalty = self.penalty()
        norms = self.group_state.norms
        weights = self.kernel_weights(norms[: self.n_penalized])
        return {
            "epoch": epoch,
            "round": self.round,
            "examples": examples,
            "loss": loss,
            "penalty": penalty,
            "objective": loss + self.current_lambda * penalty,
            "rate": self.schedule(self._rounds_of_average),
            **{f"norm:{name}": norm for name, norm in zip(self.group_state.names, norms.tolist())},
            **{f"weight:{name}": weight for name, weight in weights.items()},
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
            if norms is None:
                norms = self.predictor().norms[: self.n_penalized]
            weights = (self.bound or L21()).normalized_kernel_weights(norms)
        weight_of = dict(zip(self.group_names, weights.tolist()))
        return {name: weight_of[name] for name in self.order}

    def check_new_groups(self, names: Iterable[str]) -> None:
        """Raise an InputError if the regularizer cannot take new groups of these names."""
        if self.regularizer is not None and self.bound is not self.regularizer:
            new_names = [name for name in names if name not in self.order]
            self.regularizer.bind([*self.group_names, *new_names], [*self.order, *new_names])

    def regroup(self, order: Iterable[str] = ()) -> None:
        """Add new groups of the banks to the group state; ``order`` has the names of all groups."""
        self._predictor = None
        self.order = list(order)
        n_groups_before = len(self.group_state.names)
        self.group_state = self.group_state.rebuilt(self.banks)
        self.n_penalized += len(self.group_state.names) - n_groups_before
        self.start_parts()
        self._bind_regularizer()

    def go_on(self, rounds: float, presented: float) -> None:
        """Set the number of past rounds and the total weight of their examples."""
        self._predictor = None
        self.round = int(rounds)
        self.presented = float(presented)

    def forget_input(self) -> None:
        """Clear the caches of the latest input in banks, and the cached averaged model."""
        self._predictor = None
        for bank in self.banks:
            bank.forget_input()

    def release(self) -> None:
        """Convert kernel groups cached over a training set to expansions, which score any input.

        The set is forgotten.
        """
        self.forget_input()
        self.driver = None  # it holds the banks
        for index, bank in enumerate(self.banks):
            released = bank.release()
            released.group_state = bank.group_state
            self.banks[index] = released
        self.penalized_banks = self.banks[: len(self.penalized_banks)]

    @property
    def owners(self) -> dict[str, Any]:
        """Everything that has a state, by the name under which files have it."""
        banks = {f"bank{k}": bank for k, bank in enumerate(self.banks)}
        return {"groups": self.group_state, **banks, **self.parts}

    def state(self) -> dict[str, np.ndarray]:
        """Return the training state, except for the random generator, as named arrays."""
        arrays = prefixed({name: owner.state() for name, owner in self.owners.items()})
        if self.coordinate_terms:
            arrays["coordinates"] = np.array([self.shrinkage, self.shrunk])
        counters = [self.round, self.presented, self.began]
        arrays["counters"] = np.array(counters, dtype=np.float64)
        return arrays

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`."""
        for role in self.joining:
            if below(state, f"{role}/"):
                self.join(role)
        for name, owner in self.owners.items():
            arrays = below(state, f"{name}/")
            if arrays or name not in self.parts:  # a model that only predicts lacks some parts
                owner.load_state(arrays)
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
        """Take the state of a trainer with more groups.

        The banks of this one already have its parameters.
        """
        names = other.group_state.names
        indices = [names.index(name) for name in self.group_state.names]
        arrays = other.group_state.state()
        for name in arrays.keys() - {"weights"}:  # all others have an entry for each group
            arrays[name] = arrays[name][indices]
        self.group_state.load_state(arrays)
        for role, part in other.parts.items():
            if role in self.joining and isinstance(part, self.joining[role]):
                self.join(role)
            if role in self.parts:
                self.parts[role].take(part, indices[: self.n_penalized])
        self.lambda_ = other.lambda_
        self.radius = other.radius
        self.average = other.average
        self.go_on(other.round, other.presented)
        self.began = other.began
