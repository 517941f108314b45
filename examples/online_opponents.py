"""
Online MKL against combinations of separate learners
====================================================

    python examples/online_opponents.py                      20,000 examples a stream, some minutes
    python examples/online_opponents.py --examples 4000      the same in less time

Three streams of vectors of four numbers each. Every vector has a Gaussian kernel of its own, by
random Fourier features that all methods share:

* drift: half-way, the label begins to follow another vector;
* sum: the label depends on the lengths of all three vectors together;
* one of ten: the label depends on the first vector, and nine vectors are noise.

One label in twenty is wrong. Each method predicts the label of an example before it learns from it.
Its one parameter is chosen on the first tenth of the stream; the error is measured on the rest.

MKL learns one model of all kernels: with weights learned out of sample (the default), or from
norms. The others learn a model for each kernel, and combine their predictions:

* Hedge: the hinge loss, weights by AdaHedge (de Rooij et al. 2014);
* OMKC: perceptrons that vote (Hoi et al. 2013, deterministic updates and combination);
* Raker, AdaRaker: the hinge loss, weights by Hedge at a fixed rate (Shen et al. 2019, Algorithms 1
  and 3).

With ``--examples 4000``:

============  =====  =====  ==========
error         drift    sum  one of ten
============  =====  =====  ==========
MKL           17.8%  22.3%       13.9%
MKL by norms  19.5%  20.9%       19.9%
Hedge         28.0%  32.3%       15.6%
OMKC          32.2%  40.8%       19.2%
Raker         28.9%  39.2%       15.6%
AdaRaker      22.2%  41.2%       21.1%
============  =====  =====  ==========

A combination chooses among predictions and cannot add them up, so it does badly on the sum.
"""

import argparse
from functools import partial

import numpy as np

from omkl import OnlineMKLClassifier
from omkl.cli.console import prepare_output, table, write_json
from omkl.kernels import as_kernel
from omkl.online import Constant, ProgressiveValidation

WRONG = 0.05
FEATURES = 100
#: The medians of the squared lengths of vectors of four and of twelve standard normal numbers.
MEDIANS = {4: 3.3567, 12: 11.3403}
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
#: Rounds of the shortest interval of AdaRaker.
SHORTEST = 64


class Hedge:
    """Weights of p learners from their losses; ``rate=None`` is AdaHedge, which sets its rate."""

    def __init__(self, p, rate=None):
        self.losses = np.zeros(p)
        self.rate = rate
        self.gap = 0.0

    def weights(self):
        behind = self.losses - self.losses.min()
        rate = self.rate
        if rate is None:
            rate = np.log(len(behind)) / max(self.gap, 1e-12)
        weights = np.exp(-rate * behind)
        return weights / weights.sum()

    def observe(self, losses):
        if self.rate is None:
            weights = self.weights()
            rate = np.log(len(losses)) / max(self.gap, 1e-12)
            least = losses[weights > 0].min()
            mix_loss = (
                least - np.log(weights @ np.exp(-rate * np.maximum(losses - least, 0.0))) / rate
            )
            self.gap += max(weights @ losses - mix_loss, 0.0)
        self.losses = self.losses + losses


class Learners:
    """A linear model for each kernel, by gradient descent on the hinge loss, combined by Hedge."""

    def __init__(self, shape, eta, hedge_rate=None):
        self.coefficients = np.zeros(shape)
        self.eta = eta
        self.hedge = Hedge(shape[0], hedge_rate)

    def predict(self, z):
        self.outputs = np.einsum("kd,kd->k", self.coefficients, z)
        return self.hedge.weights() @ self.outputs

    def learn(self, z, y):
        losses = np.maximum(1.0 - y * self.outputs, 0.0)
        self.coefficients[losses > 0] += self.eta * y * z[losses > 0]
        self.hedge.observe(losses)


class Perceptrons(Learners):
    """OMKC: perceptrons that vote; a mistake multiplies the weight of a learner by beta."""

    def __init__(self, shape, beta):
        super().__init__(shape, 1.0, -np.log(beta))

    def predict(self, z):
        super().predict(z)
        self.votes = np.where(self.outputs > 0, 1.0, -1.0)
        return self.hedge.weights() @ self.votes

    def learn(self, z, y):
        wrong = self.votes != y
        self.coefficients[wrong] += y * z[wrong]
        self.hedge.observe(wrong.astype(float))


class AdaRaker:
    """A Raker for every interval of 64 * 2^j rounds, weighted by its loss against that of the
    combination.
    """

    def __init__(self, shape, eta):
        self.shape = shape
        self.eta = eta
        self.round = 0
        self.experts = []
        self.logs = []

    def rate(self, level):
        return min(0.5, self.eta / np.sqrt(SHORTEST * 2**level))

    def begin(self):
        """Start the experts whose intervals begin with this round."""
        ticks, rest = divmod(self.round, SHORTEST)
        level = 0
        while rest == 0 and (ticks + 1) % 2**level == 0 and (ticks or not self.experts):
            expert = Learners(self.shape, self.rate(level), self.rate(level))
            # replaces the expert of the level, if there is one
            self.experts[level : level + 1] = [expert]
            self.logs[level : level + 1] = [np.log(self.rate(level))]
            level += 1
        self.round += 1

    def predict(self, z):
        self.begin()
        self.outputs = np.array([expert.predict(z) for expert in self.experts])
        weights = np.exp(np.array(self.logs) - max(self.logs))
        self.output = weights @ self.outputs / weights.sum()
        return self.output

    def learn(self, z, y):
        regrets = np.maximum(1.0 - y * self.outputs, 0.0) - max(1.0 - y * self.output, 0.0)
        for level, expert in enumerate(self.experts):
            self.logs[level] -= self.rate(level) * regrets[level]
            expert.learn(z, y)


#: Makes a learner of each method from the shape of the features and a parameter; the values of the
#: parameter to try.
OPPONENTS = {
    "Hedge": (Learners, RATES),
    "OMKC": (Perceptrons, (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)),
    "Raker": (lambda shape, eta: Learners(shape, eta, eta), (0.003, *RATES)),
    "AdaRaker": (AdaRaker, (0.3, 1.0, 3.0, 10.0, 30.0)),
}
WEIGHTINGS = {"MKL": "out-of-sample", "MKL by norms": "norms"}
SETTINGS = [{}, *({"learning_rate": Constant(rate)} for rate in RATES)]


def lengths_of(X):
    """Squared lengths of the first three vectors of four numbers, (n, 3)."""
    return np.square(X[:, :12].reshape(len(X), 3, 4)).sum(axis=2)


def drift(X):
    """Label 1 where the first vector is long; in the second half of the stream, the second."""
    telling = (np.arange(len(X)) >= len(X) // 2).astype(np.int64)
    return lengths_of(X)[np.arange(len(X)), telling] > MEDIANS[4]


def total(X):
    """Label 1 where three vectors are long together."""
    return lengths_of(X).sum(axis=1) > MEDIANS[12]


def first(X):
    """Label 1 where the first vector is long."""
    return lengths_of(X)[:, 0] > MEDIANS[4]


#: The rule of the labels, and the number of vectors.
STREAMS = {"drift": (drift, 3), "sum": (total, 3), "one of ten": (first, 10)}


def make_stream(name, n_examples, seed):
    """Inputs, labels and kernels of a stream."""
    rule, n_vectors = STREAMS[name]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_examples, 4 * n_vectors))
    y = (rule(X) ^ (rng.random(n_examples) < WRONG)).astype(np.int64)
    kernels = {}
    for v in range(n_vectors):
        columns = f"{4 * v}:{4 * v + 4}"
        kernels[f"vector {v + 1}"] = f"gaussian:sigma2=4,features={FEATURES},on={columns}"
    return X, y, kernels


def features_of(X, kernels):
    """Features of every kernel and a constant, (n, p, d + 1)."""
    stacked = []
    for spec, view in zip(kernels.values(), np.split(X, len(kernels), axis=1)):
        features = as_kernel(spec.partition(",on=")[0]).fit(view).features(view)
        stacked.append(np.column_stack([features, np.ones(len(X))]))
    return np.stack(stacked, axis=1)


def error_of_mkl(X, y, kernels, settings):
    """Share of labels that online MKL gets wrong before it learns from them."""
    meter = ProgressiveValidation(every=len(y))
    OnlineMKLClassifier(kernels, C=100.0, callbacks=[meter], **settings).partial_fit(
        X, y, classes=[0, 1]
    )
    return meter.records[-1]["error"]


def error_of_learner(learner, features, signs):
    """Share of labels that a combination gets wrong before it learns from them."""
    n_wrong = 0
    for z, sign in zip(features, signs):
        n_wrong += (learner.predict(z) > 0) != (sign > 0)
        learner.learn(z, sign)
    return float(n_wrong / len(signs))


def compare(name, n_examples, seed=0):
    """Records of the errors of all methods on a stream."""
    X, y, kernels = make_stream(name, n_examples, seed)
    features = features_of(X, kernels)
    signs = 2.0 * y - 1.0
    tuning = slice(0, n_examples // 10)
    rest = slice(n_examples // 10, None)

    def mkl_error(part, settings):
        return error_of_mkl(X[part], y[part], kernels, settings)

    def learner_error(part, make, value):
        return error_of_learner(make(features.shape[1:], value), features[part], signs[part])

    measures = {}
    for method, weighting in WEIGHTINGS.items():
        grid = [{"weighting": weighting, **settings} for settings in SETTINGS]
        measures[method] = [partial(mkl_error, settings=settings) for settings in grid]
    for method, (make, values) in OPPONENTS.items():
        measures[method] = [partial(learner_error, make=make, value=value) for value in values]
    records = []
    for method, errors in measures.items():
        best = min(errors, key=lambda measure: measure(tuning))
        records.append({"stream": name, "method": method, "error": best(rest)})
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n")[0])
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--streams", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    parser.add_argument("--json", metavar="FILE", default="online_opponents.json")
    arguments = parser.parse_args()
    prepare_output(arguments.json)
    records = []
    for name in arguments.streams:
        records += compare(name, arguments.examples)
    error = {(r["method"], r["stream"]): f"{r['error']:.1%}" for r in records}
    rows = [
        (method, *(error[method, name] for name in arguments.streams))
        for method in (*WEIGHTINGS, *OPPONENTS)
    ]
    print("\n".join(table(rows, ("progressive error", *arguments.streams))))
    print("The best possible error is 5%.")
    write_json(arguments.json, {"examples": arguments.examples, "records": records})
    print(f"Wrote {arguments.json}.")


if __name__ == "__main__":
    main()
