"""Reading and writing the English training set, beside a plain reader and what the bytes alone cost."""

import gzip
import time

import numpy as np
import pytest

from omkl.data import Treebank, iter_treebank, read_conllu, read_treebank, write_treebank
from omkl.data.files import chunks, open_bytes, pieces
from omkl.data.treebank_formats import LAYOUTS
from omkl.data.treebank_reader import PIECE_SIZE, Scanned, _last_boundary


def cpu(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def best(function, *arguments, rounds=5):
    return min(cpu(function, *arguments)[0] for _ in range(rounds))


@pytest.fixture(scope="module")
def corpus(real_data, tmp_path_factory):
    """The plain file, the compressed one, and the number of tokens."""
    compressed = real_data("ud/UD_English-EWT/en_ewt-ud-train.conllu.gz")
    plain = tmp_path_factory.mktemp("corpus") / "train.conllu"
    plain.write_bytes(gzip.decompress(compressed.read_bytes()))
    return plain, compressed, read_treebank(plain).n_words


def plain_reader(path):
    """Words of each sentence by splitting lines, with no check at all, and each field's codes from a dict."""
    opener = gzip.open if path.suffix == ".gz" else open
    tables, sentences, words = [{"_": 0} for _ in range(6)], [], []
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line[0].isdigit():
                row = line.split("\t")
                if row[0].isdigit():
                    fields = [*row[1:6], row[7]]
                    words.append([t.setdefault(s, len(t)) for t, s in zip(tables, fields)] + [int(row[6])])
            elif line == "\n" and words:
                sentences.append(words)
                words = []
    return sentences


def pass_over(path):
    """Read all bytes, and find the line ends."""
    with open_bytes(path) as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(PIECE_SIZE), b""))


def scan_only(path):
    """Words and fields, without their codes, and no check of trees or of UTF-8."""
    texts = pieces(chunks(path), PIECE_SIZE, _last_boundary)
    return sum(len(Scanned.of(text, LAYOUTS["conllu"]).heads) for text in texts)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gz"])
def test_reading(benchmark, corpus, compressed):
    path, n_words = corpus[compressed], corpus[2]
    seconds = []
    benchmark.pedantic(lambda: seconds.append(cpu(read_treebank, path)[0]), rounds=7, warmup_rounds=1)
    naive, floor, scanned = best(plain_reader, path, rounds=2), best(pass_over, path), best(scan_only, path)
    rate = n_words / min(seconds)
    print(
        f"\n{path.name}: {rate / 1e6:.2f} M tokens/s ({path.stat().st_size / min(seconds) / 1e6:.0f} MB/s of file); "
        f"a plain reader without checks {n_words / naive / 1e6:.2f} M/s: {naive / min(seconds):.1f} x as fast; "
        f"floors: bytes alone {n_words / floor / 1e6:.1f} M/s, scan without codes {n_words / scanned / 1e6:.1f} M/s"
    )
    benchmark.extra_info.update(tokens_per_second=rate, plain_reader=n_words / naive, bytes_alone=n_words / floor)


def test_sentences_as_lists_of_strings(benchmark, corpus):
    """Streaming, all columns of all sentences made."""
    path, _, n_words = corpus
    names = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels")

    def read():
        for sentence in read_conllu(path):
            for name in names:
                getattr(sentence, name)

    seconds = []
    benchmark.pedantic(lambda: seconds.append(cpu(read)[0]), rounds=5, warmup_rounds=1)
    print(f"\nsentences with all columns as lists: {n_words / min(seconds) / 1e6:.2f} M tokens/s")


def test_writing(benchmark, corpus, tmp_path):
    """New heads and relations in all words."""
    path, _, n_words = corpus
    treebank = read_treebank(path)
    heads, deprels = np.zeros(n_words, np.int32), (treebank.deprels, treebank.strings["deprels"])
    seconds = []
    target = tmp_path / "out.conllu"
    benchmark.pedantic(
        lambda: seconds.append(cpu(write_treebank, target, treebank, heads, deprels)[0]), rounds=5, warmup_rounds=1
    )
    copied = best(target.write_bytes, treebank.text)
    rate, floor = n_words / min(seconds) / 1e6, n_words / copied / 1e6
    print(f"\nwriting: {rate:.2f} M tokens/s; the same bytes alone {floor:.1f} M/s")


def test_sentences_made_in_python(benchmark, corpus):
    treebank = read_treebank(corpus[0])
    sentences = list(treebank)
    Treebank.from_sentences(sentences)
    seconds = []
    benchmark.pedantic(lambda: seconds.append(cpu(Treebank.from_sentences, sentences)[0]), rounds=3)
    print(f"\na treebank of sentences made in Python: {corpus[2] / min(seconds) / 1e6:.2f} M tokens/s")


def test_streaming_needs_the_memory_of_a_block(benchmark, corpus):
    """Peak of the memory that Python and numpy allocate, streaming in blocks and reading whole."""
    import tracemalloc

    def peak(function):
        tracemalloc.start()
        function()
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size / 1e6

    streamed = benchmark.pedantic(peak, args=[lambda: [None for _ in iter_treebank(corpus[0])]], rounds=1)
    whole, codes = peak(lambda: read_treebank(corpus[0])), peak(lambda: read_treebank(corpus[0], keep_text=False))
    print(f"\npeak memory: streaming {streamed:.1f} MB, whole {whole:.1f} MB, whole without text {codes:.1f} MB")
