"""Reading treebanks: CoNLL-U, CoNLL-X and CoNLL-2008."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omkl.data._jit_treebank import last_boundary
from omkl.data.conll import Sentence
from omkl.data.file_streams import Skipped, check_on_error
from omkl.data.files import CHUNK, PathLike, chunks, pieces, without_mark
from omkl.data.layouts import check_format, find_layout, new_strings
from omkl.data.strings import Strings
from omkl.data.treebank import Treebank
from omkl.data.treebank_checks import Checks
from omkl.data.treebank_parsing import parse
from omkl.exceptions import DataFileError, InputError

#: Bytes of text that are read at a time.
BLOCK_SIZE = 1 << 20


def iter_treebank(
    path: PathLike | Sequence[PathLike], *, format: str | None = None, on_error: str = "raise",
    single_root: bool = False, trees: bool | str = True, strings: dict[str, Strings] | None = None,
    keep_text: bool = True, block_size: int = BLOCK_SIZE,
) -> Iterator[Treebank]:  # fmt: skip
    """Read treebanks in blocks of sentences that share their strings.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), as UTF-8.
    format : {"conllu", "conllx", "conll2008"}, optional
        By default, what the suffix stands for (``.conllu``, ``.conllx``, ``.conll06``, ``.conll07``, ``.conll08``,
        ``.conll2008``), and otherwise what the first words look like. In CoNLL-2008 words are the parts of split
        tokens, and both UPOS and XPOS are their predicted tag (PPOSS), or where there is none, the gold one (GPOS).
    on_error : {"raise", "skip"}
        What to do with sentences that are wrong. Those skipped are counted in :attr:`~omkl.data.Treebank.skipped`, and
        a warning at the end says how many they were. Files that are missing, cut short or damaged always raise.
    single_root : bool
        Whether a tree must have exactly one root.
    trees : bool or "given"
        Whether heads must be trees: each is a word of the sentence or 0, and there is no cycle (hence there is a
        root). ``"given"`` lets sentences pass in which no word has a head; False takes any numbers, and none.
    strings : dict of str to Strings, optional
        Tables to share and grow, those of another treebank.
    keep_text : bool
        Whether the treebank keeps the text it was read from, so that it can be written again byte for byte.
    block_size : int
        Bytes of text that are read at a time.

    Yields
    ------
    Treebank
        With at least one sentence.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing, cut short or damaged, or holds no sentence; if ``on_error="raise"``, at the first
        sentence with a wrong number of columns, ids out of order, heads that are no tree, or bytes that are not
        UTF-8. The message names file and line.
    omkl.exceptions.InputError
        If an argument is none of these.

    Warns
    -----
    omkl.exceptions.DataWarning
        Once, at the end, if sentences were skipped.
    """
    return _blocks(path, format, on_error, single_root, trees, strings, keep_text, block_size)


def read_treebank(
    path: PathLike | Sequence[PathLike], *, format: str | None = None, on_error: str = "raise",
    single_root: bool = False, trees: bool | str = True, strings: dict[str, Strings] | None = None,
    keep_text: bool = True,
) -> Treebank:  # fmt: skip
    """Read treebanks into one.

    Parameters and errors are those of :func:`iter_treebank`.

    Returns
    -------
    Treebank
        The sentences of all files. Its ``skipped`` and ``reasons`` tell what ``on_error="skip"`` left out.
    """
    skipped = Skipped()
    blocks = _blocks(path, format, on_error, single_root, trees, strings, keep_text, BLOCK_SIZE, skipped)
    treebank = Treebank.concatenate(blocks)
    skipped.warn("sentence", stacklevel=2)
    return replace(treebank, skipped=skipped.count, reasons=skipped.reasons)


def read_conllu(
    path: PathLike | Sequence[PathLike], *, on_error: str = "raise", single_root: bool = False,
    trees: bool | str = "given",
) -> Iterator[Sentence]:  # fmt: skip
    """Read a treebank in CoNLL-U, sentence by sentence.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``).
    on_error, single_root, trees
        As :func:`iter_treebank` has them; by default, sentences need not have heads, but heads must be trees.

    Yields
    ------
    Sentence

    Raises
    ------
    omkl.exceptions.DataFileError
        As :func:`iter_treebank` does.
    """
    for block in iter_treebank(
        path, format="conllu", keep_text=False, on_error=on_error, single_root=single_root, trees=trees
    ):
        yield from block


def _blocks(path, format, on_error, single_root, trees, strings, keep_text, block_size, skipped=None):
    """Check the arguments, now, and read, later; warns itself only if the caller does not count what is skipped."""
    check_format(format)
    check_on_error(on_error)
    if block_size < 1:
        raise InputError(f"block_size is a number of bytes, at least 1, not {block_size}.")
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not paths:
        raise InputError("There is no file to read: the list of paths is empty.")
    checks = Checks(trees, single_root, on_error == "skip")
    parsing = {"strings": new_strings(strings), "checks": checks, "keep_text": keep_text}
    return _iter_files(paths, format, block_size, skipped, parsing)


def _iter_files(paths, format, block_size, skipped, parsing):
    total = Skipped() if skipped is None else skipped
    for path in paths:
        yield from iter_file(path, format, block_size, total, parsing)
    if skipped is None:
        total.warn("sentence", stacklevel=2)


def iter_file(
    path: PathLike, format: str | None, block_size: int, skipped: Skipped, parsing: dict[str, Any]
) -> Iterator[Treebank]:
    """The treebanks of a file, as :func:`iter_treebank` has them; what is skipped is counted in ``skipped``."""
    n_lines, found, layout, pending = 0, False, None, Skipped()
    text, bom = without_mark(chunks(path, min(block_size, CHUNK)))
    for piece in pieces(text, block_size, _last_boundary):
        layout = layout or find_layout(format, path, piece)
        block, more_lines = parse(piece, layout, where=_location(path, n_lines), bom=bom, **parsing)
        n_lines += more_lines
        skipped.note(block.skipped, block.reasons)
        pending.note(block.skipped, block.reasons)
        if len(block):
            found = True
            yield replace(block, skipped=pending.count, reasons=pending.reasons)
            pending = Skipped()
    if not found:
        why = f" that can be read: {pending.reasons[0]}" if pending.count else ": it needs at least one."
        raise DataFileError(f"{path} holds no sentence{why}")


def _location(path, n_lines):
    return lambda line, word, sentence: f"{path}, line {n_lines + line}"


def _last_boundary(text):
    return last_boundary(np.frombuffer(text, np.uint8))
