"""Invariance of models to the order of rows, columns, groups, kernels, classes and outputs, and to
units of targets.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import r2_score

from omkl import (
    GroupLasso,
    GroupLassoCV,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    Passes,
    SparseLogisticRegression,
)
from omkl.kernels import Gaussian, Linear, Polynomial

N = 8
LABELS = np.array([0, 0, 0, 1, 1, 2, 2, 2])
NAMES = np.array(["low", "middle", "high"])


def regression(rng):
    X = rng.normal(size=(40, N)) * 10 ** rng.uniform(-1, 1, N)
    return X, X[:, :3] @ rng.normal(size=3) + 0.3 * X[:, 4] ** 2 + 0.1 * rng.normal(size=40)


def binary(rng):
    X, score = regression(rng)
    return X, np.where(
        score > np.median(score),
        "yes",
        "no",
    )


def ternary(rng):
    X, score = regression(rng)
    return X, NAMES[np.searchsorted(np.quantile(score, [0.3, 0.7]), score)]


def outputs(rng):
    X, score = regression(rng)
    return X, np.column_stack([score, np.sin(score), X[:, 5]])


def counts(rng):
    X, score = regression(rng)
    return X, rng.poisson(np.exp(score / np.abs(score).max())).astype(float)


#: How data are drawn, and an estimator of the columns' groups; all designs have ``alpha`` far below
#: the largest.
DESIGNS = {
    "lasso": (regression, lambda groups: GroupLasso(0.1, tol=1e-8)),
    "groups": (
        regression,
        lambda groups: GroupLasso(0.1, groups=groups, group_weights="sqrt-size", tol=1e-8),
    ),
    "positive": (
        regression,
        lambda groups: GroupLasso(0.1, groups=groups, positive=True, tol=1e-8),
    ),
    "counts": (counts, lambda groups: GroupLasso(0.02, groups=groups, loss="poisson", tol=1e-8)),
    "outputs": (outputs, lambda groups: GroupLasso(0.1, groups=groups, tol=1e-8)),
    "logistic": (binary, lambda groups: SparseLogisticRegression(0.02, groups=groups, tol=1e-8)),
    "hinge": (
        binary,
        lambda groups: SparseLogisticRegression(0.05, groups=groups, loss="hinge", tol=1e-5),
    ),
    "multinomial": (
        ternary,
        lambda groups: SparseLogisticRegression(
            0.02, groups=groups, multiclass="multinomial", tol=1e-8
        ),
    ),
}


def answers(model, X):
    """Scores where there are some, else predictions."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_are_invariant_to_order_storage_and_repetition(name, rng):
    draw, make = DESIGNS[name]
    X, y = draw(rng)
    new = rng.normal(size=(5, N))
    plain = make(LABELS).fit(X, y)
    expected = answers(plain, new)

    def check(model, new=new, expected=expected):
        # with kinks the optimum is nearly not unique: compare objectives
        unit = 1.0 + np.abs(expected).max()
        assert_allclose(
            answers(model, new), expected, atol=unit * (0.02 if name == "hinge" else 3e-3)
        )
        assert model.dual_gap_ <= model.tol

    columns = rng.permutation(N)
    rows = rng.permutation(len(y))
    check(
        make(LABELS[columns]).fit(X[:, columns], y),
        new[:, columns],
    )
    check(make([np.flatnonzero(g == LABELS).tolist() for g in (2, 0, 1)]).fit(X, y))
    check(make(LABELS).fit(X[rows], y[rows]))
    for kind in (sparse.csr_array, sparse.csc_array):
        check(make(LABELS).fit(kind(X), y), kind(new))
    check(make(LABELS).fit(X, y, sample_weight=np.full(len(y), 7.0)))
    weights = rng.integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    again = make(LABELS).fit(X[repeated], y[repeated])
    check(make(LABELS).fit(X, y, sample_weight=weights), expected=answers(again, new))
    if name == "outputs":
        check(
            make(LABELS).fit(X, y[:, [2, 0, 1]]),
            expected=expected[:, [2, 0, 1]],
        )
    elif draw is ternary:
        check(
            make(LABELS).fit(X, in_reverse_order(y)),
            expected=expected[:, ::-1],
        )


def in_reverse_order(y):
    """Rename classes so that their order is reversed."""
    others = dict(zip(sorted(NAMES), ["z", "y", "x"]))
    return np.array([others[label] for label in y])


KERNELS = [Gaussian(4.0), Gaussian(50.0), Linear(), Polynomial(2)]
BATCH = {
    "logistic": (binary, lambda kernels: MKLClassifier(kernels, C=2.0, tol=1e-7)),
    "hinge": (
        binary,
        lambda kernels: MKLClassifier(kernels, C=1.0, loss="hinge", regularizer="block1", tol=1e-6),
    ),
    "classes": (
        ternary,
        lambda kernels: MKLClassifier(kernels, C=1.0, regularizer="elastic-net", tol=1e-7),
    ),
    "squared": (regression, lambda kernels: MKLRegressor(kernels, C=1.0, tol=1e-7)),
    "lp": (
        regression,
        lambda kernels: MKLRegressor(
            kernels, C=1.0, regularizer="lp-norm:q=1.5", solver="lp-norm", tol=1e-6
        ),
    ),
    "outputs": (
        outputs,
        lambda kernels: MKLRegressor(kernels, C=1.0, regularizer="block1", tol=1e-7),
    ),
}


@pytest.mark.parametrize("name", BATCH)
def test_kernel_machines_are_invariant_to_order_and_repetition(name, rng):
    draw, make = BATCH[name]
    X, y = draw(rng)
    X = X / np.abs(X).max(axis=0)
    new = X[::4] + 0.1
    plain = make(KERNELS).fit(X, y)
    expected = answers(plain, new)

    def check(model, new=new, expected=expected):
        assert_allclose(
            answers(model, new),
            expected,
            atol=1e-2 * (1.0 + np.abs(expected).max()),
        )
        assert model.dual_gap_ <= model.tol

    order = rng.permutation(len(KERNELS))
    rows = rng.permutation(len(y))
    columns = rng.permutation(N)
    permuted = make([KERNELS[k] for k in order]).fit(X, y)
    check(permuted)
    assert permuted.kernel_weights_ == pytest.approx(plain.kernel_weights_, abs=0.02)
    check(make(KERNELS).fit(X[rows], y[rows]))
    check(make(KERNELS).fit(X[:, columns], y), new[:, columns])
    check(make(KERNELS).set_params(dtype="float64").fit(np.asfortranarray(X), y))
    if draw is ternary:
        check(
            make(KERNELS).fit(X, in_reverse_order(y)),
            expected=expected[:, ::-1],
        )
    weights = rng.integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    of_repeated = answers(make(KERNELS).fit(X[repeated], y[repeated]), new)
    check(make(KERNELS).fit(X, y, weights), expected=of_repeated)


#: Regressors, and whether another unit of the targets changes nothing.
UNITS = {
    "squared": (MKLRegressor(KERNELS), True),
    "norms": (MKLRegressor(KERNELS, weighting="norms", solver="fista", tol=1e-4), True),
    "huber": (MKLRegressor(KERNELS, loss="huber"), False),
    "epsilon": (MKLRegressor(KERNELS, loss="epsilon-insensitive"), False),
    "block1": (MKLRegressor(KERNELS, regularizer="block1"), False),
    "cv": (MKLRegressorCV(KERNELS, Cs=3, cv=2), True),
    "block1 cv": (MKLRegressorCV(KERNELS, Cs=3, cv=2, regularizer="block1"), True),
    "lasso": (GroupLasso(0.1), False),
    "lasso huber": (GroupLasso(0.1, loss="huber"), False),
    "lasso cv": (GroupLassoCV(4, cv=2), True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("several", [False, True])
def test_offsets_and_units_of_targets_change_nothing(name, several, rng):
    (model, any_unit) = UNITS[name]
    X = rng.normal(size=(60, N))
    weights = rng.uniform(0.5, 2.0, 60)
    y = X[:, 0] + 0.3 * X[:, 1] ** 2
    y = np.column_stack([y, X[:, 0] - X[:, 2]]) if several else y
    expected = clone(model).fit(X, y, weights).predict(X)
    assert r2_score(y, expected) > 0.2
    for offset, unit in [
        (1e6, 1.0),
        (1.7e9, 1.0),
        *([(0.0, 1e-9), (0.0, 1e9), (1e15, 1e9)] if any_unit else []),
    ]:
        again = clone(model).fit(
            X,
            offset + unit * y,
            weights,
        )
        assert again.dual_gap_ <= model.tol
        assert_allclose(
            (again.predict(X) - offset) / unit, expected, atol=0.02 * y.std(axis=0).max()
        )


def test_a_warm_start_and_a_path_are_in_units_of_the_targets(rng):
    X, y = regression(rng)
    y = y + 1e8
    model = GroupLasso(0.1, warm_start=True, tol=1e-6).fit(X, y)
    [record] = model.path(X, y, [0.1])
    assert_allclose(
        X @ record["coef"] + record["intercept"],
        model.predict(X),
        rtol=1e-9,
    )
    objective = 0.5 * np.mean((y - model.predict(X)) ** 2) + 0.1 * np.abs(model.coef_).sum()
    assert record["objective"] == pytest.approx(objective, rel=1e-4)
    assert model.fit(X, y).n_iter_ == 1


ONLINE = {"crf": (ternary, OnlineMKLClassifier), "squared": (regression, OnlineMKLRegressor)}


@pytest.mark.parametrize("method", ["fobos", "rda"])
@pytest.mark.parametrize("loss", ONLINE)
def test_online_machines_are_invariant_to_order(method, loss):
    """With losses without ties, which the order of classes would break."""
    rng = np.random.default_rng(1)
    draw, kind = ONLINE[loss]
    X, y = draw(rng)
    X = X / np.abs(X).max(axis=0)
    model = kind(loss=loss, method=method, random_state=0)

    def trained(X, y, kernels=KERNELS, shuffle=False):
        return clone(model).set_params(kernels=kernels, epochs=Passes(3, shuffle=shuffle)).fit(X, y)

    def check(model, X, expected):
        assert_allclose(answers(model, X), expected, atol=1e-8)

    plain = trained(X, y)
    expected = answers(plain, X)
    order = rng.permutation(len(KERNELS))
    columns = rng.permutation(N)
    permuted = trained(
        X,
        y,
        [KERNELS[k] for k in order],
    )
    check(permuted, X, expected)
    assert permuted.kernel_weights_ == pytest.approx(plain.kernel_weights_, rel=1e-7, abs=1e-9)
    check(
        trained(X[:, columns], y),
        X[:, columns],
        expected,
    )
    # shuffling depends on positions, not on rows
    rows = rng.permutation(len(y))
    of_shuffled = answers(trained(X, y, shuffle=True), X)
    check(
        trained(X[rows], y[rows], shuffle=True),
        X,
        of_shuffled,
    )
    if loss == "crf":
        check(
            trained(X, in_reverse_order(y)),
            X,
            expected[:, ::-1],
        )
    else:
        # of an odd number of targets, whose median is one of them
        odd = trained(X[1:], y[1:])
        check(
            trained(X[1:], -y[1:]),
            X,
            -answers(odd, X),
        )
