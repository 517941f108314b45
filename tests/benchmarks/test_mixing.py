"""Training in shards: an epoch of two workers against one, and mixing against copying the bytes."""

import time

import numpy as np
import pytest
from distributed import Client, LocalCluster

from omkl import DependencyParser, OnlineMKLClassifier, SequenceLabeler, TreeForm
from omkl.data import read_sequences, read_treebank
from omkl.distributed.mixing import mix, pass_over_shard
from omkl.online import values_of
from omkl.parsing.sentences import ArcExamples

FOLDER = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
EPOCHS = 2

pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def treebank(real_data):
    return read_treebank(real_data(FOLDER.format("train")), keep_text=False)


def cpu_seconds(function, repeats=3):
    """Least CPU seconds of several calls; the first call, which may compile, does not count."""
    function()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return min(seconds)


def test_epoch_of_two_workers(benchmark, treebank):
    """A parser of 507 templates without relations: seconds of the last epoch, by step."""
    histories = {}

    def run():
        for n_workers in (1, 2):
            with (
                LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs="ERROR",
                ) as cluster,
                Client(cluster, direct_to_workers=True) as client,
            ):
                parser = DependencyParser(
                    "martins507",
                    regularizer="l2",
                    epochs=EPOCHS,
                    random_state=0,
                    verbose=False,
                    trees=TreeForm(labeled=False),
                )
                histories[n_workers] = parser.fit(treebank, client=client).history_

    benchmark.pedantic(run, rounds=1)
    print()
    for n_workers, history in histories.items():
        record = min(history[1:], key=lambda record: record["seconds"])
        passed = np.array(list(values_of(record, "seconds").values()))
        other = record["seconds"] - passed.max() - record["mixing_seconds"]
        print(
            f"{n_workers} workers: {record['seconds']:.1f} s an epoch: passes {np.round(passed, 1)}"
            f" s, mixing {record['mixing_seconds']:.2f} s, sending and packing {other:.2f} s"
        )
    fastest = {
        n: min(record["seconds"] for record in history[1:]) for n, history in histories.items()
    }
    benchmark.extra_info["notes"] = {
        "seconds of one worker": round(fastest[1], 1),
        "of two": round(fastest[2], 1),
        "quotient": round(fastest[2] / fastest[1], 2),
        "mixing": round(histories[2][-1]["mixing_seconds"], 2),
    }


@pytest.mark.parametrize("make", [SequenceLabeler, DependencyParser], ids=["labeler", "parser"])
def test_one_thread_and_two(benchmark, real_data, make):
    """English: seconds by the clock and of CPU, and the score, without shards and with two of them
    on two threads.
    """
    files = [real_data(FOLDER.format(part)) for part in ("train", "test")]
    (*data,), (*held_out,) = (
        map(read_sequences, files) if make is SequenceLabeler else [[file] for file in files]
    )

    def run():
        for shards in (None, 2):
            model = make(epochs=10, n_jobs=shards, random_state=0, verbose=False)
            clock, cpu = time.perf_counter(), time.process_time()
            model.fit(*data, shards=shards)
            clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            score = model.score(*held_out)
            benchmark.extra_info.setdefault("notes", {})[f"shards {shards}"] = (
                f"{clock:.1f} s, {cpu:.1f} CPU, {score:.4f}"
            )
            print(f"shards={shards}: {clock:.1f} s, {cpu:.1f} s of CPU, score {score:.4f}")

    benchmark.pedantic(run, rounds=1)


def test_mixing_beside_copying(benchmark, treebank):
    """Tables of 93 MB: mixing two shards of a thousand sentences."""
    parser = DependencyParser(
        "martins507",
        regularizer="l2",
        epochs=1,
        random_state=0,
        verbose=False,
        trees=TreeForm(labeled=False),
    )
    parser.fit(treebank[:2000])
    trainer, examples = parser.model_.trainer, ArcExamples.of(treebank[:2000], parser.templates_)
    state = {name: np.array(array) for name, array in trainer.state().items()}
    order = np.arange(1000)
    shards = [examples.part(np.arange(j, 2000, 2)) for j in range(2)]
    states = [pass_over_shard(trainer, False, shard, order) for shard in shards]
    weights = np.array([0.5, 0.5])
    mixing = cpu_seconds(lambda: mix(trainer, states, weights))
    benchmark.pedantic(lambda: mix(trainer, states, weights), rounds=3)
    n_tables = sum(
        array.nbytes for name, array in state.items() if "table" in name or "sums" in name
    )
    source = np.ones(n_tables // 8)
    target = np.zeros_like(source)
    # mixing reads the tables of both shards, and writes one
    copying = 1.5 * cpu_seconds(lambda: np.copyto(target, source))
    benchmark.extra_info["notes"] = {
        "MB of tables": round(n_tables / 1e6),
        "seconds to mix": round(mixing, 3),
        "times copying the bytes": round(mixing / copying, 1),
    }


def rows_on_workers():
    """Rows of 50 numbers in 8 partitions, which the workers draw."""
    import dask.array as da

    X = da.random.default_rng(0).normal(size=(200_000, 50), chunks=(25_000, 50))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


def sentences_on_workers():
    """Sentences of ten words in 8 partitions, with 27 features a word."""
    import dask
    import dask.bag as db

    def sentences(seed):
        words = np.random.default_rng(seed).zipf(1.3, size=(2500, 10)) % 20_000
        return [
            ([f"w{word}" for word in sentence], [str(word % 7) for word in sentence])
            for sentence in words.tolist()
        ]

    return (db.from_delayed([dask.delayed(sentences)(seed) for seed in range(8)]),)


COLLECTIONS = {
    "rows": (
        rows_on_workers,
        lambda: OnlineMKLClassifier(["linear", "gaussian:features=100"], random_state=0),
    ),
    "sentences": (sentences_on_workers, lambda: SequenceLabeler(random_state=0)),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_collections_on_one_two_and_four_workers(benchmark, name):
    """CPU seconds of this process and the busiest worker together, before the first epoch and of an
    epoch.

    This is the wall time where each worker has a core.
    """
    make_data, make = COLLECTIONS[name]
    notes = {}

    def seconds(client, epochs):
        model = make().set_params(epochs=epochs)
        before = client.run(time.process_time)
        started = time.process_time()
        model.fit(*make_data(), client=client)
        of_this_process = time.process_time() - started
        after = client.run(time.process_time)
        return of_this_process + max(after[key] - before[key] for key in after), model

    def run():
        for n_workers in (1, 2, 4):
            with (
                LocalCluster(
                    n_workers=n_workers, threads_per_worker=1, dashboard_address=None
                ) as cluster,
                Client(cluster, direct_to_workers=True) as client,
            ):
                seconds(client, 1)  # workers compile
                once, _ = seconds(client, 1)
                more, model = seconds(client, 4)
            epoch = (more - once) / 3
            state = model.model_.trainer.state()
            megabytes = sum(np.asarray(array).nbytes for array in state.values()) / 1e6
            notes[f"{n_workers} workers"] = (
                f"start {once - epoch:.1f} s, epoch {epoch:.2f} s, of which mixing"
                f" {model.history_[-1]['mixing_seconds']:.2f} s; {megabytes:.1f} MB of parameters,"
                " 8 shards"
            )
            print(f"\n{name}, {n_workers} workers: {notes[f'{n_workers} workers']}")

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["notes"] = notes
