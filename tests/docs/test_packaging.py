"""``pyproject.toml``: one version, and an extra ``all`` with all optional dependencies."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import omkl

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras for development.
DEVELOPERS = {"all", "docs", "peers", "test"}


def test_the_version_comes_from_one_place():
    assert omkl.__version__ == version("omkl")
    for file in [*ROOT.glob("*.cff"), *(ROOT / "docs").glob("*.py"), *(ROOT / "omkl").rglob("*.py")]:
        assert f'"{PROJECT["version"]}"' not in file.read_text(encoding="utf-8"), file


def test_all_has_every_extra_of_users():
    [everything] = PROJECT["optional-dependencies"]["all"]
    named = set(everything.removeprefix("omkl[").removesuffix("]").split(","))
    assert named == PROJECT["optional-dependencies"].keys() - DEVELOPERS


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) < 8000
