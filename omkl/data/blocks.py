"""Blocks of examples, and operations on rows of arrays, sparse matrices, lists and treebanks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._messages import listed, shown
from omkl.exceptions import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

#: Inputs or outputs of several examples.
AnyRows: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix | Sequence
#: The same after conversion of other sequences, and data frames.
Rows: TypeAlias = "np.ndarray | sparse.csr_array | DataFrame | list | tuple"
#: Names of columns; None if they have none.
Names: TypeAlias = Sequence[str] | None


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

    feature_names: Names = None

    def __new__(cls, X: AnyRows, y: AnyRows | None = None, feature_names: Names = None) -> Self:
        block = tuple.__new__(cls, (X, y))  # faster than the constructor of the named tuple
        if feature_names is not None:
            block.feature_names = feature_names
        return block

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return n_rows(self.X)

    def with_outputs(self, y: AnyRows | None) -> Block:
        """Return the same inputs with other outputs.

        Parameters
        ----------
        y : array of shape (n, ...), list of n outputs, or None
        """
        return Block(self.X, y, self.feature_names)

    def aligned(self, names: Names, where: str) -> Block:
        """Order columns by name.

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
            If a column is missing, or there are others.
        """
        if names is None or self.feature_names is None or list(names) == list(self.feature_names):
            return self
        check_columns(self.feature_names, names, where)
        return Block(select_columns(self.X, self.feature_names, names), self.y, names)


def n_rows(X: Rows) -> int:
    """Number of rows."""
    if hasattr(X, "shape"):
        return X.shape[0]
    return len(X)


def is_frame(X: object) -> TypeGuard[DataFrame]:
    """Tell whether X is a data frame of pandas or polars."""
    return hasattr(X, "to_numpy") and hasattr(X, "columns") and hasattr(X, "dtypes")


def is_collection(*values: object) -> bool:
    """Tell whether one of these values is a Dask collection."""
    return any(hasattr(value, "__dask_graph__") for value in values)


def check_columns(names: Names, needed: Names, where: str) -> None:
    """Raise InputError unless these are the needed names, in any order.

    None for either skips the check; ``where`` is the name of the table in messages.
    """
    if names is None or needed is None or list(names) == list(needed):
        return
    present = set(names)
    absent = [name for name in needed if name not in present]
    if absent:
        raise InputError(
            f"{where} has no column {listed(absent, 5)}: {len(needed)} columns are needed by name."
        )
    expected = set(needed)
    unknown = [name for name in names if name not in expected]
    if unknown:
        raise InputError(
            f"{where} has the unknown column {listed(unknown, 5)}: leave it out, "
            f"{len(needed)} columns are needed by name."
        )


def select_columns(X: Rows, names: Sequence[str], ordered: Sequence[str]) -> Rows:
    """Order the columns of an array or sparse matrix by name; return lists of rows unchanged."""
    if isinstance(X, (list, tuple)) or list(names) == list(ordered):
        return X
    positions = {name: j for j, name in enumerate(names)}
    return X[:, [positions[name] for name in ordered]]


def as_rows(rows: AnyRows | None) -> Any:
    """Convert sparse matrices to CSR, and all but lists, treebanks and None to an array."""
    if sparse.issparse(rows):
        return rows.tocsr()
    is_array_or_list = isinstance(rows, (np.ndarray, list, tuple))
    if rows is None or is_array_or_list or hasattr(rows, "concatenate"):
        return rows
    return np.asarray(rows)


def take(block: Block, chosen: slice | np.ndarray) -> Block:
    """Select examples by a slice (views, if possible) or an array of indices."""
    X, y = block
    return Block(take_rows(X, chosen), take_rows(y, chosen), block.feature_names)


def take_rows(rows: Rows | None, chosen: slice | np.ndarray) -> Any:
    """Select rows of an array, sparse matrix, list, treebank, or data frame; None has none."""
    if rows is None:
        return None
    if isinstance(rows, (list, tuple)):
        if isinstance(chosen, slice):
            return list(rows[chosen])
        return [rows[i] for i in chosen]
    if hasattr(rows, "iloc"):
        return rows.iloc[chosen]
    return rows[chosen]


def join(blocks: Sequence[Block]) -> Block:
    """Join blocks; raises InputError if their inputs are of different kinds or shapes."""
    if len(blocks) == 1:
        return blocks[0]
    y = None
    if not all(block.y is None for block in blocks):
        y = _joined_rows([block.y for block in blocks])
    names = next((block.feature_names for block in blocks if block.feature_names is not None), None)
    aligned = [block.aligned(names, "A block of the stream").X for block in blocks]
    return Block(_joined_rows(aligned), y, names)


def _joined_rows(arrays: Sequence[Any]) -> Any:
    """Join arrays, sparse matrices, lists or treebanks."""
    first = arrays[0]
    try:
        if hasattr(first, "concatenate"):
            return type(first).concatenate(arrays)
        if sparse.issparse(first):
            return sparse.vstack(arrays, format="csr")
        if isinstance(first, np.ndarray):
            return np.concatenate(arrays)
        return list(chain.from_iterable(arrays))
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"Blocks of the stream do not fit together: {error}.") from None


def grouped(examples: Iterable[tuple], size: int) -> Iterator[Block]:
    """Group single examples ``(x, y)`` into blocks.

    Vectors are stacked, and other inputs become a list.
    """
    pairs = map(_pair, examples)
    while chunk := list(islice(pairs, size)):
        yield _of_examples(*map(list, zip(*chunk)))


def _pair(example: tuple) -> tuple:
    """Return an example of a stream, which must be a pair."""
    try:
        x, y = example
    except (TypeError, ValueError):
        raise InputError(f"A stream's examples are pairs (x, y), not {shown(example)}.") from None
    return x, y


def _of_examples(X: list, y: list) -> Block:
    """Return a block of inputs and outputs; outputs must be None in all examples, or in none."""
    n_missing = sum(target is None for target in y)
    inputs = _stacked(X)
    if n_missing == len(y):
        return Block(inputs)
    if n_missing:
        raise InputError(
            f"{n_missing} of {len(y)} examples of the stream have no y: "
            "give all of them one, or none."
        )
    if isinstance(y[0], (Number, str, np.generic)):
        return Block(inputs, np.array(y))
    if inputs is X:  # labels of sequences stay lists
        return Block(inputs, y)
    return Block(inputs, _stacked(y))


def _stacked(rows: list) -> Any:
    """Stack numbers or vectors into an array; return other rows unchanged."""
    first = rows[0]
    if sparse.issparse(first):
        return sparse.vstack(rows, format="csr")
    is_sequence = isinstance(first, (np.ndarray, list, tuple)) and len(first) > 0
    is_vector = is_sequence and isinstance(first[0], Number)
    if not is_vector and not isinstance(first, Number):
        return rows
    try:
        return np.array(rows)
    except ValueError:
        raise InputError("The vectors of a stream must all be equally long.") from None
