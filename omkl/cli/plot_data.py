"""Pictures of a model on labelled data, for ``omkl plot``."""

from argparse import Namespace
from typing import Any

import numpy as np

from omkl import data
from omkl.cli import rows
from omkl.cli.inputs import labelled_sequences
from omkl.cli.inspect import group_records
from omkl.exceptions import InputError

#: Columns of treebanks whose labels can be compared, by the parts of annotators that make them.
COLUMNS = {"upos": "upos", "xpos": "xpos", "feats": "feats", "trees": "deprels"}
#: What reads a treebank.
OF_TREEBANKS = ("trees", "annotations")


def _groups(model: Any, kind: str, arguments: Namespace) -> Any:
    from omkl import reports

    if not hasattr(model, "group_report"):
        raise InputError(
            f"--kind groups is for models that are trained online, and this is of the class {type(model).__name__}."
        )
    return reports.plot_weights(group_records(model, kind, arguments), n=arguments.show, **_options(arguments))


def _confusion(model: Any, kind: str, arguments: Namespace) -> Any:
    from omkl import reports

    gold, predicted = _labels(model, kind, arguments)
    return reports.plot_confusion(gold, predicted, n=arguments.show, **_options(arguments))


def _labels(model: Any, kind: str, arguments: Namespace) -> tuple[Any, Any]:
    """Gold and predicted labels: of tokens or rows, tags of an annotator, relations of a parser."""
    if kind == "sequences":
        X, y = labelled_sequences(arguments.data, arguments)
        return _known(y, model.predict(X))
    if kind == "rows":
        _needs_classes(model)
        return rows.outputs_of(model, arguments.data, arguments)
    gold = _treebank(model, kind, arguments)
    predicted = model.parse(gold) if kind == "trees" else model.annotate(gold)
    column = COLUMNS["trees" if kind == "trees" else _part(model, arguments)]
    found = [[getattr(own, column) for own in side] for side in (gold, predicted)]
    if column == "feats":  # of which words may have none
        return found[0], found[1]
    labels = [[None if label == "_" else label for label in own] for own in found[0]]
    if not any(map(any, labels)):
        raise InputError(f"{arguments.data} holds no {column} to compare: name an annotated treebank.")
    return _known(labels, [np.array(own, object) for own in found[1]])


def _known(y: list, found: list[np.ndarray]) -> tuple[list[list], list[np.ndarray]]:
    """Labels of tokens that have one, and what was found of these."""
    kept = [[t for t, label in enumerate(labels) if label is not None] for labels in y]
    gold = [[labels[t] for t in own] for labels, own in zip(y, kept)]
    return gold, [side[np.array(own, np.int64)] for side, own in zip(found, kept)]


def _part(annotator: Any, arguments: Namespace) -> str:
    """The part of an annotator whose labels are compared: its tags, if it is not said which."""
    parts = [part for part in COLUMNS if part in annotator.parts_]
    if not parts or arguments.part not in (None, *parts):
        asked = "The annotator" if arguments.part is None else f"--part {arguments.part}"
        raise InputError(f"{asked} has no labels to compare: of its parts {', '.join(parts) or 'none'} can be drawn.")
    return arguments.part or parts[0]


def _calibration(model: Any, kind: str, arguments: Namespace) -> Any:
    from omkl import reports

    return reports.plot_calibration(*_probabilities(model, kind, arguments), **_options(arguments))


def _probabilities(model: Any, kind: str, arguments: Namespace) -> tuple:
    """Arguments of :func:`omkl.reports.plot_calibration`."""
    if kind == "annotations":
        return _probabilities_of_part(model, arguments)
    if kind != "rows" and not hasattr(model, "predict_marginals"):
        raise InputError(
            f"The {type(model).__name__} gives no probabilities before it is calibrated: train it with --dev."
        )
    if kind == "sequences":
        X, y = labelled_sequences(arguments.data, arguments)
        return *_known(y, model.predict_marginals(X)), model.classes_
    if kind == "trees":
        gold = _treebank(model, kind, arguments)
        return _arcs(model, gold, model.parse(gold))
    _needs_classes(model)
    if not hasattr(model, "predict_proba"):
        raise InputError(f"The {type(model).__name__} gives no probabilities with loss={model.loss!r}.")
    gold, found = [], []
    with rows.naming(arguments.data):
        for X, y in rows.open_rows(arguments.data, arguments, model).blocks():
            gold.append(y)
            found.append(model.predict_proba(X))
    return np.concatenate(gold), np.concatenate(found), model.classes_


def _probabilities_of_part(annotator: Any, arguments: Namespace) -> tuple:
    """The same of the tags or the arcs of an annotator: the tags, if it is not said which."""
    annotator._check_calibrated()
    tag = None if annotator.tagger_ is None else annotator.tagger_.tag
    parts = [part for part in (tag, "trees") if part is not None and part in annotator.parts_]
    if not parts or arguments.part not in (None, *parts):
        asked = "The annotator" if arguments.part is None else f"--part {arguments.part}"
        raise InputError(f"{asked} has no probabilities: of its parts {', '.join(parts) or 'none'} have some.")
    gold = _treebank(annotator, "annotations", arguments)
    found = annotator.annotate(gold)
    part = arguments.part or parts[0]
    if part == "trees":
        return _arcs(annotator.parser_, gold, found)
    right = [own == other for pair in zip(gold, found) for own, other in zip(*(getattr(s, part) for s in pair))]
    return right, annotator.tagger_.confidence(found)


def _arcs(parser: Any, gold: Any, parsed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Whether heads are right, and how probable they are, of words that have one."""
    known = gold.heads >= 0
    if not known.any():
        raise InputError("The data has no heads to compare: give a treebank with trees.")
    marginals = parser.predict_marginals(parsed)
    sure = [own.arcs[s.heads, np.arange(1, len(s) + 1)] for s, own in zip(parsed, marginals)]
    return (parsed.heads == gold.heads)[known], np.concatenate(sure)[known]


def _pruning(model: Any, kind: str, arguments: Namespace) -> Any:
    from omkl import reports

    if kind != "trees":
        raise InputError(f"--kind pruning is for parsers, and this is of the class {type(model).__name__}.")
    gold = _treebank(model, kind, arguments)
    # the weights of an SVM are all alike
    by = "norms" if len(set(model.template_weights_.values())) == 1 else "weights"
    return reports.plot_pruning(reports.pruning_curve(model, gold, by=by), **_options(arguments))


def _tree(model: Any, kind: str, arguments: Namespace) -> str:
    from omkl import reports

    if kind not in OF_TREEBANKS:
        raise InputError(f"--kind tree is for parsers and annotators, and this is of the class {type(model).__name__}.")
    gold = _example(_treebank(model, kind, arguments), arguments)
    read = model.annotate if kind == "annotations" else model.parse
    try:
        parsed = read(gold, confidence=True)
    except InputError:  # it is not calibrated
        parsed = read(gold)
    return reports.draw_tree(gold[0], parsed[0])


def _word(model: Any, kind: str, arguments: Namespace) -> Any:
    from omkl import reports

    X, y = _handwriting(model, kind, arguments)
    X, y = _example(X, arguments), _example(y, arguments)
    options = {**_options(arguments), "gold": y[0]}
    if hasattr(model, "predict_marginals"):
        options["probabilities"] = model.predict_marginals(X)[0].max(axis=1).tolist()
    return reports.plot_word(_images(X[0]), list(model.predict(X)[0]), **options)


def _mistakes(model: Any, kind: str, arguments: Namespace) -> Any:
    from omkl import reports

    X, y = _handwriting(model, kind, arguments)
    images = [_images(x) for x in X]
    return reports.plot_mistakes(images, y, model.predict(X), n=arguments.show or 8, **_options(arguments))


def _handwriting(model: Any, kind: str, arguments: Namespace) -> tuple[list, list]:
    if kind != "sequences":
        raise InputError(f"--kind {arguments.kind} is for labelers, and this is of the class {type(model).__name__}.")
    return labelled_sequences(arguments.data, arguments)


def _images(x: Any) -> np.ndarray:
    """The images of a word's letters: the vectors of its tokens, or what they have as ``pixels``."""
    tokens = [token.get("pixels") if isinstance(token, dict) else token for token in x]
    if any(token is None or np.ndim(token) != 1 for token in tokens):
        raise InputError("Tokens are drawn that are vectors of pixels, or have some by this name.")
    return np.array(tokens)


def _treebank(model: Any, kind: str, arguments: Namespace) -> Any:
    reading = {"trees": "given"} if kind == "annotations" else {"single_root": model.single_root}
    return data.read_treebank(arguments.data, on_error=arguments.on_error, **reading)


def _example(found: Any, arguments: Namespace) -> Any:
    """The example that is asked for, as one of one."""
    number = arguments.example or 1
    if number > len(found):
        raise InputError(f"--example {number}: {arguments.data} has {len(found)} examples.")
    return found[number - 1 : number]


def _needs_classes(model: Any) -> None:
    if not hasattr(model, "classes_"):
        raise InputError(f"A {type(model).__name__} predicts numbers: confusion and calibration are of labels.")


def _options(arguments: Namespace) -> dict[str, Any]:
    return {"title": arguments.title, "width": arguments.width}


#: What a picture shows of a model on labelled data, and what draws it.
DRAWN_FROM_DATA = {
    "groups": ("how much worse it is without each group", _groups),
    "confusion": ("what labels are taken for", _confusion),
    "calibration": ("whether its probabilities are right", _calibration),
    "pruning": ("how good a parser is with fewer templates", _pruning),
    "tree": ("a gold tree beside the predicted one", _tree),
    "word": ("a handwritten word and what is read", _word),
    "mistakes": ("the letters that are misread most", _mistakes),
}
