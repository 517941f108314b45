"""Validation and flattening of sequences and labels, and ChainOutputs."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl.data import Stream
from omkl.data.blocks import Names, is_frame, n_rows
from omkl.data.frames import LARGEST, column_names
from omkl.data.table_reading import TrainingColumns, read_table
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.targets import Classes, Labels, Outputs, learn_labels
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import InputError
from omkl.features.views import FlatTokens, TokenData
from omkl.features.vocabulary import AttributeLists, flattened
from omkl.features.words import Words
from omkl.groups.tables import TransitionBank, TrigramBank
from omkl.sequences.transitions import Transitions
from omkl.structures.chain import Chain, allowed_transitions

#: Sequences of users: lists of words, dicts or attributes, arrays, data frames; or a stream.
Sequences: TypeAlias = Collection | Stream | Iterator
#: Labels of each sequence; None is an unknown label.
LabelSequences: TypeAlias = Collection[Collection | None] | None


def read_sequences(block: TrainingBlock, names: Names, labeled: bool = True) -> TokenData:
    """Validate and flatten sequences, and their labels and weights.

    ``names`` is the order of the columns of data frames; None takes that of the first sequence.
    """
    if names is None:
        names = names_in(block.X)
    tokens, offsets = flatten(block.X, names)
    lengths = np.diff(offsets)
    labels = []
    if labeled:
        if not lengths.all():
            raise InputError(f"Sequence {int(np.argmin(lengths))} of X is empty.")
        labels = flat_labels(block.y, lengths)
    weights = check_sample_weight(block.sample_weight, len(lengths))
    return TokenData(tokens, offsets, labels, weights, names=names)


# ---- labels --------------------------------------------------------------------------------------


def flat_labels(y: LabelSequences, lengths: np.ndarray, name: str = "y") -> list:
    """Flatten the labels of all tokens to a list, and check the lengths of sequences."""
    if not isinstance(y, Collection) or isinstance(y, (str, bytes, dict)) or len(y) != len(lengths):
        raise InputError(
            f"{name} must have a sequence of labels for each of the {len(lengths)} sequences of X."
        )
    flat: list = []
    for i, (labels, length) in enumerate(zip(y, lengths)):
        if (
            not isinstance(labels, Collection)
            or isinstance(labels, (dict, set, frozenset))
            or len(labels) != length
        ):
            raise InputError(
                f"Sequence {i} of {name} must be a list of {length} labels, got {labels!r:.80}."
            )
        flat.extend(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    return flat


def possible_labels(labels: LabelSequences, lengths: np.ndarray, codes: Labels) -> np.ndarray:
    """Convert constraints to a mask (N, K) of the possible labels of each token.

    The constraint of a token is None, a label, or a set of labels.
    """
    flat = flat_labels(labels, lengths, "labels")
    possible = np.ones((len(flat), len(codes)), dtype=bool)
    for row, constraint in zip(possible, flat):
        choices = constraint if isinstance(constraint, set) else {constraint}
        if None not in choices:
            row[:] = False
            row[codes.encode(choices)] = True
    return possible


class PartialLabels(Labels):
    """Label set in which None, with code -1, is an unknown label."""

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        super().__init__(seen, grows)
        self._index[None] = -1

    def add(self, labels: Iterable) -> int:
        """Add new labels, except None, and return their number."""
        return super().add(label for label in labels if label is not None)


class ChainOutputs(Outputs[Labels, Chain]):
    """One label for every token of a sequence.

    See :class:`~omkl.SequenceLabeler` for the parameters.
    """

    single = False
    codes = PartialLabels

    def __init__(self, transitions: Transitions, cost: ArrayLike | None, classes: Classes) -> None:
        self._transitions = transitions.scores
        self._cost = cost
        self._classes = classes
        self._allowed = transitions.allowed
        self._by_position = transitions.by_position
        self._order = transitions.order

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """Learn the codes from the known labels of the first data."""
        seen = [label for label in labels if label is not None]
        if not seen and self._classes is None:
            raise InputError("y must hold a label other than None.")
        return learn_labels(PartialLabels, seen, self._classes, self._cost)

    def structure(self, codes: Labels) -> Chain:
        """Make the chain over these labels."""
        allowed = None
        if self._allowed is not None:
            allowed = allowed_transitions(self._allowed, codes.labels)
        has_transitions = self._transitions is not None
        return Chain(
            len(codes), self._cost, self._by_position, has_transitions, allowed, self._order
        )

    def check(self, structure: Chain, codes: Labels, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an InputError if labels break the allowed transitions, or unknown ones have to."""
        if structure.allowed is None:
            return
        token = structure.allowed.first_violation(gold, offsets)
        if token is not None:
            s = _sequence_of(token, offsets)
            label = codes.labels[gold[token]]
            raise InputError(
                f"The allowed transitions forbid {label!r} at token {token - offsets[s]} "
                f"of sequence {s} of y."
            )
        if structure.is_partial(gold):
            possible = (gold[:, None] < 0) | (gold[:, None] == np.arange(len(codes)))
            potentials = structure.agreeing(structure.zeros(len(gold)), possible)
            decoded = structure.decode_many(potentials, offsets)
            check_feasible(structure, decoded, offsets, possible)

    def banks(self, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Make the banks of scores of several labels; return regularized and unregularized ones."""
        if self._transitions is None:
            return [], []
        banks = self._banks(n_outputs, longest, averaging)
        if self._transitions == "regularized":
            return banks, []
        return [], banks

    def _banks(self, n_labels: int, longest: int, averaging: bool) -> list:
        """Make the banks of scores of several labels."""
        n_positions = longest if self._by_position else 1
        banks: list = [TransitionBank(n_labels, n_positions, averaging)]
        if self._order == 2:
            banks.append(TrigramBank(n_labels, averaging))
        return banks


def check_feasible(
    structure: Chain, codes: np.ndarray, offsets: np.ndarray, possible: np.ndarray | None = None
) -> None:
    """Raise InputError if the decoded labels (N,) break the constraints.

    Then no labelling satisfies them. ``possible`` (N, K) is a mask of the possible labels of each
    token.
    """
    violations = []
    if structure.allowed is not None:
        forbidden = structure.allowed.first_violation(codes, offsets)
        if forbidden is not None:
            violations.append(forbidden)
    if possible is not None:
        is_impossible = ~possible[np.arange(len(codes)), codes]
        if is_impossible.any():
            violations.append(int(np.argmax(is_impossible)))
    if violations:
        s = _sequence_of(min(violations), offsets)
        raise InputError(
            f"Sequence {s} has no labelling that the allowed transitions and the given labels "
            "allow."
        )


def _sequence_of(token: int, offsets: np.ndarray) -> int:
    """Return the index of the sequence of a token."""
    return int(np.searchsorted(offsets, token, side="right")) - 1


# ---- tokens --------------------------------------------------------------------------------------


class TokenKind(NamedTuple):
    """Kind of the tokens of all sequences.

    Attributes
    ----------
    token : type
        Class of a token.
    collection : type
        Class of a collection of tokens.
    plural : str
        Plural noun, for messages.
    """

    token: Any
    collection: Any
    plural: str


DICTS = TokenKind(dict, list, "dicts")
WORDS = TokenKind(str, Words, "words")
TUPLES = TokenKind(tuple, list, "tuples")
ATTRIBUTE_LISTS = TokenKind(list, AttributeLists, "lists of attributes")


def names_in(X: Sequences) -> list[str] | None:
    """Return the column names of the first sequence if it is a data frame, else None."""
    return column_names(next(iter(X), None)) if isinstance(X, Collection) else None


def flatten(X: Sequences, names: Names = None) -> tuple[FlatTokens, np.ndarray]:
    """Concatenate the tokens of all sequences; return the tokens and the offsets of the sequences.

    ``names`` is the order of the columns of data frames, by default that of the first data frame.
    """
    if isinstance(X, (str, bytes, dict)) or is_frame(X) or not isinstance(X, Collection):
        raise InputError(
            "X must be a list of sequences: lists of words or dicts, arrays or data frames."
        )
    # the usual cases in fewer steps: they take as long as the features of a sentence
    if set(map(type, X)) == {list}:
        tokens: list[Any] = list(chain.from_iterable(X))
        classes = set(map(type, tokens))
        if classes == {str}:
            return Words(tokens), _offsets(map(len, X))
        if classes == {dict}:
            return flattened(tokens), _offsets(map(len, X))
    if names is None:
        names = names_in(X)
    sequences = [_checked_sequence(sequence, i, names) for i, sequence in enumerate(X)]
    offsets = _offsets(map(n_rows, sequences))
    if not offsets[-1]:
        raise InputError("X must hold at least one token.")
    kind = None if any(map(sparse.issparse, sequences)) else _kind_of_tokens(sequences)
    if kind is None:
        return _stacked(sequences), offsets
    tokens = kind.collection(chain.from_iterable(sequences))
    _check_tokens(tokens, kind, offsets)
    if kind is TUPLES:  # each position is a column
        tokens = [{str(j): value for j, value in enumerate(token)} for token in tokens]
    if kind is DICTS and names is None:
        tokens = flattened(tokens)
    return tokens, offsets


def _offsets(lengths: Iterable[int]) -> np.ndarray:
    """Return the offsets (number of sequences + 1,) of sequences of these lengths."""
    return np.array([0, *accumulate(lengths)], dtype=np.int64)


def _checked_sequence(sequence: Iterable, i: int, names: Names) -> Any:
    """Check sequence i, and convert a data frame, whose columns get the order of ``names``."""
    is_no_list = isinstance(sequence, (str, bytes, dict, set, frozenset))
    if is_no_list or not isinstance(sequence, Iterable):
        raise InputError(
            f"Sequence {i} of X must be a list of tokens or an array, got {sequence!r:.40}."
        )
    if type(sequence) is list:
        return sequence
    if is_frame(sequence) and not n_rows(sequence):
        return []
    columns = TrainingColumns(names=names)
    return read_table(sequence, columns, f"Sequence {i} of X").values


def _check_tokens(tokens: list, kind: TokenKind, offsets: np.ndarray) -> None:
    """Raise an InputError unless all tokens are of a kind; tuples must have the same length."""
    width = None
    noun = kind.plural
    if kind is TUPLES:
        width = len(tokens[0])
        noun = f"{noun} of {width} values"
    for i, token in enumerate(tokens):
        if not isinstance(token, kind.token) or width not in (None, len(token)):
            s = _sequence_of(i, offsets)
            place = f"token {i - offsets[s]} of sequence {s}"
            raise InputError(f"Tokens must all be {noun}, got {token!r:.40} at {place}.")


def _kind_of_tokens(sequences: list) -> TokenKind | None:
    """Return the kind of tokens, None for numeric ones."""
    for token in chain.from_iterable(sequences):
        if isinstance(token, dict):
            return DICTS
        if isinstance(token, str):
            return WORDS
        if isinstance(token, tuple) and any(isinstance(value, str) for value in token):
            return TUPLES
        if not isinstance(token, list) or (token and not isinstance(token[0], (str, tuple))):
            return None
        if token:
            break
    # lists of attributes may be empty
    return ATTRIBUTE_LISTS


def _stacked(sequences: list) -> np.ndarray | sparse.csr_array:
    """Validate arrays or sparse matrices of numbers, and stack their rows."""
    arrays: list[Any] = []
    for i, sequence in enumerate(sequences):
        if n_rows(sequence):
            try:
                make = sparse.csr_array if sparse.issparse(sequence) else np.asarray
                arrays.append(make(sequence, dtype=np.float64))
            except (ValueError, TypeError):
                raise InputError(f"Sequence {i} of X must be an array of numbers.") from None
    shapes = {array.shape[1:] for array in arrays}
    shape, *others = shapes
    if others or len(shape) != 1 or shape == (0,):
        raise InputError(
            "The sequences of X must all have the shape (n, d), "
            f"got tokens of shapes {sorted(shapes)}."
        )
    if any(map(sparse.issparse, arrays)):
        tokens = sparse.vstack(list(map(sparse.csr_array, arrays)), format="csr")
        numbers = tokens.data
    else:  # predictions must not depend on the memory order of the input
        tokens = np.ascontiguousarray(np.concatenate(arrays))
        numbers = tokens
    if not (np.abs(numbers) <= LARGEST).all():
        raise InputError(f"X must hold finite numbers up to {LARGEST:g}.")
    return tokens
