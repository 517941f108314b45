"""Cases of parametrized tests, of which some run where time is short, and all in CI."""

from itertools import product

import pytest


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def mostly_slow(names, *values, every):
    """Parametrize by all combinations of values; all are slow except for one of so many.

    Every value is among the others if ``every`` shares no divisor with the numbers of values.
    """
    cases = []
    for i, case in enumerate(product(*values)):
        cases.append(case if i % every == 0 else slow(*case))
    return pytest.mark.parametrize(names, cases)
