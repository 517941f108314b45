"""
Learn from a stream that drifts
===============================

Examples arrive one after the other, each is seen once, and half-way the world changes: another
source of evidence begins to tell the classes apart. The model has to notice, within a memory that
does not grow.
"""

# %%
# The stream
# ----------
# An example is three vectors of four numbers. The label says whether the first vector is long;
# after 10,000 examples, whether the second one is. The third never says anything, and one label in
# twenty is wrong.

import matplotlib.pyplot as plt
import numpy as np

import omkl
from omkl.reports import plot_curves

rng = np.random.default_rng(0)
N = 20_000


def examples(n):
    for t in range(n):
        x = rng.normal(size=12)
        telling = x[:4] if t < n // 2 else x[4:8]
        label = (telling @ telling > 3.36) != (rng.random() < 0.05)
        yield x, bool(label)


# %%
# The model
# ---------
# A Gaussian kernel on each vector, by 60 random Fourier features, so that a round takes the same
# time and memory for ever. The defaults suit a stream that drifts: the model notices that its
# average lags behind, and begins a new one.

kernels = {
    f"vector {k + 1}": f"gaussian:on={4 * k}:{4 * k + 4},sigma2=4,features=60" for k in range(3)
}
model = omkl.OnlineMKLClassifier(kernels, random_state=0)

# %%
# Test, then learn
# ----------------
# ``partial_fit`` takes blocks of any size. Each block is predicted before it is learned from, so
# that every example is a test of the model as it was: progressive validation.

block, errors, weights = 500, [], []
stream = list(examples(N))
for start in range(0, N, block):
    X = np.array([x for x, _ in stream[start : start + block]])
    y = np.array([label for _, label in stream[start : start + block]])
    if start:
        errors.append(float(np.mean(model.predict(X) != y)))
    model.partial_fit(X, y, classes=[False, True])
    weights.append(model.kernel_weights_)

seen = np.arange(block, N + 1, block)
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_curves(
    {name: (seen, [record[name] for record in weights]) for name in kernels},
    xlabel="examples",
    ylabel="weight",
    ax=axis,
)
axis.axvline(N // 2, color="grey", linestyle=":")

# %%
# The weight moves from the first vector to the second when the world does, and the third stays out.
# The history tells when the model noticed. The error jumps, and falls again:

print("noticed at row", *(row for record in model.history_ for row in record.get("changes", [])))

figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_curves(
    {"error": (seen[:-1], errors)}, xlabel="examples", ylabel="error of the next block", ax=axis
)
axis.axvline(N // 2, color="grey", linestyle=":")
print(f"last blocks: {100 * np.mean(errors[-5:]):.1f}% wrong, where 5% is the best possible")

# %%
# Files instead of blocks: ``model.fit(omkl.data.stream_csv("part-*.csv.gz"))`` reads files that are
# larger than memory, and ``checkpoint="run"`` lets it go on where it was killed.
# ``examples/stream_mkl.py`` is this story with ten million examples.
