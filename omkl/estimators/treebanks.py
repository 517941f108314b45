"""From treebanks to what a parser trains on: sentences and templates that fit each other, codes of the fields of
tokens, and gold heads."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from omkl.data import Stream, Treebank, read_treebank
from omkl.data.files import find_files
from omkl.data.treebank import check_heads
from omkl.data.treebank_formats import Checks
from omkl.estimators.punctuation import is_punctuation
from omkl.estimators.sentences import as_sentences
from omkl.estimators.sources import WeightedExamples
from omkl.estimators.token_fields import OUTSIDE, ROOT, code_of, column_of, present_codes, values_of
from omkl.estimators.tree_fields import TreeFields
from omkl.exceptions import DataFileError, DataWarning, InputError
from omkl.groups import ArcTemplateBank, ArcTokens, Template, TemplateSet, distance_name
from omkl.groups.templates import KINSHIP, sees_trees
from omkl.online import Example
from omkl.structures import ProjectiveTree


def sentences_of(X: Any, y: Any = None) -> Any:
    """An iterator of sentences as a list of them, all else as it is: no iterator is a stream of pairs here.

    Sentences have their trees and tags with them: targets are refused.
    """
    if y is not None:
        raise InputError("Trees and tags are in X, a treebank or sentences with heads: leave y out.")
    is_iterator = hasattr(X, "__iter__") and not hasattr(X, "__len__") and not isinstance(X, Stream)
    return list(X) if is_iterator else X


def treebanks_of(X: Any, trees: bool | str, single_root: bool = False) -> Iterator[Treebank]:
    """The treebanks of a stream, or the one that X is, as :func:`as_treebank` reads it."""
    blocks = (block.X for block in X.blocks()) if isinstance(X, Stream) else [X]
    return (as_treebank(block, trees, single_root) for block in blocks)


def as_treebank(X: Any, trees: bool | str, single_root: bool = False) -> Treebank:
    """A treebank from a path, paths, or itself, or of what :func:`~omkl.estimators.sentences.as_sentences` takes; what
    is not for parsing is held without its text. Treebanks are checked as all else: whoever read them may have asked
    for less."""
    single_root = single_root and bool(trees)
    if isinstance(X, Stream):
        raise InputError("These sentences must be at hand, and are a stream: give a treebank, or the path of its file.")
    if isinstance(X, Treebank):
        check_heads(X.offsets, X.heads, Checks(trees, single_root))
        return X
    X = list(X) if isinstance(X, Iterator) else X
    paths = [X] if isinstance(X, (str, os.PathLike)) else X
    if isinstance(paths, (list, tuple)) and paths and all(isinstance(path, (str, os.PathLike)) for path in paths):
        return read_treebank(_found(paths), single_root=single_root, trees=trees, keep_text=not trees)
    return Treebank.from_sentences(as_sentences(X), trees=trees, single_root=single_root)


def _found(paths):
    """Paths of files; where there is none, the words of a sentence may have been meant."""
    try:
        find_files(paths)
    except DataFileError as error:
        if not any(isinstance(path, str) and (len(paths) > 1 or " " in path) for path in paths):
            raise
        hint = 'Strings are paths: give the words of each sentence as a list of its own, [["No", "way"]].'
        raise DataFileError(f"{error} {hint}") from None
    return paths


def check_trees(treebank: Treebank, partial: bool = False) -> None:
    """Raise unless there are sentences and every word has a head, or some word of each sentence where they may be
    ``partial``."""
    if not len(treebank):
        raise InputError("There is no sentence: give at least one.")
    n_unknown = np.add.reduceat(treebank.heads < 0, treebank.offsets[:-1], dtype=np.int64)
    lacking = n_unknown == treebank.lengths if partial else n_unknown > 0
    if lacking.any():
        which = "no word with a head: annotate some, or leave it out" if partial else "a word without a head"
        advice = "." if partial else ": give trees, or only parse it."
        raise InputError(f"Sentence {int(np.argmax(lacking)) + 1} has {which}{advice}")
    if n_unknown.any():
        message = f"{n_unknown.sum()} of {treebank.n_words} words have no head: what it would be is left open."
        warnings.warn(message, DataWarning, stacklevel=4)


def only_projective(treebank: Treebank, single_root: bool) -> np.ndarray:
    """Which sentences have no crossing arcs, with a warning that tells how many are left out."""
    kept = projective_sentences(treebank.heads, treebank.offsets)
    structure = ProjectiveTree(single_root)
    for s in np.flatnonzero(kept & np.logical_or.reduceat(treebank.heads < 0, treebank.offsets[:-1])).tolist():
        heads = treebank.heads[treebank.offsets[s] : treebank.offsets[s + 1]]
        kept[s] = structure.is_possible(structure.agreeing(structure.zeros(len(heads)), heads))
    if not kept.any():
        raise InputError("No sentence is projective: train with projective=False.")
    if not kept.all():
        message = f"{np.count_nonzero(~kept)} of {len(kept)} sentences are not projective and are left out."
        warnings.warn(message, DataWarning, stacklevel=4)
    return kept


def projective_sentences(heads: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which sentences have no crossing arcs."""
    kept = np.empty(len(offsets) - 1, dtype=bool)
    for s, (low, high) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        known = np.flatnonzero(heads[low:high] >= 0)
        ends = np.sort(np.stack([heads[low:high][known], known + 1]), axis=0)
        left, right = ends[0][:, None], ends[1][:, None]
        kept[s] = not np.any((left < ends[0]) & (ends[0] < right) & (right < ends[1]))
    return kept


def encode(treebank: Treebank, templates: TemplateSet, guide: "Guide | None" = None) -> ArcTokens:
    """The sentences of a treebank as the templates look at them.

    Parameters
    ----------
    treebank : omkl.data.Treebank
    templates : TemplateSet
    guide : Guide, optional
        What a first parser makes of the sentences: trees to look at, and potentials to correct.

    Returns
    -------
    ArcTokens
    """
    fields, reach = templates.fields, templates.reach
    starts, lengths = treebank.offsets[:-1], treebank.lengths
    roots = reach + starts + np.arange(len(treebank)) * (1 + reach)
    indices = np.arange(treebank.n_words) + np.repeat(roots + 1 - starts, lengths)
    columns = np.full(
        (len(fields), reach + treebank.n_words + len(treebank) * (1 + reach)), code_of(OUTSIDE), np.uint64
    )
    columns[:, roots] = code_of(ROOT)
    own: Callable[[str], np.ndarray] = _FieldReader(treebank, templates.lexicons).codes
    codes = own
    if guide is not None and any(map(sees_trees, fields)):
        codes = partial(TreeFields(guide.trees).codes, own=own)
    for row, field in zip(columns, fields):
        row[indices] = codes(field)
    return ArcTokens(fields, columns, roots, lengths, None if guide is None else guide.scores)


class _FieldReader:
    """Reads fields of words, those of a column from the different strings in it."""

    def __init__(self, treebank: Treebank, lexicons: Mapping) -> None:
        self._treebank = treebank
        self._lexicons = lexicons
        self._present: dict[str, tuple[np.ndarray, list[str]]] = {}

    def codes(self, field: str) -> np.ndarray:
        """The code of a field of each word, uint64."""
        places, strings = self._column(column_of(field))
        hashes = np.array([code_of(value) for value in values_of(field, strings, self._lexicons)], np.uint64)
        return hashes[places]

    def _column(self, column):
        """Which of the different strings in a column each word has, and these."""
        if column not in self._present:
            codes, strings = getattr(self._treebank, column), self._treebank.strings[column].tolist()
            present = present_codes(codes)
            self._present[column] = np.searchsorted(present, codes), [strings[code] for code in present]
        return self._present[column]


class CostedHeads(np.ndarray):
    """Right heads, each with what a wrong one in its place costs: ``costs`` is an array (n,)."""

    costs: np.ndarray


def arc_costs(gold: CostedHeads) -> np.ndarray:
    """The ``cost`` of a tree structure, (n + 1, n + 1), that these heads know."""
    known = np.flatnonzero(gold >= 0)
    costs = np.tile(np.append(0.0, np.where(gold >= 0, gold.costs, 0.0)), (len(gold) + 1, 1))
    costs[gold[known], known + 1] = 0.0
    return costs


class Guide(NamedTuple):
    """What a first parser makes of the sentences of a treebank: trees, and potentials for a second one to add to,
    (n + 1, n + 1) each; None for zeros."""

    trees: Treebank
    scores: Any


class ArcExamples(WeightedExamples):
    """Sentences and their gold heads as often as they count.

    Parameters
    ----------
    tokens : ArcTokens
    heads : int array (number of tokens,)
    offsets : int array (number of sentences + 1,)
    chosen, weights
        The sentences that take part; see :class:`~omkl.estimators.sources.WeightedExamples`.
    treebank : Treebank, optional
        Where the sentences come from.
    costs : array (number of tokens,), optional
        What wrong heads cost, where it is not 1 each: outputs are then :class:`CostedHeads`.
    guide : Guide, optional
        What a first parser makes of the sentences.
    """

    def __init__(
        self, tokens: ArcTokens, heads: np.ndarray, offsets: np.ndarray, chosen: np.ndarray,
        weights: np.ndarray | None = None, treebank: Treebank | None = None, costs: np.ndarray | None = None,
        guide: Guide | None = None,
    ) -> None:  # fmt: skip
        super().__init__(chosen, weights)
        self.tokens = tokens
        self.heads = heads
        self.offsets = offsets
        self.treebank: Any = treebank
        self.costs = costs
        self.guide = guide

    @classmethod
    def of(
        cls, treebank: Treebank, templates: TemplateSet, weights: np.ndarray | None = None, ignore: Any = None,
        guide: Guide | None = None,
    ) -> "ArcExamples":  # fmt: skip
        """All sentences of a treebank; a wrong head costs nothing where the rule ``ignore`` leaves a word out."""
        tokens, everything = encode(treebank, templates, guide), np.arange(len(treebank))
        costs = None if ignore is None else np.where(is_punctuation(treebank, ignore), 0.0, 1.0)
        heads = treebank.heads.astype(np.int64)
        return cls(tokens, heads, treebank.offsets, everything, weights, treebank, costs, guide)

    def __getitem__(self, i: int) -> Example:
        s = self.chosen[i]
        weight = 1.0 if self._weights is None else self._weights[i]
        words = slice(self.offsets[s], self.offsets[s + 1])
        heads = self.heads[words]
        if self.costs is not None:
            heads = heads.view(CostedHeads)
            heads.costs = self.costs[words]
        return Example(self.tokens.sentence(s), heads, weight)

    @property
    def n_inputs(self) -> int:
        """How many sentences there are, presented or not."""
        return len(self.tokens)

    def _over(self, chosen: np.ndarray, weights: np.ndarray | None) -> "ArcExamples":
        arrays = self.tokens, self.heads, self.offsets, chosen, weights
        return ArcExamples(*arrays, self.treebank, self.costs, self.guide)

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "ArcExamples":
        lengths = self.tokens.lengths[inputs]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        words = np.repeat(self.offsets[inputs] - offsets[:-1], lengths) + np.arange(offsets[-1])
        costs = None if self.costs is None else self.costs[words]
        return ArcExamples(self.tokens.only(inputs), self.heads[words], offsets, chosen, costs=costs)


def strongest_features(
    bank: ArcTemplateBank, treebank: Treebank, examples: ArcExamples, n: int
) -> dict[str, list[tuple[str, float]]]:
    """The ``n`` strongest features of each template, as ``{template: [(feature, weight), ...]}``."""
    arrays = examples.tokens, examples.heads, examples.offsets
    name = feature_namer(bank.templates, treebank, None if examples.guide is None else examples.guide.trees)

    def named(template: Template, sentence: int, modifier: int, between: int) -> str:
        head = int(treebank.heads[treebank.offsets[sentence] + modifier - 1])
        return name(template, sentence, head, modifier, between)

    return {
        template.name: [(named(template, *place), weight) for weight, *place in bank.strongest(k, n, *arrays)]
        for k, template in enumerate(bank.templates)
    }


def feature_namer(templates: TemplateSet, treebank: Treebank, trees: Treebank | None) -> Callable[..., str]:
    """A function of a template, a sentence, its head, its modifier and a token between them, None for any, that says
    what the template sees there, also in the ``trees`` of a first parser."""
    fields = None if trees is None else TreeFields(trees)
    return partial(_feature, partial(_value_at, templates.lexicons, treebank, fields))


def _value_at(
    lexicons: Mapping, treebank: Treebank, trees: TreeFields | None, sentence: int, field: str, place: int,
    head: int = 0,
) -> str:  # fmt: skip
    """What a template sees at a place in a sentence, or of a head and the modifier there."""

    def own(field: str, word: int) -> str:
        column = column_of(field)
        return values_of(field, [treebank.strings[column][getattr(treebank, column)[word]]], lexicons)[0]

    if place == 0:
        return "ROOT"
    first, last = treebank.offsets[sentence : sentence + 2].tolist()
    if not 0 < place <= last - first:
        return "OUTSIDE"
    if field == KINSHIP and trees is not None:
        return trees.kinship(first, head, place)
    return own(field, first + place - 1) if trees is None else trees.value(field, first + place - 1, own)


def _feature(
    seen_in: Callable, template: Template, sentence: int, head: int, modifier: int, between: int | None = None
) -> str:
    """What a template sees in an arc: ``h.form=dog m-1.upos=DET right 2``."""
    seen = partial(seen_in, sentence)
    parts = [f"h{o:+}.{f}={seen(f, head + o)}" if o else f"h.{f}={seen(f, head)}" for o, f in template.head]
    parts += [
        f"m{o:+}.{f}={seen(f, modifier + o)}" if o else f"m.{f}={seen(f, modifier)}" for o, f in template.modifier
    ]
    if template.between == KINSHIP:
        parts.append(f"{KINSHIP}={seen(KINSHIP, modifier, head)}")
    elif template.between:
        value = "" if between is None else f"={seen(template.between, between)}"
        parts.append(f"between.{template.between}{value}")
    if template.variant != "arc":
        parts.append("left" if modifier < head else "right")
    if template.variant == "distance":
        parts.append(distance_name(abs(head - modifier)))
    return " ".join(parts) or "arc"
