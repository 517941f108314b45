"""A parsed sentence as a picture: words in a row, an arc from each head to each of its words, relations above."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from omkl.data import Sentence
from omkl.exceptions import InputError
from omkl.reports.arcs import GAP, LABEL, STEP, WORD, Tree, centres_of, free_place, text_width, tree_of
from omkl.reports.markup import ENVIRONMENT

_NOT_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
_NOTED = re.compile(r"(?:^|\|)HeadConf=([0-9.eE+-]+)(?:\||$)")
#: Colours of unsure and sure arcs, and of wrong arcs of unknown probability.
UNSURE, SURE, WRONG = "#CF7F00", "#0063D6", "#B92B1F"


class DrawnArc(NamedTuple):
    """An arc of a picture; no colour is that of the page's text."""

    path: str
    tip: str
    title: str
    colour: str
    is_wrong: bool


def draw_tree(
    sentence: Sentence, predicted: Sentence | None = None, *, confidence: Sequence[float] | None = None
) -> str:
    """A sentence and its arcs as SVG (the top of Figure 1 of Martins et al. 2011); beside a predicted tree, if given.

    Arcs go from heads to words. Text has the colour of the page's text.

    Parameters
    ----------
    sentence : Sentence
        With forms; heads, relations and tags are drawn where it has them.
    predicted : Sentence, optional
        The same words with other arcs, drawn below them; arcs that differ from ``sentence`` are dashed.
    confidence : sequence of n floats, optional
        The probability of the head of each word, of ``predicted`` where it is given: sure arcs are blue, unsure ones
        orange. By default the ``HeadConf`` in MISC, as of ``DependencyParser.parse(confidence=True)``.

    Returns
    -------
    str
        The text of an SVG file, which a web page may contain as it is.

    Raises
    ------
    omkl.exceptions.InputError
        If the predicted sentence, or the confidence, is not about the same words.

    >>> from omkl.data import Sentence
    >>> picture = draw_tree(Sentence(forms=["No", "way"], upos=["DET", "NOUN"], heads=[2, 0], deprels=["det", "root"]))
    >>> picture.count("<path class="), picture.startswith("<svg"), ">det</text>" in picture
    (2, True, True)
    """
    told = sentence if predicted is None else predicted
    sure = _confidence(told, confidence)
    if len(told) != len(sentence) or list(told.forms) != list(sentence.forms):
        raise InputError("The predicted sentence has other words: draw the two sentences by themselves.")
    tags = [_clean(tag) for tag in sentence.upos or [""] * len(sentence)]
    forms = [_clean(form, "_") for form in sentence.forms]
    trees = [_tree(own) for own in (sentence, predicted) if own is not None]
    widths = [max(text_width(form, WORD), text_width(tag, LABEL)) for form, tag in zip(forms, tags)]
    for tree in trees:
        for i in tree.roots:
            widths[i] = max(widths[i], text_width(tree.labels[i], LABEL))
    centres = centres_of(widths, trees)
    base = 8 + trees[0].height * STEP
    low = base + WORD + (LABEL + 9 if any(tags) else 6)
    looks = _looks(sentence, predicted, sure)
    plain = [("", False)] * len(sentence)
    height = low + 9.0
    if predicted is None:
        arcs, texts = _arcs(trees[0], centres, base, -1, looks, sure)
    else:
        arcs, texts = _arcs(trees[0], centres, base, -1, plain, [])
        below = _arcs(trees[1], centres, low + 4, 1, looks, sure)
        arcs, texts = arcs + below[0], texts + below[1]
        height = low + 12 + trees[1].height * STEP
    for form, tag, x in zip(forms, tags, centres):
        texts += [("form", form, x, base + WORD + 4), ("tag", tag, x, base + WORD + LABEL + 9)]
    width = centres[-1] + widths[-1] / 2 + GAP if centres else 2 * GAP
    keys = ["above: gold; below: predicted, dashed where it is wrong"] * (predicted is not None)
    key = "; ".join(keys + ["blue: sure, orange: unsure"] * bool(sure))
    if key:
        texts.append(("key", key, GAP, height + 10))
        width, height = max(width, text_width(key, LABEL) * 0.85 + 2 * GAP), height + 18
    picture = ENVIRONMENT.get_template("tree.svg")
    return picture.render(arcs=arcs, texts=texts, width=width, height=height, title=" ".join(forms))


def _tree(sentence: Sentence) -> Tree:
    labels = [_clean(label) for label in sentence.deprels or [""] * len(sentence)]
    return tree_of(sentence.heads or [None] * len(sentence), labels)


def _confidence(sentence: Sentence, confidence: Sequence[float] | None) -> list[float | None]:
    """The probability of each head, where it is known; nothing where none is."""
    if confidence is None:
        found = [_NOTED.search(misc or "") for misc in sentence.misc or [""] * len(sentence)]
        noted = [None if match is None else float(match[1]) for match in found]
        return noted if any(p is not None for p in noted) else []
    if len(confidence) != len(sentence):
        raise InputError(f"There are {len(sentence)} words, and confidence has {len(confidence)} entries.")
    return [float(p) for p in confidence]


def _looks(gold: Sentence, predicted: Sentence | None, sure: list) -> list[tuple[str, bool]]:
    """Colour of the arc of each word, and whether it is wrong."""
    wrong = [False] * len(gold)
    if predicted is not None and gold.heads and predicted.heads:
        wrong = [own != other for own, other in zip(gold.heads, predicted.heads)]
        if gold.deprels and predicted.deprels:
            wrong = [is_wrong or a != b for is_wrong, a, b in zip(wrong, gold.deprels, predicted.deprels)]
    known = sure or [None] * len(gold)
    return [((WRONG if w else "") if p is None else _mixed(p), w) for w, p in zip(wrong, known)]


def _mixed(p: float) -> str:
    """A colour between that of 0, unsure, and that of 1."""
    ends = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in (UNSURE, SURE)]
    share = min(max(p, 0.0), 1.0)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in zip(*ends))


def _arcs(
    tree: Tree, centres: list[float], base: float, side: int, looks: list[tuple[str, bool]], sure: list
) -> tuple[list[DrawnArc], list[tuple]]:
    """The arcs of a tree above words (side -1) or below (1), and their labels."""
    ends = [(centres[arc.left] + left, centres[arc.right] + right) for arc, (left, right) in zip(tree.arcs, tree.ports)]
    arcs: list[DrawnArc] = []
    labels: list[tuple] = []

    def add(word: int, path: str, x: float, place: float, y: float) -> None:
        label, wide = tree.labels[word], base + 6 * side
        known = "" if not sure or sure[word] is None else f" {100 * sure[word]:.1f}%"
        tip = f"{x - 3:.1f},{wide} {x + 3:.1f},{wide} {x:.1f},{base}"
        arcs.append(DrawnArc(path, tip, f"{label}{known}".strip(), *looks[word]))
        labels.append(("relation", label, place, y + side * 5 + (LABEL - 1 if side > 0 else 0)))

    for arc, level, (left, right) in zip(tree.arcs, tree.levels, ends):
        y = base + side * level * STEP
        rising = [x for other, pair in zip(tree.levels, ends) if other > level for x in pair]
        rising += [centres[i] for i in tree.roots]
        begin, end = (left, right) if arc.word == arc.right else (right, left)
        add(arc.word, _path(begin, end, y, base, side), end, free_place(arc.label, left, right, rising), y)
    for i in tree.roots:
        y = base + side * (tree.height - 1) * STEP
        add(i, f"M{centres[i]:.1f},{y}V{base}", centres[i], centres[i], y)
    return arcs, labels


def _path(begin: float, end: float, y: float, base: float, side: int) -> str:
    bend, turn = (8 if begin < end else -8), 8 * side
    return f"M{begin:.1f},{base}V{y - turn}q0,{turn},{bend},{turn}H{end - bend:.1f}q{bend},0,{bend},{-turn}V{base}"


def _clean(text: str | None, missing: str = "") -> str:
    """A string without the characters that XML cannot hold, or ``missing``."""
    return missing if text in (None, "_") else _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
