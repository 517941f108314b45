"""Handwritten words read with three kernels on the pixels, and with eight useless ones on random bits beside them.

    python examples/useless_kernels.py               folds 0 to 2
    python examples/useless_kernels.py --folds 0     one fold, about two minutes

Protocol: train on one fold, test on the next two, accuracy per character, parameters at their defaults. The useless
kernels are Gaussians, each on 128 random bits a letter of which 30% are set. Shown are the accuracy without and with
them, and the weight that the three kernels have when the eight are there, for weights that follow from norms and for
weights learned out of sample.

Writes ``useless_kernels.json`` to the folder ``-o`` (``omkl-output`` by default).
"""

import argparse
from pathlib import Path

import numpy as np

from omkl import SequenceLabeler
from omkl.cli.common import table, write_json
from omkl.data import read_ocr

KERNELS = ("linear", "quadratic", "gaussian")
N_PIXELS, N_USELESS = 128, 8


def with_random_bits(words, seed):
    """The words' images, with random bits for every useless kernel beside the pixels."""
    rng = np.random.default_rng(seed)
    return [np.hstack([w, rng.random((len(w), N_USELESS * N_PIXELS)) < 0.3]).astype(np.int8) for w in words]


def blocks(first, last):
    return [f"{low * N_PIXELS}:{(low + 1) * N_PIXELS}" for low in range(first, last)]


def run(words, images, fold, weighting):
    """``(accuracy without, accuracy with, weight of the three with)`` the useless kernels."""
    train, test = words.folds == fold, np.isin(words.folds, [(fold + 1) % 10, (fold + 2) % 10])
    X, y, X_test, y_test = (
        [part[i] for i in np.flatnonzero(chosen)] for chosen in (train, test) for part in (images, words.letters)
    )
    useful = [f"{kernel}:on={blocks(0, 1)[0]}" for kernel in KERNELS]
    useless = [f"gaussian:on={block}" for block in blocks(1, 1 + N_USELESS)]
    without = SequenceLabeler(useful, weighting=weighting, random_state=0).fit(X, y)
    beside = SequenceLabeler(useful + useless, weighting=weighting, random_state=0).fit(X, y)
    weight = sum(beside.kernel_weights_[name] for name in useful)
    return without.score(X_test, y_test), beside.score(X_test, y_test), weight


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--output", default="omkl-output", metavar="DIR")
    arguments = parser.parse_args()
    words = read_ocr()
    images = with_random_bits(words.images, seed=0)
    rows, records = [], []
    for weighting in ("norms", "out-of-sample"):
        results = np.array([run(words, images, fold, weighting) for fold in arguments.folds])
        rows.append([weighting, *(f"{100 * value:.2f}" for value in results.mean(axis=0))])
        records.append({"weighting": weighting, "folds": arguments.folds, "results": results.tolist()})
    print(*table(rows, ["weighting", "without", "with eight useless", "weight of the three"]), sep="\n")
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / "useless_kernels.json", {"rows": records})


if __name__ == "__main__":
    main()
