"""Every block of code in README and documentation runs, and prints what the block of text after it
says.

    python tests/docs/test_code_blocks.py --write docs/guide/labels.md ...      write what the
    blocks print

The blocks of a page run in order, in one namespace, in a folder that has the files of
``samples.py``. A block of ``text`` directly after a block of ``python`` or ``bash`` is its output;
decimals and shares may differ by one unit in their last digit.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from threadpoolctl import threadpool_limits

import omkl
from omkl.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: Where omkl is imported from, by commands as well.
INSTALLED = str(Path(omkl.__file__).parents[1])
FENCE = re.compile(
    r"^```(python|bash)\n(.*?)^```$(\n\n?```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [page for page in PAGES if FENCE.search(page.read_text(encoding="utf-8"))]
#: Commands that tests skip: ``.ci/run`` runs them, or they are for other machines.
ELSEWHERE = re.compile(
    r"(\S*pip install|python3 -m venv|(\.venv/bin/)?(python -m"
    r" (pytest|ruff|sphinx|tests)|codespell)|\.ci/run|"
    r"python data_scripts/|ln -s ~)"
)
#: A command of omkl with simple pipes and redirections, which run without a shell.
ALONE = re.compile(
    r"((?P<source>echo|cat) (?P<what>\"[^\"$]*\"|[\w.-]+) \| )?omkl (?P<arguments>[^|<>]*)"
    r"(\| head -(?P<head>\d+)|> (?P<file>\S+))?"
)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")


class Block(NamedTuple):
    """Block of code on a page: language, line, and expected output or None."""

    language: str
    code: str
    line: int
    printed: str | None


def blocks_of(text):
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 2, found[4])


def load_samples():
    spec = importlib.util.spec_from_file_location("samples", Path(__file__).with_name("samples.py"))
    samples = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(samples)
    return samples


def run_page(page, folder):
    """Run a page in a folder of samples; return the output of each block."""
    load_samples().write_samples(folder)
    commands = Path(folder) / ".commands"
    commands.mkdir()
    for name, module in (("omkl", " -m omkl"), ("python", "")):
        (commands / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n', encoding="utf-8"
        )
        (commands / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": INSTALLED,
        "COLUMNS": "100",
    }
    namespace = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.language == "python":
                printed = io.StringIO()
                code = compile(
                    "\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True
                )
                with contextlib.redirect_stdout(printed):
                    exec(code, namespace)
                yield block, printed.getvalue()
            else:
                yield block, run_commands(block, page, environment)


def run_commands(block, page, environment):
    """Run commands and return their output: omkl in this process, which saves its start, others in
    bash.
    """
    printed = io.StringIO()
    for line in block.code.splitlines():
        where = f"{page}, line {block.line}: {line}"
        if not line.strip() or ELSEWHERE.match(line.strip()):
            continue
        if alone := ALONE.fullmatch(line):
            own = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            given = io.TextIOWrapper(
                io.BytesIO(_given(alone["source"], alone["what"])), encoding="utf-8"
            )
            with contextlib.redirect_stdout(own), mock.patch("sys.stdin", given):
                assert main(shlex.split(alone["arguments"], comments=True)) == 0, where
            if alone["file"]:
                Path(alone["file"]).write_bytes(own.buffer.getvalue())
            else:
                lines = own.buffer.getvalue().decode().splitlines(keepends=True)
                printed.write("".join(lines[: int(alone["head"]) if alone["head"] else None]))
        else:
            run = subprocess.run(
                ["bash", "-eu", "-c", line], capture_output=True, text=True, env=environment
            )
            assert run.returncode == 0, where + run.stderr
            assert "omkl: error" not in run.stderr, where + run.stderr
            printed.write(run.stdout)
    return printed.getvalue()


def _given(source, what):
    """Return the input that ``echo`` or ``cat`` pipes into the next command."""
    if source is None:
        return b""
    return (shlex.split(what)[0] + "\n").encode() if source == "echo" else Path(what).read_bytes()


def last_unit(number):
    """Return the value of one unit in the last digit of a printed number."""
    digits, _, exponent = number.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def same(expected, printed):
    """Compare two texts except for spaces; decimals and shares may differ by one unit in their last
    digit.
    """
    if NUMBER.sub("0", expected).split() != NUMBER.sub("0", printed).split():
        return False
    for left, right in zip(NUMBER.finditer(expected), NUMBER.findall(printed)):
        is_share = expected[left.end() : left.end() + 1] == "%"
        is_rounded = is_share or "." in left[0] or "e" in left[0]
        tolerance = 1.001 * last_unit(left[0]) if is_rounded else 0.0
        if abs(float(left[0]) - float(right)) > tolerance:
            return False
    return True


def check_page(page, folder):
    """Run a page, and compare what it prints with what it says."""
    for block, printed in run_page(page, folder):
        if block.printed is not None and not load_samples().stands_in(block.code):
            assert same(block.printed, printed), f"{page}, line {block.line} prints:\n{printed}"


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    check_page(page, tmp_path)


@pytest.mark.parametrize("page", ["docs/getting_started.md", "docs/guide/tables.md"])
def test_pages_that_train_on_arrays_print_the_same_on_one_thread(page, tmp_path):
    """Sums in products of matrices, and so the last digits of kernels, depend on the number of
    threads.
    """
    with threadpool_limits(1):
        check_page(ROOT / page, tmp_path)


def test_printed_numbers_may_differ_by_one_unit_in_their_last_digit():
    assert same("about 94% of 3 rows: 0.50, 1e-16", "about 95% of 3 rows:  0.51, 2e-16")
    for printed in ("94.9% of the digits", "94.4% of the digits", "94.2% of all digits"):
        assert not same("94.2% of the digits", printed)
    assert not same("3 columns", "4 columns")


def test_all_code_is_in_blocks_that_are_run():
    """All languages of blocks are known, so that no code is skipped."""
    for page in PAGES:
        languages = set(
            re.findall(
                r"^\s*[`~:]{3,}\s*([\w{}-]+)", page.read_text(encoding="utf-8"), re.MULTILINE
            )
        )
        assert languages.isdisjoint(
            {"py", "pycon", "python3", "sh", "shell", "console", "{code-block}"}
        ), page


def write(page):
    """Put what the blocks of a page print into it."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        outputs = iter([printed for _, printed in run_page(page, folder)])

    def with_output(found):
        printed = next(outputs)
        if found[3] is None:
            return found[0]
        return f"```{found[1]}\n{found[2]}```\n\n```text\n{printed.rstrip()}\n```"

    page.write_text(FENCE.sub(with_output, text), encoding="utf-8")


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    for name in sys.argv[sys.argv.index("--write") + 1 :]:
        write(Path(name).resolve())
