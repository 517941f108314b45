"""Every public name is in the API reference; built pages lead somewhere; there is one version.

``OMKL_DOCS=docs/_build/html python -m pytest tests/docs/test_pages.py`` checks the pages that
sphinx has built there.
"""

import ast
import importlib
import importlib.util
import os
import re
import tomllib
import zlib
from html import unescape
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlparse

import click
import pytest

import omkl
from omkl.cli.options import omkl as omkl_command

DOCS = Path(__file__).parents[2] / "docs"
#: Modules with public names.
MODULES = [
    "omkl", "omkl.kernels", "omkl.regularizers", "omkl.losses", "omkl.structures", "omkl.groups",
    "omkl.online", "omkl.batch", "omkl.data", "omkl.reports", "omkl.distributed",
    "omkl.exceptions", "omkl.features", "omkl.testing",
]  # fmt: skip


def public_names():
    """Yield ``(module, name)`` of all public names except modules."""
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        for name in names:
            value = getattr(module, name)
            if name[0] != "_" and callable(value):
                yield module.__name__, name


def options(command=omkl_command, path="omkl"):
    """``(command, option)`` of a command and those below it."""
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("-"):
                yield path, option
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from options(command.get_command(None, name), f"{path} {name}")


@pytest.fixture(scope="session")
def built():
    folder = os.environ.get("OMKL_DOCS")
    if not folder:
        pytest.skip("OMKL_DOCS names no folder of built pages")
    return Path(folder)


def text_of(page):
    return unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))


class Links(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, page):
        super().__init__()
        self.targets = []
        self.loaded = []
        self.anchors = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs.get("id"), attrs.get("name")}
        if tag == "a" and "href" in attrs:
            self.targets.append(attrs["href"])
        is_stylesheet = tag == "link" and attrs.get("rel") == "stylesheet"
        if is_stylesheet or tag in ("script", "img", "iframe", "source"):
            self.loaded.append(attrs.get("src") or attrs.get("href") or "")


def test_every_public_name_is_in_the_reference():
    listed = set()
    for page in (DOCS / "api").glob("*.md"):
        listed |= set(re.findall(r"^   (omkl\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert {f"{module}.{name}" for module, name in public_names()} <= listed


def test_the_reference_lists_nothing_that_is_not_there():
    for page in (DOCS / "api").glob("*.md"):
        for name in re.findall(r"^   (omkl\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, last = name.rpartition(".")
            if not module.endswith("river"):
                assert hasattr(importlib.import_module(module), last), name


def test_every_example_begins_with_a_title():
    """The gallery shows the underlined first line of the docstring."""
    for example in [*DOCS.parent.glob("examples/*.py"), *DOCS.glob("stories/*.py")]:
        assert re.match(r'"""\n(.+)\n=+\n', example.read_text(encoding="utf-8")), example


def test_no_list_in_a_docstring_goes_on_after_a_backslash():
    """In a raw docstring the line is not continued, and numpydoc reads no list."""
    for path in Path(omkl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                assert ", \\\n" not in (ast.get_docstring(node) or ""), f"{path}: {node.name}"


def test_every_public_name_has_a_built_page(built):
    inventory = (built / "objects.inv").read_bytes().split(b"\n", 4)[4]
    described = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}
    assert {f"{module}.{name}" for module, name in public_names()} <= described


def test_every_option_is_in_the_reference_of_the_command_line():
    spec = importlib.util.spec_from_file_location(
        "command_reference", DOCS / "command_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = re.split(r"^## (.+)$", module.reference(omkl_command), flags=re.MULTILINE)[1:]
    sections = dict(zip(pages[::2], pages[1::2]))
    for path, option in options():
        if path != "omkl":  # --version
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", sections[path]), f"{path} {option}"


def test_every_command_is_on_a_built_page(built):
    page = text_of(built / "cli.html")
    assert [(path, option) for path, option in options() if option not in page] == []


def test_built_pages_load_nothing_from_elsewhere_and_lead_nowhere_else(built):
    pages = {page.resolve(): Links(page) for page in built.rglob("*.html")}
    for page, links in pages.items():
        assert [target for target in links.loaded if urlparse(target).netloc] == [], page
        for target in links.targets:
            address = urlparse(target)
            if address.scheme or address.netloc or not (address.path or address.fragment):
                continue
            target_page = page
            if address.path:
                target_page = (page.parent / unquote(address.path)).resolve()
            assert target_page.exists(), f"{page}: {target}"
            if target_page in pages and address.fragment:
                anchors = pages[target_page].anchors
                assert unquote(address.fragment) in anchors, f"{page}: {target}"


ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras for development.
DEVELOPERS = {"all", "docs", "peers", "test"}


def test_the_version_comes_from_one_place():
    assert omkl.__version__ == version("omkl")
    for file in [
        *ROOT.glob("*.cff"),
        *(ROOT / "docs").glob("*.py"),
        *(ROOT / "omkl").rglob("*.py"),
    ]:
        assert f'"{PROJECT["version"]}"' not in file.read_text(encoding="utf-8"), file


def test_all_has_every_extra_of_users():
    [everything] = PROJECT["optional-dependencies"]["all"]
    named = set(everything.removeprefix("omkl[").removesuffix("]").split(","))
    assert named == PROJECT["optional-dependencies"].keys() - DEVELOPERS


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) < 8000
