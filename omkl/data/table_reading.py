"""The door for tables: all estimators, streams and shapes read tables by :func:`read_table`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from omkl._messages import shown
from omkl.data.blocks import Block, Names, Rows, check_columns, is_frame, n_rows, select_columns
from omkl.data.frames import (
    check_rows,
    column_labels,
    first_value,
    import_pyarrow,
    text_of,
    times_as_days,
)
from omkl.data.table_columns import (
    NUMBER_TYPES,
    TEXT,
    TEXTS,
    Column,
    of_kind,
    read_arrow,
    read_series,
    read_values,
    rows_of_columns,
    without_identifiers,
)
from omkl.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True)
class TrainingColumns:
    """Columns of the table on which a model was trained.

    Attributes
    ----------
    names : sequence of str, optional
        None for arrays and dicts, whose columns have no names.
    kinds : dict
        Kinds of columns by their names, or by their positions if they have no names. None, or
        nothing, where the kind is not known.
    are_dicts : bool
        Whether the model was trained on dicts.
    """

    names: Names = None
    kinds: Mapping[Hashable, str | None] = field(default_factory=dict)
    are_dicts: bool = False

    @property
    def have_text(self) -> bool:
        """True if a column held text."""
        return any(kind in TEXTS for kind in self.kinds.values())


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table in one of three forms: columns, rows that are dicts, or an array.

    Attributes
    ----------
    names : sequence of str, optional
        Names of the columns.
    columns : list of Column, optional
        Columns of a data frame, or of a table of Arrow.
    rows : list of dict, optional
    array : array or sparse matrix of shape (n, d), optional
    """

    names: Names = None
    columns: list[Column] | None = None
    rows: list[dict] | None = None
    array: Any = None

    @property
    def has_text(self) -> bool:
        """True if a column holds text."""
        return any(kind in TEXTS for kind in self.kinds())

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        if self.columns is not None:
            return len(self.columns)
        if self.names is None:
            return self.array.shape[1]
        return len(self.names)

    @property
    def values(self) -> Any:
        """Array or sparse matrix (n, d), or list of n dicts if there is text."""
        if self.columns is not None:
            return rows_of_columns(self.columns)
        if self.rows is None:
            return self.array
        return self.rows

    def kinds(self) -> list[str | None]:
        """Return the kind of each column; of dicts, only text is known."""
        if self.columns is not None:
            return [column.kind for column in self.columns]
        kinds: list[str | None] = []
        for name in self.names or ():
            is_text = isinstance(first_value(self.rows or (), name), str)
            kinds.append(TEXT if is_text else None)
        return kinds

    def in_columns(self, training: TrainingColumns | None = None) -> Table:
        """Read dicts, or an array with names, as columns of the kinds in training."""
        if self.columns is not None:
            return self
        training = training or TrainingColumns()
        keys = _keys_of(self.rows or ())
        names = self.names or training.names or keys
        if not names:
            raise InputError("The rows of X must hold at least one value, got empty dicts.")
        columns = []
        for j, name in enumerate(names):
            if self.rows is None:
                values = self.array[:, j].tolist()
            else:
                values = [row.get(name) for row in self.rows]
            kind = training.kinds.get(name)
            columns.append(of_kind(read_values(values, name, kind), kind))
        return Table(names=names, columns=columns)

    def without_identifiers(self) -> Table:
        """Mark columns of text in which nearly every row has its own value, and warn of them."""
        if self.columns is None:
            return self
        return replace(self, columns=without_identifiers(self.columns))

    def in_rows(self) -> Table:
        """Return the rows as dicts, without missing values and identifiers."""
        if self.rows is not None:
            return self
        columns = self.in_columns().columns or []
        return Table(names=self.names, rows=rows_of_columns(columns, as_dicts=True))


def read_table(X: Rows | Block, like: TrainingColumns | None = None, where: str = "X") -> Table:
    """Read a table that a user passed.

    Columns with names are put in the order of training. Numbers of any type become floats. Dates,
    also those in ISO form as text, are days since 1970 in UTC. Categories become strings, so that 1
    and 1.0 are the same category, and so do numbers where columns held text.

    Parameters
    ----------
    X : array, sparse matrix, data frame, list of dicts, or Block
        A data frame is one of pandas or polars, or a table of Arrow.
    like : TrainingColumns, optional
        The columns in training; None if training starts with this table.
    where : str
        Name of the table in messages.

    Returns
    -------
    Table
        Arrays, sparse matrices and dicts stay what they are, except that a block with names becomes
        columns if it is of another form than in training.

    Raises
    ------
    omkl.exceptions.InputError
        If a table with names has no rows, lacks a column of training, or has another one; if a
        column mixes text with other values, holds complex numbers or objects that are no numbers,
        or is of another kind than in training.
    """
    if X is None or isinstance(X, (Mapping, Set)):
        raise InputError(f"{where} must be a table, got {shown(X)}.")
    training = like or TrainingColumns()
    if is_table(X):
        return _read_frame(X, training, where)
    names = None
    if isinstance(X, Block):
        names = X.feature_names
        X = X.X
    if names is not None or isinstance(X, list):
        _check_not_empty(X, where)
    check_columns(names, training.names, where)
    if is_list_of_dicts(X):
        for i, row in enumerate(X):
            if not isinstance(row, dict):
                _refuse_row(i, row)
        if names is None:
            return Table(rows=X)
        table = Table(names=training.names or names, rows=_with_texts(X, training.kinds))
        is_other_form = like is not None and not training.are_dicts
    else:
        check_rows(X)
        if names is None and training.have_text:
            raise InputError(
                f"{where} must be a data frame, as in training, where columns held text or "
                "categories."
            )
        if names is None:
            return Table(array=times_as_days(X))
        ordered = training.names or names
        table = Table(names=ordered, array=times_as_days(select_columns(X, names, ordered)))
        is_other_form = training.have_text or training.are_dicts
    if is_other_form:
        return table.in_columns(training)
    return table


def is_table(X: object) -> TypeGuard[DataFrame]:
    """Tell whether X is a data frame of pandas or polars, or a table of Arrow."""
    if is_frame(X):
        return True
    is_series = hasattr(X, "dtype")
    if is_series:
        return False
    return hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")


def is_list_of_dicts(X: object) -> TypeGuard[list[dict]]:
    """Tell whether X is a list whose first row is a dict."""
    return isinstance(X, list) and len(X) > 0 and isinstance(X[0], dict)


def _read_frame(X: DataFrame, training: TrainingColumns, where: str) -> Table:
    """Read a data frame, or a table of Arrow."""
    is_arrow = not is_frame(X)
    if is_arrow:
        X = _arrow_table(X, where)
    labels = column_labels(X)
    names = None
    if isinstance(labels[0], str):
        names = labels
    check_columns(names, training.names, where)
    _check_not_empty(X, where)
    if names is not None and training.names is not None:
        names = list(training.names)
        labels = names
    kinds = _kinds_of_labels(labels, names, training)
    columns = []
    for label, learned in zip(labels, kinds):
        if is_arrow:
            column = read_arrow(X.column(label).combine_chunks(), label, learned)
        else:
            column = read_series(X[label], label, learned)
        columns.append(of_kind(column, learned))
    return Table(names=names, columns=columns)


def _arrow_table(X: DataFrame, where: str) -> pyarrow.Table:
    """Convert an object that exports columns to a table of Arrow."""
    pyarrow = import_pyarrow()
    try:
        return pyarrow.table(X)
    except (pyarrow.ArrowException, TypeError, ValueError):
        raise InputError(f"{where} must be a table with columns, got {type(X).__name__}.") from None


def _kinds_of_labels(labels: list, names: Names, training: TrainingColumns) -> list[str | None]:
    """Return the kinds in training of the columns of a data frame, by name if all have names."""
    if training.are_dicts or (names is not None and training.names is not None):
        return [training.kinds.get(label) for label in labels]
    kinds = list(training.kinds.values())[: len(labels)]
    return kinds + [None] * (len(labels) - len(kinds))


def _check_not_empty(X: Rows, where: str) -> None:
    """Raise InputError if a table has no rows."""
    if not n_rows(X):
        raise InputError(f"{where} must have at least one row, got none.")


def _refuse_row(i: int, row: object) -> NoReturn:
    raise InputError(f"Row {i} of X must be a dict whose keys are strings, got {row!r:.80}.")


def _keys_of(rows: Iterable[dict]) -> list[str]:
    """Return all keys of dicts, in the order in which they occur."""
    keys: dict[str, None] = {}
    for i, row in enumerate(rows):
        if not all(isinstance(key, str) for key in row):
            _refuse_row(i, row)
        keys.update(dict.fromkeys(row))
    return list(keys)


def _with_texts(rows: list[dict], kinds: Mapping[Hashable, str | None]) -> list[dict]:
    """Return dicts in which numbers are categories where columns held text."""
    keys = [name for name, kind in kinds.items() if kind == TEXT]
    if not keys:
        return rows
    rows = list(rows)
    for i, row in enumerate(rows):
        numbers = [key for key in keys if isinstance(row.get(key), NUMBER_TYPES)]
        if numbers:
            rows[i] = row | {key: text_of(row[key]) for key in numbers}
    return rows
