"""Helpers that run commands and read what they write."""

import json
from pathlib import Path

from omkl.cli import main


def run(*words):
    """Run a command, which must succeed."""
    assert main([str(word) for word in words]) == 0


def read_json(path):
    return json.loads(Path(path).read_text())
