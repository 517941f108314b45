"""GroupLasso and SparseLogisticRegression: scikit-learn's checks, solutions, cross-validation,
copies, errors.
"""

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso, LassoCV, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from omkl import GroupLasso, GroupLassoCV, SparseLogisticRegression, SparseLogisticRegressionCV
from omkl.exceptions import InputError
from omkl.linear.problems import identical_samples

from ..batch.generic import LASSO


@pytest.mark.slow
@parametrize_with_checks(
    [
        GroupLasso(),
        GroupLasso(loss="huber", regularizer="elastic-net"),
        SparseLogisticRegression(),
        SparseLogisticRegression(0.01, class_weight="balanced"),
        SparseLogisticRegression(0.01, loss="squared-hinge", regularizer="elastic-net"),
        GroupLasso(0.01),
        SparseLogisticRegression(0.01, multiclass="multinomial"),
        GroupLassoCV(4, cv=3),
        SparseLogisticRegressionCV(4, cv=3),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_without_groups_it_is_the_lasso(diabetes):
    X, y = diabetes
    ours = GroupLasso(5.0, tol=1e-9).fit(X, y)
    theirs = Lasso(alpha=5.0, tol=1e-10).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)
    assert ours.dual_gap_ <= 1e-9


def test_groups_are_chosen_as_a_whole_and_may_be_labels_or_lists(diabetes):
    X, y = diabetes
    lists = [[0, 2, 4, 6, 8], [1, 3], [5, 7, 9]]
    labels = np.array(list("acababacab"))
    labels[[0, 2, 4, 6, 8]], labels[[1, 3]], labels[[5, 7, 9]] = "a", "b", "c"
    by_list = GroupLasso(12000.0 / 442, groups=lists, tol=1e-8).fit(X, y)
    by_label = GroupLasso(12000.0 / 442, groups=labels, tol=1e-8).fit(X, y)
    assert_allclose(by_list.coef_, by_label.coef_, atol=1e-6)
    chosen = [bool(by_list.coef_[group].any()) for group in lists]
    assert 0 < sum(chosen) < 3
    for group, is_chosen in zip(lists, chosen):
        assert np.count_nonzero(by_list.coef_[group]) == (len(group) if is_chosen else 0)


def test_many_classes_are_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    model = SparseLogisticRegression(0.01, tol=1e-6).fit(X, y)
    second = SparseLogisticRegression(0.01, tol=1e-6).fit(X, y == 1)
    assert model.coef_.shape == (3, 4)
    assert_array_equal(model.coef_[1], second.coef_[0])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.9
    assert_allclose(
        second.predict_proba(X)[:, 1],
        1 / (1 + np.exp(-second.decision_function(X))),
    )
    assert not hasattr(SparseLogisticRegression(loss="squared-hinge"), "predict_proba")


@pytest.mark.parametrize("solver", ["dal", "sparsa"])
def test_a_path_is_the_separate_fits(cancer, solver):
    X, y = cancer
    path = SparseLogisticRegression(tol=1e-5, solver=solver).path(X, y, 6)
    assert path[0]["active"] == 0
    assert [record["alpha"] for record in path] == sorted(
        (record["alpha"] for record in path), reverse=True
    )
    for record in path[1:]:
        separate = SparseLogisticRegression(record["alpha"], tol=1e-5).fit(X, y)
        losses = np.logaddexp(0, -(2 * y - 1) * separate.decision_function(X))
        objective = losses.mean() + record["alpha"] * np.abs(separate.coef_).sum()
        assert_allclose(record["objective"], objective, rtol=2e-5)
        assert record["dual_gap"] <= 1e-5
        assert record["active"] == np.count_nonzero(record["coef"])


@pytest.mark.filterwarnings("error")
def test_a_warm_start_is_clipped_where_coefficients_must_be_positive(diabetes):
    X, y = diabetes
    model = GroupLasso(0.3, warm_start=True, tol=1e-8).fit(X, y)
    assert model.coef_.min() < 0
    model.set_params(positive=True).fit(X, y)
    assert model.dual_gap_ <= 1e-8
    assert_allclose(
        model.coef_, GroupLasso(0.3, positive=True, tol=1e-8).fit(X, y).coef_, atol=1e-3
    )
    assert model.coef_.min() >= 0


def test_a_warm_start_saves_work(cancer):
    X, y = cancer
    model = SparseLogisticRegression(0.002, tol=1e-6, warm_start=True).fit(X, y)
    first = model.coef_.copy()
    model.fit(X, y)
    assert model.history_[0]["gap"] <= 1e-5
    assert_allclose(model.coef_, first, atol=1e-3)


def test_stopping_early_warns_and_tells_the_gap(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* above tol=1e-06"):
        model = SparseLogisticRegression(0.002, solver="ist", tol=1e-6, max_iter=3).fit(X, y)
    assert model.dual_gap_ > 1e-6


def test_a_constant_target_is_learned_with_a_warning(diabetes):
    X, _ = diabetes
    with pytest.warns(UserWarning, match="y is constant"):
        model = GroupLasso().fit(X, np.full(len(X), 0.1))
    assert_array_equal(model.predict(X), 0.1)
    assert model.dual_gap_ == 0.0


@pytest.mark.parametrize("estimator", [GroupLasso(0.3), GroupLassoCV(3, cv=2)])
def test_groups_are_called_by_the_names_of_columns(estimator, diabetes, reloaded):
    X, y = diabetes
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(10)])
    positions = [[9, 0, 1, 2], [3, 4], [5, 6, 7, 8]]
    named = {
        "body": ["c9", "c0", "c1", 2],
        "pressure": ["c3", "c4"],
        "blood": ["c5", "c6", "c7", "c8"],
    }
    expected = clone(estimator).set_params(groups=positions).fit(X, y)
    model = clone(estimator).set_params(groups=named).fit(frame, y)
    assert_array_equal(model.coef_, expected.coef_)
    explained = model.explain(frame[:1])
    own_names = dict(zip(["group 0", "group 1", "group 2"], named))
    assert explained.groups == {
        own_names.get(g, g): adds for g, adds in expected.explain(X[:1]).groups.items()
    }
    assert {"body", "blood"} < set(explained.groups)
    assert reloaded(model).explain(frame[:1]).groups == explained.groups
    assert_array_equal(
        clone(estimator).set_params(groups=list(named.values())).fit(frame, y).coef_, expected.coef_
    )
    with pytest.raises(InputError, match=r"columns of X, .* got ..c10"):
        clone(estimator).set_params(groups=[["c10"]]).fit(frame, y)


@pytest.mark.parametrize("estimator", [GroupLasso(0.3), GroupLassoCV(3, cv=2)])
def test_groups_and_their_weights_are_found_by_name_whatever_holds_them(
    estimator, diabetes, reloaded
):
    X, y = diabetes
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(10)])
    labels = ["one"] * 3 + ["two"] * 5 + ["three"] * 2
    sizes = {"two": 5.0, "one": 2.0, "three": 1.0}
    expected = (
        clone(estimator).set_params(groups=labels, group_weights=[2.0, 1.0, 5.0]).fit(frame, y)
    )
    series = pandas.Series(labels, index=frame.columns)
    columns = {name: frame.columns[series.to_numpy() == name] for name in ("one", "three", "two")}
    for groups in (series, columns, {name: set(members) for name, members in columns.items()}):
        for weights in (sizes, np.array([2.0, 1.0, 5.0])):
            model = clone(estimator).set_params(groups=groups, group_weights=weights).fit(frame, y)
            assert_array_equal(model.coef_, expected.coef_)
            assert model.explain(frame[:1]).groups == expected.explain(frame[:1]).groups
            loaded = reloaded(model)
            assert loaded.explain(frame[:1]).groups == expected.explain(frame[:1]).groups
            assert_array_equal(loaded.fit(frame, y).coef_, expected.coef_)
    for weights in ({**sizes, "four": 1.0}, {"one": 1.0}):
        with pytest.raises(InputError, match="each of the groups"):
            clone(estimator).set_params(groups=labels, group_weights=weights).fit(frame, y)


def test_explanations_are_of_inputs_as_they_are_read(diabetes):
    X, y = diabetes
    frame = pandas.DataFrame({"day": pandas.date_range("2024", periods=len(y)), "bmi": X[:, 2]})
    model = GroupLasso(0.1).fit(frame, y)
    explained = model.explain(frame[5:6])
    days = (frame["day"][5] - pandas.Timestamp(0)).days
    assert_allclose(explained.groups["day"], model.coef_[0] * days)
    assert_allclose(
        sum(explained.groups.values()),
        model.predict(frame[5:6])[0],
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GroupLasso(0.0), "alpha must be a finite number > 0"),
        (GroupLasso(-1.0), "alpha must be a finite number > 0"),
        (GroupLasso(tol=0.0), "tol must be"),
        (GroupLasso(groups=[0, 1]), "one label for each of the 10 columns"),
        (GroupLasso(groups=[[0, 1], [1, 2]]), "each of the 10 columns exactly once"),
        (GroupLasso(groups={"a": [0, 1]}), "each of the 10 columns exactly once"),
        (GroupLasso(groups={"a": 0, "b": range(1, 10)}), "lists of columns of X, .* got 0"),
        (GroupLasso(groups=[["age", "sex"], ["bmi"]]), "columns of X, .* got ..age"),
        (GroupLasso(groups=[[0.5, 1.0], [2.0]]), "exactly once"),
        (GroupLasso(group_weights={0: 1.0}), "each of the groups"),
        (GroupLasso(group_weights=[1.0, 2.0]), "10 finite numbers >= 0"),
        (GroupLasso(group_weights="size"), "sqrt-size"),
        (GroupLasso(loss="hinge"), "classification"),
        (GroupLasso(loss="epsilon-insensitive", solver="ist"), "second derivative"),
        (
            GroupLasso(regularizer="l1", groups=[[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]]),
            "leave out groups",
        ),
        (GroupLasso(regularizer="mkl"), "'sparsa' accepts others"),
        (GroupLasso(solver="cd"), "Unknown solver"),
        (SparseLogisticRegression(loss="squared"), "regression"),
        (SparseLogisticRegression(class_weight="even"), "class_weight must be"),
        (SparseLogisticRegression(class_weight={True: 0.0}), "finite numbers > 0"),
    ],
)
def test_bad_parameters_are_refused(diabetes, model, message):
    X, y = diabetes
    with pytest.raises(InputError, match=message):
        model.fit(X, y > 150 if isinstance(model, SparseLogisticRegression) else y)


def test_a_path_leaves_a_fitted_model_as_it_was(rng):
    X = rng.normal(size=(40, 6))
    model = SparseLogisticRegression(0.01).fit(X, X[:, 0] > 0)
    before = model.predict(X)
    model.path(
        X[:, :3],
        np.where(X[:, 1] > 0, "yes", "no"),
        3,
    )
    assert_array_equal(model.predict(X), before)


@pytest.fixture
def weights(diabetes):
    return np.random.default_rng(0).integers(0, 4, len(diabetes[1])).astype(float)


def test_sample_weights_are_those_of_scikit_learns_lasso_and_elastic_net(diabetes, weights):
    X, y = diabetes
    ours = GroupLasso(2.0, tol=1e-9).fit(X, y, weights)
    theirs = Lasso(2.0, tol=1e-12).fit(X, y, weights)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8)
    ours = GroupLasso(2.0, regularizer="elastic-net:mu=0.3", tol=1e-9).fit(X, y, weights)
    theirs = ElasticNet(2.0, l1_ratio=0.7, tol=1e-12).fit(X, y, weights)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, aslinearoperator])
def test_sample_weights_are_repeats_and_weight_zero_leaves_a_sample_out(diabetes, weights, convert):
    X, y = diabetes
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = GroupLasso(2.0, tol=1e-9).fit(convert(X), y, 0.3 * weights)
    repeated = GroupLasso(2.0, tol=1e-9).fit(X[rows], y[rows])
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    path = GroupLasso(tol=1e-9).path(convert(X), y, [2.0], sample_weight=weights)
    assert_allclose(path[0]["coef"], repeated.coef_, atol=1e-4)


def test_class_weights_are_those_of_scikit_learn(cancer):
    X, y = cancer
    for class_weight in ("balanced", {0: 3.0}):
        ours = SparseLogisticRegression(0.01, class_weight=class_weight, tol=1e-8).fit(X, y)
        factors = 1.0 if class_weight == "balanced" else np.where(y == 0, 3.0, 1.0).mean()
        theirs = LogisticRegression(
            C=1 / (0.01 * factors * len(y)),
            **LASSO,
            solver="saga",
            class_weight=class_weight,
            tol=1e-8,
            max_iter=20_000,
        ).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_a_path_of_many_classes_is_the_separate_fits():
    X, y = load_iris(return_X_y=True)
    path = SparseLogisticRegression(tol=1e-6).path(X, y, 4)
    assert path[0]["active"] == 0
    fitted = SparseLogisticRegression(path[2]["alpha"], tol=1e-6).fit(X, y)
    assert_allclose(path[2]["coef"], fitted.coef_, atol=1e-2)
    assert path[2]["coef"].shape == (3, 4)


def test_an_alpha_that_leaves_no_column_warns_and_tells_the_largest(diabetes):
    X, y = diabetes
    with pytest.warns(UserWarning, match="No column is in the model"):
        model = GroupLasso(1e3).fit(X, y)
    assert_allclose(model.predict(X), y.mean())


def test_zero_targets_without_an_intercept_and_constant_ones(diabetes):
    X, y = diabetes
    model = GroupLasso(fit_intercept=False).fit(X, np.zeros(len(y)))
    assert_array_equal(model.coef_, 0.0)
    # without an intercept a constant target is no constant model
    model = GroupLasso(0.01, fit_intercept=False, tol=1e-8).fit(X + 1.0, np.full(len(y), 3.0))
    assert_allclose(
        model.coef_,
        Lasso(0.01, fit_intercept=False, tol=1e-12).fit(X + 1.0, np.full(len(y), 3.0)).coef_,
        atol=1e-4,
    )
    with pytest.warns(UserWarning, match="y is constant"):
        model = GroupLasso(loss="epsilon-insensitive").fit(X, np.full(len(y), 3.0))
    assert_array_equal(model.predict(X), 3.0)


def test_other_numbers_of_columns_and_huge_numbers_are_refused(diabetes):
    X, y = diabetes
    model = GroupLasso().fit(aslinearoperator(X), y)
    with pytest.raises(InputError, match="X has 3 features, but GroupLasso is expecting 10"):
        model.predict(aslinearoperator(X[:, :3]))
    with pytest.raises(InputError, match="The design has 5 rows"):
        GroupLasso().fit(aslinearoperator(X[:5]), y)
    with pytest.raises(InputError, match=r"1e\+100"):
        GroupLasso().fit(1e200 * X, y)
    with pytest.raises(InputError, match=r"1e\+100"):
        GroupLasso().fit(X, 1e200 * y)


@pytest.mark.parametrize("labels", [[0.0, np.nan, np.nan], ["a", None, "b"]])
def test_columns_without_a_group_are_refused(labels):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match="groups"):
        GroupLasso(0.1, groups=np.array(labels, dtype=None if labels[0] == 0 else object)).fit(
            X, X[:, 0]
        )


def by_comparison(X, columns):
    rows = [tuple(row) for row in np.column_stack([X, columns]).tolist()]
    return [rows.index(row) for row in rows]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_copies_are_those_that_comparison_finds(seed, m, n, n_values):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, n_values, (m, n)) * 1.5
    y = rng.integers(0, 2, (m, 1))
    X = X[rng.integers(0, m, m)] if seed % 2 else X
    expected = by_comparison(X, y)
    with_zeros = sparse.csr_array(
        (X.ravel(), np.tile(np.arange(n), m), np.arange(0, m * n + 1, n)), shape=X.shape
    )
    for design in (
        X,
        np.asfortranarray(X),
        -0.0 + X,
        sparse.csc_array(X),
        sparse.csr_array(X),
        with_zeros,
    ):
        copies = identical_samples(design, y, None)
        if len(set(expected)) == m:
            assert copies is None
        else:
            assert_array_equal(copies, expected)


@pytest.mark.parametrize("convert", [np.asarray, np.float32, sparse.csc_array, sparse.csr_array])
def test_models_of_copies_are_those_of_weights(rng, convert):
    X = rng.normal(size=(40, 60))
    weights = rng.integers(0, 4, 40)
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=40)
    copies = np.repeat(np.arange(40), weights)
    order = rng.permutation(40)
    for model, target in (
        (GroupLasso(0.05), y),
        (SparseLogisticRegression(0.02, class_weight="balanced"), y > 0),
    ):
        repeated = model.fit(convert(X[copies]), target[copies]).coef_
        weighted = model.fit(convert(X[order]), target[order], sample_weight=weights[order]).coef_
        assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)
    records = [
        GroupLasso().path(
            convert(X[copies]),
            y[copies],
            [0.1, 0.01],
        ),
        GroupLasso().path(convert(X), y, [0.1, 0.01], sample_weight=weights),
    ]
    for one, other in zip(*records):
        assert_allclose(one["coef"], other["coef"], rtol=1e-6, atol=1e-9)


def test_rows_of_other_offsets_are_no_copies(rng):
    X = np.repeat(
        rng.normal(size=(20, 3)),
        2,
        axis=0,
    )
    offset = np.tile([0.0, 1.0], 20)
    y = X[:, 0] + np.repeat(rng.normal(size=20), 2)
    ours = GroupLasso(1e-3, tol=1e-10).fit(X, y, offset=offset)
    theirs = GroupLasso(1e-3, tol=1e-10).fit(X, y - offset)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_copies_in_other_folds_stay_there(rng):
    X = rng.normal(size=(30, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=30)
    twice = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    model = GroupLassoCV([0.1, 0.01], cv=twice).fit(
        np.vstack([X, X]),
        np.concatenate([y, y]),
    )
    alone = [GroupLasso(alpha).fit(X, y).score(X, y) for alpha in model.alphas_]
    assert_allclose(model.scores_, [alone, alone], atol=1e-3)


GROUPS = [[0, 2, 4, 6, 8], [1, 3], [5, 7, 9]]


def scores_of(search):
    return np.array([search.cv_results_[f"split{k}_test_score"] for k in range(search.n_splits_)])


def test_the_lasso_is_that_of_scikit_learn(diabetes):
    X, y = diabetes
    alphas = [30.0, 10.0, 3.0, 1.0, 0.1]
    theirs = LassoCV(alphas=alphas, cv=4, tol=1e-10, max_iter=100_000).fit(X, y)
    ours = GroupLassoCV(alphas, cv=4, scoring="neg_mean_squared_error", tol=1e-9).fit(X, y)
    assert_allclose(-ours.scores_.T, theirs.mse_path_, rtol=1e-5)
    assert ours.alpha_ == theirs.alpha_
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize(
    "convert", [np.asarray, sparse.csc_array, sparse.csr_array, aslinearoperator, np.float32]
)
def test_groups_are_scored_as_grid_search_scores_them_on_designs_of_all_kinds(diabetes, convert):
    X, y = diabetes
    alphas = [20.0, 5.0, 1.0]
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    single = GroupLasso(groups=GROUPS, group_weights="sqrt-size", tol=1e-8)
    search = GridSearchCV(single, {"alpha": alphas}, cv=3).fit(X, y)
    settings = {"groups": GROUPS, "group_weights": "sqrt-size", "cv": 3, "tol": 1e-8}
    model = GroupLassoCV(alphas, **settings).fit(convert(X), y)
    assert_allclose(model.scores_, scores_of(search), atol=1e-4)
    assert model.alpha_ == search.best_params_["alpha"]
    assert_allclose(model.coef_, search.best_estimator_.coef_, atol=1e-2)
    assert [record["alpha"] for record in model.cv_results_] == alphas
    weighted = GroupLassoCV(alphas, **settings, n_jobs=2).fit(convert(X), y, weights)
    chosen = GroupLassoCV(alphas, **{**settings, "cv": [(np.arange(200), np.arange(200, 300))]})
    assert weighted.scores_.shape == (3, 3)
    # samples of weight 0 are neither learned from nor scored
    ones = np.where(
        np.arange(len(y)) < 300,
        1.0,
        0.0,
    )
    assert_allclose(
        chosen.fit(convert(X), y, ones).coef_,
        GroupLasso(chosen.alpha_, groups=GROUPS, group_weights="sqrt-size", tol=1e-8)
        .fit(X[:300], y[:300])
        .coef_,
        atol=1e-2,
    )


@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "roc_auc"])
def test_classes_are_scored_as_grid_search_scores_them(cancer, scoring):
    X, y = cancer
    alphas = [0.1, 0.02, 0.005]
    search = GridSearchCV(
        SparseLogisticRegression(tol=1e-7), {"alpha": alphas}, cv=3, scoring=scoring
    ).fit(X, y)
    model = SparseLogisticRegressionCV(alphas, tol=1e-7, cv=3, scoring=scoring).fit(X, y)
    assert_allclose(model.scores_, scores_of(search), atol=1e-4)
    assert model.alpha_ == search.best_params_["alpha"]
    assert_array_equal(model.predict(X), search.best_estimator_.predict(X))


@pytest.mark.parametrize("cv", [3, KFold(3)], ids=["stratified", "every fold lacks a class"])
def test_a_class_that_a_fold_lacks_is_never_predicted_in_it(cv):
    X, y = load_iris(return_X_y=True)
    model = SparseLogisticRegressionCV(4, cv=cv).fit(X, np.array(["a", "b", "c"])[y])
    if cv == 3:
        assert model.scores_.max() > 0.9
    else:
        assert_array_equal(model.scores_, 0.0)
    assert model.coef_.shape == (3, 4)


def test_a_number_of_alphas_begins_where_no_column_is_in_the_model(diabetes):
    X, y = diabetes
    model = GroupLassoCV(5, groups=GROUPS).fit(X, y)
    assert model.alphas_.shape == (5,)
    assert model.cv_results_[0]["active"] <= 1
    assert len(GroupLasso(groups=GROUPS).path(X, y, model.alphas_)) == 5
    assert GroupLasso(groups=GROUPS).path(X, y, model.alphas_[:1])[0]["active"] == 0
    assert isinstance(model.path(X, y, 2), list)


def test_a_constant_target_is_learned_and_samples_are_kept_together(diabetes):
    X, y = diabetes
    with pytest.warns(UserWarning, match="y is constant"):
        assert_array_equal(GroupLassoCV([1.0], cv=2).fit(X, np.ones(len(y))).predict(X), 1.0)
    together = np.arange(len(y)) // 50
    model = GroupLassoCV([5.0], cv=GroupKFold(3), tol=1e-8).fit(X, y, sample_groups=together)
    search = GridSearchCV(GroupLasso(tol=1e-8), {"alpha": [5.0]}, cv=GroupKFold(3)).fit(
        X, y, groups=together
    )
    assert_allclose(model.scores_, scores_of(search), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alphas": 0}, "number of values"),
        ({"alphas": [1.0, -1.0]}, "finite and > 0"),
        ({"cv": 1}, "does not cut"),
        ({"cv": []}, "must have folds"),
        ({"scoring": "good"}, "name of a score"),
        ({"scoring": "roc_auc"}, "does not score"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"cv": [([0, 1], [])]}, "must have folds"),
    ],
)
def test_bad_parameters_of_cross_validation_are_refused(diabetes, settings, message):
    X, y = diabetes
    with pytest.raises(InputError, match=message):
        GroupLassoCV(**settings).fit(X, y)
