"""Reading plain text: one sentence a line, words separated by spaces."""

from collections.abc import Iterator

from omkl.data.files import PathLike, text_lines
from omkl.data.treebank.layouts import LAYOUTS, Checks, new_strings
from omkl.data.treebank.reader import Parsing, parse
from omkl.data.treebank.treebank import Treebank
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
        A file in UTF-8, plain or compressed (``.gz``, ``.xz``, ``.bz2``). Words are separated by spaces or tabs; empty
        lines are ignored.
    block_size : int
        Number of sentences in a block.

    Yields
    ------
    Treebank
        All columns but the forms are empty. Its text is CoNLL-U with comments ``# sent_id`` (numbers from 1) and
        ``# text``.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, damaged or not UTF-8, or holds no word.
    """
    parsing = Parsing("conllu", Checks(trees=False), new_strings(), keep_text=True)
    block: list[bytes] = []
    n_sentences = 0
    for number, line in text_lines(path):
        if len(line) > LONGEST_LINE:
            raise DataFileError(f"{path}, line {number}: a sentence of {len(line) >> 20} MB.")
        if words := line.encode().split():  # not at other spaces of Unicode, which may be parts of words
            n_sentences += 1
            rows = b"".join(b"%d\t%b%b\n" % (i, word, b"\t_" * 8) for i, word in enumerate(words, 1))
            block.append(b"# sent_id = %d\n# text = %b\n%b\n" % (n_sentences, b" ".join(words), rows))
        if len(block) >= block_size:
            yield parse(b"".join(block), LAYOUTS["conllu"], path, 0, parsing)[0]
            block = []
    if block:
        yield parse(b"".join(block), LAYOUTS["conllu"], path, 0, parsing)[0]
    elif not n_sentences:
        raise DataFileError(f"{path} holds no word: write one sentence a line, words separated by spaces.")
