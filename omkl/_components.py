"""Components, also as strings such as ``"gaussian:sigma2=5"``, and checks of parameters.

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
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from omkl.exceptions import InputError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

C = TypeVar("C")
#: Types of the parameter ``random_state``.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


#: Parameters of compiled functions that have none.
NO_PARAMETERS = np.empty(0)


class Compilable:
    """Base of the parts that may bring compiled functions.

    The driver of training calls these by address. A loss or a regularizer brings one function, with
    a signature of :mod:`omkl.signatures`, and a float64 array of its parameters: ``compiled =
    function, parameters``. Other parts bring several functions, by name. A class that overrides a
    method of a compiled class must bring functions of its own, else it is not compiled.
    """

    #: Compiled functions, None without; a property where functions or parameters vary.
    compiled: Any = None

    def __init_subclass__(cls) -> None:
        """Set ``compiled`` to None if a subclass overrides methods, but brings no functions."""
        super().__init_subclass__()
        if "compiled" in vars(cls):
            return
        for name, value in vars(cls).items():
            is_method = callable(value) or isinstance(value, property)
            if is_method and name not in HARMLESS and hasattr(super(cls, cls), name):
                cls.compiled = None
                return


def defines_first(cls: type, names: Collection[str], other: str) -> bool:
    """Return whether a class defines one of some methods, but inherits the other one.

    The first class in the order of inheritance that defines any of them decides.
    """
    for base in cls.__mro__:
        if other in vars(base):
            return False
        if not vars(base).keys().isdisjoint(names):
            return True
    return False


def function_and_parameters(part: Compilable) -> tuple[Any, np.ndarray]:
    """Return the compiled function of a loss or a regularizer, and its parameters.

    Raises
    ------
    InputError
        If the parameters are no float64 vector.
    """
    compiled = part.compiled
    if not isinstance(compiled, tuple) or len(compiled) != 2:
        raise InputError(
            f"`compiled` of {part!r} must be a function and its parameters, not {compiled!r:.100}."
        )
    function, parameters = compiled
    if not is_vector(parameters):
        raise InputError(
            f"The parameters of the compiled function of {part!r} must be a contiguous float64 "
            f"vector, not {parameters!r:.100}."
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
    """Base class of kernels, losses, regularizers, schedules and averages.

    Components are values with named parameters. They are equal if their classes and parameters are
    equal.

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        root: type[Component] = cls
        for base in cls.__mro__:
            if Component in base.__bases__:
                root = base
                break
        aliases = vars(cls).get("aliases", {}).keys()
        for other in family(root):
            taken = aliases & vars(other).get("aliases", {}).keys()
            is_redefined = other.__module__ == cls.__module__
            is_redefined = is_redefined and other.__qualname__ == cls.__qualname__
            if taken and not is_redefined:
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
        parameters = parameters_of(type(self))
        changed = {}
        for name, value in self.parameters().items():
            if value != parameters[name].default:
                changed[name] = value
        return changed

    def as_string(self) -> str:
        """Return the string for :func:`resolve`, with the alias that presets most parameters.

        For classes without aliases, the string starts with the class name.
        """
        values = self.parameters()
        fitting = []
        for alias, presets in self.aliases.items():
            if all(values[key] == preset for key, preset in presets.items()):
                fitting.append(alias)
        name = type(self).__name__
        if fitting:
            name = max(fitting, key=lambda alias: len(self.aliases[alias]))
        presets = self.aliases.get(name, {})
        settings = []
        for key, value in self.settings().items():
            if key not in presets:
                settings.append(f"{key}={self._format(key, value)}")
        return ":".join(filter(None, [name, ",".join(settings)]))

    def must_define(self, method: str) -> NoReturn:
        """Raise an InputError that names a method, and all others, that a subclass lacks.

        Parameters
        ----------
        method : str
        """
        cls = type(self)
        base: Any = next(base for base in cls.__mro__ if "required" in vars(base))
        missing = [name for name in self.required if getattr(cls, name) is getattr(base, name)]
        names = ", ".join(f"{name}()" for name in dict.fromkeys([*missing, method]))
        raise InputError(f"{cls.__name__} must define {names}.")

    def _format(self, key: str, value: object) -> str:
        """Format a parameter's value for :meth:`as_string`."""
        return str(value)

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.settings().items())
        return f"{type(self).__name__}({settings})"


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
    name, _, settings_text = text.partition(":")
    name = name.strip()
    members = members_of(base)
    if name not in members:
        names = ", ".join(sorted(members))
        raise InputError(
            f"Unknown {what} {spec!r}: choose one of {names}, or make a {base.__name__}."
        )
    cls = members[name]
    settings = {**cls.aliases[name], **_parse_settings(settings_text, text, what)}
    _check_settings(cls, settings, text, what, more_settings)
    try:
        return cls(**settings)
    except TypeError as error:
        parameters = ", ".join(parameters_of(cls))
        raise InputError(
            f"The {what} {spec!r} does not fit {cls.__name__}({parameters}): {error}."
        ) from None


def _check_settings(
    cls: type, settings: Mapping[str, Any], spec: str, what: str, more_settings: Collection[str]
) -> None:
    """Raise InputError for a setting that is no parameter of a class, and for a missing one."""
    parameters = parameters_of(cls)
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    names = [*parameters, *more_settings]
    for name in settings:
        if name not in parameters:
            choice = f"choose from {', '.join(names)}" if names else "it has none"
            raise InputError(f"The {what} {spec!r} has no parameter {name!r}: {choice}.")
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in settings:
            alias = spec.partition(":")[0].strip()
            raise InputError(f"The {what} {spec!r} needs a parameter: write {alias}:{name}=VALUE.")


def members_of(base: type) -> dict[str, Any]:
    """Return the classes of a family by their aliases."""
    members: dict[str, Any] = {}
    classes: list[type] = family(base)
    for cls in classes:
        for alias in vars(cls).get("aliases", {}):
            members[alias] = cls
    return members


_PARAMETERS: WeakKeyDictionary[type, Mapping[str, Parameter]] = WeakKeyDictionary()


def parameters_of(cls: type) -> Mapping[str, Parameter]:
    """Return the parameters of a constructor by name; cached, as ``inspect.signature`` is slow."""
    if cls not in _PARAMETERS:
        _PARAMETERS[cls] = signature(cls).parameters
    return _PARAMETERS[cls]


def split_settings(spec: str, names: Collection[str], what: str) -> tuple[str, dict[str, Any]]:
    """Extract the settings with these names from a string.

    Return the string without them, and the settings as a dict.

    >>> split_settings("gaussian:sigma2=5,features=2000", ("features",), "kernel")
    ('gaussian:sigma2=5', {'features': 2000})
    """
    name, _, settings = spec.partition(":")
    extracted: list[str] = []
    others: list[str] = []
    for setting in _split(settings):
        if setting.partition("=")[0].strip() in names:
            extracted.append(setting)
        else:
            others.append(setting)
    remaining_spec = ":".join(filter(None, [name, ",".join(others)]))
    return remaining_spec, _parse_settings(",".join(extracted), spec, what)


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
    pieces = re.findall(r"""(?:"[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|[^,])+""", settings)
    return [piece for piece in pieces if piece.strip()]


def _parse_value(value: str) -> Any:
    """Parse a Python literal; words, and lists of words, need no quotation marks."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        is_list = value[:1] in ("[", "(") and value[-1:] in ("]", ")")
        if not is_list:
            return value
        return [_parse_value(item.strip()) for item in _split(value[1:-1])]


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called the package."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _package_of(frame) == "omkl":
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _package_of(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


def as_random_state(random_state: RandomState) -> np.random.RandomState:
    """Return the generator that scikit-learn takes; a Generator of NumPy draws its seed."""
    # here, as the command line explains itself without scikit-learn
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31))
    return check_random_state(random_state)


def check_flags(estimator: "BaseEstimator", checked: Collection[str]) -> None:
    """Raise InputError unless boolean parameters are bool or int, and strings are not arrays.

    Other checks are for the ``checked`` parameters.
    """
    for name, parameter in parameters_of(type(estimator)).items():
        if name in checked:
            continue
        value = getattr(estimator, name, None)
        accepts = True
        if isinstance(parameter.default, bool):
            accepts = isinstance(value, (bool, np.bool_, int))
        elif isinstance(parameter.default, str):
            accepts = not isinstance(value, np.ndarray)
        if not accepts:
            raise InputError(
                f"{name} must be a single value such as {parameter.default!r}, got {value!r:.100}."
            )


def is_among(value: Any, accepted: Iterable) -> bool:
    """Check whether a value is identical or equal to one of several values."""
    return any(value is choice or (np.ndim(value) == 0 and value == choice) for choice in accepted)


def check_choice(name: str, value: object, accepted: Collection) -> None:
    """Raise InputError unless a value is an accepted one; the message lists no types."""
    if not is_among(value, accepted):
        choices = ", ".join(repr(choice) for choice in accepted if not isinstance(choice, type))
        raise InputError(f"{name} must be one of {choices}, got {value!r:.100}.")


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
    """Raise InputError unless a number is finite, and within the bounds.

    It must be whole if ``integer``. Values in ``also`` are accepted, too.
    """
    number: Any = value
    if isinstance(value, np.floating):
        number = float(value)  # large bounds would overflow in float32
    is_number = isinstance(number, (int, float, np.integer)) and not isinstance(number, bool)
    if is_number:
        is_within = above < number < below and least <= number <= most
        is_finite = abs(number) <= sys.float_info.max
        if is_finite and is_within and (not integer or number == int(number)):
            return
    if is_among(number, also):
        return
    kind = "a whole number" if integer else "a finite number"
    limits = [(" >", above), (" >=", least), (" <", below), (" <=", most)]
    bounds = " and".join(f"{sign} {limit:g}" for sign, limit in limits if abs(limit) < math.inf)
    bounds += "".join(f" or {other!r}" for other in also)
    raise InputError(f"{name} must be {kind}{bounds}, not {number!r:.100}.")


def check_n_jobs(n_jobs: int | None) -> None:
    """Raise InputError unless ``n_jobs`` is None or a nonzero integer."""
    if n_jobs is not None:
        least = 1 if is_among(n_jobs, (0,)) else -math.inf
        check_number("n_jobs", n_jobs, integer=True, least=least)
