"""``omkl demo``: learn to combine kernels, or feature templates, with nothing to download."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from omkl.cli import demo_labeler, demo_parser
from omkl.cli.common import OUTPUT, add_command, add_options, add_strength, as_typed, say, write_json
from omkl.exceptions import InputError, MissingDependencyError

#: For each kind of model: who shows it, files for model, metrics and figure, what to do next.
KINDS: dict[str, tuple[Any, ...]] = {
    "labeler": (
        demo_labeler.show, "dates.npz", "metrics.json", "group_weights.png",
        "examples/ocr_table1.py       Table 1 of the paper, on 52,152 handwritten letters", "predict(dates)",
    ),
    "parser": (
        demo_parser.show, "parser.npz", "parser-metrics.json", "template_weights.png",
        "examples/parser_english.py   English with 507 templates, beside other parsers", "parse(sentences)",
    ),
}  # fmt: skip
NEXT = """
Next:
  {omkl} inspect {model}
  {omkl} train {kind} --help           train on files of your own
  {python} {example}
  in Python: omkl.load("{model}").{call}"""


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "demo",
        summary="train labelers of handwritten dates, and see which kernels MKL finds useful; or a parser",
        description="Train labelers of handwritten dates with kernels some of which are useless: each useful one "
        "alone, all alike, combined by MKL, and such as were told which are useful; see which weights MKL learns, and "
        "whether that pays. Or parsers of a made-up language, and see which feature templates they find.",
        examples="""
            omkl demo                                           # model, metrics and figure land in omkl-demo/
            omkl demo parser -o parser-demo --random-state 1
        """,
    )
    parser.add_argument(
        "kind", nargs="?", choices=("labeler", "parser"), default="labeler", help="what to train (default labeler)"
    )
    parser.add_argument(
        "-o", "--output", dest="folder", default="omkl-demo", metavar="DIR", help="folder for model, figure and metrics"
    )
    parser.add_argument("--n-train", type=int, metavar="N", help="dates or sentences to train on (default 80; 1500)")
    parser.add_argument("--n-test", type=int, default=400, metavar="N", help="to test on (default 400)")
    add_strength(parser, epochs=20, C=1.0)
    add_options(parser, "--random-state", *OUTPUT)
    parser.set_defaults(run=run, random_state=0)


def run(arguments: Namespace) -> None:
    """Run the demonstration."""
    folder, kind = Path(arguments.folder), arguments.kind
    if arguments.folder == "-":
        raise InputError("-o names the folder for model, figure and metrics, which standard output is not: name one.")
    if arguments.C == "auto":
        raise InputError("--C auto is for training on files of your own: give C.")
    folder.mkdir(parents=True, exist_ok=True)
    tell = partial(say, arguments)
    show, *names, example, call = KINDS[kind]
    learned, summary, draw = show(arguments, tell)
    model, metrics, figure = (folder / name for name in names)
    learned.save(model)
    write_json(metrics, summary)
    write_json(arguments.json, summary)
    tell(f"\nSaved the model to {model} and the metrics to {metrics}.")
    try:
        draw(figure)
        tell(f"Saved a figure of the weights while they were learned to {figure}.")
    except MissingDependencyError as error:
        tell(f"No figure: {error}")
    programs = {"omkl": as_typed("omkl"), "python": as_typed("python")}
    tell(NEXT.format(model=model, kind=kind, example=example, call=call, **programs))
