"""Encoded tokens of sequences, the input of groups."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Features(NamedTuple):
    """Sparse features of tokens as CSR: token ``i`` has ``ids[starts[i]:starts[i+1]]`` with these ``values``.

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

    def __post_init__(self) -> None:
        # compiled loops do not check bounds, so banks compare n_features with the size of their table
        if self.n_features < 0:
            self.n_features = 0 if self.features is None else int(self.features.ids.max(initial=-1)) + 1

    def __len__(self):
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences."""
        return int(self.offsets[-1])

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
        lengths = np.diff(self.offsets)[sequences]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.repeat(self.offsets[sequences] - offsets[:-1], lengths) + np.arange(offsets[-1])
        features = self.features
        if features is not None:
            counts = np.diff(features.starts)[tokens]
            starts = np.concatenate([[0], np.cumsum(counts)])
            entries = np.repeat(features.starts[tokens] - starts[:-1], counts) + np.arange(starts[-1])
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
