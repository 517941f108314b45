"""
Plots of models, one of each kind
=================================

Every picture of :mod:`omkl.reports` takes what estimators, paths, histories and searches give, draws on axes of yours
(``ax=``) or on a new figure, and returns the axes: ``plot_weights(model).figure`` is the figure, which a notebook shows and
``savefig`` saves. ``width=3.3`` is a column of a paper. From a shell, ``omkl plot MODEL -o FILE`` draws the same; :doc:`the
guide </guide/evaluating>` has the report that puts them on one page.
"""

# %%
# What a model looks at
# ---------------------
# :func:`~omkl.reports.plot_weights`: the weights of groups, the heaviest first. Of several models, from several seeds or
# folds, bars are means, and intervals go from the lowest to the highest.

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
    plot_gap,
    plot_group_weights,
    plot_history,
    plot_path,
    plot_pruning,
    plot_search,
    plot_weights,
    plot_word,
    pruning_curve,
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
readers = []
for seed in range(3):
    reader = omkl.SequenceLabeler(kernels, epochs=8, weighting="norms", random_state=seed)
    readers.append(reader.fit(X, dates.train_digits))
Show(plot_weights(readers))

# %%
# How the weights were learned
# ----------------------------
# :func:`~omkl.reports.plot_group_weights`: a curve for each of the ten heaviest groups, along epochs or examples; all others
# are one grey band.

reader = readers[0]
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_group_weights(reader, ax=axis)

# %%
# Whether training has come to its end
# ------------------------------------
# :func:`~omkl.reports.plot_history`: the loss, or any other number that was recorded (``of="objective"``). A dict compares.

Show(plot_history({f"seed {seed}": reader for seed, reader in enumerate(readers)}))

# %%
# What is taken for what
# ----------------------
# :func:`~omkl.reports.plot_confusion`: labels that were confused; :func:`~omkl.reports.plot_word` shows the images of
# one sequence and what was read in them.

read = reader.predict(X_test)
Show(plot_confusion(dates.test_digits, read))

# %%

worst = int(np.argmax([np.not_equal(a, b).sum() for a, b in zip(read, dates.test_digits)]))
figure, axis = plt.subplots(figsize=(4.5, 1.2), layout="constrained")
plot_word(dates.test_images[worst], read[worst], dates.test_digits[worst], ax=axis)

# %%
# Whether probabilities can be believed
# -------------------------------------
# :func:`~omkl.reports.plot_calibration`: on the diagonal they can; below it the model is too sure.

reader.calibrate(X_test[:50], dates.test_digits[:50])
marginals = [reader.predict_marginals([date])[0] for date in X_test[50:]]
Show(plot_calibration(dates.test_digits[50:], marginals, reader.classes_))

# %%
# Fewer kernels, or more
# ----------------------
# :func:`~omkl.reports.plot_path`: weights or norms as the model fits closer, from left to right;
# :func:`~omkl.reports.plot_search`: what cross-validation says of each value; :func:`~omkl.reports.plot_gap`: how a batch solver
# came to its certificate.

table, target = load_breast_cancer(as_frame=True, return_X_y=True)
columns = per_column("gaussian", table)
model = omkl.MKLClassifier(columns, regularizer="block1", C=0.3).fit(table[:300], target[:300])
Show(plot_path(model.path(table[:300], target[:300], C=10)))

# %%

search = omkl.MKLClassifierCV(columns, regularizer="block1", Cs=6, cv=3)
search.fit(table[:300], target[:300])
Show(plot_search(search))

# %%

Show(plot_gap(model))

# %%
# How many templates a parser needs
# ---------------------------------
# :func:`~omkl.reports.plot_pruning` of what :func:`~omkl.reports.pruning_curve` measures.

treebank = synthetic_treebank(300, vocabulary=10, random_state=0)
parser = omkl.DependencyParser("small", epochs=2, random_state=0).fit(treebank[:200])
Show(plot_pruning(pruning_curve(parser, treebank[200:])))

# %%
# A tree, as it is and as it was found
# ------------------------------------
# :func:`~omkl.reports.draw_tree` returns SVG: right arcs are above the words, found ones below, and what is wrong is dashed. In
# a notebook ``IPython.display.SVG`` shows it; ``omkl report`` draws the sentences that a parser gets most wrong.

sentence = treebank[203]
found = parser.parse([sentence])[0]
Show(draw_tree(sentence, found))
