"""Chains, one sequence a call; the floor is a matrix product of as many operations.

Viterbi takes one operation for each position and pair of labels; forward-backward takes three, and
exponentials.
"""

import numpy as np
import pytest

from omkl.structures import Chain
from tests.benchmarks.measuring import Floor, product

SIZES = [(20, 26), (200, 26), (2000, 26), (200, 5), (200, 104)]


def by_hmmlearn(unary, pairwise, what):
    """Use the potentials as logarithms of a hidden Markov model with given emissions."""
    from hmmlearn.base import BaseHMM

    class Given(BaseHMM):
        def _check(self):
            pass

        def _compute_log_likelihood(self, X):
            return X

    model = Given(unary.shape[1])
    model.n_features = unary.shape[1]
    transitions = np.exp(pairwise)
    model.startprob_ = np.full(unary.shape[1], 1 / unary.shape[1])
    model.transmat_ = transitions / transitions.sum(axis=1, keepdims=True)
    if what == "decode":
        return lambda: model.decode(unary)
    return lambda: model.predict_proba(unary)


@pytest.mark.parametrize(("n", "n_labels"), SIZES)
@pytest.mark.parametrize("what", ["decode", "marginals"])
def test_chain(measure, what, n, n_labels):
    rng = np.random.default_rng(0)
    potentials = rng.normal(size=(n, n_labels)), rng.normal(size=(n_labels, n_labels))
    function = getattr(Chain(n_labels), what)
    peers = {"hmmlearn": lambda: by_hmmlearn(*potentials, what)}
    floor = product(n, n_labels, n_labels, np.float64)
    if what == "marginals":
        once = floor.function
        assert floor.times == 1.0
        floor = Floor("products and exp", lambda: (once(), once(), once(), np.exp(potentials[0])))
    measure(
        lambda: function(potentials), floor=floor, peers=peers, size=n if n_labels == 26 else None
    )
