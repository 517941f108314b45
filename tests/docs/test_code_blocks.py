"""Every block of code in README and documentation runs, and prints the block of text after it.

``python tests/docs/test_code_blocks.py --write docs/guide/labels.md ...`` writes into pages what
their blocks print.

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
    for fence in FENCE.finditer(text):
        first_line = text.count("\n", 0, fence.start()) + 2
        yield Block(language=fence[1], code=fence[2], line=first_line, printed=fence[4])


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
    """Return the output of commands: omkl runs in this process, which is faster, others in bash."""
    printed = io.StringIO()
    for line in block.code.splitlines():
        where = f"{page}, line {block.line}: {line}"
        if not line.strip() or ELSEWHERE.match(line.strip()):
            continue
        if alone := ALONE.fullmatch(line):
            stdin = io.TextIOWrapper(io.BytesIO(input_of(alone)), encoding="utf-8")
            stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            with contextlib.redirect_stdout(stdout), mock.patch("sys.stdin", stdin):
                assert main(shlex.split(alone["arguments"], comments=True)) == 0, where
            output = stdout.buffer.getvalue()
            if alone["file"]:
                Path(alone["file"]).write_bytes(output)
            else:
                lines = output.decode().splitlines(keepends=True)
                if alone["head"]:
                    lines = lines[: int(alone["head"])]
                printed.write("".join(lines))
        else:
            run = subprocess.run(
                ["bash", "-eu", "-c", line], capture_output=True, text=True, env=environment
            )
            assert run.returncode == 0, where + run.stderr
            assert "omkl: error" not in run.stderr, where + run.stderr
            printed.write(run.stdout)
    return printed.getvalue()


def input_of(command):
    """Return the input that ``echo`` or ``cat`` pipes into a command, the match of `ALONE`."""
    if command["source"] is None:
        return b""
    if command["source"] == "echo":
        text = shlex.split(command["what"])[0]
        return f"{text}\n".encode()
    return Path(command["what"]).read_bytes()


def last_unit(number):
    """Return the value of one unit in the last digit of a printed number."""
    digits, _, exponent = number.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def same(expected, printed):
    """Compare two texts except for spaces and one unit in the last digit of decimals and shares."""
    if NUMBER.sub("0", expected).split() != NUMBER.sub("0", printed).split():
        return False
    for left, right in zip(NUMBER.finditer(expected), NUMBER.findall(printed)):
        is_share = expected.startswith("%", left.end())
        is_rounded = is_share or "." in left[0] or "e" in left[0]
        tolerance = 1.001 * last_unit(left[0]) * is_rounded
        if abs(float(left[0]) - float(right)) > tolerance:
            return False
    return True


def check_page(page, folder):
    """Run a page, and compare what it prints with what it says."""
    for block, printed in run_page(page, folder):
        has_output = block.printed is not None
        if has_output and not load_samples().stands_in(block.code):
            assert same(block.printed, printed), f"{page}, line {block.line} prints:\n{printed}"


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    check_page(page, tmp_path)


@pytest.mark.parametrize("page", ["docs/getting_started.md", "docs/guide/tables.md"])
def test_pages_that_train_on_arrays_print_the_same_on_one_thread(page, tmp_path):
    """The last digits of products of matrices depend on the number of threads."""
    with threadpool_limits(1):
        check_page(ROOT / page, tmp_path)


def test_printed_numbers_may_differ_by_one_unit_in_their_last_digit():
    assert same("about 94% of 3 rows: 0.50, 1e-16", "about 95% of 3 rows:  0.51, 2e-16")
    for printed in ("94.9% of the digits", "94.4% of the digits", "94.2% of all digits"):
        assert not same("94.2% of the digits", printed)
    assert not same("3 columns", "4 columns")


def test_all_code_is_in_blocks_that_are_run():
    """All languages of blocks are known, so that no code is skipped."""
    skipped = {"py", "pycon", "python3", "sh", "shell", "console", "{code-block}"}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        languages = re.findall(r"^\s*[`~:]{3,}\s*([\w{}-]+)", text, re.MULTILINE)
        assert skipped.isdisjoint(languages), page


def write(page):
    """Put what the blocks of a page print into it."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        outputs = iter([printed for _, printed in run_page(page, folder)])

    def with_output(fence):
        printed = next(outputs)
        if fence[3] is None:
            return fence[0]
        return f"```{fence[1]}\n{fence[2]}```\n\n```text\n{printed.rstrip()}\n```"

    page.write_text(FENCE.sub(with_output, text), encoding="utf-8")


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    for name in sys.argv[sys.argv.index("--write") + 1 :]:
        write(Path(name).resolve())
