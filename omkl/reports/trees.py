"""A parsed sentence as a picture: words in a row, an arc from each head to each of its words, relations above."""

import re
from collections.abc import Sequence
from html import escape

from omkl.data import Sentence
from omkl.exceptions import InputError
from omkl.reports.arcs import GAP, LABEL, STEP, WORD, Tree, centres_of, free_place, text_width, tree_of

_NOT_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
_NOTED = re.compile(r"(?:^|\|)HeadConf=([0-9.eE+-]+)(?:\||$)")
#: Colours of arcs that are unsure, and sure; and of wrong ones, where nobody knows how sure they are.
UNSURE, SURE, WRONG = "#CF7F00", "#0063D6", "#B92B1F"
STYLE = (
    ".omkl-tree text{text-anchor:middle;fill:currentColor} .omkl-tree .form{font-size:16px} "
    ".omkl-tree .tag,.omkl-tree .key{font-size:11px;fill-opacity:.68} .omkl-tree .key{text-anchor:start} "
    ".omkl-tree .relation{font-size:11px;paint-order:stroke;stroke:var(--omkl-page,Canvas);stroke-width:4px} "
    ".omkl-tree .arc{fill:none;stroke:currentColor;stroke-opacity:.8;stroke-width:1.5} "
    ".omkl-tree .tip{fill:currentColor} .omkl-tree .wrong .arc{stroke-dasharray:5 3}"
)


def draw_tree(
    sentence: Sentence, predicted: Sentence | None = None, *, confidence: Sequence[float] | None = None
) -> str:
    """A sentence and its arcs as SVG (the top of Figure 1 of Martins et al. 2011); beside a predicted tree, if given.

    Arcs go from heads to words; those that span a common gap between words have different heights, shorter ones
    nearer to the words. Where arcs cross, they cross in the picture as well. Text has the colour of the page's text.

    Parameters
    ----------
    sentence : Sentence
        With forms; heads, relations and tags are drawn where it has them.
    predicted : Sentence, optional
        The same words with other arcs, which are drawn below them: dashed are those whose head, or relation, is not
        that of ``sentence``.
    confidence : sequence of n floats, optional
        The probability of the head of each word, of ``predicted`` where it is given: arcs are the bluer the surer they
        are, and orange where they are not. By default what MISC notes as ``HeadConf``, as
        ``DependencyParser.parse(confidence=True)`` writes it. Pointing at an arc shows the number.

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
    trees = [_tree(sentence)] + ([] if predicted is None else [_tree(predicted)])
    widths = [max(text_width(form, WORD), text_width(tag, LABEL)) for form, tag in zip(forms, tags)]
    for tree in trees:
        for i in tree.roots:
            widths[i] = max(widths[i], text_width(tree.labels[i], LABEL))
    centres = centres_of(widths, trees)
    base = 8 + trees[0].height * STEP
    low = base + WORD + (LABEL + 9 if any(tags) else 6)
    looks = _looks(sentence, predicted, sure)
    plain = [("", "")] * len(sentence)
    lines = _draw(trees[0], centres, base, -1, looks if predicted is None else plain, sure if predicted is None else [])
    height = low + 9.0
    if predicted is not None:
        lines += _draw(trees[1], centres, low + 4, 1, looks, sure)
        height = low + 12 + trees[1].height * STEP
    for form, tag, x in zip(forms, tags, centres):
        lines += [_text(form, x, base + WORD + 4, "form"), _text(tag, x, base + WORD + LABEL + 9, "tag")]
    width = centres[-1] + widths[-1] / 2 + GAP if centres else 2 * GAP
    key = _key(predicted is not None, bool(sure))
    if key:
        lines.append(f'<text class="key" x="{GAP}" y="{height + 10:.1f}">{key}</text>')
        width, height = max(width, text_width(key, LABEL) * 0.85 + 2 * GAP), height + 18
    return _svg(lines, width, height, " ".join(forms))


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


def _looks(gold: Sentence, predicted: Sentence | None, sure: list) -> list[tuple[str, str]]:
    """Colour and class of the arc of each word: empty for those of the page's text, and for arcs that are right."""
    looks = []
    for i in range(len(gold)):
        wrong = predicted is not None and bool(gold.heads) and bool(predicted.heads) and (
            gold.heads[i] != predicted.heads[i]
            or bool(gold.deprels and predicted.deprels and gold.deprels[i] != predicted.deprels[i])
        )  # fmt: skip
        colour = (WRONG if wrong else "") if not sure or sure[i] is None else _mixed(sure[i])
        looks.append((colour, "wrong" if wrong else ""))
    return looks


def _mixed(p: float) -> str:
    """A colour between that of 0, unsure, and that of 1."""
    ends = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in (UNSURE, SURE)]
    share = min(max(p, 0.0), 1.0)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in zip(*ends))


def _draw(tree: Tree, centres: list, base: float, side: int, looks: list, sure: list) -> list[str]:
    """The arcs of a tree above words (side -1) or below (1), and then all labels, so that no arc lies on one."""
    ends = [(centres[arc.left] + left, centres[arc.right] + right) for arc, (left, right) in zip(tree.arcs, tree.ports)]
    lines, relations = [], []
    below = LABEL - 1 if side > 0 else 0

    def add(word: int, line: str, x: float, place: float, y: float) -> None:
        wide = base + 6 * side
        label, (colour, kind) = tree.labels[word], looks[word]
        known = "" if not sure or sure[word] is None else f" {100 * sure[word]:.1f}%"
        title = f"<title>{escape(f'{label}{known}'.strip())}</title>" if label or known else ""
        attributes = (f' color="{colour}"' if colour else "") + (f' class="{kind}"' if kind else "")
        tip = f'<polygon class="tip" points="{x - 3:.1f},{wide} {x + 3:.1f},{wide} {x:.1f},{base}"/>'
        lines.append(f"<g{attributes}>{title}{line}{tip}</g>")
        relations.append(_text(label, place, y + side * 5 + below, "relation"))

    for arc, level, (left, right) in zip(tree.arcs, tree.levels, ends):
        y = base + side * level * STEP
        rising = [x for other, pair in zip(tree.levels, ends) if other > level for x in pair]
        rising += [centres[i] for i in tree.roots]
        begin, end = (left, right) if arc.word == arc.right else (right, left)
        add(arc.word, _line(begin, end, y, base, side), end, free_place(arc.label, left, right, rising), y)
    for i in tree.roots:
        y = base + side * (tree.height - 1) * STEP
        add(i, f'<path class="arc" d="M{centres[i]:.1f},{y}V{base}"/>', centres[i], centres[i], y)
    return lines + relations


def _line(begin: float, end: float, y: float, base: float, side: int) -> str:
    bend, turn = (8 if begin < end else -8), 8 * side
    d = f"M{begin:.1f},{base}V{y - turn}q0,{turn},{bend},{turn}H{end - bend:.1f}q{bend},0,{bend},{-turn}V{base}"
    return f'<path class="arc" d="{d}"/>'


def _key(compares: bool, is_sure: bool) -> str:
    """What sides, dashes and colours mean."""
    parts = ["above: gold; below: predicted, dashed where it is wrong"] if compares else []
    return "; ".join(parts + (["blue: sure, orange: unsure"] if is_sure else []))


def _text(text: str, x: float, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>' if text else ""


def _clean(text: str | None, missing: str = "") -> str:
    """What XML can hold of a string, and ``missing`` for none."""
    return missing if text in (None, "_") else _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _svg(lines: list[str], width: float, height: float, title: str) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" class="omkl-tree" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        *filter(None, lines),
        "</svg>",
        "",
    ])  # fmt: skip
