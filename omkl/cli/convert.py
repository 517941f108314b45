"""``omkl convert``: write sequences or trees in another format."""

from collections.abc import Iterable
from pathlib import Path

from omkl import data
from omkl.cli import options as opt
from omkl.cli.options import Options, option
from omkl.data.files import find_files, stem
from omkl.exceptions import InputError

#: Output formats, by the content of the input.
FORMATS = {
    "sequences": ("crfsuite", "columns", "jsonl"),
    "trees": ("conllu", "crfsuite", "columns", "jsonl"),
}
#: Formats of suffixes that are not names of formats.
SUFFIXES = {"iob": "columns", "bio": "columns"}
#: Other formats of treebanks besides CoNLL-U.
LAYOUTS = ("conllx", "conll2008")


@opt.command(
    "convert",
    opt.argument("input", type=opt.READ),
    option(
        "-o",
        "--output",
        type=opt.WRITE,
        required=True,
        metavar="FILE",
        help="May end in .gz or .xz: compressed.",
    ),
    option(
        "--to",
        type=opt.CHOICE(sorted(FORMATS["trees"])),
        help="Format to write; by default that of the name.",
    ),
    *(opt.FORMAT, opt.ON_ERROR, opt.METRICS),
)
def convert(options: Options) -> None:
    """Write the sequences or trees of the file INPUT in another format.

    Sequences become attributes of CRFsuite, columns (CoNLL 2000 to 2003) or JSON lines. Treebanks
    (CoNLL-X, CoNLL-2008, CoNLL-U) become CoNLL-U, or sequences of words with their UPOS.

    Examples:
      omkl convert eng.train --format columns -o train.jsonl
      omkl convert old.conll --format conllx -o new.conllu
    """
    from omkl.data.sequences import tagged
    from omkl.data.treebank import layouts

    if options.format is None:
        name, format = stem(find_files(options.input)[0]).lower(), data.find_format(options.input)
        if not name.endswith(format.suffixes):
            raise InputError(
                f"{options.input} could be in any format, by its name: say which with --format."
            )
        options.format = layouts.SUFFIXES.get(Path(name).suffix) or next(iter(format.aliases))
    kind = (
        "trees"
        if options.format in LAYOUTS
        else data.find_format(options.input, options.format).holds
    )
    end = stem(options.output).rpartition(".")[2].lower()
    to = options.to or SUFFIXES.get(end, end)
    if to not in FORMATS.get(kind, ()):
        known = "; ".join(
            f"{what} are written as {', '.join(names)}" for what, names in FORMATS.items()
        )
        raise InputError(f"{options.input} holds {kind}, and {known}: say which with --to.")
    from omkl.features.words import token_features

    reading = {"format": options.format, "on_error": options.on_error}
    pairs: Iterable[tuple[list, list | None]]
    if kind == "trees":
        # treebanks without text are written as CoNLL-U
        stream = data.stream_conllu(
            options.input, trees=False, keep_text=options.format == "conllu", **reading
        )
        pairs = (tagged(sentence) for block in stream.blocks() for sentence in block.X)
    else:
        stream = data.stream_sequences(options.input, **reading)
        pairs = (
            (x, y)
            for X, Y in stream.blocks()
            for x, y in zip(X, [None] * len(X) if Y is None else Y)
        )
    if to == "crfsuite":  # words become the attributes that labelers use
        pairs = (
            (token_features(x) if all(isinstance(token, str) for token in x) else x, y)
            for x, y in pairs
        )
    if to == "conllu":
        counts = {"sentences": 0, "words": 0}

        def counted(block: data.Block) -> data.Treebank:
            counts["sentences"] += len(block.X)
            counts["words"] += block.X.n_words
            return block.X

        data.write_treebank(options.output, map(counted, stream.blocks()))
    else:
        counts = dict(zip(("sequences", "tokens"), data.write_sequences(options.output, pairs, to)))
    done = " and ".join(f"{n} {what}" for what, n in counts.items())
    options.report(
        [f"Wrote {done} as {to}: {options.output}"], {**counts, "output": options.output}
    )
