"""Tokenizer, which splits raw text to sentences, tokens and words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from omkl._components import warn_caller
from omkl.annotation import _jit_characters as jit
from omkl.annotation import raw_text, tagger
from omkl.annotation.edits import TAB, WHOLE, apply_rule, rule_of
from omkl.data import Treebank
from omkl.data.streams import Skipped
from omkl.data.treebank.conllu import TreebankReader
from omkl.data.treebank.treebank import new_strings
from omkl.estimators.token_codec import Examples
from omkl.exceptions import DataWarning, InputError
from omkl.groups.tables import ExplicitBank, TransitionBank
from omkl.groups.tokens import Features, Tokens
from omkl.losses.structured import StructuredHinge
from omkl.online.averaging import PolynomialAverage
from omkl.online.rounds import below
from omkl.online.schedules import DistanceOverGradients
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, TrainingLoop
from omkl.parsing.sentences import strings_of
from omkl.persistence import Arrays, Manifest, Packer, pack_json, unpack_json
from omkl.regularizers.squared_norms import SquaredL21
from omkl.sequences.labeler import SequenceLabeler
from omkl.structures.chain import Chain

#: Number of characters after a sentence that must be known before it is final.
AHEAD = 1000
#: Name of the classifier of multiword tokens.
RULES = "words of tokens"


class Tokenizer:
    """Splits raw text to sentences, tokens and words.

    Attributes
    ----------
    labeler : CharacterLabeler
    splitter : MultiwordSplitter or None
        None if the training data has no multiword tokens.
    """

    labeler: CharacterLabeler
    splitter: MultiwordSplitter | None = None

    def fit(
        self, treebank: Treebank, learn: tagger.Learn, seed: int, callbacks: Sequence = ()
    ) -> Tokenizer:
        """Train on a treebank with raw text; ``learn(X, y)`` trains the classifier of multiword
        tokens.
        """
        sentences = list(raw_text.raw_sentences(treebank))
        self.labeler = CharacterLabeler().fit(sentences, seed, callbacks)
        tokens = [token for sentence in sentences for token in sentence.tokens]
        if any(words for _, words in tokens):
            self.splitter = MultiwordSplitter().fit(tokens, learn)
        return self

    def treebanks(self, text: str | Iterable[str], offsets: bool = False) -> Iterator[Treebank]:
        """Split a text, or the pieces of a text; yield treebanks of about :data:`BLOCK` characters.

        With ``offsets``, MISC has the characters of each token: ``TokenRange=12:15``.
        """
        number, offset = 1, 0
        for part, sentences in self._parts(text):
            tokens = (
                " ".join(part[low:high].split()) for spans in sentences for low, high in spans
            )
            words_of = {} if self.splitter is None else self.splitter.split(tokens)
            rows = raw_text.conllu_of(
                part, sentences, words_of, number, offset if offsets else None
            )
            reader = TreebankReader("conllu", False, False, new_strings(), keep_text=True)
            yield reader.parse(rows, "conllu", "text", 0, Skipped(on_error="raise"))
            number, offset = number + len(sentences), offset + sentences[-1][-1][1]

    def _parts(self, text: str | Iterable[str]) -> Iterator[tuple[str, list[raw_text.Spans]]]:
        """Yield pieces of a text with whole sentences; each begins where the sentences of the one
        before end.
        """
        pieces = (
            (text[i : i + BLOCK] for i in range(0, len(text), BLOCK))
            if isinstance(text, str)
            else iter(text)
        )
        rest = ""
        for piece in pieces:
            rest += piece
            if len(rest) < BLOCK + AHEAD:
                continue
            sentences = self.labeler.split(rest)
            final = [spans for spans in sentences if spans[-1][1] <= len(rest) - AHEAD]
            if not final and sentences:  # a sentence without an end in sight
                final = [
                    [span for span in sentences[0] if span[1] <= len(rest) - AHEAD]
                    or sentences[0][:1]
                ]
            if final:
                yield rest, final
                rest = rest[final[-1][-1][1] :]
        if sentences := self.labeler.split(rest):
            yield rest, sentences

    def check_words(self, treebank: Treebank) -> None:
        """Warn if most sentences end with a word, such as "end.", that this tokenizer splits."""
        forms = np.array(strings_of(treebank, "forms"), dtype=object)[
            treebank.offsets[1:] - 1
        ].tolist()
        glued = [form for form in forms if form[-1:] in ".!?" and form[:-1].isalpha()]
        if 2 * len(glued) <= len(forms):
            return
        split = [
            spans for spans in self.labeler.split(raw_text.PARAGRAPH.join(glued)) if len(spans) > 1
        ]
        if 2 * len(split) > len(forms):
            message = f"Words such as {glued[0]!r} were two tokens in training: split them, or annotate raw text."
            warn_caller(message, DataWarning)

    def models(self) -> dict[str, SequenceLabeler]:
        """Return the classifier of multiword tokens by name, if there is one."""
        rules = None if self.splitter is None else self.splitter.rules
        return {RULES: rules} if isinstance(rules, SequenceLabeler) else {}

    def describe(self, packer: Packer) -> dict[str, Any]:
        """Return JSON values for a model file, without the :meth:`models`; arrays are added to the
        packer.
        """
        own, splitter = self.labeler, self.splitter
        used, rule = np.flatnonzero(own.table.any(axis=1)), None
        arrays = {"features": used.astype(np.int32), "weights": own.table[used]}
        arrays |= {"active": own.active, "transitions": own.transitions}
        if splitter is not None:
            arrays["multiword"] = pack_json(splitter.known)
            rule = splitter.rules if isinstance(splitter.rules, str) else None
        packer.arrays.update({f"tokens/{name}": array for name, array in arrays.items()})
        return {"group_weights": own.group_weights, "spaced": own.spaced, "rule": rule}

    @classmethod
    def restored(cls, values: Manifest, arrays: Arrays, rules: SequenceLabeler | None) -> Tokenizer:
        """The inverse of :meth:`describe`, given the classifier of multiword tokens, if there is
        one.
        """
        tokenizer, arrays = cls(), below(arrays, "tokens/")
        tokenizer.labeler = own = CharacterLabeler()
        own.active, own.transitions = arrays["active"], arrays["transitions"]
        own.group_weights, own.spaced = values["group_weights"], values["spaced"]
        own.table = np.zeros((len(GROUPS) << BITS, 3), np.float32)
        own.table[arrays["features"]] = arrays["weights"]
        if "multiword" in arrays:
            model = values["rule"] if rules is None else rules
            tokenizer.splitter = MultiwordSplitter(unpack_json(arrays["multiword"]), model)
        return tokenizer


# ---- multiword tokens ----------------------------------------------------------------------------


#: Lengths of affixes that rules are chosen by, besides those of all models of words.
LONG_PREFIXES, LONG_SUFFIXES = range(5, 9), range(6, 9)
#: Keys of the features of a token.
RULE_KEYS = (
    *tagger.OWN_KEYS,
    *(f"prefix{k}" for k in LONG_PREFIXES),
    *(f"suffix{k}" for k in LONG_SUFFIXES),
)


def _rule_values(form: str) -> tuple:
    """Return the values of :data:`RULE_KEYS` of a token."""
    lower = form.lower()
    prefixes = [lower[:k] for k in LONG_PREFIXES]
    suffixes = [lower[-k:] for k in LONG_SUFFIXES]
    return (*tagger.own_values(form), *prefixes, *suffixes)


@dataclass
class MultiwordSplitter:
    """Splits multiword tokens to words.

    Known tokens, or their lower case, have their most frequent words in the training data. For
    other tokens, a classifier predicts a rule from both ends of the token, among the rules that can
    be applied to it.

    Attributes
    ----------
    known : dict of str to str
        Words of tokens, joined by tabs; empty for tokens that are words but that the classifier
        would split.
    rules : SequenceLabeler or str
        Classifier of rules, or the only rule.
    """

    known: dict[str, str] = field(default_factory=dict)
    rules: tagger.Model = WHOLE

    def fit(
        self, tokens: Iterable[tuple[str, list[str]]], learn: tagger.Learn
    ) -> MultiwordSplitter:
        """Train on tokens: forms, and the words of multiword tokens."""
        votes: dict[str, Counter[str]] = {}
        for form, words in tokens:
            votes.setdefault(form, Counter())[TAB.join(words)] += 1
        # in a tie, a token is split
        usual = {
            form: min(counts, key=lambda words: (-counts[words], not words, words))
            for form, counts in votes.items()
        }
        rules = {
            form: rule_of(form, words.split(TAB)) if words else WHOLE
            for form, words in usual.items()
        }
        counts = Counter(rules.values())
        common = [form for form, rule in rules.items() if counts[rule] >= tagger.LEAST_WORDS]
        X = [[tagger.as_dict(RULE_KEYS, _rule_values(form))] for form in common]
        self.rules = tagger.learned(X, [[rules[form]] for form in common], learn, WHOLE)
        guesses = self._guesses(list(usual))
        self.known = {form: words for form, words in usual.items() if words or form in guesses}
        return self

    def split(self, forms: Iterable[str]) -> dict[str, list[str]]:
        """Return the words of the multiword tokens among some tokens."""
        found: dict[str, list[str]] = {}
        unknown = []
        for form in dict.fromkeys(forms):
            words = self.known.get(form)
            if words is None and (lower := self.known.get(form.lower())):
                words = lower.upper() if form.isupper() else lower[:1].upper() + lower[1:]
            if words is None:
                unknown.append(form)
            elif words:
                found[form] = words.split(TAB)
        return found | self._guesses(unknown)

    def _guesses(self, forms: list[str]) -> dict[str, list[str]]:
        """Return the words of the tokens that the classifier splits."""
        splits = tagger.best_results(self.rules, RULE_KEYS, forms, _rule_values, apply_rule)
        return {form: words for form, words in zip(forms, splits) if words}


# ---- ends of tokens and sentences ----------------------------------------------------------------


#: Values from which features are made. ``l1`` is the character before a place and ``r1`` the one
#: after it and after whitespace; ``k`` are kinds of characters. ``w`` are runs, ``c`` their cores
#: and ``s`` their shapes: 0 is the run of the place. The last ones are lengths, and the whitespace
#: around the runs.
ATOMS = (
    *(f"{side}{i}" for side in "lr" for i in range(1, 5)),
    *(f"k{side}{i}" for side in "lr" for i in range(1, 7)),
    *(
        "before",
        "after",
        "w-1",
        "w0",
        "w+1",
        "c-1",
        "c0",
        "c+1",
        "w+2",
        "c+2",
        "s-1",
        "s0",
        "s+1",
        "s+2",
    ),
    *("begins", "place", "core", "length", "line", "fits", "gaps", "gap"),
)
#: Groups of features: the values of some atoms, and the whitespace after the place.
_NAMES = """gap,l1,l1 l2,l1 l2 l3,l1 l2 l3 l4,r1,r1 r2,r1 r2 r3,r1 r2 r3 r4,l1 r1,l1 l2 r1,l1 r1 r2,l1 l2 r1 r2
l1 l2 l3 r1 r2 r3,kl1 kl2 kr1 kr2,kl1 kl2 kl3 kr1 kr2 kr3,kl1 kl2 kl3 kl4 kr1 kr2 kr3 kr4,kl1 kl2 kl3 kl4 kl5 kl6
kr1 kr2 kr3 kr4 kr5 kr6,before,after kr1,before after,w0 place,w-1 before,c+1 begins,c0 l1,c+1 w+2,c0 c+1,s0 s+1 l1
s-1 s0 s+1 s+2,c+1 begins l1,core l1 kr1,length kl1 kr1,line fits kl1 kr1,gaps kl1 kr1,c-1 c0 c+1,c0 c+1 c+2"""
GROUPS = re.split("[,\n]", _NAMES)
#: Atoms of each group, then -1.
TEMPLATES = np.array(
    [([ATOMS.index(atom) for atom in name.split()] + [-1] * 9)[:9] for name in GROUPS]
)
#: Bits of the number of weights of each template.
BITS = 15
#: Number of places in a training example, and of sentences joined to a document.
PLACES, SENTENCES = 20, 40
#: Share of the documents whose sentences are drawn at random, so that ends are learned from many
#: pairs of sentences.
MIXED = 0.3
#: Number of characters whose features are in memory at a time.
BLOCK = 1 << 16
#: Smallest share of the places between two kinds of characters, without whitespace, where a token
#: must end in training.
RARE = 1e-3
EPOCHS, C = 15, 10.0
#: Kinds of characters by Unicode category; others follow from its first letter.
_KINDS = {
    "Lu": jit.UPPER,
    "Lt": jit.UPPER,
    "Ll": jit.LOWER,
    "Nd": jit.DIGIT,
    "Ps": jit.OPEN,
    "Pe": jit.CLOSE,
}
_KINDS |= {"Pi": jit.QUOTE, "Pf": jit.QUOTE, "Pd": jit.DASH, "Cf": jit.JOINER}
_FIRST = {
    "L": jit.LETTER,
    "M": jit.MARK,
    "N": jit.DIGIT,
    "P": jit.COMMA,
    "S": jit.SYMBOL,
    "C": jit.OTHER,
}
_STOPS, _QUOTES = ".!?\u2026\u3002\uff01\uff1f\u061f\u06d4\u0964", "\"'`"
#: Kinds and lower case of all characters, found when first met; the kind is -1 before.
_kinds = np.full(0x110000, -1, np.int8)
_lower = np.arange(0x110000, dtype=np.uint32)


def kind_of(character: str) -> int:
    """Return the kind of a character, by its Unicode category."""
    if character.isspace():
        return jit.NEWLINE if character == "\n" else jit.SPACE
    if character in _STOPS:
        return jit.STOP
    if character in _QUOTES:
        return jit.QUOTE
    category = unicodedata.category(character)
    return _KINDS.get(category) or _FIRST[category[0]]


class Characters:
    """Places in a text where tokens may end; see ``_jit_characters``.

    Parameters
    ----------
    text : str
    active : bool array (N_KINDS, N_KINDS)
        Whether a token may end between two characters of these kinds without whitespace.
    """

    def __init__(self, text: str, active: np.ndarray) -> None:
        try:
            codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        except UnicodeEncodeError as error:
            found = error.object[error.start]
            raise InputError(
                f"Text must consist of Unicode characters, got {found!r} at {error.start}."
            ) from None
        for code in np.unique(codes[_kinds[codes] < 0]).tolist():
            _kinds[code], lower = kind_of(chr(code)), chr(code).lower()
            _lower[code] = ord(lower) if len(lower) == 1 else code
        kinds = _kinds[codes]
        self.codes = np.pad(
            np.where(kinds <= jit.NEWLINE, 32, codes), jit.PADDING, constant_values=32
        )
        self.lower = np.pad(_lower[codes], jit.PADDING, constant_values=32)
        self.kinds = np.pad(kinds, jit.PADDING, constant_values=jit.SPACE)
        solid = self.kinds > jit.NEWLINE
        starts = solid[1:] & ~solid[:-1]
        self.runs = np.zeros((np.count_nonzero(starts) + 2 * jit.PADDING, jit.N_COLUMNS), np.int64)
        self.hashes = np.zeros((len(self.runs), jit.N_HASHES), np.uint64)
        jit.scan(self.lower, self.kinds, self.runs, self.hashes)
        ends = np.flatnonzero(solid[:-1] & (~solid[1:] | active[self.kinds[:-1], self.kinds[1:]]))
        #: Indices of the places in the text.
        self.places = ends - jit.PADDING
        self._places = np.stack([ends, np.cumsum(starts)[ends - 1] + jit.PADDING - 1], axis=1)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def gaps(self) -> np.ndarray:
        """Whitespace after each place: ``NONE``, ``BLANK`` and so on."""
        own = self.runs[self._places[:, 1]]
        return np.where(self._places[:, 0] == own[:, jit.END] - 1, own[:, jit.GAP], jit.NONE)

    def features(self) -> np.ndarray:
        """Return the ids of the features of each place."""
        ids = np.empty((len(self), len(GROUPS)), np.int32)
        text, runs = (self.codes, self.lower, self.kinds), (self.runs, self.hashes)
        jit.find_features(*text, self._places, *runs, TEMPLATES, BITS, ids)
        return ids


class CharacterLabeler:
    """Labels the characters of raw text as inside or end of a token, or end of a token and a
    sentence.

    A chain labels the places where a token may end. Its features are hashed, see
    ``_jit_characters``.

    Attributes
    ----------
    active : bool array (N_KINDS, N_KINDS)
        See :class:`Characters`.
    spaced : bool
        Whether words contain whitespace.
    table : float32 array (n_features, 3)
        Weights of the features.
    transitions : float64 array (3, 3)
    group_weights : dict of str to float
        Weights of the groups of features.
    """

    def fit(
        self, sentences: Sequence[raw_text.RawSentence], seed: int, callbacks: Sequence = ()
    ) -> CharacterLabeler:
        """Train on sentences in the order of their documents."""
        self._survey(sentences)
        source = _Documents(self, sentences, seed)
        bank = ExplicitBank(GROUPS, np.repeat(np.arange(len(GROUPS)), 1 << BITS), 3, True)
        trainer = OnlineTrainer(
            [bank],
            Chain(3),
            StructuredHinge(),
            SquaredL21(),
            lambda_=1.0 / (C * len(source.examples)),
            schedule=DistanceOverGradients(),
            average=PolynomialAverage(),
            unpenalized=[TransitionBank(3, averaging=True)],
        )
        TrainingLoop(trainer, source, callbacks=callbacks).run(EPOCHS)
        weights, transitions = (bank.table for bank in trainer.predictor().banks)
        self.table, self.transitions = weights.astype(np.float32), transitions[0]
        self.group_weights = trainer.kernel_weights()
        return self

    def _survey(self, sentences: Sequence[raw_text.RawSentence]) -> None:
        """Find the kinds of characters between which tokens end, and whether words contain
        whitespace.
        """
        text, labels = raw_text.joined(sentences)
        characters = Characters(text, np.zeros((jit.N_KINDS, jit.N_KINDS), bool))
        pairs = characters.kinds[:-1].astype(np.int64) * jit.N_KINDS + characters.kinds[1:]
        ends = np.pad(labels, jit.PADDING)[:-1] > 0
        counts, ended = (np.bincount(own, minlength=jit.N_KINDS**2) for own in (pairs, pairs[ends]))
        kinds = np.arange(jit.N_KINDS)
        wordly, joiner = (kinds >= jit.UPPER) & (kinds <= jit.MARK), kinds == jit.JOINER
        joined_kinds = (wordly[:, None] & wordly) | (kinds == jit.MARK) | joiner | joiner[:, None]
        known = np.where(counts > 0, (ended + 0.5) / (counts + 1) > RARE, ~joined_kinds.ravel())
        self.active = known.reshape(joined_kinds.shape)
        gaps = characters.gaps  # without active kinds, the places are the ends of runs
        self.spaced = bool((labels[characters.places[gaps > jit.NONE]] == raw_text.INSIDE).any())

    def training_example(self, text: str, labels: np.ndarray) -> Examples:
        """Encode a text and the labels of its characters."""
        characters = Characters(text, self.active)
        ids = characters.features()
        offsets = np.append(np.arange(0, len(ids), PLACES), len(ids))
        features = Features(np.arange(len(ids) + 1) * ids.shape[1], ids.ravel(), np.ones(ids.size))
        tokens = Tokens(offsets, features, n_features=ids.shape[1] << BITS)
        own = labels[characters.places].astype(np.int64)
        return Examples(tokens, own, np.arange(len(tokens)), None, False)

    def split(self, text: str) -> list[raw_text.Spans]:
        """Return the start and the end of each token of each sentence of a text."""
        characters = Characters(text, self.active)
        if not len(characters):
            return []
        scores = np.zeros((len(characters), 3))
        jit.add_scores(characters.features(), self.table, scores)
        gaps = characters.gaps
        if not self.spaced:
            scores[gaps > jit.NONE, raw_text.INSIDE] = -np.inf
        scores[gaps >= jit.PARAGRAPH_END, : raw_text.SENTENCE_END] = -np.inf
        labels = Chain(3).decode((scores, self.transitions))
        ends = characters.places[labels > 0] + 1
        # a token starts at its first character that is no whitespace
        solid = np.flatnonzero(characters.kinds[jit.PADDING :] > jit.NEWLINE)
        starts = solid[np.searchsorted(solid, np.concatenate([[0], ends[:-1]]))]
        spans = list(zip(starts.tolist(), ends.tolist()))
        bounds = [0, *(np.flatnonzero(labels[labels > 0] == raw_text.SENTENCE_END) + 1).tolist()]
        return [spans[low:high] for low, high in pairwise(bounds)]


class _Documents(ArraySource):
    """Training examples of a labeler, from documents that are joined anew in every epoch.

    ``examples`` is a range of the approximate number of examples of an epoch.
    """

    def __init__(
        self, labeler: CharacterLabeler, sentences: Sequence[raw_text.RawSentence], seed: int
    ) -> None:
        self._labeler, self._sentences, self._seed = labeler, sentences, seed
        n_places = len(Characters(raw_text.joined(sentences)[0], labeler.active))
        examples: Any = range(-(-n_places // PLACES))
        super().__init__(examples, np.random.default_rng(seed))

    def blocks(self, epoch: int, start: int) -> Iterator[Examples]:
        """Yield blocks of examples."""
        rng = np.random.default_rng((self._seed, epoch))
        firsts = np.arange(0, len(self._sentences), SENTENCES)
        texts, labels, size = [], [], 0
        for number, first in enumerate(rng.permutation(firsts).tolist(), 1):
            sentences = self._sentences[first : first + SENTENCES]
            if rng.random() < MIXED:
                # without the first one of all, which has no gap
                chosen = rng.integers(
                    len(self._sentences) > 1, len(self._sentences), len(sentences)
                )
                sentences = [self._sentences[i] for i in chosen.tolist()]
            text, own = raw_text.varied(sentences, rng)
            texts += [text, "\n\n"]
            labels += [own, np.zeros(2, np.int8)]
            size += len(text)
            if size > BLOCK or number == len(firsts):
                yield self._labeler.training_example("".join(texts), np.concatenate(labels))
                texts, labels, size = [], [], 0
