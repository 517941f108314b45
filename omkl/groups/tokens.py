"""Encoded tokens of sequences, the input of groups."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import sparse

from omkl._pointers import Packed
from omkl.groups._jit_explicit import FEATURES, FeaturesOfTokens


class Features(NamedTuple):
    """Sparse features of tokens as CSR: token ``i`` has ``ids[starts[i]:starts[i+1]]`` with these
    ``values``.

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
        kept = chosen[self.ids]
        counts = np.concatenate([[0], np.cumsum(kept)])
        return Features(counts[self.starts], self.ids[kept], self.values[kept])


def gathered_rows(bounds: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put rows one after the other: return their new bounds, and the old places of their entries.

    Row ``i`` has the entries ``bounds[i] : bounds[i + 1]``.
    """
    lengths = np.diff(bounds)[chosen]
    new = np.concatenate([[0], np.cumsum(lengths)])
    return new, np.repeat(bounds[chosen] - new[:-1], lengths) + np.arange(new[-1])


def runs_within(bounds: np.ndarray, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each run of rows with up to ``limit`` entries, or of one
    longer row.
    """
    first = 0
    while first < len(bounds) - 1:
        last = max(int(np.searchsorted(bounds, bounds[first] + limit, side="right")) - 1, first + 1)
        yield first, last
        first = last


#: Tokens without features.
NO_FEATURES = Features(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))


def features_of(parts: list[np.ndarray | sparse.sparray]) -> Features:
    """Concatenate the features of several kernels, arrays or sparse matrices, per token."""
    if any(map(sparse.issparse, parts)):
        csr = sparse.hstack(list(map(sparse.csr_array, parts)), format="csr")
        return Features(
            csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(np.float64)
        )
    matrix = parts[0] if len(parts) == 1 else np.hstack(parts)
    if len(matrix) == 1:  # the same in fewer calls
        (ids,) = np.nonzero(matrix[0])
        return Features(
            np.array([0, len(ids)]),
            ids.astype(np.int32),
            matrix[0][ids].astype(np.float64, copy=False),
        )
    kept, (n, width) = matrix != 0.0, matrix.shape
    if kept.all():  # the same in less time and memory
        ids = np.tile(np.arange(width, dtype=np.int32), n)
        return Features(
            width * np.arange(n + 1), ids, matrix.ravel().astype(np.float64, copy=False)
        )
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
    ids = (np.flatnonzero(kept) % width).astype(np.int32)
    return Features(starts, ids, matrix[kept].astype(np.float64, copy=False))


def side_by_side(left: Features, right: Features) -> Features:
    """Concatenate two sets of features per token; ids are not changed."""
    ids, values = map(np.concatenate, zip(left[1:], right[1:]))
    if len(left.starts) > 2:  # the features of several tokens are sorted by token
        owners = [
            np.repeat(np.arange(len(part.starts) - 1), np.diff(part.starts))
            for part in (left, right)
        ]
        order = np.argsort(np.concatenate(owners), kind="stable")
        ids, values = ids[order], values[order]
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
            self.n_features = (
                0 if self.features is None else int(self.features.ids.max(initial=-1)) + 1
            )

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
            starts = np.ascontiguousarray(features.starts, dtype=np.int64)
            ids = np.ascontiguousarray(features.ids, dtype=np.int32)
            values = np.ascontiguousarray(features.values, dtype=np.float64)
            self._packed = packed = FEATURES.pack(FeaturesOfTokens(starts, ids, values))
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
        low, high = int(self.offsets[first]), int(self.offsets[last])
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
