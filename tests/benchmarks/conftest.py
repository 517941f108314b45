"""Fixture of all benchmarks, sizes that a quick run leaves out, and contents of the JSON file."""

import os
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.benchmarks.measuring import CLOCKS, Measure

PEERS = (
    "celer", "conllu", "himalaya", "hmmlearn", "mklpy", "networkx", "numpy", "pandas", "polars",
    "pyarrow", "pyconll", "python-crfsuite", "river", "scikit-learn", "scipy", "skglm",
    "ufal.chu_liu_edmonds", "ufal.udpipe",
)  # fmt: skip
TOOK: dict[str, dict[str, float]] = {}


def pytest_configure(config):
    config.addinivalue_line("markers", "large: a size that a quick run leaves out")
    config.addinivalue_line(
        "markers", "study: minutes of workers or of accuracy; runs where it is named"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Measure the time of a whole test, with its data and peers."""
    before = {name: clock() for name, clock in CLOCKS.items()}
    done = yield
    TOOK[item.nodeid] = {name: clock() - before[name] for name, clock in CLOCKS.items()}
    return done


@pytest.fixture
def measure(benchmark, request):
    """A ``Measure``; ``measure.quick`` is True with ``-m 'not large'``."""
    return Measure(benchmark, "not large" in request.config.option.markexpr)


def versions():
    """Versions of the peers, by name."""
    version_of = {}
    for name in PEERS:
        try:
            version_of[name] = version(name)
        except PackageNotFoundError:
            version_of[name] = "missing"
    return version_of


def pytest_benchmark_update_json(config, benchmarks, output_json):
    """Keep ``extra_info`` only, which has the times; drop the plugin's own statistics."""
    machine = output_json.pop("machine_info")
    rows = [
        {name: row[name] for name in ("fullname", "param", "extra_info")}
        | {"stats": {"min": row["stats"]["min"]}, "took": TOOK[row["fullname"]]}
        for row in output_json["benchmarks"]
    ]
    date = output_json["datetime"][:10]
    commit = output_json["commit_info"]["id"]
    brand = machine.get("cpu", {}).get("brand_raw") or machine["machine"]
    output_json.clear()
    # mean over five minutes, of all programs
    busy = {"load": round(os.getloadavg()[1], 1), "cores": os.cpu_count()}
    about = {"machine": brand, "date": date, "commit": commit, "peers": versions(), **busy}
    output_json |= {**about, "benchmarks": rows}
