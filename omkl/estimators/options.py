"""Options: parameters of estimators that hold several settings, most of which are rarely set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from omkl._components import Component, parameters_of
from omkl.estimators.validation import Constraint, Number, OneOf
from omkl.exceptions import InputError


@dataclass(frozen=True, eq=False, repr=False)
class Options(Component):
    """Base class of options, which are dataclasses.

    Raises
    ------
    InputError
        If a setting is invalid.
    """

    #: Valid values of settings.
    constraints: ClassVar[dict[str, Constraint]] = {}

    def __post_init__(self) -> None:
        for name, constraint in self.constraints.items():
            constraint.check(name, getattr(self, name))

    @classmethod
    def of(cls, name: str, value: object) -> Self:
        """Return the value of the parameter ``name`` as options; plain ones are the first setting.

        Raises
        ------
        InputError
            If the value is invalid, or options of another kind.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Options):
            raise InputError(f"{name} must be a {cls.__name__}, got {value!r}.")
        first_setting = cls._first_setting()
        if first_setting in cls.constraints:
            cls.constraints[first_setting].check(name, value)
        return cls(**{first_setting: value})

    @classmethod
    def _first_setting(cls) -> str:
        return next(iter(parameters_of(cls)))

    @property
    def plain(self) -> object:
        """The value that stands for these options if the others have their defaults."""
        return getattr(self, self._first_setting())


class OptionsOr(NamedTuple):
    """Options of a class, or a plain value that stands for them.

    Attributes
    ----------
    options : type
    plain : Constraint
        Valid plain values, which may be fewer than the options accept.
    """

    options: type[Options]
    plain: Constraint

    def check(self, name: str, value: object) -> None:
        """Raise an InputError unless the value is valid."""
        if isinstance(value, Options):
            value = self.options.of(name, value).plain
        self.plain.check(name, value)


@dataclass(frozen=True, eq=False, repr=False)
class Passes(Options):
    """Passes over the training data.

    Parameters
    ----------
    epochs : "auto" or int > 0
        Number of passes.
    shuffle : bool
        Shuffle the examples in every epoch. The order of a file usually costs accuracy.
    n_examples : float, optional
        The number m in ``C = 1 / (lambda m)``, and the length of a pass, at the end of which
        learning rates are smallest. By default the (weighted) number of training examples, or in
        ``partial_fit`` of the examples seen so far.

    Examples
    --------
    >>> from omkl import OnlineMKLClassifier, Passes
    >>> model = OnlineMKLClassifier(epochs=Passes(1, n_examples=1e6))  # for partial_fit
    """

    constraints = {
        "epochs": Number(above=0, integer=True, also=("auto",)),
        "shuffle": OneOf((True, False)),
        "n_examples": Number(above=0, also=(None,)),
    }

    epochs: Any = 20
    shuffle: bool = True
    n_examples: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class EarlyStopping(Options):
    """Stopping when held-out examples no longer improve.

    Parameters
    ----------
    fraction : float in (0, 1)
        Fraction of the training examples to hold out, unless ``fit`` has ``validation``.
    patience : int > 0
        Number of epochs without an improvement after which training stops, and returns to the model
        of the best epoch.

    Examples
    --------
    >>> from omkl import EarlyStopping, SequenceLabeler
    >>> labeler = SequenceLabeler(early_stopping=EarlyStopping(patience=3))
    """

    constraints = {
        "fraction": Number(above=0, below=1),
        "patience": Number(above=0, integer=True),
    }

    fraction: float = 0.1
    patience: int = 5

    @property
    def plain(self) -> bool:
        """True, which stands for early stopping with the default settings."""
        return True


@dataclass(frozen=True, eq=False, repr=False)
class Budget(Options):
    """Memory for kernels.

    Parameters
    ----------
    support_vectors : int > 0, optional
        Maximum number of support vectors, shared by all kernels stored as dual expansions, which
        bounds memory and time per round. When it is reached, a new support vector replaces the
        least important one, whose contribution is projected onto the others (O(budget^2) time and
        memory per kernel).
    cache_size : float
        Megabytes for Gram matrices of kernels, and the same amount for the features of approximated
        kernels. Rows that do not fit are computed on demand. 0 computes all kernel values on
        demand, like ``partial_fit``.
    dtype : {"auto", "float32", "float64"}
        Precision of Gram matrices and cached potentials. "auto" is double precision for small Gram
        matrices, else single precision.

    Examples
    --------
    >>> from omkl import Budget, OnlineMKLRegressor
    >>> model = OnlineMKLRegressor("gaussian", budget=Budget(200, dtype="float64"))
    """

    constraints = {
        "support_vectors": Number(above=0, integer=True, also=(None,)),
        "cache_size": Number(above=-1),
        "dtype": OneOf(("auto", "float32", "float64", np.float32, np.float64)),
    }

    support_vectors: int | None = None
    cache_size: float = 4000
    dtype: Any = "auto"
