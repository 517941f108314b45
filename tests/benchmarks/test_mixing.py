"""Training in shards: what an epoch of two workers costs beside one worker's, and mixing beside copying the bytes."""

import time

import numpy as np
import pytest
from distributed import Client, LocalCluster

from omkl import DependencyParser
from omkl.data import read_treebank
from omkl.distributed.mixing import blueprint, changes_since, mix, pass_over_shard
from omkl.online import values_of
from omkl.parsing.examples import ArcExamples

FOLDER = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
EPOCHS = 2

pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def treebank(real_data):
    return read_treebank(real_data(FOLDER.format("train")), keep_text=False)


def cpu_seconds(function, repeats=3):
    """The fewest CPU seconds of several calls; the first, which may compile, does not count."""
    function()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return min(seconds)


def test_epoch_of_two_workers(benchmark, treebank):
    """The parser of 507 templates, arcs alone: seconds of the last epoch, and where they went."""
    found = {}

    def run():
        for n_workers in (1, 2):
            with (
                LocalCluster(
                    n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR"
                ) as cluster,
                Client(cluster, direct_to_workers=True) as client,
            ):
                parser = DependencyParser(
                    "martins507", regularizer="l2", labeled=False, epochs=EPOCHS, random_state=0, verbose=False
                )
                found[n_workers] = parser.fit(treebank, client=client).history_

    benchmark.pedantic(run, rounds=1)
    print()
    for n_workers, history in found.items():
        record = min(history[1:], key=lambda record: record["seconds"])
        passed, cpu = (np.array(list(values_of(record, kind).values())) for kind in ("seconds", "cpu_seconds"))
        other = record["seconds"] - passed.max() - record["mixing_seconds"]
        print(
            f"{n_workers} workers: {record['seconds']:.1f} s an epoch: passes {np.round(passed, 1)} s (of CPU "
            f"{np.round(cpu, 1)}), mixing {record['mixing_seconds']:.2f} s, sending and packing {other:.2f} s, "
            f"{record['bytes'] / 1e6:.0f} MB came back"
        )
    fastest = {n: min(record["seconds"] for record in history[1:]) for n, history in found.items()}
    cpu = {n: min(max(values_of(r, "cpu_seconds").values()) for r in history[1:]) for n, history in found.items()}
    last = found[2][-1]
    benchmark.extra_info["notes"] = {
        "seconds of one worker": round(fastest[1], 1),
        "of two": round(fastest[2], 1),
        "quotient": round(fastest[2] / fastest[1], 2),
        "quotient of CPU seconds": round(cpu[2] / cpu[1], 2),
        "mixing": round(last["mixing_seconds"], 2),
        "megabytes back": round(last["bytes"] / 1e6),
    }


def test_mixing_beside_copying(benchmark, treebank):
    """Tables of 93 MB: finding what two shards of a thousand sentences have moved, and mixing it."""
    parser = DependencyParser("martins507", regularizer="l2", labeled=False, epochs=1, random_state=0, verbose=False)
    parser.fit(treebank[:2000])
    trainer, examples = parser.model_.trainer, ArcExamples.of(treebank[:2000], parser.templates_)
    state = {name: np.array(array) for name, array in trainer.state().items()}
    make, order = blueprint(trainer), np.arange(1000)
    shards = [examples.part(np.arange(j, 2000, 2)) for j in range(2)]
    changes = [pass_over_shard(make, False, state, shard, order, lambda *_: None) for shard in shards]
    weights = np.array([0.5, 0.5])
    worker = make()
    worker.load_state(state)
    for i in range(1000):
        worker.update(*shards[0][i])
    finding = cpu_seconds(lambda: changes_since(worker, state))
    mixing = cpu_seconds(lambda: mix(trainer, changes, weights))
    benchmark.pedantic(lambda: mix(trainer, changes, weights), rounds=3)
    n_tables = sum(array.nbytes for name, array in state.items() if "table" in name or "sums" in name)
    n_changes = sum(array.nbytes for change in changes for array in change.values())
    source = np.ones(n_tables // 8)
    target = np.zeros_like(source)
    gigabyte = cpu_seconds(lambda: np.copyto(target, source)) / (2 * source.nbytes / 1e9)
    # finding reads the tables as they were and as they are; mixing reads them and the changes, and writes them
    floors = gigabyte * 2 * n_tables / 1e9, gigabyte * (2 * n_tables + n_changes) / 1e9
    moved = np.mean([len(change["bank0/values"]) / trainer.banks[0].table.size for change in changes])
    benchmark.extra_info["notes"] = {
        "MB of tables": round(n_tables / 1e6),
        "seconds to find what moved": round(finding, 3),
        "to mix": round(mixing, 3),
        "times copying the bytes": round(mixing / floors[1], 1),
    }
    print(
        f"\ntables of {n_tables / 1e6:.0f} MB, {moved:.0%} moved, {n_changes / 2e6:.0f} MB a shard; finding it "
        f"{finding:.3f} s of CPU, {finding / floors[0]:.1f} x reading the bytes; mixing two shards {mixing:.3f} s, "
        f"{mixing / floors[1]:.1f} x reading and writing them ({1 / gigabyte:.1f} GB/s)"
    )
