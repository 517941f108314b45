"""Files of rows, each with one output: what subcommands of classifiers and regressors share."""

import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from omkl import data
from omkl.exceptions import DataFileError, InputError, OmklError


def open_rows(path: str, arguments: Namespace, model: Any = None, labelled: bool = True) -> Any:
    """A stream over a file of rows, with the columns that a model knows; outputs are asked for where ``labelled``."""
    format = data.find_format(path, arguments.format)
    if format.holds != "rows":
        raise InputError(f"{path} is read as {next(iter(format.aliases))}, which holds no rows with one output each: "
                         "choose another --format.")  # fmt: skip
    target = _column(arguments.target)
    options: dict[str, Any] = {"header": False} if arguments.no_header else {}
    if getattr(arguments, "on_error", "raise") != "raise":
        options["on_error"] = arguments.on_error
    if target is None and labelled:
        target = format.default_target
    if model is not None:
        names = None if arguments.no_header else getattr(model, "feature_names_in_", None)
        options |= format.options_for(getattr(model, "n_features_in_", None), names)
    stream = data.open_stream(path, format, target, **options)
    return stream.mapped(lambda block: _with_outputs(block, path)) if labelled else stream


def _column(target):
    """A column by place where ``target`` is a whole number, else by name."""
    return int(target) if target is not None and target.removeprefix("-").isdigit() else target


def _with_outputs(block, path):
    if block.y is None:
        raise DataFileError(f"{path} holds no outputs: say with --target where they are.")
    y = np.asarray(block.y)
    # svmlight writes labels as any other numbers
    is_whole = y.dtype.kind == "f" and np.array_equal(y, np.round(y)) and np.abs(y).max(initial=0) < 2**53
    return block.with_outputs(y.astype(np.int64) if is_whole else y)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """A context in which an error that is raised about data says which file they are from."""
    try:
        with warnings.catch_warnings():
            # the reader has chosen the columns by their names
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield
    except OmklError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None


def outputs_of(model: Any, path: str, arguments: Namespace) -> tuple[np.ndarray, np.ndarray]:
    """All outputs of a labelled file, and what a model predicts, read block by block: two arrays."""
    gold, predicted = [], []
    with naming(path):
        for X, y in open_rows(path, arguments, model).blocks():
            gold.append(y)
            predicted.append(model.predict(X))
    return np.concatenate(gold), np.concatenate(predicted)


def scores(model: Any, gold: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Accuracy of a classifier; R^2 of a regressor, and errors in units of the targets: root mean square and mean."""
    if hasattr(model, "classes_"):
        return {"accuracy": float((gold == predicted).mean())}
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

    return {
        "r2": float(r2_score(gold, predicted)),
        "rmse": float(np.sqrt(mean_squared_error(gold, predicted))),
        "mae": float(mean_absolute_error(gold, predicted)),
    }
