"""The trainer: Algorithm 1 of Martins et al. (2011)."""

import math
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

import numpy as np

from omkl.exceptions import DivergenceError, InputError
from omkl.groups.base import Bank, check_ability, initial_potentials
from omkl.groups.group_state import GroupState
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Average, Predictor
from omkl.online.drift.detector import DriftTest
from omkl.online.evidence import Evidence
from omkl.online.methods import OutOfSampleWeights, as_method
from omkl.online.rounds import Example, Record, Step, below
from omkl.online.schedules import Schedule
from omkl.regularizers.base import Regularizer
from omkl.regularizers.separable import L21
from omkl.structures.base import Output, Potentials, Structure

#: Rounds between recomputations of group norms in streams, because the recursion accumulates rounding errors.
RECOMPUTE_EVERY = 100_000
#: Maximum number of rounds between steps on coordinates, each of which costs as much as there are parameters, and
#: maximum sum of lambda over these rounds: much less than the gradient of an example.
SHRINK_EVERY, SHRINK_BY = 128, 1 / 16


class OnlineTrainer:
    r"""Online proximal algorithm for :math:`\lambda R(\theta) + \frac1m \sum_i L(\theta; x_i, y_i)`.

    The trainer is independent of inputs, parameters and outputs: banks compute potentials of an input, the loss
    computes a gradient from potentials, and the regularizer shrinks group norms.

    Parameters
    ----------
    banks : sequence of Bank
        Banks whose groups are regularized.
    structure : Structure
    loss : StructuredLoss
    regularizer : Regularizer or None
        For a composite, the proximal steps of its terms are taken one after the other. Steps on coordinates are taken
        together for up to :data:`SHRINK_EVERY` rounds; see :meth:`shrink_coordinates`.
    lambda_ : float or callable
        :math:`\lambda`, or a function that computes it from the total weight of all rounds so far.
    schedule : Schedule
        Learning rates.
    method : {"fobos", "rda"}
    radius : float
        Radius of the ball onto which every iterate is projected; infinite by default.
    average : Average or None
        Weights of the averaged model, which requires banks with ``averaging=True``. None uses the last iterate.
    unpenalized : sequence of Bank
        Banks whose groups are not regularized.
    order : sequence of str
        Names of groups in the user's order, for arguments of regularizers that refer to groups by position.
    weighting : {"norms", "out-of-sample"}
        "out-of-sample" removes groups that do not help on new examples (see ``evidence.Evidence``). In a single pass of
        "fobos" with the squared mixed norm, Hedge learns the group weights (see ``methods.OutOfSampleWeights``).
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
        self.banks: list[Any] = [*banks, *unpenalized]
        self.structure: Any = structure  # callers use methods of subclasses
        self.loss = loss
        self.regularizer = regularizer
        self.lambda_ = lambda_
        self.schedule: Any = schedule
        self.n_penalized = sum(len(bank.names) for bank in banks)
        self.method: Any = as_method(method)
        self.radius = float(radius)
        self.average = average
        self.order = list(order)
        self.weighting = weighting
        self.evidence = Evidence(self.n_penalized) if weighting == "out-of-sample" else None
        self.recompute_every = RECOMPUTE_EVERY
        self.round, self.presented, self.shrinkage = 0, 0.0, 0.0
        self.shrunk = 0.0  # part of the shrinkage that coordinates have taken
        self.began = 0  # number of rounds before the learning rates and the average last began
        self.drift: DriftTest | None = None
        self._predictor: Predictor | None = None
        self.group_state = GroupState(self.banks)
        self.method.prepare(self.group_state)
        self.penalized_banks: list[Bank] = list(banks)
        self._bind_regularizer()
        if self.coordinate_terms:
            purpose = f"{self.regularizer!r} shrinks single coordinates"
            remedy = "hold kernels as explicit features, or choose a regularizer on group norms"
            check_ability(self.penalized_banks, "coordinates", purpose, remedy)
            if not self.method.forgets:
                raise InputError(f"{self.regularizer!r} acts on coordinates, which dual averaging does not support.")
            if any(term.elastic is None or term.elastic[1] for term in self.coordinate_terms):
                raise InputError(f"{self.regularizer!r} acts on coordinates otherwise than by their l1 norm.")

    @property
    def group_names(self) -> list[str]:
        """Names of the regularized groups."""
        return self.group_state.names[: self.n_penalized]

    @property
    def norms(self) -> np.ndarray:
        """Norms of the regularized groups."""
        return self.group_state.norms[: self.n_penalized]

    def _bind_regularizer(self):
        names = self.group_names
        known = set(names)
        # groups that are not in the order, such as transitions, come last
        self.order = [name for name in dict.fromkeys([*self.order, *names]) if name in known]
        self.bound = None if self.regularizer is None else self.regularizer.bind(names, self.order)
        steps = () if self.bound is None else self.bound.terms()
        self.terms = [term for term in steps if not term.on_coordinates]
        self.coordinate_terms = [term for term in steps if term.on_coordinates]
        self._l1_weight = sum(term.elastic[0] for term in self.coordinate_terms if term.elastic is not None)
        if self.method.has_weights:
            self.terms = [self.method]

    def hedge(self) -> None:
        """Learn group weights by Hedge from now on."""
        self.method = OutOfSampleWeights(self.n_penalized)
        self.method.prepare(self.group_state)
        self._bind_regularizer()

    def watch(self) -> None:
        """Test for drift from now on, if there is an average whose potentials can be computed in a round.

        In dual averaging, the model is proportional to the rate, which cannot restart.
        """
        average, t = self.average, self.round - self.began
        if self.drift is not None or average is None or not self.method.forgets:
            return
        if all("watch" in bank.abilities for bank in self.banks):
            self.drift, self.average = DriftTest(), average.in_stream()
            if t > 0:
                self._discount(self.average.weight(t) / average.weight(t))

    def update(self, x: Sized, y: Output, weight: float = 1.0) -> Step:
        r"""Perform one round of Algorithm 1 (Martins et al. 2011) on one example.

        For an example of weight w, the gradient step has size :math:`w \eta_t` and the proximal step
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
        if self.evidence is not None:
            self.evidence.look_at(self, x, y, weight)
        drift, average_loss = self.drift, None
        if drift is not None and drift.is_due(self.round):
            potentials, average_loss = self._potentials_and_loss_of_average(x, y)
        else:
            potentials = self.potentials(x)  # line 4
        rate = self._open_round(weight)
        loss, gradient = self._loss_and_gradient(potentials, y)
        changed = False
        if drift is not None and average_loss is not None:
            changed = drift.compare(average_loss, loss, self.round - 1, self.schedule.sums)
        square_gradient = 0.0
        if gradient is not None:  # None means zero
            for bank in self.banks:
                bank.step(x, gradient)  # line 5
            square_gradient = weight**2 * self.method.observe(self.group_state)
            if self.schedule.adaptive:
                rate = self._adapt(rate, weight * loss, square_gradient, weight)
        norms, events = self._shrink(rate, weight, square_gradient)  # lines 6-9
        if events:
            for bank in self.banks:
                bank.apply_events(x, gradient)
        self._close_round(weight)
        if changed:
            self.restart_average()
        return Step(weight * loss, norms, rate, square_gradient, potentials, y, 1, weight, changed=changed)

    def _potentials_and_loss_of_average(self, x: Sized, y: Output) -> tuple[Potentials, float]:
        potentials, average = initial_potentials(self.structure, x), initial_potentials(self.structure, x)
        for bank in self.banks:
            bank.add_both(x, potentials, average)
        return potentials, self.loss.value_and_gradient(self.structure, average, y)[0]

    def restart_average(self) -> None:
        """After a change of the stream, restart average and learning rates at its beginning, and Hedge and evidence."""
        assert self.drift is not None
        began, sums = self.drift.restart()
        self.schedule.forget(sums, began - self.began, self.round - began)
        self.began, self._predictor = began, None
        self._discount(0.0)
        self.method.restart()
        if self.evidence is not None:
            self.evidence.restart()

    def _discount(self, factor: float) -> None:
        """Multiply the weights of all models in the average."""
        for part in (self.group_state, self.method, *self.banks):
            part.discount(factor)

    def _open_round(self, weight: float) -> float:
        """Begin a round on an example of this weight, and return the learning rate."""
        self.round += 1
        self.presented += weight
        self._predictor = None
        t = self.round - self.began
        rate = self.schedule(t, weight) if self.schedule.adaptive else self.schedule(t)
        self.method.begin(self.group_state, rate, weight)
        return rate

    def potentials(self, x: Sized) -> Potentials:
        """Return the potentials of an input in the current model."""
        potentials = initial_potentials(self.structure, x)
        for bank in self.banks:
            bank.add_potentials(x, potentials)
        return potentials

    def _loss_and_gradient(self, potentials: Potentials, y: Output) -> tuple[float, Potentials | None]:
        """Return the loss and its gradient with respect to potentials, None for zero."""
        loss, gradient = self.loss.value_and_gradient(self.structure, potentials, y)
        if not math.isfinite(loss):
            raise self.divergence(loss)
        return loss, gradient

    def divergence(self, loss: float) -> DivergenceError:
        """Make the error for a loss that is not finite."""
        message = f"Training diverged in round {self.round}, where the loss is {loss}"
        return DivergenceError(f"{message}: choose a smaller eta0, or a radius.")

    def _adapt(self, rate: float, loss: float, square_gradient: float, weight: float) -> float:
        """Report the gradient to an adaptive schedule, which sets the rate of the very first step only now."""
        first_rate = self.schedule.observe(loss, square_gradient, weight)
        if first_rate is None:
            return rate
        self.group_state.bases *= first_rate / rate
        return first_rate

    def _shrink(self, rate: float, weight: float, square_gradient: float) -> tuple[np.ndarray, int]:
        """Take proximal steps and project; return norms of regularized groups, and number of pending events."""
        group_state, method = self.group_state, self.method
        step = method.proximal_weight(rate, weight, self.presented) * self.current_lambda
        self.shrinkage += step
        norms = self.prox(group_state.measure()[: self.n_penalized], step)  # lines 6-8
        events, distance = group_state.rescale(norms, self.radius, method.forgets)  # line 9
        if self.schedule.adaptive:
            distance = method.distance(norms, distance)
            self.schedule.reach(distance, rate * math.sqrt(max(square_gradient, 0.0)))
        return norms, events

    def prox(self, norms: np.ndarray, step: float) -> np.ndarray:
        """Return the norms (p,) after the proximal steps on groups; norms of left-out groups are zero."""
        left_out = self.group_state.left_out[: self.n_penalized]
        if left_out.any():  # before the terms, whose shrinkage can depend on all norms
            norms = np.where(left_out, 0.0, norms)
        for term in self.terms:
            norms = term.prox(norms, step)
        return norms

    def _close_round(self, weight: float) -> None:
        """Add the model to the average; recompute norms periodically."""
        group_state, average, t = self.group_state, self.average, self.round - self.began
        if average is None:
            group_state.pending_weight = 0.0
        else:
            group_state.pending_weight = weight * average.weight(t)
            group_state.total_weight += group_state.pending_weight
        self.upkeep()

    @property
    def _rounds_between_shrinkage(self) -> int:
        """Number of rounds between steps on coordinates: a power of two, so that it divides later ones."""
        most = min(SHRINK_EVERY, self.round // 8)
        if most > 1 and (strength := self._l1_weight * self.current_lambda) > 0.0:
            most = min(most, int(SHRINK_BY / strength))
        return 1 << max(most, 1).bit_length() - 1

    def until_upkeep(self) -> int:
        """Return the number of rounds up to the next one after which :meth:`upkeep` has something to do."""
        rounds = self.recompute_every - self.round % self.recompute_every
        if self.coordinate_terms:
            rounds = min(rounds, self._rounds_between_shrinkage - self.round % self._rounds_between_shrinkage)
        if self.average is None or not self.average.period:
            return rounds
        return min(rounds, self.average.period - (self.round - self.began) % self.average.period)

    def upkeep(self) -> None:
        """Discount the average, recompute norms, and shrink coordinates, after the rounds where that is due."""
        average, is_end = self.average, self.round % self.recompute_every == 0
        if average is not None and average.period and (self.round - self.began) % average.period == 0:
            self._discount(1.0 / average.weight(self.round - self.began))
        if is_end:
            self.recompute_norms()
        if self.coordinate_terms and (is_end or self.round % self._rounds_between_shrinkage == 0):
            self.shrink_coordinates()

    def shrink_coordinates(self) -> None:
        """Shrink coordinates by the steps since the last time: truncated gradient (Langford, Li, Zhang 2009).

        Steps in every round would cost as much as there are parameters, and not as there are features in the input.
        """
        step = self._l1_weight * (self.shrinkage - self.shrunk)
        self.shrunk = self.shrinkage
        for bank in self.penalized_banks:
            bank.shrink_coordinates(step)

    @property
    def current_lambda(self) -> float:
        r""":math:`\lambda` in this round."""
        return self.lambda_(self.presented) if callable(self.lambda_) else self.lambda_

    def grow_outputs(self, structure: Structure) -> None:
        """Continue with a structure that has more labels; weights of new labels are zero."""
        self._predictor = None
        check_ability(self.banks, "grow", "There are labels that were not known before", "declare all labels at first")
        self.structure = structure
        for bank in self.banks:
            bank.grow_outputs(self.structure.n_labels)

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
        """Return the weighted mean loss on examples of the current iterate, not of the averaged model."""
        pairs = [(self._loss_and_gradient(self.potentials(x), y)[0], weight) for x, y, weight in examples]
        losses, weights = np.array(pairs).T
        return float(losses @ weights / weights.sum())

    def penalty(self) -> float:
        r"""Return :math:`R(\theta)` of the current model."""
        coordinates = [bank.coordinates() for bank in self.penalized_banks] if self.coordinate_terms else []
        on_coordinates = sum(term.value(values) for term in self.coordinate_terms for values in coordinates)
        return on_coordinates + sum(term.value(self.norms) for term in self.terms)

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
            The arguments, and ``round``, ``penalty`` (R of the current iterate), ``objective`` (loss plus lambda times
            penalty), ``rate``, and ``norm:NAME`` and ``weight:NAME`` of each group. Norms and weights are those of the
            current iterate, not of the averaged model.
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
            **{f"weight:{name}": weight for name, weight in self.kernel_weights(norms[: self.n_penalized]).items()},
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
        if self.method.has_weights:
            weights = self.method.kernel_weights(self.group_state.pending_weight, self.group_state.total_weight)
        else:
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
        if self.evidence is not None:
            self.evidence.grow(self.n_penalized)
        self.method.grow(self.n_penalized)
        self.method.prepare(self.group_state)
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
        """Convert kernel groups cached over a training set to expansions, which score any input."""
        self._predictor = None
        for index, bank in enumerate(self.banks):
            self.banks[index] = released = bank.release()
            released.group_state = bank.group_state

    def _parts(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("evidence", self.evidence), ("drift", self.drift)]

    def state(self) -> dict[str, np.ndarray]:
        """Return the training state, except for the random generator, as named arrays."""
        arrays = {f"groups/{key}": value for key, value in self.group_state.state().items()}
        for index, bank in enumerate(self.banks):
            arrays.update({f"bank{index}/{key}": value for key, value in bank.state().items()})
        for name, part in self._parts():
            arrays.update({f"{name}/{key}": value for key, value in (part.state() if part else {}).items()})
        if self.coordinate_terms:
            arrays["coordinates"] = np.array([self.shrinkage, self.shrunk])
        counters = [self.round, self.presented, self.began, *self.schedule.state()]
        return {**arrays, "counters": np.array(counters, dtype=np.float64)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`."""
        self.group_state.load_state(below(state, "groups/"))
        for index, bank in enumerate(self.banks):
            bank.load_state(below(state, f"bank{index}/"))
        if "method/weights" in state and not self.method.has_weights:
            self.hedge()
        if "drift/numbers" in state:
            self.watch()
        for name, part in self._parts():
            if part is not None and (own := below(state, f"{name}/")):
                part.load_state(own)
        if "counters" not in state:  # a model without training state
            for bank in self.banks:
                bank.frozen = True
            return
        if "coordinates" in state:
            self.shrinkage, self.shrunk = state["coordinates"].tolist()
        rounds, presented, began, *rates = state["counters"].tolist()
        self.go_on(rounds, presented)
        self.began = int(began)
        self.schedule.load_state(rates)
