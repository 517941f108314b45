"""Validation and flattening of sequences and labels, and ChainOutputs."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from omkl.data import Stream
from omkl.data.blocks import align_columns, is_frame, n_rows
from omkl.data.frames import LARGEST, column_names
from omkl.data.table_columns import read_frame
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.targets import Labels, Outputs, learn_labels
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import InputError
from omkl.features.views import FlatTokens, TokenData
from omkl.features.vocabulary import AttributeLists, flattened
from omkl.features.words import Words
from omkl.groups.tables import TransitionBank, TrigramBank
from omkl.structures.chain import Chain, allowed_transitions

#: Sequences as given by users: lists of words, dicts or attributes, arrays, data frames; or a
#: stream.
Sequences: TypeAlias = Collection | Stream | Iterator
#: Labels of each sequence; None is an unknown label.
LabelSequences: TypeAlias = Collection[Collection | None] | None


def read_sequences(
    block: TrainingBlock, names: Sequence[str] | None, labeled: bool = True
) -> TokenData:
    """Validate and flatten sequences, and their labels; ``names`` is the order of the columns of
    data frames.
    """
    names = names_in(block.X) if names is None else names
    tokens, offsets = flatten(block.X, names)
    lengths = np.diff(offsets)
    if labeled and not lengths.all():
        raise InputError(f"Sequence {int(np.argmin(lengths))} of X is empty.")
    labels = flat_labels(block.y, lengths) if labeled else []
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


def possible_labels(labels: LabelSequences, lengths: np.ndarray, known: Labels) -> np.ndarray:
    """Convert constraints, None, a label or a set of labels per token, to a mask (N, K) of possible
    labels.
    """
    flat = flat_labels(labels, lengths, "labels")
    possible = np.ones((len(flat), len(known)), dtype=bool)
    for row, label in zip(possible, flat):
        choices = label if isinstance(label, set) else {label}
        if None not in choices:
            row[:] = False
            row[known.encode(choices)] = True
    return possible


class PartialLabels(Labels):
    """Label set in which None, with code -1, is an unknown label."""

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        super().__init__(seen, grows)
        self._index[None] = -1

    def add(self, labels: Iterable) -> int:
        """Add new labels, except None, and return their number."""
        return super().add(label for label in labels if label is not None)


class ChainOutputs(Outputs):
    """One label for every token of a sequence; see :class:`~omkl.SequenceLabeler` for the
    parameters.
    """

    single = False
    codes = PartialLabels

    def __init__(self, labeler: Any, classes: Sequence | str | None) -> None:
        if labeler.transitions_by_position and labeler.transitions is None:
            raise InputError("transitions_by_position must be False with transitions=None.")
        self._transitions, self._cost, self._classes = labeler.transitions, labeler.cost, classes
        self._allowed = labeler.allowed_transitions
        self._by_position, self._order = labeler.transitions_by_position, labeler.order

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """Learn the codes from the known labels of the first data."""
        given = [label for label in labels if label is not None]
        if not given and self._classes is None:
            raise InputError("y must hold a label other than None.")
        return learn_labels(PartialLabels, given, self._classes, self._cost)

    def structure(self, known: Labels) -> Chain:
        """Make the chain over these labels."""
        allowed = (
            None if self._allowed is None else allowed_transitions(self._allowed, known.members)
        )
        return Chain(
            len(known),
            self._cost,
            self._by_position,
            self._transitions is not None,
            allowed,
            self._order,
        )

    def check(self, structure: Chain, known: Labels, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an InputError if labels break the allowed transitions, or unknown labels cannot be
        filled in.
        """
        if structure.allowed is None:
            return
        at = structure.allowed.first_violation(gold, offsets)
        if at is not None:
            s = _sequence_of(at, offsets)
            label, token = known.members[gold[at]], at - offsets[s]
            raise InputError(
                f"allowed_transitions forbids {label!r} at token {token} of sequence {s} of y."
            )
        if structure.is_partial(gold):
            possible = (gold[:, None] < 0) | (gold[:, None] == np.arange(len(known)))
            decoded = structure.decode_many(
                structure.agreeing(structure.zeros(len(gold)), possible), offsets
            )
            check_feasible(structure, decoded, offsets, possible)

    def banks(
        self, structure: Any, n_outputs: int, longest: int, averaging: bool
    ) -> tuple[list, list]:
        """Make the banks of scores of several labels: lists of regularized and of unregularized
        ones.
        """
        banks = [] if self._transitions is None else self._banks(n_outputs, longest, averaging)
        return (banks, []) if self._transitions == "regularized" else ([], banks)

    def _banks(self, n_labels: int, longest: int, averaging: bool) -> list:
        banks: list = [TransitionBank(n_labels, longest if self._by_position else 1, averaging)]
        return [*banks, TrigramBank(n_labels, averaging)] if self._order == 2 else banks


def check_feasible(
    structure: Chain, codes: np.ndarray, offsets: np.ndarray, possible: np.ndarray | None = None
) -> None:
    """Raise InputError if the decoded labels break the constraints: then no labelling satisfies
    them.

    ``possible`` (N, K) is a mask of the possible labels of each token.
    """
    places = (
        [] if structure.allowed is None else [structure.allowed.first_violation(codes, offsets)]
    )
    if possible is not None:
        wrong = ~possible[np.arange(len(codes)), codes]
        places.append(int(np.argmax(wrong)) if wrong.any() else None)
    broken = [place for place in places if place is not None]
    if broken:
        s = _sequence_of(min(broken), offsets)
        raise InputError(
            f"Sequence {s} has no labelling that allowed_transitions and the given labels allow."
        )


def _sequence_of(token: int, offsets: np.ndarray) -> int:
    """Return the index of the sequence of a token."""
    return int(np.searchsorted(offsets, token, side="right")) - 1


# ---- tokens --------------------------------------------------------------------------------------


def names_in(X: Sequences) -> list[str] | None:
    """Return the column names of the first sequence if it is a data frame, else None."""
    return column_names(next(iter(X), None)) if isinstance(X, Collection) else None


def flatten(X: Sequences, names: Sequence[str] | None = None) -> tuple[FlatTokens, np.ndarray]:
    """Concatenate the tokens of all sequences; return the tokens and the offsets of the sequences.

    ``names`` is the order of the columns of data frames, by default that of the first data frame.
    """
    if isinstance(X, (str, bytes, dict)) or is_frame(X) or not isinstance(X, Collection):
        raise InputError(
            "X must be a list of sequences: lists of words or dicts, arrays or data frames."
        )
    if set(map(type, X)) == {
        list
    }:  # the usual case in fewer steps: they take as long as the features of a sentence
        tokens: list[Any] = list(chain.from_iterable(X))
        kinds = set(map(type, tokens))
        if kinds in ({str}, {dict}):
            offsets = np.array([0, *accumulate(map(len, X))], dtype=np.int64)
            return Words(tokens) if kinds == {str} else flattened(tokens), offsets
    names = names_in(X) if names is None else names
    sequences = list[Any]()
    for i, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes, dict, set, frozenset)) or not isinstance(
            sequence, Iterable
        ):
            raise InputError(
                f"Sequence {i} of X must be a list of tokens or an array, got {sequence!r:.40}."
            )
        if type(sequence) is not list:
            sequence = read_frame(
                align_columns(sequence, column_names(sequence), names, f"Sequence {i} of X")
            )
        sequences.append(sequence)
    offsets = np.array([0, *accumulate(map(n_rows, sequences))], dtype=np.int64)
    if not offsets[-1]:
        raise InputError("X must hold at least one token.")
    kind = None if any(map(sparse.issparse, sequences)) else _kind_of_tokens(sequences)
    if kind is None:
        return _stacked(sequences), offsets
    own, collection, noun = kind
    tokens = collection(chain.from_iterable(sequences))
    width = len(tokens[0]) if own is tuple else None
    noun = noun if width is None else f"{noun} of {width} values"
    for i, token in enumerate(tokens):
        if not isinstance(token, own) or width not in (None, len(tokens[i])):
            s = _sequence_of(i, offsets)
            at = f"token {i - offsets[s]} of sequence {s}"
            raise InputError(f"Tokens must all be {noun}, got {token!r:.40} at {at}.")
    if own is tuple:  # columns
        tokens = [{str(j): value for j, value in enumerate(token)} for token in tokens]
    return flattened(tokens) if own is dict and names is None else tokens, offsets


def _kind_of_tokens(sequences: list) -> tuple[type, type, str] | None:
    """Return class of tokens, class of a collection of tokens, and plural noun; None for numeric
    tokens.
    """
    for token in chain.from_iterable(sequences):
        if isinstance(token, dict):
            return dict, list, "dicts"
        if isinstance(token, str):
            return str, Words, "words"
        if isinstance(token, tuple) and any(isinstance(value, str) for value in token):
            return tuple, list, "tuples"
        if not isinstance(token, list) or (token and not isinstance(token[0], (str, tuple))):
            return None
        if token:
            break
    # lists of attributes may be empty
    return list, AttributeLists, "lists of attributes"


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
    if len(shapes) > 1 or len(*shapes) != 1 or shapes == {(0,)}:
        raise InputError(
            f"The sequences of X must all have the shape (n, d), got tokens of shapes {sorted(shapes)}."
        )
    if any(map(sparse.issparse, arrays)):
        tokens = sparse.vstack(list(map(sparse.csr_array, arrays)), format="csr")
    else:  # predictions must not depend on the memory order of the input
        tokens = np.ascontiguousarray(np.concatenate(arrays))
    if not (np.abs(tokens.data if sparse.issparse(tokens) else tokens) <= LARGEST).all():
        raise InputError(f"X must hold finite numbers up to {LARGEST:g}.")
    return tokens
