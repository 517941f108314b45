"""2000 dense features an example: a bank of maps and one of sparse rows beside the floor; batch beside Gram matrices.

The floor of a round is one product of the (K, 2000) weights with the features of the example, by BLAS in the same run.
"""

import time

import numpy as np
import pytest
from scipy import sparse

from omkl import MKLClassifier, OnlineMKLClassifier
from omkl.groups import ExplicitBank, FeatureMapBank, Features, GroupState, Tokens
from omkl.kernels import as_kernel
from omkl.losses import CRF, StructuredHinge
from omkl.structures import Multiclass

N, COLUMNS, FEATURES = 1000, 50, 2000


def quickest(function, repeats=5):
    """CPU seconds when the machine disturbs it least."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return min(seconds)


@pytest.fixture(scope="module")
def kernel_and_inputs():
    X = np.random.default_rng(0).normal(size=(N, COLUMNS))
    return as_kernel(f"gaussian:features={FEATURES}").fit(X), X


def mapped(kernel, X, n_labels):
    tokens = Tokens(np.arange(N + 1), None, {"x": X})
    return FeatureMapBank(["g"], [kernel], ["x"], [FEATURES], n_labels, averaging=True), tokens


def sparse_rows(kernel, X, n_labels):
    rows = sparse.csr_array(kernel.features(X))
    tokens = Tokens(np.arange(N + 1), Features(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data))
    return ExplicitBank(["g"], np.zeros(FEATURES, dtype=np.int32), n_labels, averaging=True), tokens


@pytest.mark.parametrize("n_labels", [2, 10, 50])
@pytest.mark.parametrize("loss", [StructuredHinge(), CRF()], ids=["hinge", "crf"])
def test_potentials_and_step(benchmark, kernel_and_inputs, n_labels, loss):
    kernel, X = kernel_and_inputs
    features, weights, out = kernel.features(X), np.zeros((n_labels, FEATURES)), np.empty(n_labels)
    floor = quickest(lambda: [np.dot(weights, row, out) for row in features]) / N
    structure = Multiclass(n_labels)
    _, gradient = loss.value_and_gradient(structure, structure.zeros(1), 0)
    seconds = {}
    for make in (mapped, sparse_rows):
        bank, tokens = make(kernel, X, n_labels)
        group_state = GroupState([bank])
        group_state.rates[:], group_state.scales[:], group_state.averages[:] = 1e-6, 1.0, 1.0
        examples = [tokens.sequence(i) for i in range(N)]
        potentials = structure.zeros(1)

        def rounds(bank=bank, examples=examples, potentials=potentials):
            for x in examples:
                bank.add_potentials(x, potentials)
                bank.step(x, gradient)

        rounds()
        seconds[make] = quickest(rounds) / N
        if make is mapped:
            benchmark.pedantic(rounds, rounds=3)
    mapping = quickest(lambda: kernel.features(X)) / N
    print(
        f"\n{n_labels} labels, {type(loss).__name__}: potentials and step {seconds[mapped] * 1e6:.1f} us = "
        f"{seconds[mapped] / floor:.1f} x the product's {floor * 1e6:.1f} us; as sparse rows "
        f"{seconds[sparse_rows] * 1e6:.1f} us = {seconds[sparse_rows] / floor:.1f} x; computing the features "
        f"{mapping * 1e6:.1f} us"
    )


@pytest.mark.parametrize("kernels", [["gaussian:features=2000"], ["gaussian:features=500,map=nystrom"]], ids=str)
def test_a_stream_of_blocks(benchmark, kernels):
    """Examples a second through ``partial_fit``, everything counted, in blocks of 1000."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10000, COLUMNS))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + 2 * (X[:, 2] > 0)
    model = OnlineMKLClassifier(kernels, verbose=False).partial_fit(X[:1000], y[:1000], classes=range(4))

    def stream():
        for low in range(0, len(X), 1000):
            model.partial_fit(X[low : low + 1000], y[low : low + 1000])

    stream()
    benchmark.pedantic(stream, rounds=2)
    seconds = quickest(stream, 2)
    print(
        f"\n{kernels[0]}: {len(X) / seconds / 1e3:.1f} k examples/s; the model and a block's features take "
        f"{model.memory_usage()['training']:.1f} MB"
    )


@pytest.mark.parametrize("n_samples", [1000, 4000])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_batch_on_factors(benchmark, n_samples, loss):
    """Ten Gaussians, to a gap of 0.01: Gram matrices, and approximations as factors; building the kernels counts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n_samples, 6))
    y = np.sign(X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=len(X)))
    train, test = slice(0, n_samples), slice(n_samples, None)
    MKLClassifier(["gaussian", "gaussian:features=10"], loss=loss).fit(X[:300], y[:300])
    widths = np.geomspace(0.5, 30, 10).round(2)
    for settings in ("", f",features={n_samples // 16}", f",features={n_samples // 16},map=nystrom"):
        model = MKLClassifier(
            [f"gaussian:sigma2={width}{settings}" for width in widths], loss=loss, C=1.0, verbose=False
        )
        started = time.process_time()
        if settings.endswith("nystrom"):
            benchmark.pedantic(model.fit, (X[train], y[train]), rounds=1)
        else:
            model.fit(X[train], y[train])
        print(
            f"\n{n_samples} samples, {loss}{settings or ', Gram matrices'}: {time.process_time() - started:.2f} s, "
            f"accuracy {model.score(X[test], y[test]):.3f}, gap {model.dual_gap_:.1e}, {model.n_active_} active"
        )
