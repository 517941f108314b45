"""Every estimator, from data to a model file and back, in seconds: the first test to run after any
change.
"""

import numpy as np
import pytest

import omkl

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 4))
CLASSES = (ROWS[:, 0] > 0).astype(int)
NUMBERS = ROWS[:, 0] + 0.1 * RNG.normal(size=60)
SENTENCES = [
    [{"word": word, "image": np.full(2, len(word))} for word in line.split()]
    for line in ("a dog", "the cat")
]
TAGS = [["DET", "NOUN"]] * 2
TREES = [
    omkl.data.Sentence(
        forms=["the", "dog", "barks"],
        upos=["DET", "NOUN", "VERB"],
        heads=[2, 3, 0],
        deprels=list("abc"),
    ),
    omkl.data.Sentence(forms=["a", "cat"], upos=["DET", "NOUN"], heads=[2, 0], deprels=list("ac")),
]
CASES = {
    "labeler": (omkl.SequenceLabeler(epochs=2, random_state=0), SENTENCES, TAGS),
    "classifier": (omkl.OnlineMKLClassifier(epochs=2, random_state=0), ROWS, CLASSES),
    "regressor": (omkl.OnlineMKLRegressor(epochs=2, random_state=0), ROWS, NUMBERS),
    "batch classifier": (omkl.MKLClassifier(), ROWS, CLASSES),
    "batch regressor": (omkl.MKLRegressor(), ROWS, NUMBERS),
    "batch classifier, cross-validated": (omkl.MKLClassifierCV(Cs=3, cv=2), ROWS, CLASSES),
    "batch regressor, cross-validated": (omkl.MKLRegressorCV(Cs=3, cv=2), ROWS, NUMBERS),
    "group lasso": (omkl.GroupLasso(), ROWS, NUMBERS),
    "sparse logistic regression": (omkl.SparseLogisticRegression(), ROWS, CLASSES),
    "group lasso, cross-validated": (omkl.GroupLassoCV(3, cv=2), ROWS, NUMBERS),
    "sparse logistic regression, cross-validated": (
        omkl.SparseLogisticRegressionCV(3, cv=2),
        ROWS,
        CLASSES,
    ),
    "parser": (omkl.DependencyParser("small", epochs=1, random_state=0), TREES, None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_predicts_the_same_bits(name, reloaded):
    estimator, X, y = CASES[name]
    estimator.fit(X) if y is None else estimator.fit(X, y)
    loaded = reloaded(estimator)
    predict = "parse" if name == "parser" else "predict"
    ours = getattr(estimator, predict)(X)
    theirs = getattr(loaded, predict)(X)
    for one, other in zip(ours, theirs):
        assert repr(one) == repr(other)
