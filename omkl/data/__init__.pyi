from .blocks import Block
from .csv_files import stream_csv
from .datasets import HandwrittenWords, digit_views, handwritten_dates, read_ocr, read_uci
from .files import data_home, lines, output_file
from .formats import StreamFormat, find_format, open_stream, stream_npz
from .graphs import Graph, grid, read_graphs, write_graphs
from .sequences import read_sequences, stream_sequences, write_sequences
from .streams import Stream
from .svmlight import count_svmlight_features, stream_svmlight
from .tables import stream_frames, stream_parquet
from .treebank.conllu import iter_words, read_treebank, stream_conllu, write_treebank
from .treebank.strings import Strings
from .treebank.synthetic import synthetic_treebank
from .treebank.treebank import Sentence, Treebank

__all__ = [
    "Block",
    "Graph",
    "HandwrittenWords",
    "Sentence",
    "Stream",
    "StreamFormat",
    "Strings",
    "Treebank",
    "count_svmlight_features",
    "data_home",
    "digit_views",
    "find_format",
    "grid",
    "handwritten_dates",
    "iter_words",
    "lines",
    "open_stream",
    "output_file",
    "read_graphs",
    "read_ocr",
    "read_sequences",
    "read_treebank",
    "read_uci",
    "stream_conllu",
    "stream_csv",
    "stream_frames",
    "stream_npz",
    "stream_parquet",
    "stream_sequences",
    "stream_svmlight",
    "synthetic_treebank",
    "write_graphs",
    "write_sequences",
    "write_treebank",
]
