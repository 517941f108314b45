"""A small good file for every reader, and what reads it."""

import bz2
import gzip
import io
import lzma
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from omkl.data import (
    find_format,
    iter_words,
    open_stream,
    read_ocr,
    read_sequences,
    read_treebank,
    read_uci,
    stream_csv,
)
from omkl.features.fields import Lexicon
from omkl.groups import TemplateSet

CONLLU = (
    "# text = No way\n1-2\tNoway\t_\t_\t_\t_\t_\t_\t_\t_\n1\tNo\tno\tDET\tDT\tA=1|B=2\t2\tdet\t_\t_\n"
    "2\tway\tway\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No\n2.1\te\t_\t_\t_\t_\t_\t_\t0:root\t_\n\n"
    "1\té\te\tX\t_\t_\t0\troot\t_\t_\n\n"
)
JSON = {
    "words": '{"x": ["a", "b"], "y": ["A", "B"]}\n{"x": ["c"], "y": [1]}\n',
    "numbers": '{"x": [[0.5, 1], [2, 3e2]], "y": [1, 2]}\n\n{"x": [[1, 2]], "y": [null]}\n',
    "dicts": '{"x": [{"w": "a", "v": [1, 2], "d": {"e": 1}, "n": null, "s": ["p", "q"]}], "y": [["t", 1]]}\n' * 2,
    "attributes": '{"x": [["w=a", "b:2"], []]}\n{"x": [["w=a"]]}\n',
}


def small_files() -> Iterator[tuple[str, bytes]]:
    """Names of files, and what is in them."""
    rng = np.random.default_rng(0)
    svm = b"".join(b"%d 1:%.3g 3:%.17g # c\n" % (k % 2, k, rng.standard_normal()) for k in range(20))
    csv = 'a,b,"c ""d",y\n' + "".join(f'{k},{k / 3},"s\n{k}",{k % 3}\n' for k in range(20))
    yield "a.svm", svm
    yield "a.csv", csv.encode()
    yield "c.csv", b"when,x\n" + b"".join(b"2024-02-%02d %02d:00:00.5,%d\n" % (k + 1, k, k) for k in range(20))
    yield "b.csv", b"".join(b"%d,%.17g,NA,0\r\n" % (k, rng.standard_normal()) for k in range(20))
    for name, text in JSON.items():
        yield f"{name}.jsonl", text.encode()
    yield "a.crfsuite", b"B\tw=dog\tlen:3\tflag\nO\tw=a\\:b\tt=x\tt=y:0.5\n\nB\tw=cat\n"
    yield "a.conllu", CONLLU.encode()
    yield "a.conllx", CONLLU.replace("1-2\tNoway\t_\t_\t_\t_\t_\t_\t_\t_\n", "").encode()
    line = "{}\tNo\tno\tDT\tDT\tNo\tno\tDT\t{}\tx\t_\tA0\n"
    yield "a.conll08", (line.format(1, 2) + line.format(2, 0) + "\n").encode()
    pixels = "\t".join(["0"] * 127 + ["1"])
    yield "a.columns", b"-DOCSTART- -X- O O\n\nNo DET\tB-x\nway NN  O\n\nyes UH O\n"
    yield "letter.data", f"1\to\t2\t1\t1\t0\t{pixels}\t\n2\tk\t-1\t1\t2\t0\t{pixels}\t\n".encode()
    yield "uci.table", b"f,g,y\n" + b"".join(b"%d,%.3g,%d\n" % (k, k / 7, 2 * (k % 2) - 1) for k in range(9))
    yield "words.txt", "No way\n\nÉ vero .\n".encode()
    yield "brown.lexicon", b"No\t0110\nway\t0111\n"
    yield "some.templates", b"h.form m.form\nh.lemma m-1.upos distance\nh.misc:Gloss # why\n\nm.Case direction\n"
    for name, compress in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        yield f"c.svm{name}", compress(svm)
    yield from _arrays(rng)
    yield from _tables(rng)


def _arrays(rng):
    X, y = rng.standard_normal((9, 3)), np.arange(9) % 3
    for name, save in (("a.npz", np.savez), ("b.npz", np.savez_compressed)):
        sink = io.BytesIO()
        save(sink, X=X, y=y)
        yield name, sink.getvalue()
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_LZMA) as archive:
        member = io.BytesIO()
        np.save(member, X)
        archive.writestr("X.npy", member.getvalue())
    yield "c.npz", sink.getvalue()


def _tables(rng):
    n = 40
    columns = {
        "a": rng.standard_normal(n),
        "i": rng.integers(0, 99, n),
        "s": ["x" * k for k in rng.integers(0, 5, n)],
        "d": pa.array(["u", "v"] * (n // 2)).dictionary_encode(),
        "v": [[1.0, 2.0]] * n,
        "f": pa.array([[1, 2]] * n, pa.list_(pa.int32(), 2)),
        "b": [True, None] * (n // 2),
        "l": pa.array(["q"] * n, pa.large_string()),
        "y": rng.integers(0, 3, n),
    }
    table = pa.table(columns)
    plain = {"compression": "none", "use_dictionary": False, "row_group_size": 10}
    for name, options in (("a.parquet", {}), ("b.parquet", {**plain, "write_page_checksum": True})):
        sink = io.BytesIO()
        pyarrow.parquet.write_table(table, sink, **options)
        yield name, sink.getvalue()
    for name, options in (("a.feather", {"compression": "lz4"}), ("b.feather", {"compression": "uncompressed"})):
        sink = io.BytesIO()
        pyarrow.feather.write_feather(table, sink, chunksize=15, **options)
        yield name, sink.getvalue()


def reader_of(name: str) -> Callable[[Path], None]:
    """What reads a file of that name, whole, as it comes and leaving out what is wrong."""
    plain = {
        "letter.data": read_ocr,
        "uci.table": read_uci,
        "brown.lexicon": lambda path: Lexicon.of(path, "brown"),
        "some.templates": TemplateSet.resolve,
        "words.txt": lambda path: list(iter_words(path)),
    }
    if name in plain:
        return plain[name]
    options = {"a.csv": {"target": "y"}, "b.csv": {"header": False, "target": -1}}.get(name, {})
    if name.endswith((".parquet", ".feather")):
        options = {"target": "y"}

    def read(path):
        n_skipped = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                stream = (stream_csv if name == "b.csv" else open_stream)(path, on_error="skip", **options)
                n_read = _pass(stream)
                n_skipped = stream.skipped
        finally:
            # nothing that is read whole is read otherwise where what is wrong may be left out
            if n_skipped != 0:
                _pass((stream_csv if name == "b.csv" else open_stream)(path, **options))
                assert n_skipped is None, "what was skipped is not refused"
        if find_format(path).holds == "trees":
            assert len(read_treebank(path)) == n_read
        elif find_format(path).holds == "sequences":
            assert len(read_sequences(path)[0]) == n_read

    return read


def _pass(stream):
    n = 0
    for X, y in stream.blocks():
        for values in (X, y):
            if isinstance(values, np.ndarray) and values.dtype.kind == "f":
                assert not np.isinf(values).any() or isinstance(values, np.memmap) or values.base is not None
        n += X.shape[0] if hasattr(X, "shape") else len(X)
    return n
