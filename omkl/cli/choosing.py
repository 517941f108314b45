"""``--C auto``: the weight of the losses whose models are best on data that they have not learned from."""

import warnings
from argparse import Namespace
from typing import Any

import numpy as np

from omkl.cli.common import table
from omkl.exceptions import DataWarning, InputError

#: Multiples of an estimator's default that are tried, and parts of the data where there is no other.
FACTORS, N_FOLDS = (0.01, 0.1, 1.0, 10.0, 100.0), 3


def choose_strength(
    model: Any, X: Any, y: Any, dev: tuple | None, arguments: Namespace
) -> tuple[list[str], dict[str, Any]]:
    """Set the ``C`` of an untrained model, if that was asked for.

    Parameters
    ----------
    model : estimator
        With its default of C; others around it are tried.
    X, y
        What it is to be trained on; y may be None.
    dev : (X, y) or None
        What models are compared on; three parts of the training data, each by a model of the others, where it is None.
    arguments : Namespace

    Returns
    -------
    lines, metrics
        What was found, for people and for programs; nothing if it was not asked for.

    Raises
    ------
    omkl.exceptions.InputError
        If there are too few examples.
    """
    if arguments.C != "auto":
        return [], {}
    from sklearn.base import clone

    candidates, scores = [model.C * factor for factor in FACTORS], []
    for C in candidates:
        found = []
        for train, test in [((X, y), dev)] if dev is not None else _folds(X, y, arguments.random_state):
            own = clone(model).set_params(C=C, callbacks=None, verbose=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # training on all tells as much
                found.append(own.fit(*_given(*train)).score(*_given(*test)))
        scores.append(float(np.mean(found)))
    best = candidates[int(np.argmax(scores))]
    model.set_params(C=best)
    where = "the data of --dev" if dev is not None else f"{N_FOLDS} parts, each by a model of the others"
    rows = [(f"{C:g}", f"{score:.4f}") for C, score in zip(candidates, scores)]
    lines = [f"C = {best:g} is best on {where}:", *table(rows, ("C", "score"))]
    if best in (candidates[0], candidates[-1]):
        end = "largest" if best == candidates[-1] else "smallest"
        lines.append(f"It is the {end} that was tried: others beyond it, given as --C, may be better still.")
    return lines, {"C": best, "C_scores": [{"C": C, "score": score} for C, score in zip(candidates, scores)]}


def _given(X: Any, y: Any) -> tuple:
    """Arguments of ``fit`` and ``score``."""
    return (X,) if y is None else (X, y)


def _folds(X: Any, y: Any, random_state: int | None) -> list[tuple[tuple, tuple]]:
    from sklearn.model_selection import KFold, StratifiedKFold

    n = getattr(X, "n_examples", None) or len(X)
    if n < N_FOLDS:
        raise InputError(f"--C auto compares models on {N_FOLDS} parts of the data, of {n} examples: give C.")
    classes = np.unique(y, return_counts=True)[1] if getattr(y, "dtype", np.dtype("f8")).kind in "iubU" else [0]
    kind = StratifiedKFold if min(classes) >= N_FOLDS else KFold
    splits = kind(N_FOLDS, shuffle=True, random_state=random_state or 0)
    return [
        ((_part(X, train), _part(y, train)), (_part(X, test), _part(y, test)))
        for train, test in splits.split(np.zeros(n), y if kind is StratifiedKFold else None)
    ]


def _part(rows: Any, chosen: np.ndarray) -> Any:
    from omkl.data.rows import Block, take

    if rows is None or isinstance(rows, Block):
        return rows if rows is None else take(rows, chosen)
    return take(Block(rows), chosen).X
