"""Encoded tokens of sequences, the input of groups."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import sparse

from omkl._pointers import Packed
from omkl.groups._jit_explicit import FEATURES, FeaturesOfTokens, point_to


class Features(NamedTuple):
    """Sparse features of tokens as CSR: token ``i`` has ``ids[starts[i] : starts[i + 1]]``.

    Parameters
    ----------
    starts : int64 array
    ids : int32 array
        Feature ids >= 0.
    values : float64 array
    """

    starts: np.ndarray
    ids: np.ndarray
    values: np.ndarray

    def only(self, chosen: np.ndarray) -> "Features":
        """Copy the features that a mask of all feature ids has chosen; ids are not changed."""
        is_chosen = chosen[self.ids]
        counts = np.concatenate([[0], np.cumsum(is_chosen)])
        return Features(counts[self.starts], self.ids[is_chosen], self.values[is_chosen])


def gathered_rows(bounds: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put rows one after the other: return their new bounds, and the old places of their entries.

    Row ``i`` has the entries ``bounds[i] : bounds[i + 1]``.
    """
    lengths = np.diff(bounds)[chosen]
    new_bounds = np.concatenate([[0], np.cumsum(lengths)])
    shifts = np.repeat(bounds[chosen] - new_bounds[:-1], lengths)
    return new_bounds, shifts + np.arange(new_bounds[-1])


def runs_within(bounds: np.ndarray, limit: int) -> Iterator[tuple[int, int]]:
    """Yield first row and end of runs of rows with up to ``limit`` entries, or one longer row."""
    first = 0
    while first < len(bounds) - 1:
        end = int(np.searchsorted(bounds, bounds[first] + limit, side="right")) - 1
        end = max(end, first + 1)
        yield first, end
        first = end


#: Tokens without features.
NO_FEATURES = Features(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))


def features_of(blocks: list[np.ndarray | sparse.sparray]) -> Features:
    """Concatenate the features of several kernels, arrays or sparse matrices, per token."""
    if any(map(sparse.issparse, blocks)):
        csr = sparse.hstack(list(map(sparse.csr_array, blocks)), format="csr")
        return Features(
            starts=csr.indptr.astype(np.int64),
            ids=csr.indices.astype(np.int32),
            values=csr.data.astype(np.float64),
        )
    matrix = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    n_tokens, width = matrix.shape
    if n_tokens == 1:  # the same in fewer calls
        ids = matrix[0].nonzero()[0]
        starts = np.array([0, len(ids)])
        values = matrix[0][ids]
    elif np.count_nonzero(matrix) == matrix.size:  # the same in less time and memory
        starts = width * np.arange(n_tokens + 1)
        ids = np.tile(np.arange(width, dtype=np.int32), n_tokens)
        values = matrix.ravel()
    else:
        is_nonzero = matrix != 0.0
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(is_nonzero, axis=1))])
        ids = np.flatnonzero(is_nonzero) % width
        values = matrix[is_nonzero]
    return Features(starts, ids.astype(np.int32, copy=False), values.astype(np.float64, copy=False))


def side_by_side(left: Features, right: Features) -> Features:
    """Concatenate two sets of features per token; ids are not changed."""
    if not len(right.ids):
        return left
    ids = np.concatenate([left.ids, right.ids])
    values = np.concatenate([left.values, right.values])
    n_tokens = len(left.starts) - 1
    if n_tokens > 1:  # the features of several tokens are sorted by token
        tokens = np.arange(n_tokens)
        token_of_left = np.repeat(tokens, np.diff(left.starts))
        token_of_right = np.repeat(tokens, np.diff(right.starts))
        order = np.argsort(np.concatenate([token_of_left, token_of_right]), kind="stable")
        ids = ids[order]
        values = values[order]
    return Features(left.starts + right.starts, ids, values)


@dataclass(slots=True, eq=False)
class Tokens:
    """Concatenated tokens of sequences; a plain classification input is a sequence of one token.

    Parameters
    ----------
    offsets : int array of shape (number of sequences + 1,)
        Sequence ``s`` holds the tokens ``offsets[s] : offsets[s + 1]``.
    features : Features or None
        Explicit features, for :class:`~omkl.groups.ExplicitBank`.
    views : dict of str to array (number of tokens, d)
        Dense inputs of kernels, by the name of the view.
    n_features : int
        Upper bound of feature ids (exclusive); computed if negative.
    """

    offsets: np.ndarray
    features: Features | None = None
    views: dict[str, np.ndarray] = field(default_factory=dict)
    n_features: int = -1
    _packed: Packed | None = None

    def __post_init__(self) -> None:
        # compiled loops do not check bounds, so banks compare n_features with the size of their
        # table
        if self.n_features < 0:
            self.n_features = 0
            if self.features is not None:
                self.n_features = int(np.maximum.reduce(self.features.ids, initial=-1)) + 1

    def __len__(self):
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences."""
        return int(self.offsets[-1])

    def packed_features(self) -> Packed:
        """Return the features for compiled functions; hold it as long as its address is in use."""
        packed = self._packed
        if packed is None:
            features = NO_FEATURES if self.features is None else self.features
            arrays = FeaturesOfTokens(
                starts=np.ascontiguousarray(features.starts, dtype=np.int64),
                ids=np.ascontiguousarray(features.ids, dtype=np.int32),
                values=np.ascontiguousarray(features.values, dtype=np.float64),
            )
            block = np.empty(FEATURES.size, dtype=np.int64)
            point_to(block, *arrays)
            self._packed = packed = Packed(FEATURES, block, arrays)
        return packed

    def sequence(self, s: int) -> "Span":
        """Select one sequence.

        Parameters
        ----------
        s : int
        """
        return Span(self, self.offsets.item(s), self.offsets.item(s + 1))

    def everything(self) -> "Span":
        """Return all sequences as one block of tokens."""
        return Span(self, 0, self.n_tokens)

    def only(self, sequences: np.ndarray) -> "Tokens":
        """Copy some of the sequences.

        Parameters
        ----------
        sequences : int array
        """
        offsets, tokens = gathered_rows(self.offsets, sequences)
        features = self.features
        if features is not None:
            starts, entries = gathered_rows(features.starts, tokens)
            features = Features(starts, features.ids[entries], features.values[entries])
        views = {name: view[tokens] for name, view in self.views.items()}
        return Tokens(offsets, features, views, self.n_features)

    def block(self, first: int, last: int) -> "Tokens":
        """Select the sequences ``first .. last - 1``, sharing memory.

        Parameters
        ----------
        first, last : int
        """
        low = int(self.offsets[first])
        high = int(self.offsets[last])
        features = self.features
        if features is not None:
            features = Features(features.starts[low : high + 1], features.ids, features.values)
        views = {name: view[low:high] for name, view in self.views.items()}
        return Tokens(self.offsets[first : last + 1] - low, features, views, self.n_features)


@dataclass(slots=True, eq=False)
class Span:
    """The tokens ``low : high`` of ``tokens``.

    Parameters
    ----------
    tokens : Tokens
    low, high : int
    """

    tokens: Tokens
    low: int
    high: int

    def __len__(self):
        return self.high - self.low
