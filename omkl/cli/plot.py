"""``omkl plot``: draw what a saved model has learned, or how good it is on a labelled file."""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from omkl import reports
from omkl._files import replacing
from omkl.cli import options as opt
from omkl.cli.files import (
    check_about_data,
    destination,
    labelled_sequences,
    load_model,
    of_class,
    outputs_of,
    read_gold,
)
from omkl.cli.inspect import group_records
from omkl.cli.options import Options, option
from omkl.exceptions import InputError

FORMATS = ("png", "svg", "pdf")
#: Dots an inch, and the style of dark pictures.
DPI, DARK = 200, "dark_background"
#: Columns of treebanks whose labels can be compared, by the parts of annotators that predict them.
COLUMNS = {"upos": "upos", "xpos": "xpos", "feats": "feats", "trees": "deprels"}


class Request(NamedTuple):
    """A model, what it predicts, and the options of its picture."""

    model: Any
    kind: str
    options: Options

    @property
    def data(self) -> str:
        return self.options.data

    @property
    def look(self) -> dict[str, Any]:
        """Options of functions that draw."""
        return {"title": self.options.title, "width": self.options.width}

    def refusal(self, what: str) -> InputError:
        """The error that this picture is for other models."""
        return InputError(f"--kind {self.options.kind} is for {what}, not for {of_class(self.model)}.")


def _check(options: Options, picture: "Picture") -> str:
    """Raise where options do not go with each other, before anything is read; returns the format to draw in."""
    kind, output = options.kind, options.output
    if picture.needs_data and options.data is None:
        raise InputError(f"--kind {kind} needs labelled data: name a file after the model.")
    if not picture.needs_data and options.data is not None:
        raise InputError(f"--kind {kind} does not read {options.data}: leave it out.")
    check_about_data(options)
    unread = {"show", "example", "part"}.difference(picture.options)
    opt.refuse(f"does not go with --kind {kind}", *unread, *(("title", "width", "dark") if kind == "tree" else ()))
    suffix = "svg" if output == "-" else output.rpartition(".")[2].lower()
    formats = ("svg",) if kind == "tree" else FORMATS
    if suffix not in formats:
        known = ", ".join(f".{own}" for own in formats)
        raise InputError(f"The name {output} does not say in which format to draw: end it with {known}.")
    return suffix


def _rendered(draw: Callable[[Request], Any], request: Request, suffix: str) -> bytes:
    """The picture as a file of this format."""
    from omkl.reports.plots.canvas import figure_for

    figure_for(1.0, 1.0)  # raises where matplotlib is missing
    from matplotlib import rc_context, style

    with style.context([DARK] if request.options.dark else []), rc_context({"svg.hashsalt": "omkl"}):
        file = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
        draw(request).figure.savefig(file, format=suffix, dpi=DPI, metadata=metadata)
    return file.getvalue()


# ---- pictures of a model alone -----------------------------------------------------------------------------------


def _source(request: Request) -> Any:
    """The model, or the part of an annotator that ``--part`` names."""
    if request.kind != "annotations":
        return request.model
    models = request.model.models()
    if request.options.part not in models:
        asked = (
            "An annotator has several models"
            if request.options.part is None
            else f"There is no part {request.options.part}"
        )
        raise InputError(f"{asked}: name one with --part, of {_short_list(list(models))}.")
    return models[request.options.part]


def _short_list(names: list[str]) -> str:
    """Names of parts, those of tags in short: ``upos, trees, "lemmas of TAG" with NOUN, VERB, ... as TAG``."""
    tags: dict[str, list[str]] = {}
    for name in names:
        what, _, tag = name.partition(" of ")
        tags.setdefault(what, []).extend([tag] if tag else [])
    alone = [what for what, own in tags.items() if not own]
    return ", ".join(alone + [f'"{what} of TAG" with {", ".join(own)} as TAG' for what, own in tags.items() if own])


def _weights(request: Request) -> Any:
    return reports.plot_weights(_source(request), n=request.options.show, **request.look)


def _history(request: Request) -> Any:
    return reports.plot_group_weights(_source(request), n=request.options.show or 10, **request.look)


def _loss(request: Request) -> Any:
    return reports.plot_history(_source(request), **request.look)


def _gap(request: Request) -> Any:
    return reports.plot_gap(request.model, **request.look)


def _search(request: Request) -> Any:
    return reports.plot_search(request.model, **request.look)


# ---- pictures of a model on data ---------------------------------------------------------------------------------


def _gold(request: Request) -> Any:
    return read_gold(request.data, request.model, request.options)


def _groups(request: Request) -> Any:
    if not hasattr(request.model, "group_report"):
        raise request.refusal("models that are trained online")
    records = group_records(request.model, request.kind, request.options)
    return reports.plot_weights(records, n=request.options.show, **request.look)


def _confusion(request: Request) -> Any:
    return reports.plot_confusion(*_labels(request), n=request.options.show, **request.look)


def _labels(request: Request) -> tuple[Any, Any]:
    """Gold and predicted labels: of tokens or rows, tags of an annotator, relations of a parser."""
    model, path = request.model, request.data
    if request.kind == "sequences":
        X, y = labelled_sequences(path, request.options, model)
        return _known(y, model.predict(X))
    if request.kind == "rows":
        if not hasattr(model, "classes_"):
            raise request.refusal("models that predict labels")
        return outputs_of(model, path, request.options)
    gold = _gold(request)
    column = "deprels" if request.kind == "trees" else COLUMNS[_part(request, list(COLUMNS))]
    predicted = model.parse(gold) if request.kind == "trees" else model.annotate(gold)
    found = [[getattr(own, column) for own in side] for side in (gold, predicted)]
    if column == "feats":  # of which words may have none
        return found[0], found[1]
    labels = [[None if label == "_" else label for label in own] for own in found[0]]
    if not any(map(any, labels)):
        raise InputError(f"{path} holds no {column} to compare: name an annotated treebank.")
    return _known(labels, [np.array(own, object) for own in found[1]])


def _known(y: list, found: list[np.ndarray]) -> tuple[list[list], list[np.ndarray]]:
    """Labels of tokens that have one, and what was found of these."""
    kept = [[t for t, label in enumerate(labels) if label is not None] for labels in y]
    gold = [[labels[t] for t in own] for labels, own in zip(y, kept)]
    return gold, [side[np.array(own, np.int64)] for side, own in zip(found, kept)]


def _part(request: Request, known: list[str]) -> str:
    """The part of an annotator that is drawn: the first of some, or that of ``--part``."""
    parts = [part for part in known if part in request.model.parts_]
    if not parts or request.options.part not in (None, *parts):
        asked = "the annotator" if request.options.part is None else request.options.part
        raise InputError(f"There is no such picture of {asked}, only of these parts: {', '.join(parts) or 'none'}.")
    return request.options.part or parts[0]


def _calibration(request: Request) -> Any:
    return reports.plot_calibration(*_probabilities(request), **request.look)


def _probabilities(request: Request) -> tuple:
    """Arguments of :func:`omkl.reports.plot_calibration`."""
    model, path = request.model, request.data
    if request.kind == "annotations":
        return _probabilities_of_part(request)
    method = "predict_proba" if request.kind == "rows" else "predict_marginals"
    if not hasattr(model, method):
        raise request.refusal("models with probabilities, as by --loss crf or after training with --dev")
    if request.kind == "sequences":
        X, y = labelled_sequences(path, request.options, model)
        return *_known(y, model.predict_marginals(X)), model.classes_
    if request.kind == "rows":
        return *outputs_of(model, path, request.options, method), model.classes_
    gold = _gold(request)
    return _arcs(model, gold, model.parse(gold))


def _probabilities_of_part(request: Request) -> tuple:
    """Probabilities of the tags or the arcs of an annotator."""
    annotator = request.model
    tagger = annotator.tagger_
    part = _part(request, ["trees"] if tagger is None else [tagger.tag, "trees"])
    gold = _gold(request)
    found = annotator.annotate(gold, confidence=True)  # raises where it is not calibrated
    if part == "trees":
        return _arcs(annotator.parser_, gold, found)
    right = [own == other for pair in zip(gold, found) for own, other in zip(*(getattr(s, part) for s in pair))]
    return right, tagger.confidence(found)


def _arcs(parser: Any, gold: Any, parsed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Correctness and probabilities of heads, of words that have one."""
    known = gold.heads >= 0
    if not known.any():
        raise InputError("The data has no heads to compare: give a treebank with trees.")
    marginals = parser.predict_marginals(parsed)
    sure = [own.arcs[s.heads, np.arange(1, len(s) + 1)] for s, own in zip(parsed, marginals)]
    return (parsed.heads == gold.heads)[known], np.concatenate(sure)[known]


def _pruning(request: Request) -> Any:
    if request.kind != "trees":
        raise request.refusal("parsers")
    # the weights of an SVM are all alike
    by = "norms" if len(set(request.model.template_weights_.values())) == 1 else "weights"
    return reports.plot_pruning(reports.pruning_curve(request.model, _gold(request), by=by), **request.look)


def _tree(request: Request) -> str:
    if request.kind not in ("trees", "annotations"):
        raise request.refusal("parsers and annotators")
    gold, n = _gold(request), request.options.example
    if n > len(gold):
        raise InputError(f"--example {n}: {request.data} has {len(gold)} sentences.")
    gold = gold[n - 1 : n]
    read = request.model.annotate if request.kind == "annotations" else request.model.parse
    try:
        parsed = read(gold, confidence=True)
    except InputError:  # it is not calibrated
        parsed = read(gold)
    return reports.draw_tree(gold[0], parsed[0])


class Picture(NamedTuple):
    """A kind of picture: what it shows, the function that draws it, and the options that it reads."""

    what: str
    draw: Callable[[Request], Any]
    options: tuple[str, ...] = ()
    needs_data: bool = True


PICTURES = {
    "weights": Picture("the weights of its groups", _weights, ("show", "part"), False),
    "history": Picture("the weights of its groups along training", _history, ("show", "part"), False),
    "loss": Picture("the loss along training", _loss, ("part",), False),
    "gap": Picture("the duality gap of a batch solver along its iterations", _gap, (), False),
    "search": Picture("the scores of cross-validation", _search, (), False),
    "groups": Picture("how much worse it is without each group", _groups, ("show",)),
    "confusion": Picture("what labels are taken for", _confusion, ("show", "part")),
    "calibration": Picture("whether its probabilities are right", _calibration, ("part",)),
    "pruning": Picture("how good a parser is with fewer templates", _pruning),
    "tree": Picture("a gold tree beside the predicted one", _tree, ("example",)),
}


@opt.command(
    "plot",
    """
    omkl plot tagger.npz -o weights.png
    omkl plot tagger.npz --kind history -o history.pdf --width 3.3
    omkl plot tagger.npz test.conllu --kind confusion -o confusion.png
    omkl plot parser.npz test.conllu --kind tree --example 3 -o tree.svg
    """,
    *(opt.MODEL, opt.argument("data", type=opt.READ, required=False)),
    option("-o", "--output", type=opt.WRITE, required=True, metavar="FILE", help="Ends in .png, .svg or .pdf."),
    option("--kind", type=opt.CHOICE(list(PICTURES)), default="weights", help="Picture to draw."),
    option("--part", metavar="NAME", help="Part of an annotator to draw, such as upos or trees."),
    option("--show", type=opt.POSITIVE, metavar="N", help="Draw so many groups or labels at most."),
    option("--example", type=opt.POSITIVE, default=1, metavar="N", help="tree: draw the Nth sentence."),
    option("--title", default="", metavar="TEXT", help="Title of the picture."),
    option(
        "--width",
        type=opt.click.FloatRange(1, 40),
        metavar="INCHES",
        help="Width of the picture; 3.3 is a column of a paper.",
    ),
    option("--dark", is_flag=True, help="Draw on a dark background."),
    *(opt.DATA, opt.METRICS),
)
def plot(options: Options) -> None:
    """Draw a picture of the saved MODEL; needs omkl[plot].

    Kinds for a model alone: weights, history, loss (along training), gap (of batch solvers), search (of
    cross-validation). Kinds for a file DATA of labelled data that it has not learned from: groups (how much each
    helps), confusion (of labels), calibration (of probabilities), pruning (of a parser), tree (beside the gold one).
    """
    picture = PICTURES[options.kind]
    suffix = _check(options, picture)
    model, kind = load_model(options)
    if kind != "annotations":
        opt.refuse(f"does not go with {of_class(model)}", "part")
    request = Request(model, kind, options)
    drawn = picture.draw(request).encode() if options.kind == "tree" else _rendered(picture.draw, request, suffix)
    with replacing(destination(options.output), "wb") as file:
        file.write(drawn)
    metrics = {"class": type(model).__name__, "kind": options.kind, "output": options.output}
    options.report([f"Drew {picture.what}: {options.output}"], metrics)
