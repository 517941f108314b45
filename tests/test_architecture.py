"""Who may import whom: every room imports only from the rooms below it, and never in a circle."""

import ast
from pathlib import Path

import pytest

import omkl

ROOT = Path(omkl.__file__).parent
LEAVES = {"exceptions", "_components", "_files", "_archive", "_cluster", "_cache"}
#: Each room, and the rooms whose public names it may import.
MAY_IMPORT = {
    "exceptions": set(),
    "_components": {"exceptions"},
    "_files": set(),
    "_cache": set(),
    "_archive": {"_files", "exceptions"},
    "_cluster": {"exceptions"},
    "losses": LEAVES,
    "regularizers": LEAVES,
    "structures": LEAVES,
    "kernels": LEAVES,
    "groups": LEAVES | {"kernels", "structures"},
    "online": LEAVES | {"groups", "losses", "regularizers", "structures"},
    "batch": LEAVES | {"kernels", "losses", "regularizers"},
    "data": LEAVES | {"groups", "structures"},
    "reports": LEAVES | {"data"},
    "persistence": LEAVES | {"batch", "kernels", "losses", "online", "regularizers"},
    "estimators": LEAVES
    | {"batch", "data", "groups", "kernels", "losses", "online", "persistence", "regularizers", "structures"},
    "cli": LEAVES | {"data", "estimators", "kernels", "reports"},
}
MODULES = [path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem not in ("__init__", "__main__")]


def room_of(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "omkl":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("omkl."))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_from_below(path):
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: say here whom it may import"
    assert set(imported_rooms(path)) <= MAY_IMPORT[room] | {room}


def test_the_rooms_have_no_circle():
    settled = set()
    while len(settled) < len(MAY_IMPORT):
        free = [room for room, below in MAY_IMPORT.items() if room not in settled and below <= settled]
        assert free, "the rooms import each other in a circle"
        settled.update(free)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("_jit_*.py")), ids=lambda path: path.stem)
def test_jitted_functions_are_cached_and_call_only_their_own_file(path):
    """A cached caller does not notice a changed callee in another file. Intrinsics are compiled into their callers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in functions:
        [decorator] = function.decorator_list
        assert ast.unparse(decorator) in ("njit(cache=True, nogil=True)", "intrinsic"), function.name
    assert not list(imported_rooms(path)), "jitted modules import nothing of omkl"


def test_nothing_is_unpickled():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text


def test_no_global_random_state():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for call in ("np.random.seed", "np.random.rand", "np.random.normal", "np.random.permutation"):
            assert call not in text, f"{path}: {call}"
