"""Trainers over trainers: one learner for every kernel, and one combination of learners for every interval."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.online.hedging import Hedge, HedgePredictor, HedgeWeights, combination
from omkl.online.rounds import Step, below
from omkl.online.schedules import Constant, Schedule


class _Rates:
    """The learning rates of several trainers, as one of them is asked for."""

    adaptive = False

    def __init__(self, experts: Sequence[Any]) -> None:
        self._experts = experts

    def plan(self, rounds: float) -> None:
        for expert in self._experts:
            expert.schedule.plan(rounds)

    def __call__(self, t: int) -> float:
        return float(np.mean([expert.schedule(max(expert.round, 1)) for expert in self._experts]))


class ExpertTrainer:
    """What both trainers of experts share: to a training loop they are an :class:`~omkl.online.OnlineTrainer`.

    Parameters
    ----------
    names : sequence of str
        Names of the kernels.
    structure : Structure
    loss : StructuredLoss
    method : Hedge
    """

    batch_size = 1
    grows = False
    average = regularizer = bound = None
    l2 = 0.0
    experts: list[Any]
    _vote = False

    #: Whether its potentials are a sum over groups: they are a weighted vote of learners.
    has_groups = False
    #: Whether the averaged model costs nothing more: it is always made for what is to be predicted.
    average_at_hand = True

    def __init__(self, names: Sequence[str], structure: Any, loss: Any, method: Hedge) -> None:
        if method.vote and (len(structure.zeros(1)) > 1 or not hasattr(structure, "indicator")):
            raise InputError(
                f'method="{method.as_string()}" has learners vote (vote=True), which is for outputs of one label: '
                'choose "hedge" or "raker", which combine potentials.'
            )
        self.names, self.order = list(names), list(names)
        self.structure, self.loss, self.method = structure, loss, method
        self.round, self.began, self.presented = 0, 0, 0.0
        self._predictor: HedgePredictor | None = None
        #: What is set for all experts, those that are made later as well.
        self._set: dict[str, Any] = {}

    # what a model sets for all learners
    lambda_ = property(lambda self: self._get("lambda_"), lambda self, value: self._set_all("lambda_", value))
    radius = property(lambda self: self._get("radius"), lambda self, value: self._set_all("radius", value))
    recompute_every = property(
        lambda self: self._get("recompute_every"), lambda self, value: self._set_all("recompute_every", value)
    )

    def _get(self, name: str) -> Any:
        return getattr(self.experts[0], name)

    def _set_all(self, name: str, value: Any) -> None:
        self._set[name] = value
        for expert in self.experts:
            setattr(expert, name, value)

    #: No kernel is tested: Hedge weights them all.
    evidence = None

    @property
    def group_state(self) -> Any:
        """What tells names and norms of the groups."""
        return self

    @property
    def group_names(self) -> list[str]:
        """Names of the kernels."""
        return self.names

    @property
    def schedule(self) -> Any:
        """The learning rates of all learners."""
        return _Rates(self.experts)

    @property
    def banks(self) -> list[Any]:
        """The banks of all learners."""
        return [bank for expert in self.experts for bank in expert.banks]

    @property
    def current_lambda(self) -> float:
        r""":math:`\lambda` in this round."""
        return self.experts[0].current_lambda

    @property
    def weights(self) -> np.ndarray:
        """Weights of the experts, which sum to one."""
        raise NotImplementedError

    @property
    def norms(self) -> np.ndarray:
        """Norms of the kernels' learners."""
        raise NotImplementedError

    def _idle(self, x: Any, y: Any) -> Step:
        """What an example of weight 0 comes to."""
        potentials = [expert.update(x, y, 0.0).potentials for expert in self.experts]
        return Step(0.0, self.norms, 0.0, 0.0, self._combined(potentials, self.weights, x), y, weight=0.0)

    def _combined(self, potentials: Sequence[Any], weights: np.ndarray, x: Any) -> Any:
        return combination(self.structure, potentials, weights, self._vote, len(x))

    def _open_round(self, weight: float) -> None:
        self.round += 1
        self.presented += weight
        self._predictor = None

    def penalty(self) -> float:
        """The mean of the learners' regularizers under the weights."""
        return float(self.weights @ [expert.penalty() for expert in self.experts])

    def predictor(self) -> HedgePredictor:
        """The combination as it is now, of the learners' averaged models, frozen."""
        if self._predictor is None:
            experts = [expert.predictor() for expert in self.experts]
            self._predictor = HedgePredictor(self.structure, experts, self.weights, self._vote)
        return self._predictor

    def check_new_groups(self, names: Iterable[str]) -> None:
        """Raise where there are any: kernels are known from the start."""
        for name in names:
            raise InputError(f"The entry {name!r} is read by no kernel, which a learner of its own needs.")

    def regroup(self, order: Iterable[str] = ()) -> None:
        """Take the order in which the user gave the kernels."""
        self.order = list(order)

    def recompute_norms(self) -> None:
        """Set every norm from scratch."""
        for expert in self.experts:
            expert.recompute_norms()

    def grow_outputs(self, structure: Any) -> None:
        """Go on with a structure that has more labels."""
        self._predictor, self.structure = None, structure
        for expert in self.experts:
            expert.grow_outputs(structure)

    def release(self) -> None:
        """Turn what is cached over a training set into what scores any input."""
        self._predictor = None
        for expert in self.experts:
            expert.release()

    def kernel_weights(self) -> dict[str, float]:
        """Weights of the kernels by name, which sum to one."""
        raise NotImplementedError

    def iterate_weights(self) -> dict[str, float]:
        """The weights as they are in this round."""
        return self.kernel_weights()

    def state(self) -> dict[str, np.ndarray]:
        """All training state: named arrays and counters."""
        states = enumerate(expert.state() for expert in self.experts)
        own = self.own_state()
        return {f"expert{index}/{key}": value for index, state in states for key, value in state.items()} | own

    def own_state(self) -> dict[str, np.ndarray]:
        """What is not of the experts: their weights, and counters."""
        raise NotImplementedError

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        self._predictor = None
        for index, expert in enumerate(self.experts):
            expert.load_state(below(state, f"expert{index}/"))


class KernelHedge(ExpertTrainer):
    """A learner for every kernel, weighted by Hedge; see :class:`~omkl.online.Hedge`.

    Parameters
    ----------
    learners : dict of str to OnlineTrainer
        By the name of the kernel, untrained.
    structure, loss, method
        See :class:`ExpertTrainer`.
    rate : float or "auto", optional
        That of Hedge; ``method.rate`` by default.
    """

    def __init__(
        self, learners: dict[str, Any], structure: Any, loss: Any, method: Hedge, rate: float | str | None = None
    ) -> None:
        super().__init__(list(learners), structure, loss, method)
        self.experts, self._vote = list(learners.values()), method.vote
        self.hedge = HedgeWeights(len(learners), method.rate if rate is None else rate)

    @property
    def weights(self) -> np.ndarray:
        return self.hedge.weights()

    @property
    def norms(self) -> np.ndarray:
        return np.array([expert.norms[0] for expert in self.experts])

    def update(self, x: Any, y: Any, weight: float = 1.0) -> Step:
        """One round: every learner, or those that are drawn, learns from the example and is charged for it."""
        if weight == 0.0:
            return self._idle(x, y)
        weights = self.weights
        self._open_round(weight)
        drawn = self.method.draw(weights, self.round)
        steps = [expert.update(x, y, weight if own else 0.0) for expert, own in zip(self.experts, drawn)]
        potentials = [step.potentials for step in steps]
        if self.method.combine == "sampled":
            weights = weights * drawn / (weights @ drawn)
        combined = self._combined(potentials, weights, x)
        if self.method.charge == "losses":
            losses = np.array([step.loss for step in steps])
        else:
            costs = [self.structure.cost(y, self.structure.decode(own)) for own in potentials]
            losses = weight * drawn * np.array(costs)
        self.hedge.observe(losses)
        loss, _ = self.loss.value_and_gradient(self.structure, combined, y)
        rate = float(np.mean([step.rate for step in steps]))
        return Step(weight * loss, self.norms, rate, 0.0, combined, y, 1, weight)

    def kernel_weights(self) -> dict[str, float]:
        weight_of = dict(zip(self.names, self.weights.tolist()))
        return {name: weight_of[name] for name in self.order}

    def own_state(self) -> dict[str, np.ndarray]:
        counters = np.array([self.round, self.presented, self.hedge.gap])
        return {"cumulative": self.hedge.cumulative, "counters": counters}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        super().load_state(state)
        self.hedge.cumulative = np.array(state["cumulative"], dtype=np.float64)
        round_, self.presented, self.hedge.gap = state["counters"].tolist()
        self.round = int(round_)


class IntervalHedge(ExpertTrainer):
    r"""A :class:`KernelHedge` for every interval that is running, weighted by how they do against the combination.

    Level j has the intervals :math:`[k 2^j, (k + 1) 2^j)`, k = 1, 2, ..., in units of ``method.restarts`` rounds
    (Daniely et al. 2015): it starts anew with each, so there are about :math:`\log_2 t` in round t. With
    :math:`\eta_j = \min(1/2, \eta / \sqrt{2^j})`, an expert begins with the weight :math:`\eta_j`, and its weight is
    multiplied with :math:`\exp(-\eta_j r)`, r by how much its loss is above that of the combination. With
    ``rate="auto"``, :math:`\eta` is 1 and r is divided by the largest so far.

    Parameters
    ----------
    make : callable
        ``make(length, given)`` are untrained learners, by the names of their kernels, for intervals of so many rounds.
    structure, loss, method
        See :class:`ExpertTrainer`.
    given : tuple
        What banks are made for, where examples are at hand.
    """

    def __init__(self, make: Callable, structure: Any, loss: Any, method: Hedge, given: tuple = ()) -> None:
        self._make, self._given = make, given
        self.experts = []
        self._initial: list[dict[str, np.ndarray]] = []
        self._logs = np.zeros(0)
        self._largest = 0.0
        self.structure, self.loss, self.method, self._set = structure, loss, method, {}
        first = self._expert(0)
        super().__init__(first.names, structure, loss, method)
        self._add(first)

    def _rate(self, level: int) -> float:
        rate = 1.0 if self.method.rate == "auto" else float(self.method.rate)
        return min(0.5, rate / math.sqrt(self._length(level)))

    def _length(self, level: int) -> int:
        return int(self.method.restarts) * 2**level  # type: ignore[arg-type]

    def _expert(self, level: int) -> KernelHedge:
        learners = self._make(self._length(level), self._given)
        rate = "auto" if self.method.rate == "auto" else self._rate(level)
        expert = KernelHedge(learners, self.structure, self.loss, self.method, rate)
        for name, value in self._set.items():
            setattr(expert, name, value)
        return expert

    def _add(self, expert: KernelHedge) -> None:
        self._initial.append({name: np.array(array) for name, array in expert.state().items()})
        self._logs = np.append(self._logs, math.log(self._rate(len(self.experts))))
        self.experts.append(expert)

    def _start_intervals(self) -> None:
        """Start the experts anew whose intervals begin with the next round."""
        ticks, rest = divmod(self.round, self._length(0))
        level = 0
        while rest == 0 and (ticks + 1) % 2**level == 0 and self.round > 0:
            if level == len(self.experts):
                self._add(self._expert(level))
            else:
                self.experts[level].load_state(self._initial[level])
                self._logs[level] = math.log(self._rate(level))
            level += 1

    @property
    def weights(self) -> np.ndarray:
        weights = np.exp(self._logs - self._logs.max())
        return weights / weights.sum()

    @property
    def norms(self) -> np.ndarray:
        return self.weights @ [expert.norms for expert in self.experts]

    def update(self, x: Any, y: Any, weight: float = 1.0) -> Step:
        """One round of every expert."""
        if weight == 0.0:
            return self._idle(x, y)
        self._start_intervals()
        weights = self.weights
        self._open_round(weight)
        steps = [expert.update(x, y, weight) for expert in self.experts]
        combined = self._combined([step.potentials for step in steps], weights, x)
        loss, _ = self.loss.value_and_gradient(self.structure, combined, y)
        regrets = np.array([step.loss for step in steps]) - weight * loss
        if self.method.rate == "auto":
            self._largest = max(self._largest, float(np.abs(regrets).max()))
            regrets = regrets / (self._largest or 1.0)
        self._logs = self._logs - np.array([self._rate(j) for j in range(len(self.experts))]) * regrets
        rate = float(weights @ [step.rate for step in steps])
        return Step(weight * loss, self.norms, rate, 0.0, combined, y, 1, weight)

    def kernel_weights(self) -> dict[str, float]:
        weight_of = dict(zip(self.names, (self.weights @ [expert.weights for expert in self.experts]).tolist()))
        return {name: weight_of[name] for name in self.order}

    def grow_outputs(self, structure: Any) -> None:
        super().grow_outputs(structure)
        self._remember()

    def release(self) -> None:
        super().release()
        self._given = ()
        self._remember()

    def _remember(self) -> None:
        """Make afresh what experts start anew from."""
        self._initial = [self._expert(level).state() for level in range(len(self.experts))]

    def own_state(self) -> dict[str, np.ndarray]:
        counters = np.array([self.round, self.presented, self._largest])
        return {"logs": self._logs, "counters": counters}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        while len(self.experts) < len(state["logs"]):
            self._add(self._expert(len(self.experts)))
        del self.experts[len(state["logs"]) :], self._initial[len(state["logs"]) :]
        super().load_state(state)
        self._logs = np.array(state["logs"], dtype=np.float64)
        round_, self.presented, self._largest = state["counters"].tolist()
        self.round = int(round_)


def rates_of(schedule: Schedule, length: int | None) -> Schedule:
    r"""The learning rates of a learner for an interval: constant ones are :math:`\min(1/2, \eta / \sqrt{length})`."""
    if length is None or not isinstance(schedule, Constant):
        return schedule.fresh()
    return Constant(min(0.5, schedule.eta0 / math.sqrt(length)))
