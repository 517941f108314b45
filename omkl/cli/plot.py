"""``omkl plot``: a picture of what a saved model has learned, or of how good it is on a labelled file."""

from argparse import Namespace
from typing import Any

from omkl._files import replacing
from omkl.cli.common import OUTPUT, ROWS, add_command, add_options, check_about_data, load_model, report
from omkl.cli.plot_data import DRAWN_FROM_DATA
from omkl.exceptions import InputError

FORMATS = ("png", "svg", "pdf")
#: Dots an inch, and the style of dark pictures.
DPI, DARK = 200, "dark_background"
#: What a picture shows of a model alone.
OF_MODEL = {
    "weights": "the weights of its groups",
    "history": "the weights of its groups along training",
    "loss": "the loss along training",
    "gap": "how the duality gap of a batch solver closed",
    "search": "the scores of cross-validation",
}

#: Options that go with some kinds of pictures only; a tree is text, in the colours and as wide as the page.
GO_WITH = {
    "show": ("weights", "history", "groups", "confusion", "mistakes"),
    "example": ("tree", "word"),
    "part": ("weights", "history", "loss", "confusion", "calibration"),
}
NOT_OF_TREES = ("title", "width", "dark")


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "plot",
        summary="draw what a model has learned, or how good it is",
        description="Draw a picture of a model: "
        + "; ".join(f"{name}: {what}" for name, what in OF_MODEL.items())
        + ". With labelled data, also "
        + "; ".join(f"{name}: {what}" for name, (what, _) in DRAWN_FROM_DATA.items())
        + ". Needs omkl[plot].",
        examples="""
            omkl plot tagger.npz -o weights.png
            omkl plot tagger.npz --kind history -o history.pdf --width 3.3
            omkl plot tagger.npz test.conllu --kind confusion -o confusion.png
            omkl plot parser.npz test.conllu --kind tree --example 3 -o tree.svg
        """,
    )
    add_options(parser, "model")
    parser.add_argument("data", nargs="?", help="labelled file that it has not learned from (- for standard input)")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE",
        help=f"picture to write: {', '.join(FORMATS)}, by how the name ends (- for SVG on standard output)",
    )  # fmt: skip
    parser.add_argument(
        "--kind", choices=(*OF_MODEL, *DRAWN_FROM_DATA), default="weights", help="what to draw (default weights)"
    )
    parser.add_argument("--part", metavar="NAME", help="of an annotator: the part to draw, such as upos or trees")
    parser.add_argument("--show", type=int, metavar="N", help="draw so many groups, labels or mistakes at most")
    parser.add_argument("--example", type=int, metavar="N", help="tree, word: draw the Nth example (default 1)")
    parser.add_argument("--title", default="", metavar="TEXT", help="title of the picture")
    parser.add_argument("--width", type=float, metavar="INCHES", help="width of the picture; 3.3 is a paper's column")
    parser.add_argument("--dark", action="store_true", help="draw on a dark background")
    add_options(parser, "--format", "--folds", *ROWS, "--on-error", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Draw a picture."""
    suffix = "svg" if arguments.output == "-" else arguments.output.rpartition(".")[2].lower()
    _check(arguments, suffix)
    model, kind = load_model(arguments)
    if arguments.part is not None and kind != "annotations":
        raise InputError(f"--part is for annotators, and this is of the class {type(model).__name__}: leave it out.")
    drawn = arguments.kind
    if drawn in DRAWN_FROM_DATA:
        what, draw = DRAWN_FROM_DATA[drawn]
    else:
        what, draw = OF_MODEL[drawn], _of_model
    if drawn == "tree":
        picture = draw(model, kind, arguments).encode()
    else:
        picture = _rendered(draw, model, kind, arguments, suffix)
    with replacing("/dev/stdout" if arguments.output == "-" else arguments.output, "wb") as file:
        file.write(picture)
    metrics = {"class": type(model).__name__, "kind": drawn, "output": arguments.output}
    report(arguments, [f"Drew {what}: {arguments.output}"], metrics)


def _check(arguments: Namespace, suffix: str) -> None:
    """Raise where options do not go with each other, before anything is read."""
    needs_data = arguments.kind in DRAWN_FROM_DATA
    if needs_data and arguments.data is None:
        raise InputError(f"--kind {arguments.kind} is about labelled data: name a file after the model.")
    if not needs_data and arguments.data is not None:
        raise InputError(f"--kind {arguments.kind} does not read {arguments.data}: leave it out.")
    check_about_data(arguments)
    _check_options(arguments)
    if arguments.kind == "tree" and suffix != "svg":
        raise InputError(f"A tree is drawn as SVG, and not as {arguments.output}: end the name with .svg.")
    if suffix not in FORMATS:
        known = ", ".join(f".{own}" for own in FORMATS)
        raise InputError(f"The name {arguments.output} does not say in which format to draw: end it with {known}.")
    if arguments.width is not None and not 1 <= arguments.width <= 40:
        raise InputError(f"--width {arguments.width:g} is no width of a picture: give 1 to 40 inches.")
    for name in ("show", "example"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise InputError(f"--{name} is a whole number from 1, not {getattr(arguments, name)}.")


def _check_options(arguments: Namespace) -> None:
    """Raise where an option says nothing about this kind of picture."""
    kind = arguments.kind
    for name, kinds in GO_WITH.items():
        if getattr(arguments, name) is not None and kind not in kinds:
            raise InputError(f"--{name} goes with --kind {', '.join(kinds)}, and not with {kind}: leave it out.")
    for name in NOT_OF_TREES:
        if kind == "tree" and getattr(arguments, name):
            raise InputError(f"--{name} does not go with --kind tree, which takes the page's colours: leave it out.")


def _rendered(draw: Any, model: Any, kind: str, arguments: Namespace, suffix: str) -> bytes:
    """The picture as a file of this format."""
    import io

    from omkl.reports.plots.canvas import figure_for

    figure_for(1.0, 1.0)  # says what to install, where matplotlib is missing
    from matplotlib import rc_context, style

    with style.context([DARK] if arguments.dark else []), rc_context({"svg.hashsalt": "omkl"}):
        figure = draw(model, kind, arguments).figure
        file = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
        figure.savefig(file, format=suffix, dpi=DPI, metadata=metadata)
    return file.getvalue()


def _of_model(model: Any, kind: str, arguments: Namespace) -> Any:
    """Axes with a picture of the model alone."""
    from omkl import reports

    options = {"title": arguments.title, "width": arguments.width}
    has_parts = kind == "annotations" and arguments.kind in GO_WITH["part"]
    source = part_of(model, kind, arguments) if has_parts else model
    if arguments.kind == "weights":
        return reports.plot_weights(source, n=arguments.show, **options)
    if arguments.kind == "history":
        return reports.plot_group_weights(source, n=arguments.show or 10, **options)
    if arguments.kind == "loss":
        return reports.plot_history(source, **options)
    if arguments.kind == "gap":
        return reports.plot_gap(source, **options)
    return reports.plot_search(source, **options)


def part_of(annotator: Any, kind: str, arguments: Namespace) -> Any:
    """The model of the part of an annotator that ``--part`` names."""
    models = annotator.models()
    if arguments.part not in models:
        asked = "Say with --part" if arguments.part is None else f"There is no part {arguments.part}: say"
        raise InputError(f"{asked} which part of the annotator to draw: {_listed(list(models))}.")
    return models[arguments.part]


def _listed(names: list[str]) -> str:
    """Names of parts, those of tags in short: ``upos, trees, "lemmas of TAG" with NOUN, VERB, ... as TAG``."""
    tags: dict[str, list[str]] = {}
    for name in names:
        what, _, tag = name.partition(" of ")
        tags.setdefault(what, []).extend([tag] if tag else [])
    alone = [what for what, own in tags.items() if not own]
    return ", ".join(alone + [f'"{what} of TAG" with {", ".join(own)} as TAG' for what, own in tags.items() if own])
