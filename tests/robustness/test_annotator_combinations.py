"""Annotators with many settings equal their parts, trained one by one."""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.model_selection import KFold

from omkl import Annotator, DependencyParser, SequenceLabeler
from omkl.data import Treebank, synthetic_treebank
from omkl.exceptions import InputError

from .test_online_combinations import drawn

TREES = list(synthetic_treebank(26, vocabulary=6, mean_length=5, random_state=0))
TRAIN, TEST = TREES[:18], TREES[18:]
SETTINGS = {
    "loss": ["hinge", "crf", "perceptron"],
    "regularizer": ["mkl", "l2", "group-lasso", "elastic-net:mu=0.3", "lq:q=1.5", None],
    "method": ["fobos", "rda"],
    "average": ["quadratic", "uniform", "last"],
    "weighting": ["norms", "out-of-sample"],
    "C": [1e-6, 1e-2, 1.0, 1e2, 1e6],
    "folds": [2, 3],
}


def with_tags(sentences, tags):
    """The sentences as they are annotated before they are parsed."""
    return Treebank.from_sentences([replace(sentence, upos=list(own)) for sentence, own in zip(sentences, tags)])


def check_annotator(values):
    """Whether the setting is one that is learned."""
    parameters = dict(zip(SETTINGS, values))
    folds = parameters.pop("folds")
    tagger = SequenceLabeler(epochs=2, **parameters)
    parser = DependencyParser("small", epochs=2, memory=1, **parameters)
    annotator = Annotator(["upos", "trees"], tagger=tagger, parser=parser, folds=folds, random_state=3)
    # the seed of all parts
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    forms, gold = [sentence.forms for sentence in TRAIN], [sentence.upos for sentence in TRAIN]

    def tags(rows, inputs):
        own = SequenceLabeler(epochs=2, random_state=seed, **parameters)
        return [
            labels.tolist() for labels in own.fit([forms[i] for i in rows], [gold[i] for i in rows]).predict(inputs)
        ]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            annotator.fit(Treebank.from_sentences(TRAIN))
        except InputError:  # at the door
            return False
        unseen = [None] * len(TRAIN)
        for others, own in KFold(folds, shuffle=True, random_state=seed).split(forms):
            for i, found in zip(own, tags(others, [forms[i] for i in own])):
                unseen[i] = found
        parser.set_params(random_state=seed).fit(with_tags(TRAIN, unseen))
        expected = tags(range(len(TRAIN)), [sentence.forms for sentence in TEST])
    written = annotator.annotate(Treebank.from_sentences(TEST))
    assert [sentence.upos for sentence in written] == expected
    parsed = parser.parse(with_tags(TEST, expected))
    assert [sentence.heads for sentence in written] == [sentence.heads for sentence in parsed]
    assert [sentence.deprels for sentence in written] == [sentence.deprels for sentence in parsed]
    return True


def test_annotators_are_their_parts():
    learned = [check_annotator(values) for values in drawn(SETTINGS, 6, 0)]
    assert sum(learned) > 1
