"""Readers of public data sets and formats, streams, and data that needs no download."""

from omkl.data.array_files import stream_npy, stream_npz
from omkl.data.conll import Sentence, tagging_features
from omkl.data.dates import HandwrittenDates, handwritten_dates
from omkl.data.files import data_home
from omkl.data.ocr import HandwrittenWords, read_ocr
from omkl.data.open_stream import open_stream
from omkl.data.sequences import read_sequences, stream_sequences
from omkl.data.streams import Block, Stream
from omkl.data.strings import Strings
from omkl.data.svmlight import count_svmlight_features, stream_svmlight
from omkl.data.synthetic import synthetic_treebank
from omkl.data.tables import stream_csv, stream_parquet
from omkl.data.treebank import Treebank
from omkl.data.treebank_reader import iter_treebank, read_conllu, read_treebank
from omkl.data.treebank_stream import stream_conllu
from omkl.data.treebank_writer import TreebankWriter, treebank_writer, write_treebank
from omkl.data.uci import read_uci, standardized_split

__all__ = [
    "Block",
    "HandwrittenDates",
    "HandwrittenWords",
    "Sentence",
    "Stream",
    "Strings",
    "Treebank",
    "TreebankWriter",
    "count_svmlight_features",
    "data_home",
    "handwritten_dates",
    "iter_treebank",
    "open_stream",
    "read_conllu",
    "read_ocr",
    "read_sequences",
    "read_treebank",
    "read_uci",
    "standardized_split",
    "stream_conllu",
    "stream_csv",
    "stream_npy",
    "stream_npz",
    "stream_parquet",
    "stream_sequences",
    "stream_svmlight",
    "synthetic_treebank",
    "tagging_features",
    "treebank_writer",
    "write_treebank",
]
