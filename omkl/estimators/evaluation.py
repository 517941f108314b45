"""Scores of annotated sentences beside gold ones, as the CoNLL 2018 shared task defines them."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.strings import MISSING
from omkl.data.treebank import check_heads
from omkl.data.treebank_formats import Checks
from omkl.estimators.counts import f1, records
from omkl.estimators.punctuation import is_punctuation
from omkl.exceptions import InputError
from omkl.groups import distance_name

#: Universal relations between content words, which CLAS, MLAS and BLEX count.
CONTENT_RELATIONS = frozenset({
    "nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "vocative", "expl", "dislocated", "advcl", "advmod",
    "discourse", "nmod", "appos", "nummod", "acl", "amod", "conj", "fixed", "flat", "compound", "list", "parataxis",
    "orphan", "goeswith", "reparandum", "root", "dep",
})  # fmt: skip
#: Universal relations of function words, which MLAS asks for at the head.
FUNCTION_RELATIONS = frozenset({"aux", "cop", "mark", "det", "clf", "case", "cc"})
#: The features of UFeats.
UNIVERSAL_FEATURES = frozenset({
    "PronType", "NumType", "Poss", "Reflex", "Foreign", "Abbr", "Gender", "Animacy", "Number", "Case", "Definite",
    "Degree", "VerbForm", "Mood", "Tense", "Aspect", "Voice", "Evident", "Polarity", "Person", "Polite",
})  # fmt: skip
#: Scores that are not there without heads, and without relations.
NEED_HEADS = ("uas", "las", "clas", "mlas", "blex", "las_subtypes", "whole")
NEED_RELATIONS = ("las", "clas", "mlas", "blex", "las_subtypes")


def evaluate_treebanks(gold: Treebank, predicted: Treebank, ignore: str | Callable[..., bool] | None = None) -> dict:
    """Compare annotated sentences with gold ones, word by word.

    The scores are those of the evaluation script of the CoNLL 2018 shared task (Zeman et al. 2018, *CoNLL 2018 Shared
    Task: Multilingual Parsing from Raw Text to Universal Dependencies*) for the same words in both: F1 for CLAS, MLAS
    and BLEX, whose words depend on the relations, and accuracy, which F1 then is, for all others.

    Parameters
    ----------
    gold, predicted : Treebank
        The same words. The tables of strings may be others.
    ignore : {None, "upos", "xpos", "form"} or callable
        Which words do not count, by what ``gold`` says of them; see :meth:`omkl.DependencyParser.evaluate`.

    Returns
    -------
    dict
        In [0, 1]: ``upos``, ``xpos``; ``ufeats`` (the universal features alone), ``alltags`` (those three together),
        ``lemmas`` (a missing gold lemma is always right); ``uas``, and ``las`` with universal relations, what is before
        the colon; ``clas`` (las over content words), ``mlas`` (clas where tag and universal features are right too,
        and those, the relations and the heads of all function words below), ``blex`` (clas where the lemma is right
        too); ``las_subtypes`` (las with relations as they are written), ``whole`` (the share of sentences in which
        every head is right). Those that need heads or relations are None where one of the two treebanks has none.
        Then ``words`` and ``sentences``, counts; and two tables, lists of flat records with ``gold``, ``predicted``
        and ``correct`` (counts), ``precision``, ``recall`` and ``f1``: ``relations``, universal relations with right
        heads, by ``relation``, and ``lengths``, heads by ``length``, the distance from head to word, or ``"root"``.

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


def evaluate_blocks(
    pairs: Iterable[tuple[Treebank, Treebank]], ignore: str | Callable[..., bool] | None = None
) -> dict[str, Any]:
    """What :func:`evaluate_treebanks` tells, of several pairs of treebanks together."""
    counts, lacks = _Counts({}, Counter(), {"relation": {}, "length": {}}), {"heads": True, "relations": True}
    for gold, predicted in pairs:
        _check_words(gold, predicted, counts.totals["sentences"])
        _check_trees(gold, predicted)
        words = _Words.of(gold, predicted, ~is_punctuation(gold, ignore))
        counts.add(words, gold)
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
    """Raise unless the words are the same; ``before`` sentences come before these."""
    if len(gold) != len(predicted):
        raise InputError(f"There are {len(gold)} gold sentences, but {len(predicted)} others: give the same sentences.")
    if not np.array_equal(gold.offsets, predicted.offsets):
        s = int(np.argmax(gold.lengths != predicted.lengths))
        raise InputError(
            f"Sentence {before + s + 1} has {gold.lengths[s]} words, but {predicted.lengths[s]} in what is compared "
            "with it: sentences must be divided into words as the gold ones are."
        )
    if gold.strings["forms"] is predicted.strings["forms"] and np.array_equal(gold.forms, predicted.forms):
        return
    forms = _common_codes("forms", gold, predicted)
    if not np.array_equal(*forms):
        place = int(np.argmax(forms[0] != forms[1]))
        s = int(np.searchsorted(gold.offsets, place, side="right")) - 1
        own, other = (bank.strings["forms"][bank.forms[place]] for bank in (gold, predicted))
        raise InputError(
            f"Sentence {before + s + 1}, word {place - gold.offsets[s] + 1} is {own!r}, but {other!r} in what is "
            "compared with it: give the same sentences in the same order."
        )


def _check_trees(gold: Treebank, predicted: Treebank) -> None:
    for which, treebank in (("Gold trees", gold), ("Trees compared with gold ones", predicted)):
        try:
            check_heads(treebank.offsets, treebank.heads, Checks("partial"))
        except InputError as error:
            raise InputError(f"{which}: {error}") from None


def _common_codes(
    name: str, gold: Treebank, predicted: Treebank, rule: Callable[[str], str] = str
) -> tuple[np.ndarray, np.ndarray]:
    """A column of two treebanks as codes into one table, of what ``rule`` makes of each string."""
    return _codes_and_table(name, gold, predicted, rule)[0]


def _codes_and_table(name, gold, predicted, rule):
    table, codes = Strings(), []
    for treebank in (gold, predicted):
        used, places = np.unique(getattr(treebank, name), return_inverse=True)
        strings = treebank.strings[name].tolist()
        codes.append(table.codes([rule(strings[code]) for code in used.tolist()], grow=True)[places])
    return (codes[0], codes[1]), table


def universal_relation(relation: str) -> str:
    """What is before the colon.

    >>> universal_relation("nsubj:pass")
    'nsubj'
    """
    return relation.partition(":")[0]


def universal_features(feats: str) -> str:
    """The universal features among those of a word, in alphabetical order.

    >>> universal_features("Typo=Yes|Number=Sing|Case=Nom")
    'Case=Nom|Number=Sing'
    """
    return "|".join(sorted(f for f in feats.split("|") if f.partition("=")[0] in UNIVERSAL_FEATURES)) or MISSING


class _Words(NamedTuple):
    """What two treebanks say of the same words: pairs of arrays, gold first, or masks."""

    counted: np.ndarray
    right: dict[str, np.ndarray]  # masks, by column
    relations: tuple[np.ndarray, np.ndarray]  # universal ones, as codes of the table
    table: Strings
    heads: tuple[np.ndarray, np.ndarray]
    firsts: np.ndarray  # the first word of the sentence of each word

    @classmethod
    def of(cls, gold: Treebank, predicted: Treebank, counted: np.ndarray) -> "_Words":
        right, rules = {}, {"feats": universal_features}
        for name in ("upos", "xpos", "feats", "lemmas", "deprels"):
            own, other = _common_codes(name, gold, predicted, rules.get(name, str))
            right[name] = own == other
        right["lemmas"] |= gold.lemmas == 0
        right["heads"] = (gold.heads == predicted.heads) & (gold.heads >= 0)
        relations, table = _codes_and_table("deprels", gold, predicted, universal_relation)
        right["relations"] = relations[0] == relations[1]
        firsts = np.repeat(gold.offsets[:-1], gold.lengths)
        return cls(counted, right, relations, table, (gold.heads, predicted.heads), firsts)

    def are(self, relations: frozenset) -> tuple[np.ndarray, np.ndarray]:
        """Which words have one of these relations, in each treebank."""
        known = np.array([relation in relations for relation in self.table])
        return known[self.relations[0]], known[self.relations[1]]

    def has_right_function_words(self) -> np.ndarray:
        """Which words have the same function words below them in both treebanks, with the same tags and relations."""
        functions = self.are(FUNCTION_RELATIONS)
        same = np.logical_and.reduce([self.right[name] for name in ("heads", "relations", "upos", "feats")])
        has = np.ones(len(same), dtype=bool)
        for is_function, heads in zip(functions, self.heads):
            wrong = is_function & ~same & (heads > 0)
            has[self.firsts[wrong] + heads[wrong] - 1] = False
        return has


class _Counts(NamedTuple):
    """Sums over pairs of treebanks: ``[gold, predicted, correct]`` of each score, and of each row of a table."""

    scores: dict[str, np.ndarray]
    totals: Counter
    tables: dict[str, dict[str, np.ndarray]]

    def add(self, words: _Words, gold: Treebank) -> None:
        """Count a pair of treebanks."""
        r, counted = words.right, words.counted
        labeled = r["heads"] & r["relations"]
        content = words.are(CONTENT_RELATIONS)
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
        # heads that are missing have a row of their own, which is left out
        longest = max(int(length.max(initial=0)) for length in lengths)
        names = [MISSING, "root", *map(distance_name, range(1, 1 + longest))]
        self._add_rows("length", [length + 1 for length in lengths], names, r["heads"], counted)

    def _add_rows(self, table, codes, names, right, counted):
        columns = codes[0][counted], codes[1][counted], codes[0][counted & right]
        for name, found in zip(names, np.stack([np.bincount(c, minlength=len(names)) for c in columns], axis=1)):
            if found.any() and name != MISSING:
                self.tables[table][name] = self.tables[table].get(name, 0) + found


def _first_number(length: str) -> int:
    return 0 if length == "root" else int(length.split("-")[0].rstrip("+"))
