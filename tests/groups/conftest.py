import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def naive_model():
    """The literal implementation of ``naive.py``."""
    spec = importlib.util.spec_from_file_location("naive", Path(__file__).with_name("naive.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NaiveModel
