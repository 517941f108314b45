"""What kernels read of tokens: entries of dicts, or columns of an array, and which training inputs these belong to."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl.estimators.vocabulary import NUMBERS
from omkl.exceptions import InputError
from omkl.kernels import with_index
from omkl.kernels.inputs import Positions, Vectors, count_columns, format_on, take_columns

#: Tokens, one after the other: rows of an array or CSR matrix, dicts, or what :mod:`omkl.estimators.words` reads.
FlatTokens: TypeAlias = Vectors | list[Any]

#: The only view of inputs that are plain arrays.
PLAIN = "x"


class TrainingIndex(NamedTuple):
    """Which of the training inputs tokens are, in the order in which the user gave them.

    Attributes
    ----------
    rows : int array
        The index of each token.
    n_given : int
        The number of training inputs, those among them that are left out.
    """

    rows: np.ndarray
    n_given: int


class View(NamedTuple):
    """What a kernel reads of a token.

    Attributes
    ----------
    keys : tuple of str
        Entries of dicts, side by side; :data:`PLAIN` for rows of an array.
    columns : None, slice or tuple of int
        Columns of these.
    indexed : bool
        Whether the index among the training inputs is read too, as the first column.
    """

    keys: tuple[str, ...]
    columns: Positions
    indexed: bool = False

    @property
    def label(self) -> str:
        """Its name among the views of :class:`~omkl.groups.Tokens`."""
        columns = "" if self.columns is None else f"[{format_on(self.columns)}]"
        return "+".join(self.keys) + columns + (" of training inputs" if self.indexed else "")

    def width(self, shapes: Mapping[str, int]) -> int:
        """Number of columns, given those of the entries."""
        return count_columns(self.columns, sum(shapes[key] for key in self.keys))

    def select(self, raw: Mapping[str, Vectors], index: TrainingIndex | None) -> Vectors:
        """Its array, from those of the entries; without ``index`` tokens are no training inputs."""
        arrays = [raw[key] for key in self.keys]
        array = take_columns(arrays[0] if len(arrays) == 1 else np.hstack(arrays), self.columns)
        if not self.indexed:
            return array
        return with_index(array, np.full(len(array), -1) if index is None else index.rows)

    def column_name(self, i: int, shapes: Mapping[str, int], names: Sequence[str] | None) -> str:
        """What its column i is called: as in the data frame, by its place in the array, or by the entry of the dict."""
        j, columns = i, self.columns
        if columns is not None:
            j = range(sum(shapes[key] for key in self.keys))[columns][i] if isinstance(columns, slice) else columns[i]
        for key in self.keys:
            if j < shapes[key]:
                break
            j -= shapes[key]
        if key == PLAIN and names is not None:
            return str(names[j])
        entry = key != PLAIN and (shapes[key] == 1 or len(self.keys) > 1)
        return str(j) if not entry else key if shapes[key] == 1 else f"{key}[{j}]"

    def check_index(self, name: str, shapes: Mapping[str, int], index: TrainingIndex | None) -> None:
        """Raise where a kernel that compares inputs by their index is not given values against all training inputs."""
        if index is None:
            raise InputError(
                f"The kernel {name!r} is precomputed, so that all training inputs must be at hand: use fit on arrays, "
                "not partial_fit or a stream."
            )
        width = self.width(shapes)
        if width != index.n_given:
            raise InputError(
                f"The kernel {name!r} is precomputed, so that it needs a square matrix of all training inputs, not "
                f"{(index.n_given, width)}."
            )


def shapes_of_first(tokens: FlatTokens) -> dict[str, int]:
    """Number of columns of every view: of the whole array, or of each vector in the first of the dicts."""
    if not isinstance(tokens, list):
        return {PLAIN: tokens.shape[1]}
    first = tokens[0] if isinstance(tokens[0], dict) else {}
    return {key: np.size(value) for key, value in first.items() if _is_vector(value)}


def _is_vector(value: Any) -> bool:
    """Whether this is an array, or what JSON has for one: a list of numbers."""
    is_list = isinstance(value, (list, tuple)) and len(value) > 0
    return isinstance(value, np.ndarray) or (is_list and all(isinstance(part, NUMBERS) for part in value))


def is_number_in(tokens: Any, key: str) -> bool:
    """Whether the first of the dicts that have this key have a number there."""
    return isinstance(next((token[key] for token in tokens if isinstance(token, dict) and key in token), None), NUMBERS)


def stacked(tokens: list[dict[str, Any]], key: str, n_columns: int) -> np.ndarray:
    """The arrays, or numbers, under one key of all tokens, (N, n_columns), checked."""
    try:
        view = np.array([token[key] for token in tokens], dtype=np.float64)
    except (KeyError, ValueError, TypeError):
        held = "a number" if n_columns == 1 else f"an array of {n_columns} numbers"
        raise InputError(f"Every token must hold {held} under {key!r}.") from None
    view = view[:, None] if view.ndim == 1 else view
    if view.shape != (len(tokens), n_columns):
        raise InputError(
            f"Arrays under {key!r} have shape {view.shape[1:]}: there must be {n_columns} numbers in each."
        )
    if not np.isfinite(view).all():
        raise InputError(f"An array under {key!r} holds nan or infinite values: features must be finite.")
    return view
