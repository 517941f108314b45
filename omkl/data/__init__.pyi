from .array_files import stream_npy, stream_npz
from .attribute_templates import AttributeTemplate, read_attribute_templates, templated
from .crfsuite_models import CRFsuiteModel, read_crfsuite_model
from .csv_files import stream_csv
from .datasets import (
    HandwrittenDates,
    HandwrittenWords,
    handwritten_dates,
    read_mfeat,
    read_ocr,
    read_uci,
    standardized_split,
)
from .digits import digit_views
from .file_streams import StreamFormat
from .files import data_home, lines, output_file
from .formats import find_format, open_stream
from .frames import stream_frames
from .row_writer import write_rows
from .sequence_writer import write_sequences
from .sequences import read_sequences, stream_sequences
from .streams import Block, Stream
from .strings import Strings
from .svmlight import count_svmlight_features, stream_svmlight
from .synthetic import synthetic_treebank
from .tables import stream_parquet
from .treebank import Sentence, Treebank
from .treebank_output import TreebankWriter, treebank_writer, write_treebank
from .treebank_reader import iter_treebank, read_conllu, read_treebank, stream_conllu
from .words import iter_words

__all__ = [
    "AttributeTemplate",
    "Block",
    "CRFsuiteModel",
    "HandwrittenDates",
    "HandwrittenWords",
    "Sentence",
    "Stream",
    "StreamFormat",
    "Strings",
    "Treebank",
    "TreebankWriter",
    "count_svmlight_features",
    "data_home",
    "digit_views",
    "find_format",
    "handwritten_dates",
    "iter_treebank",
    "iter_words",
    "lines",
    "open_stream",
    "output_file",
    "read_attribute_templates",
    "read_conllu",
    "read_crfsuite_model",
    "read_mfeat",
    "read_ocr",
    "read_sequences",
    "read_treebank",
    "read_uci",
    "standardized_split",
    "stream_conllu",
    "stream_csv",
    "stream_frames",
    "stream_npy",
    "stream_npz",
    "stream_parquet",
    "stream_sequences",
    "stream_svmlight",
    "synthetic_treebank",
    "templated",
    "treebank_writer",
    "write_rows",
    "write_sequences",
    "write_treebank",
]
