"""Blocks of examples, and operations on rows of arrays, sparse matrices, lists and treebanks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from numbers import Number
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._messages import listed, shown
from omkl.exceptions import InputError

#: Inputs or outputs of several examples.
AnyRows: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix | Sequence


class Block(NamedTuple("_Pair", [("X", Any), ("y", Any)])):
    """Consecutive examples of a stream: a pair ``(X, y)``.

    Attributes
    ----------
    X : array of shape (n, d), scipy CSR matrix, list of n inputs, or Treebank of n sentences
    y : array of shape (n, ...), list of n outputs, or None
        None if there are no outputs, or if X contains them, as treebanks do.
    feature_names : sequence of d str, or None
        Names of the columns of X.

    >>> Block([{"word": "a"}, {"word": "b"}], [0, 1]).n_examples
    2
    """

    feature_names: Sequence[str] | None = None

    def __new__(
        cls, X: AnyRows, y: AnyRows | None = None, feature_names: Sequence[str] | None = None
    ) -> Self:
        block = tuple.__new__(cls, (X, y))  # faster than the constructor of the named tuple
        if feature_names is not None:
            block.feature_names = feature_names
        return block

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return n_rows(self.X)

    def with_outputs(self, y: AnyRows | None) -> "Block":
        """Return the same inputs with other outputs.

        Parameters
        ----------
        y : array of shape (n, ...), list of n outputs, or None
        """
        return Block(self.X, y, self.feature_names)

    def aligned(self, names: Sequence[str] | None, where: str) -> "Block":
        """Select and order columns by name.

        Parameters
        ----------
        names : sequence of str or None
            None keeps the columns unchanged. Blocks without feature names are not changed either.
        where : str
            Name of the block in the message.

        Returns
        -------
        Block

        Raises
        ------
        omkl.exceptions.InputError
            If a column is missing.
        """
        if names is None or self.feature_names is None or list(names) == list(self.feature_names):
            return self
        return Block(align_columns(self.X, self.feature_names, names, where), self.y, names)


def n_rows(X: Any) -> int:
    """Number of rows."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def is_frame(X: object) -> bool:
    """Tell whether X is a data frame of pandas or polars."""
    return hasattr(X, "to_numpy") and hasattr(X, "columns") and hasattr(X, "dtypes")


def is_collection(*values: object) -> bool:
    """Tell whether one of these values is a Dask collection."""
    return any(hasattr(value, "__dask_graph__") for value in values)


def align_columns(
    X: Any, names: Sequence[str] | None, known: Sequence[str] | None, where: str = "The input"
) -> Any:
    """Select and order the columns ``known`` of X, whose columns are ``names``; None for either
    keeps X.

    X is an array, sparse matrix or data frame. Lists of dicts are returned unchanged. Raises
    InputError if columns are missing.
    """
    if names is None or known is None or list(names) == list(known):
        return X
    names, known = list(names), list(known)
    missing = [name for name in known if name not in names]
    if missing:
        raise InputError(
            f"{where} has no column {listed(missing, 5)}: {len(known)} columns are needed by name."
        )
    return (
        X
        if isinstance(X, list)
        else X[known]
        if is_frame(X)
        else X[:, [names.index(name) for name in known]]
    )


def as_rows(rows: Any) -> Any:
    """Convert sparse matrices to CSR, and everything else but lists and treebanks to an array."""
    if sparse.issparse(rows):
        return rows.tocsr()
    return (
        rows
        if isinstance(rows, (np.ndarray, list, tuple)) or hasattr(rows, "concatenate")
        else np.asarray(rows)
    )


def take(block: Block, chosen: slice | np.ndarray) -> Block:
    """Select examples by a slice (views, if possible) or an array of indices."""
    y = None if block.y is None else take_rows(block.y, chosen)
    return Block(take_rows(block.X, chosen), y, block.feature_names)


def take_rows(rows: Any, chosen: slice | np.ndarray) -> Any:
    """Select rows of an array, sparse matrix, list, treebank, or data frame of pandas."""
    if isinstance(rows, (list, tuple)):
        return list(rows[chosen]) if isinstance(chosen, slice) else [rows[i] for i in chosen]
    return rows.iloc[chosen] if hasattr(rows, "iloc") else rows[chosen]


def join(blocks: Sequence[Block]) -> Block:
    """Join blocks; raises InputError if their inputs are of different kinds or shapes."""
    if len(blocks) == 1:
        return blocks[0]
    y = None if all(block.y is None for block in blocks) else _join([block.y for block in blocks])
    names = next((block.feature_names for block in blocks if block.feature_names is not None), None)
    return Block(
        _join([block.aligned(names, "A block of the stream").X for block in blocks]), y, names
    )


def _join(parts: Sequence[Any]) -> Any:
    first = parts[0]
    try:
        if hasattr(first, "concatenate"):
            return type(first).concatenate(parts)
        if sparse.issparse(first):
            return sparse.vstack(parts, format="csr")
        if isinstance(first, np.ndarray):
            return np.concatenate(parts)
        return [row for part in parts for row in part]
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"Blocks of the stream do not fit together: {error}.") from None


def grouped(examples: Iterable[tuple], size: int) -> Iterator[Block]:
    """Group single examples ``(x, y)`` into blocks; vectors are stacked, other inputs become a
    list.
    """
    pairs = map(_pair, examples)
    while chunk := list(islice(pairs, size)):
        yield _of_examples(*map(list, zip(*chunk)))


def _pair(example: tuple) -> tuple:
    try:
        x, y = example
    except (TypeError, ValueError):
        raise InputError(f"A stream's examples are pairs (x, y), not {shown(example)}.") from None
    return x, y


def _of_examples(X: list, y: list) -> Block:
    n_missing = sum(target is None for target in y)
    inputs = _stacked(X)
    if n_missing == len(y):
        return Block(inputs)
    if n_missing:
        raise InputError(
            f"{n_missing} of {len(y)} examples of the stream have no y: give all of them one, or none."
        )
    if isinstance(y[0], (Number, str, np.generic)):
        return Block(inputs, np.array(y))
    return Block(inputs, y if inputs is X else _stacked(y))  # labels of sequences stay lists


def _stacked(rows: list) -> Any:
    """Stack numbers or vectors into an array; return other rows unchanged."""
    first = rows[0]
    if sparse.issparse(first):
        return sparse.vstack(rows, format="csr")
    is_vector = (
        isinstance(first, (np.ndarray, list, tuple))
        and len(first) > 0
        and isinstance(first[0], Number)
    )
    if not is_vector and not isinstance(first, Number):
        return rows
    try:
        return np.array(rows)
    except ValueError:
        raise InputError("The vectors of a stream must all be equally long.") from None
