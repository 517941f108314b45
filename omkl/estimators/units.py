"""Whether the columns of an array are in units so different that kernels over all of them see little of most."""

from collections.abc import Sequence

import numpy as np

from omkl._components import warn_caller
from omkl.exceptions import DataWarning

#: Columns are in different units where the largest standard deviation is so many times the lower quartile of all (the
#: smallest says little: a pixel at the edge). Accuracy of the default kernels on raw and on scaled columns, and of a
#: kernel a column: iris (smallest to largest 4) 0.96, 0.95, 0.96; diabetes (69; R^2) 0.37, 0.50, 0.46; wine (2,500)
#: 0.71, 0.98, 0.97; breast cancer (215,000) 0.91, 0.97, 0.96.
UNITS_APART = 10.0


def warn_of_units(X: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Warn where columns of an array vary so differently that kernels over all of them see little but the largest."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.std(X, axis=0)
    varied = np.flatnonzero(spread > 0)
    if not len(varied) or not np.isfinite(spread).all():
        return
    small, large = varied[np.argmin(spread[varied])], int(np.argmax(spread))
    if spread[large] > UNITS_APART * np.quantile(spread[varied], 0.25):
        called = [repr(names[k]) if names is not None else str(k) for k in (large, small)]
        warn_caller(
            f"Column {called[0]} varies {spread[large] / spread[small]:.3g} times as much as column {called[1]}, and "
            "the default kernels see little else: scale the columns, or set "
            'kernels=omkl.kernels.per_column("gaussian", X).',
            DataWarning,
        )
