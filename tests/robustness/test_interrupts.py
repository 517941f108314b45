"""Training of an annotator that is ended, whenever it is: what was learned by then is kept, and annotates."""

import json
import os
import signal

import pytest

import omkl
from omkl import Annotator
from omkl.annotation.tagger import Tagger
from omkl.cli import main
from omkl.cli.training import Interruption
from omkl.data import synthetic_treebank, write_treebank
from omkl.exceptions import InputError
from omkl.parsing.sentences import strings_of, with_strings

pytestmark = pytest.mark.usefixtures("ctrl_c")

PARTS = ["upos", "xpos", "feats", "lemmas", "trees"]


@pytest.fixture(scope="module")
def treebank():
    treebank = synthetic_treebank(24, vocabulary=12, random_state=0)
    return with_strings(treebank, "upos", [tag[:1] for tag in strings_of(treebank, "forms")])


class Ending:
    """Ends training in a given round of all trainings together; counts rounds, and notes where trainings begin."""

    def __init__(self, at=0):
        self.at, self.rounds, self.begins = at, 0, []

    def on_start(self, trainer, source):
        self.begins.append(self.rounds)

    def on_round(self, trainer, step):
        self.rounds += 1
        return self.rounds == self.at


def annotator(*callbacks, **parameters):
    tagger = omkl.SequenceLabeler(epochs=2)
    parser = omkl.DependencyParser("small", memory=1, epochs=2)
    return Annotator(tagger=tagger, parser=parser, folds=2, callbacks=callbacks, random_state=0, **parameters)


def test_what_was_learned_before_a_callback_ends_training_is_kept(treebank, tmp_path, monkeypatch):
    straight, taggers = Ending(), []
    with monkeypatch.context() as patch:
        fit = Tagger.fit
        patch.setattr(Tagger, "fit", lambda *a, **k: [taggers.append(straight.rounds), fit(*a, **k)][1])
        whole = annotator(straight).fit(treebank)
    assert whole.parts_ == PARTS
    (_, second_fold, last), trees = taggers, straight.begins[-1]
    assert straight.rounds > trees > last
    ends = {
        1: ["upos"],
        24: ["upos"],
        second_fold: PARTS[:-1],
        second_fold + 1: PARTS[:-1],
        last + 1: PARTS[:-1],
        trees: PARTS[:-1],
        trees + 1: PARTS,
        straight.rounds - 1: PARTS,
    }
    for at, parts in ends.items():
        ending = Ending(at)
        model = annotator(ending).fit(treebank)
        assert model.parts_ == parts
        assert ending.rounds == at
        model.save(tmp_path / "model.npz")
        found, loaded = (own.annotate(treebank[:5]) for own in (model, omkl.load(tmp_path / "model.npz")))
        assert list(found) == list(loaded)
    assert model.tagger_.columns == whole.tagger_.columns
    assert {**model.kernel_weights_, "trees": 0} == {**whole.kernel_weights_, "trees": 0}


def test_an_annotator_without_a_part_to_keep_is_not_fitted(treebank):
    ending = Ending()
    ending.on_start = lambda trainer, source: True
    model = annotator(ending)
    with pytest.raises(InputError, match="before a part was learned"):
        model.fit(treebank)
    assert not hasattr(model, "parts_")
    with pytest.raises(InputError, match="has no `on_"):
        annotator(object()).fit(treebank)
    with pytest.raises(InputError, match="must be a list of callbacks"):
        Annotator(callbacks=print).fit(treebank)


@pytest.mark.parametrize("at", [1, 60, 10**9])
def test_ctrl_c_keeps_what_an_annotator_has_learned(at, treebank, tmp_path, capsys, monkeypatch):
    """In the first round, in between, and while labelers are made ready, which is between two trainings."""
    rounds = []

    def on_round(self, trainer, step, own=Interruption.on_round):
        rounds.append(step)
        if len(rounds) == at:
            os.kill(os.getpid(), signal.SIGINT)
        return own(self, trainer, step)

    def on_start(self, trainer, source, own=Interruption.on_start):
        if len(rounds) > 100 and at == 10**9:
            os.kill(os.getpid(), signal.SIGINT)
        return own(self, trainer, source)

    monkeypatch.setattr(Interruption, "on_round", on_round)
    monkeypatch.setattr(Interruption, "on_start", on_start)
    file, out, metrics = tmp_path / "train.conllu", tmp_path / "m.npz", tmp_path / "m.json"
    write_treebank(file, treebank)
    train = ["train", "annotator", str(file), "-o", str(out), "--templates", "small", "--tagging-folds", "2"]
    train += ["--epochs", "2"]
    before = signal.getsignal(signal.SIGINT)
    assert main([*train, "--json", str(metrics)]) == 0
    assert signal.getsignal(signal.SIGINT) is before
    parts = omkl.load(out).parts_
    assert parts[0] == "upos"
    assert f"Interrupted: the model so far is saved, which annotates {', '.join(parts)}." in capsys.readouterr().out
    assert json.loads(metrics.read_text())["interrupted"]
    # with nothing learned, nothing is written
    out.unlink()
    rounds.clear()
    monkeypatch.setattr(Interruption, "on_start", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert main([*train, "--parts", "trees"]) == 130
    assert not out.exists()


def test_a_process_that_is_deaf_to_ctrl_c_stays_so():
    interruption = Interruption()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruption.listening():
        os.kill(os.getpid(), signal.SIGINT)
        assert not interruption.happened
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with interruption.listening():
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.happened
