"""What the trainings of an annotator share: columns from models that have not seen a sentence, and one end of all."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from tqdm import tqdm

from omkl.data import Treebank
from omkl.estimators.tagging import StoppedError, Tagger, strings_of, with_column
from omkl.exceptions import InputError
from omkl.online import check_callbacks, hooks


class Stopping:
    """A callback of many trainings that calls others: what ends one of these trainings ends all that come after it.

    Parameters
    ----------
    callbacks : list or None
        As those of :class:`omkl.online.TrainingLoop`.

    Attributes
    ----------
    ended : bool
        Whether one of the callbacks has ended training.
    """

    def __init__(self, callbacks: Any) -> None:
        self.callbacks = check_callbacks(callbacks)
        self.ended = False

    def __deepcopy__(self, memo: Any) -> "Stopping":
        return self  # the same one in all estimators that are cloned

    def on_start(self, trainer: Any, source: Any) -> None:
        """A training begins; raises :class:`StoppedError` where a callback has ended, or ends, all of them."""
        if not self.ended and self._tell("on_start", trainer, source):
            self.on_end(trainer)
        if self.ended:
            raise StoppedError

    def on_round(self, trainer: Any, step: Any) -> bool:
        """A round is over; returns whether to end."""
        return self._tell("on_round", trainer, step)

    def on_block(self, trainer: Any, block: Any) -> bool:
        """A block is over; returns whether to end."""
        return self._tell("on_block", trainer, block)

    def on_epoch(self, trainer: Any, record: Any) -> bool:
        """An epoch is over; returns whether to end."""
        plain = [tell for tell in self.callbacks if callable(tell) and not hasattr(tell, "on_epoch")]
        self.ended |= any([tell(trainer, record) for tell in plain])
        return self._tell("on_epoch", trainer, record)

    def on_end(self, trainer: Any) -> None:
        """A training is over."""
        for tell in hooks(self.callbacks, "on_end"):
            tell(trainer)

    def _tell(self, name: str, *heard: Any) -> bool:
        self.ended |= any([tell(*heard) for tell in hooks(self.callbacks, name)])
        return self.ended


def cross_fitted(
    make_tagger: Callable[[], Tagger], treebank: Treebank, n_folds: int, seed: int, bar: tqdm, stopping: Stopping
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
        tagger = make_tagger().fit(treebank[others])
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
