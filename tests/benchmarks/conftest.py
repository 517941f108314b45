"""The fixture that all benchmarks measure with, and sizes that a quick run leaves out."""

import pytest

from tests.benchmarks.measuring import Measure


def pytest_configure(config):
    config.addinivalue_line("markers", "large: a size that a quick run leaves out")
    config.addinivalue_line("markers", "study: minutes of workers or of accuracy; runs where it is named")


@pytest.fixture
def measure(benchmark, request):
    """See ``Measure``; ``measure.quick`` where ``-m 'not large'`` was asked for."""
    return Measure(benchmark, "not large" in request.config.option.markexpr)


def pytest_benchmark_update_json(config, benchmarks, output_json):
    """Times are in ``extra_info``, by call; the single rounds that the plugin lists are not of use."""
    for row in output_json["benchmarks"]:
        row["stats"].pop("data", None)
