"""Training and parsing of English with 507 templates, against UDPipe; the floor fetches the
weights.
"""

import time

import numpy as np
import pytest

from omkl import DependencyParser, TreeForm
from omkl.data import read_treebank, write_treebank
from omkl.parsing.decoding import potentials_of
from omkl.parsing.sentences import encode
from tests.benchmarks.measuring import gather

SENTENCES = 2000


@pytest.fixture(scope="module")
def treebanks(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    train, test = (
        read_treebank(real_data(folder.format(part)), keep_text=False) for part in ("train", "test")
    )
    return train, test


@pytest.fixture(scope="module")
def whole_parser(treebanks):
    parser = DependencyParser(
        "martins507", regularizer="l2", epochs=1, random_state=0, verbose=False
    )
    return parser.fit(treebanks[0][:SENTENCES])


@pytest.fixture(scope="module", params=[107, pytest.param(507, marks=pytest.mark.large)])
def parser(request, whole_parser):
    return whole_parser.prune(request.param)


def all_lines(bank, lengths):
    """Floor of scoring sentences of these lengths: fetch each weight from the table at random."""
    return gather(bank.table, float((lengths.astype(np.int64) ** 2).sum()) * len(bank.sizes))


def udpipe_of(train, folder):
    """Return a function that trains UDPipe's parser for one iteration, and its sentences."""
    from ufal.udpipe import InputFormat, Model, ProcessingError, Sentence, Sentences, Trainer

    path, sentences, error = folder / "train.conllu", Sentences(), ProcessingError()
    write_treebank(path, train)
    reader, sentence = InputFormat.newConlluInputFormat(), Sentence()
    reader.setText(path.read_text(encoding="utf-8"))
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = Sentence()

    def fit():
        options = (
            "morphodita_parsito",
            sentences,
            Sentences(),
            Trainer.NONE,
            Trainer.NONE,
            "iterations=1",
            error,
        )
        (folder / "udpipe").write_bytes(Trainer.train(*options))
        return Model.load(str(folder / "udpipe"))

    return fit, sentences


@pytest.mark.parametrize("n", [200, pytest.param(SENTENCES, marks=pytest.mark.large)])
def test_parser_epoch(measure, treebanks, whole_parser, tmp_path, n):
    part = treebanks[0][:n]
    settings = {
        "regularizer": "l2",
        "epochs": 1,
        "trees": TreeForm(labeled=False),
        "random_state": 0,
        "verbose": False,
    }
    floor = all_lines(whole_parser.model_.trainer.banks[0], part.lengths)
    peers = {"UDPipe": lambda: udpipe_of(part, tmp_path)[0]} if n < SENTENCES else {}
    seconds = measure(
        lambda: DependencyParser("martins507", **settings).fit(part),
        floor=floor,
        peers=peers,
        once=True,
    )
    squares = (treebanks[0].lengths.astype(float) ** 2).sum() / (
        part.lengths.astype(float) ** 2
    ).sum()
    measure.note(words_a_second=part.n_words / seconds, seconds_of_all_sentences=seconds * squares)


def test_template_scoring(measure, treebanks, parser):
    test = treebanks[1][:500]
    predictor, tokens = parser.predictor_, encode(test, parser.templates_)
    floor = all_lines(predictor.banks[0], test.lengths)
    measure(
        lambda: [potentials_of(predictor, sentences) for sentences in tokens.blocks()], floor=floor
    )


def test_parsing(measure, treebanks, parser, tmp_path):
    test = treebanks[1][:500]

    def udpipe():
        from ufal.udpipe import Model  # noqa: F401  missing where it is not installed

        fit, _ = udpipe_of(treebanks[0][:100], tmp_path)
        model = fit()
        _, sentences = udpipe_of(test, tmp_path)
        return lambda: [model.parse(sentence, model.DEFAULT) for sentence in sentences]

    floor = all_lines(parser.predictor_.banks[0], test.lengths)
    seconds = measure(lambda: parser.parse(test), floor=floor, peers={"UDPipe": udpipe})
    measure.note(words_a_second=test.n_words / seconds)


def test_decoding(measure, treebanks, parser):
    """Measure the time to find the trees, without scoring arcs."""
    test = treebanks[1][:500]
    blocks = encode(test, parser.templates_).blocks()
    scores = [score.arcs for block in blocks for score in potentials_of(parser.predictor_, block)]
    started = time.process_time()
    parser.parse(test)
    parsing = time.process_time() - started
    decode = parser.model_.trainer.structure.decode
    seconds = measure(lambda: [decode(score) for score in scores])
    measure.note(share_of_parsing=seconds / parsing)
