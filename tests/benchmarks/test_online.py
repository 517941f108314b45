"""Streams of rows: budgets, random features, groups, growth; against other libraries."""

from itertools import cycle

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from omkl import MKLClassifier, OnlineMKLClassifier, OnlineMKLRegressor
from omkl.data import Stream, stream_csv, stream_parquet
from omkl.groups import FeatureMapBank, GroupState, Tokens
from omkl.kernels import as_kernel
from omkl.losses import CRF, StructuredHinge
from omkl.structures import Multiclass
from tests.benchmarks.measuring import Floor

BUDGET = 1000
CASES = {
    "dual": {"linear": "linear:explicit=False", "gaussian": "gaussian", "laplacian": "laplacian"},
    "mixed": {name: name for name in ("linear", "quadratic", "gaussian")},
}


def clusters(n, d, seed, wrong=0.05):
    """Draw seven classes of many clusters each, which no linear model separates."""
    world = np.random.default_rng(99)
    centers = 1.2 * world.normal(size=(60, d))
    classes = world.integers(0, 7, size=60)
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 60, size=n)
    y = np.where(rng.random(n) < wrong, rng.integers(0, 7, size=n), classes[z])
    return centers[z] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize("case", CASES)
def test_budget(measure, case):
    """A round on a budget; the floor computes one kernel value with each support vector."""
    d, n = 20, 100
    X, y = clusters(1500 + 10 * n, d, seed=1)
    model = OnlineMKLClassifier(CASES[case], budget=BUDGET, random_state=0)
    model.partial_fit(X[:1500], y[:1500], classes=np.arange(7))
    blocks = cycle(np.split(np.arange(1500, len(y)), 10))
    support = np.random.default_rng(0).normal(size=(BUDGET, d))
    row = X[:1]

    def kernel_values():
        for _ in CASES[case]:
            np.exp(row @ support.T)

    def block():
        rows = next(blocks)
        model.partial_fit(X[rows], y[rows])

    seconds = measure(block, floor=Floor("product and exp", kernel_values, n))
    measure.note(rows_a_second=n / seconds, model_mb=model.memory_usage()["training"])


def fogd(X, y, n_features=400, eta=0.001, sigma=8.0):
    """Mistakes of Fourier online gradient descent (Lu et al. 2016, Algorithm 1), hinge loss."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_features // 2, X.shape[1])) / sigma
    w = np.zeros(n_features)
    mistakes = 0
    for x, label in zip(X, y):
        angles = directions @ x
        z = np.concatenate([np.cos(angles), np.sin(angles)])
        score = w @ z
        mistakes += score * label <= 0
        if score * label < 1:
            w += eta * label * z
    return mistakes


def nogd(X, y, n_features=400, rank=80, eta=0.2, sigma=8.0):
    """Mistakes of Nystrom online gradient descent (Lu et al. 2016, Algorithm 2).

    The first support vectors are the landmarks.
    """

    def values(A, B):
        return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / (2 * sigma**2))

    support = np.zeros((0, X.shape[1]))
    w = np.zeros(0)
    project = np.eye(0)
    mistakes = 0
    for x, label in zip(X, y):
        z = project @ values(support, x[None])[:, 0]
        mistakes += (w @ z) * label <= 0
        if (w @ z) * label >= 1:
            continue
        if len(w) == rank:
            w += eta * label * z
            continue
        support = np.vstack([support, x])
        w = np.append(w, eta * label)
        project = np.eye(len(w))
        if len(w) == n_features // 4:
            roots, vectors = np.linalg.eigh(values(support, support))
            roots = np.sqrt(roots[-rank:, None])
            vectors = vectors[:, -rank:].T
            w = (roots * vectors) @ w
            project = vectors / roots
    return mistakes


def by_sgd(X, y, classes):
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    def fit():
        mapping = RBFSampler(gamma=1 / X.shape[1], n_components=400, random_state=0).fit(X[:1])
        model = SGDClassifier()
        for low in range(0, len(X), 100):
            model.partial_fit(
                mapping.transform(X[low : low + 100]), y[low : low + 100], classes=classes
            )

    return fit


def by_river(X, y):
    from river import feature_extraction, linear_model

    rows = [dict(enumerate(x)) for x in X.tolist()]

    def fit():
        model = (
            feature_extraction.RBFSampler(n_components=400, seed=0) | linear_model.PAClassifier()
        )
        for row, label in zip(rows, y > 0):
            model.predict_one(row)
            model.learn_one(row, bool(label))

    return fit


@pytest.mark.parametrize(
    "kernel", ["gaussian:features=400", "gaussian:features=400,map=nystrom", "budget 100"]
)
def test_random_features(measure, kernel):
    """One pass over two classes, with predictions before learning; the notes have the mistakes."""
    X, classes = clusters(1000, 20, seed=3)
    y = np.where(classes < 4, -1, 1)
    settings = {"kernels": [kernel]}
    if kernel == "budget 100":
        settings = {"kernels": ["gaussian"], "budget": 100}
    wrong = []

    def fit():
        model = OnlineMKLClassifier(random_state=0, verbose=False, **settings)
        model.partial_fit(X[:100], y[:100], classes=[-1, 1])
        wrong.append(50)
        for low in range(100, len(X), 100):
            block = slice(low, low + 100)
            wrong[-1] += np.count_nonzero(model.predict(X[block]) != y[block])
            model.partial_fit(X[block], y[block])

    W = np.random.default_rng(0).normal(size=(20, 400))
    floor = Floor("product and cos", lambda: [np.cos(x @ W) for x in X[:, None]])
    peers = {}
    if "nystrom" not in kernel:
        peers = {
            "SGD": lambda: by_sgd(X, y, [-1, 1]),
            "river": lambda: by_river(X, y),
            "FOGD": lambda: lambda: fogd(X, y),
            "NOGD": lambda: lambda: nogd(X, y),
        }
    measure(fit, floor=floor, peers=peers)
    measure.note(
        mistakes=wrong[-1] / len(y), fogd=int(fogd(X, y)) / len(y), nogd=int(nogd(X, y)) / len(y)
    )


@pytest.mark.parametrize("n_labels", [2, 10, 50])
@pytest.mark.parametrize("loss", [StructuredHinge(), CRF()], ids=["hinge", "crf"])
def test_potentials_and_step(measure, n_labels, loss):
    """2000 dense features an example; the floor is their product with the (K, 2000) weights."""
    n, n_features = 500, 2000
    X = np.random.default_rng(0).normal(size=(n, 50))
    kernel = as_kernel(f"gaussian:features={n_features}").fit(X)
    bank = FeatureMapBank(["g"], [kernel], ["x"], [n_features], n_labels, averaging=True)
    tokens = Tokens(np.arange(n + 1), None, {"x": X})
    group_state = GroupState([bank])
    group_state.rates[:] = 1e-6
    group_state.scales[:] = 1.0
    group_state.averages[:] = 1.0
    structure = Multiclass(n_labels)
    _, gradient = loss.value_and_gradient(structure, structure.zeros(1), 0)
    examples = [tokens.sequence(i) for i in range(n)]
    potentials = structure.zeros(1)

    def rounds():
        for x in examples:
            bank.add_potentials(x, potentials)
            bank.step(x, gradient)

    features = kernel.features(X)
    weights = np.zeros((n_labels, n_features))
    out = np.empty(n_labels)

    def products():
        for row in features:
            np.dot(weights, row, out)

    measure(rounds, floor=Floor("product", products))


@pytest.mark.parametrize("n_samples", [500, 1000, pytest.param(2000, marks=pytest.mark.large)])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("kind", ["whole", "fourier", "nystrom"])
def test_factors(measure, n_samples, loss, kind):
    """Solve with ten Gaussians to a gap of 0.01, with the time to make Gram matrices or factors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n_samples, 6))
    y = np.sign(X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=len(X)))
    train, test = slice(0, n_samples), slice(n_samples, None)
    settings = {"whole": "", "fourier": ",features={}", "nystrom": ",features={},map=nystrom"}[kind]
    widths = np.geomspace(0.5, 30, 10).round(2)
    kernels = [f"gaussian:sigma2={width}{settings.format(n_samples // 32 * 2)}" for width in widths]
    model = MKLClassifier(kernels, loss=loss, C=1.0, verbose=False)
    once = n_samples >= 2000
    if once:
        model.fit(X[:300], y[:300])
    measure(lambda: model.fit(X[train], y[train]), size=n_samples, once=once)
    measure.note(accuracy=model.score(X[test], y[test]), active=int(model.n_active_))


N, BLOCK, NONZEROS, COLUMNS, GROUPS = 10_000, 1000, 100, 100_000, 10


@njit(nogil=True)
def touch_twice(starts, ids, values, table, sums):
    """Read the weights of all non-zeros, and change them and their sums.

    Any learner with an average must do so.
    """
    total = 0.0
    for i in range(starts.shape[0] - 1):
        score = 0.0
        for q in range(starts[i], starts[i + 1]):
            score += values[q] * table[ids[q]]
        for q in range(starts[i], starts[i + 1]):
            table[ids[q]] -= 1e-9 * values[q]
            sums[ids[q]] += 1e-9 * values[q]
        total += score
    return total


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_explicit_groups(measure, kind):
    """Blocks of 1000 sparse rows; three of ten groups of columns are informative."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, COLUMNS, size=N * NONZEROS)
    X = sparse.csr_matrix(
        (rng.normal(size=N * NONZEROS), ids, np.arange(0, N * NONZEROS + 1, NONZEROS)), (N, COLUMNS)
    )
    X.sum_duplicates()
    y = X @ np.where(np.arange(COLUMNS) < COLUMNS * 3 // GROUPS, rng.normal(size=COLUMNS), 0.0)
    ours = OnlineMKLRegressor
    first = {}
    if kind == "classifier":
        y = (y > 0).astype(int)
        ours = OnlineMKLClassifier
        first = {"classes": [0, 1]}
    blocks = [(X[s : s + BLOCK], y[s : s + BLOCK]) for s in range(0, N, BLOCK)]
    width = COLUMNS // GROUPS
    kernels = {f"columns {k}": f"linear:on={k * width}:{(k + 1) * width}" for k in range(GROUPS)}
    model = ours(kernels, verbose=False).partial_fit(*blocks[0], **first)

    def sgd():
        from sklearn.linear_model import SGDClassifier, SGDRegressor

        make = SGDClassifier if kind == "classifier" else SGDRegressor
        peer = make(average=True).partial_fit(*blocks[0], **first)
        return lambda: [peer.partial_fit(*block) for block in blocks]

    table = np.zeros(COLUMNS)
    sums = np.zeros(COLUMNS)
    floor = Floor("gather", lambda: touch_twice(X.indptr, X.indices, X.data, table, sums))
    seconds = measure(
        lambda: [model.partial_fit(*block) for block in blocks], floor=floor, peers={"SGD": sgd}
    )
    measure.note(rows_a_second=N / seconds)


def rows_of(n, d):
    """Make n rows of d numbers in blocks of 1,000, which repeat after ten."""
    rng = np.random.default_rng(0)
    blocks = [
        (X, (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)) for X in rng.normal(size=(10, BLOCK, d))
    ]
    return Stream(lambda epoch: (blocks[i % 10] for i in range(n // BLOCK)))


def by_sgd_in_blocks(n, d, n_features):
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    def fit():
        model = SGDClassifier(average=True)
        mapping = RBFSampler(n_components=max(n_features, 1), random_state=0)
        mapping.fit(np.zeros((1, d)))
        for X, y in rows_of(n, d).blocks():
            if n_features:
                X = mapping.transform(X)
            model.partial_fit(X, y, classes=[0, 1])

    return fit


LARGE = pytest.mark.large
GROWTH = {
    "rows": [10**4, 10**5, pytest.param(10**6, marks=LARGE), pytest.param(10**7, marks=LARGE)],
    "kernels": [1, 4, 16, pytest.param(64, marks=LARGE)],
    "columns": [10, 100, 1000, pytest.param(10_000, marks=LARGE)],
}


def grow(measure, n, d, kernels, n_features=0):
    """Learn n rows of d columns from a stream; memory does not grow with n."""
    model = OnlineMKLClassifier(kernels, epochs=1, random_state=0, verbose=False)
    model.fit(rows_of(BLOCK, d))
    peers = {"SGD": lambda: by_sgd_in_blocks(n, d, n_features)}
    once = n > 10**5
    seconds = measure(
        lambda: model.fit(rows_of(n, d)),
        peers=peers,
        size=n * d * len(kernels),
        once=once,
        limit=600.0,
    )
    measure.note(thousand_rows_a_second=n / seconds / 1e3)


@pytest.mark.parametrize("n", GROWTH["rows"])
def test_growth_with_rows(measure, n):
    grow(measure, n, 10, ["linear"])


@pytest.mark.parametrize("n_kernels", GROWTH["kernels"])
def test_growth_with_kernels(measure, n_kernels):
    """Gaussians of 100 random features each; the peer has as many features together."""
    kernels = [
        f"gaussian:sigma2={width},features=100"
        for width in np.geomspace(1, 100, n_kernels).round(3)
    ]
    grow(measure, N, 10, kernels, 100 * n_kernels)


@pytest.mark.parametrize("d", GROWTH["columns"])
def test_growth_with_columns(measure, d):
    grow(measure, N, d, ["linear"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_learning_from_files(measure, tmp_path, suffix):
    """Read and learn a file of 100,000 rows; the floor learns the same rows from memory."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    import pyarrow.parquet

    X, y = map(np.concatenate, zip(*rows_of(100_000, 10).blocks()))
    table = pa.table({**{f"c{j}": X[:, j] for j in range(10)}, "y": y})
    path = tmp_path / f"a.{suffix}"
    if suffix == "csv":
        pyarrow.csv.write_csv(table, path)
        stream = stream_csv(path, "y", block_size=BLOCK)
    else:
        pyarrow.parquet.write_table(table, path)
        stream = stream_parquet(path, "y", block_size=BLOCK)
    model = OnlineMKLClassifier(
        ["linear", "gaussian:features=300"], epochs=1, random_state=0, verbose=False
    )
    model.fit(rows_of(BLOCK, 10))
    seconds = measure(
        lambda: model.fit(stream), floor=Floor("learning", lambda: model.fit(rows_of(100_000, 10)))
    )
    measure.note(thousand_rows_a_second=len(y) / seconds / 1e3)


@pytest.mark.study
@pytest.mark.parametrize("budget", ["none", "100", "500"])
def test_accuracy_on_letters(measure, ocr, budget):
    """One OCR fold of letters, three epochs, two kernels; accuracy on three other folds."""
    from omkl import SequenceLabeler

    options = {} if budget == "none" else {"budget": int(budget)}
    labeler = SequenceLabeler(
        ["quadratic", "gaussian:sigma2=5"], epochs=3, random_state=0, verbose=False, **options
    )
    measure(lambda: labeler.fit(*ocr.of_folds(1)), once=True)
    measure.note(accuracy=labeler.score(*ocr.of_folds([2, 3, 4])))
