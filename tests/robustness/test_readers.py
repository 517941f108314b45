"""Readers of damaged files raise errors of omkl with one sentence."""

import gzip
import io
import warnings

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from omkl.data import find_format, open_stream, read_ocr, read_sequences, read_treebank
from omkl.exceptions import OmklError
from omkl.features.lexicons import Lexicon
from omkl.groups import TemplateSet

#: Damaged files of each format.
N_FILES = 60
TOKENS = [
    b"\n", b"\t", b",", b'"', b":", b" ", b"\0", b"\xff", b"\xef\xbb\xbf", b"#", b"{", b"}",
    b"[" * 2000, b"]", b"nan", b"1e999", b"-1", b"0", b"9" * 25, b"_", b"=", b"\r", b"\\", b"qid:",
    "é".encode(), b"x" * 5000,
]  # fmt: skip
CONLLU = (
    "# text = No"
    " way\n1-2\tNoway\t_\t_\t_\t_\t_\t_\t_\t_\n1\tNo\tno\tDET\tDT\tA=1|B=2\t2\tdet\t_\t_\n"
    "2\tway\tway\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No\n2.1\te\t_\t_\t_\t_\t_\t_\t0:root\t_\n\n"
    "1\té\te\tX\t_\t_\t0\troot\t_\t_\n\n"
)
JSON = (
    '{"x": [[0.5, 1], [2, 3e2]], "y": [1, 2]}\n\n{"x": [[1, 2]], "y": [null]}\n',
    '{"x": [{"w": "a", "v": [1, 2], "d": {"e": 1}, "n": null, "s": ["p", "q"]}], "y": [["t", 1]]}\n'
    * 2,
)


def good_files():
    """A small file of each format."""
    rng = np.random.default_rng(0)
    n = 40
    svm = b"".join(
        b"%d 1:%.3g 3:%.17g # c\n" % (k % 2, k, rng.standard_normal()) for k in range(20)
    )
    pixels = "\t".join(["0"] * 127 + ["1"])
    table = pa.table(
        {
            "a": rng.standard_normal(n),
            "s": ["x" * k for k in rng.integers(0, 5, n)],
            "d": pa.array(["u", "v"] * (n // 2)).dictionary_encode(),
            "b": [True, None] * (n // 2),
            "y": rng.integers(0, 3, n),
        }
    )
    parquet = io.BytesIO()
    feather = io.BytesIO()
    npz = io.BytesIO()
    pyarrow.parquet.write_table(table, parquet)
    pyarrow.feather.write_feather(table, feather, chunksize=15)
    np.savez_compressed(
        npz,
        X=rng.standard_normal((9, 3)),
        y=np.arange(9) % 3,
    )
    return {
        "a.svm": svm,
        "a.svm.gz": gzip.compress(svm),
        "a.csv": (
            (
                'a,b,"c ""d",y\n' + "".join(f'{k},{k / 3},"s\n{k}",{k % 3}\n' for k in range(20))
            ).encode()
        ),
        "a.jsonl": JSON[0].encode(),
        "b.jsonl": JSON[1].encode(),
        "a.crfsuite": b"B\tw=dog\tlen:3\tflag\nO\tw=a\\:b\tt=x\tt=y:0.5\n\nB\tw=cat\n",
        "a.columns": b"-DOCSTART- -X- O O\n\nNo DET\tB-x\nway NN  O\n\nyes UH O\n",
        "a.conllu": CONLLU.encode(),
        "letter.data": f"1\to\t2\t1\t1\t0\t{pixels}\t\n2\tk\t-1\t1\t2\t0\t{pixels}\t\n".encode(),
        "brown.lexicon": b"No\t0110\nway\t0111\n",
        "some.templates": (
            b"h.form m.form\nh.lemma m-1.upos distance\nh.misc:Gloss # why\n\nm.Case direction\n"
        ),
        "a.parquet": parquet.getvalue(),
        "a.feather": feather.getvalue(),
        "a.npz": npz.getvalue(),
    }


FILES = good_files()


def read(path):
    """Read a file whole and block by block, also leaving out bad records."""
    plain = {
        "letter.data": read_ocr,
        "brown.lexicon": lambda path: Lexicon.of(path, "brown"),
        "some.templates": TemplateSet.resolve,
    }
    if path.name in plain:
        plain[path.name](path)
        return
    target = {"target": "y"} if path.suffix in (".csv", ".parquet", ".feather") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stream = open_stream(path, on_error="skip", **target)
        n_read = sum(block.n_examples for block in stream.blocks())
    if not stream.skipped:
        kind = find_format(path).holds
        if kind == "rows":
            open_stream(path, **target).read()
        elif kind == "trees":
            assert n_read == len(read_treebank(path))
        else:
            assert n_read == len(read_sequences(path)[0])


def refusal(path):
    """The message of the error with which a file is refused, empty if it is read."""
    try:
        read(path)
    except OmklError as error:
        return str(error)
    return ""


def damaged(data, rng):
    """The same bytes with one to four flips, cuts, repeats, tokens or numbers."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(len(data) + 1))
        n = int(rng.integers(1, 40))
        data[at : at + rng.choice([0, 1, n])] = [
            bytes([int(rng.integers(256))]),
            b"",
            data[at : at + n],
            TOKENS[rng.integers(len(TOKENS))],
            int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1])).to_bytes(4, "little"),
        ][rng.integers(5)]
    return bytes(data)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of pyarrow
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_raise_errors_of_omkl(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    read(path)
    for k in range(N_FILES):
        path.write_bytes(damaged(FILES[name], np.random.default_rng([list(FILES).index(name), k])))
        said = refusal(path)
        assert "\n" not in said
        assert len(said) < 1000
