"""Treebanks from user input, checks of trees, suitable templates, and training examples."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from omkl._components import warn_caller
from omkl._messages import listed, shown
from omkl.data import Sentence, Stream, Treebank, read_treebank
from omkl.data.treebank.treebank import check_heads
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import ExamplesLike, OutputsLike, WeightedExamples
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import (
    OUTSIDE,
    ROOT,
    TreeFields,
    WordFields,
    absent_fields,
    code_of,
    have_equal_tags,
)
from omkl.groups.templates.language import Template, TemplateSet, own_field
from omkl.groups.templates.layout import ArcGuide, ArcTokens
from omkl.groups.tokens import gathered_rows
from omkl.online.rounds import Example, Values
from omkl.structures.trees.arc_factored import ProjectiveTree

#: Treebank of examples that were selected by ``part``, which does not need sentences.
NO_SENTENCES = Treebank.from_sentences([], trees=False)
#: Number of decimals in MISC.
DECIMALS = 3
#: Replacements of nearly empty columns of tags.
STAND_INS = {"xpos": "upos", "upos": "xpos"}
#: A column of tags is nearly empty if at most this fraction of words has a tag.
SCARCE = 0.1
#: A sentence as given by users, or a path of sentences.
SentenceLike: TypeAlias = Sentence | Iterable[str] | str | os.PathLike
#: Sentences as given by users: paths, a treebank, a stream, or lists of words.
Sentences: TypeAlias = str | os.PathLike | Treebank | Stream | Iterable[SentenceLike]
#: Kind of examples, usually sentences.
AnyExamples = TypeVar("AnyExamples", bound=ExamplesLike)


def check_sentences(X: AnyExamples, y: OutputsLike = None) -> AnyExamples | list:
    """Reject targets y, and convert an iterator to a list.

    Online estimators take an iterator for a stream of pairs.
    """
    if y is not None:
        raise InputError(
            "Trees and tags are in X, a treebank or sentences with heads: leave y out."
        )
    return list(X) if isinstance(X, Iterator) else X


def treebanks_of(X: Sentences, trees: bool | str, single_root: bool = False) -> Iterator[Treebank]:
    """Read the blocks of a stream, or all sentences as one block; see :func:`as_treebank`."""
    if isinstance(X, Stream):
        for block in X.blocks():
            yield as_treebank(block.X, trees, single_root)
    else:
        yield as_treebank(X, trees, single_root)


def as_treebank(
    X: Sentences, trees: bool | str, single_root: bool = False, keep_text: bool = False
) -> Treebank:
    """Convert a treebank, paths, or sentences to a validated treebank.

    ``trees`` determines the check of heads; see :func:`~omkl.data.stream_conllu`. Without trees, or
    with ``keep_text``, the text of files is kept. With ``single_root``, trees with several roots
    raise an error.
    """
    single_root = single_root and bool(trees)
    if isinstance(X, Treebank):  # it may have been read with fewer checks
        check_heads(X.offsets, X.heads, trees, single_root)
        return X
    items: list[Any] = [X]
    if isinstance(X, Iterable) and not isinstance(X, (str, os.PathLike, Sentence, Mapping)):
        items = list(X)
    if items and all(isinstance(item, (str, os.PathLike)) for item in items):
        keep_text = keep_text or not trees
        return read_treebank(items, single_root=single_root, trees=trees, keep_text=keep_text)
    sentences = [_as_sentence(item, number) for number, item in enumerate(items, 1)]
    return Treebank.from_sentences(sentences, trees=trees, single_root=single_root)


def _as_sentence(item: SentenceLike, number: int) -> Sentence:
    """Convert a list of words to a Sentence; ``number`` is for messages."""
    if isinstance(item, Sentence):
        return item
    words: list = [None]
    if isinstance(item, Iterable) and not isinstance(item, (str, bytes, Mapping)):
        words = list(item)
    if not all(isinstance(word, str) for word in words):
        got = f"{type(item).__name__} {shown(item, 40)}"
        raise InputError(f"Sentence {number} must be a list of words or a Sentence, got {got}.")
    return Sentence(forms=words)


def strings_of(treebank: Treebank, name: str) -> list[str]:
    """Return a column of all words as a list of strings."""
    return np.array(treebank.strings[name].tolist(), dtype=object)[treebank.codes(name)].tolist()


def with_notes(treebank: Treebank, columns: Mapping[str, Sequence | np.ndarray]) -> Treebank:
    """Add numbers or strings for each word to MISC, by their names."""

    new_misc = []
    for word, misc in enumerate(strings_of(treebank, "misc")):
        entries = []
        for entry in misc.split("|"):
            if entry != "_" and entry.partition("=")[0] not in columns:
                entries.append(entry)
        for name, values in columns.items():
            entries.append(f"{name}={_note(values[word])}")
        new_misc.append("|".join(entries))
    return treebank.with_strings("misc", new_misc)


def _note(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.{DECIMALS}f}"


def concatenate_heads(trees: list[np.ndarray]) -> np.ndarray:
    """Concatenate the heads of sentences, int64."""
    return np.concatenate([np.zeros(0, np.int64), *trees])


def facts_of(
    treebank: Treebank, columns: Iterable[str], arrays: Iterable[np.ndarray | None]
) -> Values:
    """Return facts about a treebank and arrays derived from it, simplest first.

    A resumed run compares them.
    """
    content = [treebank.offsets, *arrays]
    for name in columns:
        strings = "\n".join(treebank.strings[name].tolist()).encode("utf-8", "surrogatepass")
        content += [treebank.codes(name), np.frombuffer(strings, np.uint8)]
    return {
        "number of sentences": len(treebank),
        "number of words": treebank.n_words,
        "content of the data": fingerprint(content),
    }


def check_trees(treebank: Treebank, partial: bool = False) -> Treebank:
    """Return a treebank; raise InputError if a word has no head.

    If ``partial``, raise it if a sentence has no head at all.
    """
    if not len(treebank):
        raise InputError("There is no sentence: give at least one.")
    n_unknown = np.add.reduceat(treebank.heads < 0, treebank.offsets[:-1], dtype=np.int64)
    if partial:
        are_wrong = n_unknown == treebank.lengths
        what = "no word with a head"
    else:
        are_wrong = n_unknown > 0
        what = "a word without a head"
    if are_wrong.any():
        raise InputError(
            f"Sentence {int(np.argmax(are_wrong)) + 1} has {what}: annotate it, or leave it out."
        )
    if n_unknown.any():
        warn_caller(
            f"{n_unknown.sum()} of {treebank.n_words} words have no head, "
            "and any is right for them.",
            DataWarning,
        )
    return treebank


def only_projective(treebank: Treebank, single_root: bool) -> np.ndarray:
    """Return a mask of sentences whose heads fit a projective tree; warn about the others."""
    structure = ProjectiveTree(single_root)
    are_projective = np.zeros(len(treebank), dtype=bool)
    for s, heads in enumerate(treebank.trees()):
        agreeing = structure.agreeing(structure.zeros(len(heads)), heads)
        are_projective[s] = structure.is_possible(agreeing)
    if not are_projective.all():
        n_others = np.count_nonzero(~are_projective)
        warn_caller(
            f"{n_others} of {len(treebank)} sentences are not projective and are left out.",
            DataWarning,
        )
    return are_projective


class TreeData(NamedTuple):
    """Validated trees and their weights; ``is_all_data`` is False for a block of a stream."""

    treebank: Treebank
    weights: np.ndarray | None
    is_all_data: bool


# ---- templates -----------------------------------------------------------------------------------


def suitable_templates(
    templates: TemplateSet, treebank: Treebank, is_all_data: bool = True
) -> tuple[TemplateSet, str]:
    """Adapt templates to the columns of a treebank; return them, and a message about changes.

    UPOS replaces XPOS if XPOS is nearly empty or a copy of UPOS, and XPOS replaces a nearly empty
    UPOS. Templates of other empty columns or missing attributes are dropped. Then duplicates are
    merged. If the treebank is not all training data, only columns are checked, because attributes
    may occur later. The message is empty if nothing changes.
    """
    stand_ins = _stand_ins(templates, treebank)
    absent = {}
    for field, title in absent_fields(treebank, templates, only_columns=not is_all_data).items():
        if own_field(field) not in stand_ins:
            absent[field] = title
    missing = listed(dict.fromkeys(absent.values()), 2)
    present = [template for template in templates if template.fields.isdisjoint(absent)]
    if not present:
        raise InputError(f"Every template needs a field that the data lacks: {missing}.")
    distinct: dict[tuple, Template] = {}
    for template in present:
        replaced = template.replacing(stand_ins)
        distinct.setdefault(replaced.identity, replaced)
    if list(distinct.values()) == list(templates):
        return templates, ""
    changes = []
    for field, other in stand_ins.items():
        changes.append(f"{other.upper()} is read in place of {field.upper()}")
    n_absent = len(templates) - len(present)
    if n_absent:
        changes.append(f"no word has {missing}, which {n_absent} read")
    n_equal = len(present) - len(distinct)
    if n_equal:
        changes.append(f"{n_equal} are then equal to others")
    where = "this treebank" if is_all_data else f"the first {len(treebank)} sentences"
    change = f"{len(distinct)} of {len(templates)} templates suit {where}: {'; '.join(changes)}."
    return TemplateSet(distinct.values(), templates.lexicons), change


def _stand_ins(templates: TemplateSet, treebank: Treebank) -> dict[str, str]:
    """Return the columns of tags to replace among those that templates read, and by which ones."""
    n_tags = {column: np.count_nonzero(treebank.codes(column)) for column in STAND_INS}
    few = SCARCE * treebank.n_words
    stand_ins = {}
    for column, other in STAND_INS.items():
        if n_tags[column] <= few < n_tags[other]:
            stand_ins[column] = other
    if not stand_ins and n_tags["xpos"] and have_equal_tags(treebank):
        stand_ins = {"xpos": "upos"}
    fields = set(map(own_field, templates.fields))
    return {column: other for column, other in stand_ins.items() if column in fields}


# ---- training examples ---------------------------------------------------------------------------


class Guide(NamedTuple):
    """Advice of a first parser on the sentences of a treebank.

    Attributes
    ----------
    heads : int array of shape (number of words,)
        Predicted heads.
    arcs : list of ArcGuide
        Advice on the arcs of each sentence.
    """

    heads: np.ndarray
    arcs: list[ArcGuide]


def encode(
    treebank: Treebank,
    templates: TemplateSet,
    guide: Guide | None = None,
    heads: np.ndarray | None = None,
) -> ArcTokens:
    """Encode the fields of the words of a treebank.

    ``heads`` are the trees for fields of relatives.
    """
    fields = templates.fields
    reach = templates.reach
    starts = treebank.offsets[:-1]
    lengths = treebank.lengths
    roots = reach + starts + np.arange(len(treebank)) * (1 + reach)
    indices = np.arange(treebank.n_words) + np.repeat(roots + 1 - starts, lengths)
    n_places = reach + treebank.n_words + len(treebank) * (1 + reach)
    columns = np.full((len(fields), n_places), code_of(OUTSIDE), np.uint64)
    columns[:, roots] = code_of(ROOT)
    codes = WordFields(treebank, templates).codes
    if heads is not None:
        codes = partial(TreeFields(treebank.offsets, heads).codes, codes_of_words=codes)
    for row, field in zip(columns, fields):
        row[indices] = codes(field)
    return ArcTokens(fields, columns, roots, lengths, None if guide is None else guide.arcs)


class ArcExamples(WeightedExamples):
    """Weighted examples of sentences and their gold heads.

    Parameters
    ----------
    tokens : ArcTokens
    heads : int64 array (number of tokens,)
        Gold heads; -1 is unknown.
    chosen, weights
        See :class:`~omkl.estimators.sources.WeightedExamples`.

    Attributes
    ----------
    treebank : Treebank
        Treebank of the sentences; empty for parts of the examples.
    guide : Guide or None
        Advice of a first parser.
    """

    treebank = NO_SENTENCES
    guide: Guide | None = None

    def __init__(
        self,
        tokens: ArcTokens,
        heads: np.ndarray,
        chosen: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(len(tokens), chosen, weights)
        self.tokens = tokens
        self.heads = heads
        self.offsets = np.concatenate([[0], np.cumsum(tokens.lengths)])

    @classmethod
    def of(
        cls,
        treebank: Treebank,
        templates: TemplateSet,
        weights: np.ndarray | None = None,
        guide: Guide | None = None,
        heads: np.ndarray | None = None,
    ) -> "ArcExamples":
        """Make examples of all sentences of a treebank; see :func:`encode`."""
        tokens = encode(treebank, templates, guide, heads)
        gold = treebank.heads.astype(np.int64)
        examples = cls(tokens, gold, np.arange(len(treebank)), weights)
        examples.treebank = treebank
        examples.guide = guide
        return examples

    def __getitem__(self, i: int) -> Example:
        s = self.chosen[i]
        weight = self.weight(i)
        heads = self.heads[self.offsets[s] : self.offsets[s + 1]]
        return Example(self.tokens.sentence(s), heads, weight)

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "ArcExamples":
        return ArcExamples(self.tokens.only(inputs), self.heads[self.words_of(inputs)], chosen)

    def words_of(self, sentences: np.ndarray) -> np.ndarray:
        """Return the indices of the words of some sentences."""
        return gathered_rows(self.offsets, sentences)[1]
