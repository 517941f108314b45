"""Writing treebanks: the text that was read, with the columns that have changed."""

from collections.abc import Iterable

import numpy as np

from omkl.data.files import PathLike, output_file
from omkl.data.treebank.layouts import COLUMNS, LAYOUTS
from omkl.data.treebank.strings import MISSING
from omkl.data.treebank.treebank import Treebank
from omkl.exceptions import InputError


def write_treebank(path: PathLike, treebank: Treebank | Iterable[Treebank]) -> None:
    """Write a treebank as it was read, except for the columns that have changed.

    Comments, multiword tokens, empty nodes, other columns and line ends are kept, and so is the format; see
    :meth:`~omkl.data.Treebank.with_column` for new columns. Treebanks without a text (made in Python, or read with
    ``keep_text=False``) are written in CoNLL-U. Columns that depend on heads, the enhanced dependencies (DEPS) of
    CoNLL-U and PHEAD and PDEPREL of CoNLL-X, may not fit new heads. The file is replaced when all is written.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    treebank : Treebank or iterable of Treebank
        Blocks are written one after the other, as they come.

    Raises
    ------
    omkl.exceptions.InputError
        If there is no sentence, or the format has no place for what has changed.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    n_sentences = 0
    with output_file(path) as file:
        for block in [treebank] if isinstance(treebank, Treebank) else treebank:
            file.write(as_text(block))
            n_sentences += len(block)
        if not n_sentences:
            raise InputError(f"There is no sentence to write to {path}.")


def as_text(treebank: Treebank) -> bytes:
    """The text of a treebank, with the columns that have changed.

    Parameters
    ----------
    treebank : Treebank

    Returns
    -------
    bytes

    Raises
    ------
    omkl.exceptions.InputError
        If the format has no place for a column that has changed.
    """
    if treebank.text is None:
        return _conllu(treebank)
    if not treebank.changed:
        return treebank.text
    layout = LAYOUTS[treebank.format]
    if lacking := [name for name in COLUMNS if name in treebank.changed and layout.columns.count(name) != 1]:
        raise InputError(f"{layout.title} has no place for new {', '.join(lacking)}: convert the file to CoNLL-U.")
    new = [(layout.columns.index(name), iter(_column(treebank, name))) for name in treebank.changed]
    lines = treebank.text.decode().split("\n")
    for number, line in enumerate(lines):
        if line[:1].isdecimal():
            fields = line.split("\t")
            if fields[0].isdecimal():  # no multiword token or empty node
                last = fields[-1]
                fields[-1] = last.removesuffix("\r")
                for place, values in new:
                    fields[place] = next(values)
                lines[number] = "\t".join(fields) + ("\r" if last.endswith("\r") else "")
    return "\n".join(lines).encode()


def _column(treebank: Treebank, name: str) -> list[str]:
    """A column of all words as it is written."""
    if name == "heads":
        return [MISSING if head < 0 else str(head) for head in treebank.heads.tolist()]
    strings = treebank.strings[name].tolist()
    return [strings[code] for code in getattr(treebank, name).tolist()]


def _conllu(treebank: Treebank) -> bytes:
    """Write columns as CoNLL-U."""
    ends = set(treebank.offsets[1:].tolist())
    numbers = np.arange(treebank.n_words) - np.repeat(treebank.offsets[:-1], treebank.lengths) + 1
    columns = [_column(treebank, name) for name in COLUMNS]
    lines = []
    for i, (number, *fields, misc) in enumerate(zip(numbers.tolist(), *columns), 1):
        lines.append("\t".join([str(number), *fields, MISSING, misc]) + ("\n\n" if i in ends else "\n"))
    return "".join(lines).encode()
