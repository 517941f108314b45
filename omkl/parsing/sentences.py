"""Treebanks from what users pass, and checks of their trees."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from omkl._messages import shown
from omkl.data import Sentence, Stream, Strings, Treebank, read_treebank
from omkl.data.treebank.treebank import check_heads
from omkl.exceptions import DataFileError, DataWarning, InputError
from omkl.structures.trees import ProjectiveTree

#: Sentences as users pass them: paths, a treebank, a stream, or lists of words.
Sentences: TypeAlias = str | os.PathLike | Treebank | Stream | Iterable[Sentence | Iterable[str] | str | os.PathLike]


def check_sentences(X: Sentences, y: object = None) -> Sentences:
    """Refuse targets beside sentences; list an iterator, which online estimators would read as a stream of pairs."""
    if y is not None:
        raise InputError("Trees and tags are in X, a treebank or sentences with heads: leave y out.")
    return list(X) if isinstance(X, Iterator) else X


def treebanks_of(X: Sentences, trees: bool | str, single_root: bool = False) -> Iterator[Treebank]:
    """Read the blocks of a stream, or all sentences as one block; see :func:`as_treebank`."""
    blocks = (block.X for block in X.blocks()) if isinstance(X, Stream) else [X]
    return (as_treebank(block, trees, single_root) for block in blocks)


def as_treebank(X: Sentences, trees: bool | str, single_root: bool = False) -> Treebank:
    """Read and check a treebank, paths, or sentences.

    ``trees`` says which heads are asked for, see :func:`~omkl.data.stream_conllu`. Without trees the text of a file is
    kept, to be written again. With ``single_root`` trees with several roots are refused.
    """
    single_root = single_root and bool(trees)
    if isinstance(X, Treebank):  # its reader may have asked for less
        check_heads(X.offsets, X.heads, trees, single_root)
        return X
    items: Any = [X] if isinstance(X, (str, os.PathLike, Sentence)) else list(X) if _is_listing(X) else [[X]]
    if not items or not all(isinstance(item, (str, os.PathLike)) for item in items):
        sentences = [_as_sentence(item, number) for number, item in enumerate(items, 1)]
        return Treebank.from_sentences(sentences, trees=trees, single_root=single_root)
    try:
        return read_treebank(items, single_root=single_root, trees=trees, keep_text=not trees)
    except DataFileError as error:
        if not any(isinstance(path, str) and (len(items) > 1 or " " in path) for path in items):
            raise
        hint = 'Strings are paths: give the words of each sentence as a list of its own, [["No", "way"]].'
        raise DataFileError(f"{error} {hint}") from None


def _as_sentence(item: object, number: int) -> Sentence:
    """Convert the words of the sentence of this number."""
    if isinstance(item, Sentence):
        return item
    words = list(item) if _is_listing(item) else [None]
    if not all(isinstance(word, str) for word in words):
        got = f"{type(item).__name__} {shown(item, 40)}"
        raise InputError(f"Sentence {number} must be a list of words or a Sentence, got {got}.")
    return Sentence(forms=words)


def _is_listing(value: object) -> TypeGuard[Iterable]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def strings_of(treebank: Treebank, name: str) -> list[str]:
    """A column of all words as a list of strings."""
    return np.array(treebank.strings[name].tolist(), dtype=object)[getattr(treebank, name)].tolist()


def with_strings(treebank: Treebank, name: str, values: list[str]) -> Treebank:
    """A treebank with other strings in a column."""
    strings = Strings()
    return treebank.with_column(name, strings.codes(values, grow=True), strings)


def check_trees(treebank: Treebank, partial: bool = False) -> None:
    """Raise unless there are sentences, and every word has a head, or one word of each where they may be partial."""
    if not len(treebank):
        raise InputError("There is no sentence: give at least one.")
    n_unknown = np.add.reduceat(treebank.heads < 0, treebank.offsets[:-1], dtype=np.int64)
    lacking = n_unknown == treebank.lengths if partial else n_unknown > 0
    if lacking.any():
        which = "no word with a head" if partial else "a word without a head"
        raise InputError(f"Sentence {int(np.argmax(lacking)) + 1} has {which}: annotate it, or leave it out.")
    if n_unknown.any():
        message = f"{n_unknown.sum()} of {treebank.n_words} words have no head, and any is right for them."
        warnings.warn(message, DataWarning, stacklevel=4)


def only_projective(treebank: Treebank, single_root: bool) -> np.ndarray:
    """Mask of the sentences whose heads fit a projective tree; one warning counts the others."""
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
    """Mask of the sentences without crossing arcs, of those whose heads are known."""
    kept = np.empty(len(offsets) - 1, dtype=bool)
    for s, (low, high) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        known = np.flatnonzero(heads[low:high] >= 0)
        ends = np.sort(np.stack([heads[low:high][known], known + 1]), axis=0)
        left, right = ends[0][:, None], ends[1][:, None]
        kept[s] = not np.any((left < ends[0]) & (ends[0] < right) & (right < ends[1]))
    return kept
