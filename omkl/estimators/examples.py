"""Encoded training data as the trainer takes it, and what sample weights mean online."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import Tokens
from omkl.online import Example

#: Presentations in an epoch from which on weights are taken for a mistake: their order alone would be 16 GB.
MOST_PRESENTATIONS = 2e9


def presentations(chosen: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """How often examples are presented in an epoch, and with what weights, for sample weights of any size.

    A sample weight is how often the example is presented: an example of weight 3 comes three times, at its places of
    the random order, and one of weight 2.5 twice and once with half of its gradient and half of the proximal steps. So
    weights mean what they mean for a batch learner (weight 3 is three copies, weight 0 none), and steps stay small.

    Parameters
    ----------
    chosen : int array of shape (n,)
        Examples.
    weights : array of shape (n,), optional
        A weight >= 0 for each of them; 1 by default.

    Returns
    -------
    chosen : int array
        Examples, as often as they are presented; those of one example stay together.
    weights : array or None
        The weight of each presentation.
    """
    chosen = np.asarray(chosen)
    if weights is None:
        return chosen, None
    if (total := weights.sum()) > MOST_PRESENTATIONS:
        raise InputError(f"Sample weights sum to {total:.3g} presentations in an epoch: divide them, and multiply C.")
    whole = np.floor(weights).astype(np.int64)
    rest = weights - whole
    presented = np.concatenate([np.repeat(chosen, whole), chosen[rest > 0]])
    each = np.concatenate([np.ones(whole.sum()), rest[rest > 0]])
    order = np.argsort(presented, kind="stable")
    return presented[order], each[order]


class Examples:
    """A sequence of :class:`~omkl.online.Example` over encoded tokens; examples are made when asked for.

    Parameters
    ----------
    tokens : Tokens
    gold : array
        A code for every token.
    chosen : int array
        The sequences that take part.
    weights : array, optional
        A sample weight for each of them, see :func:`presentations`.
    single : bool
        Whether an output is a single code instead of an array of codes.
    """

    def __init__(
        self, tokens: Tokens, gold: np.ndarray, chosen: np.ndarray, weights: np.ndarray | None = None,
        single: bool = False,
    ) -> None:  # fmt: skip
        self.tokens = tokens
        self.gold = gold
        self.given = weights
        self.single = single
        self._chosen, self._weights = presentations(chosen, weights)

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, i: int) -> Example:
        x = self.tokens.sequence(self._chosen.item(i))
        y = self.gold[x.low] if self.single else self.gold[x.low : x.high]
        return Example(x, y, 1.0 if self._weights is None else self._weights[i])

    @property
    def n_inputs(self) -> int:
        """How many sequences there are, presented or not."""
        return len(self.tokens)

    def only(self, chosen: np.ndarray, weighted: bool = True) -> "Examples":
        """Some of the sequences, where all take part here; they share memory with these."""
        weights = None if self.given is None or not weighted else self.given[chosen]
        return Examples(self.tokens, self.gold, chosen, weights, self.single)

    def part(self, indices: np.ndarray) -> "Examples":
        """Some of the presentations, by their indices, as a sequence of its own that holds no other sequences."""
        sequences, again = np.unique(self._chosen[indices], return_inverse=True)
        tokens = self.tokens.only(sequences)
        shifts = np.repeat(self.tokens.offsets[sequences] - tokens.offsets[:-1], np.diff(tokens.offsets))
        part = Examples(tokens, self.gold[shifts + np.arange(tokens.n_tokens)], again, single=self.single)
        part._weights = None if self._weights is None else self._weights[indices]
        return part

    @property
    def total_weight(self) -> float:
        """Sum of the weights, the m of the objective's mean."""
        return float(len(self)) if self._weights is None else float(self._weights.sum())

    def mean(self, function: Callable[[int], float]) -> float:
        """Weighted mean over the examples of a function of their length."""
        lengths, where = np.unique(np.diff(self.tokens.offsets)[self._chosen], return_inverse=True)
        return float(np.average([function(n) for n in lengths.tolist()], weights=np.bincount(where, self._weights)))


def class_weights(
    class_weight: Any, labels: Sequence, offsets: np.ndarray, sample_weight: np.ndarray | None, whole: bool
) -> np.ndarray | None:
    """Sample weights times the weights of the classes, as scikit-learn's ``class_weight`` means it.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" is n / (K n_k) for the n_k of n tokens that are
        of class k, each counted as often as its sample weight says.
    labels : sequence of n labels
    offsets : int array
        Sequence s has the labels ``offsets[s] : offsets[s + 1]``; its weight is the mean over them.
    sample_weight : array, optional
    whole : bool
        Whether these are all the examples that there are, which "balanced" needs.
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        if not whole:
            raise InputError(
                'class_weight="balanced" counts all examples, which partial_fit and streams do not have: give a dict.'
            )
        counts: Counter = Counter()
        lengths = np.diff(offsets)
        copies = np.repeat(np.ones(len(lengths)) if sample_weight is None else sample_weight, lengths).tolist()
        for label, n in zip(labels, copies):
            counts[label] += n
        total, present = sum(copies), sum(n > 0 for n in counts.values())
        weight_of = {label: total / (present * n) for label, n in counts.items() if n > 0}
    elif isinstance(class_weight, dict):
        weight_of, classes = class_weight, set(labels)
        if whole and not classes <= weight_of.keys() and not weight_of.keys() <= classes:
            unknown = next(label for label in weight_of if label not in classes)
            raise InputError(f"class_weight has a weight for {unknown!r}, which is no label of y.")
    else:
        raise InputError(f'class_weight must be None, "balanced" or a dict, not {class_weight!r}.')
    each = np.array([weight_of.get(label, 1.0) for label in labels], dtype=np.float64)
    if not np.isfinite(each).all() or (each < 0).any():
        raise InputError("class_weight must hold finite numbers >= 0.")
    means = np.add.reduceat(each, offsets[:-1]) / np.diff(offsets)
    return means if sample_weight is None else means * sample_weight


def check_sample_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights as an array of n numbers >= 0, not all 0; None stays None, and one number is that of all."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must hold numbers.") from None
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}, but there are {n} examples: give one weight each.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("sample_weight must hold finite numbers >= 0.")
    if not weights.any():
        raise InputError("sample_weight is zero for every example: nothing is left to train on.")
    return weights
