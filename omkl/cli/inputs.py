"""What a command reads: files, or standard input where ``-`` stands for one; labelled sequences of them."""

import errno
import os
import re
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omkl import data
from omkl.exceptions import DataFileError, InputError

#: Arguments that name a file to read.
READ = ("train", "dev", "model", "input", "gold", "data", "retrain", "templates", "template")


@contextmanager
def standard_input(arguments: Namespace) -> Iterator[None]:
    """A context in which an argument that was ``-`` names a file with what standard input gave: it can be read twice.

    Raises
    ------
    omkl.exceptions.InputError
        If there are two.
    """
    asked = [name for name in READ if getattr(arguments, name, None) == "-"]
    lexicons = [i for i, (_, path) in enumerate(getattr(arguments, "lexicon", ())) if path == "-"]
    if len(asked) + len(lexicons) > 1:
        raise InputError("- is standard input, which can be read only once: name a file instead of the others.")
    if not asked and not lexicons:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="omkl-") as folder:
        path = arguments.standard_input = os.path.join(folder, "standard input")
        with open(path, "wb") as file:
            try:
                shutil.copyfileobj(sys.stdin.buffer, file)
            except OSError as error:
                if error.filename is None and error.errno in (errno.EBADF, errno.EIO, errno.EISDIR):
                    raise InputError(f"Standard input cannot be read: {error.strerror}.") from None
                raise
        for name in asked:
            setattr(arguments, name, path)
        for i in lexicons:
            arguments.lexicon[i] = (arguments.lexicon[i][0], path)
        yield


def columns_of(labeler: Any) -> int | None:
    """How many columns of each token a labeler looks at; None unless it has learned from a file of columns."""
    encoder = labeler.model_.codec.encoder
    if encoder.templates is not None:
        return encoder.templates.n_columns
    keys = [] if encoder.vocabulary is None else encoder.vocabulary.keys
    places = [re.fullmatch(r"c([0-9]{1,6})", key) for key in keys]
    return 1 + max(int(place[1]) for place in places if place) if places and all(places) else None


def format_of(path: str, arguments: Namespace) -> str | None:
    """The format of a file of sequences, None where its reader is to guess it; templates, and models that have learned
    from columns, look at columns."""
    from omkl.data.sequences import guess_format

    templated = getattr(arguments, "template", None) or getattr(arguments, "n_columns", None) is not None
    return arguments.format or (guess_format(path, "columns") if templated else None)


def read_sequences(path: str, arguments: Namespace) -> tuple[list, list | None]:
    """Sequences, and their labels where the file holds some; an error where no token has anything to go by."""
    from omkl.data.sequences import guess_format, n_columns_in

    on_error, format = getattr(arguments, "on_error", "raise"), format_of(path, arguments)
    # a file of as many columns as the model reads has none of labels
    most, labelled = getattr(arguments, "n_columns", None), True
    if most is not None and os.path.isfile(path) and (format or guess_format(path)) == "columns":
        n_columns = n_columns_in(path)
        labelled = n_columns > most
        if n_columns < most:
            raise DataFileError(f"{path} has {n_columns} columns, and the model looks at {most} of each token.")
    X, y = data.read_sequences(path, format, arguments.folds, on_error=on_error, labelled=labelled)
    if not any(getattr(token, "size", token) for x in X for token in x):
        raise DataFileError(f"No token in {path} has attributes: say what it holds by --format, such as columns.")
    return X, y


def labelled_sequences(path: str, arguments: Namespace) -> tuple[list, list]:
    """Sequences and their labels; an error where the file holds none."""
    X, y = read_sequences(path, arguments)
    if y is None:
        raise DataFileError(f'{path} holds no labels: give every line a "y", or a last column with the label.')
    return X, y
