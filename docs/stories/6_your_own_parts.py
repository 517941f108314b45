"""
Write your own kernel, and explain a prediction
===============================================

A kernel of your own is a function of two arrays. Here it compares words of DNA by the short pieces
that they share, beside kernels that look at their composition only; the weights say which view
carries the signal, and ``explain`` says what spoke for a single prediction.
"""

# %%
# The data
# --------
# Random strings of 40 letters; those of class 1 have the piece ``GATA`` somewhere.

import matplotlib.pyplot as plt
import numpy as np

import omkl
from omkl.reports import plot_weights

rng = np.random.default_rng(0)
LETTERS = np.array(list("ACGT"))


def strings(n):
    X = rng.integers(0, 4, size=(n, 40))
    y = np.arange(n) % 2 == 1
    for i in np.flatnonzero(y):
        at = rng.integers(0, 36)
        X[i, at : at + 4] = [2, 0, 3, 0]  # GATA
    return X.astype(float), y


X, y = strings(400)
X_test, y_test = strings(200)
print("".join(LETTERS[X[1].astype(int)]))

# %%
# The kernels
# -----------
# ``spectrum`` counts pieces of four letters that two strings share; ``composition`` compares how
# often each letter occurs.


def pieces(X, width):
    codes = sum(X[:, k : X.shape[1] - width + 1 + k].astype(int) * 4**k for k in range(width))
    counts = np.zeros((len(X), 4**width))
    np.add.at(counts, (np.arange(len(X))[:, None], codes), 1.0)
    return counts


def spectrum(X, Y):
    return pieces(X, 4) @ pieces(Y, 4).T


def composition(X, Y):
    return pieces(X, 1) @ pieces(Y, 1).T / 40


model = omkl.MKLClassifier(
    {"spectrum": spectrum, "composition": composition, "positions": "gaussian"}, C=1.0
).fit(X, y)
print(f"{100 * model.score(X_test, y_test):.1f}% correct")
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_weights(model, ax=axis)

# %%
# Why this prediction?
# --------------------
# ``explain`` of any estimator says what each group, and each of the support vectors that matter
# most, adds to the margin between the chosen output and the runner-up. The parts sum to the margin.

print(model.explain(X_test[1:2]))
