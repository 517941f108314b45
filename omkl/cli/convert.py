"""``omkl convert``: write sequences or trees in another format."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from omkl import data
from omkl.cli import options as opt
from omkl.cli.options import Options, option
from omkl.data.files import find_files, stem
from omkl.data.sequences import tagged
from omkl.data.treebank import layouts
from omkl.exceptions import InputError

#: Output formats, by the content of the input.
FORMATS = {"sequences": ("crfsuite", "columns", "jsonl"), "trees": ("conllu", "crfsuite", "columns", "jsonl")}
#: Formats of suffixes that are not names of formats.
SUFFIXES = {"iob": "columns", "bio": "columns"}
#: Other formats of treebanks besides CoNLL-U.
LAYOUTS = ("conllx", "conll2008")


@opt.command(
    "convert",
    opt.argument("input", type=opt.READ),
    option("-o", "--output", type=opt.WRITE, required=True, metavar="FILE", help="May end in .gz or .xz: compressed."),
    option("--to", type=opt.CHOICE(sorted(FORMATS["trees"])), help="Format to write; by default that of the name."),
    *(opt.FORMAT, opt.ON_ERROR, opt.METRICS),
)
def convert(options: Options) -> None:
    """Write the sequences or trees of the file INPUT in another format.

    Sequences become attributes of CRFsuite, columns (CoNLL 2000 to 2003) or JSON lines. Treebanks (CoNLL-X, CoNLL-2008,
    CoNLL-U) become CoNLL-U, or sequences of words with their UPOS.

    Examples:
      omkl convert eng.train --format columns -o train.jsonl
      omkl convert old.conll --format conllx -o new.conllu
    """
    if options.format is None:
        name, format = stem(find_files(options.input)[0]).lower(), data.find_format(options.input)
        if not name.endswith(format.suffixes):
            raise InputError(f"{options.input} could be in any format, by its name: say which with --format.")
        options.format = layouts.SUFFIXES.get(Path(name).suffix) or next(iter(format.aliases))
    kind = "trees" if options.format in LAYOUTS else data.find_format(options.input, options.format).holds
    end = stem(options.output).rpartition(".")[2].lower()
    to = options.to or SUFFIXES.get(end, end)
    if to not in FORMATS.get(kind, ()):
        known = "; ".join(f"{what} are written as {', '.join(names)}" for what, names in FORMATS.items())
        raise InputError(f"{options.input} holds {kind}, and {known}: say which with --to.")
    if kind == "trees":
        counts = _convert_trees(options, to)
    else:
        stream = data.stream_sequences(options.input, options.format, on_error=options.on_error)
        blocks = ((X, [None] * len(X) if Y is None else Y) for X, Y in stream.blocks())
        counts = _write_sequences(options.output, (pair for block in blocks for pair in zip(*block)), to)
    done = " and ".join(f"{n} {what}" for what, n in counts.items())
    options.report([f"Wrote {done} as {to}: {options.output}"], {**counts, "output": options.output})


def _write_sequences(output: str, pairs: Iterable[tuple[list, list | None]], to: str) -> dict[str, int]:
    """Write sequences and labels; for CRFsuite, words are converted to the attributes that labelers use."""
    from omkl.features.words import token_features

    if to == "crfsuite":
        pairs = ((token_features(x) if all(isinstance(token, str) for token in x) else x, y) for x, y in pairs)
    return dict(zip(("sequences", "tokens"), data.write_sequences(output, pairs, to)))


def _convert_trees(options: Options, to: str) -> dict[str, int]:
    """Write a treebank as CoNLL-U, or as sequences of tagged words."""
    # treebanks without text are written as CoNLL-U
    settings = {"format": options.format, "keep_text": options.format == "conllu", "on_error": options.on_error}
    blocks = (block.X for block in data.stream_conllu(options.input, trees=False, **settings).blocks())
    if to != "conllu":
        return _write_sequences(options.output, (tagged(sentence) for block in blocks for sentence in block), to)
    counts = {"sentences": 0, "words": 0}

    def counted() -> Iterator[data.Treebank]:
        for block in blocks:
            counts["sentences"] += len(block)
            counts["words"] += block.n_words
            yield block

    data.write_treebank(options.output, counted())
    return counts
