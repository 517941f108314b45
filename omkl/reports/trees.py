"""A parsed sentence as a picture: words in a row, an arc from each head to each of its words, relations above."""

import re
from collections import defaultdict
from html import escape
from itertools import pairwise
from typing import NamedTuple
from unicodedata import east_asian_width

from omkl.data import Sentence

#: Sizes in pixels: of letters, between words, between arcs, and between two arcs that meet at a word.
WORD, LABEL, GAP, STEP, PORT = 16, 11, 14, 22, 7
_NOT_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")


class _Arc(NamedTuple):
    left: int
    right: int
    word: int
    label: str


def draw_tree(sentence: Sentence) -> str:
    """A sentence and its arcs as SVG (the top of Figure 1 of Martins et al. 2011).

    Arcs go from heads to words; those that span a common gap between words have different heights, shorter ones
    below. Where arcs cross, they cross in the picture as well.

    Parameters
    ----------
    sentence : Sentence
        With forms; heads, relations and tags are drawn where it has them.

    Returns
    -------
    str
        The text of an SVG file.

    >>> from omkl.data import Sentence
    >>> picture = draw_tree(Sentence(forms=["No", "way"], upos=["DET", "NOUN"], heads=[2, 0], deprels=["det", "root"]))
    >>> picture.count("<path class="), picture.startswith("<svg"), ">det</text>" in picture
    (2, True, True)
    """
    heads = sentence.heads or [None] * len(sentence)
    labels = [_clean(label) for label in sentence.deprels or [""] * len(sentence)]
    tags = [_clean(tag) for tag in sentence.upos or [""] * len(sentence)]
    forms = [_clean(form, "_") for form in sentence.forms]
    roots = [i for i, head in enumerate(heads) if head == 0]
    arcs = [_Arc(min(i, h - 1), max(i, h - 1), i, labels[i]) for i, h in enumerate(heads) if h]
    levels = _levels(arcs)
    ports = _ports(arcs, levels)
    widths = [max(_width(form, WORD), _width(tag, LABEL)) for form, tag in zip(forms, tags)]
    for i in roots:
        widths[i] = max(widths[i], _width(labels[i], LABEL))
    centres = _centres(widths, arcs, ports)
    ends = [(centres[arc.left] + left, centres[arc.right] + right) for arc, (left, right) in zip(arcs, ports)]
    top = max(levels, default=0) + (2 if roots else 1)
    base = 8 + top * STEP
    lines, relations = [], []
    for arc, level, (left, right) in zip(arcs, levels, ends):
        y = base - level * STEP
        lines.append(_draw_arc(*((left, right) if arc.word == arc.right else (right, left)), y, base))
        rising = [x for other, pair in zip(levels, ends) if other > level for x in pair] + [centres[i] for i in roots]
        relations.append(_text(arc.label, _free_place(arc.label, left, right, rising), y - 5, "relation"))
    for i in roots:
        y = base - (top - 1) * STEP
        lines.append(_line(f"M{centres[i]:.1f},{y}V{base}"))
        relations.append(_text(labels[i], centres[i], y - 5, "relation"))
    lines += relations
    for form, tag, x in zip(forms, tags, centres):
        lines += [_text(form, x, base + WORD + 4, "form"), _text(tag, x, base + WORD + LABEL + 9, "tag")]
    width = centres[-1] + widths[-1] / 2 + GAP if centres else 2 * GAP
    return _svg(lines, width, base + WORD + LABEL + 18, " ".join(forms))


def _levels(arcs: list[_Arc]) -> list[int]:
    """Heights of arcs, from 1: above all shorter ones that span a common gap."""
    levels, at = [0] * len(arcs), defaultdict[int, int](int)
    for k in sorted(range(len(arcs)), key=lambda k: (arcs[k].right - arcs[k].left, arcs[k].left)):
        gaps = range(arcs[k].left, arcs[k].right)
        levels[k] = 1 + max(at[gap] for gap in gaps)
        at.update(dict.fromkeys(gaps, levels[k]))
    return levels


def _ports(arcs: list[_Arc], levels: list[int]) -> list[tuple[float, float]]:
    """Where each arc begins and ends, from the centres of its words: higher ones nearer, so that none cross there."""
    used, ports = defaultdict[tuple, int](int), [(0.0, 0.0)] * len(arcs)
    for k in sorted(range(len(arcs)), key=lambda k: -levels[k]):
        left, right = (arcs[k].left, "right"), (arcs[k].right, "left")
        ports[k] = (0.5 + used[left]) * PORT, -(0.5 + used[right]) * PORT
        used[left] += 1
        used[right] += 1
    return ports


def _centres(widths: list[float], arcs: list[_Arc], ports: list[tuple[float, float]]) -> list[float]:
    """Places of words, as near to each other as their widths, the arcs that meet there, and the labels let them be."""
    reach = [[width / 2, width / 2] for width in widths]
    for arc, (left, right) in zip(arcs, ports):
        reach[arc.left][1] = max(reach[arc.left][1], left)
        reach[arc.right][0] = max(reach[arc.right][0], -right)
    centres: list[float] = []
    for i, (before, _) in enumerate(reach):
        x = GAP + before if not centres else centres[-1] + reach[i - 1][1] + GAP + before
        for arc, (left, right) in zip(arcs, ports):
            if arc.right == i:
                x = max(x, centres[arc.left] + left - right + _width(arc.label, LABEL) + GAP)
        centres.append(x)
    return centres


def _draw_arc(begin: float, end: float, y: float, base: float) -> str:
    bend = 8 if begin < end else -8
    return _line(f"M{begin:.1f},{base}V{y + 8}q0,-8,{bend},-8H{end - bend:.1f}q{bend},0,{bend},8V{base}")


def _free_place(label: str, left: float, right: float, rising: list[float]) -> float:
    """The middle of an arc, or of the widest gap between lines that rise through it where one would meet the label."""
    middle = (left + right) / 2
    between = sorted(x for x in rising if left < x < right)
    if all(abs(x - middle) > _width(label, LABEL) / 2 + 2 for x in between):
        return middle
    gaps = pairwise([left, *between, right])
    low, high = max(gaps, key=lambda gap: gap[1] - gap[0])
    return (low + high) / 2


def _line(path: str) -> str:
    return f'<path class="arc" marker-end="url(#tip)" d="{path}"/>'


def _text(text: str, x: float, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>' if text else ""


def _width(text: str, size: int) -> float:
    """About as wide as the text is in a sans-serif font of this size."""
    return size * sum(1.05 if east_asian_width(c) in "WF" or c in "mwMW@" else 0.68 for c in text)


def _clean(text: str | None, missing: str = "") -> str:
    """What XML can hold of a string, and ``missing`` for none."""
    return missing if text in (None, "_") else _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _svg(lines: list[str], width: float, height: float, title: str) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif">',
        f"<title>{escape(title)}</title>",
        "<style>text{text-anchor:middle} .form{font-size:16px} .tag{font-size:11px;fill:#767676} "
        ".relation{font-size:11px;fill:#1f4e8c;paint-order:stroke;stroke:#fff;stroke-width:4px} "
        ".arc{fill:none;stroke:#555;stroke-width:1.2}</style>",
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3.5" orient="auto">'
        '<path d="M0,0L7,3.5L0,7Z" fill="#555"/></marker></defs>',
        *filter(None, lines),
        "</svg>",
        "",
    ])  # fmt: skip
