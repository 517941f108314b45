"""Chains of first and second order: sequence labeling, with allowed transitions of labels."""

import heapq
import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.signatures import StructureFunctions
from omkl.structures import _jit_chain as jit
from omkl.structures import _jit_trigrams, log_space
from omkl.structures._jit_labels import (
    INDEPENDENT,
    NO_ARRAYS,
    decode_labels,
    marginals_of_labels,
)
from omkl.structures.base import Labelling, PackedStructure, map_arrays


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
    :class:`ChainPotentials`; ``triples`` (K, K, K) scores label ``i`` followed by ``j`` and then by
    ``k``.
    """

    unary: np.ndarray
    pairwise: np.ndarray
    triples: np.ndarray


CheckedPotentials: TypeAlias = ChainPotentials | TrigramPotentials
AnyPotentials: TypeAlias = CheckedPotentials | tuple[ArrayLike, ...]
#: Maximum number of labels of a second-order chain, whose table of trigrams grows with the cube of
#: their number.
MOST_LABELS = 400
NOTHING_ALLOWED = "No labelling is allowed: the constraints contradict each other."


class ChunkingScheme(NamedTuple):
    """Kinds of labels that may begin a sequence, that may end one, and that may follow each kind.

    A kind in lower case must belong to the same chunk.
    """

    first: str
    last: str
    following: Mapping[str, str]


SCHEMES = {
    "BIO": ChunkingScheme("OB", "OBI", {"O": "OB", "B": "OBi", "I": "OBi"}),
    "BIOES": ChunkingScheme(
        "OBS", "OES", {"O": "OBS", "B": "ie", "I": "ie", "E": "OBS", "S": "OBS"}
    ),
}
#: Other names of schemes.
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
        begins, ends = ends_of(offsets)
        has_label = labels >= 0
        is_wrong = np.zeros(len(labels), dtype=bool)
        has_pair = has_label[1:] & has_label[:-1]
        is_wrong[1:] = has_pair & ~self.following[labels[:-1], labels[1:]]
        is_wrong[begins] = has_label[begins] & ~self.first[labels[begins]]
        is_wrong[ends] |= has_label[ends] & ~self.last[labels[ends]]
        if is_wrong.any():
            return int(np.argmax(is_wrong))
        return None


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
        super().__init__(n_labels, costs)
        if order not in (1, 2):
            raise InputError(f"order must be 1 or 2, not {order!r}.")
        if order == 2 and (by_position or not linked or n_labels > MOST_LABELS):
            raise InputError(
                "order=2 needs transitions that all positions share, and at most "
                f"{MOST_LABELS} labels, not {n_labels}."
            )
        self.order = int(order)
        self.by_position = bool(by_position)
        self.linked = bool(linked)
        self.allowed = allowed
        if allowed is not None:
            #: Potentials of transitions (1, K, K) that forbid those that are not allowed.
            self._forbidding = np.where(allowed.following, 0.0, -np.inf)[None]

    @property
    def compiled(self) -> StructureFunctions | None:  # type: ignore[override]
        """Compiled functions of a first-order chain without constraints; else None.

        They need transitions that all positions share.
        """
        is_plain = self.order == 1 and not self.by_position and self.allowed is None
        if not is_plain:
            return None
        if self.linked:
            return jit.CHAIN
        return INDEPENDENT

    def is_compiled_for(self, potentials: CheckedPotentials) -> bool:
        return self.compiled is not None and (len(potentials.pairwise) > 0) == self.linked

    def zeros(self, size: int) -> CheckedPotentials:
        n_edges = int(self.linked)
        if self.linked and self.by_position:
            n_edges = max(size - 1, 1)
        K = self.n_labels
        unary = np.zeros((size, K))
        pairwise = np.zeros((n_edges, K, K))
        if self.order == 1:
            return ChainPotentials(unary, pairwise)
        return TrigramPotentials(unary, pairwise, np.zeros((K, K, K)))

    def part(self, potentials: CheckedPotentials, low: int, high: int) -> CheckedPotentials:
        pairwise = potentials.pairwise
        if self.by_position:
            pairwise = pairwise[low : max(high - 1, low + 1)]
        return potentials._replace(unary=potentials.unary[low:high], pairwise=pairwise)

    def decode(self, potentials: AnyPotentials) -> np.ndarray:
        labels, score = self._viterbi(self._within_allowed(self._checked(potentials)))
        if score == -np.inf:
            raise InputError(NOTHING_ALLOWED)
        return labels

    def decode_many(self, potentials: AnyPotentials, offsets: np.ndarray) -> np.ndarray:
        potentials = self._checked(potentials)
        if self.order == 2:
            return self._decode_in_turn(potentials, offsets)
        potentials = self._within_allowed(potentials, offsets)
        if not len(potentials.pairwise):
            labels, _ = self._viterbi(potentials)
            return labels
        structure = PackedStructure(jit.CHAIN, with_marginals=False, arrays=self.arrays())
        labels = np.empty(len(potentials.unary), np.int64)
        jit.viterbi_many(structure.address, *potentials, offsets, labels)
        return labels

    def _decode_in_turn(self, potentials: CheckedPotentials, offsets: np.ndarray) -> np.ndarray:
        """Return the best labels of sequences, concatenated, decoded one by one."""
        labels = [np.zeros(0, np.int64)]
        for low, high in itertools.pairwise(offsets.tolist()):
            if low < high:
                part = self.part(potentials, low, high)
                best, _ = self._viterbi(self._within_allowed(part))
                labels.append(best)
        return np.concatenate(labels)

    def decode_best(self, potentials: AnyPotentials, n_best: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ``n_best`` labellings of the highest scores, or all if there are fewer.

        The best one comes first. Each other one deviates from an earlier one at a position ``t``:
        it has the labels of that one from ``t`` on, the predecessor of the next lower rank, and the
        best labels before it (Lawler's partition over the lists of Viterbi predecessors). This
        description is unique, and each labelling has O(n) deviations. The first labelling takes
        O(n K^2), every other one O(n K log K).

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
        lattice = _Lattice(*self._within_allowed(self._checked(potentials)))
        n = len(lattice.unary)
        labels = np.empty((n_best, n), np.int64)
        scores = np.empty(n_best)
        highest = float(lattice.best[-1].max())
        candidates = [_Deviation(negative_score=-highest, labelling=0, position=n, rank=0)]
        n_labellings = 0
        while n_labellings < n_best and candidates and candidates[0].negative_score < np.inf:
            deviation = heapq.heappop(candidates)
            scores[n_labellings] = -deviation.negative_score
            path = labels[n_labellings]
            path[deviation.position :] = labels[deviation.labelling, deviation.position :]
            for position, rank, loss in lattice.complete(path, deviation.position, deviation.rank):
                score = deviation.negative_score - loss
                heapq.heappush(candidates, _Deviation(score, n_labellings, position, rank))
            n_labellings += 1
        return labels[:n_labellings], scores[:n_labellings]

    def loss_augmented(
        self, potentials: AnyPotentials, gold: np.ndarray, cost_weight: float = 1.0
    ) -> np.ndarray:
        potentials = self._within_allowed(self._checked(potentials))
        labels, _ = self._viterbi(potentials, gold, cost_weight)
        return labels

    def _viterbi(
        self,
        potentials: CheckedPotentials,
        gold: np.ndarray | None = None,
        cost_weight: float = 0.0,
    ) -> tuple[np.ndarray, float]:
        """Return the best labels, and their score with the costs."""
        labels = np.empty(len(potentials.unary), np.int64)
        if gold is None:  # any array: it is not read
            gold = labels
        decode = jit.viterbi if len(potentials.pairwise) else decode_labels
        if self.order == 2:
            decode = _jit_trigrams.viterbi
        score = decode(self.arrays().address, *potentials, gold, cost_weight, labels)
        return labels, score

    def marginals(self, potentials: AnyPotentials) -> tuple[float, CheckedPotentials]:
        potentials = self._checked(potentials)
        within = self._within_allowed(potentials)
        log_partition, expected = self._marginals_within(within)
        if log_partition == -np.inf:
            raise InputError(NOTHING_ALLOWED)
        if len(within.pairwise) != len(potentials.pairwise):
            expected = expected._replace(pairwise=potentials.pairwise)
        return log_partition, expected

    def _marginals_within(self, potentials: CheckedPotentials) -> tuple[float, CheckedPotentials]:
        """Return log Z, -inf if nothing is allowed, and the marginals of checked potentials."""
        expected = map_arrays(lambda scores: np.zeros(scores.shape), potentials)
        if not len(potentials.unary):
            return 0.0, expected
        if self.order == 2:
            log_partition = _jit_trigrams.forward_backward(*potentials, *expected)
            if not np.isfinite(log_partition):
                expected = map_arrays(np.zeros_like, expected)
                log_partition = log_space.second_order_chain(*potentials, *expected)
            return log_partition, expected
        arguments = (NO_ARRAYS, *potentials, *expected)
        if not len(potentials.pairwise):
            return marginals_of_labels(*arguments), expected
        log_partition = jit.forward_backward(*arguments)
        if not np.isfinite(log_partition):
            log_partition = jit.forward_backward_in_logs(*arguments)
        return log_partition, expected

    def _within_allowed(
        self, potentials: CheckedPotentials, offsets: np.ndarray | None = None
    ) -> CheckedPotentials:
        """Forbid transitions that are not allowed.

        The potentials are those of one sequence, or of the sequences at ``offsets``.
        """
        if self.allowed is None or not len(potentials.unary):
            return potentials
        begins: Any = 0
        ends: Any = -1
        if offsets is not None:
            begins, ends = ends_of(offsets)
        unary = potentials.unary.copy()
        unary[begins] = np.where(self.allowed.first, unary[begins], -np.inf)
        unary[ends] = np.where(self.allowed.last, unary[ends], -np.inf)
        pairwise = self._forbidding
        if len(potentials.pairwise):
            pairwise = potentials.pairwise + self._forbidding
        return potentials._replace(unary=unary, pairwise=pairwise)

    def _checked(self, potentials: AnyPotentials) -> CheckedPotentials:
        """Return contiguous float64 arrays, with transitions in three dimensions."""
        if len(potentials) != 1 + self.order:
            names = ", ".join(["unary", "pairwise", "triples"][: 1 + self.order])
            raise InputError(
                f"The potentials of a chain of order {self.order} are ({names}), not "
                f"{len(potentials)} arrays."
            )
        arrays = [np.ascontiguousarray(array, dtype=np.float64) for array in potentials]
        unary, pairwise, *triples = arrays
        if pairwise.ndim != 3:
            pairwise = pairwise.reshape(-1, *pairwise.shape[-2:])
        if self.order == 1:
            return ChainPotentials(unary, pairwise)
        return TrigramPotentials(unary, pairwise, *triples)

    def _score(self, potentials: CheckedPotentials, labels: np.ndarray) -> float:
        score = super()._score(potentials, labels)
        if isinstance(potentials, TrigramPotentials):
            score += float(potentials.triples[_trigrams(labels)].sum())
        return score

    def _add_indicator(
        self, potentials: CheckedPotentials, labels: np.ndarray, amount: float
    ) -> None:
        super()._add_indicator(potentials, labels, amount)
        if isinstance(potentials, TrigramPotentials):
            np.add.at(potentials.triples, _trigrams(labels), amount)


class _Deviation(NamedTuple):
    """A labelling that deviates from an earlier one; the heap of :meth:`Chain.decode_best`.

    It has the labels of ``labelling`` from ``position`` on, and before it the predecessor of this
    ``rank``.
    """

    negative_score: float
    labelling: int
    position: int
    rank: int


class _Lattice:
    """Scores of the best labellings up to each position and label.

    :meth:`Chain.decode_best` finds other labellings in it.

    Attributes
    ----------
    unary : array of shape (n, K)
    edges : array of shape (n - 1, K, K)
    best : list of n arrays of shape (K,)
        The score of the best labelling up to each position and label.
    """

    def __init__(self, unary: np.ndarray, pairwise: np.ndarray) -> None:
        n, n_labels = unary.shape
        if not len(pairwise):
            pairwise = np.zeros((1, 1, 1))
        self.unary = unary
        self.edges = np.broadcast_to(pairwise, (n - 1, n_labels, n_labels))
        self.best = [unary[0]]
        for scores, edge in zip(unary[1:], self.edges):
            self.best.append((self.best[-1][:, None] + edge).max(axis=0) + scores)

    def complete(self, path: np.ndarray, last: int, rank: int) -> list[tuple[int, int, float]]:
        """Write the labels of a path (n,) before position ``last``, and return the alternatives.

        The label before ``last`` is the predecessor of this ``rank``, 0 for the best one; all
        labels before it are best predecessors. An alternative is a tuple of a position, the next
        lower rank there, and what it adds to the score, at most 0.
        """
        alternatives = []
        for t in range(last, 0, -1):
            arriving = self.best[t - 1]
            if t < len(path):
                arriving = arriving + (self.edges[t - 1, :, path[t]] + self.unary[t, path[t]])
            order = np.argsort(-arriving, kind="stable")
            path[t - 1] = order[rank]
            if rank + 1 < len(order):
                lower = arriving[order[rank + 1]]
                if lower > -np.inf:
                    alternatives.append((t, rank + 1, lower - arriving[order[rank]]))
            rank = 0
        return alternatives


def _trigrams(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first, second and third labels of all trigrams of a labelling (n,)."""
    return labels[:-2], labels[1:-1], labels[2:]


# ---- allowed transitions -------------------------------------------------------------------------


def ends_of(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the first and of the last token of each sequence that has tokens."""
    has_tokens = np.diff(offsets) > 0
    return offsets[:-1][has_tokens], offsets[1:][has_tokens] - 1


def allowed_transitions(
    spec: str | Mapping[Any, Iterable] | ArrayLike, labels: Sequence[Any]
) -> AllowedTransitions:
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
        return _transitions_of_scheme(spec, labels)
    if isinstance(spec, Mapping):
        return _listed_transitions(spec, labels)
    n_labels = len(labels)
    try:
        following = np.array(spec)
    except ValueError:
        following = np.zeros(0)
    if following.shape != (n_labels, n_labels) or not np.isin(following, (0, 1)).all():
        raise InputError(
            'allowed_transitions must be "BIO", "BIOES", a dict from a label to the labels that '
            f"may follow it, or a ({n_labels}, {n_labels}) matrix of True and False in the order "
            f"of the sorted labels, not {spec!r:.60}."
        )
    return _all_transitions(n_labels)._replace(following=following.astype(bool))


def _all_transitions(n_labels: int) -> AllowedTransitions:
    """Return constraints that allow everything."""
    return AllowedTransitions(
        following=np.ones((n_labels, n_labels), dtype=bool),
        first=np.ones(n_labels, dtype=bool),
        last=np.ones(n_labels, dtype=bool),
    )


def _listed_transitions(
    followers_of: Mapping[Any, Iterable], labels: Sequence[Any]
) -> AllowedTransitions:
    """Return the transitions of a dict from a label, or None, to the labels that may follow."""
    index = {label: k for k, label in enumerate(labels)}
    allowed = _all_transitions(len(labels))
    followers_allowed = dict(zip(labels, allowed.following))
    followers_allowed[None] = allowed.first
    for label, followers in followers_of.items():
        followers = list(followers)
        unknown = [other for other in followers if other not in index]
        if label not in followers_allowed:
            unknown = [label]
        if unknown:
            raise InputError(
                f"The allowed transitions name {unknown[0]!r}, which is not one of the "
                f"{len(labels)} labels, such as {', '.join(map(repr, labels[:3]))}."
            )
        row = followers_allowed[label]
        row[:] = False
        row[[index[other] for other in followers]] = True
    return allowed


def _transitions_of_scheme(name: str, labels: Sequence[Any]) -> AllowedTransitions:
    """Return the transitions between labels of a chunking scheme."""
    scheme = SCHEMES.get(ALIASES.get(name.upper(), name.upper()))
    if scheme is None:
        raise InputError(
            f"Unknown transitions {name!r}: choose BIO or BIOES, or give a dict or a matrix."
        )
    have_types = "B" not in labels and "I" not in labels
    split = [_kind_and_chunk(label, name, scheme.following, have_types) for label in labels]
    n_labels = len(labels)
    following = np.zeros((n_labels, n_labels), dtype=bool)
    for i, (kind, chunk) in enumerate(split):
        followers = scheme.following[kind]
        for j, (next_kind, next_chunk) in enumerate(split):
            is_same_chunk = next_kind.lower() in followers and chunk == next_chunk
            following[i, j] = next_kind in followers or is_same_chunk
    return AllowedTransitions(
        following=following,
        first=np.array([kind in scheme.first for kind, _ in split]),
        last=np.array([kind in scheme.last for kind, _ in split]),
    )


def _kind_and_chunk(
    label: Hashable, name: str, kinds: Mapping[str, str], have_types: bool
) -> tuple[str, str]:
    """Split ``B-PER`` into ``("B", "PER")``, and ``B`` without types into ``("B", "")``."""
    kind, dash, chunk = str(label).partition("-")
    if name.upper() == "BILOU":
        kind = SYNONYMS.get(kind, kind)
    needs_type = have_types and kind != "O"
    fits = bool(chunk) if needs_type else not dash
    if kind not in kinds or not fits:
        accepted = [f"{other}-X" if have_types and other != "O" else other for other in kinds]
        raise InputError(
            f"The label {label!r} is not in {name}, which has {', '.join(accepted)}: correct it, "
            "or choose other transitions."
        )
    return kind, chunk
