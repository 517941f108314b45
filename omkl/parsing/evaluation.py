"""Evaluation of annotated sentences as in the CoNLL 2018 shared task."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.treebank.strings import MISSING
from omkl.estimators.validation import OneOf
from omkl.exceptions import InputError
from omkl.groups.templates.language import DISTANCE_BINS, distance_name
from omkl.parsing.alignment import (
    Segmentation,
    align_words,
    check_characters,
    multiword_tokens_of,
)
from omkl.parsing.sentences import as_treebank, strings_of
from omkl.sequences.evaluation import records

#: Universal relations of content words, which CLAS, MLAS and BLEX count.
CONTENT_RELATIONS = frozenset({
    "nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "vocative", "expl", "dislocated",
    "advcl", "advmod", "discourse", "nmod", "appos", "nummod", "acl", "amod", "conj", "fixed",
    "flat", "compound", "list", "parataxis", "orphan", "goeswith", "reparandum", "root", "dep",
})  # fmt: skip
#: Universal relations of function words, which MLAS compares below each content word.
FUNCTION_RELATIONS = frozenset({"aux", "cop", "mark", "det", "clf", "case", "cc"})
#: Universal features, compared by UFeats.
UNIVERSAL_FEATURES = frozenset({
    "PronType", "NumType", "Poss", "Reflex", "Foreign", "Abbr", "Gender", "Animacy", "Number",
    "Case", "Definite", "Degree", "VerbForm", "Mood", "Tense", "Aspect", "Voice", "Evident",
    "Polarity", "Person", "Polite",
})  # fmt: skip
#: Scores that require heads, and scores that also require relations.
NEED_HEADS = ("uas", "las", "clas", "mlas", "blex", "las_subtypes", "whole")
NEED_RELATIONS = ("las", "clas", "mlas", "blex", "las_subtypes")
#: Scores that count content words only.
OF_CONTENT_WORDS = ("clas", "mlas", "blex")
#: Columns of which each score needs one in the gold sentences.
NEED_COLUMNS = {
    "upos": ("upos",),
    "xpos": ("xpos",),
    "ufeats": ("feats",),
    "alltags": ("upos", "xpos", "feats"),
    "lemmas": ("lemmas",),
    "mlas": ("upos", "feats"),
    "blex": ("lemmas",),
}
#: Entries of the scores of the segmentation, and of those of words, by their names in reports.
SEGMENTATION = {name: f"{name}_f1" for name in ("tokens", "words", "sentences")}
SCORES = {
    "UPOS": "upos",
    "XPOS": "xpos",
    "UFeats": "ufeats",
    "AllTags": "alltags",
    "Lemmas": "lemmas",
    "UAS": "uas",
    "LAS": "las",
    "CLAS": "clas",
    "MLAS": "mlas",
    "BLEX": "blex",
    "LAS with subtypes": "las_subtypes",
    "sentences whole": "whole",
}
#: Part of an annotator that a score is about; all others are about trees.
PART_OF_SCORE = {
    **dict.fromkeys(SEGMENTATION, "tokens"),
    "UPOS": "upos",
    "XPOS": "xpos",
    "UFeats": "feats",
    "AllTags": "upos",
    "Lemmas": "lemmas",
}
#: Heads that are no word, and words without an aligned gold word.
ROOT, NO_HEAD, UNALIGNED = -1, -2, -3
#: Rule for words to ignore: the name of a rule, or a function of form, UPOS and XPOS.
Rule: TypeAlias = str | Callable[[str, str, str], bool] | None
#: Tags of punctuation in the Penn treebank.
PENN_TAGS = frozenset(["``", "''", ":", ",", "."])
#: Rules by name: a column, and a predicate on its strings.
RULES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "upos": ("upos", lambda tag: tag == "PUNCT"),
    "xpos": ("xpos", PENN_TAGS.__contains__),
    "form": ("forms", lambda form: all(unicodedata.category(char)[0] == "P" for char in form)),
}
#: Columns of the counts of a score or of a row of a table.
GOLD, PREDICTED, CORRECT = 0, 1, 2


class BySide(NamedTuple):
    """Arrays of the words of both treebanks: masks, indices or codes."""

    gold: np.ndarray
    predicted: np.ndarray

    def __and__(self, other: "BySide") -> "BySide":
        return BySide(gold=self.gold & other.gold, predicted=self.predicted & other.predicted)


def evaluate_treebanks(gold: Treebank, predicted: Treebank, ignore: Rule = None) -> dict:
    """Compare annotated sentences with gold sentences, word by word.

    The scores are those of the evaluation script of the CoNLL 2018 shared task (Zeman et al. 2018,
    *CoNLL 2018 Shared Task: Multilingual Parsing from Raw Text to Universal Dependencies*). Words
    of the two treebanks are aligned by characters. All scores are F1 scores; where the words are
    identical, F1 equals accuracy, except for CLAS, MLAS and BLEX, because the words that these
    count depend on the relations.

    Parameters
    ----------
    gold, predicted : Treebank
        Annotations of the same text, or of the same words. Multiword tokens are known if the
        treebanks have their text (``keep_text=True``).
    ignore : {None, "upos", "xpos", "form"} or callable
        Words to ignore, by their gold columns; see :meth:`omkl.DependencyParser.evaluate`.

    Returns
    -------
    dict
        Scores in [0, 1]:

        * ``upos``, ``xpos``, ``ufeats`` (universal features), ``alltags`` (all three), ``lemmas``
          (always correct if the gold lemma is missing);
        * ``uas``, ``las`` (universal relations, without subtypes), ``las_subtypes``, ``clas`` (LAS
          of content words), ``mlas`` (CLAS that also requires correct UPOS, features and dependent
          function words), ``blex`` (CLAS that also requires the correct lemma);
        * ``tokens_f1``, ``words_f1`` and ``sentences_f1``, of the segmentation;
        * ``whole``, the fraction of gold sentences whose heads are all correct.

        A score is None if one of the treebanks lacks the heads or relations that it requires, or
        the gold sentences lack its column. ``words`` and
        ``sentences`` are counts of gold words and sentences. ``relations`` and ``lengths`` are
        tables: lists of records with ``gold``, ``predicted`` and ``correct`` (counts),
        ``precision``, ``recall`` and ``f1``. ``relations`` counts universal relations with correct
        heads, by ``relation``. ``lengths`` counts heads, by ``length``, the distance from head to
        word or ``"root"``.

    Raises
    ------
    omkl.exceptions.InputError
        If characters differ, heads are not trees, only some of the gold words have heads, or all
        words are ignored.

    >>> from omkl.data import Sentence
    >>> sentence = Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", "root"])
    >>> gold = Treebank.from_sentences([sentence])
    >>> sentence = Sentence(forms=["No", "way"], heads=[0, 1], deprels=["root", "dep"])
    >>> wrong = Treebank.from_sentences([sentence])
    >>> evaluate_treebanks(gold, gold)["las"], evaluate_treebanks(gold, wrong)["uas"]
    (1.0, 0.0)
    """
    return evaluate_blocks([(gold, predicted)], ignore)


def evaluate_blocks(
    pairs: Iterable[tuple[Treebank, Treebank]], ignore: Rule = None
) -> dict[str, Any]:
    """Compare several pairs of treebanks together; see :func:`evaluate_treebanks`."""
    counts = _Counts()
    for gold, predicted in pairs:
        counts.add(gold, predicted, ignore)
    return counts.report()


class CommonCodes(NamedTuple):
    """Codes of the strings of a column of both treebanks in a common table."""

    codes: BySide
    strings: list[str]

    @classmethod
    def of(
        cls, name: str, gold: Treebank, predicted: Treebank, rule: Callable[[str], str] = str
    ) -> "CommonCodes":
        """Encode a column after applying ``rule`` to its strings."""
        table = Strings()
        codes = []
        for treebank in (gold, predicted):
            codes_in_use, indices = np.unique(treebank.codes(name), return_inverse=True)
            strings = treebank.strings[name].tolist()
            changed = [rule(strings[code]) for code in codes_in_use.tolist()]
            codes.append(table.codes(changed, grow=True)[indices])
        return cls(codes=BySide(*codes), strings=table.tolist())

    def are_equal(self, aligned: BySide) -> np.ndarray:
        """Compare aligned words, whose indices are (n,)."""
        return self.codes.gold[aligned.gold] == self.codes.predicted[aligned.predicted]

    def are_in(self, strings: frozenset[str]) -> BySide:
        """Return masks of the words with one of these strings."""
        chosen = np.array([string in strings for string in self.strings])
        return BySide(gold=chosen[self.codes.gold], predicted=chosen[self.codes.predicted])


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
    universal = []
    for feature in sorted(feats.split("|")):
        if feature.partition("=")[0] in UNIVERSAL_FEATURES:
            universal.append(feature)
    return "|".join(universal) or MISSING


def _no_counts() -> np.ndarray:
    return np.zeros(3, np.int64)


class _Counts:
    """Counts of scores and of rows of tables, over pairs of treebanks.

    Attributes
    ----------
    scores : dict of str to int array of shape (3,)
        Counts GOLD, PREDICTED and CORRECT of each score.
    tables : dict of str to dict of str to int array of shape (3,)
        These counts by table and row.
    n_sentences, n_correct_sentences : int
        Number of gold sentences, and of those whose heads are all correct.
    """

    def __init__(self) -> None:
        self.n_sentences = 0
        self.n_correct_sentences = 0
        self.scores: dict[str, np.ndarray] = defaultdict(_no_counts)
        self.tables: dict[str, dict[str, np.ndarray]] = {
            "relation": defaultdict(_no_counts),
            "length": defaultdict(_no_counts),
        }
        #: Whether no pair of treebanks had heads, or relations, on both sides.
        self._lack_heads = True
        self._lack_relations = True
        #: Columns that were empty in all gold treebanks.
        self._empty_columns = set().union(*NEED_COLUMNS.values())
        #: Number of gold words without a head whose aligned words have one.
        self._n_unknown = 0

    def add(self, gold: Treebank, predicted: Treebank, ignore: Rule) -> None:
        """Add the counts of a pair of treebanks."""
        aligned = self._add_spans(gold, predicted)
        self._add_words(
            _Comparison(
                as_treebank(gold, trees="partial"),
                as_treebank(predicted, trees="partial"),
                aligned,
                ignore,
            )
        )
        self._lack_heads &= bool((gold.heads < 0).all() or (predicted.heads < 0).all())
        self._lack_relations &= not (gold.deprels.any() and predicted.deprels.any())
        self._empty_columns -= {name for name in self._empty_columns if gold.codes(name).any()}
        are_unknown = gold.heads[aligned.gold] < 0
        have_head = predicted.heads[aligned.predicted] >= 0
        self._n_unknown += int(np.count_nonzero(are_unknown & have_head))

    def report(self) -> dict[str, Any]:
        """Return scores and tables; see :func:`evaluate_treebanks`."""
        n_words = self.scores["upos"]
        if not n_words.any():
            raise InputError("No word counts: give sentences, or choose another ignore=.")
        if self._n_unknown and not self._lack_heads:
            raise InputError(
                f"{self._n_unknown} gold words have no head, and others have one: "
                "leave their sentences out."
            )
        report = {}
        for row in records("score", self.scores):
            report[row["score"]] = row["f1"]
        report["whole"] = self.n_correct_sentences / self.n_sentences
        for score, columns in NEED_COLUMNS.items():
            if self._empty_columns.issuperset(columns):
                report[score] = None
        relations = records("relation", self.tables["relation"])
        lengths = records("length", self.tables["length"])
        order = ["root", *map(distance_name, DISTANCE_BINS)]
        if self._lack_heads:
            report |= dict.fromkeys(NEED_HEADS)
            lengths = []
        if self._lack_heads or self._lack_relations:
            report |= dict.fromkeys(NEED_RELATIONS)
            relations = []
        report["words"] = int(n_words[GOLD])
        report["sentences"] = self.n_sentences
        report["relations"] = sorted(relations, key=lambda row: -row["gold"])
        report["lengths"] = sorted(lengths, key=lambda row: order.index(row["length"]))
        return report

    def _add_spans(self, gold: Treebank, predicted: Treebank) -> BySide:
        """Add counts of tokens, words and sentences; return the indices of aligned words."""
        forms = CommonCodes.of("forms", gold, predicted).codes
        are_same = np.array_equal(gold.offsets, predicted.offsets) and np.array_equal(*forms)
        lack_text = gold.text is None or predicted.text is None or gold.text is predicted.text
        if are_same and (lack_text or multiword_tokens_of(gold) == multiword_tokens_of(predicted)):
            self.scores["tokens_f1"] += gold.n_words
            self.scores["words_f1"] += gold.n_words
            self.scores["sentences_f1"] += len(gold)
            return BySide(gold=np.arange(gold.n_words), predicted=np.arange(gold.n_words))
        ours = Segmentation.of(gold)
        theirs = Segmentation.of(predicted)
        check_characters(ours.characters, theirs.characters)
        pairs = align_words(ours.words, theirs.words)
        n_tokens = len(ours.tokens & theirs.tokens)
        n_sentences = len(ours.sentences & theirs.sentences)
        self.scores["tokens_f1"] += [len(ours.tokens), len(theirs.tokens), n_tokens]
        self.scores["sentences_f1"] += [len(ours.sentences), len(theirs.sentences), n_sentences]
        self.scores["words_f1"] += [len(ours.words), len(theirs.words), len(pairs)]
        return BySide(gold=pairs[:, 0], predicted=pairs[:, 1])

    def _add_words(self, comparison: "_Comparison") -> None:
        """Add the counts of scores of words, of sentences, and of rows of tables."""
        for name, counts in comparison.counts_of_scores().items():
            self.scores[name] += counts
        gold = comparison.gold
        heads = comparison.gold_mask(comparison.heads)
        self.n_sentences += len(gold)
        if len(gold):
            are_wrong = comparison.counted.gold & ~heads
            n_wrong = np.add.reduceat(are_wrong, gold.offsets[:-1])
            self.n_correct_sentences += int(np.count_nonzero(n_wrong == 0))
        labeled = comparison.gold_mask(comparison.labeled)
        self._add_rows("relation", comparison.relations, comparison.counted, labeled)
        self._add_rows("length", comparison.lengths(), comparison.counted, heads)

    def _add_rows(
        self, table: str, rows: CommonCodes, counted: BySide, correct: np.ndarray
    ) -> None:
        """Add to the rows of a table, given the row of each word, and its correct gold words."""
        rows_of_words = (
            rows.codes.gold[counted.gold],
            rows.codes.predicted[counted.predicted],
            rows.codes.gold[counted.gold & correct],
        )
        n_rows = len(rows.strings)
        counts = np.stack([np.bincount(words, minlength=n_rows) for words in rows_of_words], axis=1)
        for name, counts_of_row in zip(rows.strings, counts):
            if counts_of_row.any() and name != MISSING:
                self.tables[table][name] += counts_of_row


class _Comparison:
    """Comparison of the words of a pair of treebanks.

    Attributes
    ----------
    gold, predicted : Treebank
    aligned : BySide
        Indices of aligned words, both (n,).
    counted : BySide
        Masks of the words that count.
    parents : BySide
        Index of the head of each word, or ROOT or NO_HEAD.
    relations : CommonCodes
        Universal relations.
    heads, labeled : bool array of shape (n,)
        Aligned words with the same head; and with the same head and universal relation.
    """

    def __init__(self, gold: Treebank, predicted: Treebank, aligned: BySide, ignore: Rule) -> None:
        self.gold = gold
        self.predicted = predicted
        self.aligned = aligned
        self.counted = BySide(
            gold=~is_punctuation(gold, ignore), predicted=~is_punctuation(predicted, ignore)
        )
        self.counted.predicted[aligned.predicted] = self.counted.gold[aligned.gold]
        self.parents = BySide(gold=_parents_of(gold), predicted=_parents_of(predicted))
        self.relations = CommonCodes.of("deprels", gold, predicted, universal_relation)
        self.heads = self._are_heads_equal()
        self.labeled = self.heads & self.relations.are_equal(aligned)

    def _are_heads_equal(self) -> np.ndarray:
        """Compare the heads of aligned words, (n,)."""
        gold_words = np.full(self.predicted.n_words, UNALIGNED)
        gold_words[self.aligned.predicted] = self.aligned.gold
        parents = self.parents.predicted.copy()  # ROOT and NO_HEAD stay
        are_words = parents >= 0
        parents[are_words] = gold_words[parents[are_words]]
        gold_parents = self.parents.gold[self.aligned.gold]
        return (gold_parents == parents[self.aligned.predicted]) & (gold_parents != NO_HEAD)

    def _are_equal(self, name: str, rule: Callable[[str], str] = str) -> np.ndarray:
        """Compare a column of aligned words, (n,)."""
        return CommonCodes.of(name, self.gold, self.predicted, rule).are_equal(self.aligned)

    def _have_wrong_function_words(self, are_correct: np.ndarray) -> np.ndarray:
        """Return which aligned words have a function word that is not ``are_correct``, (n,)."""
        are_wrong = np.zeros(len(are_correct), dtype=bool)
        function_words = self.relations.are_in(FUNCTION_RELATIONS)
        for aligned, parents, wrong in zip(self.aligned, self.parents, function_words):
            wrong = wrong & (parents >= 0)
            wrong[aligned[are_correct]] = False
            have_wrong_words = np.zeros(len(parents), dtype=bool)
            have_wrong_words[parents[wrong]] = True
            are_wrong |= have_wrong_words[aligned]
        return are_wrong

    def counts_of_scores(self) -> dict[str, list[int]]:
        """Return the counts GOLD, PREDICTED and CORRECT of each score of words."""
        upos = self._are_equal("upos")
        xpos = self._are_equal("xpos")
        feats = self._are_equal("feats", universal_features)
        lemmas = self._are_equal("lemmas") | (self.gold.lemmas[self.aligned.gold] == 0)
        tags = upos & feats
        tagged = self.labeled & tags
        correct = {
            "upos": upos,
            "xpos": xpos,
            "ufeats": feats,
            "alltags": tags & xpos,
            "lemmas": lemmas,
            "uas": self.heads,
            "las": self.labeled,
            "clas": self.labeled,
            "mlas": tagged & ~self._have_wrong_function_words(tagged),
            "blex": self.labeled & lemmas,
            "las_subtypes": self.heads & self._are_equal("deprels"),
        }
        content = self.counted & self.relations.are_in(CONTENT_RELATIONS)
        counts = {}
        for score, are_correct in correct.items():
            counted = content if score in OF_CONTENT_WORDS else self.counted
            counts[score] = self._counts(are_correct, counted)
        return counts

    def _counts(self, are_correct: np.ndarray, counted: BySide) -> list[int]:
        """Count GOLD, PREDICTED and CORRECT words, given which aligned words are correct, (n,)."""
        masks = (counted.gold, counted.predicted, are_correct & counted.gold[self.aligned.gold])
        return list(map(np.count_nonzero, masks))

    def gold_mask(self, are_correct: np.ndarray) -> np.ndarray:
        """Return a mask of the gold words among the aligned words that are correct, (n,)."""
        mask = np.zeros(self.gold.n_words, dtype=bool)
        mask[self.aligned.gold] = are_correct
        return mask

    def lengths(self) -> CommonCodes:
        """Return the distance from each word to its head; MISSING without a head."""
        rows = []  # 0 without a head, 1 for the root
        for treebank, parents in zip((self.gold, self.predicted), self.parents):
            distances = np.abs(parents - np.arange(len(parents)))
            rows.append(1 + np.where(parents >= 0, distances, np.minimum(treebank.heads, 0)))
        longest = max(lengths.max(initial=1) for lengths in rows) - 1
        names = [MISSING, "root", *map(distance_name, range(1, 1 + longest))]
        return CommonCodes(codes=BySide(*rows), strings=names)


def _parents_of(treebank: Treebank) -> np.ndarray:
    """Return the index of the head of each word in the treebank, or ROOT or NO_HEAD."""
    heads = treebank.heads.astype(np.int64)
    firsts = np.repeat(treebank.offsets[:-1], treebank.lengths)
    return np.where(heads > 0, firsts + heads - 1, np.where(heads == 0, ROOT, NO_HEAD))


def is_punctuation(treebank: Treebank, rule: Rule) -> np.ndarray:
    """Return a mask of the words to ignore by a rule of :meth:`~omkl.DependencyParser.evaluate`."""
    if rule is None:
        return np.zeros(treebank.n_words, dtype=bool)
    if callable(rule):
        columns = [strings_of(treebank, name) for name in ("forms", "upos", "xpos")]
        return np.array([bool(rule(*word)) for word in zip(*columns)], dtype=bool)
    OneOf((None, *RULES)).check("ignore", rule)
    column, matches = RULES[rule]
    matching = np.array(list(map(matches, treebank.strings[column])), dtype=bool)
    return matching[treebank.codes(column)]
