"""
Two families of online MKL on the same streams: one model of all kernels, and Hedge over a learner for each
===========================================================================================================

    python examples/online_opponents.py                      20,000 examples a stream, some minutes
    python examples/online_opponents.py --examples 4000      a look at the same

Three streams of vectors of twelve numbers, seen as groups of columns with a Gaussian kernel each (random Fourier
features, the same for all methods):

* drift: the stream of ``stream_mkl.py``: half-way the label begins to follow another vector;
* sum: the label depends on the lengths of all three vectors, so that no kernel alone can tell it;
* one of ten: the first vector tells the label, and nine other kernels see nothing but noise.

One label in twenty is wrong. Every method sees the examples in the same order, once, and is charged for its prediction
of each before it learns from it. What is to be chosen, one number a method, is chosen by the progressive error on the
first tenth of the stream; then the method starts from scratch on the rest, and the table is about that.

MKL learns its weights from examples before it learns from these, the default; by norms, they follow from the fit. OMKC:
Hoi et al. (2013), perceptrons that vote. Raker and AdaRaker: Shen et al. (2019), the hinge loss. Hedge: learners with
rates of their own, and AdaHedge over them. With ``--examples 4000``, in microseconds of a busy machine an example:

============  =====  =====  ==========  =========  ====  ==========
error         drift    sum  one of ten  us: drift   sum  one of ten
============  =====  =====  ==========  =========  ====  ==========
MKL           17.8%  22.3%       13.9%        198   187         347
MKL by norms  19.5%  20.9%       19.9%         53    47          67
Hedge         28.0%  32.3%       15.6%        277   252         726
OMKC          32.2%  40.8%       19.2%        270   238         786
Raker         28.9%  39.2%       15.6%        232   193         440
AdaRaker      22.2%  41.2%       21.1%       1097  1216        3039
============  =====  =====  ==========  =========  ====  ==========

No combination of separate learners is good at the sum, as their outputs are chosen among and not added up. On one of
ten, MKL by norms spends on the nine what says nothing. To learn weights so takes MKL several times as long on its first
thousands of examples, and less and less of its time from then on.
"""

import argparse
import time

import numpy as np

from omkl import OnlineMKLClassifier
from omkl.cli.common import table, write_json
from omkl.online import ProgressiveValidation

WRONG = 0.05
FEATURES = 100
#: The medians of the squared lengths of vectors of four and of twelve standard normal numbers.
MEDIANS = {4: 3.3567, 12: 11.3403}
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
#: The same of intervals, which are divided by the root of their lengths.
LONG_RATES = (0.3, 1.0, 3.0, 10.0, 30.0)
CONSTANT = {"schedule": "constant", "regularizer": None, "average": None}
PERCEPTRON = {**CONSTANT, "eta0": 1.0, "loss": "perceptron"}
#: A grid for each method: arguments beside the kernels.
METHODS = {
    **{
        name: [
            {"C": 100.0, "weighting": weighting, **rates}
            for rates in ({}, *({"eta0": rate, "schedule": "constant"} for rate in RATES))
        ]
        for name, weighting in (("MKL", "out-of-sample"), ("MKL by norms", "norms"))
    },
    "Hedge": [{"C": 100.0, "method": "hedge"}, *({**CONSTANT, "method": "hedge", "eta0": rate} for rate in RATES)],
    "OMKC": [{**PERCEPTRON, "method": f"omkc:rate={-np.log(beta)}"} for beta in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)],
    "Raker": [{**CONSTANT, "method": f"raker:rate={rate}", "eta0": rate} for rate in (0.003, *RATES)],
    "AdaRaker": [
        {**CONSTANT, "method": f"adaraker:rate={rate},restarts=64", "eta0": rate} for rate in LONG_RATES
    ],
}  # fmt: skip


def lengths_of(X):
    """Squared lengths of the first three vectors of four numbers, (n, 3)."""
    return np.square(X[:, :12].reshape(len(X), 3, 4)).sum(axis=2)


def drift(X):
    """Which labels are 1: those of long vectors, of the first one in the first half, then of the second."""
    telling = (np.arange(len(X)) >= len(X) // 2).astype(np.int64)
    return lengths_of(X)[np.arange(len(X)), telling] > MEDIANS[4]


def total(X):
    """Which labels are 1: those of three vectors that are long together."""
    return lengths_of(X).sum(axis=1) > MEDIANS[12]


def first(X):
    """Which labels are 1: those of a long first vector."""
    return lengths_of(X)[:, 0] > MEDIANS[4]


#: The rule of the labels, and the number of vectors.
STREAMS = {"drift": (drift, 3), "sum": (total, 3), "one of ten": (first, 10)}


def make_stream(name, n_examples, seed):
    """Inputs, labels and kernels of a stream."""
    rule, n_vectors = STREAMS[name]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_examples, 4 * n_vectors))
    y = (rule(X) ^ (rng.random(n_examples) < WRONG)).astype(np.int64)
    names = range(n_vectors)
    return X, y, {f"vector {v + 1}": f"gaussian:sigma2=4,features={FEATURES},on={4 * v}:{4 * v + 4}" for v in names}


def progressive_error(X, y, kernels, settings):
    """The share of labels that a model gets wrong before it learns them."""
    meter = ProgressiveValidation(every=len(y))
    OnlineMKLClassifier(kernels, callbacks=[meter], **settings).partial_fit(X, y, classes=[0, 1])
    return meter.records[-1]["error"]


def compare(name, n_examples, seed=0):
    """What the methods come to on a stream: a record each."""
    X, y, kernels = make_stream(name, n_examples, seed)
    n_tuning, records = n_examples // 10, []
    for method, grid in METHODS.items():
        errors = [progressive_error(X[:n_tuning], y[:n_tuning], kernels, settings) for settings in grid]
        chosen = grid[int(np.argmin(errors))]
        start = time.process_time()
        error = progressive_error(X[n_tuning:], y[n_tuning:], kernels, chosen)
        seconds = time.process_time() - start
        settings = {key: value for key, value in chosen.items() if key in ("eta0", "method", "schedule", "weighting")}
        records.append({"stream": name, "method": method, "error": error, "seconds": seconds, "settings": settings})
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--streams", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    parser.add_argument("--json", metavar="FILE", default="online_opponents.json")
    arguments = parser.parse_args()
    records = [record for name in arguments.streams for record in compare(name, arguments.examples)]
    cells = {(r["method"], r["stream"]): r for r in records}
    microseconds = 1e6 / (arguments.examples - arguments.examples // 10)
    rows = [
        (method, *(f"{cells[method, name]['error']:.1%}" for name in arguments.streams),
         *(f"{cells[method, name]['seconds'] * microseconds:.0f}" for name in arguments.streams))
        for method in METHODS
    ]  # fmt: skip
    heads = [*arguments.streams, *(f"{name}, us" for name in arguments.streams)]
    print("\n".join(table(rows, ("progressive error", *heads))))
    print("us: microseconds of the processor an example, decoding and learning. The best possible error is 5%.")
    write_json(arguments.json, {"examples": arguments.examples, "records": records})
    print(f"Wrote {arguments.json}.")


if __name__ == "__main__":
    main()
