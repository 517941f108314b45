"""Averages of the models of all rounds, and the averaged model that predicts."""

from collections.abc import Iterator, Sequence, Sized
from functools import cached_property
from typing import Any

import numpy as np

from omkl._components import Component, check_number
from omkl._threads import in_threads
from omkl.groups.base import Bank, initial_potentials
from omkl.groups.group_state import GroupState
from omkl.groups.tokens import Tokens
from omkl.structures.base import Potentials, Structure

#: Numbers in one block of potentials: what prediction holds at a time beside the input, in each thread.
BLOCK = 2**17
#: The largest power whose weights are finite after a billion rounds.
MOST_POWER = 30.0


class Average(Component):
    """Weights ``w_t >= 0``: the averaged model is ``sum_t w_t theta_t / sum_t w_t``, kept lazily at O(p) a round."""

    #: Rounds after which all sums are divided by :attr:`discount`, as the weights start again; None for never.
    period: int | None = None
    discount = 1.0

    def weight(self, t: int) -> float:
        """Return the weight of the model after a round.

        Parameters
        ----------
        t : int
            From 1.
        """
        self.must_define("weight")


class UniformAverage(Average):
    """Equal weights for all models from a round on.

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
    """Weights ``t^power``: late models count more, and early ones are forgotten.

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


class DecayedAverage(Average):
    r"""Weights :math:`2^{-(T-t)/h}`, for streams that drift: models are forgotten at a constant rate.

    The average follows the stream with a lag of about ``1.44 half_life`` rounds. Weights are relative to the oldest
    ones, and all sums are divided every forty half-lives.

    Parameters
    ----------
    half_life : float
        h, the rounds after which a model counts half as much.
    """

    aliases = {"decayed": {}}

    def __init__(self, half_life: float = 10_000.0) -> None:
        check_number("half_life", half_life, above=0)
        self.half_life = float(half_life)
        self.period = self._rounds = max(1, round(40 * self.half_life))
        self.discount = 2.0 ** (self._rounds / self.half_life)

    def weight(self, t: int) -> float:
        return 2.0 ** (((t - 1) % self._rounds) / self.half_life)


class Predictor:
    """A trained model, averaged and frozen: scores and decodes many inputs in blocks; threads may share it.

    Parameters
    ----------
    banks : sequence of Bank
        Banks of a trainer; later training does not change the copies of their averaged parameters.
    structure : Structure
    """

    def __init__(self, banks: Sequence[Bank], structure: Structure) -> None:
        self.structure: Any = structure
        self.banks = [bank.averaged() for bank in banks]
        self._group_state = GroupState(self.banks)
        self._group_state.scales.fill(1.0)

    @property
    def group_names(self) -> list[str]:
        """Names of all groups, those that are not regularized at the end."""
        return self._group_state.names

    @cached_property
    def norms(self) -> np.ndarray:
        """Norms of all groups, (p,): O(parameters), and S^2 kernel values for an expansion over S support vectors."""
        for bank in self.banks:
            bank.recompute_norms()
        return self._group_state.norms

    @property
    def group_nbytes(self) -> np.ndarray:
        """Bytes of each group, (p,); a bank that does not tell them apart shares its own evenly."""
        shares = [
            bank.group_nbytes()
            if hasattr(bank, "group_nbytes")
            else np.full(len(bank.names), getattr(bank, "nbytes", 0) / max(len(bank.names), 1))
            for bank in self.banks
        ]
        return np.concatenate([np.zeros(0), *shares])

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
        potentials = initial_potentials(self.structure, x)
        for bank in self.banks:
            bank.add_potentials(x, potentials)
        return potentials

    def blocks(self, tokens: Tokens) -> Iterator[tuple[Tokens, Potentials]]:
        """Yield ``(block of tokens, its potentials)`` until all sequences are covered, in order.

        Parameters
        ----------
        tokens : Tokens
        """
        return ((block, self.potentials(block.everything())) for block in self._parts_of(tokens))

    @cached_property
    def _limit(self) -> int:
        """Tokens whose potentials are held at a time."""
        return max(1, BLOCK // sum(array[:1].size for array in self.structure.zeros(2)))

    def _parts_of(self, tokens: Tokens) -> Iterator[Tokens]:
        """Blocks of whole sequences."""
        if 0 < tokens.n_tokens <= self._limit:
            yield tokens
            return
        first = 0
        while first < len(tokens):
            last = int(np.searchsorted(tokens.offsets, tokens.offsets[first] + self._limit, side="right")) - 1
            last = min(max(last, first + 1), len(tokens))
            yield tokens.block(first, last)
            first = last

    def decode(self, tokens: Tokens, n_jobs: int | None = None) -> np.ndarray:
        """Decode all sequences.

        Parameters
        ----------
        tokens : Tokens
        n_jobs : int or None
            Threads; None is one, -1 one for each core.

        Returns
        -------
        int array of shape (n_tokens,)
            Labels.
        """

        def decoded(block: Tokens) -> np.ndarray:
            return self.structure.decode_many(self.potentials(block.everything()), block.offsets)

        outputs = in_threads(decoded, self._parts_of(tokens), n_jobs)
        return outputs[0] if len(outputs) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *outputs])
