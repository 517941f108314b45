"""Averages over the iterates of training, and Predictor, the averaged model."""

import math
from collections.abc import Iterator, Sequence, Sized
from functools import cached_property

import numpy as np

from omkl._components import Component, check_number, defines_first
from omkl._threads import in_threads
from omkl.groups.base import Bank
from omkl.groups.group_state import GroupState
from omkl.groups.tokens import Tokens, runs_within
from omkl.online.rounds import potentials_of
from omkl.structures.base import Potentials, Structure

#: Maximum number of potentials in memory during prediction, per thread.
BLOCK = 2**17
#: Largest power; larger ones could overflow after a billion rounds.
MOST_POWER = 30.0
#: In a stream, the average reaches back about this many times the square root of the number of
#: rounds.
REACH = 6.0


class Average(Component):
    """Weights ``w_t >= 0`` of the average ``sum_t w_t theta_t / sum_t w_t``.

    The average is updated lazily, in O(p) a round.
    """

    #: Number of rounds after which weights restart and all sums are divided by the last weight;
    #: None for never.
    period: int | None = None

    def __init_subclass__(cls) -> None:
        """Compute the weights of a class with a weight of its own one by one."""
        super().__init_subclass__()
        if defines_first(cls, ["weight"], "weights"):
            cls.weights = Average.weights  # type: ignore[method-assign]

    def weight(self, t: int) -> float:
        """Return the weight of the model after a round.

        Parameters
        ----------
        t : int
            From 1.
        """
        self.must_define("weight")

    def weights(self, rounds: np.ndarray) -> np.ndarray:
        """Return the weights of the models after some rounds.

        Parameters
        ----------
        rounds : int array
        """
        return np.array([self.weight(t) for t in rounds.tolist()])

    def in_stream(self) -> "Average":
        """Return the average for a stream that is tested for drift."""
        return self


class UniformAverage(Average):
    """Equal weights for all iterates from round ``start`` on.

    Parameters
    ----------
    start : int
    """

    aliases = {"uniform": {}}

    def __init__(self, start: int = 1) -> None:
        check_number("start", start, least=1)
        self.start = int(start)

    def weight(self, t: int) -> float:
        return 1.0 if t >= self.start else 0.0


class PolynomialAverage(Average):
    """Weights ``t^power``, which favour late iterates.

    Parameters
    ----------
    power : float in [0, 30]
    """

    aliases = {"polynomial": {}, "quadratic": {"power": 2.0}}

    def __init__(self, power: float = 2.0) -> None:
        check_number("power", power, least=0, most=MOST_POWER)
        self.power = float(power)

    def weight(self, t: int) -> float:
        return float(t) ** self.power

    def weights(self, rounds: np.ndarray) -> np.ndarray:
        if self.power == 2.0:
            return np.square(rounds.astype(np.float64))  # exact, as the power of a float is
        return super().weights(rounds)


class DecayedAverage(Average):
    r"""Exponentially decaying weights :math:`2^{-(T-t)/h}`, for drifting streams.

    The average lags behind the stream by about ``1.44 half_life`` rounds. Weights grow with t
    instead of decaying, and all sums are rescaled every forty half-lives.

    Parameters
    ----------
    half_life : float
        Half-life h in rounds: the weight of an iterate halves after h rounds.
    """

    aliases = {"decayed": {}}

    def __init__(self, half_life: float = 10_000.0) -> None:
        check_number("half_life", half_life, above=0)
        self.half_life = float(half_life)
        self._rounds = max(1, round(40 * self.half_life))
        self.period = self._rounds

    def weight(self, t: int) -> float:
        return 2.0 ** (((t - 1) % self._rounds + 1) / self.half_life)


class AutomaticAverage(PolynomialAverage):
    """Weights ``t^2``, and those of :class:`RecentAverage` in a stream that is tested for drift."""

    aliases = {"auto": {}}

    def __init__(self) -> None:
        super().__init__()

    def in_stream(self) -> Average:
        return RecentAverage()


class RecentAverage(Average):
    r"""Weights :math:`t^2 e^{\sqrt t / 3}`, which reach back about :math:`6 \sqrt t` rounds.

    The noise of the iterates is that of the latest rounds: as learning rates decay like :math:`1 /
    \sqrt t`, about so many rounds average it away. A longer average gains little, and lags behind a
    stream that changes.
    """

    aliases = {"recent": {}}
    period = 5000

    def weight(self, t: int) -> float:
        start = max((t - 1) // self.period * self.period, 1)
        ratio = t / start
        return ratio * ratio * float(np.exp(2.0 / REACH * (math.sqrt(t) - math.sqrt(start))))

    def weights(self, rounds: np.ndarray) -> np.ndarray:
        starts = np.maximum((rounds - 1) // self.period * self.period, 1)
        exponents = 2.0 / REACH * (np.sqrt(rounds) - np.sqrt(starts))
        return np.square(rounds / starts) * np.exp(exponents)


class Predictor:
    """Frozen averaged model, which scores and decodes inputs in blocks; threads can share it.

    Parameters
    ----------
    banks : sequence of Bank
        Banks of a trainer. Their averaged parameters are copied, so later training does not change
        the predictor.
    structure : Structure
    """

    def __init__(self, banks: Sequence[Bank], structure: Structure) -> None:
        self.structure = structure
        self.banks = [bank.averaged() for bank in banks]
        self._group_state = GroupState(self.banks)
        self._group_state.scales.fill(1.0)

    @property
    def group_names(self) -> list[str]:
        """Names of all groups; unregularized groups come last."""
        return self._group_state.names

    @cached_property
    def norms(self) -> np.ndarray:
        """Norms of all groups, (p,).

        They cost as much as there are parameters, and S^2 kernel values for an expansion over S
        support vectors.
        """
        for bank in self.banks:
            bank.recompute_norms()
        return self._group_state.norms

    @property
    def group_nbytes(self) -> np.ndarray:
        """Bytes of each group, (p,).

        If a bank knows only its total, its groups share that equally.
        """
        return np.concatenate([np.zeros(0), *map(_bytes_of_groups, self.banks)])

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        return sum(bank.nbytes for bank in self.banks)

    def potentials(self, x: Sized) -> Potentials:
        """Return the potentials of one input, or of a block of tokens.

        Parameters
        ----------
        x : Span, ArcSentence or the like
        """
        return potentials_of(self.banks, self.structure, x)

    def blocks(self, tokens: Tokens) -> Iterator[tuple[Tokens, Potentials]]:
        """Yield ``(block of tokens, its potentials)`` until all sequences are covered, in order.

        Parameters
        ----------
        tokens : Tokens
        """
        for block in self._parts_of(tokens):
            yield block, self.potentials(block.everything())

    @cached_property
    def _limit(self) -> int:
        """Maximum number of tokens in a block."""
        potentials_of_token = sum(array[:1].size for array in self.structure.zeros(2))
        return max(1, BLOCK // potentials_of_token)

    def _parts_of(self, tokens: Tokens) -> Iterator[Tokens]:
        """Split tokens into blocks of whole sequences."""
        if 0 < tokens.n_tokens <= self._limit:
            yield tokens
            return
        for first, last in runs_within(tokens.offsets, self._limit):
            yield tokens.block(first, last)

    def decode(self, tokens: Tokens, n_jobs: int | None = None) -> np.ndarray:
        """Decode all sequences.

        Parameters
        ----------
        tokens : Tokens
        n_jobs : int or None
            Number of threads; None means 1, -1 one for each core.

        Returns
        -------
        int array of shape (n_tokens,)
            Labels.
        """

        def decoded(block: Tokens) -> np.ndarray:
            return self.structure.decode_many(self.potentials(block.everything()), block.offsets)

        outputs = in_threads(decoded, self._parts_of(tokens), n_jobs)
        if len(outputs) == 1:
            return outputs[0]
        return np.concatenate([np.zeros(0, dtype=np.int64), *outputs])


def _bytes_of_groups(bank: Bank) -> np.ndarray:
    if hasattr(bank, "group_nbytes"):
        return bank.group_nbytes()
    n_groups = len(bank.names)
    return np.full(n_groups, getattr(bank, "nbytes", 0) / max(n_groups, 1))
