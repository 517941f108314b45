"""Arguments as users write them: ``"gaussian:sigma2=5"`` wherever a ``Gaussian(sigma2=5)`` is accepted; numbers.

A class names itself in ``aliases``; nothing is registered anywhere, so a user's own subclass is found by its name as
soon as it is defined.
"""

import ast
import math
import re
import sys
import warnings
from collections.abc import Collection, Mapping
from inspect import Parameter, signature
from itertools import chain
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from omkl.exceptions import InputError

C = TypeVar("C")
#: Threads that anybody may ask for.
MOST_JOBS = 2**20
#: Lists within lists, as arguments have them.
DEEPEST = 4


class Component:
    """What kernels, losses, regularizers, schedules and averages have in common: a value with named parameters.

    Components are equal when they are of one class and their parameters are equal.

    Raises
    ------
    InputError
        Where a subclass is defined with a name that another one of its family has. A class that is defined anew
        (by the same name, in the same module) takes the place of the old one.
    """

    #: Names the component can be asked for by, and the parameters that each presets.
    aliases: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        own = cls.__module__, cls.__qualname__
        families: list[type[Component]] = [base for base in cls.__mro__ if Component in base.__bases__]
        for other in chain.from_iterable(map(family, families)):
            taken = vars(cls).get("aliases", {}).keys() & vars(other).get("aliases", {}).keys()
            if taken and (other.__module__, other.__qualname__) != own:
                cls.aliases = {}  # the class object outlives its refusal for a while, and must not be found
                raise InputError(
                    f"The name {min(taken)!r} is that of {other.__module__}.{other.__qualname__}: choose another one"
                    f" for the aliases of {cls.__name__}."
                )

    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments, by name: what equality and model files use."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Component) and type(self) is type(other) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash(type(self))

    def settings(self) -> dict[str, Any]:
        """The parameters that differ from their defaults."""
        defaults = {name: parameter.default for name, parameter in parameters_of(type(self)).items()}
        return {name: value for name, value in self.parameters().items() if value != defaults[name]}

    def as_string(self) -> str:
        """The component as :func:`resolve` reads it: the name that presets most of it, and the other settings.

        A class without a name to ask for it by is called as it is in Python.
        """
        values = self.parameters()
        fitting = {name: own for name, own in self.aliases.items() if all(values[key] == own[key] for key in own)}
        name, presets = max(fitting.items(), key=lambda item: len(item[1]), default=(type(self).__name__, {}))
        settings = [f"{key}={self._format(key, x)}" for key, x in self.settings().items() if key not in presets]
        return ":".join(filter(None, [name, ",".join(settings)]))

    def undefined(self, method: str, who: str = "what it is used for needs it") -> InputError:
        """The error to raise where a subclass has left out a method, and ``who`` needs it."""
        return InputError(f"{type(self).__name__} does not define {method}(), and {who}: add it to the class.")

    def _format(self, key: str, value: Any) -> str:
        """A parameter's value in such a string."""
        return str(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.settings().items())})"


def resolve(base: type[C], spec: C | str, what: str) -> C:
    """Return ``spec`` if it already is a ``base``, else the instance that the string describes.

    Parameters
    ----------
    base : type
        The family to look in. A member's ``aliases`` maps each of its names to the parameters it presets.
    spec : base or str
        An instance, or ``"name"`` or ``"name:parameter=value,parameter=value"``.
    what : str
        What the argument is called in the error message.

    Raises
    ------
    InputError
        If nothing has that name, or its parameters do not fit.
    """
    if isinstance(spec, base):
        return spec
    if not isinstance(spec, str):
        raise InputError(f"{what} must be a {base.__name__} or a string, not {spec!r}.")
    name, _, settings = spec.partition(":")
    members: dict[str, tuple[type[C], dict[str, Any]]] = {}
    for member in family(base):
        for short, preset in vars(member).get("aliases", {}).items():
            members[short] = member, preset
    if name.strip() not in members:
        raise InputError(f"Unknown {what} {spec!r}: choose one of {', '.join(sorted(members))}.")
    cls, preset = members[name.strip()]
    given = {**preset, **_parse_settings(settings, spec, what)} if settings else preset
    _check_parameters(cls, given, spec, what)
    try:
        return cls(**given)
    except TypeError as error:
        raise InputError(f"A setting of the {what} {spec!r} is not of {cls.__name__}'s kind: {error}.") from None


def _check_parameters(cls: type, given: Collection[str], spec: str, what: str) -> None:
    """Raise where a constructor does not know one of these arguments, or needs another one."""
    known = parameters_of(cls)
    for name in given:
        if name not in known:
            others = f", only {', '.join(known)}" if known else ""
            raise InputError(f"The {what} {spec!r} does not fit {cls.__name__}: it has no parameter {name}{others}.")
    missing = [name for name, own in known.items() if own.default is own.empty and name not in given]
    if missing:
        arguments = ", ".join(f"{name}=..." for name in missing)
        raise InputError(
            f"The {what} {spec!r} needs {' and '.join(missing)}: give the object {cls.__name__}({arguments}) in place "
            "of the name."
        )


#: The parameters of constructors: to read them off takes as long as to learn from an example.
_PARAMETERS: WeakKeyDictionary[type, Mapping[str, Parameter]] = WeakKeyDictionary()


def parameters_of(cls: type) -> Mapping[str, Parameter]:
    """The parameters of a constructor by name."""
    if cls not in _PARAMETERS:
        _PARAMETERS[cls] = signature(cls).parameters
    return _PARAMETERS[cls]


def split_settings(spec: str, names: Collection[str], what: str) -> tuple[str, dict[str, Any]]:
    """A string without those of its settings that have these names, and these settings as a dict.

    >>> split_settings("gaussian:sigma2=5,features=2000", ("features",), "kernel")
    ('gaussian:sigma2=5', {'features': 2000})
    """
    name, _, settings = spec.partition(":")
    if not settings:
        return name, {}
    rest = [part for part in _split(settings) if part.partition("=")[0].strip() not in names]
    chosen = [part for part in _split(settings) if part.partition("=")[0].strip() in names]
    return ":".join(filter(None, [name, ",".join(rest)])), _parse_settings(",".join(chosen), spec, what)


def family(base: type[C]) -> list[type[C]]:
    """A class, and all that are derived from it."""
    members = [base]
    for cls in members:
        members += cls.__subclasses__()
    return members


def _parse_settings(settings: str, spec: str, what: str) -> dict[str, Any]:
    parsed = {}
    for setting in _split(settings):
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not key or not value:
            raise InputError(f"Cannot read {setting!r} in the {what} {spec!r}: write parameter=value.")
        parsed[key] = _parse_value(value)
    return parsed


def _split(settings: str) -> list[str]:
    """Settings between commas that are in no brackets and no quotation marks."""
    parts = re.findall(r"""(?:"[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|[^,])+""", settings)
    return [part for part in parts if part.strip()]


def _parse_value(value: str, depth: int = 0) -> Any:
    """A value as Python writes it; words, and lists of words, do without quotation marks."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # of thousands of brackets, the last two
        is_list = value[:1] in ("[", "(") and value[-1:] in ("]", ")") and depth < DEEPEST
        return [_parse_value(item.strip(), depth + 1) for item in _split(value[1:-1])] if is_list else value


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn of what a user gave at the line where that was: the first one outside of the package, however deep."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "omkl":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_flags(estimator: Any) -> None:
    """Raise where a parameter of an estimator that is True or False by default is neither, and no number.

    Nor may what is a string by default be an array, whose comparison with a string is no answer.
    """
    for name, parameter in parameters_of(type(estimator)).items():
        value = getattr(estimator, name, None)
        if isinstance(parameter.default, bool) and not isinstance(value, (bool, np.bool_, int)):
            raise InputError(f"{name} must be True or False, not {value!r}.")
        if isinstance(parameter.default, str) and isinstance(value, np.ndarray):
            raise InputError(f"{name} must be a single value such as {parameter.default!r}, not an array.")


def check_number(
    name: str, value: Any, above: float = -math.inf, below: float = math.inf, integer: bool = False
) -> None:
    """Raise unless ``above < value < below``, finite, and a whole number where one is asked for."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    value = float(value) if isinstance(value, np.floating) else value  # NumPy's own may hold no bound
    is_number = is_number and abs(value) <= sys.float_info.max  # as whole numbers need not be
    if not is_number or not above < value < below or (integer and value != int(value)):
        kind = "a whole number" if integer else "a finite number"
        bounds = f" > {above:g}" if above > -math.inf else ""
        bounds += f" and < {below:g}" if below < math.inf else ""
        shown = "one so large" if isinstance(value, int) and abs(value) > sys.float_info.max else f"{value!r:.100}"
        raise InputError(f"{name} must be {kind}{bounds}, not {shown}.")


def check_n_jobs(n_jobs: Any) -> None:
    """Raise unless this is a number of threads as scikit-learn has them: None, or a whole number other than 0."""
    is_number = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (is_number and 0 < abs(n_jobs) <= MOST_JOBS):
        kind = f"a whole number other than 0, of size {MOST_JOBS} at most"
        raise InputError(f"n_jobs must be {kind}, or None, not {n_jobs!r:.50}.")
