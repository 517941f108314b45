"""Lazy loading: modules are imported at their first use."""

import subprocess
import sys

import pytest

import omkl

HEAVY = {"sklearn", "scipy", "numba", "networkx", "pandas", "matplotlib", "distributed", "pyarrow"}


def run(code, *arguments):
    finished = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return finished.stdout.split()


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], *([*own.split(), "--help"] for own in ("train parser", "predict", "inspect", "demo"))],
)
def test_the_command_line_explains_itself_without_what_it_computes_with(arguments):
    code = (
        "import contextlib, io, sys\nfrom omkl.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main(sys.argv[1:])\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    assert not HEAVY & set(run(code, *arguments))


def test_importing_the_package_loads_nothing_but_itself():
    loaded = set(run("import sys, omkl; print(*sys.modules)"))
    assert not (HEAVY | {"numpy"}) & {name.split(".")[0] for name in loaded}
    assert {name for name in loaded if name.startswith("omkl")} == {"omkl"}


def test_all_public_names_can_be_loaded():
    for package in (omkl, omkl.data, omkl.features, omkl.reports):
        for name in package.__all__:
            value = getattr(package, name)
            assert not callable(value) or value.__name__ == name
    assert omkl.__version__ == run("import omkl; print(omkl.__version__)")[0]


FAMILIES = [
    ("omkl.kernels.base.Kernel", "gaussian"),
    ("omkl.losses.base.PointwiseLoss", "logistic"),
    ("omkl.losses.structured.StructuredLoss", "crf"),
    ("omkl.regularizers.base.Regularizer", "sparse-group"),
    ("omkl.online.averaging.Average", "uniform"),
    ("omkl.online.schedules.Schedule", "sqrt"),
]


@pytest.mark.parametrize(("base", "name"), FAMILIES)
def test_a_name_is_found_by_who_knows_only_the_base(base, name):
    module, _, cls = base.rpartition(".")
    code = f"from {module} import {cls}\nfrom omkl._components import resolve\nprint(resolve({cls}, {name!r}, 'part'))"
    assert run(code)
