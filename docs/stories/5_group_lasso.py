"""
Select groups of columns with the group lasso
=============================================

Categories of a table become several columns, a spline of a number becomes several columns, a gene
has several measurements: such columns should be in a model together, or not at all. The group lasso
does that, and says how far from the best it is.
"""

# %%
# A made-up study
# ---------------
# 300 patients and 40 genes, each measured by five probes. Three genes matter.

import matplotlib.pyplot as plt
import numpy as np

import omkl
from omkl.reports import plot_path, plot_search

rng = np.random.default_rng(0)
n, genes, probes = 300, 40, 5
signal = rng.normal(size=(n, genes))
X = np.repeat(signal, probes, axis=1) + 0.7 * rng.normal(size=(n, genes * probes))
y = 2 * signal[:, 3] - signal[:, 17] + 0.8 * signal[:, 29] + 0.5 * rng.normal(size=n)
groups = np.repeat(np.arange(genes), probes)

# %%
# Lasso and group lasso
# ---------------------
# Without groups every column is one of its own: the lasso picks single probes.

lasso = omkl.GroupLasso(alpha=0.7).fit(X, y)
grouped = omkl.GroupLasso(alpha=0.5, groups=groups).fit(X, y)
for name, model in {"lasso": lasso, "group lasso": grouped}.items():
    columns = np.flatnonzero(model.coef_)
    print(
        f"{name:12} {len(columns):2} columns of the genes {sorted(set(groups[columns].tolist()))}, gap {model.dual_gap_:.1e}"
    )

# %%
# Along alpha
# -----------
# The larger alpha, the fewer groups. Norms of the coefficients of each group:

figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_path(grouped.path(X, y, 20), ax=axis)

# %%
# Which alpha?
# ------------

search = omkl.GroupLassoCV(15, groups=groups, cv=4).fit(X, y)
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_search(search, ax=axis)
print(
    f"alpha = {search.alpha_:.3f}; genes {sorted(set(groups[np.flatnonzero(search.coef_)].tolist()))}"
)

# %%
# Counts, with an offset
# ----------------------
# How often a patient fell ill, while they were watched for different times: a Poisson regression,
# where the logarithm of the time is known and not learned.

years = rng.uniform(0.5, 5.0, n)
events = rng.poisson(years * np.exp(0.5 * signal[:, 3] - 1))
poisson = omkl.GroupLasso(alpha=0.35, groups=groups, loss="poisson").fit(
    X, events, offset=np.log(years)
)
print("genes", sorted(set(groups[np.flatnonzero(poisson.coef_)].tolist())))
print("expected in three years:", poisson.predict(X[:3], offset=np.log([3.0, 3.0, 3.0])).round(1))
