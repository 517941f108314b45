"""
Write your own structure: match the stars of two photographs
============================================================

A structure says what an output is, and how to find the best one. omkl comes with sequences, trees
and classes; here we add *matchings*: two photographs of the same stars, taken a year apart, and the
question which star of the one is which of the other. Stars have moved, and each star has one
partner: whom one takes, no other can.
"""

# %%
# The data
# --------
# A photograph is a table with a row for every star: two coordinates, brightness, colour, and the
# number of its pixel, which says nothing. In the second one the rows are in another order, and the
# right output tells which row each star has there.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

import omkl
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.reports import plot_weights
from omkl.structures import Structure, UnaryPotentials

rng = np.random.default_rng(0)
N_STARS = 15
# how much each column changes within a year; the last one is drawn anew
NOISE = [0.12, 0.12, 0.08, 0.08, 1.0]


def photographs(n):
    pairs, partners = [], []
    for _ in range(n):
        before = rng.random((N_STARS, 5))
        after = before + rng.normal(0, NOISE, before.shape)
        order = rng.permutation(N_STARS)
        pairs.append((before, after[order]))
        partners.append(np.argsort(order))
    return pairs, partners


# %%
# The structure
# -------------
# Potentials are what the model says of the *parts* of an output: here a number for each pair (star,
# partner). An output's score is the sum over its parts. A :class:`~omkl.structures.Structure` needs
# four methods: potentials that are all zero, the output of the highest score, which parts an output
# has, and what a mistake costs, part by part. The best matching of all ``15!`` is found by scipy in
# microseconds.


class Matching(Structure):
    """Matchings: an output is an array with the partner of each star."""

    def zeros(self, size):
        return UnaryPotentials(np.zeros((size, 1)))

    def decode(self, potentials):
        return linear_sum_assignment(potentials.unary.reshape(N_STARS, N_STARS), maximize=True)[1]

    def indicator(self, output):
        found = self.zeros(N_STARS**2)
        found.unary[np.arange(N_STARS) * N_STARS + output] = 1.0
        return found

    def cost_potentials(self, gold):
        return UnaryPotentials(1.0 - self.indicator(gold).unary)  # a wrong partner costs 1


# %%
# The groups
# ----------
# Groups turn an input into potentials. What do we look at in a pair? How far the two are apart in
# each property: near, less near, and so on, in ten steps, so that the model can learn any function
# of the distance. Each property is a group.

PROPERTIES = ["place", "brightness", "colour", "pixel"]
STEPS = 10


def encode(pair):
    before, after = pair
    apart = np.abs(before[:, None] - after[None]).reshape(N_STARS**2, 5)
    apart = np.column_stack([np.hypot(apart[:, 0], apart[:, 1]), apart[:, 2:]])
    step = np.minimum(apart * 2 * STEPS, STEPS - 1).astype(np.int32)
    # every property has ten features of its own
    ids = step + STEPS * np.arange(len(PROPERTIES), dtype=np.int32)
    starts = np.arange(0, ids.size + 1, len(PROPERTIES))
    features = Features(starts, ids.ravel(), np.ones(ids.size))
    return Tokens(np.array([0, len(ids)]), features).everything()


groups = ExplicitBank(
    PROPERTIES, np.repeat(np.arange(len(PROPERTIES)), STEPS), n_outputs=1, averaging=True
)

# %%
# Train
# -----
# That is all: :class:`omkl.StructuredPredictor` trains it with every loss, regularizer and learning
# rate that omkl has.

pairs, partners = photographs(150)
new_pairs, new_partners = photographs(100)
model = omkl.StructuredPredictor(Matching(), [groups], epochs=5, random_state=0)
model.fit([encode(pair) for pair in pairs], partners)
found = model.predict([encode(pair) for pair in new_pairs])


def share_right(outputs):
    return np.mean(np.array(outputs) == np.array(new_partners))


def nearest(pair):
    apart = np.linalg.norm(pair[0][:, None, :2] - pair[1][None, :, :2], axis=2)
    return linear_sum_assignment(apart)[1]


print(
    f"matched by place alone   {100 * share_right([nearest(pair) for pair in new_pairs]):.1f}% right"
)
print(f"learned                  {100 * share_right(found):.1f}% right")
figure, axis = plt.subplots(figsize=(6.5, 2), layout="constrained")
plot_weights(model, ax=axis)

# %%
# The number of the pixel is out. And this is what a matching looks like; lines that are wrong are
# dashed.

(before, after), right, chosen = new_pairs[0], new_partners[0], found[0]
figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
for star, partner in enumerate(chosen):
    line = "-" if right[star] == partner else "--"
    axis.plot(*np.array([before[star, :2], after[partner, :2]]).T, line, color="grey", zorder=1)
for stars, marker, year in ((before, "o", "first year"), (after, "s", "second year")):
    axis.scatter(
        *stars[:, :2].T,
        s=10 + 60 * np.clip(stars[:, 2], 0, 1),
        c=stars[:, 3],
        marker=marker,
        label=year,
    )
axis.set_aspect("equal")
axis.set_axis_off()
axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False)

# %%
# What else a structure can have
# ------------------------------
# With ``marginals`` it can be trained by ``loss="crf"``. :class:`omkl.structures.Structure` lists
# all methods, and ``examples/semi_markov.py`` a segmenter of sequences, whose decoder is a dynamic
# program, in eighty lines.
