"""
Find the feature templates that a parser needs
==============================================

A dependency parser finds, for every word of a sentence, the word that it depends on. It looks at
pairs of words through *feature templates*, such as "the lemma of the head with the tag of the
modifier", and nobody knows beforehand which of hundreds of them a language needs. Here the language
is made up, so that we know the answer.
"""

# %%
# The language
# ------------
# In :func:`omkl.data.synthetic_treebank` three templates decide who depends on whom; all other
# fields of a word, its form and its morphology among them, are drawn at random.

import matplotlib.pyplot as plt

import omkl
from omkl.data import synthetic_treebank
from omkl.reports import plot_weights

INFORMATIVE = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
treebank = synthetic_treebank(700, informative=INFORMATIVE, mean_length=8, random_state=0)
train, test = treebank[:500], treebank[500:]

# %%
# Templates, good ones and useless ones
# -------------------------------------
# We give the parser those three, without telling it, and others that can only tell something by
# chance.

USELESS = [
    "h.form m.form",
    "h.form direction",
    "m.form distance",
    "h.feats m.feats",
    "h.form m-1.form",
    "h-1.form m.form",
    "h.feats m-1.feats direction",
    "h+1.form m+1.form",
]
parser = omkl.DependencyParser([*INFORMATIVE, *USELESS], epochs=5, random_state=0).fit(train)
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
plot_weights(parser, ax=axis)

# %%
# Those that say something about heads have all of the weight. On sentences that it has not seen:

everything = omkl.DependencyParser(
    [*INFORMATIVE, *USELESS], regularizer="l2", epochs=5, random_state=0
).fit(train)
print(
    f"all templates alike    {100 * everything.score(test):.1f}% of the words have the right head"
)
print(f"MKL                    {100 * parser.score(test):.1f}%")

# %%
# Prune, and train anew
# ---------------------
# ``prune`` keeps the best templates; what it returns trains anew, on a third of the look-ups.

small = parser.prune(keep=3).set_params(regularizer="l2").fit(train)
print(f"the best three, anew   {100 * small.score(test):.1f}%:", "; ".join(small.template_weights_))

# %%
# ``DependencyParser(keep="auto")`` finds by itself how many to keep. A treebank of yours is a path:
# ``parser.fit("train.conllu")``. The same from a shell: ``omkl train parser train.conllu -o
# parser.npz --keep auto``, ``omkl inspect parser.npz``.
