"""
omkl inside scikit-learn: pipelines, searches, calibration, importances, learned kernels
========================================================================================

    python examples/in_scikit_learn.py                         a few seconds, nothing to download

Each function is a story of its own, which returns what it prints.
"""

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import (
    load_breast_cancer,
    load_iris,
    load_linnerud,
    make_multilabel_classification,
)
from sklearn.inspection import permutation_importance
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import omkl
from omkl.data import stream_frames


def customers(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with numbers, categories and dates, and whether each customer came back."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "spent": rng.gamma(2.0, 50.0, n),
            "city": pd.Categorical(rng.choice(["Aarhus", "Berlin", "Cork"], n)),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D"),
        }
    )
    came_back = table["spent"] / 100 + (table["city"] == "Cork") > 1.2
    return table, came_back.to_numpy().astype(int)


def columns_of_many_kinds() -> float:
    """Scale numbers and encode categories by a ColumnTransformer; return the accuracy of five
    folds.
    """
    X, y = customers()
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["age", "spent"]), ("city", OneHotEncoder(), ["city"])]
    )
    return float(cross_val_score(make_pipeline(columns, omkl.MKLClassifier(C=10.0)), X, y).mean())


def a_table_as_it_is() -> float:
    """Give rows as dicts to the online classifier, which takes categories and dates; return its
    test accuracy.
    """
    X, y = customers(600)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=200, random_state=0)
    return float(
        omkl.OnlineMKLClassifier(random_state=0).fit(X_train, y_train).score(X_test, y_test)
    )


def a_grid_search() -> dict:
    """Choose C and the regularizer by five folds.

    (:class:`omkl.MKLClassifierCV` chooses C faster.)
    """
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), omkl.MKLClassifier(["linear", "gaussian"]))
    grid = {
        "mklclassifier__C": [0.1, 1.0, 10.0],
        "mklclassifier__regularizer": ["block1", "uniform"],
    }
    return GridSearchCV(pipeline, grid, cv=5).fit(X, y).best_params_


def probabilities_of_a_hinge() -> tuple[float, float]:
    """Return Brier scores of the hinge loss, calibrated by scikit-learn, and of logistic loss."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200]
    y = y[:200]
    hinge = CalibratedClassifierCV(omkl.MKLClassifier(["gaussian"], loss="hinge"), cv=3)
    probabilities = [
        cross_val_predict(model, X, y, cv=3, method="predict_proba")[:, 1]
        for model in (hinge, omkl.MKLClassifier(["gaussian"], C=3.0))
    ]
    hinge_score, logistic_score = (brier_score_loss(y, of_model) for of_model in probabilities)
    return float(hinge_score), float(logistic_score)


def what_matters() -> dict[str, float]:
    """Return permutation importances of columns, and the weights of the kernels on them."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = omkl.MKLClassifier(
        {name: f"gaussian:on={i}:{i + 1}" for i, name in enumerate(X.columns)}
    ).fit(X, y)
    lost = permutation_importance(model, X, y, n_repeats=5, random_state=0).importances_mean
    return dict(zip(X.columns, lost.round(3).tolist()))


def the_learned_kernel_elsewhere() -> float:
    """Use the learned kernel in an SVC, as a Gram matrix from a pipeline."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        StandardScaler().fit_transform(X), y, random_state=0
    )
    kernels = ["linear", "gaussian:sigma2=5", "gaussian:sigma2=50"]
    pipeline = make_pipeline(omkl.MKLClassifier(kernels), SVC(kernel="precomputed"))
    return float(pipeline.fit(X_train, y_train).score(X_test, y_test))


def several_outputs() -> tuple[tuple, tuple]:
    """Learn several outputs with shared kernel weights; return the shapes of predictions."""
    X, y = load_linnerud(return_X_y=True)
    targets = omkl.MKLRegressor(C=10.0).fit(StandardScaler().fit_transform(X), y).predict(X)
    X, y = make_multilabel_classification(100, random_state=0)
    labels = omkl.MKLClassifier().fit(X, y).predict_proba(X)
    return targets.shape, labels.shape


def frames_that_come_in_parts() -> float:
    """Learn in one pass from the parts of a table, as ``pandas.read_csv(file, chunksize=...)``
    gives them.
    """
    X, y = customers(1000)
    X["came back"] = y
    frames = [X[low : low + 100] for low in range(0, 800, 100)]
    model = omkl.OnlineMKLClassifier(epochs=5, random_state=0).fit(
        stream_frames(frames, target="came back")
    )
    test = stream_frames(X[800:], columns=list(X.columns[:-1]))
    return float(np.mean(model.predict(test) == y[800:]))


STORIES = (
    columns_of_many_kinds,
    a_table_as_it_is,
    a_grid_search,
    probabilities_of_a_hinge,
    what_matters,
    the_learned_kernel_elsewhere,
    several_outputs,
    frames_that_come_in_parts,
)


def main() -> dict:
    """Run all examples."""
    results = {story.__name__: story() for story in STORIES}
    for name, result in results.items():
        print(f"{name.replace('_', ' ')}: {result}")
    return results


if __name__ == "__main__":
    main()
