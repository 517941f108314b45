"""Quality of a parser or an annotator on gold sentences, and its worst mistakes."""

from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from omkl.data import Treebank
from omkl.parsing.evaluation import evaluate_treebanks
from omkl.reports.markup import html, number, percent, table
from omkl.reports.quality import (
    Quality,
    calibration_part,
    confusion_parts,
    length_table,
    marked_tokens,
    reasons,
    score_table,
    worst_first,
)
from omkl.reports.trees import draw_tree
from omkl.sequences.evaluation import evaluate_labels

#: Names of scores.
SCORES = {name: name.lower() for name in ("UPOS", "XPOS", "UFeats", "Lemmas", "UAS", "LAS", "CLAS", "MLAS", "BLEX")}
SCORES |= {"LAS with subtypes": "las_subtypes", "sentences whole": "whole"}
#: Columns that an annotator predicts, by their scores.
WRITTEN = {"UPOS": "upos", "XPOS": "xpos", "UFeats": "feats", "Lemmas": "lemmas"}
#: Sentences whose probabilities are computed.
CALIBRATED = 1000
#: Words of a sentence that is drawn at most.
DRAWN = 60


def tree_quality(parser: Any, gold: Treebank, n_worst: int) -> Quality:
    """Quality of a parser on gold sentences, whose other columns it may read."""
    predicted = parser.parse(gold)
    quality = _compared(gold, predicted, [name for name in SCORES if name not in WRITTEN])
    sure = _arcs(parser, quality, gold, predicted)
    for i in _worst(gold, predicted, gold.heads != predicted.heads, n_worst):
        sentence, other = gold[i], predicted[i]
        n_wrong = sum(own != head for own, head in zip(sentence.heads, other.heads))
        why = ""
        if None not in sentence.heads:
            why = reasons(partial(parser.explain, sentence, heads=other.heads, against=sentence.heads))
        title = f"Sentence {i + 1}: {n_wrong} of {len(sentence)} heads wrong"
        picture = _drawn(sentence, other, sure[i] if i < len(sure) else None)
        quality.worst.append(html.example(title, picture, why))
    return quality


def annotation_quality(annotator: Any, gold: Treebank, n_worst: int) -> Quality:
    """Quality of an annotator on the words of gold sentences."""
    predicted = annotator.annotate(gold)
    trees = "trees" in annotator.parts_ and bool((gold.heads >= 0).any())
    names = [name for name in SCORES if WRITTEN.get(name, "trees") in annotator.parts_]
    quality = _compared(gold, predicted, names)
    columns = [name for name in annotator.columns_ if name not in ("heads", "deprels")]
    labels = {name: (_strings(gold, name), _strings(predicted, name)) for name in columns}
    told = [_told_apart(*pair) if name == "feats" else pair for name, pair in labels.items()]
    wrong = np.zeros(gold.n_words, dtype=bool)
    for pair in labels.values():
        wrong |= np.array([own != other for own, other in zip(*pair)])
    if trees:
        wrong |= gold.heads != predicted.heads
    tag = next((name for name in ("upos", "xpos") if name in columns), None)
    if tag is not None:
        records = evaluate_labels(*([side] for side in labels[tag]))["labels"]
        quality.parts[2:2] = [html.heading("By tag"), score_table(records, "label"), *confusion_parts(*labels[tag])]
        quality.parts += _tags(annotator.tagger_, predicted, *labels[tag])
    sure = _arcs(annotator.parser_, quality, gold, predicted) if trees else []
    for i in _worst(gold, predicted, wrong, n_worst):
        sentence, other, own = gold[i], predicted[i], slice(*gold.offsets[i : i + 2])
        tokens = marked_tokens(sentence.forms, *((right[own], found[own]) for right, found in told))
        title = f"Sentence {i + 1}: {int(wrong[own].sum())} of {len(sentence)} words wrong"
        picture = _drawn(sentence, other, sure[i] if i < len(sure) else None) if trees else ""
        quality.worst.append(html.example(title, tokens if columns else "", picture))
    return quality


def _tags(tagger: Any, predicted: Treebank, gold: list[str], found: list[str]) -> list[str]:
    """Calibration of tags on the first sentences; nothing without probabilities."""
    if not all(hasattr(chain, "predict_marginals") for chain in tagger.chains):
        return []
    confidence = np.array(tagger.confidence(predicted[np.arange(min(len(predicted), CALIBRATED))]))
    right = np.array([own == other for own, other in zip(gold, found)])[: len(confidence)]
    return [html.heading("Calibration of tags"), calibration_part(right, confidence)]


def _arcs(parser: Any, quality: Quality, gold: Treebank, predicted: Treebank) -> list[np.ndarray]:
    """Probabilities of the arcs of the first sentences, and a picture of their calibration; nothing without them."""
    if not hasattr(parser, "predict_marginals"):
        return []
    some = predicted[np.arange(min(len(predicted), CALIBRATED))]
    trees = np.split(some.heads, some.offsets[1:-1])
    marginals = parser.predict_marginals(some)
    sure = [own.arcs[heads, np.arange(1, len(heads) + 1)] for own, heads in zip(marginals, trees)]
    right = gold.heads[: some.n_words] == some.heads
    quality.parts += [html.heading("Calibration of arcs"), calibration_part(right, np.concatenate(sure))]
    return sure


def _told_apart(gold: list[str], predicted: list[str]) -> tuple[list[str], list[str]]:
    """Morphological features; of wrong words only those that the other side lacks."""

    def only(own: str, other: str) -> str:
        if own == other:
            return own
        return "|".join(feature for feature in own.split("|") if feature not in other.split("|")) or "_"

    pairs = list(zip(gold, predicted))
    return [only(own, other) for own, other in pairs], [only(other, own) for own, other in pairs]


def _strings(bank: Treebank, name: str) -> list[str]:
    """A column of all words."""
    table_of = np.array(bank.strings[name].tolist(), dtype=object)
    return table_of[getattr(bank, name)].tolist()


def _compared(gold: Treebank, predicted: Treebank, names: list[str]) -> Quality:
    """Scores, and tables by relation and by length."""
    found = evaluate_treebanks(gold, predicted)
    known = {name: found[SCORES[name]] for name in names if found[SCORES[name]] is not None}
    first = [name for name in ("UPOS", "Lemmas", "UAS", "LAS", "sentences whole") if name in known]
    tiles: dict[str, Any] = {name: percent(known[name]) for name in first}
    tiles |= {"sentences": number(found["sentences"]), "words": number(found["words"])}
    without = evaluate_treebanks(gold, predicted, ignore="form") if "UAS" in known else {}
    rows = [[name, percent(value), percent(without.get(SCORES[name]))] for name, value in known.items()]
    parts = [
        html.heading("Scores of the CoNLL 2018 shared task"),
        table(["score", "all words", "without punctuation"], rows),
    ]
    if found["relations"]:
        parts += [html.heading("By relation"), score_table(found["relations"], "relation")]
    if found["lengths"]:
        parts += [html.heading("By length of the arc"), score_table(found["lengths"], "length")]
        right = np.add.reduceat((gold.heads == predicted.heads).astype(np.int64), gold.offsets[:-1])
        parts += [html.heading("By length of the sentence"), length_table(gold.lengths, right, "sentences")]
    return Quality(tiles, parts)


def _worst(gold: Treebank, predicted: Treebank, wrong: np.ndarray, n: int) -> list[int]:
    """Sentences with the most wrong words, among those that are short enough to be drawn."""
    counts = np.add.reduceat(wrong.astype(np.int64), gold.offsets[:-1])
    return worst_first(np.where(gold.lengths <= DRAWN, counts, 0), gold.lengths, n)


def _drawn(gold: Any, predicted: Any, sure: np.ndarray | None = None) -> str:
    """The gold tree above the words, and below them the predicted one in colours of its probabilities."""
    picture = draw_tree(gold, predicted, confidence=None if sure is None else sure.tolist())
    return Markup(f"<div class=wide>{picture}</div>")
