"""Long sequences, many steps, and certificates of less usual regularizers, compared with
independent computations.
"""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import omkl
from omkl import MKLClassifier, MKLRegressor
from omkl.exceptions import InputError
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.losses import StructuredHinge
from omkl.online import Constant, OnlineTrainer
from omkl.regularizers import (
    L21,
    OverlappingGroups,
    Ridge,
    SquaredL21,
    TreeGroups,
    WeightedSquaredL21,
)
from omkl.structures import Binary, Chain

LONG = np.longdouble


def squared(norms, step):
    """The prox of ``(a + b)^2 / 2``."""
    threshold = step * norms.sum() / (1 + 2 * step)
    if norms.min() <= threshold:
        return np.where(
            norms == norms.max(),
            norms / (1 + step),
            LONG(0),
        )
    return norms - threshold


PROXES = {
    "mkl": (SquaredL21(), squared),
    "group lasso": (L21(), lambda norms, step: np.maximum(norms - step, 0)),
}


@pytest.mark.parametrize("name", PROXES)
def test_lazy_steps_are_those_of_exact_arithmetic(name):
    """Compare lazily scaled groups, updated or not, with extended precision."""
    n_steps = 5_000
    regularizer, exact_prox = PROXES[name]
    X = np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.7, -0.4]])
    rows = sparse.csr_array(X)
    columns = rows.indices.astype(np.int32)
    tokens = Tokens(np.arange(3), Features(rows.indptr.astype(np.int64), columns, rows.data))
    trainer = OnlineTrainer(
        [ExplicitBank("ab", np.array([0, 0, 1, 1]), 1, False)],
        Binary(),
        StructuredHinge(),
        regularizer,
        lambda_=1e-6,
        schedule=Constant(0.01),
        average=None,
    )
    trainer.recompute_every = 10 * n_steps  # nothing else than the steps themselves
    theta = np.zeros((2, 2), LONG)  # by group
    golds = np.random.default_rng(0).integers(0, 2, 1000).tolist()
    for t in range(n_steps):
        # the second group learns a thousand rounds, and is scaled ever after
        which = int(t < 1000 and t % 2 == 0)
        gold = golds[t % 1000]
        trainer.update(tokens.sequence(which), gold)
        sign = 2 * gold - 1
        if 1 - sign * (X[which] @ theta.ravel()) > 0:
            theta += LONG(0.01) * sign * X[which].reshape(2, 2)
        norms = np.hypot(*theta.T)
        shrunk = exact_prox(norms, LONG(0.01) * LONG(1e-6))
        theta *= np.divide(shrunk, norms, out=np.zeros(2, LONG), where=norms > 0)[:, None]
    tracked = trainer.group_state.norms.copy()
    trainer.recompute_norms()
    assert_allclose(tracked, trainer.group_state.norms, rtol=1e-8)
    assert theta.all()
    assert_allclose(
        tracked,
        np.hypot(*theta.T).astype(float),
        rtol=1e-8,
    )


def log_add(a, b):
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def best_path_of_two_labels(unary, pairwise):
    """Viterbi's algorithm; scores are (n, 2) and (2, 2)."""
    (a, b), (c, d) = pairwise.tolist()
    first, second = unary[0]
    pointers = []
    for u, v in unary[1:]:
        pointers.append((first + a < second + c, first + b < second + d))
        first, second = max(first + a, second + c) + u, max(first + b, second + d) + v
    path = [int(second > first)]
    for pointer in reversed(pointers):
        path.append(int(pointer[path[-1]]))
    return path[::-1]


def log_sums_before(unary, pairwise):
    """Log sums over the beginnings that end in each label, of each position: (n, 2)."""
    (a, b), (c, d) = pairwise.tolist()
    first, second = unary[0]
    log_sums = [(first, second)]
    for u, v in unary[1:]:
        first, second = log_add(first + a, second + c) + u, log_add(first + b, second + d) + v
        log_sums.append((first, second))
    return log_sums


def test_a_sequence_of_a_hundred_thousand_is_decoded_and_summed_up(rng):
    """With two labels, plain loops are the reference."""
    n = 100_000
    chain = Chain(2)
    potentials = chain.zeros(n)
    potentials.unary[:] = rng.normal(size=(n, 2))
    pairwise = rng.normal(size=(2, 2))
    potentials.pairwise[:] = pairwise
    unary = potentials.unary.tolist()
    assert_array_equal(chain.decode(potentials), best_path_of_two_labels(unary, pairwise))
    log_sum, marginals = chain.marginals(potentials)
    forward = log_sums_before(unary, pairwise)
    assert_allclose(
        log_sum,
        log_add(*forward[-1]),
        rtol=1e-10,
    )
    backward = log_sums_before(unary[::-1], pairwise.T)[::-1]
    log_products = np.array(forward) + np.array(backward) - potentials.unary
    assert_allclose(
        marginals.unary,
        np.exp(log_products - log_sum),
        atol=1e-7,
    )


RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))


def test_one_class_and_one_target():
    n = 5
    for estimator in (
        omkl.MKLClassifier(),
        omkl.SparseLogisticRegression(),
        omkl.OnlineMKLClassifier(),
    ):
        with pytest.raises(
            InputError, match="y holds one class only, 'yes': a classifier needs two"
        ):
            estimator.fit(X[:n], ["yes"] * n)
    for estimator in (omkl.MKLRegressor(), omkl.GroupLasso(), omkl.OnlineMKLRegressor()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert_allclose(estimator.fit(X[:n], [2.5] * n).predict(X[:3]), 2.5)
    for classes in ("growing", ["no", "yes"]):
        model = omkl.OnlineMKLClassifier().partial_fit(
            X[:n],
            ["yes"] * n,
            classes=classes,
        )
        assert_array_equal(model.predict(X[:3]), ["yes"] * 3)


WEIGHTS = np.array([1.0, 0.5, 2.0, 0.3])
CHAIN = [[0, 1], [1, 2], [2, 3]]
LOSSES = {
    "logistic": lambda y, z: np.logaddexp(0, -y * z),
    "hinge": lambda y, z: np.maximum(0, 1 - y * z),
    "squared": lambda y, z: 0.5 * (y - z) ** 2,
}
REGULARIZERS = {
    "lp": ("lp-norm:q=1.5", lambda b: 0.5 * (b**1.5).sum() ** (4 / 3)),
    "weighted": (WeightedSquaredL21(WEIGHTS), lambda b: 0.5 * (WEIGHTS @ b) ** 2),
    "mkl + ridge": (SquaredL21() + 0.1 * Ridge(), lambda b: 0.5 * b.sum() ** 2 + 0.05 * b @ b),
    "tree": (
        TreeGroups([[0, 1, 2, 3], [0, 1], [3]]),
        lambda b: np.hypot(*b[:2]) + np.linalg.norm(b) + b[3],
    ),
    "overlapping": (
        OverlappingGroups(CHAIN, exact=True),
        lambda b: sum(np.hypot(b[first], b[second]) for first, second in CHAIN),
    ),
}
SOLVERS = ["spicy", "one-step", "gmkl", "simplemkl", "lp-norm"]
STRENGTHS = [1e-6, 1e-2, 1.0, 1e2, 1e4]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=24)
    distances = ((X[:, None] - X) ** 2).sum(axis=-1)
    grams = [
        np.outer(X[:, 0], X[:, 0]),
        np.outer(X[:, 1], X[:, 1]),
        np.outer(X[:, 1] ** 2, X[:, 1] ** 2),
    ]
    return [*grams, np.exp(-distances / 4)], score


def any_of(base, categories):
    """Return whether any category of warnings is derived from this one."""
    return any(issubclass(category, base) for category in categories)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_certificates_of_all_solvers_agree(data, loss, regularizer):
    """No objective is below the lower bound of any certificate."""
    kernels, score = data
    C = STRENGTHS[(list(REGULARIZERS).index(regularizer) + list(LOSSES).index(loss)) % 4]
    is_regression = loss == "squared"
    y = score if is_regression else np.where(score > 0.3, 1, -1)
    penalty, value = REGULARIZERS[regularizer]
    model = MKLRegressor() if is_regression else MKLClassifier()
    model.set_params(kernels="precomputed", loss=loss, regularizer=penalty, C=C)
    model.set_params(tol=1e-4, dtype="float64")
    objectives = []
    bounds = []
    for solver in [*SOLVERS, "fista"]:
        if solver == "fista" and (objectives or C > 1.0):
            continue  # it is slow, and for what no other solver takes
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.set_params(solver=solver).fit(kernels, y)
            except InputError:
                # refused at the door
                continue
        outputs = sum(map(np.matmul, kernels, model.dual_coef_)) + model.intercept_[0]
        norms = np.sqrt([max(a @ K @ a, 0.0) for K, a in zip(kernels, model.dual_coef_)])
        objectives.append(C * LOSSES[loss](y, outputs).sum() + value(norms))
        bounds.append(objectives[-1] * (1 - model.dual_gap_))
        categories = [warning.category for warning in caught]
        assert -1e-7 <= model.dual_gap_ <= 1e-4 or any_of(ConvergenceWarning, categories)
        assert not any_of(RuntimeWarning, categories)
    if not objectives:
        # refused by all, as losses with kinks and regularizers that are no sums are
        assert regularizer in ("lp", "weighted", "tree", "overlapping")
        return
    assert max(bounds) <= min(objectives) * (1 + 1e-8)


@pytest.mark.parametrize("weight", [1e-100, 1.0, 1e9, 1e100])
def test_a_weight_for_all_rows_changes_no_number_of_presentations(weight):
    """Of a fit: large weights, such as numbers of inhabitants, are relative."""
    y = (X[:, 0] > 0).astype(int)
    model = omkl.OnlineMKLClassifier(random_state=0, epochs=2)
    model.fit(X, y, sample_weight=np.full(len(X), weight))
    assert [record["examples"] for record in model.history_] == [30, 30]
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("weight", [-1.0, 1e-101, 1e101, np.inf])
def test_weights_out_of_range_are_refused(weight):
    y = (X[:, 0] > 0).astype(int)
    weights = np.append(np.ones(len(X) - 1), weight)
    for estimator in (omkl.OnlineMKLClassifier(), MKLClassifier(), omkl.SparseLogisticRegression()):
        with pytest.raises(InputError, match=r"each of them 0 or from 1e-100 to 1e\+100"):
            estimator.fit(X, y, sample_weight=weights)


def test_too_many_copies_in_a_block_are_refused():
    y = (X[:, 0] > 0).astype(int)
    weights = np.full(len(X), 1e9)
    with pytest.raises(InputError, match="at most 100,000,000 in a block, got 3e"):
        omkl.OnlineMKLClassifier().partial_fit(X, y, sample_weight=weights)
