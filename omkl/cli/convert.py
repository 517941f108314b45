"""``omkl convert``: write sequences or trees in another format."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from omkl import data
from omkl.cli import options as opt
from omkl.cli.options import Options, option
from omkl.exceptions import InputError

#: Formats to write, by what a file holds.
FORMATS = {
    "sequences": ("crfsuite", "columns", "jsonl"),
    "trees": ("conllu", "crfsuite", "columns", "jsonl"),
}
#: Ends of names that are not the names of formats.
SUFFIXES = {"iob": "columns", "bio": "columns"}
#: Formats of treebanks that are read like CoNLL-U.
LAYOUTS = ("conllx", "conll2008")


@opt.command(
    "convert",
    """
    omkl convert eng.train --format columns -o train.jsonl
    omkl convert old.conll --format conllx -o new.conllu
    """,
    opt.argument("input", type=opt.READ),
    option("-o", "--output", type=opt.WRITE, required=True, metavar="FILE", help="May end in .gz or .xz: compressed."),
    option(
        "--to",
        type=opt.CHOICE(sorted({name for names in FORMATS.values() for name in names})),
        help="Format to write; by default that of the output's name.",
    ),
    *(opt.FORMAT, opt.ON_ERROR, opt.METRICS),
)
def convert(options: Options) -> None:
    """Write the sequences or trees of the file INPUT in another format.

    Sequences become attributes of CRFsuite, columns (CoNLL 2000 to 2003) or JSON lines. Treebanks (CoNLL-X, CoNLL-2008,
    CoNLL-U) become CoNLL-U, or sequences of words with their UPOS.
    """
    options.format = options.format or _guess(options.input)
    kind = "trees" if options.format in LAYOUTS else data.find_format(options.input, options.format).holds
    if kind not in FORMATS:
        raise InputError(f"{options.input} holds {kind}: convert is for sequences and trees.")
    to = _target_format(options, kind)
    if kind == "trees":
        counts = _convert_trees(options, to)
    else:
        stream = data.stream_sequences(options.input, options.format, on_error=options.on_error)
        pairs = ((x, y) for X, Y in stream.blocks() for x, y in zip(X, [None] * len(X) if Y is None else Y))
        counts = _write_sequences(options.output, pairs, to)
    done = " and ".join(f"{n} {what}" for what, n in counts.items())
    options.report([f"Wrote {done} as {to}: {options.output}"], {**counts, "output": options.output})


def _guess(path: str) -> str:
    """The name of the format that a file's name stands for."""
    from omkl.data.files import file_name, find_files, stem
    from omkl.data.treebank.layouts import SUFFIXES as LAYOUT_SUFFIXES

    name = file_name(find_files(path)[0])
    format = data.find_format(path)
    suffixes = tuple(f"{suffix}{end}" for suffix in format.suffixes for end in ("", ".gz", ".xz", ".bz2"))
    if not name.lower().endswith(suffixes):
        raise InputError(f"{path} could be in any format, by its name: say which with --format.")
    return LAYOUT_SUFFIXES.get(Path(stem(name)).suffix.lower()) or next(iter(format.aliases))


def _target_format(options: Options, kind: str) -> str:
    """The format to write."""
    to = options.to
    if to is None:
        from omkl.data.files import stem

        end = stem(options.output).rpartition(".")[2].lower()
        to = SUFFIXES.get(end, end)
    if to not in FORMATS[kind]:
        known = ", ".join(FORMATS[kind])
        raise InputError(f"{options.input} holds {kind}, which are written as {known}: say which with --to.")
    return to


def _write_sequences(output: str, pairs: Iterable[tuple[Any, Any]], to: str) -> dict[str, int]:
    """Write sequences and their labels; returns their number."""
    n_sequences, n_tokens = data.write_sequences(output, _with_attributes(pairs) if to == "crfsuite" else pairs, to)
    return {"sequences": n_sequences, "tokens": n_tokens}


def _with_attributes(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Words with the attributes that labelers make of them."""
    from omkl.features.words import token_features

    for x, y in pairs:
        yield (token_features(x) if all(isinstance(token, str) for token in x) else x), y


def _convert_trees(options: Options, to: str) -> dict[str, int]:
    """Write a treebank as CoNLL-U, or as sequences of tagged words; returns the number of sentences."""
    # without its text a treebank is written as CoNLL-U, whatever it was
    stream = data.stream_conllu(
        options.input,
        trees=False,
        on_error=options.on_error,
        format=options.format,
        keep_text=options.format == "conllu",
    )
    blocks = (block.X for block in stream.blocks())
    if to != "conllu":
        from omkl.data.sequences import tagged

        return _write_sequences(options.output, (tagged(sentence) for block in blocks for sentence in block), to)
    counts = {"sentences": 0, "words": 0}

    def counted() -> Iterator[data.Treebank]:
        for block in blocks:
            counts["sentences"] += len(block)
            counts["words"] += block.n_words
            yield block

    data.write_treebank(options.output, counted())
    return counts
