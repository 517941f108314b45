"""Examples as modules, and as programs in processes of their own."""

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(name, folder, *options):
    """Run an example in a folder, and return its output."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *options]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def table_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
