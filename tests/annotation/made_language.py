"""Sentences of an artificial language with a few known rules."""

import numpy as np

from omkl.data import Sentence

SYLLABLES = [c + v for c in "bdfgklmnprtvz" for v in "aeiou"]


def sentences(n, seed=0, xpos=True):
    """Draw sentences of subject, verb and object; -s marks a plural or the present tense."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        stems = ["".join(rng.choice(SYLLABLES, 2)) for _ in range(4)]
        plural, present, also_plural, described = (rng.random(4) < 0.5).tolist()
        verb = 4 if described else 3
        words = [("the", "the", "DET", "_", verb - 1, "det")]
        if described:
            words.append((f"{stems[0]}y", f"{stems[0]}y", "ADJ", "Degree=Pos", verb - 1, "amod"))
        words += [
            noun(stems[1], plural, verb, "nsubj"),
            (
                stems[2] + ("s" if present else "ted"),
                stems[2],
                "VERB",
                f"Tense={TENSES[int(present)]}",
                0,
                "root",
            ),
            ("the", "the", "DET", "_", verb + 2, "det"),
            noun(stems[3], also_plural, verb, "obj"),
        ]
        forms, lemmas, upos, feats, heads, deprels = map(list, zip(*words))
        tags = [tag[0] for tag in upos] if xpos else []
        made.append(Sentence(forms, lemmas, upos, tags, feats, heads, deprels))
    return made


TENSES = ("Past", "Pres")


def noun(stem, plural, head, relation):
    return (
        stem + "s" * plural,
        stem,
        "NOUN",
        f"Number={'Plur' if plural else 'Sing'}",
        head,
        relation,
    )
