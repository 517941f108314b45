"""Columns of a treebank from models that have not seen the sentence."""

from collections.abc import Callable

import numpy as np
from sklearn.model_selection import KFold
from tqdm import tqdm

from omkl.data import Treebank
from omkl.estimators.tagging import Tagger, strings_of, with_column
from omkl.estimators.trainings import Stopping
from omkl.exceptions import InputError


def cross_fitted(
    fit: Callable[[Treebank], Tagger], treebank: Treebank, n_folds: int, seed: int, bar: tqdm, stopping: Stopping
) -> tuple[Tagger, Treebank]:
    """Write the columns of a treebank by taggers that have not seen the sentence.

    Returns
    -------
    tuple of Tagger and Treebank
        The last tagger that has learned all columns, and the treebank; the treebank as it was, where training was
        ended.
    """
    if len(treebank) < n_folds:
        raise InputError(f"folds={n_folds}, but there are {len(treebank)} sentences: set fewer folds.")
    found: dict[str, np.ndarray] = {}
    last: Tagger | None = None
    sentences = np.repeat(np.arange(len(treebank)), treebank.lengths)
    folds = KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(len(treebank)))
    for number, (others, own) in enumerate(folds, 1):
        bar.set_description(f"fold {number} of {n_folds}")
        tagger = fit(treebank[others])
        if stopping.ended:
            return last or tagger, treebank
        annotated, words = tagger.annotate(treebank[own]), np.isin(sentences, own)
        for name in tagger.columns:
            column = found.setdefault(name, np.empty(treebank.n_words, dtype=object))
            column[words] = strings_of(annotated, name)
        last = tagger
        bar.update()
    for name, column in found.items():
        treebank = with_column(treebank, name, column.tolist())
    assert last is not None
    return last, treebank
