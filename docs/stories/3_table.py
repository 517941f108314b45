"""
Select the columns of a table with batch MKL
============================================

Thirty measurements of cell nuclei, 569 samples, benign or malignant. One kernel for each column and
batch MKL with a sparse regularizer answer two questions at once: how well can they be told apart,
and by which measurements?
"""

# %%
# One kernel a column
# -------------------
# :func:`omkl.kernels.per_column` makes a Gaussian for every column, each as wide as the median
# distance in that column, so that units do not matter. ``block1`` is the sparse regularizer.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import omkl
from omkl.kernels import per_column
from omkl.reports import plot_path, plot_search, plot_weights

X, y = load_breast_cancer(as_frame=True, return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
kernels = per_column("gaussian", X)
model = omkl.MKLClassifier(kernels, regularizer="block1", C=0.3).fit(X_train, y_train)
print(
    f"{100 * model.score(X_test, y_test):.1f}% correct with {model.n_active_} of {X.shape[1]} columns"
)
figure, axis = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
plot_weights(model, ax=axis)

# %%
# What the certificate says
# -------------------------
# ``dual_gap_`` bounds how much better *any* model of these kernels could be, as a part of the
# objective. It is computed from the model itself, over all kernels, those that are out of it
# included.

print(f"at most {100 * model.dual_gap_:.2f}% from the optimum")

# %%
# More columns, or fewer
# ----------------------
# ``path`` follows the weights along C, each problem solved from the one before. The smaller C, the
# fewer columns.

points = model.path(X_train, y_train, C=10)
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_path(points, ax=axis)

# %%
# Which C?
# --------
# :class:`omkl.MKLClassifierCV` chooses it by cross-validation along such paths.

search = omkl.MKLClassifierCV(kernels, regularizer="block1", Cs=8, cv=3).fit(X_train, y_train)
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_search(search, ax=axis)
print(
    f"C = {search.C_:.2g}, {100 * search.score(X_test, y_test):.1f}% correct with {search.n_active_} columns"
)

# %%
# Is a weight to be trusted?
# --------------------------
# Measurements such as radius and perimeter say nearly the same, and either may get the weight.
# Compare with all columns alike before you believe in weights: here MKL is as good with about a
# quarter of the columns.

alike = omkl.MKLClassifier(kernels, regularizer="uniform", C=0.3).fit(X_train, y_train)
print(f"all columns alike: {100 * alike.score(X_test, y_test):.1f}% correct")
