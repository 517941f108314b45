"""
Plots of models, one of each kind
=================================

All plots of :mod:`omkl.reports` take estimators, histories, paths or predictions. They draw on the
axes that you give as ``ax``, or on a new figure, and return the axes.
``plot_weights(model).figure.savefig("weights.pdf")`` saves a figure. ``omkl report MODEL DATA -o
report.html`` writes all plots of a model to one HTML page.
"""

# %%
# Weights of groups
# -----------------
# :func:`~omkl.reports.plot_weights` draws the weights of kernels, templates or groups of columns,
# the heaviest first.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import omkl
from omkl.data import digit_views, handwritten_dates, synthetic_treebank
from omkl.kernels import per_column
from omkl.reports import (
    draw_tree,
    plot_calibration,
    plot_confusion,
    plot_group_weights,
    plot_history,
    plot_path,
    plot_search,
    plot_weights,
    plot_word,
    to_svg,
)


class Show:
    """Show axes as SVG in this page, with text in the color of the page."""

    def __init__(self, axes):
        self.svg = axes if isinstance(axes, str) else to_svg(axes)

    def _repr_html_(self):
        return self.svg


dates = handwritten_dates(n_train=80, n_test=100, random_state=0)


def tokens(images):
    """Return dates as lists of dicts of views."""
    views = [digit_views(date) for date in images]
    return [[dict(zip(each, rows)) for rows in zip(*each.values())] for each in views]


X, X_test = tokens(dates.train_images), tokens(dates.test_images)
kernels = {name: f"gaussian:on={name}" for name in X[0][0]}
readers = [
    omkl.SequenceLabeler(kernels, epochs=8, weighting="norms", random_state=seed).fit(
        X, dates.train_digits
    )
    for seed in range(3)
]
reader = readers[0]
Show(plot_weights(reader))

# %%
# Weights during training
# -----------------------
# :func:`~omkl.reports.plot_group_weights` draws a curve for each of the ten heaviest groups. All
# others are a grey band.

figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_group_weights(reader, ax=axis)

# %%
# Has training converged?
# -----------------------
# :func:`~omkl.reports.plot_history` draws the loss, or another number that is recorded, such as
# ``"objective"``. Give a dict to compare several models.

Show(plot_history({f"seed {seed}": reader for seed, reader in enumerate(readers)}))

# %%
# Which labels are confused?
# --------------------------
# :func:`~omkl.reports.plot_confusion` draws a confusion matrix. :func:`~omkl.reports.plot_word`
# draws the images of one sequence with the predicted labels, and below wrong ones the gold labels.

read = reader.predict(X_test)
Show(plot_confusion(dates.test_digits, read))

# %%

worst = int(np.argmax([np.not_equal(a, b).sum() for a, b in zip(read, dates.test_digits)]))
figure, axis = plt.subplots(figsize=(4.5, 1.2), layout="constrained")
plot_word(dates.test_images[worst], read[worst], dates.test_digits[worst], ax=axis)

# %%
# Are the probabilities calibrated?
# ---------------------------------
# :func:`~omkl.reports.plot_calibration` compares probabilities with the share of right predictions.
# Below the diagonal, the model is too sure.

reader.calibrate(X_test[:50], dates.test_digits[:50])
marginals = [reader.predict_marginals([date])[0] for date in X_test[50:]]
Show(plot_calibration(dates.test_digits[50:], marginals, reader.classes_))

# %%
# Regularization paths and cross-validation
# -----------------------------------------
# :func:`~omkl.reports.plot_path` draws weights along a regularization path, with a weaker penalty
# from left to right.

table, target = load_breast_cancer(as_frame=True, return_X_y=True)
columns = per_column("gaussian", table)
model = omkl.MKLClassifier(columns, regularizer="block1", C=0.3).fit(table[:300], target[:300])
Show(plot_path(model.path(table[:300], target[:300], C=10)))

# %%
# :func:`~omkl.reports.plot_search` draws the cross-validation scores of each C.

search = omkl.MKLClassifierCV(columns, regularizer="block1", Cs=6, cv=3)
search.fit(table[:300], target[:300])
Show(plot_search(search))

# %%
# Convergence of a batch solver
# -----------------------------
# Batch estimators record the duality gap of every iteration.

Show(plot_history(model, "gap"))

# %%
# Dependency trees
# ----------------
# :func:`~omkl.reports.draw_tree` returns SVG. Gold arcs are above the words, predicted arcs below.
# Wrong arcs are red and dashed.

treebank = synthetic_treebank(300, vocabulary=10, random_state=0)
parser = omkl.DependencyParser("small", epochs=2, random_state=0).fit(treebank[:200])
sentence = treebank[203]
Show(draw_tree(sentence, parser.parse([sentence])[0]))
