"""An annotator whose training was killed and resumed is the one that was not, byte for byte."""

import errno
import warnings

import pytest

import omkl
from omkl.data import Treebank, synthetic_treebank
from omkl.exceptions import CheckpointWarning, InputError
from omkl.online import checkpointing
from omkl.parsing.sentences import strings_of, with_strings

from ..passes import Kill, Killed

#: Rounds of all trainings together.
ROUNDS = 250


class Counting:
    """Callback that counts rounds, and knows the number again when a run is resumed."""

    rounds = 0

    def on_round(self, trainer, step):
        self.rounds += 1

    def state(self):
        return self.rounds, {}

    def load_state(self, value, arrays):
        self.rounds = value


@pytest.fixture(scope="module")
def treebank():
    treebank = synthetic_treebank(24, vocabulary=12, random_state=0)
    return with_strings(treebank, "upos", [tag[:1] for tag in strings_of(treebank, "forms")])


def untrained(*callbacks, **parameters):
    tagger = omkl.SequenceLabeler(epochs=2)
    parser = omkl.DependencyParser("small", memory=1, epochs=2)
    settings = {"tagger": tagger, "parser": parser, "folds": 2, "random_state": 0, **parameters}
    return omkl.Annotator(callbacks=callbacks, **settings)


@pytest.fixture(scope="module")
def straight(treebank, tmp_path_factory):
    folder, counting = tmp_path_factory.mktemp("straight"), Counting()
    untrained(counting).fit(treebank).save(folder / "model.npz")
    return (folder / "model.npz").read_bytes(), counting.rounds


def saved(annotator, folder):
    annotator.save(folder / "model.npz")
    return (folder / "model.npz").read_bytes()


def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(treebank, straight, rng, tmp_path):
    expected, rounds = straight
    assert rounds > ROUNDS
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    for attempt, more in enumerate([1, 30, *rng.integers(30, ROUNDS // 3, 3)]):
        with pytest.raises(Killed):
            untrained(Counting(), Kill(more)).fit(treebank, **options, resume=attempt > 0)
    counting = Counting()
    assert saved(untrained(counting).fit(treebank, **options, resume=True), tmp_path) == expected
    assert counting.rounds == rounds
    # what is over is read, and not learned again; all but the parser is over
    again = Kill(1)
    assert saved(untrained(Counting(), again).fit(treebank, **options, resume=True), tmp_path) == expected
    assert again.rounds == 1


def test_damaged_models_are_trained_again(treebank, straight, tmp_path):
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    with pytest.raises(Killed):
        untrained(Counting(), Kill(ROUNDS)).fit(treebank, **options)
    kept = sorted((tmp_path / "run").glob("0*.npz"))
    kept[0].write_bytes(b"\0" + kept[0].read_bytes()[1:])
    kept[1].unlink()
    with pytest.warns(CheckpointWarning, match="Its model is trained again") as warned:
        annotator = untrained(Counting()).fit(treebank, **options, resume=True)
    assert sum(w.category is CheckpointWarning for w in warned) == 1
    assert saved(annotator, tmp_path) == straight[0]


def test_resumed_runs_keep_their_seed(treebank, tmp_path):
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    with pytest.raises(Killed):
        untrained(Kill(ROUNDS), random_state=None).fit(treebank, **options)
    options["resume"] = True
    models = [untrained(random_state=None).fit(treebank, **options).models().values() for _ in range(2)]
    first, second = ({model.random_state for model in own} for own in models)
    assert len(first) == 1
    assert first == second


def test_other_data_settings_and_directories_are_refused(treebank, tmp_path):
    options = {"checkpoint": tmp_path / "run", "resume": True}
    with pytest.raises(Killed):
        untrained(Kill(40)).fit(treebank, **options)
    others = {
        "has folds = 2, but this run has 3": untrained(folds=3),
        "has tagger__C = 1.0, but this run has 2.0": untrained(tagger=omkl.SequenceLabeler(epochs=2, C=2.0)),
        "has parser__memory = 1, but this run has 140.0": untrained(parser=omkl.DependencyParser("small", epochs=2)),
        "has random_state = 0, but this run has 1": untrained(random_state=1),
    }
    for message, other in others.items():
        with pytest.raises(InputError, match=message):
            other.fit(treebank, **options)
    sentences = list(treebank)
    sentences[3] = omkl.data.Sentence(**{**vars_of(sentences[3]), "lemmas": ["other"] * len(sentences[3].forms)})
    with pytest.raises(InputError, match="has content of the data = "):
        untrained().fit(Treebank.from_sentences(sentences), **options)
    with pytest.raises(InputError, match="holds checkpoints of an earlier run"):
        untrained().fit(treebank, checkpoint=tmp_path / "run")
    with pytest.raises(InputError, match="need a directory"):
        untrained().fit(treebank, resume=True)
    omkl.SequenceLabeler(epochs=1).fit([["a"]], [["B"]], checkpoint=tmp_path / "other", checkpoint_every=0)
    with pytest.raises(InputError, match="has estimator = 'SequenceLabeler', but this run has 'Annotator'"):
        untrained().fit(treebank, checkpoint=tmp_path / "other", resume=True)


def vars_of(sentence):
    return {name: getattr(sentence, name) for name in ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels")}


def test_full_disks_do_not_end_training(treebank, straight, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpointing, "write_archive", full)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        annotator = untrained(Counting()).fit(treebank, checkpoint=tmp_path / "run", checkpoint_every="50 rounds")
    assert saved(annotator, tmp_path) == straight[0]
    (message,) = (str(w.message) for w in warned if w.category is CheckpointWarning)
    assert "No space left on device): training goes on" in message


def test_runs_ended_by_callbacks_resume(treebank, straight, tmp_path):
    ending, options = Counting(), {"checkpoint": tmp_path / "run", "checkpoint_every": "20 rounds"}
    ending.on_epoch = lambda trainer, record: ending.rounds > ROUNDS // 2
    partial = untrained(ending).fit(treebank, **options)
    assert "trees" not in partial.parts_
    assert saved(untrained(Counting()).fit(treebank, **options, resume=True), tmp_path) == straight[0]
