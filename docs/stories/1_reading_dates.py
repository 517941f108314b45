"""
Read handwriting, and find the kernels that see the digit
=========================================================

Somebody wrote dates by hand, eight digits each, and we want to read them. A date is a *sequence*:
what stands at one place depends on its neighbours, since no month begins with a 5. We have several
ideas of how to compare two digits, and some of them are bad. Nobody tells omkl which.
"""

# %%
# The data
# --------
# ``handwritten_dates`` makes dates of the digits that come with scikit-learn. A date is an array
# with a row of 64 pixels for each of its eight digits, and its labels are the digits.

from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import omkl
from omkl.data import digit_views, handwritten_dates

data = handwritten_dates(n_train=80, n_test=100, random_state=0)

figure, axes = plt.subplots(1, 8, figsize=(6, 1.1))
for pixels, digit, axis in zip(data.train_images[0], data.train_digits[0], axes):
    axis.imshow(pixels.reshape(8, 8), cmap="gray_r")
    axis.set_title(digit)
    axis.set_axis_off()

# %%
# Views, good ones and useless ones
# ---------------------------------
# We look at every digit in four ways: its pixels, its outline, how much ink each row and column has
# (profiles), and its spectrum. Then we add two views that say nothing about the digit, as it
# happens with real data: the pixels of *another* digit, and random bits. A token is a dict, whose
# entries are the views.

rng = np.random.default_rng(0)


def look(dates):
    """Return each date as a list of eight dicts of views."""
    sequences = []
    for images in dates:
        views = digit_views(images)
        views["another digit"] = rng.permutation(images)
        views["random bits"] = rng.integers(0, 2, (len(images), 64)).astype(float)
        sequences.append(
            [{name: view[i] for name, view in views.items()} for i in range(len(images))]
        )
    return sequences


X_train, X_test = look(data.train_images), look(data.test_images)
print("views of a digit:", ", ".join(X_train[0][0]))

# %%
# Train
# -----
# Every view gets a Gaussian kernel: two digits are alike in a view if their vectors are close. The
# width of each kernel is chosen by itself, the median distance. :class:`omkl.SequenceLabeler`
# learns the reader and the weights together.

kernels = {name: f"gaussian:on={name}" for name in X_train[0][0]}
labeler = omkl.SequenceLabeler(kernels, random_state=0).fit(X_train, data.train_digits)

for name, weight in sorted(labeler.kernel_weights_.items(), key=lambda item: -item[1]):
    print(f"{name:14} {weight:.2f}")

# %%
# The two useless views have weight 0: they are out of the model. omkl found out by looking, in the
# first pass, at digits that the model had not learned from yet. A kernel on random bits *fits*
# training data well, since every digit has bits of its own; it does not help on new ones.
#
# Does it pay?
# ------------
# Beside it: all six kernels with the same weight (``regularizer="l2"``), and each kernel alone.

scores = {"MKL": labeler.score(X_test, data.test_digits)}
alike = omkl.SequenceLabeler(kernels, regularizer="l2", random_state=0).fit(
    X_train, data.train_digits
)
scores["all six alike"] = alike.score(X_test, data.test_digits)
for name, kernel in kernels.items():
    alone = omkl.SequenceLabeler([kernel], epochs=10, random_state=0).fit(
        X_train, data.train_digits
    )
    scores[f"{name} alone"] = alone.score(X_test, data.test_digits)

figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
names = sorted(scores, key=scores.get)
bars = axis.barh(
    names,
    [100 * scores[name] for name in names],
    color=["C1" if n == "MKL" else "C0" for n in names],
)
axis.bar_label(bars, fmt="%.1f", padding=3)
axis.set(xlim=(0, 110), xlabel="digits read correctly, in percent")
axis.spines[["top", "right"]].set_visible(False)

# %%
# What it costs, and what it keeps
# --------------------------------
# ``group_report`` says what each group adds on data that the model has not learned from: by how
# much the loss grows without it. The model is one file, and predicts the same bits wherever it is
# loaded.

for row in labeler.group_report(X_test, data.test_digits)[:4]:
    print(
        f"without {row['group']:10} the loss of a date grows by {row['loss_increase']:.2f} +- {row['standard_error']:.2f}"
    )

with TemporaryDirectory() as folder:
    labeler.save(f"{folder}/dates.npz")
    loaded = omkl.load(f"{folder}/dates.npz")
assert all(map(np.array_equal, loaded.predict(X_test), labeler.predict(X_test)))

# %%
# The same from the shell, with thirteen kernels and a text that says who wins: ``omkl demo``.
