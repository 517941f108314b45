"""Parts as strings and calls of omkl's functions in the running text of README and pages."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import omkl
from omkl._components import Component, resolve
from omkl.exceptions import InputError
from omkl.kernels import as_kernel

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *(```+).*?^ *\1$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
#: A part with its settings, such as ``gaussian:sigma2=5``.
SPEC = re.compile(r"[a-z][\w-]*:[a-z_]\w*=[^=]+(,[a-z_]\w*=[^=]+)*")
#: Functions and classes of omkl, and the methods of its estimators.
FUNCTIONS = {name: [getattr(omkl, name)] for name in omkl.__all__ if callable(getattr(omkl, name))}
CLASSES = [value for [value] in FUNCTIONS.values() if inspect.isclass(value)]
for estimator in CLASSES:
    for name, method in inspect.getmembers(estimator, inspect.isfunction):
        FUNCTIONS.setdefault(name, []).append(method)


def examples(page):
    """Yield the code in the running text of a page that Python can parse, with its syntax tree."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for inline in INLINE.findall(text):
        code = " ".join(inline.split())
        try:
            yield code, ast.parse(code)
        except SyntaxError:  # formulas, commands, names of files
            continue


BASES = Component.__subclasses__()


def is_a_part(spec):
    """Tell whether any family of parts has this one."""
    families = [lambda name, base=base: resolve(base, name, "part") for base in BASES]
    for part_of in (as_kernel, *families):
        try:
            return bool(part_of(spec))
        except InputError:
            continue
    return False


def functions_of(call):
    """Return omkl's functions of this name; none for those of other libraries and of the reader."""
    path = ast.unparse(call.func)
    if re.fullmatch(r"omkl(\.\w+)+", path):
        function = omkl
        for name in path.split(".")[1:]:
            function = getattr(function, name)
        return [function]
    return FUNCTIONS.get(path, [])


def takes(function, call):
    """Tell whether a function, or a method without its instance, takes the arguments of a call."""
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
    is_method = inspect.isfunction(function) and "." in function.__qualname__
    try:
        inspect.signature(function).bind_partial(*[None] * (len(call.args) + is_method), **keywords)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_parts_and_calls_in_running_text_exist(page):
    for code, tree in examples(page):
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and SPEC.fullmatch(node.value)
            ):
                assert is_a_part(node.value), (
                    f"{page}: {code} names no part of omkl with these settings"
                )
            if isinstance(node, ast.Call) and (functions := functions_of(node)):
                assert any(takes(function, node) for function in functions), (
                    f"{page}: {code} has other arguments"
                )


def test_wrong_parts_and_calls_are_found():
    assert is_a_part("quantile:quantile=0.9")
    assert not is_a_part("quantile:tau=0.9")
    wrong = ast.parse("SequenceLabeler(lossy='crf')").body[0].value
    assert not any(takes(function, wrong) for function in functions_of(wrong))
