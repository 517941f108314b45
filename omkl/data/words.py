"""Plain text: one sentence a line, its words divided by spaces."""

from collections.abc import Iterator

from omkl.data.files import PathLike, lines
from omkl.data.strings import Strings
from omkl.data.treebank import Sentence, Treebank
from omkl.data.treebank_formats import new_strings
from omkl.exceptions import DataFileError

#: Sentences of a block.
BLOCK_SIZE = 5000
#: More bytes are no sentence.
LONGEST_LINE = 1 << 24


def iter_words(path: PathLike, block_size: int = BLOCK_SIZE) -> Iterator[Treebank]:
    """Read sentences of words from a text file, one a line, in blocks that share their strings.

    Parameters
    ----------
    path : path-like
        A file, plain or compressed (``.gz``, ``.xz``, ``.bz2``), as UTF-8. Words are divided by spaces or tabs; empty
        lines are left out.
    block_size : int
        Sentences in a block.

    Yields
    ------
    Treebank
        Of which all columns but the forms are empty.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, cut short, damaged or not UTF-8, or holds no word.
    """
    strings: dict[str, Strings] = new_strings()
    block: list[Sentence] = []
    is_empty = True
    for number, line in enumerate(lines(path), 1):
        if len(line) > LONGEST_LINE:
            raise DataFileError(f"{path}, line {number}: {len(line) >> 20} MB are no sentence: write one a line.")
        try:
            words = line.decode().split()
        except UnicodeDecodeError:
            raise DataFileError(f"{path}, line {number}: this is not UTF-8 text.") from None
        if words:
            block.append(Sentence(forms=words))
        if len(block) >= block_size:
            is_empty = False
            yield Treebank.from_sentences(block, strings=strings)
            block = []
    if block:
        yield Treebank.from_sentences(block, strings=strings)
    elif is_empty:
        raise DataFileError(f"{path} holds no word: write one sentence a line, words divided by spaces.")
