"""Rules of the architecture: import directions, lazy loading, sizes of folders, bases of
estimators, types.
"""

import ast
import importlib.resources
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx
import pytest

import omkl
from omkl.cli import main
from omkl.estimators.persistence import SavedEstimator

ROOT = Path(omkl.__file__).parent
LEAVES = {"exceptions", "_components", "_roots", "_cache", "_messages", "_progress", "_threads"}
LEAVES |= {"_compilation", "_pointers", "signatures"}
GROUND = {"losses", "regularizers", "structures", "kernels"}
LEARNING = GROUND | {"groups", "online", "batch"}
BELOW_ESTIMATORS = LEAVES | LEARNING | {"_files", "data", "distributed", "features", "persistence"}
ESTIMATORS = {"estimators", "graphs", "sequences", "mkl", "parsing", "linear", "annotation"}
#: Most files in a folder.
FILES = 15
#: Most classes of omkl that an estimator derives from, itself included.
BASES = 4
#: Most files in a chain of imports.
CHAIN = 19
#: The subpackages and modules that each subpackage may import.
MAY_IMPORT = {
    "exceptions": set(),
    "_components": {"exceptions"},
    "_files": {"exceptions"},
    "_cache": set(),
    "_roots": set(),
    "_compilation": {"exceptions"},
    "_pointers": {"exceptions"},
    "signatures": {"_pointers"},
    "_messages": set(),
    "_progress": set(),
    "_threads": set(),
    **dict.fromkeys(GROUND, LEAVES),
    "losses": LEAVES | {"structures"},
    "groups": LEAVES | {"kernels", "structures"},
    "online": LEAVES | GROUND | {"_files", "groups", "persistence"},
    "batch": LEAVES | GROUND,
    "distributed": LEAVES | GROUND | {"groups", "online"},
    "data": LEAVES | {"_files", "groups", "structures"},
    "persistence": LEAVES | {"_files"},
    "features": LEAVES | {"data", "groups", "kernels", "persistence"},
    "estimators": BELOW_ESTIMATORS,
    "sequences": BELOW_ESTIMATORS | {"estimators"},
    "mkl": BELOW_ESTIMATORS | {"estimators"},
    "graphs": BELOW_ESTIMATORS | {"estimators", "sequences"},
    "parsing": BELOW_ESTIMATORS | {"estimators", "sequences"},
    "linear": BELOW_ESTIMATORS | {"estimators"},
    "annotation": BELOW_ESTIMATORS | {"estimators", "sequences", "parsing"},
    "selection": BELOW_ESTIMATORS | ESTIMATORS,
    "guarantees": BELOW_ESTIMATORS | ESTIMATORS,
    "reports": BELOW_ESTIMATORS | ESTIMATORS | {"selection", "guarantees"},
    "testing": BELOW_ESTIMATORS | ESTIMATORS,
    "cli": BELOW_ESTIMATORS | ESTIMATORS | {"selection", "guarantees", "reports"},
}
MODULES = [
    path
    for path in ROOT.rglob("*.py")
    if path.parent != ROOT or path.stem not in ("__init__", "__main__")
]


def subpackage_of(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_modules(path):
    """Yield the modules that a file imports anywhere.

    ``from omkl import x`` counts as ``omkl.x``.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "omkl":
                yield from (f"omkl.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported_subpackages(path):
    return {name.split(".")[1] for name in imported_modules(path) if name.startswith("omkl.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_subpackage_imports_only_from_below(path):
    subpackage = subpackage_of(path)
    assert subpackage in MAY_IMPORT, (
        f"{subpackage} is a new subpackage: say here what it may import"
    )
    assert imported_subpackages(path) <= MAY_IMPORT[subpackage] | {subpackage}


def test_the_subpackages_have_no_circle():
    settled = set()
    while len(settled) < len(MAY_IMPORT):
        free = [
            name for name, below in MAY_IMPORT.items() if name not in settled and below <= settled
        ]
        assert free, "the subpackages import each other in a circle"
        settled.update(free)


def file_of(module):
    """Return the file of a module, or the stub of a package that loads lazily; None if there is
    none.
    """
    path = ROOT.joinpath(*module.split(".")[1:])
    candidates = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in candidates if file.exists()), None)


def imported_files(path):
    """The files that a file imports, at its top or inside functions."""
    package = ".".join(["omkl", *path.parent.relative_to(ROOT).parts])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{package}.{node.module or ''}".rstrip(".")] if node.level else [node.module]
            modules = [f"{names[0]}.{alias.name}" for alias in node.names]
            names = [module if file_of(module) else names[0] for module in modules]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (file_of(name) for name in names if name.split(".")[0] == "omkl")


def test_the_files_have_no_circle():
    top = ROOT / "__init__.pyi"  # it loads its names at their first use
    files = {*MODULES, *ROOT.rglob("__init__.pyi")} - {top}
    graph = networkx.DiGraph(
        (file, other) for file in files for other in imported_files(file) if other != top
    )
    circles = [
        sorted(str(file.relative_to(ROOT)) for file in circle)
        for circle in networkx.strongly_connected_components(graph)
        if len(circle) > 1
    ]
    assert circles == []


def test_only_reports_and_the_command_line_use_the_top_level():
    users = {
        path.relative_to(ROOT).parts[0] for path in MODULES if "omkl" in imported_modules(path)
    }
    assert users == {"reports", "cli", "testing.py"}


def test_only_omkl_distributed_imports_dask():
    importers = {
        path.relative_to(ROOT).parts[0]
        for path in MODULES
        if any(name.split(".")[0] in ("dask", "distributed") for name in imported_modules(path))
    }
    assert importers == {"distributed"}


#: Decorators of compiled functions; intrinsics are compiled into their callers.
COMPILED = {"compiled", "compiled(counting=False)", "inner", "borrowing", "intrinsic"}
#: What files of compiled loops import: others, and the modules that compile and call them.
COMPILING = {"_compilation", "_pointers", "signatures"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("_jit_*.py")), ids=lambda path: path.stem)
def test_files_of_compiled_loops_hold_nothing_else(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    decorators = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            decorators |= {ast.unparse(decorator) for decorator in node.decorator_list}
    assert decorators
    assert decorators <= COMPILED
    assert all(
        file.stem.startswith("_jit_") or file.stem in COMPILING for file in imported_files(path)
    )


@pytest.mark.parametrize("path", sorted(ROOT.rglob("_jit_*.py")), ids=lambda path: path.stem)
def test_helpers_that_use_other_files_stand_above_their_users(path):
    """The key in Numba's cache is made where a function is defined, from what stands above it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for function in functions.values():
        for name in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}:
            helper = functions.get(name)
            if helper is None or helper.lineno <= function.lineno:
                continue
            names = {node.id for node in ast.walk(helper) if isinstance(node, ast.Name)}
            assert not names & (imported - {"np", "compiled", "inner", "borrowing", "prefetch"}), (
                function.name,
                name,
            )


def test_nothing_is_unpickled():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text


def test_no_global_random_state():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for call in (
            "np.random.seed",
            "np.random.rand",
            "np.random.normal",
            "np.random.permutation",
        ):
            assert call not in text, f"{path}: {call}"


def test_no_public_function_has_the_name_of_its_module():
    """The first import of such a module would put it in the place of the function."""
    for stub in ROOT.rglob("__init__.pyi"):
        imports = [
            node
            for node in ast.parse(stub.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom)
        ]
        names = {
            (node.module, alias.asname or alias.name) for node in imports for alias in node.names
        }
        assert not [name for module, name in names if module and module.split(".")[-1] == name], (
            stub
        )


def test_folders_are_small():
    files = Counter(str(path.parent.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
    assert {folder for folder, n in files.items() if n > FILES} == set()


def test_chains_of_imports_are_short():
    graph = networkx.DiGraph(
        (file, other) for file in MODULES for other in imported_files(file) if other is not None
    )
    assert len(networkx.dag_longest_path(graph)) <= CHAIN


def test_estimators_have_few_bases():
    classes = [value for name in omkl.__all__ if isinstance(value := getattr(omkl, name), type)]
    estimators = [cls for cls in classes if issubclass(cls, SavedEstimator)]
    assert estimators
    n_bases = {
        cls.__name__: sum(base.__module__.startswith("omkl.") for base in cls.__mro__)
        for cls in estimators
    }
    assert {name: n for name, n in n_bases.items() if n > BASES} == {}


#: Jitted functions take their types from their callers.
TYPED = [path for path in sorted(ROOT.rglob("*.py")) if not path.name.startswith("_jit_")]


def public_functions(body, prefix=""):
    """``(name, function)`` of public functions, and of public methods and constructors of public
    classes.
    """
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (
            node.name[0] != "_" or node.name in ("__init__", "__call__")
        ):
            yield prefix + node.name, node


def untyped(function):
    """Return the arguments without a type, and "result" if it has none."""
    args = function.args
    arguments = [
        *args.posonlyargs,
        *args.args,
        *args.kwonlyargs,
        args.vararg,
        args.kwarg,
    ]
    names = [a.arg for a in arguments if a is not None and a.annotation is None]
    names = [name for name in names if name not in ("self", "cls") and not name.startswith("_")]
    return names + ["result"] * (function.returns is None)


@pytest.mark.parametrize("path", TYPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_are_typed(path):
    functions = public_functions(ast.parse(path.read_text(encoding="utf-8")).body)
    assert {name: missing for name, function in functions if (missing := untyped(function))} == {}


def test_the_package_says_that_it_is_typed():
    assert (importlib.resources.files("omkl") / "py.typed").is_file()


HEAVY = {"sklearn", "scipy", "numba", "networkx", "pandas", "matplotlib", "distributed", "pyarrow"}


def run(code, *arguments):
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return finished.stdout.split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        *(
            [*command.split(), "--help"]
            for command in ("train parser", "predict", "inspect", "demo")
        ),
    ],
)
def test_the_command_line_explains_itself_without_what_it_computes_with(arguments):
    assert not HEAVY & modules_after(*arguments)


def modules_after(*arguments):
    """Return the top-level modules that a command has imported."""
    code = (
        "import contextlib, io, sys\nfrom omkl.cli import main\nwith"
        " contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):"
        " main(sys.argv[1:])\nprint(*{name.split('.')[0] for name in sys.modules})"
    )
    return set(run(code, *map(str, arguments)))


MISSING = (
    "convert MISSING -o OUT",
    "evaluate MISSING MISSING",
    "guarantee MISSING MISSING -o OUT",
    "inspect MISSING",
)
MISSING += ("predict MISSING MISSING", "report MISSING", "prune MISSING --keep 3 -o OUT")
MISSING += tuple(
    f"train {kind} MISSING -o OUT"
    for kind in ("annotator", "classifier", "graph", "labeler", "parser")
)
MISSING += (
    "train labeler THERE -o OUT --lexicon a=MISSING",
    "train regressor THERE -o OUT --dev MISSING",
)
MISSING += ("train parser THERE -o OUT --resume",)


@pytest.mark.parametrize("command", MISSING)
def test_the_command_line_finds_missing_files_without_what_it_computes_with(
    command, tmp_path, capsys
):
    (tmp_path / "there").touch()
    places = {
        "THERE": tmp_path / "there",
        "MISSING": tmp_path / "none",
        "OUT": tmp_path / "model.npz",
    }
    arguments = [str(places.get(word, word)) for word in command.split()]
    assert not HEAVY & modules_after(*arguments)
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert any(reason in message for reason in ("There is no file", "--resume needs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        omkl.Annotator(parser=omkl.DependencyParser("small", epochs=1, memory=10)),
        omkl.DependencyParser("small", epochs=1, memory=10),
        omkl.SequenceLabeler(epochs=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_command_line_annotates_words_without_scikit_learn(model, tmp_path):
    treebank = omkl.data.synthetic_treebank(20, random_state=0)
    pairs = [(sentence.forms, sentence.upos) for sentence in treebank]
    data = zip(*pairs) if isinstance(model, omkl.SequenceLabeler) else [treebank]
    model.fit(*data).save(tmp_path / "model.npz")
    omkl.data.write_treebank(tmp_path / "t.conllu", treebank)
    command = [
        "predict",
        tmp_path / "model.npz",
        tmp_path / "t.conllu",
        "--to",
        "conllu",
        "-o",
        tmp_path / "out.conllu",
    ]
    assert not {"sklearn", "pandas"} & modules_after(*command)
    assert (tmp_path / "out.conllu").exists()


#: Modules that only training, evaluation and reports need.
LATER = (
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.svm",
    "scipy.stats",
    "scipy.optimize",
    "networkx",
)


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if subpackage_of(path) != "reports"],
    ids=lambda path: path.stem,
)
def test_modules_that_predictions_do_not_need_are_imported_by_functions(path):
    """Check the source, too, because scikit-learn's base imports some of them at present."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    assert [name for name in names if name.startswith(LATER)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "X", "y", "unused"),
    [
        (
            omkl.SequenceLabeler(epochs=1),
            [["a", "b"], ["b"]],
            [["x", "y"], ["y"]],
            ("sklearn", "omkl.batch", "omkl.mkl"),
        ),
        (omkl.OnlineMKLClassifier(random_state=0), [[0.0], [1.0]], [0, 1], ()),
        (
            omkl.MKLClassifier(["linear"]),
            [[0.0], [1.0], [2.0]],
            [0, 1, 1],
            ("omkl.online", "omkl.features"),
        ),
        (omkl.GroupLasso(0.1), [[0.0], [1.0], [2.0]], [0, 1, 1], ("omkl.online", "omkl.features")),
    ],
)
def test_predicting_loads_no_module_that_it_does_not_need(tmp_path, estimator, X, y, unused):
    estimator.set_params(verbose=False).fit(X, y).save(tmp_path / "model.npz")
    code = (
        f"import sys, omkl; omkl.load({str(tmp_path / 'model.npz')!r}).predict({X!r});"
        " print(*sys.modules)"
    )
    base = "scipy" if estimator.example_kind == "sequences" else "sklearn.base"
    new = set(run(code)) - set(run(f"import sys, {base}; print(*sys.modules)"))
    assert "omkl.estimators.persistence" in new
    assert [
        name
        for name in new
        if name.startswith((*LATER, *unused, "dask", "distributed", "matplotlib", "pyarrow"))
    ] == []


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
    code = (
        f"from {module} import {cls}\nfrom omkl._components import resolve\nprint(resolve({cls},"
        f" {name!r}, 'part'))"
    )
    assert run(code)
