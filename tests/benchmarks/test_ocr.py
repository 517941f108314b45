"""One OCR fold: Gram matrices, 20 epochs of MKL with three kernels, and prediction, with floors and
peers.
"""

import numpy as np
import pytest

from omkl import SequenceLabeler
from omkl.groups.expansions.cached import dense_grams
from omkl.kernels import as_kernel
from tests.benchmarks.measuring import Floor, product, stream

KERNELS = ["linear", "quadratic", "gaussian:sigma2=5"]


@pytest.fixture(scope="module")
def fold(ocr):
    return ocr.of_folds(1), ocr.of_folds([f for f in range(10) if f != 1])


class GradientCounter:
    """Counts updated pairs (token, label): each reads one Gram row of each kernel."""

    moved = 0

    def on_start(self, trainer, source):
        original = trainer.loss.value_and_gradient

        def counted(structure, potentials, gold):
            value, gradient = original(structure, potentials, gold)
            if gradient is not None:
                self.moved += int(np.count_nonzero(gradient.unary))
            return value, gradient

        trainer.loss.value_and_gradient = counted

    def on_round(self, trainer, step):
        """Have every round told: a compiled pass would not call the loss."""


def test_gram_matrices(measure, fold):
    X = np.concatenate(fold[0][0])
    kernels = [as_kernel(spec).fit(X) for spec in KERNELS[1:]]
    X32 = X.astype(np.float32)
    floor = Floor(
        "product, stream", lambda: (X32 @ X32.T, np.ones((2, len(X), len(X)), np.float32))
    )
    measure(lambda: dense_grams(kernels, [X, X]), floor=floor)


def by_crfsuite(images, letters, path):
    """Train CRFsuite's averaged perceptron on the active pixels."""
    import pycrfsuite

    names = [f"p{j}" for j in range(images[0].shape[1])]
    words = [[[names[j] for j in np.flatnonzero(image)] for image in word] for word in images]

    def fit():
        trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
        for word, labels in zip(words, letters):
            trainer.append(word, labels)
        trainer.set_params({"max_iterations": 20})
        trainer.train(str(path))

    return fit


def by_svc(images, letters):
    from sklearn.svm import SVC

    X = np.concatenate(images)
    y = np.concatenate(letters)
    return lambda: SVC(C=10, gamma=0.1).fit(X, y)


@pytest.mark.parametrize("case", ["linear", "MKL"])
def test_ocr_20_epochs(measure, fold, tmp_path, case):
    """Train 20 epochs; the floor adds every Gram row that an updated coefficient needs."""
    images, letters = fold[0]
    n = sum(map(len, images))
    if case == "MKL":
        kernels = KERNELS
        width = n
        n_rows = 2
        peers = {"SVC": lambda: by_svc(images, letters)}
    else:
        kernels = ["linear"]
        width = images[0].shape[1]
        n_rows = 1
        peers = {"CRFsuite": lambda: by_crfsuite(images, letters, tmp_path / "crfsuite")}
    counter = GradientCounter()
    SequenceLabeler(kernels, epochs=20, random_state=0, verbose=False, callbacks=[counter]).fit(
        images, letters
    )
    stack = np.ones((500, width), np.float32)
    target = np.zeros((26, width), np.float32)

    def axpys():
        for i in range(500):
            target[i % 26] += np.float32(0.5) * stack[i]

    floor = Floor("axpy", axpys, counter.moved * n_rows / 500)
    seconds = []

    def fit():
        labeler = SequenceLabeler(kernels, epochs=20, random_state=0, verbose=False)
        history = labeler.fit(images, letters).history_
        seconds.append(sum(record["seconds"] for record in history))

    measure(fit, floor=floor, peers=peers, letters=n)
    measure.note(passes=min(seconds))


def test_kernel_scoring(measure, fold):
    """Predict; the floor is products by BLAS, with the support and with the coefficients."""
    (images, letters), (test_images, _) = fold
    labeler = SequenceLabeler(KERNELS, random_state=0, verbose=False).fit(images, letters)
    test = test_images[:250]
    X = np.concatenate(test).astype(np.float32)
    bank = next(b for b in labeler.predictor_.banks if hasattr(b, "_coefficients"))
    support = bank._supports["x"].X
    coefficients = bank._coefficients

    def products():
        inner = X @ support.T
        for A in coefficients:
            inner @ A

    def svc():
        machine = by_svc(images, letters)()
        return lambda: machine.predict(X.astype(np.float64))

    seconds = measure(
        lambda: labeler.predict(test), floor=Floor("product", products), peers={"SVC": svc}
    )
    measure.note(letters_a_second=len(X) / seconds, support=len(support))


@pytest.mark.parametrize(
    "kernel", ["linear:explicit=False", "quadratic", "gaussian", "laplacian", "chi2"]
)
def test_kernel_rows(measure, kernel):
    """Compute kernels of 200 vectors with 5000 others, of 128 columns."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 128))
    Z = rng.random((5000, 128))
    fitted = as_kernel(kernel).fit(Z)
    sums_differences = kernel in ("laplacian", "chi2")

    def sklearn():
        from sklearn.metrics import pairwise

        name = {
            "linear:explicit=False": "linear",
            "quadratic": "polynomial",
            "gaussian": "rbf",
        }.get(kernel, kernel)
        function = pairwise.PAIRWISE_KERNEL_FUNCTIONS[name]
        return lambda: function(X, Z)

    if sums_differences:
        # sums of absolute differences cannot use a matrix product: each pair reads a row
        floor = stream(8 * 200 * 5000 * 128)
    else:
        floor = product(200, 128, 5000, np.float64)
    measure(lambda: fitted(X, Z), floor=floor, peers={"sklearn": sklearn})
