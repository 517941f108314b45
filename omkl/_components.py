"""Components: objects that can be written as strings, such as ``"gaussian:sigma2=5"``; checks of numbers.

A class names itself in ``aliases`` and is found as soon as it is defined: nothing is registered.
"""

import ast
import math
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any, ClassVar, NoReturn, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from omkl.exceptions import InputError

C = TypeVar("C")


class Component:
    """Base of kernels, losses, regularizers, schedules and averages: a value with named parameters.

    Components are equal when their classes and their parameters are equal.

    Raises
    ------
    InputError
        If a subclass takes a name that another class of its family has. A class that is defined again, under the same
        name in the same module, replaces the old one.
    """

    #: Names the component can be asked for by, and the parameters that each presets.
    aliases: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        root: type[Component] = next((base for base in cls.__mro__ if Component in base.__bases__), cls)
        for other in family(root):
            taken = vars(cls).get("aliases", {}).keys() & vars(other).get("aliases", {}).keys()
            if taken and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                cls.aliases = {}  # the class lives on until it is collected, and must not be found
                raise InputError(f"The alias {min(taken)!r} of {cls.__name__} is taken by {other.__qualname__}.")

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def learned(self) -> dict[str, Any]:
        """Return the attributes that ``fit`` has learned, by name, for model files."""
        return {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Component) and type(self) is type(other) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash(type(self))

    def settings(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        known = parameters_of(type(self))
        return {name: value for name, value in self.parameters().items() if value != known[name].default}

    def as_string(self) -> str:
        """Return the string that :func:`resolve` reads, with the alias that presets most parameters.

        The class name stands for the alias of a class that has none.
        """
        values = self.parameters()
        fitting = {name: own for name, own in self.aliases.items() if all(values[key] == own[key] for key in own)}
        name, presets = max(fitting.items(), key=lambda item: len(item[1]), default=(type(self).__name__, {}))
        settings = [f"{key}={self._format(key, x)}" for key, x in self.settings().items() if key not in presets]
        return ":".join(filter(None, [name, ",".join(settings)]))

    def must_define(self, method: str, purpose: str = "what it is used for needs it") -> NoReturn:
        """Raise an error where a subclass does not define a method.

        Parameters
        ----------
        method : str
        purpose : str
            Who needs the method.
        """
        raise InputError(f"{type(self).__name__} does not define {method}(), and {purpose}: add it to the class.")

    def _format(self, key: str, value: Any) -> str:
        """Format a parameter's value for :meth:`as_string`."""
        return str(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.settings().items())})"


def resolve(base: type[C], spec: C | str, what: str) -> C:
    """Return ``spec`` if it is a ``base``, else the instance that the string describes.

    Parameters
    ----------
    base : type
        The family to look in.
    spec : base or str
        An instance, or ``"name"`` or ``"name:parameter=value,parameter=value"``.
    what : str
        Name of the argument, for the error message.

    Raises
    ------
    InputError
        If no member has that name, or the parameters do not fit it.
    """
    if isinstance(spec, base):
        return spec
    text = spec if isinstance(spec, str) else ""
    name, _, settings = text.partition(":")
    members = _members(base)
    if name.strip() not in members:
        names = ", ".join(sorted(members))
        raise InputError(f"Unknown {what} {spec!r}: choose one of {names}, or make a {base.__name__}.")
    cls = members[name.strip()]
    given = {**cls.aliases[name.strip()], **_parse_settings(settings, text, what)}
    try:
        return cls(**given)
    except TypeError as error:
        known = ", ".join(parameters_of(cls))
        raise InputError(f"The {what} {spec!r} does not fit {cls.__name__}({known}): {error}.") from None


def named(base: type, alias: str) -> Any:
    """Return the class of a family that has an alias, of which it is known that there is one."""
    return _members(base)[alias]


def _members(base: type) -> dict[str, Any]:
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
    """Take the settings with these names out of a string; return the rest, and the settings as a dict.

    >>> split_settings("gaussian:sigma2=5,features=2000", ("features",), "kernel")
    ('gaussian:sigma2=5', {'features': 2000})
    """
    name, _, settings = spec.partition(":")
    parts = _split(settings)
    chosen = [part for part in parts if part.partition("=")[0].strip() in names]
    rest = [part for part in parts if part not in chosen]
    return ":".join(filter(None, [name, ",".join(rest)])), _parse_settings(",".join(chosen), spec, what)


def family(base: type[C]) -> list[type[C]]:
    """Return a class and all classes that derive from it."""
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
            raise InputError(f"Cannot read {setting!r} in the {what} {spec!r}: write parameter=value.")
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
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "omkl":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_flags(estimator: object) -> None:
    """Raise unless parameters that are booleans by default are booleans or integers, and strings are no arrays."""
    for name, parameter in parameters_of(type(estimator)).items():
        value = getattr(estimator, name, None)
        is_no_flag = isinstance(parameter.default, bool) and not isinstance(value, (bool, np.bool_, int))
        if is_no_flag or (isinstance(parameter.default, str) and isinstance(value, np.ndarray)):
            raise InputError(f"{name} must be a single value such as {parameter.default!r}, got {value!r:.100}.")


def is_among(value: Any, accepted: Iterable) -> bool:
    """Check whether a value is one of some, or equal to one."""
    return any(value is own or (np.ndim(value) == 0 and value == own) for own in accepted)


def check_choice(name: str, value: object, accepted: Collection) -> None:
    """Raise unless a value is one of the accepted ones; types among them are not named."""
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
) -> None:
    """Raise unless ``above < value < below`` and ``least <= value <= most``, finite, and whole if ``integer``."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    value = float(value) if isinstance(value, np.floating) else value  # float32 cannot be compared with large bounds
    fits = is_number and abs(value) <= sys.float_info.max and above < value < below and least <= value <= most
    if fits and (not integer or value == int(value)):
        return
    kind = "a whole number" if integer else "a finite number"
    limits = [(" >", above), (" >=", least), (" <", below), (" <=", most)]
    bounds = " and".join(f"{sign} {limit:g}" for sign, limit in limits if abs(limit) < math.inf)
    raise InputError(f"{name} must be {kind}{bounds}, not {value!r:.100}.")


def check_n_jobs(n_jobs: object) -> None:
    """Raise unless ``n_jobs`` is a whole number other than 0, or None."""
    if n_jobs is not None:
        check_number("n_jobs", n_jobs, integer=True, least=1 if is_among(n_jobs, (0,)) else -math.inf)
