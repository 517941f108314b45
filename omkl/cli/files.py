"""Loading of models, and reading of labelled data according to the options of a command."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import omkl
from omkl import data
from omkl._components import check_n_jobs
from omkl.cli.options import OF_TABLES, Options, refuse
from omkl.data.files import find_files
from omkl.exceptions import DataFileError, InputError, OmklError

if TYPE_CHECKING:
    from omkl.estimators.base import OnlineEstimator
    from omkl.linear.base import SparseLinear
    from omkl.mkl.base import BatchMKL

#: Model of a file, whose class depends on the kind of its examples.
Model: TypeAlias = "OnlineEstimator | BatchMKL | SparseLinear | omkl.Annotator"

#: Options that do not apply to a kind of models.
UNREAD: dict[str, tuple[str, ...]] = {
    "trees": ("format", "scheme", *OF_TABLES),
    "annotations": ("format", "scheme", *OF_TABLES),
    "sequences": OF_TABLES,
    "rows": ("scheme",),
    "graphs": ("format", "scheme", "on_error", *OF_TABLES),
}


def load_model(options: Options) -> tuple[Any, str]:
    """Load ``options.model``, and raise an error for options that do not apply to it.

    The model of a :class:`~omkl.CheckedModel` is returned, and ``options.checked`` is the latter.

    Returns
    -------
    model : estimator
    kind : {"trees", "annotations", "sequences", "graphs", "rows"}
        Kind of predictions.
    """
    model = omkl.load(options.model)
    if isinstance(model, omkl.CheckedModel):
        options.checked = model
        model = model.model
    kind = model.example_kind or "rows"
    refuse(f"does not go with {class_with_article(model)}", *UNREAD[kind])
    if options.jobs is not None:
        check_n_jobs(options.jobs)
        if "n_jobs" not in model.get_params(deep=False):
            refuse(f"does not go with {class_with_article(model)}", "jobs")
        model.set_params(n_jobs=options.jobs)
    return model, kind


def class_with_article(model: Model) -> str:
    """Return the name of the class of a model, with its article."""
    name = type(model).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def destination(path: str) -> str:
    """Return the path of an output; ``-`` is standard output."""
    return "/dev/stdout" if path == "-" else path


def calibrate(model: Any, path: str, *dev: Any) -> list[str]:
    """Calibrate on the data of ``--dev``, if there are any; if that fails, return a line why."""
    try:
        if dev[0] is not None:
            model.calibrate(*dev)
    except InputError as error:
        return [f"Scores are not made probabilities by {path}: {error}"]
    return []


# ---- sequences and sentences ---------------------------------------------------------------------


def n_columns_of(model: Model) -> int | None:
    """Return the number of columns that a labeler uses.

    It is None unless the labeler was trained on a file of columns, whose features are c0, c1, ...
    """
    vocabulary = model.model_.codec.encoder.vocabulary
    if vocabulary is None:
        return None
    columns = []
    for key in vocabulary.keys:
        match = re.fullmatch(r"c([0-9]{1,6})", key)
        if match is None:
            return None
        columns.append(int(match[1]))
    return 1 + max(columns) if columns else None


def format_of_sequences(path: str, options: Options, n_columns: int | None) -> str:
    """Return the format of a file; for a labeler of columns, columns by default."""
    from omkl.data.sequences import guess_format

    otherwise = None if n_columns is None else "columns"
    return options.format or guess_format(find_files(path)[0], otherwise)


def read_sequences(
    path: str, options: Options, model: Model | None = None
) -> tuple[list, list | None]:
    """Read the sequences of a file, and their labels, None if there are none.

    For a model trained on columns, files are read as columns. A file without an additional column
    has no labels.
    """
    from omkl.data.sequences import n_columns_in

    labelled = True
    n_read = None if model is None else n_columns_of(model)
    format = format_of_sequences(path, options, n_read)
    if n_read is not None and os.path.isfile(path) and format == "columns":
        n_columns = n_columns_in(path)
        labelled = n_columns > n_read
        if n_columns < n_read:
            raise DataFileError(
                f"{path} has {n_columns} columns, and the model reads {n_read} of each token."
            )
    X, y = data.read_sequences(path, format, on_error=options.on_error, labelled=labelled)
    if not any(len(token) for x in X for token in x):
        raise DataFileError(
            f"No token in {path} has attributes: set --format, for example to columns."
        )
    return X, y


def labelled_sequences(
    path: str, options: Options, model: Model | None = None
) -> tuple[list, list]:
    """Read sequences and their labels; raises DataFileError if the file has no labels."""
    X, y = read_sequences(path, options, model)
    if y is None:
        raise DataFileError(
            f'{path} holds no labels: give every line a "y", or a last column with the label.'
        )
    return X, y


def labelled_graphs(path: str) -> tuple[list, list]:
    """Read graphs and the labels of their nodes; raises DataFileError if the file has no labels."""
    X, y = data.read_graphs(path)
    if y is None:
        raise DataFileError(f'{path} holds no labels: give every line a "y".')
    return X, y


def read_gold(path: str, model: Model, options: Options) -> data.Treebank:
    """Read a treebank for the evaluation of a parser or an annotator."""
    if isinstance(model, omkl.DependencyParser):
        return data.read_treebank(
            path, on_error=options.on_error, single_root=model.trees.single_root
        )
    return data.read_treebank(path, on_error=options.on_error, trees="given")


def labelled_data(path: str, model: Model, kind: str, options: Options) -> tuple[Any, list | None]:
    """Read labelled data for ``score``.

    They are sequences or graphs and their labels, or a treebank or a stream of rows, and None.
    """
    if kind == "graphs":
        return labelled_graphs(path)
    if kind == "sequences":
        return labelled_sequences(path, options, model)
    if kind == "rows":
        return open_labelled_rows(path, options, model), None
    return read_gold(path, model, options), None


# ---- rows ----------------------------------------------------------------------------------------


def columns_of_model(model: Model) -> dict[str, Any]:
    """Return the columns on which a model was trained, as options of readers of tables."""
    from omkl.estimators.validation import column_names_of

    names = column_names_of(model)
    text = []
    if names is not None and "features" in model.report_sections:
        vocabulary = model.model_.codec.encoder.vocabulary
        if vocabulary is not None:
            text = [key for key in names if vocabulary.is_text(key)]
    return {
        "n_features": model.__dict__.get("n_features_in_"),
        "columns": names,
        "categorical": text,
    }


def columns_of_block(block: data.Block) -> dict[str, Any]:
    """Return the columns of a block of training data, as options of readers of tables."""
    if not isinstance(block.X, list):
        return {"n_features": block.X.shape[1], "columns": block.feature_names}
    text: dict[str, None] = {}
    for row in block.X:
        for key, value in row.items():
            if isinstance(value, str):
                text[key] = None
    return {"columns": block.feature_names, "categorical": list(text)}


def open_rows(
    path: str, options: Options, columns: Mapping[str, Any] = {}, labelled: bool = True
) -> data.Stream:
    """Open a stream of rows with these columns, and with one output each if ``labelled``."""
    format = data.find_format(path, options.format)
    if format.holds != "rows":
        raise InputError(
            f"{path} holds no rows: it was read as {next(iter(format.aliases))}. Set --format."
        )
    target = options.target
    if target is not None:
        if target.removeprefix("-").isdigit():
            target = int(target)
    elif labelled:
        target = format.default_target
    settings = _reading_settings(format, options, columns)
    stream = data.open_stream(path, format, target, **settings)
    if not labelled:
        return stream

    def with_outputs(block: data.Block) -> data.Block:
        if block.y is None:
            raise DataFileError(f"{path} has no outputs: set --target.")
        return block.with_outputs(_whole_numbers(np.asarray(block.y)))

    return stream.mapped(with_outputs)


def _reading_settings(
    format: data.StreamFormat, options: Options, columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of the reader of a format that the options and columns set."""
    settings: dict[str, Any] = {}
    if options.no_header:
        settings["header"] = False
    if options.delimiter is not None:
        settings["delimiter"] = options.delimiter
    if options.on_error == "skip":
        settings["on_error"] = "skip"
    if options.zero_based:
        settings["zero_based"] = True
    has_names = columns.get("columns") is not None and not options.no_header
    for name in format.selects:
        # without names, columns are chosen by their number alone
        is_usable = has_names or name == "n_features"
        if is_usable and columns.get(name) is not None:
            settings[name] = columns[name]
    if options.categorical:
        text = settings.get("categorical", [])
        settings["categorical"] = sorted({*text, *options.categorical.split(",")})
    return settings


def _whole_numbers(y: np.ndarray) -> np.ndarray:
    """Return floats that are all whole, as the classes of svmlight, as integers."""
    if y.dtype.kind != "f":
        return y
    is_whole = np.array_equal(y, np.round(y)) and np.abs(y).max(initial=0) < 2**53
    return y.astype(np.int64) if is_whole else y


def open_numbers(path: str, options: Options, columns: Mapping[str, Any] = {}) -> data.Stream:
    """Open a stream of rows whose outputs are numbers.

    Raises DataFileError during reading if they are words.
    """

    def checked(block: data.Block) -> data.Block:
        outputs = block.y.ravel().tolist()
        word = next((output for output in outputs if isinstance(output, str)), None)
        if word is not None:
            raise DataFileError(
                f"{target_column(path, options)} of {path} holds words such as {word!r:.80}, "
                "and a regressor predicts numbers: name another column in --target, "
                "or use omkl train classifier."
            )
        return block

    return open_rows(path, options, columns).mapped(checked)


def open_labelled_rows(path: str, options: Options, model: Model) -> data.Stream:
    """Open a stream of rows with the columns and the kind of outputs of a model."""
    open_stream = open_rows if hasattr(model, "classes_") else open_numbers
    return open_stream(path, options, columns_of_model(model))


def target_column(path: str, options: Options) -> str:
    """Return a description of the column of outputs, with its name if the file has names."""
    target = options.target
    if target is None:
        target = data.find_format(path, options.format).default_target
    if target is None:
        return "The array of outputs"
    if not str(target).removeprefix("-").isdigit():
        return f"The column {target!r}"
    everything = Options(**{**vars(options), "target": None})
    first = next(iter(open_rows(path, everything, labelled=False).blocks()), None)
    if first is None or first.feature_names is None:
        return f"The column {target}"
    return f"The column {first.feature_names[int(target)]!r}"


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file in errors about its data."""
    try:
        with warnings.catch_warnings():
            # the reader has already selected columns by name
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield
    except ValueError as error:
        if isinstance(error, OmklError) and not str(error).startswith("Input X"):  # of scikit-learn
            raise
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None


def outputs_of(model: Model, path: str, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Return gold and predicted outputs of a file, which is read block by block."""
    with naming(path):
        blocks = open_labelled_rows(path, options, model).blocks()
        pairs = [(y, model.predict(X)) for X, y in blocks]
    gold, predicted = zip(*pairs)
    return np.concatenate(gold), np.concatenate(predicted)


def row_scores(model: Model, gold: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return accuracy for a classifier; R^2, RMSE and mean absolute error for a regressor."""
    if hasattr(model, "classes_"):
        return {"accuracy": float((gold == predicted).mean())}
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    scores = {"r2": r2_score, "rmse": root_mean_squared_error, "mae": mean_absolute_error}
    return {name: float(score(gold, predicted)) for name, score in scores.items()}
