"""What a model predicts for tokens: their structure, the codes of outputs, and the groups that do not see the input."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl.estimators.labels import Labels, Targets
from omkl.exceptions import InputError
from omkl.groups import InterceptBank, TransitionBank
from omkl.structures import Binary, Chain, Multiclass, Scalar

#: What ``classes`` is where labels are taken in as they come.
GROWING = "growing"


class ChainOutputs:
    """A label for every token of a sequence.

    Parameters
    ----------
    transitions : {"free", "regularized", None}
    by_position : bool
    cost : array of shape (K, K), optional
    classes : sequence, "growing" or None
    """

    codes = Labels
    single = False

    def __init__(self, transitions: Any, by_position: bool, cost: Any = None, classes: Any = None) -> None:
        if transitions not in ("regularized", "free", None):
            raise InputError(f'transitions must be "regularized", "free" or None, not {transitions!r}.')
        if by_position and transitions is None:
            raise InputError("transitions_by_position=True goes with transitions, which are None: set one of them.")
        self._transitions = transitions
        self._by_position = by_position
        self._cost = cost
        self._classes = classes

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """The codes of training labels."""
        return learned_labels(labels, self._classes, self._cost)

    def structure(self, known: Labels) -> Chain:
        """The chain over these labels."""
        return Chain(len(known), self._cost, by_position=self._by_position)

    def banks(self, structure: Chain, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Banks that do not see the input: regularized ones, and free ones; ``longest`` is the longest sequence."""
        if self._transitions is None:
            return [], []
        bank = TransitionBank(structure.n_labels, longest if self._by_position else 1, averaging)
        return ([bank], []) if self._transitions == "regularized" else ([], [bank])


class ClassOutputs:
    """One class for an input.

    Parameters
    ----------
    fit_intercept : bool
    cost : array of shape (K, K), optional
    classes : sequence, "growing" or None
    """

    codes = Labels
    single = True

    def __init__(self, fit_intercept: bool, cost: Any = None, classes: Any = None) -> None:
        self._fit_intercept = fit_intercept
        self._cost = cost
        self._classes = classes

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """The codes of training labels."""
        return learned_labels(labels, self._classes, self._cost)

    def structure(self, known: Labels) -> Binary | Multiclass:
        """A single potential for two classes, else one for each."""
        binary = len(known) == 2 and self._cost is None and not known.grows
        return Binary() if binary else Multiclass(len(known), self._cost)

    def banks(self, structure: Any, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """The intercept, free."""
        return [], [InterceptBank(n_outputs, averaging)] if self._fit_intercept else []


class NumberOutputs(ClassOutputs):
    """One number for an input, counted from the median of the targets where there is an intercept."""

    codes = Targets  # type: ignore[assignment]

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Targets:  # type: ignore[override]
        """The level that targets are counted from."""
        return Targets.around_median(labels, weights) if self._fit_intercept else Targets(0.0)

    def structure(self, known: Targets) -> Scalar:  # type: ignore[override]
        """One potential."""
        return Scalar()


def learned_labels(labels: Sequence, classes: Any, cost: Any) -> Labels:
    """The label set of training data, or the declared one."""
    if not isinstance(classes, str):
        return Labels(labels if classes is None else classes)
    if classes != GROWING:
        raise InputError(f'classes must be labels, or "{GROWING}" to take in what comes, not {classes!r}.')
    if cost is not None:
        raise InputError(f'cost= is for labels that are known: declare them, instead of classes="{GROWING}".')
    return Labels(labels, grows=True)
