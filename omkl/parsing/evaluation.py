"""Scores of annotated sentences against gold ones, as defined by the CoNLL 2018 shared task."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.treebank.strings import MISSING
from omkl.data.treebank.treebank import check_heads
from omkl.exceptions import InputError
from omkl.groups import distance_name
from omkl.parsing.sentences import strings_of
from omkl.sequences.evaluation import f1, records

#: Universal relations of content words, counted by CLAS, MLAS and BLEX.
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
#: Scores that need heads, and those that need relations as well.
NEED_HEADS = ("uas", "las", "clas", "mlas", "blex", "las_subtypes", "whole")
NEED_RELATIONS = ("las", "clas", "mlas", "blex", "las_subtypes")
#: Words that do not count: the name of a rule, or a function of form, UPOS and XPOS.
Rule: TypeAlias = str | Callable[[str, str, str], bool] | None
#: Tags of punctuation in the Penn treebank.
PENN_TAGS = frozenset(["``", "''", ":", ",", "."])


def evaluate_treebanks(gold: Treebank, predicted: Treebank, ignore: Rule = None) -> dict:
    """Compare annotated sentences with gold ones, word by word.

    The scores are those of the evaluation script of the CoNLL 2018 shared task (Zeman et al. 2018, *CoNLL 2018 Shared
    Task: Multilingual Parsing from Raw Text to Universal Dependencies*) for the same words in both: F1 for CLAS, MLAS
    and BLEX, whose words depend on the relations, and accuracy, which F1 then is, for all others.

    Parameters
    ----------
    gold, predicted : Treebank
        Annotations of the same words.
    ignore : {None, "upos", "xpos", "form"} or callable
        Words that do not count, by their gold columns; see :meth:`omkl.DependencyParser.evaluate`.

    Returns
    -------
    dict
        Scores in [0, 1]:

        * ``upos``, ``xpos``, ``ufeats`` (universal features), ``alltags`` (all three), ``lemmas`` (always right where
          the gold lemma is missing);
        * ``uas``, ``las`` (universal relations, without subtypes), ``las_subtypes``, ``clas`` (las of content words),
          ``mlas`` (clas with the right tag and features, and the right function words below), ``blex`` (clas with the
          right lemma);
        * ``whole``, the share of sentences whose heads are all right.

        A score is None where one of the treebanks lacks the heads or relations that it needs. ``words`` and
        ``sentences`` are counts. ``relations`` and ``lengths`` are tables, lists of records with ``gold``,
        ``predicted`` and ``correct`` (counts), ``precision``, ``recall`` and ``f1``: of universal relations with right
        heads, by ``relation``, and of heads, by ``length``, the distance from head to word or ``"root"``.

    Raises
    ------
    omkl.exceptions.InputError
        If the words are not the same, heads are no trees, some gold words have heads and others none, or no word is
        left to count.

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
    counts, lacks = _Counts({}, Counter(), {"relation": {}, "length": {}}), {"heads": True, "relations": True}
    for gold, predicted in pairs:
        _check_words(gold, predicted, counts.totals["sentences"])
        _check_trees(gold, predicted)
        counts.add(_Words.of(gold, predicted, ~is_punctuation(gold, ignore)), gold)
        lacks["heads"] &= bool((gold.heads < 0).all() or (predicted.heads < 0).all())
        counts.totals["unknown"] += int(np.count_nonzero((gold.heads < 0) & (predicted.heads >= 0)))
        lacks["relations"] &= not (gold.deprels.any() and predicted.deprels.any())
    if not counts.totals["words"]:
        advice = "choose another ignore=" if counts.totals["sentences"] else "there is no sentence"
        raise InputError(f"No word is left to count: {advice}.")
    if counts.totals["unknown"] and not lacks["heads"]:
        raise InputError(
            f"{counts.totals['unknown']} gold words have no head, and others have one: leave their sentences out."
        )
    scores: dict[str, Any] = {name: f1(*found) for name, found in counts.scores.items()}
    scores["whole"] = counts.totals["whole"] / counts.totals["sentences"]
    absent = NEED_HEADS if lacks["heads"] else NEED_RELATIONS if lacks["relations"] else ()
    scores |= dict.fromkeys(absent) | {name: counts.totals[name] for name in ("words", "sentences")}
    tables = {name: records(name, table) for name, table in counts.tables.items()}
    return scores | {
        "relations": [] if "las" in absent else sorted(tables["relation"], key=lambda row: -row["gold"]),
        "lengths": [] if "uas" in absent else sorted(tables["length"], key=lambda row: _first_number(row["length"])),
    }


def _check_words(gold: Treebank, predicted: Treebank, before: int) -> None:
    """Raise unless the words are the same, after ``before`` sentences of other blocks."""
    if len(gold) != len(predicted):
        raise InputError(f"There are {len(gold)} gold sentences, but {len(predicted)} predicted ones.")
    if not np.array_equal(gold.offsets, predicted.offsets):
        s = int(np.argmax(gold.lengths != predicted.lengths))
        raise InputError(
            f"Sentence {before + s + 1} has {gold.lengths[s]} gold words, but {predicted.lengths[s]} predicted ones: "
            "give the same words."
        )
    if gold.strings["forms"] is predicted.strings["forms"] and np.array_equal(gold.forms, predicted.forms):
        return
    first, second, _ = _common_codes("forms", gold, predicted)
    if not np.array_equal(first, second):
        place = int(np.argmax(first != second))
        s = int(np.searchsorted(gold.offsets, place, side="right")) - 1
        own, other = (bank.strings["forms"][bank.forms[place]] for bank in (gold, predicted))
        raise InputError(
            f"Sentence {before + s + 1}, word {place - gold.offsets[s] + 1} is {own!r}, but {other!r} in the "
            "prediction: give the same sentences in the same order."
        )


def _check_trees(gold: Treebank, predicted: Treebank) -> None:
    """Raise where heads are no trees."""
    for which, treebank in (("Gold trees", gold), ("Predicted trees", predicted)):
        try:
            check_heads(treebank.offsets, treebank.heads, "partial")
        except InputError as error:
            raise InputError(f"{which}: {error}") from None


def _common_codes(
    name: str, gold: Treebank, predicted: Treebank, rule: Callable[[str], str] = str
) -> tuple[np.ndarray, np.ndarray, Strings]:
    """Codes of a column of both treebanks in one table, after ``rule`` is applied to each string; and the table."""
    table, codes = Strings(), []
    for treebank in (gold, predicted):
        used, places = np.unique(getattr(treebank, name), return_inverse=True)
        strings = treebank.strings[name].tolist()
        codes.append(table.codes([rule(strings[code]) for code in used.tolist()], grow=True)[places])
    return codes[0], codes[1], table


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


class _Words(NamedTuple):
    """Comparison of two annotations of the same words; in pairs the gold one comes first.

    Attributes
    ----------
    counted : bool array of shape (n_words,)
    right : dict of str to bool array
        Agreement, by column.
    relations : pair of int arrays
        Universal relations as codes of the ``table``.
    table : Strings
    heads : pair of int arrays
    firsts : int array
        First word of the sentence of each word.
    """

    counted: np.ndarray
    right: dict[str, np.ndarray]
    relations: tuple[np.ndarray, np.ndarray]
    table: Strings
    heads: tuple[np.ndarray, np.ndarray]
    firsts: np.ndarray

    @classmethod
    def of(cls, gold: Treebank, predicted: Treebank, counted: np.ndarray) -> "_Words":
        right, rules = {}, {"feats": universal_features}
        for name in ("upos", "xpos", "feats", "lemmas", "deprels"):
            own, other, _ = _common_codes(name, gold, predicted, rules.get(name, str))
            right[name] = own == other
        right["lemmas"] |= gold.lemmas == 0
        right["heads"] = (gold.heads == predicted.heads) & (gold.heads >= 0)
        own, other, table = _common_codes("deprels", gold, predicted, universal_relation)
        right["relations"] = own == other
        firsts = np.repeat(gold.offsets[:-1], gold.lengths)
        return cls(counted, right, (own, other), table, (gold.heads, predicted.heads), firsts)

    def have(self, relations: frozenset) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the words with one of these relations, in each treebank."""
        known = np.array([relation in relations for relation in self.table])
        return known[self.relations[0]], known[self.relations[1]]

    def has_right_function_words(self) -> np.ndarray:
        """Mask of the words with the same function words below them, with the same tags and relations."""
        functions = self.have(FUNCTION_RELATIONS)
        same = np.logical_and.reduce([self.right[name] for name in ("heads", "relations", "upos", "feats")])
        has = np.ones(len(same), dtype=bool)
        for is_function, heads in zip(functions, self.heads):
            wrong = is_function & ~same & (heads > 0)
            has[self.firsts[wrong] + heads[wrong] - 1] = False
        return has


class _Counts(NamedTuple):
    """Counts ``[gold, predicted, correct]`` of each score and of each row of a table, over pairs of treebanks."""

    scores: dict[str, np.ndarray]
    totals: Counter
    tables: dict[str, dict[str, np.ndarray]]

    def add(self, words: _Words, gold: Treebank) -> None:
        """Count a pair of treebanks."""
        r, counted = words.right, words.counted
        labeled = r["heads"] & r["relations"]
        content = words.have(CONTENT_RELATIONS)
        everywhere = np.ones_like(counted), np.ones_like(counted)
        tags = r["upos"] & r["feats"]
        for name, found, (of_gold, of_predicted) in (
            ("upos", r["upos"], everywhere), ("xpos", r["xpos"], everywhere), ("ufeats", r["feats"], everywhere),
            ("alltags", tags & r["xpos"], everywhere), ("lemmas", r["lemmas"], everywhere),
            ("uas", r["heads"], everywhere), ("las", labeled, everywhere), ("clas", labeled, content),
            ("mlas", labeled & tags & words.has_right_function_words(), content),
            ("blex", labeled & r["lemmas"], content), ("las_subtypes", r["heads"] & r["deprels"], everywhere),
        ):  # fmt: skip
            masks = of_gold & counted, of_predicted & counted, found & of_gold & counted
            self.scores[name] = self.scores.get(name, 0) + np.array([np.count_nonzero(mask) for mask in masks])
        wrong = np.add.reduceat(counted & ~r["heads"], gold.offsets[:-1]) if len(gold) else np.zeros(0)
        self.totals.update(words=int(counted.sum()), sentences=len(gold), whole=int(np.count_nonzero(wrong == 0)))
        self._add_rows("relation", words.relations, words.table.tolist(), labeled, counted)
        ids = np.arange(1, len(counted) + 1) - words.firsts
        lengths = [np.where(heads > 0, np.abs(heads - ids), np.minimum(heads, 0)) for heads in words.heads]
        # words without a head have a row named MISSING, which _add_rows leaves out
        longest = max(int(length.max(initial=0)) for length in lengths)
        names = [MISSING, "root", *map(distance_name, range(1, 1 + longest))]
        self._add_rows("length", [length + 1 for length in lengths], names, r["heads"], counted)

    def _add_rows(
        self, table: str, codes: Sequence[np.ndarray], names: list[str], right: np.ndarray, counted: np.ndarray
    ) -> None:
        """Count the rows of a table, by the code of each word in both treebanks."""
        columns = codes[0][counted], codes[1][counted], codes[0][counted & right]
        for name, found in zip(names, np.stack([np.bincount(c, minlength=len(names)) for c in columns], axis=1)):
            if found.any() and name != MISSING:
                self.tables[table][name] = self.tables[table].get(name, 0) + found


def _first_number(length: str) -> int:
    return 0 if length == "root" else int(length.split("-")[0].rstrip("+"))


#: A column and a predicate of its strings, by the name of the rule.
RULES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "upos": ("upos", lambda tag: tag == "PUNCT"),
    "xpos": ("xpos", PENN_TAGS.__contains__),
    "form": ("forms", lambda form: all(unicodedata.category(c)[0] == "P" for c in form)),
}


def is_punctuation(treebank: Treebank, rule: Rule) -> np.ndarray:
    """Mask of the words that a rule of :meth:`~omkl.DependencyParser.evaluate` leaves out."""
    if rule is None:
        return np.zeros(treebank.n_words, dtype=bool)
    if callable(rule):
        columns = [strings_of(treebank, name) for name in ("forms", "upos", "xpos")]
        return np.array([bool(rule(*word)) for word in zip(*columns)], dtype=bool)
    if rule not in RULES:
        raise InputError(f"`ignore` must be one of None, 'upos', 'xpos', 'form' or a function, got {rule!r}.")
    column, matches = RULES[rule]
    return np.array([matches(string) for string in treebank.strings[column]], dtype=bool)[getattr(treebank, column)]
