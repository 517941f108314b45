"""``omkl convert``: write sequences or trees in another format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    opt.FORMAT,
    opt.ON_ERROR,
    opt.METRICS,
)
def convert(options: Options) -> None:
    """Write the sequences or trees of the file INPUT in another format.

    Sequences become attributes of CRFsuite, columns (CoNLL 2000 to 2003) or JSON lines. Treebanks
    (CoNLL-X, CoNLL-2008, CoNLL-U) become CoNLL-U, or sequences of words with their UPOS.

    Examples:
      omkl convert eng.train --format columns -o train.jsonl
      omkl convert old.conll --format conllx -o new.conllu
    """
    from omkl.data.treebank import layouts

    if options.format is None:
        name = stem(find_files(options.input)[0]).lower()
        format = data.find_format(options.input)
        if not name.endswith(format.suffixes):
            raise InputError(
                f"{options.input} could be in any format, by its name: say which with --format."
            )
        # the suffix says which layout of treebanks, else the first alias is the format's name
        options.format = layouts.SUFFIXES.get(Path(name).suffix) or next(iter(format.aliases))
    kind = "trees"
    if options.format not in LAYOUTS:
        kind = data.find_format(options.input, options.format).holds
    to = options.to
    if to is None:
        suffix = stem(options.output).rpartition(".")[2].lower()
        to = SUFFIXES.get(suffix, suffix)
    if to not in FORMATS.get(kind, ()):
        rules = [
            f"{content} are written as {', '.join(names)}" for content, names in FORMATS.items()
        ]
        raise InputError(
            f"{options.input} holds {kind}, and {'; '.join(rules)}: say which with --to."
        )
    if to == "conllu":
        counts = _write_treebank(options)
    else:
        counts = _write_sequences(options, kind, to)
    done = " and ".join(f"{count} {unit}" for unit, count in counts.items())
    line = f"Wrote {done} as {to}: {options.output}"
    options.report([line], {**counts, "output": options.output})


def _open_treebanks(options: Options) -> data.Stream:
    """Open the input as a stream of treebanks."""
    return data.stream_conllu(
        options.input,
        trees=False,
        keep_text=options.format == "conllu",  # other layouts have none
        format=options.format,
        on_error=options.on_error,
    )


def _write_treebank(options: Options) -> dict[str, int]:
    """Write treebanks as CoNLL-U; return the numbers of sentences and words."""
    counts = {"sentences": 0, "words": 0}

    def treebanks() -> Iterator[data.Treebank]:
        for block in _open_treebanks(options).blocks():
            counts["sentences"] += len(block.X)
            counts["words"] += block.X.n_words
            yield block.X

    data.write_treebank(options.output, treebanks())
    return counts


def _write_sequences(options: Options, kind: str, to: str) -> dict[str, int]:
    """Write the tokens and labels of the input; return the numbers of sequences and tokens."""
    pairs = _labelled_sequences(options, kind)
    if to == "crfsuite":
        pairs = map(_with_attributes, pairs)
    n_sequences, n_tokens = data.write_sequences(options.output, pairs, to)
    return {"sequences": n_sequences, "tokens": n_tokens}


def _labelled_sequences(options: Options, kind: str) -> Iterable[tuple[list, list | None]]:
    """Return each sequence with its labels, None if it has none; of trees, words and their UPOS."""
    if kind == "trees":
        from omkl.data.sequences import tagged

        return (tagged(sentence) for sentence, _ in _open_treebanks(options))
    return data.stream_sequences(options.input, format=options.format, on_error=options.on_error)


def _with_attributes(pair: tuple[list, list | None]) -> tuple[list, list | None]:
    """Replace words by the attributes that labelers make of them; keep other tokens."""
    from omkl.features.words import token_features

    tokens, labels = pair
    are_words = all(isinstance(token, str) for token in tokens)
    if are_words:
        tokens = token_features(tokens)
    return tokens, labels
