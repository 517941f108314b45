"""Which average of the iterates is returned: the weight of the model after round t."""

from omkl._named import Part
from omkl.exceptions import InputError


class Average(Part):
    """Weights ``w_t >= 0``: the averaged model is ``sum_t w_t theta_t / sum_t w_t``, kept lazily at O(p) a round."""

    def weight(self, t):
        """Weight of the model after round ``t = 1, 2, ...``."""
        raise NotImplementedError


class UniformAverage(Average):
    """All models count the same, from round ``start`` on."""

    short_names = {"uniform": {}}

    def __init__(self, start=1):
        if not start >= 1:
            raise InputError(f"start must be a round >= 1, not {start!r}.")
        self.start = int(start)

    def weight(self, t):
        return 1.0 if t >= self.start else 0.0


class PolynomialAverage(Average):
    """Weights ``t^power``: late models count more, and early ones are forgotten without a date being set."""

    short_names = {"polynomial": {}, "quadratic": {"power": 2.0}}

    def __init__(self, power=2.0):
        if not power >= 0:
            raise InputError(f"power must be a number >= 0, not {power!r}.")
        self.power = float(power)

    def weight(self, t):
        return float(t) ** self.power
