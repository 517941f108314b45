"""What a parser accepts: treebanks from paths or sentences, checked, and the templates that fit them."""

import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from omkl.data import Sentence, Treebank, read_treebank
from omkl.estimators.arc_examples import column_of
from omkl.exceptions import DataWarning, InputError
from omkl.groups import TemplateSet


def as_treebank(X: Any, trees: bool, single_root: bool = False) -> Treebank:
    """A treebank from a path, paths, sentences, or itself; files and sentences are checked as they are read."""
    if isinstance(X, Treebank):
        return X
    single_root = single_root and trees
    if isinstance(X, Sentence):
        X = [X]
    if isinstance(X, (str, os.PathLike)):
        return read_treebank(X, single_root=single_root, trees=trees)
    sentences = list(X) if hasattr(X, "__iter__") else [X]
    if sentences and all(isinstance(path, (str, os.PathLike)) for path in sentences):
        return read_treebank(sentences, single_root=single_root, trees=trees)
    for sentence in sentences:
        if not isinstance(sentence, Sentence):
            raise InputError(f"A parser takes paths, a Treebank or Sentence objects, not {type(sentence).__name__}.")
    return Treebank.from_sentences(sentences, trees=trees, single_root=single_root)


def check_trees(treebank: Treebank, single_root: bool) -> None:
    """Raise unless there are sentences and every word has a head; and every sentence one root where asked for."""
    if not len(treebank):
        raise InputError("There is no sentence: give at least one.")
    if (treebank.heads < 0).any():
        sentence = int(np.searchsorted(treebank.offsets, np.argmin(treebank.heads), side="right"))
        raise InputError(f"Sentence {sentence} has a word without a head: give trees, or only parse it.")
    n_roots = np.add.reduceat(treebank.heads == 0, treebank.offsets[:-1], dtype=np.int64)
    if single_root and (n_roots != 1).any():
        sentence = int(np.argmax(n_roots != 1))
        raise InputError(
            f"Sentence {sentence + 1} has {n_roots[sentence]} roots: set single_root=False, or leave it out."
        )


def only_projective(treebank: Treebank) -> np.ndarray:
    """Which sentences have no crossing arcs, with a warning that tells how many are left out."""
    kept = projective_sentences(treebank.heads, treebank.offsets)
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
        ends = np.sort(np.stack([heads[low:high], np.arange(1, high - low + 1)]), axis=0)
        left, right = ends[0][:, None], ends[1][:, None]
        kept[s] = not np.any((left < ends[0]) & (ends[0] < right) & (right < ends[1]))
    return kept


def usable_templates(templates: Any, treebank: Treebank) -> TemplateSet:
    """The templates whose fields the treebank has, with one warning that names the others."""
    templates = TemplateSet.resolve(templates)
    absent = set(absent_fields(treebank, templates.fields))
    if not absent:
        return templates
    kept = [template for template in templates if not template.fields & absent]
    dropped = ", ".join(template.name for template in templates if template.fields & absent)
    if not kept:
        raise InputError(f"Every template needs a field that the data lacks: {', '.join(sorted(absent))}.")
    message = f"{len(templates) - len(kept)} templates are left out: {dropped}."
    warnings.warn(f"The data has no {', '.join(sorted(absent))}: {message}", DataWarning, stacklevel=4)
    return TemplateSet(kept)


def absent_fields(treebank: Treebank, fields: Iterable[str]) -> list[str]:
    """The fields whose column is ``_`` for every word."""
    return [field for field in fields if not getattr(treebank, column_of(field)).any()]
