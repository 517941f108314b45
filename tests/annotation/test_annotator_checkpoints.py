"""An annotator that was killed in training and resumed equals an uninterrupted one, byte for byte."""

import pytest

import omkl
from omkl.data import synthetic_treebank
from omkl.exceptions import CheckpointWarning
from omkl.parsing.sentences import strings_of

from ..passes import Kill, Killed

#: Rounds until the parser is in training.
ROUNDS = 250


@pytest.fixture(scope="module")
def treebank():
    treebank = synthetic_treebank(24, vocabulary=12, random_state=0)
    return treebank.with_strings("upos", [tag[:1] for tag in strings_of(treebank, "forms")])


def untrained(*callbacks, **parameters):
    tagger = omkl.SequenceLabeler(epochs=2)
    parser = omkl.DependencyParser("small", memory=1, epochs=2)
    settings = {"tagger": tagger, "parser": parser, "folds": 2, "random_state": 0, **parameters}
    return omkl.Annotator(callbacks=callbacks, **settings)


@pytest.fixture(scope="module")
def straight(treebank, tmp_path_factory):
    return saved(untrained().fit(treebank), tmp_path_factory.mktemp("straight"))


def saved(annotator, folder):
    annotator.save(folder / "model.npz")
    return (folder / "model.npz").read_bytes()


def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(treebank, straight, rng, tmp_path):
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    for attempt, more in enumerate([1, 30, *rng.integers(30, ROUNDS // 3, 3)]):
        with pytest.raises(Killed):
            untrained(Kill(more)).fit(treebank, **options, resume=attempt > 0)
    assert saved(untrained().fit(treebank, **options, resume=True), tmp_path) == straight
    # finished parts are loaded and not trained again; only the parser is unfinished
    again = Kill(1)
    assert saved(untrained(again).fit(treebank, **options, resume=True), tmp_path) == straight
    assert again.rounds == 1


def test_damaged_models_are_trained_again(treebank, straight, tmp_path):
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    with pytest.raises(Killed):
        untrained(Kill(ROUNDS)).fit(treebank, **options)
    kept = sorted((tmp_path / "run").glob("0*.npz"))
    kept[0].write_bytes(b"\0" + kept[0].read_bytes()[1:])
    kept[1].unlink()
    with pytest.warns(CheckpointWarning, match="Its model is trained again") as warned:
        annotator = untrained().fit(treebank, **options, resume=True)
    assert sum(w.category is CheckpointWarning for w in warned) == 1
    assert saved(annotator, tmp_path) == straight


def test_resumed_runs_keep_their_seed(treebank, tmp_path):
    options = {"checkpoint": tmp_path / "run"}
    with pytest.raises(Killed):
        untrained(Kill(ROUNDS), random_state=None).fit(treebank, **options)
    models = [untrained(random_state=None).fit(treebank, **options, resume=True).models().values() for _ in range(2)]
    first, second = ({model.random_state for model in own} for own in models)
    assert len(first) == 1
    assert first == second
