"""Parameters that are set, and fits that are made, after a fit: what was learned predicts and is saved as it is."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone

import omkl
from omkl.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0]))
CLASSES = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])


def online(**parameters):
    return omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=2, random_state=0, **parameters)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    ("learned", "since", "y", "method"),
    [
        (omkl.GroupLasso(0.1, loss="poisson"), {"loss": "squared"}, COUNTS, "predict"),
        (omkl.GroupLasso(0.1), {"loss": "poisson", "alpha": -1.0}, COUNTS, "predict"),
        (omkl.GroupLassoCV(2, loss="poisson", cv=2), {"loss": "squared"}, COUNTS, "predict"),
        (omkl.SparseLogisticRegression(0.01), {"multiclass": "multinomial"}, CLASSES, "predict_proba"),
        (
            omkl.SparseLogisticRegression(0.01, multiclass="multinomial"),
            {"multiclass": "ovr"},
            CLASSES,
            "predict_proba",
        ),
        (omkl.SparseLogisticRegressionCV(2, cv=2), {"loss": "hinge"}, CLASSES, "predict_proba"),
        (omkl.MKLClassifier(["linear"]), {"loss": "hinge"}, CLASSES, "predict_proba"),
        (omkl.MKLClassifier(["linear"]), {"multiclass": "ovo"}, CLASSES, "predict_proba"),
    ],
)
def test_predictions_are_those_of_what_was_learned(learned, since, y, method, saved, tmp_path):
    model = clone(learned).fit(X, y)
    expected = getattr(model, method)(X)
    model.set_params(**since)
    if saved:
        if since.get("alpha") == -1.0:
            model.set_params(alpha=0.2)
        model.save(tmp_path / "model.npz")
        model = omkl.load(tmp_path / "model.npz")
    assert_array_equal(getattr(model, method)(X), expected)


@pytest.mark.parametrize(
    "model",
    [omkl.SparseLogisticRegression(0.01, loss="hinge"), omkl.MKLClassifier(["linear"], loss="hinge"), online()],
)
def test_scores_of_a_hinge_do_not_become_probabilities(model):
    model = clone(model).fit(X, CLASSES)
    assert not hasattr(model.set_params(loss="crf" if isinstance(model, omkl.OnlineMKLClassifier) else "logistic"),
                       "predict_proba")  # fmt: skip


def test_columns_of_an_earlier_fit_are_forgotten():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    table = frame.assign(kind=np.where(X[:, 1] > 0, "high", "low"))
    records = table.to_dict("records")
    model = online().set_params(kernels=None).fit(frame, CLASSES).fit(records, CLASSES)
    assert not {"n_features_in_", "feature_names_in_"} & vars(model).keys()
    assert_array_equal(model.predict(table), model.predict(records))
    design = omkl.GroupLasso(0.1).fit(frame, COUNTS).fit(aslinearoperator(X), COUNTS)
    assert not hasattr(design, "feature_names_in_")
    with pytest.raises(InputError, match="columns have no names"):
        design.set_params(groups=[["a", "b"], ["c"]]).fit(aslinearoperator(X), COUNTS)
    kernels = omkl.MKLClassifier(["linear"]).fit(frame, CLASSES)
    kernels.set_params(kernels="precomputed").fit(X @ X.T, CLASSES)
    assert not {"n_features_in_", "feature_names_in_"} & vars(kernels).keys()
