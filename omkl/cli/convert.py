"""``omkl convert``: a file of data in another format, or a model as text and back."""

import zipfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omkl import data, estimators
from omkl.cli.common import OUTPUT, ROWS, add_command, add_options, report
from omkl.cli.model_text import BEGIN, model_as_text, model_of_text
from omkl.cli.outputs import save_model
from omkl.cli.rows import open_rows
from omkl.exceptions import InputError

#: What the formats of outputs hold.
FORMATS = {
    "model": ("text", "npz"), "rows": ("svmlight", "csv", "parquet", "arrow", "npz"),
    "sequences": ("crfsuite", "columns", "jsonl"),
    "trees": ("conllu", "crfsuite", "columns", "jsonl"),
}  # fmt: skip
#: Formats by the ends of names that they are not called by.
SUFFIXES = {
    "svm": "svmlight", "libsvm": "svmlight", "txt": "text", "iob": "columns", "bio": "columns", "pq": "parquet",
    "feather": "arrow", "ipc": "arrow",
}  # fmt: skip


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "convert",
        summary="write data in another format, or a model as text and back",
        description="Write sequences as attributes of CRFsuite, columns (CRF++, CoNLL 2000 to 2003) or JSON lines; "
        "with the templates of CRF++, columns become attributes. Treebanks (CoNLL-X, CoNLL-2008, CoNLL-U) become "
        "CoNLL-U, or sequences of words with their UPOS; rows svmlight, CSV, Parquet, Arrow or npz. A model becomes "
        "text, a JSON value a line, from which the same model is made, bit for bit; and a model of CRFsuite becomes a "
        "labeler.",
        examples="""
            omkl convert train.columns -o train.crfsuite --template template
            omkl convert eng.train --format columns -o train.jsonl
            omkl convert train.csv --target species -o train.svm
            omkl convert "sales/*.parquet" --target price -o sales.csv
            omkl convert old.conll --format conllx -o new.conllu
            omkl convert model.npz -o model.txt                 # and back: model.txt -o model.npz
            omkl convert crfsuite.model -o labeler.npz
        """,
    )
    parser.add_argument("input", help="file of data, or a model, also one of CRFsuite (- for standard input)")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE",
        help="file to write, compressed if it ends in .gz or .xz (- for standard output)",
    )  # fmt: skip
    parser.add_argument(
        "--to", choices=sorted({name for names in FORMATS.values() for name in names}),
        help="format to write; by default what the output's name ends in",
    )  # fmt: skip
    add_options(parser, "--template", "--format", *ROWS, "--on-error", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Convert a file."""
    kind = _kind(arguments)
    if kind == "crfsuite model":
        save_model(estimators.SequenceLabeler.from_crfsuite(arguments.input), arguments)
        report(arguments, [f"Saved to {arguments.output}."], {"output": arguments.output})
        return
    to = _form(arguments, kind.split()[-1])
    if arguments.template and (kind != "sequences" or to == "columns"):
        raise InputError("--template makes attributes of columns: read --format columns, and write crfsuite or jsonl.")
    counts = CONVERTERS[kind](arguments, to)
    done = " and ".join(f"{n} {what}" for what, n in counts.items())
    report(arguments, [f"Wrote {done} as {to}: {arguments.output}"], {**counts, "output": arguments.output})


def _kind(arguments: Namespace) -> str:
    """What the input holds."""
    path = arguments.input
    start = b""
    if Path(path).exists() and not Path(path).is_dir():  # else it stands for several files of data, or a URL
        with open(path, "rb") as file:
            start = file.read(len(BEGIN))
    if start.startswith(b"lCRF"):
        return "crfsuite model"
    if start == BEGIN:
        return "text model"
    if start.startswith(b"PK") and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "manifest.json" in archive.namelist():  # no arrays of numpy's
                return "model"
    if arguments.format is None:
        arguments.format = "columns" if arguments.template else _guessed(path)
    if arguments.format in LAYOUTS:
        return "trees"
    return data.find_format(path, arguments.format).holds


#: Formats of treebanks beside CoNLL-U, which their readers tell by what is in a file.
LAYOUTS = ("conllx", "conll2008")


def _guessed(path):
    """The name of the format that a file's name stands for."""
    from omkl.data.files import find_files, stem
    from omkl.data.treebank_formats import SUFFIXES as LAYOUT_SUFFIXES

    name = find_files(path)[0].name
    format = data.find_format(path)
    suffixes = (*format.suffixes, *(f"{suffix}{end}" for suffix in format.suffixes for end in (".gz", ".xz", ".bz2")))
    if not name.lower().endswith(suffixes):
        raise InputError(f"{path} could be in any format, by its name: say which with --format.")
    layout = LAYOUT_SUFFIXES.get(Path(stem(name)).suffix.lower())
    return layout or next(iter(format.aliases))


def _form(arguments: Namespace, kind: str) -> str:
    """The format to write."""
    to = arguments.to
    if to is None:
        from omkl.data.files import stem

        end = stem(arguments.output).rpartition(".")[2].lower()
        to = SUFFIXES.get(end, end)
    if to not in FORMATS[kind]:
        what = f"{arguments.output} has none of their names" if arguments.to is None else f"{to} is none of them"
        raise InputError(f"{arguments.input} holds {kind}, which is written as {', '.join(FORMATS[kind])}, and {what}: "
                         "say which with --to.")  # fmt: skip
    return to


def _convert_sequences(arguments: Namespace, to: str) -> dict[str, int]:
    stream = data.stream_sequences(arguments.input, arguments.format, on_error=arguments.on_error)
    pairs = ((x, y) for X, Y in stream.blocks() for x, y in zip(X, [None] * len(X) if Y is None else Y))
    if arguments.template:
        from omkl.estimators.token_templates import TokenTemplates

        templates = TokenTemplates(arguments.template)
        pairs = ((templates.features(_with_columns(x, arguments), [0, len(x)]), y) for x, y in pairs)
    return _write_sequences(pairs, arguments, to)


def _with_columns(x, arguments):
    if not all(isinstance(token, dict) and all(isinstance(cell, str) for cell in token.values()) for token in x):
        raise InputError(f"--template looks at columns, and {arguments.input} has none: read it with --format columns.")
    return x


def _write_sequences(pairs: Any, arguments: Namespace, to: str) -> dict[str, int]:
    n_sequences, n_tokens = data.write_sequences(arguments.output, _with_attributes(pairs, to), to)
    return {"sequences": n_sequences, "tokens": n_tokens}


def _with_attributes(pairs: Any, to: str) -> Iterator[tuple[Any, Any]]:
    """Words with the attributes that labelers make of them, for a format of attributes."""
    from omkl.features import token_features

    for x, y in pairs:
        yield (token_features(x) if to == "crfsuite" and all(isinstance(token, str) for token in x) else x), y


def _convert_trees(arguments: Namespace, to: str) -> dict[str, int]:
    reading: dict[str, Any] = {"trees": False, "on_error": arguments.on_error, "format": arguments.format}
    # without its text a treebank is written as CoNLL-U, whatever it was
    blocks = data.iter_treebank(arguments.input, **reading, keep_text=arguments.format == "conllu")
    if to != "conllu":
        from omkl.data.sequences import tagged

        pairs = (tagged(sentence) for block in blocks for sentence in block)
        return _write_sequences(pairs, arguments, to)
    n_sentences = n_words = 0
    with data.treebank_writer(arguments.output) as writer:
        for block in blocks:
            writer.write(block)
            n_sentences, n_words = n_sentences + len(block), n_words + block.n_words
    return {"sentences": n_sentences, "words": n_words}


def _convert_rows(arguments: Namespace, to: str) -> dict[str, int]:
    stream = open_rows(arguments.input, arguments)
    return {"rows": data.write_rows(arguments.output, stream.blocks(), to, arguments.target)}


def _write_text(arguments: Namespace, to: str) -> dict[str, int]:
    if to != "text":
        raise InputError(f"{arguments.input} is a model already: write it as text, or copy it.")
    return {"arrays": model_as_text(arguments.input, arguments.output)}


def _read_text(arguments: Namespace, to: str) -> dict[str, int]:
    if to != "npz":
        raise InputError(f"{arguments.input} is the text of a model already: write it as npz, or copy it.")
    return {"arrays": model_of_text(arguments.input, arguments.output)}


CONVERTERS = {
    "sequences": _convert_sequences, "trees": _convert_trees, "rows": _convert_rows, "model": _write_text,
    "text model": _read_text,
}  # fmt: skip
