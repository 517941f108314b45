"""Linear estimators of several outputs, labels and counts, with offsets and signs."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone
from sklearn.datasets import load_iris, load_linnerud, make_multilabel_classification
from sklearn.linear_model import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    MultiTaskElasticNet,
    MultiTaskLasso,
    PoissonRegressor,
)
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler

from omkl import (
    GroupLasso,
    GroupLassoCV,
    OnlineMKLRegressor,
    SparseLogisticRegression,
    SparseLogisticRegressionCV,
)
from omkl.exceptions import InputError


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 30))
    W = np.zeros((30, 4))
    W[:5] = rng.normal(size=(5, 4))
    return X, X @ W + rng.normal(size=(100, 4)) + np.arange(4)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]


def test_single_columns_of_several_outputs_are_the_multi_task_lasso(outputs):
    X, Y = outputs
    ours = GroupLasso(0.3, tol=1e-9).fit(X, Y)
    theirs = MultiTaskLasso(0.3, tol=1e-10, max_iter=10_000).fit(X, Y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(
        ours.predict(X),
        theirs.predict(X),
        atol=1e-3,
    )
    assert ours.dual_gap_ <= 1e-9
    elastic = GroupLasso(0.3, regularizer="elastic-net:mu=0.4", tol=1e-9).fit(X, Y)
    theirs = MultiTaskElasticNet(alpha=0.3, l1_ratio=0.6, tol=1e-10, max_iter=10_000).fit(X, Y)
    assert_allclose(elastic.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_lq_norms_of_several_outputs_are_solved_by_sparsa(outputs, fit_intercept):
    """A generic convex solver finds the same objective; the default solver refuses what it cannot
    solve.
    """
    (X, Y) = outputs
    groups = np.arange(30) // 3
    q = 1.5
    settings = {"regularizer": f"block-q:q={q}", "groups": groups, "fit_intercept": fit_intercept}
    model = GroupLasso(0.3, solver="sparsa", tol=1e-7, max_iter=20_000, **settings).fit(X, Y)

    def objective(W, b, norms_to_q):
        return 0.5 / 100 * cp.sum_squares(Y - X @ W - b) + 0.3 / q * norms_to_q

    W = cp.Variable((30, 4))
    b = cp.Variable((1, 4)) if fit_intercept else np.zeros((1, 4))
    norms = [cp.power(cp.norm(W[groups == k], "fro"), q) for k in range(10)]
    best = cp.Problem(cp.Minimize(objective(W, b, sum(norms)))).solve()
    penalty = sum(np.linalg.norm(model.coef_.T[groups == k]) ** q for k in range(10))
    assert_allclose(
        objective(model.coef_.T, model.intercept_, penalty).value,
        best,
        rtol=1e-5,
    )
    assert model.dual_gap_ <= 1e-7
    with pytest.raises(InputError, match="'sparsa' accepts others"):
        GroupLasso(0.3, **settings).fit(X, Y)


def test_weights_offsets_and_warm_starts_of_several_outputs(outputs, reloaded):
    X, Y = outputs
    weights = np.where(
        np.arange(100) < 20,
        0.0,
        np.arange(100) % 3 + 1.0,
    )
    twice = GroupLasso(0.3, groups=np.arange(30) // 3, tol=1e-9).fit(
        np.repeat(X, weights.astype(int), axis=0), np.repeat(Y, weights.astype(int), axis=0)
    )
    model = GroupLasso(0.3, groups=np.arange(30) // 3, tol=1e-9, warm_start=True).fit(
        X, Y, sample_weight=weights
    )
    assert_allclose(model.coef_, twice.coef_, atol=1e-4)
    assert model.fit(X, Y, sample_weight=weights).history_[0]["gap"] <= 1e-8
    offset = np.random.default_rng(1).normal(size=Y.shape)
    shifted = GroupLasso(0.3, tol=1e-9).fit(X, Y, offset=offset)
    plain = GroupLasso(0.3, tol=1e-9).fit(X, Y - offset)
    assert_allclose(
        shifted.predict(X, offset=offset),
        plain.predict(X) + offset,
        atol=1e-4,
    )
    assert_array_equal(reloaded(model).predict(X), model.predict(X))
    with pytest.warns(UserWarning, match="constant"):
        assert_allclose(
            GroupLasso().fit(X, np.tile([1.0, 2.0], (100, 1))).predict(X),
            np.tile([1.0, 2.0], (100, 1)),
        )


def test_paths_and_cross_validation_of_several_outputs(outputs):
    X, Y = outputs
    path = GroupLasso(tol=1e-7).path(X, Y, 5)
    alone = GroupLasso(path[2]["alpha"], tol=1e-7).fit(X, Y)
    assert_allclose(path[2]["coef"], alone.coef_, atol=1e-3)
    assert path[2]["active"] == np.count_nonzero(alone.coef_.any(axis=0))
    chosen = GroupLassoCV(6, cv=3).fit(X, Y)
    assert chosen.coef_.shape == (4, 30)
    assert set(np.flatnonzero(chosen.coef_.any(axis=0))) >= set(range(5))
    assert chosen.scores_.mean(axis=0).max() > 0.6


def test_multinomial_probabilities_without_penalty_are_those_of_scikit_learn(iris):
    X, y = iris
    # scikit-learn's penalty, of all coefficients' squares, is that of groups of single columns
    ours = SparseLogisticRegression(
        0.02, multiclass="multinomial", regularizer="ridge", tol=1e-10
    ).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.02 * 150), tol=1e-8, max_iter=1000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(
        ours.predict_proba(X),
        theirs.predict_proba(X),
        atol=1e-4,
    )
    assert ours.dual_gap_ <= 1e-10


def test_all_classes_share_the_columns_of_a_multinomial_model(iris):
    X, y = iris
    model = SparseLogisticRegression(
        0.1, multiclass="multinomial", tol=1e-7, class_weight="balanced"
    ).fit(X, y)
    chosen = model.coef_ != 0
    assert (chosen == chosen[0]).all()
    assert 0 < chosen[0].sum() < 4
    assert model.score(X, y) > 0.9
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    best = SparseLogisticRegressionCV(
        6, multiclass="multinomial", cv=3, scoring="neg_log_loss"
    ).fit(X, y)
    assert best.scores_.mean(axis=0).max() > -0.3
    assert best.coef_.shape == (3, 4)


def test_two_classes_are_the_logistic_loss_and_other_losses_are_refused(iris):
    X, y = iris
    two = [
        SparseLogisticRegression(0.02, multiclass=kind).fit(X, y == "a").coef_
        for kind in ("ovr", "multinomial")
    ]
    assert_array_equal(*two)
    with pytest.raises(InputError, match="its own loss"):
        SparseLogisticRegression(loss="hinge", multiclass="multinomial").fit(X, y)
    with pytest.raises(InputError, match="multiclass"):
        SparseLogisticRegression(multiclass="all").fit(X, y)
    with pytest.raises(InputError, match="positive"):
        GroupLasso(positive=True).fit(*load_linnerud(return_X_y=True))


def single_precision(X):
    return np.asfortranarray(X, dtype=np.float32)


@pytest.mark.parametrize("convert", [aslinearoperator, csr_array, csc_array, single_precision])
def test_every_kind_of_design_gives_the_same_models(outputs, convert):
    X, Y = outputs
    weights = np.ones(10)
    weights[3] = 0.0
    options = {"groups": np.arange(30) // 3, "group_weights": weights, "tol": 1e-7}
    for model, y in (
        (GroupLasso(0.2, **options), Y),
        (GroupLasso(0.2, regularizer="sparse-group", positive=True, **options), Y[:, 0]),
        (GroupLasso(0.2, loss="poisson", **options), np.abs(np.round(Y[:, 0]))),
        (SparseLogisticRegression(0.05, multiclass="multinomial", **options), Y.argmax(axis=1)),
        (
            SparseLogisticRegressionCV([0.1, 0.05], multiclass="multinomial", cv=2, **options),
            Y.argmax(axis=1),
        ),
    ):
        reference = clone(model).fit(X, y).coef_
        assert_allclose(
            clone(model).fit(convert(X), y).coef_,
            reference,
            atol=2e-3,
        )


X, Y = make_multilabel_classification(120, n_features=9, n_classes=3, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
GROUPS = np.repeat([0, 1, 2], 3)


def test_each_label_has_the_binary_model(reloaded):
    model = SparseLogisticRegression(0.02, groups=GROUPS, tol=1e-6).fit(X, Y)
    assert model.multilabel_
    assert model.dual_gap_ <= 1e-6
    scores = model.decision_function(X)
    for k, labels in enumerate(Y.T):
        alone = SparseLogisticRegression(0.02, groups=GROUPS, tol=1e-6).fit(X, labels)
        assert_allclose(
            scores[:, k],
            alone.decision_function(X),
            atol=1e-9,
        )
        assert_allclose(
            model.predict_proba(X)[:, k],
            alone.predict_proba(X)[:, 1],
            atol=1e-9,
        )
        assert_array_equal(model.predict(X)[:, k], alone.predict(X))
    assert model.score(X, Y) == np.mean((model.predict(X) == Y).all(axis=1))
    assert_array_equal(reloaded(model).predict_proba(X), model.predict_proba(X))
    for other in (
        model.fit(sparse.csr_array(X), sparse.csr_array(Y)),
        model.fit(aslinearoperator(X), Y),
    ):
        assert_allclose(other.decision_function(X), scores, atol=1e-5)
    assert model.path(X, Y, 3)[0]["coef"].shape == (3, 9)


def test_labels_of_all_or_none_and_what_explains_the_others(reloaded):
    wide = np.column_stack([np.zeros(120), Y[:, 0], np.ones(120), Y[:, 1]])
    with pytest.warns(UserWarning, match="2 of 4 labels .* columns 0, 2"):
        model = SparseLogisticRegression(0.02).fit(X, wide)
    assert model.coef_.shape == (2, 9)
    predicted = model.predict(X)
    assert not predicted[:, 0].any()
    assert predicted[:, 2].all()
    for fitted in (model, reloaded(model)):
        why = fitted.explain(X[0], target=3)
        assert sum(why.groups.values()) == pytest.approx(abs(model.decision_function(X[:1])[0, 3]))
        assert why.output == bool(predicted[0, 3])
        with pytest.raises(InputError, match="learned label"):
            fitted.explain(X[0], target=0)


def test_cross_validation_is_that_of_grid_search():
    alphas = [0.005, 0.05, 0.2]
    cv = KFold(3)
    chosen = SparseLogisticRegressionCV(alphas, cv=cv, tol=1e-6).fit(X, Y)
    grid = GridSearchCV(SparseLogisticRegression(tol=1e-6), {"alpha": alphas}, cv=cv).fit(X, Y)
    assert chosen.alpha_ == grid.best_params_["alpha"]
    by_value = {record["alpha"]: record["mean_score"] for record in chosen.cv_results_}
    assert_allclose(
        [by_value[a] for a in alphas],
        grid.cv_results_["mean_test_score"],
        atol=0.01,
    )
    assert_array_equal(chosen.predict(X), grid.predict(X))


@pytest.mark.parametrize(
    ("settings", "y", "match"),
    [
        ({"multiclass": "multinomial"}, Y, "is for classes"),
        ({"class_weight": "balanced"}, Y, "class_weight is for classes"),
        ({}, Y + 1, "must hold 0 and 1"),
        ({}, np.ones_like(Y), "labels"),
    ],
)
def test_bad_labels_are_refused(settings, y, match):
    with pytest.raises(InputError, match=match):
        SparseLogisticRegression(0.02, **settings).fit(X, y)


def test_a_new_fit_forgets_the_labels():
    model = SparseLogisticRegression(0.02).fit(X, Y).fit(X, Y[:, 0])
    assert not model.multilabel_
    assert model.predict(X).shape == (120,)


OF_TWELVE = np.arange(12) // 3


@pytest.fixture(scope="module")
def counts():
    """Draw a design, counts, and the logarithms of their exposures."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 12))
    exposure = rng.uniform(0.5, 4, 120)
    return (
        X,
        rng.poisson(exposure * np.exp(0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.3)).astype(float),
        np.log(exposure),
    )


@pytest.mark.parametrize("solver", ["dal", "sparsa"])
def test_a_ridge_of_counts_is_that_of_scikit_learn(counts, solver):
    X, y, _ = counts
    ours = GroupLasso(0.1, loss="poisson", regularizer="ridge", solver=solver, tol=1e-9).fit(X, y)
    theirs = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(
        ours.predict(X),
        theirs.predict(X),
        rtol=1e-3,
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_groups_of_counts_with_exposures_are_those_of_a_convex_solver(counts, intercept):
    X, y, offset = counts
    model = GroupLasso(
        0.3, groups=OF_TWELVE, loss="poisson", fit_intercept=intercept, tol=1e-9
    ).fit(X, y, offset=offset)
    w = cp.Variable(12)
    b = cp.Variable() if intercept else 0.0
    z = X @ w + b + offset
    loss = cp.sum(cp.exp(z) - cp.multiply(y, z)) / 120
    cp.Problem(cp.Minimize(loss + 0.3 * sum(cp.norm(w[g == OF_TWELVE]) for g in range(4)))).solve(
        solver="CLARABEL"
    )
    assert model.dual_gap_ <= 1e-9
    assert 0 < np.count_nonzero(model.coef_) < 12
    assert_allclose(model.coef_, w.value, atol=1e-4)
    assert_allclose(
        model.predict(X, offset=offset),
        np.exp(z.value),
        rtol=1e-3,
    )
    assert (
        model.score(X, y, offset=offset)
        == r2_score(y, model.predict(X, offset=offset))
        != model.score(X, y)
    )


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon-insensitive"])
def test_an_offset_is_a_shift_of_targets(counts, loss):
    X, y, offset = counts
    shifted = GroupLasso(0.05, loss=loss, tol=1e-8).fit(X, y, offset=offset)
    plain = GroupLasso(0.05, loss=loss, tol=1e-8).fit(X, y - offset)
    assert_allclose(shifted.coef_, plain.coef_, atol=1e-3)
    assert_allclose(
        shifted.predict(X, offset=offset),
        plain.predict(X) + offset,
        atol=1e-2,
    )


def test_an_offset_of_scores_is_a_column_whose_coefficient_is_known(counts):
    X, y, offset = counts
    labels = np.where(y > 1, "many", "few")
    known_scores = 0.7 * X[:, 5] + offset
    ours = SparseLogisticRegression(0.02, tol=1e-9).fit(X, labels, offset=known_scores)
    w = cp.Variable(12)
    b = cp.Variable()
    signs = np.where(y > 1, 1.0, -1.0)
    loss = cp.sum(cp.logistic(-cp.multiply(signs, X @ w + b + known_scores))) / 120
    cp.Problem(cp.Minimize(loss + 0.02 * cp.norm1(w))).solve(solver="CLARABEL")
    assert_allclose(ours.coef_[0], w.value, atol=1e-4)
    scores = ours.decision_function(X, offset=known_scores)
    assert_allclose(
        scores,
        X @ w.value + b.value + known_scores,
        atol=1e-3,
    )
    assert_array_equal(
        ours.predict(X, offset=known_scores),
        np.where(scores > 0, "many", "few"),
    )
    assert_allclose(
        ours.predict_proba(X, offset=known_scores)[:, 1],
        1 / (1 + np.exp(-scores)),
    )
    assert ours.score(X, labels, offset=known_scores) == np.mean(
        ours.predict(X, offset=known_scores) == labels
    )
    unregularized = SparseLogisticRegression(1e-9, tol=1e-9).fit(
        X[:, :2], labels, offset=np.zeros(120)
    )
    assert_allclose(
        unregularized.coef_, LogisticRegression(C=np.inf).fit(X[:, :2], labels).coef_, atol=1e-3
    )


def test_every_class_may_have_an_offset_of_its_own(counts):
    X, y, offset = counts
    labels = np.minimum(y, 2).astype(int)
    offsets = np.column_stack([offset, -offset, 0 * offset])
    together = SparseLogisticRegression(0.02, tol=1e-7).fit(X, labels, offset=offsets)
    alone = SparseLogisticRegression(0.02, tol=1e-7).fit(X, labels == 1, offset=-offset)
    assert_array_equal(together.coef_[1], alone.coef_[0])
    assert_allclose(
        together.decision_function(X, offset=offsets) - together.decision_function(X),
        offsets,
        atol=1e-12,
    )


def test_a_path_and_cross_validation_know_the_offset(counts):
    X, y, offset = counts
    path = GroupLasso(loss="poisson", groups=OF_TWELVE, tol=1e-6).path(X, y, 5, offset=offset)
    assert path[0]["active"] == 0
    one = GroupLasso(path[3]["alpha"], loss="poisson", groups=OF_TWELVE, tol=1e-6).fit(
        X, y, offset=offset
    )
    assert_allclose(path[3]["coef"], one.coef_, atol=1e-3)
    chosen = GroupLassoCV(
        5, loss="poisson", groups=OF_TWELVE, cv=3, scoring="neg_mean_poisson_deviance"
    )
    chosen.fit(
        X,
        y,
        offset=offset,
        sample_weight=np.where(np.arange(120) < 10, 0.0, 1.0),
    )
    refit = GroupLasso(chosen.alpha_, loss="poisson", groups=OF_TWELVE).fit(
        X[10:], y[10:], offset=offset[10:]
    )
    assert_allclose(chosen.coef_, refit.coef_, atol=1e-6)
    without_offset = GroupLassoCV(
        5, loss="poisson", groups=OF_TWELVE, cv=3, scoring="neg_mean_poisson_deviance"
    ).fit(X, y)
    assert without_offset.scores_.mean(axis=0).max() < chosen.scores_.mean(axis=0).max()


def test_bad_counts_and_offsets_are_refused(counts):
    X, y, offset = counts
    with pytest.raises(InputError, match="row 0"):
        GroupLasso(loss="poisson").fit(X, y - 100)
    with pytest.raises(InputError, match="only zeros"):
        GroupLasso(loss="poisson").fit(X, 0 * y)
    for bad in (offset[1:], offset * np.nan, np.column_stack([offset, offset]), "exposure"):
        with pytest.raises(InputError, match="offset"):
            GroupLasso(loss="poisson").fit(X, y, offset=bad)
    with pytest.raises(InputError, match="link"):
        OnlineMKLRegressor(loss="poisson").fit(X, y)
    with pytest.warns(UserWarning, match="y is constant"):
        assert_allclose(GroupLasso(loss="poisson").fit(X, 0 * y + 3).predict(X), 3.0)


OF_TEN = [[0, 1], [2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("positive", [False, True])
def test_sparse_groups_are_those_of_a_convex_solver(diabetes, positive):
    X, y = diabetes
    model = GroupLasso(
        2.0,
        groups=OF_TEN,
        regularizer="sparse-group:sigma=0.6",
        group_weights="sqrt-size",
        positive=positive,
        tol=1e-9,
    ).fit(X, y)
    w = cp.Variable(10)
    b = cp.Variable()
    penalty = 0.6 * sum(np.sqrt(len(g)) * cp.norm(w[g]) for g in OF_TEN) + 0.4 * cp.norm1(w)
    loss = 0.5 * cp.sum_squares(y - X @ w - b) / len(y)
    cp.Problem(cp.Minimize(loss + 2.0 * penalty), [w >= 0] if positive else []).solve(
        solver="CLARABEL"
    )
    assert_allclose(model.coef_, w.value, atol=1e-3)
    assert model.dual_gap_ <= 1e-9
    chosen = [np.count_nonzero(model.coef_[group]) for group in OF_TEN]
    assert any(0 < count < len(group) for count, group in zip(chosen, OF_TEN))


def test_a_positive_elastic_net_agrees_with_scikit_learn(diabetes):
    X, y = diabetes
    ours = GroupLasso(0.5, regularizer="elastic-net:mu=0.4", positive=True, tol=1e-10).fit(X, y)
    theirs = ElasticNet(alpha=0.5, l1_ratio=0.6, positive=True, tol=1e-10, max_iter=10_000).fit(
        X, y
    )
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_groups_of_weight_zero_stay_whatever_alpha_is(diabetes, reloaded):
    X, y = diabetes
    weights = [1.0, 0.0, 1.0, 1.0]
    path = GroupLasso(groups=OF_TEN, group_weights=weights, tol=1e-8).path(X, y, 4)
    first = LinearRegression().fit(X[:, [2, 3]], y)
    assert path[0]["active"] == 0
    assert_allclose(
        path[0]["coef"][[2, 3]],
        first.coef_,
        rtol=1e-6,
    )
    assert_allclose(path[0]["intercept"], first.intercept_)
    model = GroupLasso(
        path[2]["alpha"], groups=OF_TEN, group_weights=weights, tol=1e-8, warm_start=True
    ).fit(X, y)
    assert_allclose(model.coef_, path[2]["coef"], atol=1e-2)
    assert model.fit(X, y).history_[0]["gap"] <= 1e-7
    assert_allclose(
        reloaded(model).predict(X),
        X @ model.coef_ + model.intercept_,
    )
    labels = SparseLogisticRegression(0.05, groups=OF_TEN, group_weights=weights).fit(X, y > 150)
    assert np.count_nonzero(labels.coef_[0, [2, 3]]) == 2


def test_groups_of_weight_zero_keep_the_penalty_of_single_columns(diabetes):
    """Their columns have the penalty of the lasso alone, the others that of their norm, too."""
    X, y = diabetes
    sigma, alpha = 0.4, 2.0
    settings = {"groups": np.arange(10), "regularizer": f"sparse-group:sigma={sigma}", "tol": 1e-9}
    weights = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    ours = GroupLasso(alpha, group_weights=weights, **settings).fit(X, y)
    penalties = alpha * (sigma * weights + 1.0 - sigma)
    theirs = ElasticNet(alpha=1.0, l1_ratio=1.0, tol=1e-10, max_iter=100_000).fit(X / penalties, y)
    assert_allclose(ours.coef_, theirs.coef_ / penalties, atol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"fit_intercept": False}, {"loss": "squared-hinge"}])
@pytest.mark.parametrize("multiclass", ["ovr", "multinomial"])
def test_groups_of_weight_zero_that_separate_the_classes_are_refused(settings, multiclass, rng):
    """There is no best model, and gaps down to -1e291 were returned with a warning."""
    rows = rng.normal(size=(60, 8))
    y = np.digitize(rows[:, 0], [0.0])
    if multiclass == "multinomial":
        y = np.digitize(rows[:, 0] + 5.0, [4.5, 5.5])
        rows[:, 1] = rows[:, 0] ** 2
        settings = {}
    groups = [[0, 1], *([j] for j in range(2, 8))]
    model = SparseLogisticRegression(
        0.05,
        groups=groups,
        group_weights=[0.0, 1, 1, 1, 1, 1, 1],
        multiclass=multiclass,
        **settings,
    )
    with pytest.raises(InputError, match="weight 0 separate the classes"):
        model.fit(rows, y)
    flipped = np.where(
        np.arange(60) < 6,
        (y + 1) % (y.max() + 1),
        y,
    )
    assert 0.0 <= model.fit(rows, flipped).dual_gap_ <= 1e-3


def test_alpha_is_chosen_for_sparse_and_positive_groups(diabetes):
    X, y = diabetes
    model = GroupLassoCV(5, groups=OF_TEN, regularizer="sparse-group", positive=True, cv=3).fit(
        X, y
    )
    assert model.coef_.min() >= 0.0
    assert model.scores_.mean(axis=0).max() > 0.35
    with pytest.raises(InputError, match="dal"):
        GroupLasso(positive=True, solver="sparsa").fit(X, y)
    with pytest.raises(InputError, match="not all 0"):
        GroupLasso(groups=OF_TEN, group_weights=np.zeros(4)).fit(X, y)


def test_steps_whose_loss_overflows_are_shortened():
    """An infinite objective was accepted, and the next products were refused as NaN."""
    rng = np.random.default_rng(39)
    n, d, K = (int(rng.integers(*bounds)) for bounds in ((20, 80), (4, 16), (2, 4)))
    X = rng.normal(size=(n, d)) * rng.choice([0.1, 1, 3], size=d)
    Y = rng.poisson(np.exp(np.clip(X @ rng.normal(size=(d, K)) * 0.5 + rng.normal(), -4, 5)))
    groups = [columns.tolist() for columns in np.array_split(np.arange(d), d // 2)]
    weights = np.exp(1.5 * rng.normal(size=len(groups)))
    settings = {
        "loss": "poisson",
        "regularizer": "block-q",
        "solver": "sparsa",
        "fit_intercept": False,
    }
    model = GroupLasso(0.05602882908658123, groups=groups, group_weights=weights, **settings).fit(
        X, Y
    )
    assert model.dual_gap_ <= 1e-3
