"""Every public function has types for its arguments and result."""

import ast
import importlib.resources
from pathlib import Path

import pytest

import omkl

ROOT = Path(omkl.__file__).parent
#: Jitted functions take their types from their callers.
FILES = [path for path in sorted(ROOT.rglob("*.py")) if not path.name.startswith("_jit_")]


def public_functions(body, prefix=""):
    """``(name, function)`` of public functions, and of public methods and constructors of public classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (node.name[0] != "_" or node.name in ("__init__", "__call__")):
            yield prefix + node.name, node


def untyped(function):
    """Return the arguments without a type, and "result" if it has none."""
    own = function.args
    arguments = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    names = [a.arg for a in arguments if a is not None and a.annotation is None]
    names = [name for name in names if name not in ("self", "cls") and not name.startswith("_")]
    return names + ["result"] * (function.returns is None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_are_typed(path):
    functions = public_functions(ast.parse(path.read_text(encoding="utf-8")).body)
    assert {name: missing for name, function in functions if (missing := untyped(function))} == {}


def test_the_package_says_that_it_is_typed():
    assert (importlib.resources.files("omkl") / "py.typed").is_file()
