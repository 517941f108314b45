"""The built-in sets of templates, as text; see :mod:`omkl.groups.templates` for the language."""

import re
from collections.abc import Iterable, Sequence
from itertools import product

#: Variants of a template: add nothing, the direction of the arc, or direction and distance.
VARIANTS = ("arc", "direction", "distance")


def _side(token: str, view: str) -> str:
    """Turn a view of a token, ``"upos-1 upos"``, into atoms of head or modifier: ``"h-1.upos h.upos"``."""
    return " ".join(re.sub(r"(\w+?)([+-]\d+)?$", rf"{token}\2.\1", atom, count=1) for atom in view.split())


def _crossed(heads: Iterable[str], modifiers: Iterable[str], variants: Sequence[str] = VARIANTS) -> list[str]:
    """Combine every view of the head with every view of the modifier, in each variant."""
    triples = product(heads, modifiers, variants)
    return [f"{_side('h', head)} {_side('m', modifier)} {variant}" for head, modifier, variant in triples]


_MARTINS_VIEWS = (
    "", "form", "lemma", "xpos", "upos", "form xpos", "lemma xpos", "xpos-1 xpos", "xpos xpos+1",
    "xpos-1 xpos xpos+1", "xpos-2 xpos-1 xpos", "xpos xpos+1 xpos+2", "lemma upos-1 upos+1",
)  # fmt: skip


def _martins507() -> list[str]:
    """Return 13 views of the head x 13 of the modifier x 3 variants, as many as Martins et al. (2011)."""
    return _crossed(_MARTINS_VIEWS, _MARTINS_VIEWS)


def _mcdonald2005() -> list[str]:
    """Return the arc-factored features of McDonald, Crammer and Pereira (2005), with direction and with distance."""
    word, tag, both = "form", "xpos", "form xpos"
    views = [(a, "") for a in (both, word, tag)] + [("", a) for a in (both, word, tag)]
    views += [(both, both), (tag, both), (word, both), (both, tag), (both, word), (word, word), (tag, tag)]
    neighbours = "xpos xpos+1", "xpos-1 xpos"
    views += [(a, b) for a in neighbours for b in neighbours]
    return [
        *(line for head, modifier in views for line in _crossed([head], [modifier], VARIANTS[1:])),
        *(f"h.xpos between.xpos m.xpos {variant}" for variant in VARIANTS[1:]),
    ]


def _small() -> list[str]:
    """Return templates of tags, words and adjacent tags, for fast training."""
    views = ("upos", "lemma", "xpos-1 xpos xpos+1")
    around = ["distance", "h.upos between.upos m.upos direction"]
    return [*_crossed(views, views, VARIANTS[1:]), *_crossed(["", "form xpos"], ["form xpos"]), *around]


def _rich() -> list[str]:
    """Return the 507 and other useful templates: morphology, affixes, and tags between head and modifier."""
    shapes = ("suffix3 upos", "prefix3 upos", "upos feats", "lower", "upos-1 upos upos+1")
    tags = ("upos", "xpos", "lemma")
    between, attributes = ("upos", "xpos", "lemma"), ("Case", "Number", "Gender", "Person", "VerbForm")
    return [
        *_martins507(),
        *_crossed(shapes, (*shapes, *tags)),
        *_crossed(tags, shapes),
        *(f"h.{a} between.{b} m.{a} {v}" for a, b in zip(("upos", "xpos", "upos"), between) for v in VARIANTS),
        *(f"h.{a} m.{a} h.upos m.upos {v}" for a, v in product(attributes, VARIANTS[:2])),
    ]


def of_lexicon(name: str) -> list[str]:
    """Return the templates of "auto" for a lexicon: its values with each other, tags, lemmas and forms."""
    beside = ("upos", "lemma", "form xpos", f"{name} upos")
    pairs = [(name, name), *((name, view) for view in beside), *((view, name) for view in beside)]
    views = [*pairs, ("", name), (name, ""), (f"{name} upos", f"{name} upos")]
    return [line for head, modifier in views for line in _crossed([head], [modifier], VARIANTS[1:])]


def _parts() -> list[str]:
    """Return templates of grandparent and sibling parts: tags, lemmas, morphology, and tags around the three words."""
    tags, words = ("upos", "upos", "upos"), ("lemma", "lemma", "lemma")
    views = [
        tags, ("xpos", "xpos", "xpos"), ("upos", "", "upos"), ("lemma", "", "lemma"),
        ("feats", "feats", "feats"), ("feats", "", "feats"),
        *((*tags[:k], "lemma", *tags[k + 1 :]) for k in range(3)),
        *((*words[:k], "upos", *words[k + 1 :]) for k in range(3)),
        *((*tags[:k], own, *tags[k + 1 :]) for k in range(3) for own in ("upos-1 upos", "upos upos+1", "upos feats")),
    ]  # fmt: skip
    return [
        f"{_side(part, third)} {_side('h', head)} {_side('m', modifier)} {variant}"
        for part in "gs"
        for third, head, modifier in views
        for variant in VARIANTS[1:]
    ]


#: The built-in sets, by name. From "auto", the richest, parsers keep the templates that suit the treebank.
NAMED_SETS = {
    "martins507": _martins507,
    "mcdonald2005": _mcdonald2005,
    "small": _small,
    "rich": _rich,
    "auto": lambda: [*_rich(), *_parts()],
    "parts": _parts,
}
