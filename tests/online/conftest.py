"""Compiled passes from the first round on."""

import pytest


@pytest.fixture(autouse=True)
def _compiled_from_the_first_round(monkeypatch):
    monkeypatch.setattr("omkl.online.compiled_pass.FEW_ROUNDS", 0)
