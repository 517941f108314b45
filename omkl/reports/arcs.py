"""Layout of the words and the arcs of a drawn sentence."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from unicodedata import east_asian_width

#: Sizes in pixels: of letters, between words, between arcs, and between two arcs that meet at a word.
WORD, LABEL, GAP, STEP, PORT = 16, 11, 14, 22, 7


class Arc(NamedTuple):
    """An arc between two words, by their indices, from the head to ``word``."""

    left: int
    right: int
    word: int
    label: str


@dataclass(frozen=True)
class Tree:
    """The arcs of a sentence on one side of its words.

    An arc has a level, its height from 1, and ports, the offsets of its ends from the centres of its words.
    """

    arcs: list[Arc]
    levels: list[int]
    ports: list[tuple[float, float]]
    roots: list[int]
    labels: list[str]

    @property
    def height(self) -> int:
        """Number of levels, and one for the lines of roots."""
        return max(self.levels, default=0) + (2 if self.roots else 1)


def tree_of(heads: Sequence[int | None], labels: list[str]) -> Tree:
    """The arcs of heads, from 1, with 0 for the root and None where there is none."""
    arcs = [Arc(min(i, h - 1), max(i, h - 1), i, labels[i]) for i, h in enumerate(heads) if h]
    levels = _levels(arcs)
    return Tree(arcs, levels, _ports(arcs, levels), [i for i, head in enumerate(heads) if head == 0], labels)


def _levels(arcs: list[Arc]) -> list[int]:
    """Heights of arcs, from 1: above all shorter ones that span a common gap."""
    levels, at = [0] * len(arcs), defaultdict[int, int](int)
    for k in sorted(range(len(arcs)), key=lambda k: (arcs[k].right - arcs[k].left, arcs[k].left)):
        gaps = range(arcs[k].left, arcs[k].right)
        levels[k] = 1 + max(at[gap] for gap in gaps)
        at.update(dict.fromkeys(gaps, levels[k]))
    return levels


def _ports(arcs: list[Arc], levels: list[int]) -> list[tuple[float, float]]:
    """Offsets of the ends of arcs from the centres of their words: higher arcs nearer, so that none cross there."""
    used, ports = defaultdict[tuple, int](int), [(0.0, 0.0)] * len(arcs)
    for k in sorted(range(len(arcs)), key=lambda k: -levels[k]):
        left, right = (arcs[k].left, "right"), (arcs[k].right, "left")
        ports[k] = (0.5 + used[left]) * PORT, -(0.5 + used[right]) * PORT
        used[left] += 1
        used[right] += 1
    return ports


def centres_of(widths: list[float], trees: Iterable[Tree]) -> list[float]:
    """Places of words, as near to each other as their widths, the arcs that meet there, and the labels let them be."""
    reach = [[width / 2, width / 2] for width in widths]
    ending = defaultdict[int, list](list)
    for tree in trees:
        for arc, (left, right) in zip(tree.arcs, tree.ports):
            reach[arc.left][1] = max(reach[arc.left][1], left)
            reach[arc.right][0] = max(reach[arc.right][0], -right)
            ending[arc.right].append((arc.left, left - right + text_width(arc.label, LABEL) + GAP))
    centres: list[float] = []
    for i, (before, _) in enumerate(reach):
        x = GAP + before if not centres else centres[-1] + reach[i - 1][1] + GAP + before
        centres.append(max([x, *(centres[left] + room for left, room in ending[i])]))
    return centres


def free_place(label: str, left: float, right: float, rising: list[float]) -> float:
    """The middle of an arc, or of the widest gap between lines that rise through it where one would meet the label."""
    middle = (left + right) / 2
    between = sorted(x for x in rising if left < x < right)
    if all(abs(x - middle) > text_width(label, LABEL) / 2 + 2 for x in between):
        return middle
    gaps = pairwise([left, *between, right])
    low, high = max(gaps, key=lambda gap: gap[1] - gap[0])
    return (low + high) / 2


def text_width(text: str, size: int) -> float:
    """About as wide as the text is in a sans-serif font of this size."""
    return size * sum(1.05 if east_asian_width(c) in "WF" or c in "mwMW@" else 0.68 for c in text)
