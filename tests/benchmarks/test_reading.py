"""Reading and writing the English training set, against other readers.

The floor reads the bytes.
"""

import gzip
import tracemalloc

import numpy as np
import pytest

from omkl.data import Treebank, read_treebank, stream_conllu, write_treebank
from omkl.data.files import open_bytes
from omkl.data.treebank.conllu import PIECE_SIZE
from tests.benchmarks.measuring import Floor, stream

COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels")


@pytest.fixture(scope="module")
def corpus(real_data, tmp_path_factory):
    """The plain file, the compressed one, and the treebank."""
    compressed = real_data("ud/UD_English-EWT/en_ewt-ud-train.conllu.gz")
    plain = tmp_path_factory.mktemp("corpus") / "train.conllu"
    plain.write_bytes(gzip.decompress(compressed.read_bytes()))
    return plain, compressed, read_treebank(plain)


def bytes_alone(path):
    """Read all bytes, and find the line ends."""

    def read():
        with open_bytes(path) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(PIECE_SIZE), b""))

    return Floor("bytes", read)


def splitting(path):
    """Split lines without any check, and look up the code of each field in a dict."""
    opener = gzip.open if path.suffix == ".gz" else open

    def read():
        tables, sentences, words = [{"_": 0} for _ in range(6)], [], []
        with opener(path, "rt", encoding="utf-8") as file:
            for line in file:
                if line[0].isdigit():
                    row = line.split("\t")
                    if row[0].isdigit():
                        fields = [*row[1:6], row[7]]
                        words.append(
                            [t.setdefault(s, len(t)) for t, s in zip(tables, fields)]
                            + [int(row[6])]
                        )
                elif line == "\n" and words:
                    sentences.append(words)
                    words = []

    return read


def by_conllu(path):
    import conllu

    return lambda: conllu.parse(path.read_text(encoding="utf-8"))


def by_pyconll(path):
    import pyconll

    return lambda: pyconll.load_from_file(str(path))


def by_udpipe(path):
    from ufal.udpipe import InputFormat, ProcessingError, Sentence

    def read():
        reader, sentence, error = InputFormat.newConlluInputFormat(), Sentence(), ProcessingError()
        reader.setText(path.read_text(encoding="utf-8"))
        while reader.nextSentence(sentence, error):
            pass

    return read


@pytest.mark.parametrize("how", ["whole", "gz", "stream", "shuffled"])
def test_conllu(measure, corpus, how):
    path, compressed, treebank = corpus
    functions = {
        "whole": lambda: read_treebank(path),
        "gz": lambda: read_treebank(compressed),
        "stream": lambda: [None for _ in stream_conllu(path).blocks()],
        "shuffled": lambda: [None for _ in stream_conllu(path).shuffled(random_state=0).blocks()],
    }
    peers = {"splitting lines": lambda: splitting(compressed if how == "gz" else path)}
    if how == "whole":
        peers["UDPipe"] = lambda: by_udpipe(path)
    peers = peers if how in ("whole", "gz") else {}
    seconds = measure(
        functions[how], floor=bytes_alone(compressed if how == "gz" else path), peers=peers
    )
    measure.note(million_tokens_a_second=treebank.n_words / seconds / 1e6)


def test_sentences_as_lists_of_strings(measure, corpus):
    """Stream sentences, and decode all their columns."""
    path, _, treebank = corpus
    peers = {"conllu": lambda: by_conllu(path), "pyconll": lambda: by_pyconll(path)}

    def read():
        for sentence in (
            sentence for block in stream_conllu(path).blocks() for sentence in block.X
        ):
            for name in COLUMNS:
                getattr(sentence, name)

    seconds = measure(read, floor=bytes_alone(path), peers=peers)
    measure.note(million_tokens_a_second=treebank.n_words / seconds / 1e6)


def test_writing(measure, corpus, tmp_path):
    """Write new heads and relations of all words."""
    treebank, target = corpus[2], tmp_path / "out.conllu"
    changed = treebank.with_column("heads", np.zeros(treebank.n_words)).with_column(
        "deprels", treebank.deprels
    )
    floor = Floor("bytes", lambda: (tmp_path / "floor").write_bytes(treebank.text))
    measure(lambda: write_treebank(target, changed), floor=floor)


def test_a_treebank_of_sentences_made_in_python(measure, corpus):
    sentences = list(corpus[2])
    measure(lambda: Treebank.from_sentences(sentences), floor=stream(corpus[0].stat().st_size))


@pytest.mark.parametrize("how", ["stream", "whole", "whole without text"])
def test_memory_of_reading(measure, corpus, how):
    """Note the peak of memory allocated by Python and numpy."""
    functions = {
        "stream": lambda: [None for _ in stream_conllu(corpus[0]).blocks()],
        "whole": lambda: read_treebank(corpus[0]),
        "whole without text": lambda: read_treebank(corpus[0], keep_text=False),
    }
    tracemalloc.start()
    functions[how]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    measure(functions[how])
    measure.note(peak_mb=peak / 1e6)
