"""Chains of first and second order: sequence labeling, with allowed transitions of labels."""

import heapq
import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl._pointers import Packed
from omkl.exceptions import InputError
from omkl.signatures import StructureFunctions
from omkl.structures import _jit_chain as jit
from omkl.structures import _jit_trigrams, log_space
from omkl.structures._jit_labels import (
    INDEPENDENT,
    NO_ARRAYS,
    cost_of_labels,
    decode_labels,
    indicate_labels,
    marginals_of_labels,
    score_labels,
)
from omkl.structures.base import Structure, check_costs, map_arrays, packed_costs


class ChainPotentials(NamedTuple):
    """Scores of the parts of a labelling.

    ``unary`` (n, K) scores label ``k`` at position ``t``. ``pairwise`` scores label ``i`` followed
    by ``j``: (K, K) or (1, K, K) if all positions share their transitions, (n - 1, K, K) if they do
    not, (0, K, K) if there are none. A score of -inf forbids a part.
    """

    unary: np.ndarray
    pairwise: np.ndarray


class TrigramPotentials(NamedTuple):
    """Scores of the parts of a labelling of a second-order chain.

    ``unary`` (n, K) and ``pairwise`` (1, K, K), shared by all positions, are as in
    :class:`ChainPotentials`; ``triples`` (K, K, K) scores label ``i`` followed by ``j`` and then by ``k``.
    """

    unary: np.ndarray
    pairwise: np.ndarray
    triples: np.ndarray


AnyPotentials: TypeAlias = ChainPotentials | TrigramPotentials | tuple[ArrayLike, ...]
#: Maximum number of labels of a second-order chain, whose table of trigrams grows with the cube of
#: their number.
MOST_LABELS = 400
#: Up to so many sequences are decoded one by one, with the function that training has compiled.
FEW = 64
NOTHING_ALLOWED = "No labelling is allowed: the constraints contradict each other."
#: For each chunking scheme: the kinds of labels that may begin a sequence, that may end one, and
#: that may follow each kind. A kind in lower case must belong to the same chunk.
SCHEMES = {
    "BIO": ("OB", "OBI", {"O": "OB", "B": "OBi", "I": "OBi"}),
    "BIOES": ("OBS", "OES", {"O": "OBS", "B": "ie", "I": "ie", "E": "OBS", "S": "OBS"}),
}
ALIASES = {"IOB2": "BIO", "IOBES": "BIOES", "BILOU": "BIOES"}
#: Names of BILOU for the ends of chunks.
SYNONYMS = {"L": "E", "U": "S"}


class AllowedTransitions(NamedTuple):
    """Constraints on labellings.

    Attributes
    ----------
    following : bool array of shape (K, K)
        True where label ``j`` may follow ``i``.
    first, last : bool arrays of shape (K,)
        True where a sequence may begin, or end, with a label.
    """

    following: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def first_violation(self, labels: np.ndarray, offsets: np.ndarray) -> int | None:
        """Return the position of the first label that is not allowed, or None.

        Parameters
        ----------
        labels : int array of shape (n,)
            Labels of all sequences, concatenated; -1 for an unknown label.
        offsets : int array of shape (number of sequences + 1,)
        """
        (begins, ends), known = ends_of(offsets), labels >= 0
        wrong = np.zeros(len(labels), dtype=bool)
        wrong[1:] = known[1:] & known[:-1] & ~self.following[labels[:-1], labels[1:]]
        wrong[begins] = known[begins] & ~self.first[labels[begins]]
        wrong[ends] |= known[ends] & ~self.last[labels[ends]]
        return int(np.argmax(wrong)) if wrong.any() else None


class Labelling(Structure):
    """Base of structures whose outputs are a label for each element of the input; -1 is an unknown
    label.
    """

    n_labels: int
    costs: np.ndarray
    takes_partial = True

    def arrays(self) -> Packed:
        return packed_costs(self)

    def known_marginals(self, potentials: Any, gold: np.ndarray) -> np.ndarray:
        known = np.flatnonzero(gold >= 0)
        return self.marginals(potentials)[1].unary[known, gold[known]]

    def agreeing(self, potentials: Any, gold: np.ndarray) -> Any:
        """Return potentials that forbid labellings that disagree with the known labels of ``gold``.

        Parameters
        ----------
        potentials : ChainPotentials or similar
        gold : int array of shape (n,), or bool array of shape (n, K)
            A label, or -1, for each element; or a mask of the labels allowed there.
        """
        own = self._checked(potentials)
        allowed = (
            gold
            if gold.ndim == 2
            else (gold[:, None] < 0) | (gold[:, None] == np.arange(self.n_labels))
        )
        return own._replace(unary=np.where(allowed, own.unary, -np.inf))

    def cost_augmented(self, potentials: Any, gold: np.ndarray, cost_weight: float = 1.0) -> Any:
        own = self._checked(potentials)
        costs = np.where(np.asarray(gold)[:, None] >= 0, self.costs[gold], 0.0)
        return own._replace(unary=own.unary + cost_weight * costs)

    def cost(self, gold: ArrayLike, predicted: ArrayLike) -> float:
        arrays = self.arrays()
        gold = np.asarray(gold, dtype=np.int64)
        return cost_of_labels(arrays.address, gold, np.asarray(predicted, dtype=np.int64))

    def difference(
        self, potentials: Any, predicted: np.ndarray, gold: np.ndarray
    ) -> tuple[float, Any]:
        own = self._checked(potentials)
        gradient = map_arrays(np.zeros_like, own)
        self._add_indicator(gradient, predicted, 1.0)
        self._add_indicator(gradient, gold, -1.0)
        return self.score(own, predicted) - self.score(own, gold), gradient

    def subtract_indicator(self, potentials: Any, output: np.ndarray) -> None:
        self._add_indicator(self._checked(potentials), output, -1.0)

    def indicator(self, output: ArrayLike) -> Any:
        """Return the counts of labels and transitions; of a graph those of labels, as if it had no
        edges.
        """
        labels = np.asarray(output, dtype=np.int64)
        counts = self.zeros(len(labels))
        self._add_indicator(counts, labels, 1.0)
        return counts

    @abstractmethod
    def _add_indicator(self, potentials: Any, labels: np.ndarray, amount: float) -> None:
        """Add an amount to every part of a labelling."""

    def _checked(self, potentials: Any) -> Any:
        """Return potentials of the right types."""
        return potentials


class Chain(Labelling):
    """A chain over K labels, of any length n >= 1 and of first or second order.

    Decoding and marginals take O(n K^2), O(n K) without transitions, or O(n K^3) with trigrams
    (``order=2``). Potentials may be any pair ``(unary, pairwise)`` of arrays, or for second order
    any ``(unary, pairwise, triples)``; see :class:`ChainPotentials` and :class:`TrigramPotentials`
    for the shapes. A gold label of -1 is unknown: it costs nothing, and any label agrees with it.

    Parameters
    ----------
    n_labels : int
        Number of labels K >= 1; an output is an array of n integers in ``0 .. K-1``.
    costs : array of shape (K, K), optional
        ``costs[gold, predicted] >= 0`` of one position, with a zero diagonal. The Hamming cost (1
        for every wrong label) by default.
    by_position : bool
        Whether each position has its own transitions.
    linked : bool
        Whether transitions are scored.
    allowed : AllowedTransitions, optional
        Other transitions are never decoded, and have probability 0.
    order : {1, 2}
        Number of preceding labels that are scored together with a label.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no labels, ``costs`` is not a cost matrix, or a second-order chain has
        transitions by position, no transitions, or too many labels.

    Examples
    --------
    >>> unary = np.array([[2.0, 0.0], [0.0, 1.0], [0.9, 1.0]])
    >>> staying = np.array([[0.5, 0.0], [0.0, 0.5]])
    >>> Chain(2).decode((unary, staying))
    array([0, 1, 1])
    """

    def __init__(
        self,
        n_labels: int,
        costs: ArrayLike | None = None,
        by_position: bool = False,
        linked: bool = True,
        allowed: AllowedTransitions | None = None,
        order: int = 1,
    ) -> None:
        check_number("n_labels", n_labels, least=1)
        if order not in (1, 2):
            raise InputError(f"order must be 1 or 2, not {order!r}.")
        if order == 2 and (by_position or not linked or n_labels > MOST_LABELS):
            raise InputError(
                f"order=2 needs transitions that all positions share, and at most {MOST_LABELS} labels, not {n_labels}."
            )
        self.n_labels, self.order = int(n_labels), int(order)
        self.by_position, self.linked, self.allowed = bool(by_position), bool(linked), allowed
        self._forbidden: Any = (
            None if allowed is None else np.where(allowed.following, 0.0, -np.inf)[None]
        )
        self.costs = check_costs(costs, self.n_labels)

    @property
    def compiled(self) -> StructureFunctions | None:  # type: ignore[override]
        """See :class:`Compilable`; only for a first-order chain without constraints and transitions
        by position.
        """
        is_plain = self.order == 1 and not self.by_position and self.allowed is None
        functions = jit.CHAIN if self.linked else INDEPENDENT
        return functions if is_plain else None

    def is_compiled_for(self, potentials: Any) -> bool:
        return self.compiled is not None and (len(potentials.pairwise) > 0) == self.linked

    def zeros(self, size: int) -> Any:
        edges = (max(size - 1, 1) if self.by_position else 1) if self.linked else 0
        K = self.n_labels
        unary, pairwise = np.zeros((size, K)), np.zeros((edges, K, K))
        if self.order == 1:
            return ChainPotentials(unary, pairwise)
        return TrigramPotentials(unary, pairwise, np.zeros((K, K, K)))

    def part(self, potentials: Any, low: int, high: int) -> Any:
        pairwise = (
            potentials.pairwise[low : max(high - 1, low + 1)]
            if self.by_position
            else potentials.pairwise
        )
        return potentials._replace(unary=potentials.unary[low:high], pairwise=pairwise)

    def decode(self, potentials: AnyPotentials) -> np.ndarray:
        labels, score = self._viterbi(self._within_allowed(self._checked(potentials)))
        if score == -np.inf:
            raise InputError(NOTHING_ALLOWED)
        return labels

    def decode_many(self, potentials: AnyPotentials, offsets: np.ndarray) -> np.ndarray:
        given = self._checked(potentials)
        if self.order == 2 or len(offsets) <= FEW:
            parts = (
                self.part(given, low, high)
                for low, high in itertools.pairwise(offsets.tolist())
                if low < high
            )
            found = [self._viterbi(self._within_allowed(own))[0] for own in parts]
            return np.concatenate([np.zeros(0, np.int64), *found])
        own, labels = self._within_allowed(given, offsets), np.empty(len(given.unary), np.int64)
        if not len(own.pairwise):
            return self._viterbi(own)[0]
        arrays = self.arrays()
        jit.viterbi_many(arrays.address, *own, offsets, labels)
        return labels

    def decode_best(self, potentials: AnyPotentials, n_best: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ``n_best`` labellings of the highest scores, best first, or all if there are
        fewer.

        Each labelling deviates from an earlier one at a position ``t``: it keeps the labels from
        ``t`` on, takes the predecessor of the next lower rank, and the best labels before that
        (Lawler's partition over the lists of Viterbi predecessors). This description is unique, and
        each labelling has O(n) deviations. The first labelling takes O(n K^2), every other one O(n
        K log K).

        Parameters
        ----------
        potentials : ChainPotentials
        n_best : int

        Returns
        -------
        labels : array of shape (m, n), m <= n_best
        scores : array of shape (m,)

        Raises
        ------
        omkl.exceptions.InputError
            If the chain is of second order.
        """
        if self.order != 1:
            raise InputError("The n best labellings need a first-order chain: train with order=1.")
        unary, pairwise = self._within_allowed(self._checked(potentials))
        n = len(unary)
        edges = np.broadcast_to(
            pairwise if len(pairwise) else np.zeros((1, 1, 1)), (n - 1, *2 * (self.n_labels,))
        )
        best = [unary[0]]  # scores of the best labellings up to each label
        for own, edge in zip(unary[1:], edges):
            best.append((best[-1][:, None] + edge).max(axis=0) + own)
        labels, scores = np.empty((n_best, n), np.int64), np.empty(n_best)
        # score, the labelling that a candidate deviates from, position, rank of the predecessor
        # there
        candidates = [(-float(best[-1].max()), 0, n, 0)]
        found = 0
        while found < n_best and candidates and candidates[0][0] < np.inf:
            negative, parent, last, rank = heapq.heappop(candidates)
            own, scores[found] = labels[found], -negative
            own[last:] = labels[parent, last:]
            for t in range(last, 0, -1):
                arriving = (
                    best[t - 1]
                    if t == n
                    else best[t - 1] + (edges[t - 1, :, own[t]] + unary[t, own[t]])
                )
                order = np.argsort(-arriving, kind="stable")
                at = rank if t == last else 0
                own[t - 1] = order[at]
                # the next lower rank at this position is a candidate, and so is each deviation at
                # an earlier position
                if at + 1 < self.n_labels and (lower := arriving[order[at + 1]]) > -np.inf:
                    heapq.heappush(
                        candidates, (negative - (lower - arriving[order[at]]), found, t, at + 1)
                    )
            found += 1
        return labels[:found], scores[:found]

    def loss_augmented(
        self, potentials: AnyPotentials, gold: np.ndarray, cost_weight: float = 1.0
    ) -> np.ndarray:
        return self._viterbi(self._within_allowed(self._checked(potentials)), gold, cost_weight)[0]

    def _viterbi(
        self, own: Any, gold: np.ndarray | None = None, cost_weight: float = 0.0
    ) -> tuple[np.ndarray, float]:
        """Return the best labels, and their score with the costs."""
        labels = np.empty(len(own.unary), np.int64)
        gold = labels if gold is None else gold
        if self.order == 2:
            return labels, _jit_trigrams.viterbi(*own, self.costs, gold, cost_weight, labels)
        arrays = self.arrays()
        decode = jit.viterbi if len(own.pairwise) else decode_labels
        return labels, decode(arrays.address, *own, gold, cost_weight, labels)

    def marginals(self, potentials: AnyPotentials) -> tuple[float, Any]:
        given = self._checked(potentials)
        own = self._within_allowed(given)
        expected = type(own)(*(np.empty(array.shape) for array in own))
        if self.order == 1 and not len(own.pairwise):
            log_partition = marginals_of_labels(NO_ARRAYS, *own, *expected)
        elif self.order == 1:
            log_partition = jit.forward_backward(NO_ARRAYS, *own, *expected)
            if not np.isfinite(log_partition):
                log_partition = jit.forward_backward_in_logs(NO_ARRAYS, *own, *expected)
        else:
            log_partition = _jit_trigrams.forward_backward(*own, *expected)
            if not np.isfinite(log_partition):
                expected = type(own)(*(np.zeros(array.shape) for array in own))
                log_partition = log_space.second_order_chain(*own, *expected)
        if log_partition == -np.inf:
            raise InputError(NOTHING_ALLOWED)
        if len(own.pairwise) != len(given.pairwise):
            expected = expected._replace(pairwise=given.pairwise)
        return log_partition, expected

    def _within_allowed(self, potentials: Any, offsets: np.ndarray | None = None) -> Any:
        """Forbid transitions that are not allowed, in one sequence or in the sequences at
        ``offsets``.
        """
        if self.allowed is None or not len(potentials.unary):
            return potentials
        unary, pairwise = potentials.unary.copy(), potentials.pairwise
        begins, ends = (0, -1) if offsets is None else ends_of(offsets)
        unary[begins] = np.where(self.allowed.first, unary[begins], -np.inf)
        unary[ends] = np.where(self.allowed.last, unary[ends], -np.inf)
        pairwise = pairwise + self._forbidden if len(pairwise) else self._forbidden
        return potentials._replace(unary=unary, pairwise=pairwise)

    def _checked(self, potentials: AnyPotentials) -> Any:
        """Return float64 arrays, with transitions in three dimensions."""
        if len(potentials) != 1 + self.order:
            names = "(unary, pairwise)" if self.order == 1 else "(unary, pairwise, triples)"
            found = len(potentials)
            raise InputError(
                f"The potentials of a chain of order {self.order} are {names}, not {found} arrays."
            )
        arrays: list[Any] = [np.asarray(array, dtype=np.float64) for array in potentials]
        if arrays[1].ndim != 3:
            arrays[1] = arrays[1].reshape(-1, *arrays[1].shape[-2:])
        return ChainPotentials(*arrays) if self.order == 1 else TrigramPotentials(*arrays)

    def score(self, potentials: AnyPotentials, output: ArrayLike) -> float:
        labels = np.asarray(output, dtype=np.int64)
        unary, pairwise, *triples = self._checked(potentials)
        score = score_labels(NO_ARRAYS, unary, pairwise, labels)
        return (
            score + float(triples[0][labels[:-2], labels[1:-1], labels[2:]].sum())
            if triples
            else score
        )

    def _add_indicator(self, potentials: Any, labels: np.ndarray, amount: float) -> None:
        unary, pairwise, *triples = potentials
        indicate_labels(NO_ARRAYS, unary, pairwise, labels, amount)
        if triples:
            np.add.at(triples[0], (labels[:-2], labels[1:-1], labels[2:]), amount)


# ---- allowed transitions -------------------------------------------------------------------------


def ends_of(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the first and of the last token of each sequence that has tokens."""
    some = np.diff(offsets) > 0
    return offsets[:-1][some], offsets[1:][some] - 1


def allowed_transitions(spec: Any, labels: Sequence[Any]) -> AllowedTransitions:
    """Return the transitions between these labels that ``spec`` allows.

    Parameters
    ----------
    spec : str, dict or bool array of shape (K, K)
        The name of a chunking scheme, ``"BIO"`` or ``"BIOES"``, whose labels are ``O``, ``B-PER``
        and so on, or all without types: ``O``, ``B``, ``I``. Or a dict from a label to the labels
        that may follow it, and from None to the labels that may begin a sequence; any label may
        follow a missing key. Or a matrix with a row per label, in the order of ``labels``.
    labels : sequence of K labels

    Raises
    ------
    omkl.exceptions.InputError
        If the scheme is unknown, a label does not fit it, or the dict names unknown labels.
    """
    if isinstance(spec, str):
        return _of_scheme(spec, labels)
    n_labels, index = len(labels), {label: k for k, label in enumerate(labels)}
    allowed = AllowedTransitions(
        np.ones((n_labels, n_labels), dtype=bool), *np.ones((2, n_labels), dtype=bool)
    )
    if isinstance(spec, Mapping):
        for label, followers in spec.items():
            followers = list(followers)
            unknown = [
                other
                for other in [*([] if label is None else [label]), *followers]
                if other not in index
            ]
            if unknown:
                raise InputError(
                    f"allowed_transitions names {unknown[0]!r}, which is not one of the {n_labels} labels, such as "
                    f"{', '.join(map(repr, labels[:3]))}."
                )
            row = allowed.first if label is None else allowed.following[index[label]]
            row[:] = False
            row[[index[other] for other in followers]] = True
        return allowed
    try:
        following = np.array(spec)
    except ValueError:
        following = np.zeros(0)
    if following.shape != (n_labels, n_labels) or not np.isin(following, (0, 1)).all():
        raise InputError(
            'allowed_transitions must be "BIO", "BIOES", a dict from a label to the labels that may follow it, or a '
            f"({n_labels}, {n_labels}) matrix of True and False in the order of the sorted labels, not {spec!r:.60}."
        )
    return allowed._replace(following=following.astype(bool))


def _of_scheme(name: str, labels: Sequence[Any]) -> AllowedTransitions:
    scheme = ALIASES.get(name.upper(), name.upper())
    if scheme not in SCHEMES:
        raise InputError(
            f"Unknown transitions {name!r}: choose BIO or BIOES, or give a dict or a matrix."
        )
    first, last, following = SCHEMES[scheme]
    typed = "B" not in labels and "I" not in labels
    split = [_kind_and_chunk(label, name, following, typed) for label in labels]
    allowed = [
        [
            to in following[of] or (to.lower() in following[of] and own == other)
            for to, other in split
        ]
        for of, own in split
    ]
    begins, ends = ([kind in kinds for kind, _ in split] for kinds in (first, last))
    return AllowedTransitions(np.array(allowed), np.array(begins), np.array(ends))


def _kind_and_chunk(
    label: Any, name: str, kinds: Mapping[str, str], typed: bool
) -> tuple[str, str]:
    """Split ``B-PER`` into ``("B", "PER")``, and ``B`` without types into ``("B", "")``."""
    kind, dash, chunk = label.partition("-") if isinstance(label, str) else ("", "", "")
    kind = SYNONYMS.get(kind, kind) if name.upper() == "BILOU" else kind
    if kind not in kinds or not (chunk if typed and kind != "O" else not dash):
        known = [f"{k}-X" if typed and k != "O" else k for k in kinds]
        remedy = "correct it, or choose other transitions"
        raise InputError(
            f"The label {label!r} is not in {name}, which has {', '.join(known)}: {remedy}."
        )
    return kind, chunk
