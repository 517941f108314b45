"""Structures: outputs of structured prediction, and how to decode, compare and sum over them."""

from bisect import insort
from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from omkl import signatures
from omkl._components import Component, check_number
from omkl._pointers import Packed
from omkl.exceptions import InputError
from omkl.signatures import StructureFunctions
from omkl.structures._jit_labels import (
    LABELS,
    NO_ARRAYS,
    STRUCTURE,
    Labels,
    StructureAddresses,
    cost_of_labels,
    indicate_labels,
    refuse_marginals,
    score_labels,
)

#: A named tuple of arrays with a score for every part of an output, such as ``ChainPotentials``.
Potentials: TypeAlias = Any
#: Output of a structure: an array of labels or heads, or one label.
Output: TypeAlias = Any
#: Layout of the potentials of an example, such as :class:`~omkl.structures.GraphLayout`.
Layout: TypeAlias = Any

P = TypeVar("P", bound=tuple)

#: Pairs of labels where there are none.
NO_PAIRS = np.zeros((0, 0, 0))


class Structure(Component):
    """The outputs of a structured predictor: how to decode, compare and sum over them.

    To define a structure whose score and cost are sums over the parts of an output, derive from
    this class and define ``zeros``, ``decode``, ``indicator`` and ``cost_potentials``. This is
    enough for the hinge and the perceptron. The CRF loss also needs ``marginals``; learning from
    partial outputs needs ``is_partial`` and ``agreeing``. The trainer, the groups and the losses
    work with any structure.

    ``potentials`` score the parts of an output. ``gold`` is the correct output, with -1 for unknown
    parts.
    """

    required = "zeros", "decode", "indicator", "cost_potentials"
    #: Compiled functions that compiled losses call; None if only the methods define the structure.
    compiled: StructureFunctions | None = None
    #: Whether -1 in an output stands for an unknown label or head.
    takes_partial = False

    # compare by identity: a method may share its name with a parameter, such as cost
    __eq__ = object.__eq__
    __hash__ = object.__hash__
    __repr__ = object.__repr__

    def arrays(self) -> Packed | None:
        """Return the arrays that the compiled functions read, or None; hold them while in use."""
        return None

    def is_compiled_for(self, potentials: Potentials) -> bool:
        """Return whether the compiled functions take an example with these potentials.

        Parameters
        ----------
        potentials : Potentials
        """
        return self.compiled is not None

    def packed(self, with_marginals: bool, layout: Layout | None = None) -> "PackedStructure":
        """Return compiled functions and their arrays, for compiled losses; hold it while in use.

        Parameters
        ----------
        with_marginals : bool
            Whether marginals may be called. Else they raise an error.
        layout : Layout, optional
            Layout of the potentials of an example, such as the edges of a graph, if examples of
            this structure have layouts of their own.
        """
        return PackedStructure(self.compiled, with_marginals, self.arrays())

    def n_pairs(self, layout: Layout | None = None) -> int:
        """Return the number of tables of pairs of labels in the potentials of an example.

        Parameters
        ----------
        layout : Layout, optional
            See :meth:`packed`.
        """
        return len(pairs_of(self.zeros(1)))

    def zeros(self, size: int) -> Potentials:
        """Return potentials of an input of this size, all zero.

        Parameters
        ----------
        size : int
            Size of the input, such as its number of positions.
        """
        self.must_define("zeros")

    def decode(self, potentials: Potentials) -> Output:
        """Return the output of the highest score. Ties break towards lower labels.

        Parameters
        ----------
        potentials : Potentials
        """
        self.must_define("decode")

    def decode_many(self, potentials: Potentials, offsets: np.ndarray) -> np.ndarray:
        """Return the outputs of several inputs at once, concatenated.

        Parameters
        ----------
        potentials : Potentials
            Potentials of all inputs, concatenated.
        offsets : int array of shape (number of inputs + 1,)
            Input ``s`` has the positions ``offsets[s] : offsets[s + 1]``.
        """
        self.must_define("decode_many")

    def part(self, potentials: Potentials, low: int, high: int) -> Potentials:
        """Return the potentials of one input from concatenated potentials.

        Parameters
        ----------
        potentials : Potentials
            Potentials of several inputs, concatenated.
        low, high : int
            The input has the positions ``low : high``.
        """
        self.must_define("part")

    def indicator(self, output: Output) -> Potentials:
        """Return the count of each part in an output, shaped like its potentials.

        Parameters
        ----------
        output : Output
        """
        self.must_define("indicator")

    def cost_potentials(self, gold: Output) -> Potentials:
        """Return the cost of each part given the correct output, shaped like its potentials.

        Parts of the correct output cost 0.

        Parameters
        ----------
        gold : Output
        """
        self.must_define("cost_potentials")

    def marginals(self, potentials: Potentials) -> tuple[float, Potentials]:
        """Return the log-partition function, and the Gibbs probability of each part.

        Parameters
        ----------
        potentials : Potentials

        Raises
        ------
        omkl.exceptions.InputError
            If no output is allowed.
        """
        self.must_define("marginals")

    def loss_augmented(
        self, potentials: Potentials, gold: Output, cost_weight: float = 1.0
    ) -> Output:
        """Return the output of the highest score plus ``cost_weight`` times its cost.

        Parameters
        ----------
        potentials : Potentials
        gold : Output
        cost_weight : float >= 0
            Factor of the cost.
        """
        return self.decode(self.cost_augmented(potentials, gold, cost_weight))

    def cost_augmented(
        self, potentials: Potentials, gold: Output, cost_weight: float = 1.0
    ) -> Potentials:
        """Return potentials that add the weighted cost of an output to its score.

        The sum may differ by a constant.

        Parameters
        ----------
        potentials : Potentials
        gold : Output
        cost_weight : float >= 0
            Factor of the cost.
        """
        return _combined(potentials, self.cost_potentials(gold), cost_weight)

    def difference(
        self, potentials: Potentials, predicted: Output, gold: Output
    ) -> tuple[float, Potentials]:
        """Return the difference of the scores of two outputs, and that of their indicators.

        Those of ``gold`` are subtracted from those of ``predicted``.

        Parameters
        ----------
        potentials : Potentials
        predicted, gold : Output
        """
        gradient = _combined(self.indicator(predicted), self.indicator(gold), -1.0)
        return inner_product(potentials, gradient), gradient

    def subtract_indicator(self, potentials: Potentials, output: Output) -> None:
        """Subtract the indicator of an output in place.

        Parameters
        ----------
        potentials : Potentials
        output : Output
        """
        for scores, counts in zip(potentials, self.indicator(output)):
            scores -= counts

    def score(self, potentials: Potentials, output: Output) -> float:
        """Return the sum of the potentials of the parts of an output.

        Parameters
        ----------
        potentials : Potentials
        output : Output
        """
        return inner_product(potentials, self.indicator(output))

    def cost(self, gold: Output, predicted: Output) -> float:
        """Return the cost of predicting ``predicted`` if ``gold`` is correct; 0 if they agree.

        Parameters
        ----------
        gold, predicted : Output
        """
        return inner_product(self.cost_potentials(gold), self.indicator(predicted))

    def is_partial(self, gold: Output) -> bool:
        """Return True if parts of a gold output are unknown.

        Parameters
        ----------
        gold : Output
        """
        return self.n_known(gold) < np.size(gold)

    def n_known(self, gold: Output) -> int:
        """Return the number of known labels or heads of a gold output.

        Parameters
        ----------
        gold : Output
        """
        if not self.takes_partial:
            return np.size(gold)
        return int(np.count_nonzero(np.asarray(gold) >= 0))

    def agreeing(self, potentials: Potentials, gold: Output) -> Potentials:
        """Return potentials that forbid all outputs that disagree with the known parts of ``gold``.

        Parameters
        ----------
        potentials : Potentials
        gold : Output
        """
        self.must_define("agreeing")

    def known_marginals(self, potentials: Potentials, gold: Output) -> np.ndarray:
        """Return the probability of each known label or head of ``gold``.

        Parameters
        ----------
        potentials : Potentials
        gold : Output
        """
        self.must_define("known_marginals")


class Labelling(Structure):
    """Base of structures whose outputs are a label for each element; -1 is an unknown label.

    Subclasses define ``zeros`` and ``decode``, and ``marginals`` for the CRF loss.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    costs : array of shape (K, K), optional
        ``costs[gold, predicted]`` of one element; the Hamming cost by default.
    """

    takes_partial = True

    def __init__(self, n_labels: int, costs: ArrayLike | None) -> None:
        check_number("n_labels", n_labels, least=1)
        self.n_labels = int(n_labels)
        self.costs = _checked_costs(costs, self.n_labels)
        self._packed_costs: Packed | None = None

    def arrays(self) -> Packed:
        labels = Labels(costs=self.costs)
        if self._packed_costs is None or not self._packed_costs.holds(labels):
            self._packed_costs = LABELS.pack(labels)
        return self._packed_costs

    def known_marginals(self, potentials: Potentials, gold: np.ndarray) -> np.ndarray:
        with_label = np.flatnonzero(gold >= 0)
        _, expected = self.marginals(potentials)
        return expected.unary[with_label, gold[with_label]]

    def agreeing(self, potentials: Potentials, gold: np.ndarray) -> Potentials:
        """Return potentials that forbid labellings that disagree with the known labels of ``gold``.

        Parameters
        ----------
        potentials : ChainPotentials or similar
        gold : int array of shape (n,), or bool array of shape (n, K)
            A label, or -1, for each element; or a mask of the labels allowed there.
        """
        potentials = self._checked(potentials)
        allowed = gold
        if gold.ndim == 1:
            allowed = (gold[:, None] < 0) | (gold[:, None] == np.arange(self.n_labels))
        return potentials._replace(unary=np.where(allowed, potentials.unary, -np.inf))

    def cost_potentials(self, gold: Output) -> Potentials:
        """Return the cost of each label; there is none for pairs of labels."""
        return self.cost_augmented(self.zeros(np.size(gold)), gold)

    def cost_augmented(
        self, potentials: Potentials, gold: Output, cost_weight: float = 1.0
    ) -> Potentials:
        potentials = self._checked(potentials)
        labels = _as_labels(gold)
        costs = np.where(labels[:, None] >= 0, self.costs[labels], 0.0)
        return potentials._replace(unary=potentials.unary + cost_weight * costs)

    def cost(self, gold: Output, predicted: Output) -> float:
        return cost_of_labels(self.arrays().address, _as_labels(gold), _as_labels(predicted))

    def difference(
        self, potentials: Potentials, predicted: Output, gold: Output
    ) -> tuple[float, Potentials]:
        potentials = self._checked(potentials)
        gradient = map_arrays(np.zeros_like, potentials)
        self._add_indicator(gradient, _as_labels(predicted), 1.0)
        self._add_indicator(gradient, _as_labels(gold), -1.0)
        return self.score(potentials, predicted) - self.score(potentials, gold), gradient

    def subtract_indicator(self, potentials: Potentials, output: Output) -> None:
        checked = self._checked(potentials)
        self._add_indicator(checked, _as_labels(output), -1.0)
        for scores, changed in zip(arrays_of(potentials), arrays_of(checked)):
            if not np.may_share_memory(scores, changed):  # of another type, or not contiguous
                scores[...] = changed.reshape(scores.shape)

    def indicator(self, output: Output) -> Potentials:
        """Return the counts of labels and transitions; of a graph those of labels alone."""
        labels = _as_labels(output)
        counts = self.zeros(len(labels))
        self._add_indicator(counts, labels, 1.0)
        return counts

    def score(self, potentials: Potentials, output: Output) -> float:
        return self._score(self._checked(potentials), _as_labels(output))

    def _score(self, potentials: Potentials, labels: np.ndarray) -> float:
        """Return the score of labels (n,), for checked potentials."""
        return score_labels(NO_ARRAYS, potentials.unary, pairs_of(potentials), labels)

    def _add_indicator(self, potentials: Potentials, labels: np.ndarray, amount: float) -> None:
        """Add an amount to every part of labels (n,), in checked potentials."""
        indicate_labels(NO_ARRAYS, potentials.unary, pairs_of(potentials), labels, amount)

    def _checked(self, potentials: Potentials) -> Potentials:
        """Return potentials of the right types."""
        return potentials


def _as_labels(output: Output) -> np.ndarray:
    """Return a label, or several ones, as an array (n,)."""
    return np.atleast_1d(np.asarray(output, dtype=np.int64))


def _checked_costs(cost: ArrayLike | None, n_labels: int) -> np.ndarray:
    """Return a validated (K, K) cost matrix; the Hamming cost for None."""
    if cost is None:
        return 1.0 - np.eye(n_labels)
    try:
        costs = np.array(cost, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        costs = np.empty(0)
    is_square = costs.shape == (n_labels, n_labels)
    if not is_square or not (np.isfinite(costs) & (costs >= 0)).all() or np.diag(costs).any():
        raise InputError(
            f"cost must be a ({n_labels}, {n_labels}) matrix of finite numbers >= 0, one row per "
            f"gold label, with zeros on its diagonal, not {cost!r:.100}."
        )
    return costs


class PackedStructure:
    """Addresses of functions and arrays of a structure, for compiled code.

    Attributes
    ----------
    address : int
        Argument ``structure`` of compiled losses.
    """

    def __init__(
        self, functions: StructureFunctions | None, with_marginals: bool, arrays: Packed | None
    ) -> None:
        addresses = signatures.addresses_of(functions)
        if not with_marginals:
            addresses["marginals"] = signatures.MARGINALS.address_of(refuse_marginals)
        self._arrays = arrays
        addresses["arrays"] = NO_ARRAYS
        if arrays is not None:
            addresses["arrays"] = arrays.address
        self._functions = STRUCTURE.pack(StructureAddresses(**addresses))
        self.address = self._functions.address


class PackedStructures:
    """Compiled functions of a structure for any layout of potentials, each packed once.

    Parameters
    ----------
    structure : Structure
    with_marginals : bool
        Whether marginals may be called.
    """

    def __init__(self, structure: Structure, with_marginals: bool) -> None:
        self._structure = structure
        self._with_marginals = with_marginals
        self._by_layout: WeakKeyDictionary[object, PackedStructure] = WeakKeyDictionary()

    def address_for(self, layout: Layout | None = None) -> int:
        """Return the address of the functions and arrays for potentials of a layout, or of none.

        Hold both this object and the layout while it is in use.
        """
        key = self if layout is None else layout
        if key not in self._by_layout:
            self._by_layout[key] = self._structure.packed(self._with_marginals, layout)
        return self._by_layout[key].address


class _Candidate(NamedTuple):
    """The best output of a part of all outputs, in the search for the n best.

    The part has the values of ``output`` at the first ``n_fixed`` places, and at the others those
    that the scores ``allowed`` (values, columns) allow. Candidates are sorted by their scores;
    ``order`` breaks ties.
    """

    negative_score: float
    order: int
    output: np.ndarray
    n_fixed: int
    allowed: np.ndarray


def best_outputs(
    scores: np.ndarray,
    n_best: int,
    solve: Callable[[np.ndarray], tuple[np.ndarray, float]],
    first: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return up to ``n_best`` outputs, best first, and their scores.

    An output has one value at each of n places. By Lawler's (1972) partition, all other outputs are
    divided by the first place that differs from the best output: the values before that place are
    required, and its own value is forbidden. The best output of each part is found. A part is
    divided further when its best output is the next one.

    Parameters
    ----------
    scores : array of shape (number of values, first + n)
        Scores of the values at each place; -inf forbids one.
    n_best : int
    solve : callable
        ``solve(scores)`` returns the best output and its score, -inf if there is none.
    first : int
        Column of the first place.
    """
    n_met = count()
    waiting: list[_Candidate] = []
    best: list[_Candidate] = []

    def consider(allowed: np.ndarray, n_fixed: int) -> None:
        output, score = solve(allowed)
        if score != -np.inf:
            insort(waiting, _Candidate(-score, next(n_met), output, n_fixed, allowed.copy()))
        del waiting[n_best - len(best) :]  # they are not among the n best

    consider(scores, 0)
    while waiting:
        candidate = waiting.pop(0)
        best.append(candidate)
        if len(best) == n_best:
            break
        allowed = candidate.allowed
        for i in range(candidate.n_fixed, len(candidate.output)):
            value = candidate.output[i]
            score_of_value = allowed[value, first + i]
            allowed[value, first + i] = -np.inf
            consider(allowed, i)
            # from now on the value is required
            allowed[:, first + i] = -np.inf
            allowed[value, first + i] = score_of_value
    # some were missed before if `solve` does not find the best ones
    best.sort(key=attrgetter("negative_score"))
    return (
        np.array([candidate.output for candidate in best]),
        np.array([-candidate.negative_score for candidate in best]),
    )


def pairs_of(potentials: Potentials) -> np.ndarray:
    """Return the potentials of pairs of labels, (E, K, K); E = 0 if there are none."""
    return getattr(potentials, "pairwise", NO_PAIRS)


def layout_of(potentials: Potentials) -> Layout | None:
    """Return the layout of potentials, such as the edges of a graph; None if they have none."""
    return getattr(potentials, "layout", None)


def arrays_of(potentials: Potentials) -> list[np.ndarray]:
    """Return the arrays of scores in potentials, without what only describes their parts."""
    return [array for array in potentials if isinstance(array, np.ndarray)]


def map_arrays(function: Callable[..., np.ndarray], first: P, *others: Potentials) -> P:
    """Apply a function to each array of scores in potentials of the same input."""
    arrays = map(arrays_of, (first, *others))
    mapped = [function(*of_one_kind) for of_one_kind in zip(*arrays)]
    description = first[len(mapped) :]
    return type(first)(*mapped, *description)


def _combined(first: Potentials, second: Potentials, weight: float) -> Potentials:
    """Return ``first + weight * second``."""
    return map_arrays(lambda a, b: a + weight * b, first, second)


def inner_product(first: Potentials, second: Potentials) -> float:
    """Return the inner product of the scores in potentials of the same input."""
    return float(sum(np.vdot(a, b) for a, b in zip(arrays_of(first), arrays_of(second))))
