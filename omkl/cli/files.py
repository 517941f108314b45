"""Models and labelled data: loading, saving, and reading as the options of a command ask."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import omkl
from omkl import data
from omkl._components import check_n_jobs
from omkl.cli.options import OF_TABLES, Options, refuse
from omkl.exceptions import DataFileError, InputError, OmklError

if TYPE_CHECKING:
    from omkl.reports.model import Model

#: Options that models of a kind do not read.
UNREAD = {
    "trees": ("format", "scheme", *OF_TABLES),
    "annotations": ("format", "scheme", *OF_TABLES),
    "sequences": OF_TABLES,
    "rows": ("scheme",),
}
KINDS = {"DependencyParser": "trees", "Annotator": "annotations", "SequenceLabeler": "sequences"}


def load_model(options: Options) -> tuple[Any, str]:
    """Load ``options.model``, and refuse options that it does not read.

    Returns
    -------
    model : estimator
    kind : {"trees", "annotations", "sequences", "rows"}
        What it predicts.
    """
    model = omkl.load(options.model)
    kind = KINDS.get(type(model).__name__, "rows")
    refuse(f"does not go with {of_class(model)}", *UNREAD[kind])
    if options.jobs is not None:
        check_n_jobs(options.jobs)
        if "n_jobs" not in model.get_params(deep=False):
            refuse(f"does not go with {of_class(model)}", "jobs")
        model.set_params(n_jobs=options.jobs)
    return model, kind


def of_class(model: Model) -> str:
    """The class of a model, with its article."""
    name = type(model).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def destination(path: str) -> str:
    """A path to write to, where ``-`` is standard output."""
    return "/dev/stdout" if path == "-" else path


def calibrate(model: Model, path: str, *dev: object) -> list[str]:
    """Calibrate probabilities on the data of ``--dev``; returns a line that says why they are not."""
    try:
        model.calibrate(*dev)
    except InputError as error:
        return [f"Scores are not made probabilities by {path}: {error}"]
    return []


# ---- sequences and sentences -------------------------------------------------------------------------------------


def n_columns_of(labeler: omkl.SequenceLabeler) -> int | None:
    """Number of columns of each token that a labeler reads; None unless it was trained on a file of columns."""
    vocabulary = labeler.model_.codec.encoder.vocabulary
    places = [re.fullmatch(r"c([0-9]{1,6})", key) for key in (() if vocabulary is None else vocabulary.keys)]
    return 1 + max(int(place[1]) for place in places if place) if places and all(places) else None


def read_sequences(path: str, options: Options, model: Model | None = None) -> tuple[list, list | None]:
    """Sequences of a file, and their labels where it holds some.

    A model that was trained on columns reads columns, and a file with no more than these has no labels.
    """
    from omkl.data.sequences import guess_format, n_columns_in

    n_known, labelled, format = None if model is None else n_columns_of(model), True, options.format
    if n_known is not None:
        format = format or guess_format(path, "columns")
        if os.path.isfile(path) and (format or guess_format(path)) == "columns":
            n_columns = n_columns_in(path)
            labelled = n_columns > n_known
            if n_columns < n_known:
                raise DataFileError(f"{path} has {n_columns} columns, and the model reads {n_known} of each token.")
    X, y = data.read_sequences(path, format, on_error=options.on_error, labelled=labelled)
    if not any(len(token) for x in X for token in x):
        raise DataFileError(f"No token in {path} has attributes: say what it holds by --format, such as columns.")
    return X, y


def labelled_sequences(path: str, options: Options, model: Model | None = None) -> tuple[list, list]:
    """Sequences and their labels; an error where the file holds none."""
    X, y = read_sequences(path, options, model)
    if y is None:
        raise DataFileError(f'{path} holds no labels: give every line a "y", or a last column with the label.')
    return X, y


def read_gold(path: str, model: omkl.DependencyParser | omkl.Annotator, options: Options) -> data.Treebank:
    """A treebank to measure a parser or an annotator on."""
    is_parser = isinstance(model, omkl.DependencyParser)
    trees: dict[str, Any] = {"single_root": model.single_root} if is_parser else {"trees": "given"}
    return data.read_treebank(path, on_error=options.on_error, keep_text=False, **trees)


def labelled_data(path: str, model: Model, kind: str, options: Options) -> tuple[Any, list | None]:
    """Labelled data: sequences and their labels; or a treebank or a stream of rows, and None."""
    if kind == "sequences":
        return labelled_sequences(path, options, model)
    return open_rows(path, options, Columns.of_model(model)) if kind == "rows" else read_gold(
        path, model, options
    ), None


# ---- rows --------------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """The columns that a table must have."""

    n_features: int | None
    names: Sequence[str] | None
    text: Sequence[str]

    @classmethod
    def of_model(cls, model: Model) -> Columns:
        """The columns that a model has learned from."""
        from omkl.estimators.base import OnlineEstimator
        from omkl.estimators.validation import column_names_of

        names, text = column_names_of(model), []
        if names is not None and isinstance(model, OnlineEstimator):
            vocabulary = model.model_.codec.encoder.vocabulary
            text = [] if vocabulary is None else [key for key in vocabulary.keys if vocabulary.is_text(key)]
        return cls(model.__dict__.get("n_features_in_"), names, text)

    @classmethod
    def of_block(cls, block: data.Block) -> Columns:
        """The columns of a block of training data."""
        if isinstance(block.X, list):
            text = {key: None for row in block.X for key, value in row.items() if isinstance(value, str)}
            return cls(None, block.feature_names, list(text))
        return cls(block.X.shape[1], block.feature_names, [])


def open_rows(path: str, options: Options, columns: Columns | None = None, labelled: bool = True) -> data.Stream:
    """A stream over a file of rows with one output each (if ``labelled``), and with these columns."""
    format = data.find_format(path, options.format)
    if format.holds != "rows":
        raise InputError(f"{path} holds no rows with one output each, as {next(iter(format.aliases))}: give --format.")
    target = options.target
    if target is None:
        target = format.default_target if labelled else None
    elif target.removeprefix("-").isdigit():
        target = int(target)
    given = {"header": False if options.no_header else None, "delimiter": options.delimiter}
    given["on_error"] = "skip" if options.on_error == "skip" else None
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if columns is not None:
        names = None if options.no_header else columns.names
        text = None if names is None else columns.text
        known = {"n_features": columns.n_features, "columns": names, "categorical": text}
        settings |= {name: value for name, value in known.items() if name in format.selects and value is not None}
    if options.categorical:
        settings["categorical"] = sorted({*settings.get("categorical", []), *options.categorical.split(",")})
    stream = data.open_stream(path, format, target, **settings)
    return stream.mapped(lambda block: _with_outputs(block, path)) if labelled else stream


def _with_outputs(block: data.Block, path: str) -> Any:
    if block.y is None:
        raise DataFileError(f"{path} holds no outputs: say with --target where they are.")
    y = np.asarray(block.y)
    # svmlight writes labels as any other numbers
    is_whole = y.dtype.kind == "f" and np.array_equal(y, np.round(y)) and np.abs(y).max(initial=0) < 2**53
    return block.with_outputs(y.astype(np.int64) if is_whole else y)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file in errors about its data."""
    try:
        with warnings.catch_warnings():
            # the reader has chosen the columns by their names
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield
    except ValueError as error:
        if isinstance(error, OmklError) and not str(error).startswith("Input X"):  # which is what the file holds
            raise
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None


def outputs_of(model: Model, path: str, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Gold and predicted outputs of a file, which is read block by block."""
    gold, found = [], []
    with naming(path):
        for X, y in open_rows(path, options, Columns.of_model(model)).blocks():
            gold.append(y)
            found.append(model.predict(X))
    return np.concatenate(gold), np.concatenate(found)


def row_scores(model: Model, gold: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Accuracy of a classifier; R^2 of a regressor, and its errors in units of the targets."""
    if hasattr(model, "classes_"):
        return {"accuracy": float((gold == predicted).mean())}
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    scores = {"r2": r2_score, "rmse": root_mean_squared_error, "mae": mean_absolute_error}
    return {name: float(score(gold, predicted)) for name, score in scores.items()}
