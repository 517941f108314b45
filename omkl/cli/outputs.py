"""What a command writes to: looked at before it works, and saved elsewhere rather than lost."""

import os
import tempfile
from argparse import Namespace
from itertools import combinations
from typing import Any

from omkl._files import check_output, is_same_file
from omkl.cli.inputs import READ
from omkl.exceptions import InputError, OutputFileError

#: Options that name files to write.
WRITTEN = {"output": "-o", "json": "--json", "log": "--log"}


def check_files(arguments: Namespace) -> None:
    """Raise where an output cannot be written, or would replace what the command reads; ``-`` leaves nothing else.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If a file cannot be written, as far as one can tell before.
    omkl.exceptions.InputError
        If an output is an input as well, or the other output.
    """
    outputs = {option: getattr(arguments, name, None) for name, option in WRITTEN.items()}
    outputs = {option: path for option, path in outputs.items() if path is not None}
    inputs = [getattr(arguments, name, None) for name in (*READ, "target")] + [
        path for _, path in getattr(arguments, "lexicon", ())
    ]
    if "-" in outputs.values():
        arguments.quiet = True
    for option, path in outputs.items():
        if path != "-":
            check_output(path)
        for other in inputs:
            if other is not None and path != "-" and is_same_file(path, other):
                raise InputError(f"{option} {path} would replace {other}, which is read: name another file.")
    for (option, path), (other_option, other) in combinations(outputs.items(), 2):
        if path == other or is_same_file(path, other):
            raise InputError(f"{option} and {other_option} are one file: name two.")


def save_model(model: Any, arguments: Namespace) -> None:
    """Save a trained model where and as the options say; in a temporary folder, if its own cannot be written.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If it cannot be written there; the message says where the model is instead.
    """
    options = {"training": not getattr(arguments, "predict_only", False)}
    if getattr(arguments, "precision", None):
        options["dtype"] = arguments.precision
    try:
        model.save("/dev/stdout" if arguments.output == "-" else arguments.output, **options)
    except OutputFileError as error:
        folder = tempfile.mkdtemp(prefix="omkl-")
        try:
            model.save(f"{folder}/model.npz", **options)
        except OutputFileError:
            os.rmdir(folder)
            raise OutputFileError(f"{str(error).rstrip('.')}; nor can {folder}, and the model is lost.") from None
        raise OutputFileError(f"{str(error).rstrip('.')}; the model is in {folder}/model.npz instead.") from None
