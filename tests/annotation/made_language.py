"""Sentences of an artificial language with a few known rules."""

import itertools

import numpy as np

from omkl.data import Sentence

SYLLABLES = ["".join(letters) for letters in itertools.product("bdfgklmnprtvz", "aeiou")]


def stems_of(first_syllables, second_syllables):
    """Make a stem of each pair of syllables."""
    return ["".join(pair) for pair in itertools.product(first_syllables, second_syllables)]


def sentences(n, seed=0, xpos=True):
    """Draw sentences of subject, verb and object; -s marks a plural or the present tense."""
    rng = np.random.default_rng(seed)
    return [sentence(rng, xpos) for _ in range(n)]


def sentence(rng, xpos):
    stems = ["".join(rng.choice(SYLLABLES, 2)) for _ in range(4)]
    plural, present, also_plural, described = (rng.random(4) < 0.5).tolist()
    place = 3 + described
    words = [("the", "the", "DET", "_", place - 1, "det")]
    if described:
        words.append((f"{stems[0]}y", f"{stems[0]}y", "ADJ", "Degree=Pos", place - 1, "amod"))
    words += [
        noun(stems[1], plural, place, "nsubj"),
        verb(stems[2], present),
        ("the", "the", "DET", "_", place + 2, "det"),
        noun(stems[3], also_plural, place, "obj"),
    ]
    forms, lemmas, upos, feats, heads, deprels = map(list, zip(*words))
    tags = []
    if xpos:
        tags = [tag[0] for tag in upos]
    return Sentence(forms, lemmas, upos, tags, feats, heads, deprels)


def noun(stem, plural, head, relation):
    if plural:
        return (f"{stem}s", stem, "NOUN", "Number=Plur", head, relation)
    return (stem, stem, "NOUN", "Number=Sing", head, relation)


def verb(stem, present):
    if present:
        return (f"{stem}s", stem, "VERB", "Tense=Pres", 0, "root")
    return (f"{stem}ted", stem, "VERB", "Tense=Past", 0, "root")
