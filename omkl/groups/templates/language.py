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
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeAlias

from omkl.exceptions import InputError

#: Variants of a template: add nothing, the direction of the arc, or direction and distance.
VARIANTS = ("arc", "direction", "distance")


def _side(token: str, view: str) -> str:
    """Turn a view, ``"upos-1 upos"``, into atoms of a token, ``"h-1.upos h.upos"``."""
    return re.sub(r"(\w+?)([+-]\d+)?(?=\s|$)", rf"{token}\2.\1", view)


def _conjunctions(
    views: Iterable[tuple[str, str]], variants: Sequence[str] = VARIANTS
) -> list[str]:
    """Combine each view of the head with its view of the modifier, in each variant."""
    lines = []
    for head, modifier in views:
        atoms = f"{_side('h', head)} {_side('m', modifier)}"
        lines += [f"{atoms} {variant}" for variant in variants]
    return lines


_MARTINS_VIEWS = (
    "", "form", "lemma", "xpos", "upos", "form xpos", "lemma xpos", "xpos-1 xpos", "xpos xpos+1",
    "xpos-1 xpos xpos+1", "xpos-2 xpos-1 xpos", "xpos xpos+1 xpos+2", "lemma upos-1 upos+1",
)  # fmt: skip


def _mcdonald() -> list[str]:
    """Return the arc-factored features of McDonald, Crammer and Pereira (2005).

    Each comes with direction and with distance.
    """
    word, tag, word_and_tag = "form", "xpos", "form xpos"
    views = [
        *product([word_and_tag, word, tag], [""]),
        *product([""], [word_and_tag, word, tag]),
        (word_and_tag, word_and_tag),
        (tag, word_and_tag),
        (word, word_and_tag),
        (word_and_tag, tag),
        (word_and_tag, word),
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
    """Return the 507 and other templates: morphology, affixes, and tags between the tokens."""
    shapes = ("suffix3 upos", "prefix3 upos", "upos feats", "lower", "upos-1 upos upos+1")
    tags = ("upos", "xpos", "lemma")
    lines = _conjunctions(product(_MARTINS_VIEWS, _MARTINS_VIEWS))
    lines += _conjunctions(product(shapes, (*shapes, *tags)))
    lines += _conjunctions(product(tags, shapes))
    for field, between in (("upos", "upos"), ("xpos", "xpos"), ("upos", "lemma")):
        for variant in VARIANTS:
            lines.append(f"h.{field} between.{between} m.{field} {variant}")
    for attribute in ("Case", "Number", "Gender", "Person", "VerbForm"):
        for variant in VARIANTS[:2]:
            lines.append(f"h.{attribute} m.{attribute} h.upos m.upos {variant}")
    return lines


def of_lexicon(name: str) -> list[str]:
    """Return the templates of "auto" for a lexicon.

    They combine its values with each other, with tags, lemmas and forms.
    """
    value_and_tag = f"{name} upos"
    others = ("upos", "lemma", "form xpos", value_and_tag)
    views = [(name, name)]
    views += product([name], others)
    views += product(others, [name])
    views += [("", name), (name, ""), (value_and_tag, value_and_tag)]
    return _conjunctions(views, VARIANTS[1:])


def _parts() -> list[str]:
    """Return templates of grandparent and sibling parts, which look at three words.

    They see tags, lemmas, morphology, and the tags around the words.
    """
    views = [
        ("upos", "upos", "upos"),
        ("xpos", "xpos", "xpos"),
        ("upos", "", "upos"),
        ("lemma", "", "lemma"),
        ("feats", "feats", "feats"),
        ("feats", "", "feats"),
    ]
    views += _one_word_differs("lemma", "upos")
    views += _one_word_differs("upos", "lemma")
    for position in range(3):
        for view in ("upos-1 upos", "upos upos+1", "upos feats"):
            views.append(_one_word_differs(view, "upos")[position])
    lines = []
    for token in PARTS:
        for third, head, modifier in views:
            atoms = f"{_side(token, third)} {_side('h', head)} {_side('m', modifier)}"
            lines += [f"{atoms} {variant}" for variant in VARIANTS[1:]]
    return lines


def _one_word_differs(view: str, others: str) -> list[tuple[str, str, str]]:
    """Return three views of three words: each word in turn has ``view``, the others ``others``."""
    return [(view, others, others), (others, view, others), (others, others, view)]


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
    r"form|lower|lemma|upos|xpos|feats|misc|(?:prefix|suffix)[1-9]"
    r"|[A-Z]\w*(?:\[\w+\])?|(?:feats|misc):[^\s:]+"
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
    following = bisect_right(DISTANCE_BINS, distance)
    low = DISTANCE_BINS[following - 1]
    if following == len(DISTANCE_BINS):
        return f"{low}+"
    high = DISTANCE_BINS[following] - 1
    return str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class Template:
    """A conjunction of fields of an arc's head, its modifier, and tokens around and between them.

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
        variant = ""
        for atom in atoms.split():
            match = _TOKEN.fullmatch(atom)
            if match:
                token, offset, field = match.groups()
                tokens[token].append((int(offset or 0), _checked(field, where, lexicons)))
            elif atom.startswith("between.") and between is None:
                between = _checked(atom.removeprefix("between."), where, lexicons)
            elif atom in VARIANTS and not variant:
                variant = atom
            else:
                raise InputError(
                    f"{where}{atom!r} is not an atom of a template: write h.FIELD, m+1.FIELD, "
                    "g.FIELD, s.FIELD, between.FIELD (once), and direction or distance."
                )
        if not atoms.split() or (equals and not label.strip()):
            raise InputError(f"{where}A template must be atoms, or name = atoms, not {text!r}.")
        third_tokens = [token for token in PARTS if tokens[token]]
        if len(third_tokens) + (between is not None) > 1:
            raise InputError(
                f"{where}A template can have only one of g, s and between, got {text!r}."
            )
        part = "arc"
        third: tuple[tuple[int, str], ...] = ()
        if third_tokens:
            part = PARTS[third_tokens[0]]
            third = tuple(tokens[third_tokens[0]])
        return cls(
            head=tuple(tokens["h"]),
            modifier=tuple(tokens["m"]),
            between=between,
            variant=variant or "arc",
            label=label.strip(),
            third=third,
            part=part,
        )

    @cached_property
    def atoms(self) -> str:
        """The template as text, without its name."""
        atoms = []
        for letter, tokens in (
            (self.part[0], self.third),
            ("h", self.head),
            ("m", self.modifier),
        ):
            for offset, field in tokens:
                node = f"{letter}{offset:+}" if offset else letter
                atoms.append(f"{node}.{field}")
        if self.between:
            atoms.append(f"between.{self.between}")
        if self.variant != "arc" or not atoms:
            atoms.append(self.variant)
        return " ".join(atoms)

    @property
    def name(self) -> str:
        """Name of the group: the label if there is one, else the atoms."""
        return self.label or self.atoms

    @property
    def fields(self) -> set[str]:
        """Names of the fields of the template."""
        fields = {field for _, field in self.tokens}
        if self.between:
            fields.add(self.between)
        return fields

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
        new_names = {}
        for field in self.fields:
            name = own_field(field)
            relatives = field.removesuffix(name)
            new_names[field] = relatives + fields.get(name, name)
        if all(field == new_name for field, new_name in new_names.items()):
            return self

        def renamed(tokens: tuple[tuple[int, str], ...]) -> tuple[tuple[int, str], ...]:
            return tuple(dict.fromkeys((offset, new_names[field]) for offset, field in tokens))

        return replace(
            self,
            head=renamed(self.head),
            modifier=renamed(self.modifier),
            third=renamed(self.third),
            between=self.between and new_names[self.between],
        )

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
    """Return a field; raise an InputError, which begins with ``where``, if there is none."""
    name = own_field(field)
    value = _VALUE.fullmatch(name)
    if name == VALENCY or _FIELD.fullmatch(name) or (value and value[1] in lexicons):
        return field
    raise InputError(
        f"{where}there is no field {field!r} that is available before parsing: choose form, lower, "
        "lemma, upos, xpos, feats, misc, prefix1 to prefix9, suffix1 to suffix9, a capitalised "
        "attribute of FEATS, misc:NAME, or the name of a lexicon."
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
        self._templates = []
        for template in templates:
            if not isinstance(template, Template):
                template = Template.parse(template, "", self.lexicons)
            self._templates.append(template)
        if not self._templates:
            raise InputError("There is no template: give at least one.")
        _check_distinct(self.names)
        _check_distinct([template.atoms for template in self])

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
        templates = []
        for n, line in enumerate(lines, 1):
            text = line.partition("#")[0].strip()
            if text:
                templates.append(Template.parse(text, f"{path}, line {n}: ", lexicons or ()))
        return cls(templates, lexicons)

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
                lines = NAMED_SETS[templates]()
                if templates == "auto":
                    for name in lexicons or ():
                        lines += of_lexicon(name)
                return cls(lines, lexicons)
            if os.path.exists(templates) and not os.path.isdir(templates):
                return cls.read(templates, lexicons)
        if isinstance(templates, str) or not isinstance(templates, Iterable):
            raise InputError(
                f"`templates` must be a file, one of {', '.join(NAMED_SETS)}, or a list of "
                f"strings, got {str(templates)!r:.80}."
            )
        return cls(templates, lexicons)

    def __len__(self) -> int:
        return len(self._templates)

    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            return self._with(self._templates[i])
        return self._templates[i]

    def _with(self, templates: list[Template]) -> "TemplateSet":
        """Return a set of other templates with the same lexicons."""
        return TemplateSet(templates, self.lexicons)

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
        tokens = chain.from_iterable(template.tokens for template in self)
        return max((abs(offset) for offset, _ in tokens), default=0)

    @property
    def part(self) -> str:
        """Kind of the parts that the templates describe, which must be the same for all."""
        (part,) = {template.part for template in self}
        return part

    def by_part(self) -> "dict[str, TemplateSet]":
        """Split the set by the kind of part, arcs first."""
        sets = {}
        for kind in ("arc", *PARTS.values()):
            templates = [template for template in self if template.part == kind]
            if templates:
                sets[kind] = self._with(templates)
        return sets

    def filter(self, pattern: str) -> "TemplateSet":
        """Return the templates whose name or atoms match a pattern.

        Parameters
        ----------
        pattern : str
            Pattern, with ``*`` for any characters and ``?`` for one.
        """
        templates = []
        for template in self:
            if fnmatchcase(template.name, pattern) or fnmatchcase(template.atoms, pattern):
                templates.append(template)
        return self._with(templates)

    def keep(self, names: Iterable[str]) -> "TemplateSet":
        """Return the templates with these names, in the order of the set.

        Parameters
        ----------
        names : iterable of str
        """
        names = set(names)
        missing = names.difference(self.names)
        if missing:
            raise InputError(f"There is no template {min(missing)!r} in the set.")
        return self._with([template for template in self if template.name in names])


def _check_distinct(texts: list[str]) -> None:
    """Raise an InputError if a text, a name or the atoms of a template, occurs twice."""
    for text, count in Counter(texts).items():
        if count > 1:
            raise InputError(f"The template {text!r} is given twice: drop one.")
