"""Evaluation of annotated sentences as in the CoNLL 2018 shared task, after alignment of their
words.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl.data import Strings, Treebank
from omkl.data.treebank.strings import MISSING
from omkl.estimators.validation import OneOf
from omkl.exceptions import InputError
from omkl.groups.templates.language import DISTANCE_BINS, distance_name
from omkl.parsing.sentences import as_treebank, strings_of
from omkl.sequences.evaluation import records

_RANGE = re.compile(rb"^([0-9]+)-([0-9]+)\t([^\t\n]*)", re.MULTILINE)
#: Number of characters to show where two texts differ.
SHOWN = 20


class Word(NamedTuple):
    """A word: its form in lower case, the characters of its token, and whether the token is a
    multiword token.
    """

    form: str
    start: int
    end: int
    in_multiword: bool


class Segmentation(NamedTuple):
    """Tokens and words of a treebank; spans are numbers of characters, without whitespace, from
    start to end.

    Attributes
    ----------
    characters : str
    words : list of Word
    tokens, sentences : set of (int, int)
    """

    characters: str
    words: list[Word]
    tokens: set[tuple[int, int]]
    sentences: set[tuple[int, int]]

    @classmethod
    def of(cls, treebank: Treebank) -> "Segmentation":
        """Find the tokens of a treebank; without its text, every word is a token."""
        ranges, parts, words = ranges_of(treebank), [], []
        at = last = 0
        tokens = []
        for i, form in enumerate(strings_of(treebank, "forms")):
            if i in ranges or i >= last:
                last, own = ranges.get(i, (i, form))
                own = "".join(own.split())
                parts.append(own)
                tokens.append((at, at + len(own)))
                at += len(own)
            words.append(Word(form.lower(), *tokens[-1], i < last))
        bounds = [words[i].start for i in treebank.offsets[:-1].tolist()] + [at]
        return cls("".join(parts), words, set(tokens), set(pairwise(bounds)))


def ranges_of(treebank: Treebank) -> dict[int, tuple[int, str]]:
    """Return the multiword tokens of a treebank, by their first word: the end of their words, and
    the form.
    """
    if treebank.text is None or treebank.text_offsets is None or treebank.format != "conllu":
        return {}
    found = list(_RANGE.finditer(treebank.text))
    places = np.array([match.start() for match in found], np.int64)
    firsts = treebank.offsets[
        np.searchsorted(treebank.text_offsets, places, side="right") - 1
    ].tolist()
    own = zip(firsts, found)
    return {
        first + int(match[1]) - 1: (first + int(match[2]), match[3].decode())
        for first, match in own
    }


def check_characters(gold: Segmentation, predicted: Segmentation) -> None:
    """Raise InputError if the characters of two treebanks differ."""
    ours, theirs = gold.characters, predicted.characters
    if ours == theirs:
        return
    n = min(len(ours), len(theirs))
    at = next((i for i in range(n) if ours[i] != theirs[i]), n)
    remark = ""
    if unicodedata.normalize("NFC", ours) == unicodedata.normalize("NFC", theirs):
        remark = "; they are equal in Unicode's normal form NFC"
    raise InputError(
        f"Both treebanks must have the same characters; at character {at + 1}, the gold one has "
        f"{_characters_at(ours, at)}, and the other one has {_characters_at(theirs, at)}{remark}."
    )


def _characters_at(text: str, at: int) -> str:
    """Show the characters of a text from a place on, and the code of the first one, as some look
    alike.
    """
    code = f" (U+{ord(text[at]):04X})" if at < len(text) else ""
    return f"{text[at : at + SHOWN]!r}{code}"


def aligned(gold: Sequence[Word], predicted: Sequence[Word]) -> np.ndarray:
    """Align words of the same characters, and return the indices of aligned words, (n, 2).

    Words are aligned if they are tokens of the same characters. The words around multiword tokens
    are aligned by the longest common subsequence of their forms (Zeman et al. 2018).
    """
    pairs: list[tuple[int, int]] = []
    g = p = 0
    while g < len(gold) and p < len(predicted):
        ours, theirs = gold[g], predicted[p]
        if ours.in_multiword or theirs.in_multiword:
            if not theirs.in_multiword and theirs.start < ours.start:
                p += 1
            elif not ours.in_multiword and ours.start < theirs.start:
                g += 1
            g_end, p_end = _multiword_span(
                gold, predicted, g, p, ours.end if ours.in_multiword else theirs.end
            )
            common = _common(
                [word.form for word in gold[g:g_end]], [word.form for word in predicted[p:p_end]]
            )
            pairs += [(g + i, p + j) for i, j in common]
            g, p = g_end, p_end
        elif (ours.start, ours.end) == (theirs.start, theirs.end):
            pairs.append((g, p))
            g, p = g + 1, p + 1
        elif ours.start <= theirs.start:
            g += 1
        else:
            p += 1
    return np.array(pairs, np.int64).reshape(-1, 2)


def _multiword_span(
    gold: Sequence[Word], predicted: Sequence[Word], g: int, p: int, end: int
) -> tuple[int, int]:
    """Return the ends of the words up to character ``end``, which grows with multiword tokens that
    begin before it.
    """

    def is_inside(words: Sequence[Word], i: int) -> bool:
        return i < len(words) and (
            words[i].start < end if words[i].in_multiword else words[i].end <= end
        )

    while is_inside(gold, g) or is_inside(predicted, p):
        if g < len(gold) and (p >= len(predicted) or gold[g].start <= predicted[p].start):
            word, g = gold[g], g + 1
        else:
            word, p = predicted[p], p + 1
        end = max(end, word.end) if word.in_multiword else end
    return g, p


def _common(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Return the places of the longest common subsequence of two lists; of several, our later ones
    are left out.
    """
    longest = np.zeros((len(ours) + 1, len(theirs) + 1), np.int64)
    for i in reversed(range(len(ours))):
        for j in reversed(range(len(theirs))):
            both = longest[i + 1, j + 1] + 1 if ours[i] == theirs[j] else 0
            longest[i, j] = max(both, longest[i + 1, j], longest[i, j + 1])
    pairs, i, j = [], 0, 0
    while i < len(ours) and j < len(theirs):
        if ours[i] == theirs[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i, j] == longest[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs


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
#: Columns of which each score needs one in the gold sentences.
NEED_COLUMNS = {
    "upos": ("upos",),
    "xpos": ("xpos",),
    "ufeats": ("feats",),
    "alltags": ("upos", "xpos", "feats"),
}
NEED_COLUMNS |= {"lemmas": ("lemmas",), "mlas": ("upos", "feats"), "blex": ("lemmas",)}
#: Heads that are no word, and words without an aligned gold word.
ROOT, NO_HEAD, UNALIGNED = -1, -2, -3
#: Rule for words to ignore: the name of a rule, or a function of form, UPOS and XPOS.
Rule: TypeAlias = str | Callable[[str, str, str], bool] | None
#: Masks of the words of both treebanks, or their indices.
Masks: TypeAlias = tuple[np.ndarray, np.ndarray]
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
    >>> gold = Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", "root"])
    >>> wrong = Sentence(forms=["No", "way"], heads=[0, 1], deprels=["root", "dep"])
    >>> gold, wrong = (Treebank.from_sentences([sentence]) for sentence in (gold, wrong))
    >>> evaluate_treebanks(gold, gold)["las"], evaluate_treebanks(gold, wrong)["uas"]
    (1.0, 0.0)
    """
    return evaluate_blocks([(gold, predicted)], ignore)


def evaluate_blocks(
    pairs: Iterable[tuple[Treebank, Treebank]], ignore: Rule = None
) -> dict[str, Any]:
    """Compare several pairs of treebanks together; see :func:`evaluate_treebanks`."""
    counts, lacks, n_unknown = _Counts(), {"heads": True, "relations": True}, 0
    lacking = {column for columns in NEED_COLUMNS.values() for column in columns}
    for gold, predicted in pairs:
        words = counts.add_spans(gold, predicted)
        counts.add(
            as_treebank(gold, trees="partial"),
            as_treebank(predicted, trees="partial"),
            words,
            ignore,
        )
        lacks["heads"] &= bool((gold.heads < 0).all() or (predicted.heads < 0).all())
        lacking -= {column for column in lacking if gold.codes(column).any()}
        lacks["relations"] &= not (gold.deprels.any() and predicted.deprels.any())
        n_unknown += int(
            np.count_nonzero((gold.heads[words[0]] < 0) & (predicted.heads[words[1]] >= 0))
        )
    if not counts.scores["upos"].any():
        raise InputError("No word counts: give sentences, or choose another ignore=.")
    if n_unknown and not lacks["heads"]:
        raise InputError(
            f"{n_unknown} gold words have no head, and others have one: leave their sentences out."
        )
    scores: dict[str, Any] = {row["score"]: row["f1"] for row in records("score", counts.scores)}
    scores["whole"] = counts.whole / counts.sentences
    absent = NEED_HEADS if lacks["heads"] else NEED_RELATIONS if lacks["relations"] else ()
    scores |= dict.fromkeys(
        score for score, columns in NEED_COLUMNS.items() if lacking.issuperset(columns)
    )
    scores |= dict.fromkeys(absent) | {
        "words": int(counts.scores["upos"][0]),
        "sentences": counts.sentences,
    }
    relations, lengths = (records(name, counts.tables[name]) for name in ("relation", "length"))
    order = ["root", *map(distance_name, DISTANCE_BINS)]
    return scores | {
        "relations": [] if "las" in absent else sorted(relations, key=lambda row: -row["gold"]),
        "lengths": []
        if "uas" in absent
        else sorted(lengths, key=lambda row: order.index(row["length"])),
    }


def _common_codes(
    name: str, gold: Treebank, predicted: Treebank, rule: Callable[[str], str] = str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Apply ``rule`` to the strings of a column; return codes of both treebanks in a common table,
    and the table.
    """
    table, codes = Strings(), []
    for treebank in (gold, predicted):
        used, places = np.unique(treebank.codes(name), return_inverse=True)
        strings = treebank.strings[name].tolist()
        codes.append(
            table.codes([rule(strings[code]) for code in used.tolist()], grow=True)[places]
        )
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
    return (
        "|".join(sorted(f for f in feats.split("|") if f.partition("=")[0] in UNIVERSAL_FEATURES))
        or MISSING
    )


class _Counts:
    """Counts ``[gold, predicted, correct]`` of scores and of rows of tables, over pairs of
    treebanks.
    """

    def __init__(self) -> None:
        self.sentences = self.whole = 0
        self.scores: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(3, np.int64))
        self.tables: dict[str, dict[str, np.ndarray]] = {
            name: defaultdict(lambda: np.zeros(3, np.int64)) for name in ("relation", "length")
        }

    def add_spans(self, gold: Treebank, predicted: Treebank) -> tuple[np.ndarray, np.ndarray]:
        """Add the counts of tokens, words and sentences; return the indices of aligned words in
        both treebanks.
        """
        forms, others, _ = _common_codes("forms", gold, predicted)
        are_same = np.array_equal(gold.offsets, predicted.offsets) and np.array_equal(forms, others)
        unknown = gold.text is None or predicted.text is None or gold.text is predicted.text
        if are_same and (unknown or ranges_of(gold) == ranges_of(predicted)):
            n = gold.n_words
            for name, size in (("tokens", n), ("words", n), ("sentences", len(gold))):
                self.scores[f"{name}_f1"] += size
            return np.arange(n), np.arange(n)
        own, other = Segmentation.of(gold), Segmentation.of(predicted)
        check_characters(own, other)
        pairs = aligned(own.words, other.words)
        for name in ("tokens", "sentences"):
            spans, found = getattr(own, name), getattr(other, name)
            self.scores[f"{name}_f1"] += [len(spans), len(found), len(spans & found)]
        self.scores["words_f1"] += [len(own.words), len(other.words), len(pairs)]
        return pairs[:, 0], pairs[:, 1]

    def add(self, gold: Treebank, predicted: Treebank, words: Masks, ignore: Rule) -> None:
        """Add the counts of a pair of treebanks, whose ``words`` of these indices are aligned."""
        ours, theirs = words
        counted, others = ~is_punctuation(gold, ignore), ~is_punctuation(predicted, ignore)
        others[theirs] = counted[ours]
        right = {}
        for name in ("upos", "xpos", "feats", "lemmas", "deprels"):
            rule = universal_features if name == "feats" else str
            own, other, _ = _common_codes(name, gold, predicted, rule)
            right[name] = own[ours] == other[theirs]
        parents, guesses = _parents_of(gold), _parents_of(predicted)
        gold_of = np.full(predicted.n_words, UNALIGNED)
        gold_of[theirs] = ours
        aligned_guesses = guesses.copy()  # ROOT and NO_HEAD stay
        aligned_guesses[guesses >= 0] = gold_of[guesses[guesses >= 0]]
        heads = (parents[ours] == aligned_guesses[theirs]) & (parents[ours] != NO_HEAD)
        *relations, table = _common_codes("deprels", gold, predicted, universal_relation)
        labeled = heads & (relations[0][ours] == relations[1][theirs])
        lemmas, tags = right["lemmas"] | (gold.lemmas[ours] == 0), right["upos"] & right["feats"]
        differ, same = (
            np.zeros(len(ours), dtype=bool),
            labeled & tags,
        )  # of the function words that depend on a word
        for own, above, is_function in zip(
            words, (parents, guesses), _have(FUNCTION_RELATIONS, relations, table)
        ):
            wrong, of_head = is_function & (above >= 0), np.zeros(len(above), dtype=bool)
            wrong[own[same]] = False
            of_head[above[wrong]] = True
            differ |= of_head[own]
        content = _have(CONTENT_RELATIONS, relations, table)
        everywhere = [np.ones_like(counted), np.ones_like(others)]
        for name, found, (of_gold, of_predicted) in (
            ("upos", right["upos"], everywhere), ("xpos", right["xpos"], everywhere),
            ("ufeats", right["feats"], everywhere), ("alltags", tags & right["xpos"], everywhere),
            ("lemmas", lemmas, everywhere), ("uas", heads, everywhere), ("las", labeled, everywhere),
            ("clas", labeled, content), ("mlas", labeled & tags & ~differ, content),
            ("blex", labeled & lemmas, content), ("las_subtypes", heads & right["deprels"], everywhere),
        ):  # fmt: skip
            masks = of_gold & counted, of_predicted & others, found & (of_gold & counted)[ours]
            self.scores[name] += [np.count_nonzero(mask) for mask in masks]
        attached, related = np.zeros((2, gold.n_words), bool)
        attached[ours], related[ours], self.sentences = heads, labeled, self.sentences + len(gold)
        if len(gold):
            self.whole += int(
                np.count_nonzero(np.add.reduceat(counted & ~attached, gold.offsets[:-1]) == 0)
            )
        self._add_rows("relation", relations, table, (counted, others, counted & related))
        lengths = []  # 0 for the root, and -1 without a head
        for treebank, above in ((gold, parents), (predicted, guesses)):
            distances = np.abs(above - np.arange(len(above)))
            lengths.append(np.where(above >= 0, distances, np.minimum(treebank.heads, 0)))
        names = [
            MISSING,
            "root",
            *map(distance_name, range(1, 1 + max(own.max(initial=0) for own in lengths))),
        ]
        self._add_rows(
            "length",
            [length + 1 for length in lengths],
            names,
            (counted, others, counted & attached),
        )

    def _add_rows(
        self, table: str, codes: Sequence[np.ndarray], names: list[str], masks: Sequence[np.ndarray]
    ) -> None:
        """Add to the rows of a table; ``codes`` are the rows of each word in both treebanks.

        ``masks`` are the gold words, the predicted words, and the gold words that are right.
        """
        columns = codes[0][masks[0]], codes[1][masks[1]], codes[0][masks[2]]
        for name, found in zip(
            names, np.stack([np.bincount(c, minlength=len(names)) for c in columns], axis=1)
        ):
            if found.any() and name != MISSING:
                self.tables[table][name] += found


def _parents_of(treebank: Treebank) -> np.ndarray:
    """Return the index of the head of each word in the treebank, or ROOT or NO_HEAD."""
    heads = treebank.heads.astype(np.int64)
    firsts = np.repeat(treebank.offsets[:-1], treebank.lengths)
    return np.where(heads > 0, firsts + heads - 1, np.where(heads == 0, ROOT, NO_HEAD))


def _have(
    names: frozenset[str], relations: Sequence[np.ndarray], table: list[str]
) -> list[np.ndarray]:
    """Return masks of the words with one of the relations ``names``, for each treebank."""
    known = np.array([relation in names for relation in table])
    return [known[codes] for codes in relations]


def is_punctuation(treebank: Treebank, rule: Rule) -> np.ndarray:
    """Return a mask of the words to ignore by a rule of :meth:`~omkl.DependencyParser.evaluate`."""
    if rule is None:
        return np.zeros(treebank.n_words, dtype=bool)
    if callable(rule):
        columns = [strings_of(treebank, name) for name in ("forms", "upos", "xpos")]
        return np.array([bool(rule(*word)) for word in zip(*columns)], dtype=bool)
    OneOf((None, *RULES)).check("ignore", rule)
    column, matches = RULES[rule]
    return np.array([matches(string) for string in treebank.strings[column]], dtype=bool)[
        treebank.codes(column)
    ]
