"""Files of rows, each with one output: what subcommands of classifiers and regressors share."""

import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from omkl import data
from omkl.cli.common import of_class
from omkl.exceptions import DataFileError, InputError, OmklError


def open_rows(path: str, arguments: Namespace, model: Any = None, labelled: bool = True) -> Any:
    """A stream over a file of rows, with the columns that a model knows; outputs are asked for where ``labelled``."""
    format = data.find_format(path, arguments.format)
    if format.holds != "rows":
        raise InputError(f"{path} is read as {next(iter(format.aliases))}, which holds no rows with one output each: "
                         "choose another --format.")  # fmt: skip
    target = _column(arguments.target)
    options: dict[str, Any] = {"header": False} if arguments.no_header else {}
    if arguments.delimiter is not None:
        options["delimiter"] = arguments.delimiter
    if getattr(arguments, "on_error", "raise") != "raise":
        options["on_error"] = arguments.on_error
    if target is None and labelled:
        target = format.default_target
    if model is not None:
        names = None if arguments.no_header else getattr(model, "feature_names_in_", None)
        text = [] if names is None else _text_columns(model)
        options |= format.options_for(getattr(model, "n_features_in_", None), names, text)
    if arguments.categorical:
        options["categorical"] = list(dict.fromkeys([*options.get("categorical", []), *arguments.categorical]))
    stream = data.open_stream(path, format, target, **options)
    return stream.mapped(lambda block: _with_outputs(block, path)) if labelled else stream


def _text_columns(model):
    """The columns in which a model, or the rows that stand for one, has met text alone."""
    if hasattr(model, "text_columns"):
        return model.text_columns
    encoder = getattr(model.model_.codec, "encoder", None) if hasattr(model, "model_") else None
    vocabulary = None if encoder is None else encoder.vocabulary
    return [] if vocabulary is None else [key for key in vocabulary.keys if vocabulary.kinds_of(key) == {"text"}]


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
    except ValueError as error:
        if isinstance(error, OmklError) and not str(error).startswith("Input X"):  # which is what the file holds
            raise
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None


def predictions(model: Any, X: Any, arguments: Namespace) -> Iterator[dict[str, Any]]:
    """What is predicted for each row, as ``--confidence`` and ``--nbest`` ask.

    Yields
    ------
    dict
        ``y``, and ``confidence``, its probability; or ``nbest``, a list of ``y`` and ``score``, the best class first.

    Raises
    ------
    omkl.exceptions.InputError
        If the model has no classes to choose from, or no probabilities.
    """
    if not arguments.confidence and arguments.nbest is None:
        yield from ({"y": output} for output in model.predict(X).tolist())
        return
    from sklearn.base import is_regressor

    option = "--confidence" if arguments.confidence else "--nbest"
    if is_regressor(model):
        raise InputError(
            f"{option} goes with classes, and {of_class(model)} predicts numbers: residuals of held-out rows "
            "give intervals, see 'How sure a regressor is' in the guide."
        )
    if getattr(getattr(model, "classes_", None), "ndim", 0) != 1 or not hasattr(model, "decision_function"):
        raise InputError(f"{option} goes with models that choose one class of several: leave it out.")
    if arguments.confidence and not hasattr(model, "predict_proba"):
        raise InputError(
            "--confidence needs probabilities, which this classifier has none of: train it with --loss crf, or ask for "
            "scores with --nbest."
        )
    scores = model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    ranked, classes = np.argsort(-scores, axis=1, kind="stable"), model.classes_.tolist()
    for best, own in zip(ranked[:, : arguments.nbest or 1].tolist(), scores.tolist()):
        if arguments.confidence:
            yield {"y": classes[best[0]], "confidence": round(own[best[0]], 3)}
        else:
            yield {"nbest": [{"y": classes[k], "score": own[k]} for k in best]}


def text_of(record: dict[str, Any]) -> str:
    """A record of :func:`predictions` as a line of text."""
    if "nbest" in record:
        return "\t".join(f"{found['y']}\t{found['score']:.6g}" for found in record["nbest"])
    return f"{record['y']}\t{record['confidence']:.3f}" if "confidence" in record else str(record["y"])


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
