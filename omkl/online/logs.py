"""A table of training on disk, a row for every record while it is made."""

import csv
import os
from typing import Any

import numpy as np

from omkl._files import PathLike, check_output, replacing
from omkl.exceptions import InputError


class CSVLog:
    """Callback: append every record to a CSV file as soon as it is made, for spreadsheets, plots and ``tail -f``.

    After every epoch by itself; ``Every(1000, CSVLog(path))`` after every 1000 examples. The first row has the names of
    the columns, which are those of ``history_``. A column that comes later is added, and is empty in the rows before.

    Parameters
    ----------
    path : path-like
        A file that is there is replaced when the first record is made.
    append : bool
        Go on with the file that is there. A run that goes on from a checkpoint does so by itself, after the rows that
        the checkpoint knows of.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If the file cannot be written, at once as far as one can tell.

    Examples
    --------
    >>> import tempfile, pandas
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = OnlineMKLClassifier(epochs=3, callbacks=[CSVLog(file.name)]).fit(*load_iris(return_X_y=True))
    ...     print(pandas.read_csv(file.name)["epoch"].tolist())
    [1, 2, 3]
    """

    def __init__(self, path: PathLike, append: bool = False) -> None:
        check_output(path)
        self.path = path
        self._columns: list[str] | None = None
        self._rows = 0
        if append and os.path.exists(path):
            self._columns, rows = _read(path)
            self._rows = len(rows)

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Write a row."""
        if self._columns is None:
            self._columns = list(record)
            with open(self.path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(self._columns)
        new = [name for name in record if name not in self._columns]
        if new:
            self._rewrite([*self._columns, *new])
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow(record)
        self._rows += 1

    def _rewrite(self, columns: list[str], n_rows: int | None = None) -> None:
        """Write the file anew, with these columns and only so many of its rows."""
        if not os.path.isfile(self.path):
            raise InputError(f"{self.path} is no file that another column could be added to: {', '.join(columns)}.")
        before, rows = _read(self.path)
        with replacing(self.path, newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([*row, *[""] * (len(columns) - len(before))] for row in rows[:n_rows])
        self._columns = columns

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a checkpoint needs: the columns, and how many rows there are."""
        return {"columns": self._columns, "rows": self._rows}, {}

    def load_state(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go on after the rows that the checkpoint knows of; later ones are made again."""
        self._columns, self._rows = values["columns"], values["rows"]
        if self._columns is not None and os.path.isfile(self.path):
            self._rewrite(self._columns, self._rows)
        else:
            self._columns, self._rows = None, 0


def _read(path: PathLike) -> tuple[list[str], list[list[str]]]:
    """Columns and rows."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return (rows[0], rows[1:]) if rows else ([], [])
