"""
Three kernels on pixels, with and without eight uninformative kernels
=====================================================================

    python examples/useless_kernels.py               folds 0 to 2
    python examples/useless_kernels.py --folds 0     one fold, about a minute

Protocol: train on one fold, test on the next two, accuracy per character, parameters at their
defaults. The useless kernels are Gaussians, each on 128 random bits a letter of which 30% are set.
Shown are the accuracy without and with them, the weight that the three kernels have when the eight
are there, and the CPU seconds of training. By norms, all kernels stay that the regularizer keeps;
out of sample, kernels are left out that do not help on words not yet learned from. Means of folds 0
to 2, one core of a shared machine, the two weightings in turn:

=============  =======  ==================  ===================  =============  ====
weighting      without  with eight useless  weight of the three  CPU s without  with
=============  =======  ==================  ===================  =============  ====
norms            88.01               84.86               56.34%            2.9  12.6
out-of-sample    88.01               87.87              100.00%            3.2  10.0
=============  =======  ==================  ===================  =============  ====

Writes ``useless_kernels.json`` to the folder ``-o`` (``omkl-output`` by default).
"""

import argparse
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from omkl import SequenceLabeler
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import read_ocr

WEIGHTINGS = ("norms", "out-of-sample")
KERNELS = ("linear", "quadratic", "gaussian")
N_PIXELS = 128
N_USELESS = 8


def with_random_bits(words, seed):
    """Add random bits for every uninformative kernel to the pixels of the words."""
    rng = np.random.default_rng(seed)
    images = []
    for word in words:
        bits = rng.random((len(word), N_USELESS * N_PIXELS)) < 0.3
        images.append(np.hstack([word, bits]).astype(np.int8))
    return images


def blocks(first, last):
    return [f"{low * N_PIXELS}:{(low + 1) * N_PIXELS}" for low in range(first, last)]


def run(words, fold, weighting):
    """Return two accuracies, the weight of the three useful kernels, and two CPU times.

    The first of two is without the uninformative kernels, the second with them.
    """
    train = words.of_folds(fold)
    test = words.of_folds([(fold + 1) % 10, (fold + 2) % 10])
    useful = [f"{kernel}:on={blocks(0, 1)[0]}" for kernel in KERNELS]
    useless = [f"gaussian:on={block}" for block in blocks(1, 1 + N_USELESS)]
    models = []
    seconds = []
    for kernels in (useful, useful + useless):
        model = SequenceLabeler(kernels, weighting=weighting, C="auto", epochs=20, random_state=0)
        start = time.process_time()
        models.append(model.fit(*train))
        seconds.append(time.process_time() - start)
    accuracies = [model.score(*test) for model in models]
    weight_of_useful = sum(models[1].kernel_weights_[name] for name in useful)
    return *accuracies, weight_of_useful, *seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("-o", "--output", default="omkl-output", metavar="DIR")
    arguments = parser.parse_args()
    prepare_output(Path(arguments.output) / "useless_kernels.json")
    words = read_ocr()
    for weighting in WEIGHTINGS:
        # the first model pays for loading what is compiled
        model = SequenceLabeler(["linear", "gaussian"], weighting=weighting)
        model.fit(words.images[:20], words.letters[:20])
    words = replace(words, images=with_random_bits(words.images, seed=0))
    cases = product(arguments.folds, WEIGHTINGS)
    results = np.array([run(words, *case) for case in cases])
    results = results.reshape(len(arguments.folds), len(WEIGHTINGS), -1)
    rows = []
    for name, means in zip(WEIGHTINGS, results.mean(axis=0)):
        percent = map("{:.2f}".format, 100 * means[:3])
        rows.append([name, *percent, *map("{:.1f}".format, means[3:])])
    heads = [
        "weighting",
        "without",
        "with eight useless",
        "weight of the three",
        "CPU s without",
        "with",
    ]
    print(*table(rows, heads), sep="\n")
    records = []
    for name, of_weighting in zip(WEIGHTINGS, results.swapaxes(0, 1).tolist()):
        records.append({"weighting": name, "folds": arguments.folds, "results": of_weighting})
    output = Path(arguments.output)
    write_json(output / "useless_kernels.json", {"rows": records})


if __name__ == "__main__":
    main()
