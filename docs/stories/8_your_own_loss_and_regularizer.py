"""
Write your own loss and regularizer
===================================

A power station has to be ready for tomorrow's demand. To provide a megawatt too little costs nine
times as much as one too much, so the squared error, which has no sides, asks the wrong question. We
ask the right one by a loss of our own, choose among sensors by a regularizer of our own, and train
both online and to a certified optimum.
"""

# %%
# The data
# --------
# Demand depends on two thermometers, which say nearly the same, and on the hour. Four other sensors
# say nothing.

from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import omkl
from omkl.losses import PointwiseLoss
from omkl.regularizers import L21, Regularizer
from omkl.reports import plot_weights
from omkl.testing import check_loss, check_regularizer

rng = np.random.default_rng(0)
SENSORS = ["thermometer A", "thermometer B", "hour", "pressure", "wind", "noise", "traffic"]


def days(n):
    warmth, hour = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
    others = rng.uniform(-1, 1, (n, 4))
    X = np.column_stack(
        [warmth + 0.15 * rng.normal(size=n), warmth + 0.15 * rng.normal(size=n), hour, others]
    )
    # cold and heat both need power
    demand = 3 + 2 * warmth**2 + np.sin(2 * hour) + rng.gamma(1.0, 0.5, n)
    return X, demand


X, y = days(300)
X_test, y_test = days(1000)
kernels = {
    name: f"gaussian:on={column}:{column + 1},sigma2=0.5" for column, name in enumerate(SENSORS)
}

# %%
# The loss
# --------
# *Expectiles* (Newey and Powell 1987) weigh squared errors by their side. With :math:`r = y - z`
# for a target y and a prediction z, the loss is :math:`\tau r^2` where the prediction is too low,
# and :math:`(1 - \tau) r^2` where it is too high. ``value`` and ``gradient`` are all that we must
# define. Batch solvers work on the dual problem, for which they need the *conjugate*, :math:`\sup_z
# -\rho z - l(y, z)`, its two derivatives, and the range of :math:`\rho` in which it is finite.
# These are computed by bisection, but closed forms are faster: here :math:`\rho^2 / 4w - \rho y`
# with the weight w of the side that :math:`\rho` is on, for all numbers.


class Expectile(PointwiseLoss):
    """Squared error with weight ``tau`` for predictions that are too low, ``1 - tau`` for those too
    high.
    """

    aliases: ClassVar = {"expectile": {}}

    def __init__(self, tau=0.9):
        self.tau = tau
        self.curvature = 2 * max(tau, 1 - tau)

    def side(self, sign):
        return np.where(sign > 0, self.tau, 1 - self.tau)

    def value(self, y, z):
        return self.side(y - z) * (y - z) ** 2

    def gradient(self, y, z):
        return -2 * self.side(y - z) * (y - z)

    def conjugate(self, y, rho):
        return rho**2 / (4 * self.side(rho)) - rho * y

    def conjugate_gradient(self, y, rho):
        return rho / (2 * self.side(rho)) - y

    def conjugate_curvature(self, y, rho):
        return 1 / (2 * self.side(rho))

    def domain(self, y):
        return np.full_like(y, -np.inf), np.full_like(y, np.inf)


# %%
# Before a loss is used its mathematics is checked: by Fenchel and Young, value plus conjugate is at
# least :math:`-\rho z`, and equal where :math:`\rho = -l'`. The certificate of a batch solver is as
# good as this equation.

check_loss(Expectile(0.9))

# %%
# Online, and to the optimum
# --------------------------
# The ``aliases`` of the class are names that every estimator knows from now on.

fair = omkl.MKLRegressor(kernels, C=0.1).fit(X, y)
ready = omkl.MKLRegressor(kernels, loss="expectile:tau=0.9", C=0.1).fit(X, y)
online = omkl.OnlineMKLRegressor(kernels, loss=Expectile(0.9), random_state=0).fit(X, y)


def cost(model):
    missing = y_test - model.predict(X_test)
    return np.mean(np.where(missing > 0, 9 * missing**2, missing**2))


for name, model in {
    "squared error": fair,
    "expectile, batch": ready,
    "expectile, online": online,
}.items():
    short = np.mean(model.predict(X_test) < y_test)
    print(f"{name:18} too little on {100 * short:2.0f}% of the days, mean cost {cost(model):.2f}")
print(f"the batch model is at most {100 * ready.dual_gap_:.2f}% from the optimum")

# %%
# The regularizer
# ---------------
# Of two thermometers that say the same, the group lasso gives more to one than to the other, more
# or less by chance. The *reverse Huber* penalty (Owen 2007) has them share: it is linear for small
# norms, as the group lasso, so that what is useless gets little or none, and quadratic for large
# ones, as the ridge. A penalty of single group norms, convex and increasing with value 0 at 0, is a
# :class:`~omkl.regularizers.Regularizer` that is ``separable``. We write its value and its slopes;
# proximity operator and conjugate follow, and that small norms become 0.

KNEE = 0.3


class ReverseHuber(Regularizer):
    aliases: ClassVar = {"reverse-huber": {}}
    separable = True

    def value(self, norms):
        norms = np.asarray(norms)
        return float(np.where(norms <= KNEE, norms, (norms**2 + KNEE**2) / (2 * KNEE)).sum())

    def slopes(self, norms):
        return np.maximum(1.0, np.divide(norms, KNEE))


check_regularizer(ReverseHuber())
reverse_huber = ReverseHuber()
norms = np.linspace(0, 2, 200)
figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 2.6), layout="constrained")
for name, penalty, style in (("group lasso", L21(), "--"), ("reverse Huber", reverse_huber, "-")):
    left.plot(norms, [penalty.value([norm]) for norm in norms], style, label=name)
    right.plot(norms, penalty.prox(norms, step=0.4), style, label=name)
left.set(xlabel="norm of a group", ylabel="penalty")
right.set(xlabel="norm before", ylabel="norm after a proximal step")
left.legend(frameon=False)

# %%
# It goes wherever a regularizer goes, alone, or in sums and multiples such as ``0.3 * L21() +
# reverse_huber``.

models = {
    name: omkl.OnlineMKLRegressor(
        kernels,
        loss="expectile:tau=0.9",
        regularizer=regularizer,
        weighting="norms",
        epochs=10,
        random_state=0,
    ).fit(X, y)
    for name, regularizer in {
        "group lasso": 10 * L21(),
        "reverse Huber": 10 * reverse_huber,
    }.items()
}
figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.4), layout="constrained")
for axis, (name, model) in zip(axes, models.items()):
    plot_weights(model, ax=axis, title=name)
for name, model in models.items():
    print(f"{name:13} mean cost {cost(model):.2f}")

# %%
# The thermometers have the same weight now. It is not for nothing: what is large is shrunk by more,
# and the model fits less closely at the same C. Which of the two you want is for you to say, which
# is why a regularizer is yours to choose.
