"""A stream of any file, by its name."""

from omkl.data.array_files import stream_npy, stream_npz
from omkl.data.files import find_files, stem
from omkl.data.sequences import stream_sequences
from omkl.data.svmlight import stream_svmlight
from omkl.data.tables import stream_csv, stream_parquet
from omkl.data.treebank_stream import stream_conllu
from omkl.exceptions import InputError

#: The formats, and the suffixes that stand for them.
FORMATS = {
    "svmlight": (".svm", ".svmlight", ".libsvm"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc"),
    "npz": (".npz",),
    "npy": (".npy",),
    "conllu": (".conllu", ".conllx", ".conll06", ".conll07", ".conll08", ".conll2008"),
    "jsonl": (".jsonl",),
    "crfsuite": (".crfsuite",),
}


def open_stream(path, format=None, target=None, **options):
    """Stream a file of any format.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    format : str, optional
        ``"svmlight"``, ``"csv"``, ``"parquet"`` (and what Arrow writes itself), ``"npz"``, ``"npy"``, ``"conllu"``
        (treebanks), ``"jsonl"`` or ``"crfsuite"`` (labelled sequences). Guessed from the name of the first file by
        default, and svmlight where the name says nothing, as those of LIBSVM's data sets.
    target : optional
        Where the outputs are: the name or place of a column (``csv``, ``parquet``), the name of an array (``npz``),
        or a second file (``npy``). The other formats know.
    **options
        What the reader of the format takes, such as ``n_features``, ``block_size`` and ``on_error``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.InputError
        If the format is none of these, or does not take an option.
    """
    first = find_files(path)[0]
    format = stream_format(path, format)
    if format == "csv" and stem(first).endswith(".tsv"):
        options = {"delimiter": "\t"} | options
    try:
        return _open(path, format, target, options)
    except TypeError as error:
        raise InputError(f"{first} is read as {format}: {error}.") from None


def stream_format(path, format=None):
    """The format that :func:`open_stream` reads a file in: the given one, else what its name says."""
    if format is None:
        name = stem(find_files(path)[0]).lower()
        return next((format for format, suffixes in FORMATS.items() if name.endswith(suffixes)), "svmlight")
    if format not in FORMATS:
        raise InputError(f"Unknown format {format!r}: choose one of {', '.join(FORMATS)}.")
    return format


def _open(path, format, target, options):
    if format in ("csv", "parquet"):
        return (stream_csv if format == "csv" else stream_parquet)(path, target, **options)
    if format == "npy":
        return stream_npy(path, target, **options)
    if format == "npz":
        return stream_npz(path, **({} if target is None else {"y": target}), **options)
    if target is not None:
        raise InputError(f"A file read as {format} holds its outputs in places of their own: leave target= out.")
    if format == "svmlight":
        return stream_svmlight(path, **options)
    if format == "conllu":
        return stream_conllu(path, **options)
    return stream_sequences(path, format, **options)
