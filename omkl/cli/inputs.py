"""What a command reads: files, or standard input where ``-`` stands for one; labelled sequences of them."""

import os
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

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
            shutil.copyfileobj(sys.stdin.buffer, file)
        for name in asked:
            setattr(arguments, name, path)
        for i in lexicons:
            arguments.lexicon[i] = (arguments.lexicon[i][0], path)
        yield


def read_sequences(path: str, arguments: Namespace) -> tuple[list, list | None]:
    """Sequences, and their labels where the file holds some; an error where no token has anything to go by."""
    on_error = getattr(arguments, "on_error", "raise")
    X, y = data.read_sequences(path, arguments.format, arguments.folds, on_error=on_error)
    if not any(getattr(token, "size", token) for x in X for token in x):
        raise DataFileError(f"No token in {path} has attributes: say what it holds by --format, such as columns.")
    return X, y


def labelled_sequences(path: str, arguments: Namespace) -> tuple[list, list]:
    """Sequences and their labels; an error where the file holds none."""
    X, y = read_sequences(path, arguments)
    if y is None:
        raise DataFileError(f'{path} holds no labels: give every line a "y".')
    return X, y
