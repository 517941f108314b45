"""Long sequences and many steps, compared with independent computations."""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import omkl
from omkl.exceptions import InputError
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.losses import StructuredHinge
from omkl.online import Constant, OnlineTrainer
from omkl.regularizers import L21, SquaredL21
from omkl.structures import Binary, Chain

LONG = np.longdouble


def squared(norms, step):
    """The prox of ``(a + b)^2 / 2``."""
    threshold = step * norms.sum() / (1 + 2 * step)
    if norms.min() <= threshold:
        return np.where(norms == norms.max(), norms / (1 + step), LONG(0))
    return norms - threshold


PROXES = {"mkl": (SquaredL21(), squared), "group lasso": (L21(), lambda norms, step: np.maximum(norms - step, 0))}


@pytest.mark.parametrize("name", PROXES)
def test_lazy_steps_are_those_of_exact_arithmetic(name):
    """Compare lazily scaled groups, updated or not, with extended precision."""
    n_steps, (regularizer, exact_prox) = 5_000, PROXES[name]
    X = np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.7, -0.4]])
    rows = sparse.csr_array(X)
    tokens = Tokens(np.arange(3), Features(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data))
    bank = ExplicitBank("ab", np.array([0, 0, 1, 1]), 1, False)
    rate, lambda_ = 0.01, 1e-6
    trainer = OnlineTrainer(
        [bank], Binary(), StructuredHinge(), regularizer, lambda_=lambda_, schedule=Constant(rate), average=None
    )
    trainer.recompute_every = 10 * n_steps  # nothing else than the steps themselves
    examples, theta = [tokens.sequence(0), tokens.sequence(1)], np.zeros(4, LONG)
    golds = np.random.default_rng(0).integers(0, 2, 1000).tolist()
    for t in range(n_steps):
        # the second group learns a thousand rounds, and is scaled ever after
        which, gold = int(t < 1000 and t % 2 == 0), golds[t % 1000]
        trainer.update(examples[which], gold)
        sign = 2 * gold - 1
        if 1 - sign * (X[which] @ theta) > 0:
            theta += LONG(rate) * sign * X[which]
        norms = np.array([np.hypot(*theta[:2]), np.hypot(*theta[2:])])
        shrunk = exact_prox(norms, LONG(rate) * LONG(lambda_))
        theta *= np.repeat(np.divide(shrunk, norms, out=np.zeros(2, LONG), where=norms > 0), 2)
    tracked = trainer.group_state.norms.copy()
    trainer.recompute_norms()
    assert_allclose(tracked, trainer.group_state.norms, rtol=1e-8)
    exact = np.array([np.hypot(*theta[:2]), np.hypot(*theta[2:])], dtype=float)
    assert exact.all()
    assert_allclose(tracked, exact, rtol=1e-8)


def log_add(a, b):
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def test_a_sequence_of_a_hundred_thousand_is_decoded_and_summed_up():
    """With two labels, a plain loop is the reference."""
    n, rng, chain = 100_000, np.random.default_rng(0), Chain(2)
    potentials = chain.zeros(n)
    potentials.unary[:] = rng.normal(size=(n, 2))
    potentials.pairwise[:] = pairwise = rng.normal(size=(2, 2))
    (a, b), (c, d) = pairwise.tolist()
    unary, (p, q) = potentials.unary.tolist(), potentials.unary[0].tolist()
    best, forward, pointers = (p, q), [(p, q)], []
    for u, v in unary[1:]:
        pointers.append((best[0] + a < best[1] + c, best[0] + b < best[1] + d))
        best = max(best[0] + a, best[1] + c) + u, max(best[0] + b, best[1] + d) + v
        p, q = log_add(p + a, q + c) + u, log_add(p + b, q + d) + v
        forward.append((p, q))
    path, (p, q), backward = [int(best[1] > best[0])], (0.0, 0.0), [(0.0, 0.0)]
    for pointer, (u, v) in zip(reversed(pointers), reversed(unary)):
        path.append(int(pointer[path[-1]]))
        p, q = log_add(a + u + p, b + v + q), log_add(c + u + p, d + v + q)
        backward.append((p, q))
    assert_array_equal(chain.decode(potentials), path[::-1])
    log_sum, marginals = chain.marginals(potentials)
    assert_allclose(log_sum, log_add(*forward[-1]), rtol=1e-10)
    assert_allclose(marginals.unary, np.exp(np.array(forward) + np.array(backward[::-1]) - log_sum), atol=1e-7)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))


def test_one_class_and_one_target():
    n = 5
    for estimator in (omkl.MKLClassifier(), omkl.SparseLogisticRegression()):
        with pytest.raises(InputError, match="y holds one class only, 'yes': a classifier needs two"):
            estimator.fit(X[:n], ["yes"] * n)
    for estimator in (omkl.MKLRegressor(), omkl.GroupLasso(), omkl.OnlineMKLRegressor()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert_allclose(estimator.fit(X[:n], [2.5] * n).predict(X[:3]), 2.5)
    assert_array_equal(omkl.OnlineMKLClassifier().fit(X[:n], ["yes"] * n).predict(X[:3]), ["yes"] * 3)
