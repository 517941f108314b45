"""Random configurations of online estimators, and ways to train them with the same results."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from omkl import (
    Budget,
    Edges,
    GraphLabeler,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
)
from omkl.data import Graph, Stream
from omkl.online import MeanPolyak, driver, training_loop
from omkl.regularizers import L1, L21, Ridge, SquaredL21

N = 400
LABEL_LOSSES = ["hinge", "hinge:cost_weight=0.3", "crf", "softmax-margin", "perceptron"]
NUMBER_LOSSES = [
    "squared",
    "huber:delta=0.5",
    "epsilon-insensitive:epsilon=0.2",
    "quantile:quantile=0.3",
]
KERNELS = [
    ["linear"],
    ["linear", "gaussian:features=20"],
    ["gaussian:features=8", "laplacian:features=6", "linear"],
    ["gaussian", "polynomial:degree=2", "linear"],
]
REGULARIZERS = [
    "mkl",
    "block1",
    "elastic-net:mu=0.3",
    "uniform",
    "block-q:q=1.5",
    "block-q:q=3",
    0.4 * L21() + 0.2 * SquaredL21() + 0.1 * Ridge(),
    "weighted",
    None,
]
ON_COORDINATES = ["l1", "sparse-group", 0.2 * L1() + 0.5 * Ridge()]
AVERAGES = ["quadratic", "uniform", "recent", None, "decayed:half_life=1"]
RATES = ["auto", 0.3, "inverse-time:eta0=0.3", "linear:eta0=0.3", MeanPolyak()]


class Configuration(NamedTuple):
    """An untrained estimator, its data, and the call that trains it."""

    model: Any
    X: Any
    y: Any
    weights: np.ndarray | None = None
    call: str = "partial_fit"
    #: Rows of each block, for a stream and for "partial_fit".
    blocks: tuple[slice, ...] = ()
    #: Arguments of the first call of "partial_fit".
    declared: dict[str, Any] = {}

    def learn_block(self, model, number):
        """Learn one block by "partial_fit"."""
        block = self.blocks[number]
        weights = None if self.weights is None else self.weights[block]
        declared = {} if number else self.declared
        return model.partial_fit(
            self.X[block],
            self.y[block],
            sample_weight=weights,
            **declared,
        )


def one_of(rng, values):
    return values[rng.integers(len(values))]


def rows(rng, kind, n=N):
    if kind == "dicts":
        words = rng.choice(["a", "b", "c"], size=(n, 2))
        return [
            {"word": w, "other": v, "size": float(s)}
            for (w, v), s in zip(words.tolist(), rng.normal(size=n))
        ]
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.7)
    return sparse.csr_array(X) if kind == "sparse" else X


def shared_options(rng):
    """Draw settings that all online estimators have."""
    regularizer = one_of(rng, REGULARIZERS)
    return {
        "regularizer": regularizer,
        "method": one_of(rng, ["fobos", "fobos", "rda"]),
        "weighting": one_of(rng, ["norms", "out-of-sample", "auto"]) if regularizer else "norms",
        "average": one_of(rng, AVERAGES),
        "learning_rate": one_of(rng, RATES),
        "C": float(10.0 ** rng.integers(-1, 4)),
        "epochs": int(rng.integers(1, 4)),
        "radius": one_of(rng, [None, 0.5]),
        "random_state": 0,
    }


def weights_of(rng, n):
    """Draw weights, or None; some weights are zero."""
    kind = one_of(rng, [None, None, "few", "any"])
    if kind is None:
        return None
    few = rng.choice([0.5, 1.0, 2.5, 0.0], size=n)
    weights = few if kind == "few" else np.where(few == 0.0, 0.0, rng.exponential(size=n))
    weights[[0, n // 3, -1]] = 1.0  # in every block
    return weights


def in_blocks(rng, model, X, y, weights, classes):
    """Draw how to train on the data: in epochs, as a stream, or block by block."""
    n = len(y)
    call = one_of(rng, ["fit", "fit", "stream", "partial_fit"])
    blocks = slice(0, n // 3), slice(n // 3, n // 3 + 1), slice(n // 3 + 1, n)
    declared = {} if classes is None else {"classes": classes}
    return Configuration(
        model,
        X,
        y,
        None if call == "stream" else weights,
        call,
        blocks,
        declared,
    )


def row_configuration(rng):
    """Draw an estimator of rows, and its data."""
    kind = one_of(rng, ["dense", "dense", "sparse", "dicts"])
    task = one_of(rng, ["binary", "multiclass", "costs", "number"])
    X = rows(rng, kind)
    options = {**shared_options(rng), "fit_intercept": bool(rng.integers(2))}
    kernels = None
    if kind == "dense":
        kernels = one_of(rng, KERNELS)
    elif kind == "sparse":
        kernels = ["linear"]
    if options["regularizer"] == "weighted":
        options["regularizer"] = None if kernels is None else "mkl"
    if kernels is not None:
        options["kernels"] = kernels
    if kernels in (None, KERNELS[-1]):
        pass  # there are kernel expansions, which have no coordinates
    elif options["method"] == "fobos" and rng.integers(4) == 0:
        options |= {"regularizer": one_of(rng, ON_COORDINATES), "weighting": "norms"}
    if kernels == KERNELS[-1]:
        options["budget"] = Budget(dtype=one_of(rng, ["float32", "float64"]))
    weights = weights_of(rng, N)
    if task == "number":
        model = OnlineMKLRegressor(loss=one_of(rng, NUMBER_LOSSES), **options)
        return in_blocks(rng, model, X, rng.normal(size=N), weights, None)
    y = rng.integers(2 if task == "binary" else 4, size=N)
    costs = np.where(np.eye(4) > 0, 0.0, 1.0 + rng.random((4, 4))) if task == "costs" else None
    loss = one_of(rng, LABEL_LOSSES[:2] if task == "costs" else LABEL_LOSSES)
    model = OnlineMKLClassifier(loss=loss, cost=costs, **options)
    return in_blocks(rng, model, X, y, weights, np.unique(y))


def words_of(rng, codes):
    """Draw two words for each label of a sequence; the first one tells about the label."""
    return [
        {"a": f"w{code + rng.integers(3)}", "b": f"v{rng.integers(5)}"} for code in codes.tolist()
    ]


def labels_of(rng, codes, share_known):
    """Return the labels of a sequence, some of which are unknown."""
    return [f"L{code}" if rng.random() < share_known else None for code in codes.tolist()]


def sequence_configuration(rng):
    """Draw a labeler, and sequences of words or vectors, some labels of which may be unknown."""
    lengths = rng.integers(1, 6, size=N // 4)
    options = shared_options(rng)
    codes = [rng.integers(4, size=n) for n in lengths]
    if one_of(rng, ["words", "vectors"]) == "words":
        X = [words_of(rng, codes_of_sequence) for codes_of_sequence in codes]
        if options["method"] == "fobos" and rng.integers(3) == 0:
            options |= {"regularizer": one_of(rng, ON_COORDINATES), "weighting": "norms"}
    else:
        X = [
            rng.normal(size=(len(codes_of_sequence), 6)) + codes_of_sequence[:, None]
            for codes_of_sequence in codes
        ]
        options["kernels"] = one_of(rng, KERNELS)
    if options["regularizer"] == "weighted":
        options["regularizer"] = "mkl"
    if options.get("kernels") == KERNELS[-1]:
        options["budget"] = Budget(dtype=one_of(rng, ["float32", "float64"]))
    share_known = one_of(rng, [0.6, 1.0, 1.0])
    y = [labels_of(rng, codes_of_sequence, share_known) for codes_of_sequence in codes]
    y[0] = [f"L{c}" for c in range(4)]  # streams declare all labels in their first block
    X[0] = X[0][:1] * 4 if isinstance(X[0], list) else X[0][[0] * 4]
    transitions = one_of(rng, ["free", "regularized", None])
    labeler = SequenceLabeler(loss=one_of(rng, LABEL_LOSSES), transitions=transitions, **options)
    return in_blocks(
        rng,
        labeler,
        X,
        y,
        weights_of(rng, len(X)),
        [f"L{c}" for c in range(4)],
    )


def any_configuration(rng):
    """Draw an estimator of rows or sequences."""
    return row_configuration(rng) if rng.integers(2) else sequence_configuration(rng)


def budget_configuration(rng):
    """Draw a labeler in epochs, or a classifier in blocks, which tests for drift, on a budget."""
    polynomial = one_of(
        rng, ["polynomial:explicit=False", "polynomial:explicit=False,normalize=diagonal,degree=3"]
    )
    options = {
        **shared_options(rng),
        "kernels": [one_of(rng, ["gaussian", "laplacian"]), polynomial, "linear"],
    }
    n_vectors = int(rng.integers(1, 60))
    options["loss"] = one_of(rng, LABEL_LOSSES)
    options["budget"] = Budget(n_vectors, dtype=one_of(rng, ["auto", "float32"]))
    if options["regularizer"] == "weighted":
        options["regularizer"] = "mkl"
    X = rng.normal(size=(N, 6))
    y = rng.integers(3, size=N)
    X[N // 2 :: 9] = X[0]  # vectors that the support has already
    if rng.integers(2):
        blocks = slice(0, N // 3), slice(N // 3, N // 3 + 1), slice(N // 3 + 1, N)
        model = OnlineMKLClassifier(**options)
        return Configuration(
            model, X, y, weights_of(rng, N), "partial_fit", blocks, {"classes": [0, 1, 2]}
        )
    ends = np.arange(3, N, 5)
    return Configuration(
        SequenceLabeler(**options), np.split(X, ends), np.split(y, ends), call="fit"
    )


def restart_configuration(rng):
    """Draw an estimator with useless kernels, which are left out after the first epoch."""
    useful = "gaussian:on=0:3"
    junk = [f"gaussian:on={low}:{low + 4}" for low in range(3, 23, 4)]
    options = shared_options(rng) | {"epochs": 3, "weighting": "out-of-sample", "C": 10.0}
    if one_of(rng, ["kernels", "features"]) == "features":
        useful = f"{useful},features=30"
        junk = [f"{kernel},features=10" for kernel in junk]
    if options["regularizer"] in (None, "weighted"):
        options["regularizer"] = "mkl"
    X = rng.normal(size=(500, 23))
    X[:, 0] = np.abs(X[:, 0])
    target = X[:, 0] - 0.8 + 0.5 * X[:, 2]
    if one_of(rng, ["classes", "numbers"]) == "numbers":
        model = OnlineMKLRegressor([useful, *junk], **options)
        return Configuration(model, X, target, weights_of(rng, 500), "fit")
    model = OnlineMKLClassifier(
        [useful, *junk],
        loss=one_of(rng, LABEL_LOSSES),
        **options,
    )
    return Configuration(model, X, target > 0.0, weights_of(rng, 500), "fit")


def drift_configuration(rng):
    """Draw a stream that changes in the middle; the averaged model then lags behind."""
    n, half = 1200, 600
    kernels = one_of(rng, [["linear"], ["linear", "gaussian:features=20"], ["linear", "gaussian"]])
    options = {
        "kernels": kernels,
        "average": one_of(rng, ["quadratic", "uniform", "recent", "auto"]),
        "regularizer": one_of(rng, ["mkl", "block1", "uniform", None]),
        "C": 10.0,
        "random_state": 0,
        "learning_rate": one_of(rng, ["auto", "mean-polyak"]),
    }
    options["weighting"] = one_of(rng, ["norms", "auto"]) if options["regularizer"] else "norms"
    if len(kernels) == 2 and kernels[1] == "gaussian":
        options["budget"] = 40
    X = rng.normal(size=(n, 4))
    score = X @ rng.normal(size=4)
    score[half:] *= -1.0
    bounds = [*range(0, n, 150), n]
    if one_of(rng, ["few", "many"]) == "few":
        bounds = [0, 100, 101, 800, n]
    blocks = tuple(slice(low, high) for low, high in pairwise(bounds))
    kind = one_of(rng, ["classes", "numbers", "sequences"])
    if kind == "numbers":
        return Configuration(OnlineMKLRegressor(**options), X, score, None, "partial_fit", blocks)
    y = (score > 0.0).astype(int)
    loss = one_of(rng, ["hinge", "crf"])
    call = one_of(rng, ["partial_fit", "stream"])
    if kind == "classes":
        model = OnlineMKLClassifier(loss=loss, epochs=1, **options)
        return Configuration(model, X, y, None, call, blocks, {"classes": [0, 1]})
    pairs = list(X.reshape(n // 2, 2, 4))
    labels_of_pairs = list(y.reshape(n // 2, 2))
    blocks = slice(0, 300), slice(300, 301), slice(301, n // 2)
    model = SequenceLabeler(loss=loss, epochs=1, **options)
    return Configuration(model, pairs, labels_of_pairs, None, call, blocks, {"classes": [0, 1]})


def growing_configuration(rng):
    """Draw blocks of words, with new words, new kinds of words and new labels in each."""
    options = {**shared_options(rng), "kernels": None}
    if options["regularizer"] == "weighted":
        options["regularizer"] = "mkl"
    has_numbers = bool(rng.integers(2))
    if not has_numbers and options["method"] == "fobos" and rng.integers(3) == 0:
        options |= {"regularizer": one_of(rng, ON_COORDINATES), "weighting": "norms"}
    blocks = tuple(slice(low, low + 40) for low in range(0, 200, 40))

    def row(number):
        words = {
            "a": f"w{rng.integers(2 + 3 * number)}",
            f"kind{rng.integers(1 + number)}": f"v{rng.integers(3)}",
        }
        return {**words, "size": float(rng.normal())} if has_numbers else words

    kind = one_of(rng, ["classes", "numbers", "sequences"])
    numbers = np.repeat(np.arange(5), 40).tolist()
    weights = weights_of(rng, 200)
    if weights is not None:
        weights[::40] = 1.0
    if kind == "sequences":
        lengths = rng.integers(1, 5, size=200).tolist()
        X = [[row(number) for _ in range(length)] for number, length in zip(numbers, lengths)]
        y = [
            rng.integers(2 + number, size=length).tolist()
            for number, length in zip(numbers, lengths)
        ]
        y[0] = [0, 1]
        X[0] = [row(0), row(0)]
        model = SequenceLabeler(loss=one_of(rng, LABEL_LOSSES), **options)
        return Configuration(model, X, y, weights, "partial_fit", blocks, {"classes": "growing"})
    X = [row(number) for number in numbers]
    if kind == "numbers":
        model = OnlineMKLRegressor(loss=one_of(rng, NUMBER_LOSSES), **options)
        return Configuration(model, X, rng.normal(size=200), weights, "partial_fit", blocks)
    y = np.array([rng.integers(2 + number) for number in numbers])
    y[:2] = [0, 1]
    model = OnlineMKLClassifier(loss=one_of(rng, LABEL_LOSSES), **options)
    return Configuration(model, X, y, weights, "partial_fit", blocks, {"classes": "growing"})


def single_configuration(rng):
    """Draw rows or sequences that are learned one at a time, after a first block."""
    kind = one_of(rng, ["any", "growing", "budget"])
    configuration = KINDS[kind](rng)
    while not configuration.blocks:
        configuration = KINDS[kind](rng)
    first_block = configuration.blocks[0]
    last = min(len(configuration.y), first_block.stop + 60)
    singles = [slice(i, i + 1) for i in range(first_block.stop, last - 1)]
    blocks = first_block, *singles
    weights = configuration.weights
    if weights is not None:
        weights = np.where(weights == 0.0, 0.3, weights)
    return configuration._replace(blocks=blocks, weights=weights, call="partial_fit")


def random_graph(rng, features, directed, edge_features, doubled):
    """Draw a graph with cycles, a forest, or a chain, with edge features if their kind is given."""
    n = len(features)
    kind = one_of(rng, ["cycles", "cycles", "forest", "chain"])
    if kind == "chain":
        edges = [(i, i + 1) for i in range(n - 1)]
    elif kind == "forest":
        edges = [(int(rng.integers(i)), i) for i in range(1, n) if rng.random() < 0.8]
    else:
        edges = [(i, j) for j in range(n) for i in range(j) if rng.random() < 0.6]
    if doubled and directed:
        edges += [edge[::-1] for edge in edges[:2]]  # parallel edges, which count as one
    features_of_edges = None
    if edge_features == "vectors":
        features_of_edges = rng.normal(size=(len(edges), 2))
    elif edge_features == "words":
        features_of_edges = [{"near": f"e{rng.integers(3)}"} for _ in edges]
    return Graph(features, edges, features_of_edges if edges else None, directed=directed)


def graph_configuration(rng):
    """Draw a labeler of graphs, some labels of which may be unknown."""
    options = shared_options(rng)
    if options["regularizer"] == "weighted":
        options["regularizer"] = "mkl"
    n_labels = int(rng.integers(2, 5))
    directed = bool(rng.integers(2))
    doubled = bool(rng.integers(2))
    edge_features = one_of(rng, [None, "vectors", "words"])
    edge_kernels = None
    if edge_features == "vectors":
        edge_kernels = one_of(rng, [["linear"], ["linear", "gaussian:features=6"]])
    share_known = one_of(rng, [0.6, 1.0, 1.0])
    X = []
    y = []
    for _ in range(N // 8):
        codes = rng.integers(n_labels, size=rng.integers(2, 7))
        features = rng.normal(size=(len(codes), 6)) + codes[:, None]
        X.append(random_graph(rng, features, directed, edge_features, doubled))
        y.append(labels_of(rng, codes, share_known))
    X[0] = Graph(
        rng.normal(size=(4, 6)),
        [(0, 1), (1, 2), (2, 0)],
        {None: None, "vectors": np.ones((3, 2)), "words": [{"near": "e0"}] * 3}[edge_features],
        directed=directed,
    )
    y[0] = [f"L{c % n_labels}" for c in range(4)]
    labeler = GraphLabeler(
        one_of(rng, KERNELS[:3]),
        loss=one_of(rng, LABEL_LOSSES),
        edges=Edges(
            edge_kernels,
            pairs=one_of(rng, [None, "equal", "potts"]),
            transitions=one_of(rng, ["free", "regularized", None]),
        ),
        **options,
    )
    labels = [f"L{c}" for c in range(n_labels)]
    return in_blocks(
        rng,
        labeler,
        X,
        y,
        weights_of(rng, len(X)),
        labels,
    )


#: The order of kinds is part of their seeds.
KINDS = {
    "any": any_configuration,
    "budget": budget_configuration,
    "drift": drift_configuration,
    "growing": growing_configuration,
    "restart": restart_configuration,
    "single": single_configuration,
    "graphs": graph_configuration,
}


def draw(kind, seed):
    """Draw a configuration of a kind."""
    return KINDS[kind](np.random.default_rng([list(KINDS).index(kind), seed]))


# ---- training ------------------------------------------------------------------------------------


def train(configuration, between=None, callbacks=None, **options):
    """Return a trained copy of the estimator.

    ``between(model)`` replaces it between the blocks of "partial_fit".
    """
    model = clone(configuration.model).set_params(callbacks=callbacks)
    X = configuration.X
    y = configuration.y
    blocks = configuration.blocks
    if configuration.call == "fit":
        return model.fit(X, y, sample_weight=configuration.weights, **options)
    if configuration.call == "stream":
        return model.fit(
            Stream(lambda epoch: ((X[block], y[block]) for block in blocks)), **options
        )
    for number in range(len(blocks)):
        if number and between is not None:
            model = between(model)
        configuration.learn_block(model, number)
    return model


def uncompiled(trainer):
    """Take the place of ``driver.uncompiled_part``, so that all rounds are those of the trainer."""
    return trainer


def alternating(rng):
    """Return a substitute of ``fastest_pass`` that changes the kind of rounds after a few."""

    def choose(trainer, examples, room=lambda: driver.AT_A_TIME, testing=False):
        if driver.fastest_pass(trainer, examples) is None:
            return None

        def learn(trainer, examples, orders, done):
            order = orders([len(examples)])[0]
            while done < len(order):
                part = order[done : done + rng.integers(1, 8)]
                done += len(part)
                if rng.integers(2):
                    own_orders = lambda sizes, part=part: [part]  # noqa: E731
                    yield from driver.compiled_pass(trainer, examples, own_orders, 0, room, testing)
                else:
                    for i in part.tolist():
                        yield trainer.update(*examples[i])

        return learn

    return choose


def alternate(monkeypatch, seed):
    """Let the training loop change between compiled and Python rounds."""
    monkeypatch.setattr(
        training_loop,
        "fastest_pass",
        alternating(np.random.default_rng(seed)),
    )


# ---- comparison ----------------------------------------------------------------------------------


def predictions(model, X):
    """Return the scores of the averaged model, or its predicted numbers."""
    if isinstance(model, (SequenceLabeler, GraphLabeler)):
        return np.concatenate(model.decision_function(X))
    return (
        model.decision_function(X) if isinstance(model, OnlineMKLClassifier) else model.predict(X)
    )


def assert_same_state(trainer, expected):
    """Compare all that two trainers have learned, bit by bit."""
    state = trainer.state()
    expected_state = expected.state()
    assert state.keys() == expected_state.keys()
    for name, array in expected_state.items():
        assert_array_equal(state[name], array, err_msg=name, strict=True)


def assert_same_model(model, expected, X):
    """Compare training states, records and predictions of two estimators, bit by bit."""
    assert_same_state(model.model_.trainer, expected.model_.trainer)
    for record, wanted in zip(model.history_, expected.history_, strict=True):
        assert {**record, "seconds": 0} == {**wanted, "seconds": 0}
    assert_array_equal(predictions(model, X), predictions(expected, X))
