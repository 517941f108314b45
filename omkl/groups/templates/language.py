"""Feature templates of dependency arcs: a small language, and the built-in sets.

A template is a conjunction of atoms, separated by spaces:

``h.form``, ``m-1.upos``, ``h+2.lemma``
    A field of a token, relative to the head (``h``) or to the modifier (``m``) of an arc. Fields
    are ``form``, ``lower``, ``lemma``, ``upos``, ``xpos``, ``feats`` and ``misc`` (whole columns),
    ``prefix1`` .. ``prefix9``, ``suffix1`` .. ``suffix9``; single attributes of FEATS by their
    capitalised name, ``h.Case`` or ``h.Number[psor]``; single attributes of either column,
    ``h.misc:Gloss`` or ``h.feats:case``; and values of words in a user's lexicon, by its name,
    ``h.cluster``, or their first four characters, ``h.cluster:4``.
``between.upos``
    A field of each token between head and modifier: one feature for each of its distinct values.
``g.upos``, ``s-1.lemma``
    A field of the head's head (``g``), or of the next modifier between head and modifier (``s``).
    These templates describe grandparent and sibling parts instead of arcs. A sibling template also
    describes first modifiers, which have no ``s``, and the end of each side of a head, which has no
    ``m``.
``direction``, ``distance``
    Whether the modifier is left or right of its head; the same with a bin of the distance. ``arc``
    adds neither.

Files have one template per line, ``name = atoms`` or just the atoms; ``#`` begins a comment.
"""

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from omkl.exceptions import InputError

#: Variants of a template: add nothing, the direction of the arc, or direction and distance.
VARIANTS = ("arc", "direction", "distance")


def _side(token: str, view: str) -> str:
    """Turn a view of a token, ``"upos-1 upos"``, into atoms of head or modifier: ``"h-1.upos
    h.upos"``.
    """
    return " ".join(
        re.sub(r"(\w+?)([+-]\d+)?$", rf"{token}\2.\1", atom, count=1) for atom in view.split()
    )


def _conjunctions(
    views: Iterable[tuple[str, str]], variants: Sequence[str] = VARIANTS
) -> list[str]:
    """Combine each view of the head with its view of the modifier, in each variant."""
    return [
        f"{_side('h', head)} {_side('m', modifier)} {variant}"
        for head, modifier in views
        for variant in variants
    ]


_MARTINS_VIEWS = (
    "", "form", "lemma", "xpos", "upos", "form xpos", "lemma xpos", "xpos-1 xpos", "xpos xpos+1",
    "xpos-1 xpos xpos+1", "xpos-2 xpos-1 xpos", "xpos xpos+1 xpos+2", "lemma upos-1 upos+1",
)  # fmt: skip


def _mcdonald() -> list[str]:
    """Return the arc-factored features of McDonald, Crammer and Pereira (2005), with direction and
    with distance.
    """
    word, tag, both = "form", "xpos", "form xpos"
    views = [(a, "") for a in (both, word, tag)] + [("", a) for a in (both, word, tag)]
    views += [
        (both, both),
        (tag, both),
        (word, both),
        (both, tag),
        (both, word),
        (word, word),
        (tag, tag),
    ]
    neighbours = "xpos xpos+1", "xpos-1 xpos"
    views += product(neighbours, neighbours)
    between = [f"h.xpos between.xpos m.xpos {variant}" for variant in VARIANTS[1:]]
    return _conjunctions(views, VARIANTS[1:]) + between


def _small() -> list[str]:
    """Return templates of tags, words and adjacent tags, for fast training."""
    views = "upos", "lemma", "xpos-1 xpos xpos+1"
    words = _conjunctions([("", "form xpos"), ("form xpos", "form xpos")])
    others = ["distance", "h.upos between.upos m.upos direction"]
    return [*_conjunctions(product(views, views), VARIANTS[1:]), *words, *others]


def _rich() -> list[str]:
    """Return the 507 and other useful templates: morphology, affixes, and tags between head and
    modifier.
    """
    shapes = ("suffix3 upos", "prefix3 upos", "upos feats", "lower", "upos-1 upos upos+1")
    tags = ("upos", "xpos", "lemma")
    between, attributes = (
        ("upos", "xpos", "lemma"),
        ("Case", "Number", "Gender", "Person", "VerbForm"),
    )
    return [
        *_conjunctions(product(_MARTINS_VIEWS, _MARTINS_VIEWS)),
        *_conjunctions(product(shapes, (*shapes, *tags))),
        *_conjunctions(product(tags, shapes)),
        *(
            f"h.{a} between.{b} m.{a} {v}"
            for a, b in zip(("upos", "xpos", "upos"), between)
            for v in VARIANTS
        ),
        *(f"h.{a} m.{a} h.upos m.upos {v}" for a, v in product(attributes, VARIANTS[:2])),
    ]


def of_lexicon(name: str) -> list[str]:
    """Return the templates of "auto" for a lexicon: its values with each other, tags, lemmas and
    forms.
    """
    beside = ("upos", "lemma", "form xpos", f"{name} upos")
    pairs = [(name, name), *((name, view) for view in beside), *((view, name) for view in beside)]
    return _conjunctions(
        [*pairs, ("", name), (name, ""), (f"{name} upos", f"{name} upos")], VARIANTS[1:]
    )


def _parts() -> list[str]:
    """Return templates of grandparent and sibling parts: tags, lemmas, morphology, and tags around
    the three words.
    """
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


#: The built-in sets, by name. From "auto", the richest, parsers keep the templates that suit the
#: treebank.
NAMED_SETS = {
    # 13 views of the head x 13 of the modifier x 3 variants, as many as Martins et al. (2011)
    "martins507": lambda: _conjunctions(product(_MARTINS_VIEWS, _MARTINS_VIEWS)),
    "mcdonald2005": _mcdonald,
    "small": _small,
    "rich": _rich,
    "auto": lambda: [*_rich(), *_parts()],
    "parts": _parts,
}


#: Smallest distance of each bin of ``distance``, at most eight bins.
DISTANCE_BINS = (1, 2, 3, 5, 8, 16)
_TOKEN = re.compile(r"([hmgs])([+-]\d+)?\.([^\s.]+)")
_FIELD = re.compile(
    r"form|lower|lemma|upos|xpos|feats|misc|(?:prefix|suffix)[1-9]|[A-Z]\w*(?:\[\w+\])?|(?:feats|misc):[^\s:]+"
)
#: Relatives of a word in a given tree, with fields such as ``parent_upos``, for templates of
#: relations.
RELATIVES = ("parent", "leftmost", "rightmost", "before", "after")
#: Kinds of parts by the letter of their third node.
PARTS = {"g": "grandparent", "s": "sibling"}
_RELATIVE = re.compile(f"(?:(?:{'|'.join(RELATIVES)})_)+")
#: Field of the number of children of a word on either side, for templates of relations.
VALENCY = "valency"
_VALUE = re.compile(r"(\w+)(?::[1-9]\d?)?")
#: Columns that parsers predict; they are not fields.
_FOUND_OUT = ("head", "deprel", "deps")


def distance_name(distance: int) -> str:
    """Return the bin of a distance as text.

    Parameters
    ----------
    distance : int >= 1

    >>> distance_name(1), distance_name(4), distance_name(99)
    ('1', '3-4', '16+')
    """
    k = bisect_right(DISTANCE_BINS, distance)
    low, high = DISTANCE_BINS[k - 1], DISTANCE_BINS[k] - 1 if k < len(DISTANCE_BINS) else None
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class Template:
    """A conjunction of fields of an arc's head, its modifier, and the tokens around and between
    them.

    Attributes
    ----------
    head, modifier, third : tuple of (int, str)
        Offsets from the head, the modifier or the third node of a part, and the fields at these
        offsets.
    part : {"arc", "grandparent", "sibling"}
    between : str or None
        Field of the tokens between head and modifier.
    variant : {"arc", "direction", "distance"}
    label : str
        User-defined name; empty for none.

    >>> Template.parse("h.form m-1.upos distance").modifier
    ((-1, 'upos'),)
    """

    head: tuple[tuple[int, str], ...] = ()
    modifier: tuple[tuple[int, str], ...] = ()
    between: str | None = None
    variant: str = "arc"
    label: str = ""
    third: tuple[tuple[int, str], ...] = ()
    part: str = "arc"

    @classmethod
    def parse(cls, text: str, where: str = "", lexicons: Collection[str] = ()) -> "Template":
        """Read a template from a line of text.

        Parameters
        ----------
        text : str
            ``name = atoms``, or just the atoms.
        where : str
            Location of the line, which begins error messages.
        lexicons : collection of str
            Names of lexicons, which are fields as well.
        """
        label, equals, atoms = text.rpartition("=")
        tokens: dict[str, list[tuple[int, str]]] = {"h": [], "m": [], "g": [], "s": []}
        between: str | None = None
        variants: list[str] = []
        for atom in atoms.split():
            match = _TOKEN.fullmatch(atom)
            if match:
                side, offset, field = match.groups()
                tokens[side].append((int(offset or 0), _checked(field, where, lexicons)))
            elif atom.startswith("between.") and between is None:
                between = _checked(atom.removeprefix("between."), where, lexicons)
            elif atom in VARIANTS and not variants:
                variants.append(atom)
            else:
                raise InputError(
                    f"{where}{atom!r} is not an atom of a template: write h.FIELD, m+1.FIELD, g.FIELD, s.FIELD, "
                    "between.FIELD (once), and direction or distance."
                )
        if not atoms.split() or (equals and not label.strip()):
            raise InputError(f"{where}A template must be atoms, or name = atoms, not {text!r}.")
        variant = variants[0] if variants else "arc"
        kinds = [kind for kind in ("g", "s") if tokens[kind]]
        if len(kinds) + (between is not None) > 1:
            raise InputError(
                f"{where}A template can have only one of g, s and between, got {text!r}."
            )
        part, third = (PARTS[kinds[0]], tuple(tokens[kinds[0]])) if kinds else ("arc", ())
        return cls(
            tuple(tokens["h"]), tuple(tokens["m"]), between, variant, label.strip(), third, part
        )

    @cached_property
    def atoms(self) -> str:
        """The template as text, without its name."""
        sides = ((self.part[0], self.third), ("h", self.head), ("m", self.modifier))
        parts = [
            f"{side}{offset:+}.{field}" if offset else f"{side}.{field}"
            for side, tokens in sides
            for offset, field in tokens
        ]
        if self.between:
            parts.append(f"between.{self.between}")
        return " ".join(parts + [self.variant] * (self.variant != "arc")) or "arc"

    @property
    def name(self) -> str:
        """Name of the group: the label if there is one, else the atoms."""
        return self.label or self.atoms

    @property
    def fields(self) -> set[str]:
        """Names of the fields of the template."""
        return {field for _, field in self.tokens} | ({self.between} if self.between else set())

    @property
    def tokens(self) -> tuple[tuple[int, str], ...]:
        """Offsets and fields of all tokens."""
        return self.head + self.modifier + self.third

    @property
    def identity(self) -> tuple:
        """A key that is equal for templates with the same atoms in any order."""
        return (
            *map(frozenset, (self.head, self.modifier, self.third)),
            self.part,
            self.between,
            self.variant,
        )

    def replacing(self, fields: Mapping[str, str]) -> "Template":
        """Return the template with other fields, also of relatives, each field at most once.

        Parameters
        ----------
        fields : mapping of str to str
            Maps fields to their replacements.

        >>> str(Template.parse("h.upos h.xpos m+1.parent_xpos").replacing({"xpos": "upos"}))
        'h.upos m+1.parent_upos'
        """
        own_of = {field: own_field(field) for field in self.fields}
        new = {
            field: field.removesuffix(own) + fields.get(own, own) for field, own in own_of.items()
        }
        if all(field == other for field, other in new.items()):
            return self
        head, modifier, third = (
            tuple(dict.fromkeys((offset, new[field]) for offset, field in side))
            for side in (self.head, self.modifier, self.third)
        )
        between = self.between and new[self.between]
        return replace(self, head=head, modifier=modifier, third=third, between=between)

    def __str__(self) -> str:
        return f"{self.label} = {self.atoms}" if self.label else self.atoms


def is_field(name: str) -> bool:
    """Return True if a name is a built-in field, or a column that a parser predicts."""
    return _FIELD.fullmatch(name) is not None or name in _FOUND_OUT or sees_trees(name)


def sees_trees(field: str) -> bool:
    """Return True if a field needs a tree."""
    return own_field(field) != field or field == VALENCY


def own_field(field: str) -> str:
    """Return a field without its relatives.

    >>> own_field("parent_leftmost_lower"), own_field("lower")
    ('lower', 'lower')
    """
    return _RELATIVE.sub("", field, count=1)


def _checked(field: str, where: str, lexicons: Collection[str]) -> str:
    own = own_field(field)
    value = _VALUE.fullmatch(own)
    if own == VALENCY or _FIELD.fullmatch(own) or (value and value[1] in lexicons):
        return field
    raise InputError(
        f"{where}there is no field {field!r} that is available before parsing: choose form, lower, lemma, upos, xpos, "
        "feats, misc, prefix1 to prefix9, suffix1 to suffix9, a capitalised attribute of FEATS, misc:NAME, or the name "
        "of a lexicon."
    )


#: Name of a set, path of a file, or templates.
AnyTemplates: TypeAlias = str | os.PathLike | Iterable[Template | str]
#: Lexicons by name: objects with ``values_of(words)``, or None.
Lexicons: TypeAlias = Mapping[str, Any] | None


class TemplateSet(Sequence):
    """An ordered set of templates with unique names.

    Parameters
    ----------
    templates : iterable of Template or str
    lexicons : dict, optional
        Lexicons for the templates, by name: objects with ``values_of(words)``.

    >>> small = TemplateSet(["h.upos m.upos distance", "words = h.form m.form"])
    >>> small.names
    ['h.upos m.upos distance', 'words']
    >>> print(small.filter("* distance"))
    h.upos m.upos distance
    """

    def __init__(self, templates: Iterable[Template | str], lexicons: Lexicons = None) -> None:
        #: Lexicons by name.
        self.lexicons: Mapping[str, Any] = lexicons or {}
        self._templates = [
            t if isinstance(t, Template) else Template.parse(t, "", self.lexicons)
            for t in templates
        ]
        if not self._templates:
            raise InputError("There is no template: give at least one.")
        for values in ([template.name for template in self], [template.atoms for template in self]):
            if twice := [value for value, n in Counter(values).items() if n > 1]:
                raise InputError(f"The template {twice[0]!r} is given twice: drop one.")

    @classmethod
    def read(cls, path: str | os.PathLike, lexicons: Lexicons = None) -> "TemplateSet":
        """Read templates from a text file, one per line; errors name file and line.

        Parameters
        ----------
        path : str or path
        lexicons : mapping of str to lexicon, optional
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The template file {path} cannot be read: {error}.") from None
        stripped = [(n, line.partition("#")[0].strip()) for n, line in enumerate(lines, 1)]
        found = [
            Template.parse(line, f"{path}, line {n}: ", lexicons or ())
            for n, line in stripped
            if line
        ]
        return cls(found, lexicons)

    @classmethod
    def resolve(cls, templates: AnyTemplates, lexicons: Lexicons = None) -> "TemplateSet":
        """Make a set from its name, the path of a file, or an iterable of templates.

        Parameters
        ----------
        templates : str, path, or iterable of Template or str
        lexicons : mapping of str to lexicon, optional
            The set "auto" has templates for each of these.
        """
        if isinstance(templates, TemplateSet) and not lexicons:
            return templates
        if isinstance(templates, (str, os.PathLike)):
            if templates in NAMED_SETS:
                own = (
                    [line for name in lexicons or () for line in of_lexicon(name)]
                    if templates == "auto"
                    else []
                )
                return cls([*NAMED_SETS[templates](), *own], lexicons)
            if os.path.exists(templates) and not os.path.isdir(templates):
                return cls.read(templates, lexicons)
        if isinstance(templates, (str, os.PathLike)) or not isinstance(templates, Iterable):
            raise InputError(
                f"`templates` must be a file, one of {', '.join(NAMED_SETS)}, or a list of strings, got "
                f"{str(templates)!r:.80}."
            )
        return cls(templates, lexicons)

    def __len__(self) -> int:
        return len(self._templates)

    def __getitem__(self, i: int | slice) -> Any:
        return (
            TemplateSet(self._templates[i], self.lexicons)
            if isinstance(i, slice)
            else self._templates[i]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TemplateSet) and self._templates == other._templates

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"<{len(self)} templates>"

    @property
    def names(self) -> list[str]:
        """Names of the templates, in order."""
        return [template.name for template in self]

    @cached_property
    def fields(self) -> list[str]:
        """Sorted names of all fields of the templates."""
        return sorted(set().union(*(template.fields for template in self)))

    @property
    def looked_up(self) -> set[str]:
        """Names of the lexicons that the templates use."""
        return {own_field(field).partition(":")[0] for field in self.fields} & set(self.lexicons)

    @cached_property
    def reach(self) -> int:
        """The largest offset from a head or modifier."""
        return max((abs(offset) for t in self for offset, _ in t.tokens), default=0)

    @property
    def part(self) -> str:
        """Kind of the parts that the templates describe, which must be the same for all."""
        (part,) = {template.part for template in self}
        return part

    def by_part(self) -> "dict[str, TemplateSet]":
        """Split the set by the kind of part, arcs first."""
        kinds = {kind: [t for t in self if t.part == kind] for kind in ("arc", *PARTS.values())}
        return {kind: TemplateSet(own, self.lexicons) for kind, own in kinds.items() if own}

    def filter(self, pattern: str) -> "TemplateSet":
        """Return the templates whose name or atoms match a pattern.

        Parameters
        ----------
        pattern : str
            Pattern, with ``*`` for any characters and ``?`` for one.
        """
        found = [t for t in self if fnmatchcase(t.name, pattern) or fnmatchcase(t.atoms, pattern)]
        return TemplateSet(found, self.lexicons)

    def keep(self, names: Iterable[str]) -> "TemplateSet":
        """Return the templates with these names, in the order of the set.

        Parameters
        ----------
        names : iterable of str
        """
        missing = set(names) - set(self.names)
        if missing:
            raise InputError(f"There is no template {sorted(missing)[0]!r} in the set.")
        return TemplateSet([t for t in self if t.name in set(names)], self.lexicons)
