"""One OCR fold: Gram matrices, 20 epochs of MKL over three kernels, prediction, memory; floors and peers beside."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.svm import SVC

from omkl import SequenceLabeler
from omkl.kernels import as_kernel
from omkl.kernels.gram import dense_grams

KERNELS = ["linear", "quadratic", "gaussian:sigma2=5"]


def cpu(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


@pytest.fixture(scope="module")
def fold(ocr):
    return ocr.of_folds(1), ocr.of_folds([f for f in range(10) if f != 1])


class GradientCounter:
    """Counts the pairs (token, label) that moved: each is one Gram row read a kernel."""

    moved = 0

    def on_start(self, trainer, source):
        original = trainer.loss.value_and_gradient

        def counted(structure, potentials, gold):
            value, gradient = original(structure, potentials, gold)
            if gradient is not None:
                self.moved += int(np.count_nonzero(gradient.unary))
            return value, gradient

        trainer.loss.value_and_gradient = counted

    def __call__(self, trainer, record):
        return False


def test_gram_matrices(benchmark, fold):
    """The floor: one product of all pairs, and writing the matrices."""
    (images, _), _ = fold
    X = np.concatenate(images)
    kernels = [as_kernel(spec).fit(X) for spec in KERNELS[1:]]
    seconds, _ = cpu(benchmark.pedantic, dense_grams, (kernels, [X, X]))
    X32 = X.astype(np.float32)
    product, _ = cpu(lambda: X32 @ X32.T)
    written, _ = cpu(lambda: np.ones((2, len(X), len(X)), np.float32))
    print(f"\nGram matrices of 2 kernels, {len(X)} characters: {seconds:.2f} s CPU; product {product:.2f} s, writing "
          f"{written:.2f} s: {seconds / (product + written):.1f} x that floor")  # fmt: skip


def test_training(benchmark, fold):
    """The floor: every Gram row that a moved coefficient needs, read and added at the speed of a plain axpy."""
    (images, letters), _ = fold
    SequenceLabeler(KERNELS, epochs=1, verbose=False).fit(images[:20], letters[:20])
    counter = GradientCounter()
    SequenceLabeler(KERNELS, random_state=0, verbose=False, callbacks=[counter]).fit(images, letters)
    n = sum(map(len, images))
    stack, target = np.ones((500, n), np.float32), np.zeros((26, n), np.float32)

    def axpys():
        for i in range(500):
            target[i % 26] += np.float32(0.5) * stack[i]

    axpy = min(cpu(axpys)[0] for _ in range(5)) / 500
    times = []

    def run():
        seconds, labeler = cpu(SequenceLabeler(KERNELS, random_state=0, verbose=False).fit, images, letters)
        times.append((seconds, sum(record["seconds"] for record in labeler.history_)))

    benchmark.pedantic(run, rounds=5)
    total, passes = min(times)
    floor = counter.moved * 2 * axpy
    print(f"\nMKL of three kernels, {n} characters, 20 epochs: {passes:.2f} s of passes, {total:.2f} s CPU with "
          f"encoding and Gram matrices; {counter.moved} moved coefficients x 2 kernels at {axpy * 1e6:.1f} us an axpy: "
          f"floor {floor:.2f} s, {passes / floor:.1f} x it")  # fmt: skip


def test_prediction(benchmark, fold):
    """The floor: inner products with the support, and two products with the coefficients, by BLAS."""
    (images, letters), (test_images, test_letters) = fold
    labeler = SequenceLabeler(KERNELS, random_state=0, verbose=False).fit(images, letters)
    labeler.predict(test_images[:100])
    seconds = []
    benchmark.pedantic(lambda: seconds.append(cpu(labeler.predict, test_images)[0]), rounds=3)
    X = np.concatenate(test_images).astype(np.float32)
    bank = next(b for b in labeler.predictor_.banks if hasattr(b, "_coefficients"))
    support, coefficients = bank._supports["x"], bank._coefficients

    def floor():
        for low in range(0, len(X), 128):
            products = X[low : low + 128] @ support.T
            for A in coefficients:
                products @ A

    least = min(cpu(floor)[0] for _ in range(3))
    rate = len(X) / min(seconds)
    machine = SVC(C=10, gamma=0.1).fit(np.concatenate(images), np.concatenate(letters))
    peer, _ = cpu(machine.predict, X[:2000].astype(np.float64))
    print(f"\nprediction: {rate / 1e3:.1f} k characters/s on {len(support)} support vectors; "
          f"{min(seconds) / least:.1f} x the BLAS floor; scikit-learn's SVC {2 / peer:.2f} k/s: "
          f"{rate * peer / 2000:.0f} x as fast; accuracy {labeler.score(test_images, test_letters):.2%}")  # fmt: skip


MEMORY = """
import json, re, omkl, omkl.data
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e3
X, y = omkl.data.read_ocr().of_folds(1)
before = peak()
labeler = omkl.SequenceLabeler({kernels!r}, random_state=0, verbose=False).fit(X, y)
print(json.dumps([before, peak(), labeler.memory_usage()]))
"""


def test_peak_memory(benchmark, fold):
    command = [sys.executable, "-c", MEMORY.format(kernels=KERNELS)]
    answer = benchmark.pedantic(
        lambda: subprocess.run(command, capture_output=True, check=True, text=True, env=os.environ).stdout, rounds=1
    )
    before, peak, usage = json.loads(answer)
    print(f"\npeak memory of the process: {peak:.0f} MB ({before:.0f} MB before training: interpreter, libraries, all "
          f"images); the model itself: {usage}")  # fmt: skip
