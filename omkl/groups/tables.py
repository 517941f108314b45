"""What is the same in banks whose parameters are a table of weights."""

from typing import Any

import numpy as np

from omkl.groups.base import Bank
from omkl.groups.mixing import TableLayout, mix_table, table_changes


class TableBank(Bank):
    """Groups of explicit weights in an array ``table``, with running sums of the same shape where an average is kept.

    A subclass says with :meth:`_spread` which weights are of which group.
    """

    table: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.table.nbytes + self._sums.nbytes

    def _spread(self, values: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """Numbers a group in a shape that multiplies these rows of the table."""
        raise NotImplementedError

    def _rows(self) -> Any:
        """Rows of the table that may be non-zero."""
        return slice(None)

    def coordinates(self) -> np.ndarray:
        """Parameters that may be non-zero, before the proximal step, as one vector."""
        rows = self._rows()
        return (self._spread(self.group_state.bases, rows) * self.table[rows]).ravel()

    def set_coordinates(self, values: np.ndarray) -> None:
        """Replace what :meth:`coordinates` gave, and recompute the norms."""
        rows = self._rows()
        before = self.table[rows]
        moved = values.reshape(before.shape) / self._spread(self.group_state.bases, rows)
        if self.averaging:
            self._sums[rows] -= self._spread(self.group_state.averages, rows) * (moved - before)
        self.table[rows] = moved
        self.recompute_norms()

    def averaged_table(self) -> np.ndarray:
        """Averaged weights in the shape of the table; the current ones where no average is kept."""
        return self._with_average(self.table, self._sums, self._spread)

    def _layout(self) -> TableLayout:
        """Which group each cell is of."""
        raise NotImplementedError

    def _cells(self, array: np.ndarray) -> np.ndarray:
        """The cells in use of an array like the table, (rows, columns)."""
        return array

    def _find_nonzero(self) -> None:
        """Set from the table what the bank knows of where it is not zero."""

    def changes(self, since: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        table, sums, before, before_sums = map(self._cells, (self.table, self._sums, since["table"], since["sums"]))
        return table_changes(self._layout(), table, sums, before, before_sums, self.group_state)

    def mix(self, changes: list[dict[str, np.ndarray]], mixture: Any) -> None:
        mix_table(self._layout(), self._cells(self.table), self._cells(self._sums), changes, mixture)
        self._find_nonzero()
        self.recompute_norms()

    def state(self) -> dict[str, np.ndarray]:
        return {"table": self.table, "sums": self._sums}
