"""Readers of public data sets and formats, and data that needs no download."""

from omkl.data.conll import Sentence, read_conllu, tagging_features
from omkl.data.dates import HandwrittenDates, handwritten_dates
from omkl.data.files import data_home
from omkl.data.ocr import HandwrittenWords, read_ocr
from omkl.data.sequences import read_sequences

__all__ = [
    "HandwrittenDates",
    "HandwrittenWords",
    "Sentence",
    "data_home",
    "handwritten_dates",
    "read_conllu",
    "read_ocr",
    "read_sequences",
    "tagging_features",
]
