"""Labelled sequences in files: CRFsuite's attribute lists, JSON lines, treebanks, the OCR data set."""

import json

from omkl.data.conll import tagging_features
from omkl.data.files import open_text, stem
from omkl.data.ocr import read_ocr
from omkl.data.treebank_reader import read_conllu
from omkl.exceptions import DataFileError, InputError

FORMATS = ("conllu", "crfsuite", "jsonl", "ocr")


def guess_format(path):
    """The format that the name of a file stands for."""
    name = stem(path)
    for suffix, guessed in ((".conllu", "conllu"), (".jsonl", "jsonl"), (".data", "ocr")):
        if name.endswith(suffix):
            return guessed
    return "crfsuite"


def read_sequences(path, format=None, folds=None):
    """Read labelled sequences.

    Parameters
    ----------
    path : path-like
        Plain or compressed (``.gz``, ``.xz``).
    format : {"conllu", "crfsuite", "jsonl", "ocr"}, optional
        * ``crfsuite``: a line a token, ``label<TAB>attribute<TAB>attribute:value...``, an empty line between
          sequences. The part of an attribute before ``=`` is its template, which is its group.
        * ``jsonl``: a line a sequence, ``{"x": [...], "y": [...]}``; tokens are dicts, or lists of numbers. ``y`` may
          be left out where labels are not needed.
        * ``conllu``: words with :func:`~omkl.data.tagging_features`, labels are their UPOS.
        * ``ocr``: see :func:`~omkl.data.read_ocr`.

        Guessed from the name by default: ``.conllu``, ``.jsonl``, ``.data``, and CRFsuite otherwise.
    folds : list of int, optional
        Only these folds of the OCR data set.

    Returns
    -------
    X, y : lists of sequences
        ``y`` is None where the file holds no labels.
    """
    format = format or guess_format(path)
    if folds is not None and format != "ocr":
        raise InputError(f"Only the OCR data set has folds, and {path} is read as {format}.")
    if format == "ocr":
        words = read_ocr(path)
        return (words.images, words.letters) if folds is None else words.of_folds(folds)
    readers = {"conllu": _read_tagged, "crfsuite": _read_crfsuite, "jsonl": _read_jsonl}
    if format not in readers:
        raise InputError(f"Unknown format {format!r}: choose one of {', '.join(FORMATS)}.")
    X, y = readers[format](path)
    if not X:
        raise DataFileError(f"{path} holds no sequence.")
    return X, y


def _read_tagged(path):
    sentences = list(read_conllu(path, trees=False))  # a tagger needs no trees
    return [tagging_features(sentence.forms) for sentence in sentences], [sentence.upos for sentence in sentences]


def _read_crfsuite(path):
    X, y, tokens, labels = [], [], [], []
    with open_text(path) as file:
        for number, line in enumerate([*file, ""], 1):
            line = line.rstrip("\n")
            if line:
                label, *attributes = line.split("\t")
                if not label:
                    raise DataFileError(f"{path}, line {number}: a token needs a label before its first tab.")
                labels.append(label)
                tokens.append(_attributes(attributes, f"{path}, line {number}"))
            elif tokens:
                X.append(tokens)
                y.append(labels)
                tokens, labels = [], []
    return X, y


def _attributes(attributes, where):
    """``template=value`` and ``name:number`` attributes as a token dict; ``\\:`` stands for a colon."""
    token = {}
    for attribute in filter(None, attributes):
        name, colon, number = attribute.replace("\\:", "\0").rpartition(":")
        if not colon:
            name, number = number, "1"
        try:
            amount = float(number)
        except ValueError:
            raise DataFileError(f"{where}: {number!r} is not a number; write a colon in a name as '\\:'.") from None
        template, equals, value = name.replace("\0", ":").replace("\\\\", "\\").partition("=")
        # several values of one template become one entry
        token.setdefault(template, {})[value if equals else ""] = amount
    return token


def _read_jsonl(path):
    X, y = [], []
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                X.append(record["x"])
                y.append(record.get("y"))
            except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
                raise DataFileError(f'{path}, line {number}: expected {{"x": [...], "y": [...]}}.') from None
    if None in y:
        if any(labels is not None for labels in y):
            raise DataFileError(f'{path}: sequence {y.index(None)} has no "y", others have.')
        return X, None
    return X, [[tuple(label) if isinstance(label, list) else label for label in labels] for labels in y]
