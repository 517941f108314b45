"""Encoded training data as the trainer takes it, and what sample weights mean online."""

import numpy as np

from omkl.exceptions import InputError
from omkl.online import Example


class Examples:
    """A sequence of :class:`~omkl.online.Example` over encoded tokens; examples are made when asked for.

    A sample weight is how often the example is presented in an epoch: an example of weight 3 comes three times, at
    its places of the random order, and one of weight 2.5 twice and once with half of its gradient and half of the
    proximal steps. So weights mean what they mean for a batch learner (weight 3 is three copies, weight 0 none), and
    steps stay small.

    Parameters
    ----------
    tokens : Tokens
    gold : int array
        A label for every token.
    chosen : int array
        The sequences that take part.
    weights : array, optional
        A weight >= 0 for each of them; 1 by default.
    single : bool
        Whether an output is a single label instead of an array of labels.
    """

    def __init__(self, tokens, gold, chosen, weights=None, single=False):
        self.tokens = tokens
        self.gold = gold
        self.single = single
        self._chosen, self._weights = np.asarray(chosen), None
        if weights is not None:
            whole = np.floor(weights).astype(np.int64)
            rest = weights - whole
            self._chosen = np.concatenate([np.repeat(chosen, whole), np.asarray(chosen)[rest > 0]])
            self._weights = np.concatenate([np.ones(whole.sum()), rest[rest > 0]])
            # a sequence's presentations stay together, so that their order is that of the data
            order = np.argsort(self._chosen, kind="stable")
            self._chosen, self._weights = self._chosen[order], self._weights[order]

    def __len__(self):
        return len(self._chosen)

    def __getitem__(self, i):
        x = self.tokens.sequence(self._chosen.item(i))
        y = self.gold[x.low] if self.single else self.gold[x.low : x.high]
        return Example(x, y, 1.0 if self._weights is None else self._weights[i])

    def part(self, chosen):
        """Some of the examples, by their places, as a sequence of its own that holds no others."""
        sequences, again = np.unique(self._chosen[chosen], return_inverse=True)
        tokens = self.tokens.only(sequences)
        places = np.repeat(self.tokens.offsets[sequences] - tokens.offsets[:-1], np.diff(tokens.offsets))
        part = Examples(tokens, self.gold[places + np.arange(tokens.n_tokens)], again, single=self.single)
        part._weights = None if self._weights is None else self._weights[chosen]
        return part

    @property
    def total_weight(self):
        """Sum of the weights, the m of the objective's mean."""
        return float(len(self)) if self._weights is None else float(self._weights.sum())

    def mean(self, function):
        """Weighted mean over the examples of a function of their length."""
        lengths, where = np.unique(np.diff(self.tokens.offsets)[self._chosen], return_inverse=True)
        return float(np.average([function(n) for n in lengths.tolist()], weights=np.bincount(where, self._weights)))


def check_sample_weight(sample_weight, n):
    """Weights as an array of n numbers >= 0, not all 0; None stays None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}, but there are {n} examples: give one weight each.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("sample_weight must hold finite numbers >= 0.")
    if not weights.any():
        raise InputError("sample_weight is zero for every example: nothing is left to train on.")
    return weights
