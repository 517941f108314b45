"""Plain text: one sentence a line, its words divided by spaces."""

from collections.abc import Iterator

from omkl.data.files import PathLike, lines
from omkl.data.strings import Strings
from omkl.data.treebank import Treebank
from omkl.data.treebank_formats import LAYOUTS, Checks, new_strings
from omkl.data.treebank_reader import parse
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
        A file, plain or compressed (``.gz``, ``.xz``, ``.bz2``), as UTF-8. Words are divided by spaces or tabs, not
        by those that are no breaks; empty lines are left out.
    block_size : int
        Sentences in a block.

    Yields
    ------
    Treebank
        Of which all columns but the forms are empty. Its text is that of a CoNLL-U file, whose comments ``# sent_id``
        and ``# text`` hold the number of the sentence, from 1, and its words.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, cut short, damaged or not UTF-8, or holds no word.
    """
    strings = new_strings()
    block: list[bytes] = []
    n_sentences = 0
    for number, line in enumerate(lines(path), 1):
        if len(line) > LONGEST_LINE:
            raise DataFileError(f"{path}, line {number}: {len(line) >> 20} MB are no sentence: write one a line.")
        try:
            line.decode()
        except UnicodeDecodeError:
            raise DataFileError(f"{path}, line {number}: this is not UTF-8 text.") from None
        if words := line.split():  # of bytes: not at spaces that are no breaks
            n_sentences += 1
            block.append(_sentence(n_sentences, words))
        if len(block) >= block_size:
            yield _treebank(block, path, strings)
            block = []
    if block:
        yield _treebank(block, path, strings)
    elif not n_sentences:
        raise DataFileError(f"{path} holds no word: write one sentence a line, words divided by spaces.")


def _sentence(number: int, words: list[bytes]) -> bytes:
    """A sentence of words as the lines of a CoNLL-U file."""
    rows = b"".join(b"%d\t%b%b\n" % (i, word, b"\t_" * 8) for i, word in enumerate(words, 1))
    return b"# sent_id = %d\n# text = %b\n%b\n" % (number, b" ".join(words), rows)


def _treebank(sentences: list[bytes], path: PathLike, strings: dict[str, Strings]) -> Treebank:
    text, checks = b"".join(sentences), Checks(trees=False)
    return parse(text, LAYOUTS["conllu"], path, 0, strings=strings, checks=checks)[0]
