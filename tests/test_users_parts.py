"""A user's part with the minimum of methods: what it does not define is derived, or refused."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl._components import family
from omkl.batch import solver
from omkl.batch.group_lasso.dal import ELASTIC_OR_ONE_OUTPUT, SUM_OVER_GROUPS
from omkl.batch.proximal_gradient import PLAIN_NORMS
from omkl.batch.wrappers.wrapper import SVM
from omkl.exceptions import InputError, ModelFileError
from omkl.groups import Bank
from omkl.groups.tables import DenseBank
from omkl.kernels import Gaussian, Kernel, Linear
from omkl.losses import PointwiseLoss, StructuredLoss
from omkl.regularizers import Regularizer, SquaredL21, SquaredLq
from omkl.structures import Multiclass, Structure
from omkl.testing import check_kernel, check_loss, check_regularizer

# ---- kernels -------------------------------------------------------------------------------------


class Affine(Kernel):
    """Defines nothing but its values; ``k(x, x)`` is not 1."""

    aliases = {"affine": {}}

    def raw(self, pair):
        return 2.0 * pair.products + 3.0


class DoubledGaussian(Gaussian):
    """Overrides the values of a kernel whose diagonal and features are known."""

    def raw(self, pair):
        return 2.0 * super().raw(pair)


class DoubledLinear(Linear):
    def raw(self, pair):
        return 2.0 * super().raw(pair)


@pytest.mark.parametrize(
    "kernel",
    [
        Affine(),
        Affine(normalize="diagonal"),
        Affine(normalize="average"),
        Affine(normalize="trace"),
        DoubledGaussian(),
        DoubledLinear(),
        DoubledLinear(normalize=None),
    ],
    ids=repr,
)
def test_the_diagonal_follows_from_the_values_of_a_kernel(kernel):
    check_kernel(kernel)


def test_the_gap_is_that_of_the_kernel_which_is_defined(rng):
    X = rng.normal(size=(60, 3))
    model = omkl.MKLClassifier({"own": DoubledLinear()}, regularizer="mkl", C=10.0)
    model.fit(X, X[:, 0] > 0)
    assert model.kernel_representations_ == {"own": "dense"}
    assert_allclose(np.diag(model.transform(X)), 1.0)


def test_a_kernel_that_overrides_values_has_no_features_of_the_other(rng):
    X = rng.normal(size=(10, 3))
    assert DoubledLinear().feature_count(3) is None
    assert not DoubledLinear.maps_sparse
    with pytest.raises(InputError, match="has no explicit features"):
        DoubledLinear().features(X)
    with pytest.raises(InputError, match="has no Fourier features"):
        omkl.kernels.FourierFeatures(DoubledGaussian(), 10)


# ---- regularizers --------------------------------------------------------------------------------


class OfAnother(Regularizer):
    """Defines the four methods of a regularizer that is not separable, as another does."""

    original: Regularizer

    def value(self, norms):
        return self.original.value(norms)

    def slopes(self, norms):
        return self.original.slopes(norms)

    def prox(self, norms, step):
        return self.original.prox(norms, step)

    def conjugate(self, dual_norms):
        return self.original.conjugate(dual_norms)


class OwnMKL(OfAnother):
    original = SquaredL21()


class OwnLpNorm(OfAnother):
    original = SquaredLq()


class OfThreeGroups(OfAnother):
    original = SquaredL21()

    def prox(self, norms, step):
        return self.original.prox(norms * np.array([1.0, 1.0, 1.0]), step)


def test_sparsity_follows_from_the_proximity_operator(rng):
    assert OwnMKL().is_sparse
    assert not OwnLpNorm().is_sparse
    check_regularizer(OwnMKL())
    X = rng.normal(size=(60, 3))
    model = omkl.OnlineMKLClassifier(["linear"], regularizer=OwnMKL(), epochs=2, random_state=0)
    model.fit(X, X[:, 0] > 0)
    assert model.model_.settings.weighting == "out-of-sample"  # as with "mkl", which selects groups


def test_sparsity_that_cannot_be_derived_is_refused_by_name(rng):
    X = rng.normal(size=(20, 3))
    with pytest.raises(InputError, match="OfThreeGroups must define is_sparse"):
        omkl.OnlineMKLClassifier(["linear"], regularizer=OfThreeGroups()).fit(X, X[:, 0] > 0)


# ---- losses --------------------------------------------------------------------------------------


class Softened(PointwiseLoss):
    """A smooth loss of two classes, defined by value and gradient."""

    aliases = {"softened": {}}
    classifies = True

    def value(self, y, z):
        return np.logaddexp(0.0, 1.0 - y * z)

    def gradient(self, y, z):
        return -y / (1.0 + np.exp(y * z - 1.0))


def test_a_loss_of_two_classes_works_online_by_its_name(rng):
    check_loss(Softened())
    X = rng.normal(size=(80, 3))
    y = np.where(
        X[:, 0] > 0,
        "b",
        "a",
    )
    by_name, by_object = (
        omkl.OnlineMKLClassifier(["linear"], loss=loss, epochs=3, random_state=0).fit(X, y)
        for loss in ("softened", Softened())
    )
    assert by_name.score(X, y) > 0.9
    assert_array_equal(by_name.decision_function(X), by_object.decision_function(X))


def test_the_logistic_loss_is_that_of_a_random_field_of_two_classes(rng):
    X = rng.normal(size=(80, 3))
    y = X[:, 0] > 0
    pointwise, structured = (
        omkl.OnlineMKLClassifier(["linear"], loss=loss, C=1.0, random_state=0).fit(X, y)
        for loss in ("logistic", "crf")
    )
    assert_allclose(
        pointwise.decision_function(X),
        structured.decision_function(X),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("options", "classes", "message"),
    [
        ({}, 3, r"The loss Softened\(\) is for two classes"),
        ({"cost": [[0, 1], [2, 0]]}, 2, "needs a loss with a margin"),
        ({"loss": "squared"}, 2, "takes no loss of regression"),
    ],
)
def test_other_uses_of_a_loss_of_two_classes_are_refused(options, classes, message, rng):
    X = rng.normal(size=(30, 3))
    model = omkl.OnlineMKLClassifier(["linear"], **{"loss": "softened", **options})
    with pytest.raises(InputError, match=message):
        model.fit(X, np.arange(30) % classes)


# ---- banks ---------------------------------------------------------------------------------------


class Columns(DenseBank):
    """A weight for each column of an input (1, d) and each label."""

    def __init__(self, name, factors, n_labels):
        super().__init__(
            name,
            (1, len(factors), n_labels),
            averaging=True,
        )
        self.factors = factors

    def add_potentials(self, x, potentials):
        potentials.unary[:] += self.group_state.scales[0] * ((x * self.factors) @ self.table[0])

    def _gradient_of_table(self, gradient):
        return ((self._x * self.factors).T @ gradient.unary)[None]

    def step(self, x, gradient):
        self._x = x
        super().step(x, gradient)


def test_a_users_bank_is_saved_in_a_model_file(rng, tmp_path):
    X = [row[None] for row in rng.normal(size=(60, 2))]
    y = [int(x[0, 0] > 0) for x in X]
    bank = Columns("columns", np.array([1.0, 0.5]), 2)
    model = omkl.StructuredPredictor(Multiclass(2), [bank], epochs=2, random_state=0).fit(X, y)
    model.save(tmp_path / "whole.npz")
    model.save(tmp_path / "small.npz", training=False)
    for name in ("whole.npz", "small.npz"):
        loaded = omkl.load(tmp_path / name)
        assert loaded.predict(X) == model.predict(X)
        assert loaded.score(X, y) > -0.2  # minus the share of mistakes
    loaded = omkl.load(tmp_path / "whole.npz", parts={"Columns": Columns})
    for predictor in (model, loaded):
        predictor.partial_fit(X, y)
    for x in X:
        assert_array_equal(
            model.predictor_.potentials(x).unary, loaded.predictor_.potentials(x).unary
        )


def test_a_bank_that_is_not_defined_where_it_is_loaded_is_asked_for(rng, tmp_path):
    class Local(Columns):
        pass

    X = [row[None] for row in rng.normal(size=(10, 2))]
    bank = Local("columns", np.ones(2), 2)
    model = omkl.StructuredPredictor(Multiclass(2), [bank], epochs=1, random_state=0)
    model.fit(X, [0, 1] * 5).save(tmp_path / "model.npz")
    Local.__name__ = "Renamed"
    with pytest.raises(ModelFileError, match=r"The model uses 'Local'.*parts="):
        omkl.load(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz", parts={"Local": Local})
    assert loaded.predict(X) == model.predict(X)


# ---- the guide -----------------------------------------------------------------------------------

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "extending.md"
#: What the table of solvers says for each requirement.
WORDS = {
    solver.SMOOTH_LOSS: "without `has_kink`",
    solver.GROUP_NORMS: "not `on_coordinates`",
    solver.EXACT_PROX: "an `exact` prox",
    solver.DERIVATIVE_OF_PROX: "`prox_slope`",
    solver.SMOOTH_DUAL: "`smooth_conjugate`",
    PLAIN_NORMS: "groups of positive weights",
    SVM: "and an intercept",
    SUM_OVER_GROUPS: "`separable`",
    ELASTIC_OR_ONE_OUTPUT: "`elastic`",
}


@pytest.mark.parametrize("cls", [cls for cls in family(solver.BaseSolver) if cls.aliases])
def test_the_guide_states_all_that_a_solver_asks_for(cls):
    rows = GUIDE.read_text(encoding="utf-8").splitlines()
    for name in cls.aliases:
        [row] = [row for row in rows if row.startswith("|") and f'`"{name}"`' in row]
        for requirement in cls.requires:
            if requirement.meaning.startswith("one of the regularizers"):
                assert "`weight_set`" in row
            else:
                assert WORDS[requirement] in row


# ---- missing methods -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: type("Mine", (Regularizer,), {})().prox([1.0], 1.0),
            r"Mine must define value\(\), slopes\(\), prox\(\), conjugate\(\)\.",
        ),
        (
            lambda: type("Mine", (Regularizer,), {"separable": True})().prox([1.0], 1.0),
            r"Mine must define value\(\), slopes\(\)\.",
        ),
        (
            lambda: type("Mine", (PointwiseLoss,), {})().value(np.ones(1), np.ones(1)),
            r"Mine must define value\(\), gradient\(\)\.",
        ),
        (
            lambda: type("Mine", (StructuredLoss,), {})().value_and_gradient(None, None, None),
            r"Mine must define value_and_gradient\(\)\.",
        ),
        (
            lambda: type("Mine", (Structure,), {})().marginals(None),
            r"Mine must define zeros\(\), decode\(\), indicator\(\), cost_potentials\(\), "
            r"marginals\(\)\.",
        ),
        (lambda: type("Mine", (Kernel,), {})()([[1.0]]), r"Mine must define raw\(\)\."),
    ],
)
def test_all_missing_methods_are_named_at_once(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_all_missing_methods_of_a_bank_are_named_at_once():
    with pytest.raises(TypeError) as error:
        type("Mine", (Bank,), {})()
    for method in Bank.__abstractmethods__:
        assert method in str(error.value)
