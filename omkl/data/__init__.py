"""Readers of public data sets and formats, and data that needs no download."""

from omkl.data.conll import Sentence, tagging_features
from omkl.data.dates import HandwrittenDates, handwritten_dates
from omkl.data.files import data_home
from omkl.data.ocr import HandwrittenWords, read_ocr
from omkl.data.sequences import read_sequences
from omkl.data.streams import Block, Stream
from omkl.data.strings import Strings
from omkl.data.synthetic import synthetic_treebank
from omkl.data.treebank import Treebank
from omkl.data.treebank_reader import iter_treebank, read_conllu, read_treebank
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
    "data_home",
    "handwritten_dates",
    "iter_treebank",
    "read_conllu",
    "read_ocr",
    "read_sequences",
    "read_treebank",
    "read_uci",
    "standardized_split",
    "synthetic_treebank",
    "tagging_features",
    "treebank_writer",
    "write_treebank",
]
