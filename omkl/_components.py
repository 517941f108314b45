"""Components, which can be given as strings such as ``"gaussian:sigma2=5"``, and checks of
parameters.

A class lists its names in ``aliases``, and is available as soon as it is defined, without
registration.
"""

import ast
import math
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from omkl.exceptions import InputError

C = TypeVar("C")
#: Types of the parameter ``random_state``.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


#: Parameters of compiled functions that have none.
NO_PARAMETERS = np.empty(0)


class Compilable:
    """Base of the parts that may bring compiled functions, which the driver of training calls by
    address.

    A loss or a regularizer brings one function, with a signature of :mod:`omkl.signatures`, and a
    float64 array of its parameters: ``compiled = function, parameters``. Other parts bring several
    functions, by name. A class that overrides a method of a compiled class must bring functions of
    its own, else it is not compiled.
    """

    #: Compiled functions, None without; a property where functions or parameters vary.
    compiled: Any = None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        own = [
            name
            for name, value in vars(cls).items()
            if callable(value) or isinstance(value, property)
        ]
        overridden = [
            name for name in own if hasattr(super(cls, cls), name) and name not in HARMLESS
        ]
        if overridden and "compiled" not in vars(cls):
            cls.compiled = None


def function_and_parameters(part: Compilable) -> tuple[Any, np.ndarray]:
    """Return the compiled function of a loss or a regularizer, and its parameters.

    Raises
    ------
    InputError
        If the parameters are no float64 vector.
    """
    if not isinstance(part.compiled, tuple) or len(part.compiled) != 2:
        raise InputError(
            f"`compiled` of {part!r} must be a function and its parameters, not {part.compiled!r:.100}."
        )
    function, parameters = part.compiled
    if not is_vector(parameters):
        raise InputError(
            f"The parameters of the compiled function of {part!r} must be a contiguous float64 vector, "
            f"not {parameters!r:.100}."
        )
    return function, parameters


def is_vector(values: object) -> bool:
    """Return whether this is a contiguous vector of float64, as compiled functions read it."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype == np.float64
        and values.ndim == 1
        and bool(values.flags.c_contiguous)
    )


#: Methods that do not change what a part computes.
HARMLESS = {"__init__", "__new__", "__repr__", "__eq__", "__hash__", "__class__"}


class Component(Compilable):
    """Base class of kernels, losses, regularizers, schedules and averages: values with named
    parameters.

    Components are equal if their classes and parameters are equal.

    Raises
    ------
    InputError
        If an alias of a subclass is already used in its family. Redefining a class, with the same
        name in the same module, replaces the old class.
    """

    #: Names of the component in strings, and preset parameters of each name.
    aliases: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Methods that every member of a family defines; set by the base of the family.
    required: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        root: type[Component] = next(
            (base for base in cls.__mro__ if Component in base.__bases__), cls
        )
        for other in family(root):
            taken = vars(cls).get("aliases", {}).keys() & vars(other).get("aliases", {}).keys()
            if taken and (other.__module__, other.__qualname__) != (
                cls.__module__,
                cls.__qualname__,
            ):
                cls.aliases = {}  # the class exists until garbage collection, but must not be found
                raise InputError(
                    f"The alias {min(taken)!r} of {cls.__name__} is taken by {other.__qualname__}."
                )

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def learned(self) -> dict[str, Any]:
        """Return the attributes learned by ``fit``, by name, for model files."""
        return {}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Component)
            and type(self) is type(other)
            and self.parameters() == other.parameters()
        )

    def __hash__(self) -> int:
        return hash(type(self))

    def settings(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        known = parameters_of(type(self))
        return {
            name: value for name, value in self.parameters().items() if value != known[name].default
        }

    def as_string(self) -> str:
        """Return the string for :func:`resolve`, with the alias that presets most parameters.

        For classes without aliases, the string starts with the class name.
        """
        values = self.parameters()
        fitting = {
            name: own
            for name, own in self.aliases.items()
            if all(values[key] == own[key] for key in own)
        }
        name, presets = max(
            fitting.items(), key=lambda item: len(item[1]), default=(type(self).__name__, {})
        )
        settings = [
            f"{key}={self._format(key, x)}"
            for key, x in self.settings().items()
            if key not in presets
        ]
        return ":".join(filter(None, [name, ",".join(settings)]))

    def must_define(self, method: str) -> NoReturn:
        """Raise an InputError that names a method, and all others, that a subclass must define and
        does not.

        Parameters
        ----------
        method : str
        """
        base: Any = next(cls for cls in type(self).__mro__ if "required" in vars(cls))
        missing = [
            name for name in self.required if getattr(type(self), name) is getattr(base, name)
        ]
        names = ", ".join(f"{name}()" for name in dict.fromkeys([*missing, method]))
        raise InputError(f"{type(self).__name__} must define {names}.")

    def _format(self, key: str, value: object) -> str:
        """Format a parameter's value for :meth:`as_string`."""
        return str(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.settings().items())})"


def resolve(base: type[C], spec: C | str, what: str, more_settings: Collection[str] = ()) -> C:
    """Return ``spec`` if it is an instance of ``base``, else the instance described by the string.

    Parameters
    ----------
    base : type
        Base class of the family.
    spec : base or str
        An instance, or ``"name"`` or ``"name:parameter=value,parameter=value"``.
    what : str
        Name of the argument, for the error message.
    more_settings : collection of str
        Settings of strings that the caller extracts, for the error message.

    Raises
    ------
    InputError
        If no class of the family has this name, or the parameters are invalid.
    """
    if isinstance(spec, base):
        return spec
    text = spec if isinstance(spec, str) else ""
    name, _, settings = text.partition(":")
    members = members_of(base)
    if name.strip() not in members:
        names = ", ".join(sorted(members))
        raise InputError(
            f"Unknown {what} {spec!r}: choose one of {names}, or make a {base.__name__}."
        )
    cls = members[name.strip()]
    given = {**cls.aliases[name.strip()], **_parse_settings(settings, text, what)}
    _check_settings(cls, given, text, what, more_settings)
    try:
        return cls(**given)
    except TypeError as error:
        known = ", ".join(parameters_of(cls))
        raise InputError(
            f"The {what} {spec!r} does not fit {cls.__name__}({known}): {error}."
        ) from None


def _check_settings(
    cls: type, given: Mapping[str, Any], spec: str, what: str, more_settings: Collection[str]
) -> None:
    """Raise InputError for a setting that is no parameter of a class, and for a missing one."""
    parameters = parameters_of(cls)
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    names = [*parameters, *more_settings]
    unknown = [name for name in given if name not in parameters]
    if unknown:
        choice = f"choose from {', '.join(names)}" if names else "it has none"
        raise InputError(f"The {what} {spec!r} has no parameter {unknown[0]!r}: {choice}.")
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in given:
            alias = spec.partition(":")[0].strip()
            raise InputError(f"The {what} {spec!r} needs a parameter: write {alias}:{name}=VALUE.")


def members_of(base: type) -> dict[str, Any]:
    """Return the classes of a family by their aliases."""
    members: list[type] = family(base)
    return {alias: cls for cls in members for alias in vars(cls).get("aliases", {})}


_PARAMETERS: WeakKeyDictionary[type, Mapping[str, Parameter]] = WeakKeyDictionary()


def parameters_of(cls: type) -> Mapping[str, Parameter]:
    """Return the parameters of a constructor by name; cached, as ``inspect.signature`` is slow."""
    if cls not in _PARAMETERS:
        _PARAMETERS[cls] = signature(cls).parameters
    return _PARAMETERS[cls]


def split_settings(spec: str, names: Collection[str], what: str) -> tuple[str, dict[str, Any]]:
    """Extract the settings with these names from a string; return the rest, and the settings as a
    dict.

    >>> split_settings("gaussian:sigma2=5,features=2000", ("features",), "kernel")
    ('gaussian:sigma2=5', {'features': 2000})
    """
    name, _, settings = spec.partition(":")
    parts = _split(settings)
    chosen = [part for part in parts if part.partition("=")[0].strip() in names]
    rest = [part for part in parts if part not in chosen]
    return ":".join(filter(None, [name, ",".join(rest)])), _parse_settings(
        ",".join(chosen), spec, what
    )


def family(base: type[C]) -> list[type[C]]:
    """Return a class and all its subclasses."""
    members = [base]
    for cls in members:
        members += cls.__subclasses__()
    return members


def _parse_settings(settings: str, spec: str, what: str) -> dict[str, Any]:
    """Parse ``"parameter=value,parameter=value"``."""
    parsed = {}
    for setting in _split(settings):
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not key or not value:
            raise InputError(
                f"Cannot read {setting!r} in the {what} {spec!r}: write parameter=value."
            )
        parsed[key] = _parse_value(value)
    return parsed


def _split(settings: str) -> list[str]:
    """Split at commas outside of brackets and quotation marks."""
    parts = re.findall(r"""(?:"[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|[^,])+""", settings)
    return [part for part in parts if part.strip()]


def _parse_value(value: str) -> Any:
    """Parse a Python literal; words, and lists of words, need no quotation marks."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        is_list = value[:1] in ("[", "(") and value[-1:] in ("]", ")")
        return [_parse_value(item.strip()) for item in _split(value[1:-1])] if is_list else value


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called the package."""
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "omkl"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def as_random_state(random_state: object) -> np.random.RandomState:
    """Return the generator that scikit-learn takes; a Generator of NumPy draws its seed."""
    from sklearn.utils import (
        check_random_state,
    )  # the command line explains itself without scikit-learn

    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31))
    return check_random_state(random_state)


def check_flags(estimator: object) -> None:
    """Raise InputError unless boolean parameters are bool or int, and string parameters are not
    arrays.
    """
    for name, parameter in parameters_of(type(estimator)).items():
        value = getattr(estimator, name, None)
        is_no_flag = isinstance(parameter.default, bool) and not isinstance(
            value, (bool, np.bool_, int)
        )
        if is_no_flag or (isinstance(parameter.default, str) and isinstance(value, np.ndarray)):
            raise InputError(
                f"{name} must be a single value such as {parameter.default!r}, got {value!r:.100}."
            )


def is_among(value: Any, accepted: Iterable) -> bool:
    """Check whether a value is identical or equal to one of several values."""
    return any(value is own or (np.ndim(value) == 0 and value == own) for own in accepted)


def check_choice(name: str, value: object, accepted: Collection) -> None:
    """Raise InputError unless a value is an accepted one; the message does not list accepted types."""
    if not is_among(value, accepted):
        named = ", ".join(repr(own) for own in accepted if not isinstance(own, type))
        raise InputError(f"{name} must be one of {named}, got {value!r:.100}.")


def check_number(
    name: str,
    value: Any,
    above: float = -math.inf,
    below: float = math.inf,
    integer: bool = False,
    least: float = -math.inf,
    most: float = math.inf,
    also: tuple = (),
) -> None:
    """Raise InputError unless a number is finite, within the bounds, and whole if ``integer``, or
    is in ``also``.
    """
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, bool
    )
    value = (
        float(value) if isinstance(value, np.floating) else value
    )  # large bounds would overflow in float32
    fits = (
        is_number
        and abs(value) <= sys.float_info.max
        and above < value < below
        and least <= value <= most
    )
    if (fits and (not integer or value == int(value))) or is_among(value, also):
        return
    kind = "a whole number" if integer else "a finite number"
    limits = [(" >", above), (" >=", least), (" <", below), (" <=", most)]
    bounds = " and".join(f"{sign} {limit:g}" for sign, limit in limits if abs(limit) < math.inf)
    bounds += "".join(f" or {other!r}" for other in also)
    raise InputError(f"{name} must be {kind}{bounds}, not {value!r:.100}.")


def check_n_jobs(n_jobs: object) -> None:
    """Raise InputError unless ``n_jobs`` is None or a nonzero integer."""
    if n_jobs is not None:
        check_number(
            "n_jobs", n_jobs, integer=True, least=1 if is_among(n_jobs, (0,)) else -math.inf
        )
