"""Training and parsing of English with 507 templates: the share of what fetching the lines alone would take."""

import resource
import time

import numpy as np
import pytest
from numba import njit

from omkl import DependencyParser
from omkl.data import read_treebank
from omkl.estimators.treebanks import encode

SENTENCES = 2000
PEERS = "TurboParser: 34-51 s an epoch, 4-12 k words/s, 228 MB"


@njit(cache=True)
def fetch(table, lines):
    """Read one number of each line; the sums keep the compiler from leaving it out."""
    total = 0.0
    for i in range(lines.shape[0]):
        total += table[lines[i], 0] + table[lines[i], 16]
    return total


@pytest.fixture(scope="module")
def treebanks(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    train, test = (read_treebank(real_data(folder.format(part)), keep_text=False) for part in ("train", "test"))
    return train, test


def seconds_a_line(table, n=2_000_000):
    """CPU seconds to fetch a line of the table at random."""
    lines = np.random.default_rng(0).integers(0, len(table), n)
    fetch(table, lines[:10])
    started = time.process_time()
    fetch(table, lines)
    return (time.process_time() - started) / n


def n_lines(bank, lengths):
    """Lines that scoring sentences of these lengths looks up."""
    return int((lengths.astype(np.int64) ** 2).sum()) * len(bank.sizes)


def test_training(benchmark, treebanks):
    train = treebanks[0]
    part = train[:SENTENCES]
    DependencyParser("martins507", regularizer="l2", epochs=1, labeled=False, verbose=False).fit(part[:20])
    found = {}

    def run():
        parser = DependencyParser(
            "martins507", regularizer="l2", epochs=2, labeled=False, random_state=0, verbose=False
        )
        started = time.process_time()
        parser.fit(part)
        found.update(seconds=(time.process_time() - started) / 2, bank=parser.model_.trainer.banks[0])

    benchmark.pedantic(run, rounds=2)
    share = part.n_words / train.n_words
    floor = n_lines(found["bank"], part.lengths) * seconds_a_line(found["bank"].table)
    arcs = (part.lengths.astype(float) ** 2).sum() / (train.lengths.astype(float) ** 2).sum()
    print(
        f"\ntraining: {part.n_words / found['seconds'] / 1e3:.1f} k words/s, {found['seconds']:.1f} s for "
        f"{share:.0%} of the words and {arcs:.0%} of the arcs, so {found['seconds'] / arcs:.0f} s an epoch; "
        f"{found['seconds'] / floor:.2f} x fetching every line at random ({floor:.1f} s); {PEERS}"
    )


@pytest.mark.parametrize("keep", [507, 107])
def test_parsing(benchmark, treebanks, keep):
    train, test = treebanks
    parser = DependencyParser("martins507", regularizer="l2", epochs=1, random_state=0, verbose=False).fit(
        train[:SENTENCES]
    )
    parser = parser.prune(keep, by="norms")
    parser.parse(test[:10])
    seconds = []

    def run():
        started = time.process_time()
        parser.parse(test)
        seconds.append(time.process_time() - started)

    benchmark.pedantic(run, rounds=5)
    bank = parser.predictor_.banks[0]
    tokens = encode(test, parser.templates_)
    started = time.process_time()
    scores = [score for sentences in tokens.blocks() for score in bank.potentials_of(sentences)]
    scoring = time.process_time() - started
    started = time.process_time()
    for score in scores:
        parser.model_.trainer.structure.decode(score)
    decoding = time.process_time() - started
    floor = n_lines(bank, test.lengths) * seconds_a_line(bank.table)
    print(
        f"\nparsing with {keep} templates: {test.n_words / min(seconds) / 1e3:.0f} k words/s with relations; scoring "
        f"{scoring:.2f} s, {scoring / floor:.2f} x fetching every line at random, decoding {decoding:.3f} s; {PEERS}"
    )


def test_peak_memory(benchmark, treebanks):
    train = treebanks[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    parser = DependencyParser("martins507", regularizer="l2", epochs=1, random_state=0, verbose=False)
    benchmark.pedantic(lambda: parser.fit(train[:SENTENCES]), rounds=1)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"\npeak memory of the process: {after:.0f} MB ({before:.0f} MB before training); parameters "
          f"{parser.memory_usage()}; {PEERS}")  # fmt: skip
