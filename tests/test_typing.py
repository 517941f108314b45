"""Every argument and result of what the package offers has a type; mypy, run in .ci/run, holds bodies against them."""

import importlib
import inspect
import pkgutil
from functools import cache, cached_property

import pytest

import omkl


def public_objects():
    """Classes and functions of omkl in the ``__all__`` of any of its packages, by their module and name."""
    for info in [None, *pkgutil.walk_packages(omkl.__path__, "omkl.")]:
        package = omkl if info is None else importlib.import_module(info.name) if info.ispkg else None
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("omkl"):
                yield thing


def functions_of(thing):
    """``(module, name, function)`` of a function; of a class, those of its constructor and its public methods."""
    if inspect.isfunction(thing):
        yield thing.__module__, thing.__qualname__, thing
        return
    for cls in thing.__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, property):
                member = member.fget
            elif isinstance(member, cached_property):
                member = member.func
            elif isinstance(member, (classmethod, staticmethod)):
                member = member.__func__
            public = name in ("__init__", "__call__") or not name.startswith("_")
            if public and inspect.isfunction(member) and member.__module__.startswith("omkl"):
                yield member.__module__, member.__qualname__, member


@cache
def untyped():
    """For each module, its public functions and what of them is not typed."""
    found = {}
    for thing in public_objects():
        for module, name, function in functions_of(thing):
            signature = inspect.signature(function)
            names = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
            names = [p for p in names if p not in ("self", "cls") and not p.startswith("_")]
            if signature.return_annotation is signature.empty and function.__name__ != "__init__":
                names.append("result")
            missing = found.setdefault(module, {})
            if names:
                missing[name] = ", ".join(names)
    return found


@pytest.mark.parametrize("module", sorted(untyped()))
def test_public_functions_are_typed(module):
    assert untyped()[module] == {}


def test_the_package_says_that_it_is_typed():
    assert (importlib.resources.files("omkl") / "py.typed").is_file()
