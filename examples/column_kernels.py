"""
Which regularizer for kernels on single columns? Accuracy on twelve tables
==========================================================================

    python examples/column_kernels.py                              all tables, two hours
    python examples/column_kernels.py --tables sonar pima --splits 8 --json columns.json

``MKLClassifierCV`` and ``MKLRegressorCV`` learn one Gaussian kernel for each column from 80% of a table, at most 300
rows, with each regularizer, and are compared on the other rows with a support vector machine whose C and gamma are
chosen by five folds. "+ noise" adds as many columns of Gaussian noise as the table has. "helpful" first drops kernels
that do not help on held-out samples. Figures are accuracies, or :math:`R^2`, in percent, with the standard deviation
over splits. "default" kernels are those of ``kernels=None``.
"""

import argparse
import warnings

import numpy as np
from sklearn import datasets
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from omkl import MKLClassifierCV, MKLRegressorCV
from omkl.cli.console import table, write_json
from omkl.data import read_uci
from omkl.kernels import per_column

UCI = ("sonar", "ionosphere", "pima", "splice", "ringnorm", "twonorm", "waveform")
NUMBERS = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "friedman": lambda: datasets.make_friedman1(400, noise=1.0, random_state=0),
}
TABLES = (*UCI, "breast_cancer", "wine", "digits", *NUMBERS)
REGULARIZERS = {
    "elastic-net": {"regularizer": "elastic-net"},
    "block-q": {"regularizer": "block-q"},
    "uniform": {"regularizer": "uniform"},
    "mkl, helpful": {"regularizer": "mkl", "weighting": "out-of-sample"},
}
CS, GAMMAS = np.geomspace(0.1, 1000, 9), np.geomspace(0.01, 3, 6)


def read(name):
    if name in NUMBERS:
        return NUMBERS[name]()
    return read_uci(name) if name in UCI else getattr(datasets, f"load_{name}")(return_X_y=True)


def score(name, seed, noise, method, kernel):
    """Return the accuracy, or R^2, on one split, in percent."""
    X, y = read(name)
    if noise:
        X = np.hstack([X, np.random.default_rng(seed).normal(size=X.shape)])
    n = min(int(0.8 * len(y)), 300)
    X, Z, y, z = train_test_split(X, y, train_size=n, test_size=min(len(y) - n, 1000), random_state=seed)
    is_number = name in NUMBERS
    if method == "SVM":
        scale = y.std() if is_number else 1  # C is in the unit of y
        y, z = (y / scale, z / scale) if is_number else (y, z)
        machine = Pipeline([("scale", StandardScaler()), ("svm", SVR() if is_number else SVC())])
        model = GridSearchCV(machine, {"svm__C": CS, "svm__gamma": GAMMAS / X.shape[1]}, cv=5)
    else:
        form = MKLRegressorCV if is_number else MKLClassifierCV
        model = form(None if kernel == "default" else per_column(kernel, X), **REGULARIZERS[method])
    return 100 * model.fit(X, y).score(Z, z)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES, metavar="NAME")
    parser.add_argument("--splits", type=int, default=4, metavar="N")
    parser.add_argument("--methods", nargs="+", default=[*REGULARIZERS, "SVM"], metavar="NAME")
    parser.add_argument("--kernel", default="gaussian", help="kernel of every column, or 'default'")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, cells = [], []
    for noise in (False, True):
        for name in options.tables:
            cells.append([name + " + noise" * noise])
            for method in options.methods:
                scores = [score(name, seed, noise, method, options.kernel) for seed in range(options.splits)]
                rows.append({"table": name, "noise": noise, "method": method, "scores": scores})
                cells[-1].append(f"{np.mean(scores):.1f} ± {np.std(scores):.1f}")
            print(*cells[-1], sep="  ", flush=True)
    print("\n".join(table(cells, ("table", *options.methods))))
    write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
