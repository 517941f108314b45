"""The compiled driver: many rounds of training in one call.

:class:`OnlineTrainer` is their definition.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_
from typing import Any, cast

import numpy as np

from omkl import signatures
from omkl._pointers import Packed
from omkl.groups.base import CompiledBank
from omkl.losses.evaluation import LossFunction
from omkl.online import _jit_driver as jit
from omkl.online.examiners.evidence import reference_loss
from omkl.online.rounds import Places, Sequences, Step, TrainerPart
from omkl.online.schedules import KNOWN_RATES, GrowingHorizon
from omkl.online.trainer import OnlineTrainer
from omkl.regularizers.base import ProximalStep
from omkl.structures.base import PackedStructures, pairs_of

#: Most rounds of one call.
AT_A_TIME = 1000


def uncompiled_part(trainer: OnlineTrainer) -> Any:
    """Return a part of a trainer without compiled functions; None if all parts have them."""
    if not trainer.loss_function.is_compiled:
        return trainer.loss if trainer.loss.compiled is None else trainer.structure
    needed: list[Any] = [trainer.method, *trainer.examiners.values()]
    if trainer.schedule.adaptive:
        needed.append(trainer.schedule)
    for part in needed:
        if part.compiled is None:
            return part
    for bank in trainer.banks:
        if bank.compiled is None or not isinstance(bank, CompiledBank):
            return bank
    for term, compiled_steps in zip(trainer.terms, trainer.compiled_steps):
        if compiled_steps is None:
            return term
    if callable(trainer.lambda_) and not isinstance(trainer.lambda_, GrowingHorizon):
        return trainer.lambda_
    return None


def compiled_pass(
    trainer: OnlineTrainer,
    examples: Any,
    orders: Callable,
    done: int,
    room: Callable[[], int],
    testing: bool,
) -> Iterator[Step]:
    """Learn a block of sequences, many rounds in one call; yield one step for several rounds.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
        ``examples.sequences(order)`` returns the arrays of some of them in an order.
    orders : callable
        ``orders(sizes)`` gives orders.
    done : int
        Number of examples that were learned already.
    room : callable
        ``room()`` returns how many rounds may pass until a callback or a checkpoint must know.
    testing : bool
        Whether steps have the costs of predictions before each round.
    """
    order = orders([len(examples)])[0]
    driver = Driver.of(trainer)
    while done < len(order):
        n = min(room(), AT_A_TIME, len(order) - done, trainer.until_upkeep())
        sequences = examples.sequences(order[done : done + n])
        if n > 1:
            sequences = sequences.first(_rounds_at_once(trainer, sequences))
        if len(sequences.chosen) == 1 and sequences.layouts is None and not testing:
            step = driver.learn_one(sequences)
        else:
            step = driver.learn(sequences, testing)
        done += step.n_examples
        yield step


def _rounds_at_once(trainer: OnlineTrainer, sequences: Sequences) -> int:
    """Return how many of some examples the banks take in one call, at least one."""
    n_rounds = len(sequences.chosen)
    for bank in compiled_banks(trainer):
        if sequences.tokens_for(bank).n_tokens <= bank.rows_at_once:
            continue  # there is room for all
        ends = np.cumsum(sequences.lengths_for(bank))
        most = int(np.searchsorted(ends, bank.rows_at_once, side="right"))
        n_rounds = max(1, min(n_rounds, most))
    return n_rounds


def fastest_pass(
    trainer: OnlineTrainer,
    examples: Any,
    room: Callable[[], int] = lambda: AT_A_TIME,
    testing: bool = False,
) -> Callable[..., Iterator[Step]] | None:
    """Return the compiled pass over examples.

    It is None unless all parts of the trainer have compiled functions, and the examples are
    sequences.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
    room, testing
        See :func:`compiled_pass`.
    """
    if not getattr(examples, "are_sequences", False) or uncompiled_part(trainer) is not None:
        return None
    return partial(compiled_pass, room=room, testing=testing)


class Driver:
    """Calls the compiled driver for a trainer, and keeps its arrays between calls.

    Parameters
    ----------
    trainer : OnlineTrainer
        All its parts have compiled functions.
    """

    def __init__(self, trainer: OnlineTrainer) -> None:
        self.trainer = trainer
        self._rounds = RoundArrays(0, 0)
        self._scratch: Packed | None = None
        self._model: PackedModel | None = None

    @classmethod
    def of(cls, trainer: OnlineTrainer) -> "Driver":
        """Return the driver of a trainer, which keeps it."""
        if trainer.driver is None:
            trainer.driver = cls(trainer)
        return trainer.driver

    def __deepcopy__(self, memo: dict) -> None:
        return None  # the copy of a trainer makes a driver of its own

    def __reduce__(self) -> tuple:
        return type(None), ()

    def learn(self, sequences: Sequences, testing: bool) -> Step:
        """Learn some examples in rounds, up to a change of the stream.

        Raises
        ------
        DivergenceError
            If a loss is not finite.
        """
        trainer = self.trainer
        places = sequences.places
        edges = sequences.places_of_edges
        model = self._packed_model(testing)
        n_rounds = len(sequences.chosen)
        numbers = trainer.round - trainer.began + np.arange(1, n_rounds + 1)
        weights = sequences.weights
        if weights is None:
            weights = np.ones(n_rounds)
        rounds = self._rounds_for(n_rounds, len(places.tokens), testing)
        rounds.lows[:n_rounds] = places.lows
        rounds.ends[: n_rounds + 1] = places.ends
        rounds.rates[:n_rounds] = trainer.schedule.factors(numbers)
        rounds.averages[:n_rounds] = 0.0
        if trainer.average is not None:
            rounds.averages[:n_rounds] = trainer.average.weights(numbers)
        presented = np.cumsum(np.append(trainer.presented, weights))[1:]
        self._fill_rounds(sequences.gold[places.tokens], n_rounds, weights, presented)
        self._fill_layouts(model, sequences, edges)
        inputs = []
        for bank in compiled_banks(trainer):
            chosen = places if bank.kind_of_edges is None or edges is None else edges
            inputs.append(bank.inputs_of(sequences.tokens_for(bank), chosen.tokens))
        most_pairs = int(rounds.n_pairs[:n_rounds].max())
        scratch = self._packed_scratch(int(np.diff(places.ends).max()), most_pairs)
        return self._run(model, inputs, scratch, presented)

    def learn_one(self, sequences: Sequences) -> Step:
        """Learn the only example, which has no layout: :meth:`learn` in fewer calls.

        The numbers of a single round need no arrays.
        """
        trainer = self.trainer
        s = sequences.chosen.item(0)
        low = sequences.tokens.offsets.item(s)
        high = sequences.tokens.offsets.item(s + 1)
        model = self._packed_model(False)
        t = trainer.round - trainer.began + 1
        weight = 1.0
        if sequences.weights is not None:
            weight = sequences.weights.item(0)
        rounds = self._rounds_for(1, high - low, False)
        rounds.lows[0] = low
        rounds.ends[1] = high - low
        rounds.rates[0] = trainer.schedule.factor(t)
        rounds.averages[0] = 0.0 if trainer.average is None else trainer.average.weight(t)
        presented = trainer.presented + weight
        self._fill_rounds(sequences.gold[low:high], 1, weight, presented)
        self._fill_layouts(model, sequences, None)
        tokens = np.arange(low, high)
        inputs = [bank.inputs_of(sequences.tokens, tokens) for bank in compiled_banks(trainer)]
        scratch = self._packed_scratch(high - low, model.n_pairs)
        return self._run(model, inputs, scratch, [presented])

    def _run(
        self,
        model: "PackedModel",
        inputs: list,
        scratch: Packed,
        presented: np.ndarray | list[float],
    ) -> Step:
        """Make the rounds that are filled in, up to a change of the stream.

        ``presented`` is the total weight of examples after each one.
        """
        trainer = self.trainer
        rounds = self._rounds
        blocks = model.refresh(inputs)
        try:
            jit.learn(model.address, rounds.packed.address, scratch.address)
        finally:
            # also after Ctrl-C, which Python raises as soon as the compiled call has ended
            del blocks  # held up to here, since the call has used their addresses
            model.write_back(presented)
        learned = model.n_learned
        if learned < model.n_begun:
            raise trainer.divergence(rounds.losses.item(learned))
        outputs = rounds.targets if trainer.loss_function.takes_numbers else rounds.codes
        return Step(
            loss=rounds.losses[:learned].copy(),
            norms=trainer.norms,
            rate=model.state.item(jit.RATE),
            square_gradient=model.state.item(jit.SQUARE_GRADIENT),
            potentials=None,
            gold=outputs[: rounds.ends[learned]].copy(),
            n_examples=learned,
            weight=rounds.weights[:learned].copy(),
            costs=rounds.costs[:learned].copy() if model.tests else None,
            changed=model.has_changed,
        )

    def _rounds_for(self, n_rounds: int, n_tokens: int, testing: bool) -> "RoundArrays":
        """Return arrays with room for so many rounds and tokens."""
        if len(self._rounds.lows) < n_rounds or len(self._rounds.codes) < n_tokens:
            self._rounds = RoundArrays(n_rounds, n_tokens)
        takes_numbers = self.trainer.loss_function.takes_numbers
        self._rounds.packed.set(n_rounds=n_rounds, testing=testing, takes_numbers=takes_numbers)
        return self._rounds

    def _fill_rounds(self, gold: np.ndarray, n_rounds: int, weights: Any, presented: Any) -> None:
        """Write gold outputs (n_tokens,), and what follows from the weights of the examples.

        ``weights`` and ``presented``, the total weights after each one, are (n_rounds,) or numbers.
        """
        trainer = self.trainer
        rounds = self._rounds
        outputs = rounds.targets if trainer.loss_function.takes_numbers else rounds.codes
        outputs[: len(gold)] = gold
        lambdas: Any = trainer.lambda_
        if callable(lambdas):
            lambdas = lambdas(presented)
        proximal_weights = trainer.method.proximal_weight(weights, presented)
        rounds.weights[:n_rounds] = weights
        rounds.shrinkage[:n_rounds] = proximal_weights * lambdas

    def _fill_layouts(
        self, model: "PackedModel", sequences: Sequences, edges: Places | None
    ) -> None:
        """Write the structure and the edges of each round, after the model was packed."""
        structures = model.structures
        rounds, n_rounds = self._rounds, len(sequences.chosen)
        if structures is None:
            return  # numbers
        if sequences.layouts is None:
            rounds.structures[:n_rounds] = structures.address_for()
            rounds.n_pairs[:n_rounds] = model.n_pairs
            return
        for i, s in enumerate(sequences.chosen.tolist()):
            rounds.structures[i] = structures.address_for(sequences.layouts[s])
            rounds.n_pairs[i] = self.trainer.structure.n_pairs(sequences.layouts[s])
        if edges is not None:
            rounds.edge_lows[:n_rounds] = edges.lows
            rounds.edge_ends[: n_rounds + 1] = edges.ends

    def _packed_scratch(self, longest: int, most_pairs: int) -> Packed:
        """Return working memory for up to ``longest`` tokens, and tables of pairs of labels."""
        scratch = self._scratch
        if scratch is not None:
            has_room = len(scratch.values.unary) >= longest
            if has_room and len(scratch.values.pairwise) >= most_pairs:
                return scratch
        trainer = self.trainer
        n_groups = len(trainer.group_state.names)
        p = trainer.n_penalized
        potentials = trainer.structure.zeros(longest)
        unary = potentials.unary
        pairwise = np.zeros((most_pairs, *pairs_of(potentials).shape[1:]))
        arrays = jit.Scratch(
            unary=unary,
            pairwise=pairwise,
            gradient=np.zeros_like(unary),
            pair_gradient=np.zeros_like(pairwise),
            labels=np.zeros(longest, dtype=np.int64),
            norms=np.zeros(p),
            memory=np.zeros((2, p)),
            factors=np.zeros(n_groups),
            scales=np.zeros(p),
            slopes=np.zeros(p),
            totals=np.zeros((p, unary.shape[1])),
        )
        self._scratch = jit.SCRATCH.pack(arrays)
        return self._scratch

    def _packed_model(self, testing: bool) -> "PackedModel":
        """Return the parts of the trainer for the driver.

        It is that of the last call if they are the same.
        """
        if self._model is None or not self._model.has(parts_in_use(self.trainer, testing)):
            self._model = PackedModel(self.trainer, testing)
            self._scratch = None  # it has the sizes of the model
        return self._model


class RoundArrays:
    """Arrays of ``_jit_driver.Rounds``, with room for some rounds and tokens."""

    def __init__(self, n_rounds: int, n_tokens: int) -> None:
        self.lows = np.zeros(n_rounds, dtype=np.int64)
        self.ends = np.zeros(n_rounds + 1, dtype=np.int64)
        self.edge_lows = np.zeros(n_rounds, dtype=np.int64)
        self.edge_ends = np.zeros(n_rounds + 1, dtype=np.int64)
        self.structures = np.zeros(n_rounds, dtype=np.int64)
        self.n_pairs = np.zeros(n_rounds, dtype=np.int64)
        self.codes = np.zeros(n_tokens, dtype=np.int64)
        self.targets = np.zeros(n_tokens)
        self.weights, self.rates, self.shrinkage, self.averages = np.zeros((4, n_rounds))
        self.losses, self.costs = np.zeros((2, n_rounds))
        arrays = {name: getattr(self, name) for name in jit.Rounds._fields if hasattr(self, name)}
        self.packed = jit.ROUNDS.pack(jit.Rounds(**arrays, n_rounds=0, testing=0, takes_numbers=0))


class PackedModel:
    """The parts of a trainer for the driver, with the addresses of their functions and arrays.

    Parameters
    ----------
    trainer : OnlineTrainer
    testing : bool
        Whether outputs are predicted before they are learned.

    Attributes
    ----------
    address : int
        Address of the :class:`_jit_driver.Model`.
    state : array of shape (N_STATE,)
        The numbers that change from round to round.
    structures : PackedStructures or None
        Functions of the structure; None for numbers.
    n_pairs : int
        Number of tables of pairs of labels of examples without layouts.
    tests : bool
        The argument ``testing``.
    """

    def __init__(self, trainer: OnlineTrainer, testing: bool) -> None:
        self._in_use = parts_in_use(trainer, testing)
        self.state = np.zeros(jit.N_STATE)
        self._trainer = trainer
        self.tests = testing
        self._examiners = [part for part in trainer.examiners.values() if part.takes_part]
        self._packed_banks = [
            _packed_bank(bank, trainer.n_penalized) for bank in compiled_banks(trainer)
        ]
        self._packed_examiners = [_packed_examiner(part) for part in self._examiners]
        steps = itertools.chain.from_iterable(filter(None, trainer.compiled_steps))
        self._packed_steps = [_packed_step(step) for step in steps]
        losses = [trainer.loss_function]
        if any(part.examines == "reference" for part in self._examiners):
            losses.append(reference_loss(trainer))
        self._packed_losses = [_packed_loss(loss) for loss in losses]
        self.structures: PackedStructures | None = None
        if not trainer.loss_function.takes_numbers:
            with_marginals = any(loss.uses_marginals for loss in losses)
            self.structures = PackedStructures(trainer.structure, with_marginals)
        self.n_pairs = 0 if self.structures is None else trainer.structure.n_pairs()
        #: Number of labels; 1 for a number.
        self._n_outputs = trainer.structure.zeros(1).unary.shape[1]
        self._packed = self._pack()
        self.address = self._packed.address

    def has(self, in_use: list[Any]) -> bool:
        """Return whether the model was packed from these; see :func:`parts_in_use`."""
        return len(in_use) == len(self._in_use) and all(map(is_, in_use, self._in_use))

    def _pack(self) -> Packed:
        """Return the block of the model."""
        trainer = self._trainer
        schedule: Any = KNOWN_RATES
        if trainer.schedule.adaptive:
            schedule = trainer.schedule.compiled
        return jit.MODEL.pack(
            jit.Model(
                banks=_addresses_of(self._packed_banks),
                steps=_addresses_of(self._packed_steps),
                examiners=_addresses_of(self._packed_examiners),
                phases=jit.addresses_of_phases(),
                examined=np.full(len(self._examiners), np.nan),
                groups=trainer.group_state.address,
                n_penalized=trainer.n_penalized,
                loss=self._packed_losses[0].address,
                reference_loss=self._packed_losses[-1].address,
                method=0,
                **signatures.addresses_of(trainer.method.functions),
                forgets=int(trainer.method.forgets),
                schedule=trainer.schedule.numbers,
                **signatures.addresses_of(schedule),
                radius=trainer.radius,
                state=self.state,
            )
        )

    def refresh(self, inputs: list[tuple[Packed, bool]]) -> list[Any]:
        """Write the addresses that may have changed, and the numbers at the start of a call.

        Returns
        -------
        list
            The blocks at these addresses; hold it up to the end of the call.
        """
        trainer = self._trainer
        blocks: list[Any] = [inputs]
        for packed, bank, (packed_inputs, covers_all) in zip(
            self._packed_banks, compiled_banks(trainer), inputs
        ):
            arrays = bank.packed()
            blocks.append(arrays)
            packed.set(
                arrays=arrays.address, inputs=packed_inputs.address, covers_all=int(covers_all)
            )
        for packed, part in zip(self._packed_examiners, self._examiners):
            arrays = part.packed(self._n_outputs)
            blocks.append(arrays)
            packed.set(arrays=arrays.address)
        arrays = trainer.method.packed(self._n_outputs)
        blocks.append(arrays)
        address = 0 if arrays is None else arrays.address
        self._packed.set(method=address, groups=trainer.group_state.address)
        state = self.state
        state[jit.PENDING] = trainer.group_state.pending_weight
        state[jit.TOTAL_WEIGHT] = trainer.group_state.total_weight
        state[jit.SHRINKAGE] = trainer.shrinkage
        state[jit.ROUND] = trainer.round
        state[jit.CHANGED :] = 0.0  # the rounds that have begun and are complete, too
        return blocks

    def write_back(self, presented: np.ndarray | list[float]) -> None:
        """Set the trainer's numbers to those after the last call, and do what is due then.

        Parameters
        ----------
        presented : array, or list of float
            Total weight of all examples after each round of the call.
        """
        trainer = self._trainer
        for bank in compiled_banks(trainer):
            bank.end_pass()
        if not self.n_begun:
            return
        trainer.go_on(trainer.round + self.n_begun, presented[self.n_begun - 1])
        trainer.group_state.pending_weight = self.state.item(jit.PENDING)
        trainer.group_state.total_weight = self.state.item(jit.TOTAL_WEIGHT)
        trainer.shrinkage = self.state.item(jit.SHRINKAGE)
        if self.n_learned < self.n_begun:
            return  # an error has ended the last round
        trainer.upkeep()
        if self.has_changed:
            changes = [part.change for part in trainer.examiners.values()]
            trainer.restart_average(next(filter(None, changes)))

    @property
    def n_begun(self) -> int:
        """Number of rounds of the last call that have begun."""
        return int(self.state[jit.BEGUN])

    @property
    def n_learned(self) -> int:
        """Number of rounds of the last call that are complete."""
        return int(self.state[jit.LEARNED])

    @property
    def has_changed(self) -> bool:
        """True if the last round of the last call has found that the stream changed."""
        return self.state[jit.CHANGED] != 0.0


def compiled_banks(trainer: OnlineTrainer) -> list[CompiledBank]:
    """Return the banks of a trainer; all have compiled functions, where the driver is called."""
    return cast(list[CompiledBank], trainer.banks)


def parts_in_use(trainer: OnlineTrainer, testing: bool) -> list[Any]:
    """Return all on which the packed model depends, without what is written before every call."""
    in_use: list[Any] = [trainer.structure, trainer.loss, trainer.method, trainer.group_state]
    in_use += [trainer.schedule, trainer.schedule.numbers, trainer.radius, testing]
    in_use += [*trainer.banks, *trainer.terms]
    in_use += [part for part in trainer.examiners.values() if part.takes_part]
    return in_use


def _addresses_of(packed: list[Packed]) -> np.ndarray:
    """Return the addresses of blocks."""
    return np.array([part.address for part in packed], dtype=np.int64)


def _packed_bank(bank: CompiledBank, n_penalized: int) -> Packed:
    """Return the functions of a bank, and its place among the groups."""
    groups = bank.group_state.groups
    return jit.BANK.pack(
        jit.BankParts(
            arrays=0,
            inputs=0,
            covers_all=0,
            of_edges=int(bank.kind_of_edges is not None),
            first=groups.start,
            end=groups.stop,
            is_penalized=int(groups.start < n_penalized),
            **signatures.addresses_of(bank.compiled),
        )
    )


def _packed_step(step: ProximalStep) -> Packed:
    """Return the function of a proximal step, and its numbers."""
    prox = signatures.PROX.address_of(step.function)
    return jit.STEP.pack(jit.StepParts(prox, step.parameters, step.factor, step.quadratic))


def _packed_examiner(part: TrainerPart) -> Packed:
    """Return the functions of a part that examines examples; 0 for one that it lacks."""
    return jit.EXAMINER.pack(
        jit.ExaminerParts(
            arrays=0,
            model=jit.AVERAGED if part.examines == "average" else jit.WITHOUT_GROUPS,
            **signatures.addresses_of(part.compiled),
        )
    )


def _packed_loss(loss: LossFunction) -> Packed:
    """Return the function of a loss, and its parameters."""
    return jit.LOSS.pack(jit.LossParts(loss.address, loss.parameters, int(loss.takes_numbers)))
