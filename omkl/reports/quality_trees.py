"""Quality of a parser or an annotator on gold sentences, and its worst mistakes."""

from functools import partial

import numpy as np
from markupsafe import Markup

import omkl
from omkl.data import Treebank
from omkl.parsing.evaluation import evaluate_treebanks
from omkl.parsing.sentences import strings_of
from omkl.reports.markup import Cell, html, number, percent, score_table, table
from omkl.reports.quality import Quality, calibration_parts, confusion_parts, marked_tokens, reasons, worst_first
from omkl.reports.trees import draw_tree
from omkl.sequences.evaluation import evaluate_labels

#: Columns that an annotator predicts, by their scores, and names of all scores.
WRITTEN = {"UPOS": "upos", "XPOS": "xpos", "UFeats": "feats", "Lemmas": "lemmas"}
SCORES = {name: name.lower() for name in (*WRITTEN, "UAS", "LAS", "CLAS", "MLAS", "BLEX")}
SCORES |= {"LAS with subtypes": "las_subtypes", "sentences whole": "whole"}
#: Sentences whose probabilities are computed.
CALIBRATED = 1000
#: Words of a sentence that is drawn at most.
DRAWN = 60


def tree_quality(parser: omkl.DependencyParser, gold: Treebank, n_worst: int) -> Quality:
    """Measure a parser on gold sentences, whose other columns it may read."""
    predicted = parser.parse(gold)
    quality = _compared(gold, predicted, [name for name in SCORES if name not in WRITTEN])
    quality.parts += _calibration(parser, gold, predicted)
    for i in _worst(gold, gold.heads != predicted.heads, n_worst):
        sentence, other = gold[i], predicted[i]
        n_wrong = sum(own != head for own, head in zip(sentence.heads, other.heads))
        why = ""
        if None not in sentence.heads:
            why = reasons(partial(parser.explain, sentence, heads=other.heads, against=sentence.heads))
        title = f"Sentence {i + 1}: {n_wrong} of {len(sentence)} heads wrong"
        quality.worst.append(html.example(title, html.wide(Markup(draw_tree(sentence, other))), why))
    return quality


def annotation_quality(annotator: omkl.Annotator, gold: Treebank, n_worst: int) -> Quality:
    """Measure an annotator on the words of gold sentences."""
    predicted = annotator.annotate(gold)
    trees = "trees" in annotator.parts_ and bool((gold.heads >= 0).any())
    quality = _compared(gold, predicted, [n for n in SCORES if WRITTEN.get(n, "trees") in annotator.parts_])
    columns = [name for name in annotator.columns_ if name not in ("heads", "deprels")]
    labels = {name: (strings_of(gold, name), strings_of(predicted, name)) for name in columns}
    wrong = gold.heads != predicted.heads if trees else np.zeros(gold.n_words, dtype=bool)
    for pair in labels.values():
        wrong |= np.array([own != other for own, other in zip(*pair)])
    tag = next((name for name in ("upos", "xpos") if name in columns), None)
    if tag is not None:
        records = evaluate_labels(*([side] for side in labels[tag]))["labels"]
        quality.parts += [html.heading("By tag"), score_table(records, "label"), *confusion_parts(*labels[tag])]
    if trees and annotator.parser_ is not None:
        quality.parts += _calibration(annotator.parser_, gold, predicted)
    for i in _worst(gold, wrong, n_worst):
        sentence, own = gold[i], slice(*gold.offsets[i : i + 2])
        tokens = marked_tokens(sentence.forms, *((right[own], found[own]) for right, found in labels.values()))
        title = f"Sentence {i + 1}: {int(wrong[own].sum())} of {len(sentence)} words wrong"
        picture = html.wide(Markup(draw_tree(sentence, predicted[i]))) if trees else ""
        quality.worst.append(html.example(title, tokens if columns else "", picture))
    return quality


def _calibration(parser: omkl.DependencyParser, gold: Treebank, predicted: Treebank) -> list[str]:
    """Make a picture of the calibration of arcs of the first sentences; nothing without probabilities."""
    if not hasattr(parser, "predict_marginals"):
        return []
    some = predicted[np.arange(min(len(predicted), CALIBRATED))]
    trees = np.split(some.heads, some.offsets[1:-1])
    marginals = parser.predict_marginals(some)
    sure = [own.arcs[heads, np.arange(1, len(heads) + 1)] for own, heads in zip(marginals, trees)]
    right = gold.heads[: some.n_words] == some.heads
    return calibration_parts("Calibration of arcs", right, np.concatenate(sure))


def _compared(gold: Treebank, predicted: Treebank, names: list[str]) -> Quality:
    """Make scores, and tables by relation and by length."""
    found = evaluate_treebanks(gold, predicted)
    known = {name: found[SCORES[name]] for name in names if found[SCORES[name]] is not None}
    first = [name for name in ("UPOS", "Lemmas", "UAS", "LAS", "sentences whole") if name in known]
    tiles = {str(name): percent(known[name]) for name in first}
    tiles |= {"sentences": number(found["sentences"]), "words": number(found["words"])}
    without = evaluate_treebanks(gold, predicted, ignore="form") if "UAS" in known else {}
    cells = {name: [known[name], without.get(SCORES[name])] for name in known}
    rows = [[name, *(Cell(percent(value), value) for value in own)] for name, own in cells.items()]
    parts = [
        html.heading("Scores of the CoNLL 2018 shared task"),
        table(["score", "all words", "without punctuation"], rows),
    ]
    if found["relations"]:
        parts += [html.heading("By relation"), score_table(found["relations"], "relation")]
    if found["lengths"]:
        parts += [html.heading("By length of the arc"), score_table(found["lengths"], "length")]
    return Quality(tiles, parts)


def _worst(gold: Treebank, wrong: np.ndarray, n: int) -> list[int]:
    """Return the sentences with the most wrong words, among those that are short enough to be drawn."""
    counts = np.add.reduceat(wrong.astype(np.int64), gold.offsets[:-1])
    return worst_first(np.where(gold.lengths <= DRAWN, counts, 0), gold.lengths, n)
