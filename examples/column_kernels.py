"""
Which regularizer for kernels on single columns? Accuracy on twelve tables
==========================================================================

    python examples/column_kernels.py  all tables, two hours
    python examples/column_kernels.py --tables sonar pima --splits 8 --json columns.json
    python examples/column_kernels.py --plain --tables pima --methods elastic-net pyGAM EBM

``MKLClassifierCV`` and ``MKLRegressorCV`` learn one Gaussian kernel for each column from 80% of a
table, at most 300 rows, with each regularizer, and are compared on the other rows with a support
vector machine whose C and gamma are chosen by five folds. "+ noise" adds as many columns of
Gaussian noise as the table has. "helpful" first drops kernels that do not help on held-out samples.
Figures are accuracies, or :math:`R^2`, in percent, with the standard deviation over splits, and
seconds of CPU for one fit, with the choice of C. "default" kernels are those of ``kernels=None``.

Two methods of other packages have their default parameters: "pyGAM" (``pip install pygam``), a sum
of splines of the columns with a fixed penalty, for two classes or numbers, and "EBM" (``pip install
interpret-core``), an explainable boosting machine, a sum of step functions of columns and of pairs
of columns.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from omkl import MKLClassifierCV, MKLRegressorCV
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import read_uci
from omkl.exceptions import MissingDependencyError
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
PEERS = {"pyGAM": "pygam", "EBM": "interpret-core"}
CS = np.geomspace(0.1, 1000, 9)
GAMMAS = np.geomspace(0.01, 3, 6)


def read(name):
    if name in NUMBERS:
        return NUMBERS[name]()
    if name in UCI:
        return read_uci(name)
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def learner(method, kernel, X, is_number):
    """Return a function that returns a model trained on given X and y."""
    if method == "SVM":
        svm = SVR() if is_number else SVC()
        machine = Pipeline([("scale", StandardScaler()), ("svm", svm)])
        return GridSearchCV(machine, {"svm__C": CS, "svm__gamma": GAMMAS / X.shape[1]}, cv=5).fit
    if method in PEERS:
        try:
            if method == "EBM":
                from interpret import glassbox

                if is_number:
                    return glassbox.ExplainableBoostingRegressor(n_jobs=1).fit
                return glassbox.ExplainableBoostingClassifier(n_jobs=1).fit
            import pygam
        except ImportError:
            raise MissingDependencyError(
                f"{method} needs another package: pip install {PEERS[method]}."
            ) from None
        if is_number:
            return pygam.LinearGAM().fit
        return pygam.LogisticGAM().fit
    kernels = None
    if kernel != "default":
        kernels = per_column(kernel, X)
    estimator = MKLRegressorCV if is_number else MKLClassifierCV
    return estimator(kernels, **REGULARIZERS[method]).fit


def score(name, seed, noise, method, kernel):
    """Return the accuracy, or R^2, on one split, in percent, and the seconds of CPU of training."""
    X, y = read(name)
    is_number = name in NUMBERS
    if not is_number:
        _, y = np.unique(y, return_inverse=True)
    if noise:
        X = np.hstack([X, np.random.default_rng(seed).normal(size=X.shape)])
    n = min(int(0.8 * len(y)), 300)
    X, Z, y, z = train_test_split(
        X, y, train_size=n, test_size=min(len(y) - n, 1000), random_state=seed
    )
    if is_number:
        # C of a support vector machine is in the unit of y
        unit = y.std()
        y = y / unit
        z = z / unit
    started = time.process_time()
    model = learner(method, kernel, X, is_number)(X, y)
    seconds = time.process_time() - started
    measure = r2_score if is_number else accuracy_score
    return 100 * measure(z, model.predict(Z)), seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES, metavar="NAME")
    parser.add_argument("--splits", type=int, default=4, metavar="N")
    methods = [*REGULARIZERS, "SVM"]
    parser.add_argument(
        "--methods", nargs="+", default=methods, choices=[*methods, *PEERS], metavar="NAME"
    )
    parser.add_argument("--plain", action="store_true", help="leave out the tables with noise")
    parser.add_argument("--kernel", default="gaussian", help="kernel of every column, or 'default'")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    prepare_output(options.json)
    warnings.simplefilter("ignore")
    score("wine", 0, False, "elastic-net", "gaussian")  # compiles functions
    rows = []
    cells = []
    noises = [False] if options.plain else [False, True]
    for noise in noises:
        for name in options.tables:
            cells.append([name + " + noise" * noise])
            for method in options.methods:
                scores = []
                seconds = []
                for seed in range(options.splits):
                    accuracy, duration = score(name, seed, noise, method, options.kernel)
                    scores.append(accuracy)
                    seconds.append(duration)
                rows.append(
                    {
                        "table": name,
                        "noise": noise,
                        "method": method,
                        "scores": scores,
                        "seconds": seconds,
                    }
                )
                cells[-1].append(
                    f"{np.mean(scores):.1f} ± {np.std(scores):.1f} ({np.mean(seconds):.2g} s)"
                )
            print(*cells[-1], sep="  ", flush=True)
    print("\n".join(table(cells, ("table", *options.methods))))
    write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
