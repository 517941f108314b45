"""Evaluation of annotated sentences as in the CoNLL 2018 shared task."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.treebank.strings import MISSING
from omkl.estimators.validation import OneOf
from omkl.exceptions import InputError
from omkl.groups.templates.language import distance_name
from omkl.parsing.sentences import as_treebank, strings_of
from omkl.sequences.evaluation import records

#: Universal relations of content words, which CLAS, MLAS and BLEX count.
CONTENT_RELATIONS = frozenset({
    "nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "vocative", "expl", "dislocated", "advcl", "advmod",
    "discourse", "nmod", "appos", "nummod", "acl", "amod", "conj", "fixed", "flat", "compound", "list", "parataxis",
    "orphan", "goeswith", "reparandum", "root", "dep",
})  # fmt: skip
#: Universal relations of function words, which MLAS compares below each content word.
FUNCTION_RELATIONS = frozenset({"aux", "cop", "mark", "det", "clf", "case", "cc"})
#: Universal features, compared by UFeats.
UNIVERSAL_FEATURES = frozenset({
    "PronType", "NumType", "Poss", "Reflex", "Foreign", "Abbr", "Gender", "Animacy", "Number", "Case", "Definite",
    "Degree", "VerbForm", "Mood", "Tense", "Aspect", "Voice", "Evident", "Polarity", "Person", "Polite",
})  # fmt: skip
#: Scores that require heads, and scores that also require relations.
NEED_HEADS = ("uas", "las", "clas", "mlas", "blex", "las_subtypes", "whole")
NEED_RELATIONS = ("las", "clas", "mlas", "blex", "las_subtypes")
#: Rule for words to ignore: the name of a rule, or a function of form, UPOS and XPOS.
Rule: TypeAlias = str | Callable[[str, str, str], bool] | None
#: Tags of punctuation in the Penn treebank.
PENN_TAGS = frozenset(["``", "''", ":", ",", "."])
#: Rules by name: a column, and a predicate on its strings.
RULES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "upos": ("upos", lambda tag: tag == "PUNCT"),
    "xpos": ("xpos", PENN_TAGS.__contains__),
    "form": ("forms", lambda form: all(unicodedata.category(c)[0] == "P" for c in form)),
}


def evaluate_treebanks(gold: Treebank, predicted: Treebank, ignore: Rule = None) -> dict:
    """Compare annotated sentences with gold sentences, word by word.

    The scores are those of the evaluation script of the CoNLL 2018 shared task (Zeman et al. 2018, *CoNLL 2018 Shared
    Task: Multilingual Parsing from Raw Text to Universal Dependencies*), for identical words. CLAS, MLAS and BLEX are
    F1 scores, because the words that they count depend on the relations. For all other scores, F1 equals accuracy.

    Parameters
    ----------
    gold, predicted : Treebank
        Annotations of the same words.
    ignore : {None, "upos", "xpos", "form"} or callable
        Words to ignore, by their gold columns; see :meth:`omkl.DependencyParser.evaluate`.

    Returns
    -------
    dict
        Scores in [0, 1]:

        * ``upos``, ``xpos``, ``ufeats`` (universal features), ``alltags`` (all three), ``lemmas`` (always correct if
          the gold lemma is missing);
        * ``uas``, ``las`` (universal relations, without subtypes), ``las_subtypes``, ``clas`` (LAS of content words),
          ``mlas`` (CLAS that also requires correct UPOS, features and dependent function words), ``blex`` (CLAS that
          also requires the correct lemma);
        * ``whole``, the fraction of sentences whose heads are all correct.

        A score is None if one of the treebanks lacks the heads or relations that it requires. ``words`` and
        ``sentences`` are counts. ``relations`` and ``lengths`` are tables: lists of records with ``gold``,
        ``predicted`` and ``correct`` (counts), ``precision``, ``recall`` and ``f1``. ``relations`` counts universal
        relations with correct heads, by ``relation``. ``lengths`` counts heads, by ``length``, the distance from head
        to word or ``"root"``.

    Raises
    ------
    omkl.exceptions.InputError
        If words differ, heads are not trees, only some of the gold words have heads, or all words are ignored.

    >>> from omkl.data import Sentence
    >>> gold = Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", "root"])
    >>> wrong = Sentence(forms=["No", "way"], heads=[0, 1], deprels=["root", "dep"])
    >>> gold, wrong = (Treebank.from_sentences([sentence]) for sentence in (gold, wrong))
    >>> evaluate_treebanks(gold, gold)["las"], evaluate_treebanks(gold, wrong)["uas"]
    (1.0, 0.0)
    """
    return evaluate_blocks([(gold, predicted)], ignore)


def evaluate_blocks(pairs: Iterable[tuple[Treebank, Treebank]], ignore: Rule = None) -> dict[str, Any]:
    """Compare several pairs of treebanks together; see :func:`evaluate_treebanks`."""
    counts, lacks, n_unknown = _Counts(), {"heads": True, "relations": True}, 0
    for gold, predicted in pairs:
        _check_words(gold, predicted, counts.sentences)
        counts.add(as_treebank(gold, trees="partial"), as_treebank(predicted, trees="partial"), ignore)
        lacks["heads"] &= bool((gold.heads < 0).all() or (predicted.heads < 0).all())
        lacks["relations"] &= not (gold.deprels.any() and predicted.deprels.any())
        n_unknown += int(np.count_nonzero((gold.heads < 0) & (predicted.heads >= 0)))
    if not counts.scores["upos"].any():
        raise InputError("No word counts: give sentences, or choose another ignore=.")
    if n_unknown and not lacks["heads"]:
        raise InputError(f"{n_unknown} gold words have no head, and others have one: leave their sentences out.")
    scores: dict[str, Any] = {row["score"]: row["f1"] for row in records("score", counts.scores)}
    scores["whole"] = counts.whole / counts.sentences
    absent = NEED_HEADS if lacks["heads"] else NEED_RELATIONS if lacks["relations"] else ()
    scores |= dict.fromkeys(absent) | {"words": int(counts.scores["upos"][0]), "sentences": counts.sentences}
    relations, lengths = (records(name, counts.tables[name]) for name in ("relation", "length"))
    return scores | {
        "relations": [] if "las" in absent else sorted(relations, key=lambda row: -row["gold"]),
        "lengths": [] if "uas" in absent else sorted(lengths, key=lambda row: _first_number(row["length"])),
    }


def _check_words(gold: Treebank, predicted: Treebank, before: int) -> None:
    """Raise InputError if words differ; ``before`` is the number of sentences in earlier blocks."""
    if np.array_equal(gold.offsets, predicted.offsets):
        own, other, _ = _common_codes("forms", gold, predicted)
        if np.array_equal(own, other):
            return
    for number, pair in enumerate(zip_longest(gold, predicted), before + 1):
        forms = [[] if sentence is None else list(sentence.forms) for sentence in pair]
        if forms[0] != forms[1]:
            raise InputError(
                f"Sentence {number} must have the same words in both, got {forms[0]!r:.80} and {forms[1]!r:.80}."
            )


def _common_codes(
    name: str, gold: Treebank, predicted: Treebank, rule: Callable[[str], str] = str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Apply ``rule`` to the strings of a column; return codes of both treebanks in a common table, and the table."""
    table, codes = Strings(), []
    for treebank in (gold, predicted):
        used, places = np.unique(treebank.codes(name), return_inverse=True)
        strings = treebank.strings[name].tolist()
        codes.append(table.codes([rule(strings[code]) for code in used.tolist()], grow=True)[places])
    return codes[0], codes[1], table.tolist()


def universal_relation(relation: str) -> str:
    """Strip the subtype of a relation.

    >>> universal_relation("nsubj:pass")
    'nsubj'
    """
    return relation.partition(":")[0]


def universal_features(feats: str) -> str:
    """Keep the universal features of a word, in alphabetical order.

    >>> universal_features("Typo=Yes|Number=Sing|Case=Nom")
    'Case=Nom|Number=Sing'
    """
    return "|".join(sorted(f for f in feats.split("|") if f.partition("=")[0] in UNIVERSAL_FEATURES)) or MISSING


class _Counts:
    """Counts ``[gold, predicted, correct]`` of scores and of rows of tables, over pairs of treebanks."""

    def __init__(self) -> None:
        self.sentences = self.whole = 0
        self.scores: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(3, np.int64))
        self.tables: dict[str, dict[str, np.ndarray]] = {
            name: defaultdict(lambda: np.zeros(3, np.int64)) for name in ("relation", "length")
        }

    def add(self, gold: Treebank, predicted: Treebank, ignore: Rule) -> None:
        """Add the counts of a pair of treebanks."""
        counted, right = ~is_punctuation(gold, ignore), {}
        for name in ("upos", "xpos", "feats", "lemmas", "deprels"):
            rule = universal_features if name == "feats" else str
            right[name] = np.equal(*_common_codes(name, gold, predicted, rule)[:2])
        heads = (gold.heads == predicted.heads) & (gold.heads >= 0)
        *relations, table = _common_codes("deprels", gold, predicted, universal_relation)
        labeled, lemmas = heads & np.equal(*relations), right["lemmas"] | (gold.lemmas == 0)
        tags = right["upos"] & right["feats"]
        firsts = np.repeat(gold.offsets[:-1], gold.lengths)
        # words whose dependent function words differ
        differ = np.zeros(len(counted), dtype=bool)
        for is_function, own in zip(_have(FUNCTION_RELATIONS, relations, table), (gold.heads, predicted.heads)):
            wrong = is_function & ~(labeled & tags) & (own > 0)
            differ[firsts[wrong] + own[wrong] - 1] = True
        everywhere, content = [np.ones_like(counted)] * 2, _have(CONTENT_RELATIONS, relations, table)
        for name, found, (of_gold, of_predicted) in (
            ("upos", right["upos"], everywhere), ("xpos", right["xpos"], everywhere),
            ("ufeats", right["feats"], everywhere), ("alltags", tags & right["xpos"], everywhere),
            ("lemmas", lemmas, everywhere), ("uas", heads, everywhere), ("las", labeled, everywhere),
            ("clas", labeled, content), ("mlas", labeled & tags & ~differ, content),
            ("blex", labeled & lemmas, content), ("las_subtypes", heads & right["deprels"], everywhere),
        ):  # fmt: skip
            masks = of_gold & counted, of_predicted & counted, found & of_gold & counted
            self.scores[name] += [np.count_nonzero(mask) for mask in masks]
        self.sentences += len(gold)
        if len(gold):
            self.whole += int(np.count_nonzero(np.add.reduceat(counted & ~heads, gold.offsets[:-1]) == 0))
        self._add_rows("relation", relations, table, labeled, counted)
        ids = np.arange(1, len(counted) + 1) - firsts
        lengths = [np.where(own > 0, np.abs(own - ids), np.minimum(own, 0)) for own in (gold.heads, predicted.heads)]
        longest = max(int(length.max(initial=0)) for length in lengths)
        names = [MISSING, "root", *map(distance_name, range(1, 1 + longest))]  # MISSING: words without a head
        self._add_rows("length", [length + 1 for length in lengths], names, heads, counted)

    def _add_rows(
        self, table: str, codes: Sequence[np.ndarray], names: list[str], right: np.ndarray, counted: np.ndarray
    ) -> None:
        """Add to the rows of a table; ``codes`` are the rows of each word in both treebanks."""
        columns = codes[0][counted], codes[1][counted], codes[0][counted & right]
        for name, found in zip(names, np.stack([np.bincount(c, minlength=len(names)) for c in columns], axis=1)):
            if found.any() and name != MISSING:
                self.tables[table][name] += found


def _have(names: frozenset[str], relations: Sequence[np.ndarray], table: list[str]) -> list[np.ndarray]:
    """Return masks of the words with one of the relations ``names``, for each treebank."""
    known = np.array([relation in names for relation in table])
    return [known[codes] for codes in relations]


def _first_number(length: str) -> int:
    return 0 if length == "root" else int(length.split("-")[0].rstrip("+"))


def is_punctuation(treebank: Treebank, rule: Rule) -> np.ndarray:
    """Return a mask of the words to ignore by a rule of :meth:`~omkl.DependencyParser.evaluate`."""
    if rule is None:
        return np.zeros(treebank.n_words, dtype=bool)
    if callable(rule):
        columns = [strings_of(treebank, name) for name in ("forms", "upos", "xpos")]
        return np.array([bool(rule(*word)) for word in zip(*columns)], dtype=bool)
    OneOf((None, *RULES)).check("ignore", rule)
    column, matches = RULES[rule]
    return np.array([matches(string) for string in treebank.strings[column]], dtype=bool)[treebank.codes(column)]
