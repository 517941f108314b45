"""Tokenizer, which splits raw text to sentences, tokens and words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np

from omkl._components import warn_caller
from omkl.annotation import _jit_characters as jit
from omkl.annotation import raw_text, tagger
from omkl.annotation.edits import TAB, WHOLE, apply_rule, rule_of
from omkl.data import Treebank
from omkl.data.streams import Skipped
from omkl.data.treebank.conllu import reader_of_words
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
        """Train on a treebank with raw text.

        ``learn(X, y)`` trains the classifier of multiword tokens.
        """
        sentences = list(raw_text.raw_sentences(treebank))
        self.labeler = CharacterLabeler().fit(sentences, seed, callbacks)
        tokens = list(chain.from_iterable(sentence.tokens for sentence in sentences))
        if any(words for _, words in tokens):
            self.splitter = MultiwordSplitter().fit(tokens, learn)
        return self

    def treebanks(self, text: str | Iterable[str], offsets: bool = False) -> Iterator[Treebank]:
        """Split a text, or the pieces of a text; yield treebanks of about :data:`BLOCK` characters.

        With ``offsets``, MISC has the characters of each token: ``TokenRange=12:15``.
        """
        number = 1
        offset = 0
        for piece, sentences in self._split_pieces(text):
            words_of = {}
            if self.splitter is not None:
                spans = chain.from_iterable(sentences)
                forms = (raw_text.form_of(piece, start, end) for start, end in spans)
                words_of = self.splitter.split(forms)
            offset_of_piece = offset if offsets else None
            rows = raw_text.conllu_of(piece, sentences, words_of, number, offset_of_piece)
            yield reader_of_words().parse(rows, "conllu", "text", 0, Skipped(on_error="raise"))
            number += len(sentences)
            offset += _end_of(sentences)

    def _split_pieces(
        self, text: str | Iterable[str]
    ) -> Iterator[tuple[str, list[raw_text.Spans]]]:
        """Yield pieces of a text, and the spans of their sentences.

        Each piece begins where the sentences of the one before end.
        """
        pieces = text
        if isinstance(text, str):
            pieces = (text[start : start + BLOCK] for start in range(0, len(text), BLOCK))
        unsplit = ""
        for piece in pieces:
            unsplit += piece
            limit = len(unsplit) - AHEAD
            if limit < BLOCK:
                continue
            sentences = self.labeler.split(unsplit)
            final = [spans for spans in sentences if spans[-1][1] <= limit]
            if not final and sentences:  # a sentence without an end in sight
                tokens = [span for span in sentences[0] if span[1] <= limit]
                final = [tokens or sentences[0][:1]]
            if final:
                yield unsplit, final
                unsplit = unsplit[_end_of(final) :]
        sentences = self.labeler.split(unsplit)
        if sentences:
            yield unsplit, sentences

    def check_words(self, treebank: Treebank) -> None:
        """Warn if most sentences end with a word, such as "end.", that this tokenizer splits."""
        forms = strings_of(treebank, "forms")
        last_forms = [forms[end - 1] for end in treebank.offsets[1:].tolist()]
        with_stop = [form for form in last_forms if form[-1:] in ".!?" and form[:-1].isalpha()]
        if 2 * len(with_stop) <= len(last_forms):
            return
        sentences = self.labeler.split(raw_text.PARAGRAPH.join(with_stop))
        n_split = sum(len(spans) > 1 for spans in sentences)
        if 2 * n_split > len(last_forms):
            warn_caller(
                f"Words such as {with_stop[0]!r} were two tokens in training: "
                "split them, or annotate raw text.",
                DataWarning,
            )

    def models(self) -> dict[str, SequenceLabeler]:
        """Return the classifier of multiword tokens by name, if there is one."""
        if self.splitter is None or isinstance(self.splitter.rules, str):
            return {}
        return {RULES: self.splitter.rules}

    def describe(self, packer: Packer) -> Manifest:
        """Return JSON values for a model file, without the :meth:`models`.

        Arrays are added to the packer.
        """
        labeler = self.labeler
        features = np.flatnonzero(labeler.table.any(axis=1))
        packer.arrays["tokens/features"] = features.astype(np.int32)
        packer.arrays["tokens/weights"] = labeler.table[features]
        packer.arrays["tokens/active"] = labeler.active
        packer.arrays["tokens/transitions"] = labeler.transitions
        rule = None
        if self.splitter is not None:
            packer.arrays["tokens/multiword"] = pack_json(self.splitter.words_of)
            if isinstance(self.splitter.rules, str):
                rule = self.splitter.rules
        return {"group_weights": labeler.group_weights, "spaced": labeler.spaced, "rule": rule}

    @classmethod
    def restored(cls, values: Manifest, arrays: Arrays, rules: SequenceLabeler | None) -> Tokenizer:
        """Create a tokenizer from the result of :meth:`describe`, and its :meth:`models`."""
        arrays = below(arrays, "tokens/")
        labeler = CharacterLabeler()
        labeler.active = arrays["active"]
        labeler.transitions = arrays["transitions"]
        labeler.group_weights = values["group_weights"]
        labeler.spaced = values["spaced"]
        labeler.table = np.zeros((len(GROUPS) << BITS, N_LABELS), np.float32)
        labeler.table[arrays["features"]] = arrays["weights"]
        tokenizer = cls()
        tokenizer.labeler = labeler
        if "multiword" in arrays:
            model = values["rule"] if rules is None else rules
            tokenizer.splitter = MultiwordSplitter(unpack_json(arrays["multiword"]), model)
        return tokenizer


def _end_of(sentences: list[raw_text.Spans]) -> int:
    """Return the end of the last token of some sentences."""
    _, end = sentences[-1][-1]
    return end


# ---- multiword tokens ----------------------------------------------------------------------------


#: Lengths of affixes that rules are chosen by, besides those of all models of words.
LONG_PREFIXES, LONG_SUFFIXES = range(5, 9), range(6, 9)
#: Keys of the features of a token.
RULE_KEYS = (
    *tagger.FORM_KEYS,
    *(f"prefix{k}" for k in LONG_PREFIXES),
    *(f"suffix{k}" for k in LONG_SUFFIXES),
)


def _rule_values(form: str) -> tuple:
    """Return the values of :data:`RULE_KEYS` of a token."""
    lower = form.lower()
    prefixes = [lower[:k] for k in LONG_PREFIXES]
    suffixes = [lower[-k:] for k in LONG_SUFFIXES]
    return (*tagger.form_values(form), *prefixes, *suffixes)


@dataclass
class MultiwordSplitter:
    """Splits multiword tokens to words.

    Known tokens, or their lower case, have their most frequent words in the training data. For
    other tokens, a classifier predicts a rule from both ends of the token, among the rules that can
    be applied to it.

    Attributes
    ----------
    words_of : dict of str to str
        Words of known tokens, joined by tabs; empty for tokens that are words but that the
        classifier would split.
    rules : SequenceLabeler or str
        Classifier of rules, or the only rule.
    """

    words_of: dict[str, str] = field(default_factory=dict)
    rules: tagger.Model = WHOLE

    def fit(self, tokens: Iterable[raw_text.Token], learn: tagger.Learn) -> MultiwordSplitter:
        """Train on tokens: forms, and the words of multiword tokens."""
        votes: dict[str, Counter[str]] = defaultdict(Counter)
        for form, words in tokens:
            votes[form][TAB.join(words)] += 1
        most_frequent = {}
        rules = {}
        for form, counts in votes.items():
            # in a tie, a token is split
            words_of_form = min(counts, key=lambda words: (-counts[words], not words, words))
            most_frequent[form] = words_of_form
            rules[form] = rule_of(form, words_of_form.split(TAB)) if words_of_form else WHOLE
        self.rules = tagger.train_on_words(rules.items(), RULE_KEYS, _rule_values, learn, WHOLE)
        guesses = self._guesses(list(most_frequent))
        self.words_of = {
            form: words for form, words in most_frequent.items() if words or form in guesses
        }
        return self

    def split(self, forms: Iterable[str]) -> dict[str, list[str]]:
        """Return the words of the multiword tokens among some tokens."""
        words_of = {}
        unknown_forms = []
        for form in dict.fromkeys(forms):
            words = self.words_of.get(form)
            if words is None:
                words = self._words_of_lower_case(form)
            if words is None:
                unknown_forms.append(form)
            elif words:
                words_of[form] = words.split(TAB)
        return words_of | self._guesses(unknown_forms)

    def _words_of_lower_case(self, form: str) -> str | None:
        """Return the words of the token in lower case, in the case of the token."""
        words = self.words_of.get(form.lower())
        if not words:
            return None
        return words.upper() if form.isupper() else words[:1].upper() + words[1:]

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
    *("before", "after", "w-1", "w0", "w+1", "c-1", "c0", "c+1", "w+2", "c+2"),
    *("s-1", "s0", "s+1", "s+2"),
    *("begins", "place", "core", "length", "line", "fits", "gaps", "gap"),
)
#: Groups of features: the values of some atoms, and the whitespace after the place.
_NAMES = """gap,l1,l1 l2,l1 l2 l3,l1 l2 l3 l4,r1,r1 r2,r1 r2 r3,r1 r2 r3 r4,l1 r1,l1 l2 r1,l1 r1 r2
l1 l2 r1 r2,l1 l2 l3 r1 r2 r3,kl1 kl2 kr1 kr2,kl1 kl2 kl3 kr1 kr2 kr3
kl1 kl2 kl3 kl4 kr1 kr2 kr3 kr4,kl1 kl2 kl3 kl4 kl5 kl6,kr1 kr2 kr3 kr4 kr5 kr6,before
after kr1,before after,w0 place,w-1 before,c+1 begins,c0 l1,c+1 w+2,c0 c+1,s0 s+1 l1
s-1 s0 s+1 s+2,c+1 begins l1,core l1 kr1,length kl1 kr1,line fits kl1 kr1,gaps kl1 kr1
c-1 c0 c+1,c0 c+1 c+2"""
GROUPS = re.split("[,\n]", _NAMES)
#: Largest number of atoms of a group, and what stands after the last one.
MOST_ATOMS, NO_ATOM = 9, -1


_POSITIONS = [list(map(ATOMS.index, group.split())) for group in GROUPS]
#: Positions of the atoms of each group, (number of groups, MOST_ATOMS).
TEMPLATES = np.array(
    [positions + [NO_ATOM] * (MOST_ATOMS - len(positions)) for positions in _POSITIONS]
)
#: Bits of the number of weights of each template.
BITS = 15
#: Number of places in a training example, and of sentences joined to a document.
PLACES_OF_EXAMPLE, SENTENCES_OF_DOCUMENT = 20, 40
#: Share of the documents whose sentences are drawn at random, so that ends are learned from many
#: pairs of sentences.
MIXED = 0.3
#: Number of characters whose features are in memory at a time.
BLOCK = 1 << 16
#: Smallest share of the places between two kinds of characters, without whitespace, where a token
#: must end in training.
RARE = 1e-3
EPOCHS, C = 15, 10.0
#: Number of labels of places: INSIDE, TOKEN_END and SENTENCE_END.
N_LABELS = 3
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
_STOPS = ".!?\u2026\u3002\uff01\uff1f\u061f\u06d4\u0964"
_QUOTES = "\"'`"
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

    Attributes
    ----------
    codes, lower, kinds : arrays (n_characters + 2 PADDING,)
        The padded text, its lower case, and the kinds of its characters.
    runs, hashes : arrays (n_runs + 2 PADDING, N_COLUMNS or N_HASHES)
        See :func:`_jit_characters.scan`.
    places : int array (n_places,)
        Indices of the places in the text.
    """

    def __init__(self, text: str, active: np.ndarray) -> None:
        try:
            codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        except UnicodeEncodeError as error:
            wrong = error.object[error.start]
            raise InputError(
                f"Text must consist of Unicode characters, got {wrong!r} at {error.start}."
            ) from None
        for code in np.unique(codes[_kinds[codes] < 0]).tolist():
            lower = chr(code).lower()
            _kinds[code] = kind_of(chr(code))
            _lower[code] = ord(lower) if len(lower) == 1 else code
        kinds = _kinds[codes]
        blank_codes = np.where(kinds <= jit.NEWLINE, ord(" "), codes)
        self.codes = np.pad(blank_codes, jit.PADDING, constant_values=ord(" "))
        self.lower = np.pad(_lower[codes], jit.PADDING, constant_values=ord(" "))
        self.kinds = np.pad(kinds, jit.PADDING, constant_values=jit.SPACE)
        in_run = self.kinds > jit.NEWLINE
        starts = in_run[1:] & ~in_run[:-1]
        n_runs = np.count_nonzero(starts)
        self.runs = np.zeros((n_runs + 2 * jit.PADDING, jit.N_COLUMNS), np.int64)
        self.hashes = np.zeros((len(self.runs), jit.N_HASHES), np.uint64)
        jit.scan(self.lower, self.kinds, self.runs, self.hashes)
        are_active = active[self.kinds[:-1], self.kinds[1:]]
        #: Padded places, and the run of each.
        self._ends = np.flatnonzero(in_run[:-1] & (~in_run[1:] | are_active))
        self._runs_of_places = np.cumsum(starts)[self._ends - 1] + jit.PADDING - 1
        self.places = self._ends - jit.PADDING

    def __len__(self) -> int:
        return len(self.places)

    @property
    def gaps(self) -> np.ndarray:
        """Whitespace after each place: ``NONE``, ``BLANK`` and so on."""
        runs = self.runs[self._runs_of_places]
        return np.where(self._ends == runs[:, jit.END] - 1, runs[:, jit.GAP], jit.NONE)

    def features(self) -> np.ndarray:
        """Return the ids of the features of each place, (n_places, n_groups)."""
        ids = np.empty((len(self), len(GROUPS)), np.int32)
        places = np.stack([self._ends, self._runs_of_places], axis=1)
        text = (self.codes, self.lower, self.kinds)
        jit.find_features(*text, places, self.runs, self.hashes, TEMPLATES, BITS, ids)
        return ids


class CharacterLabeler:
    """Labeler of the characters of raw text: inside of a token, its end, or a sentence's end.

    A chain labels the places where a token may end. Its features are hashed, see
    ``_jit_characters``.

    Attributes
    ----------
    active : bool array (N_KINDS, N_KINDS)
        See :class:`Characters`.
    spaced : bool
        Whether words contain whitespace.
    table : float32 array (n_features, N_LABELS)
        Weights of the features.
    transitions : float64 array (N_LABELS, N_LABELS)
    group_weights : dict of str to float
        Weights of the groups of features.
    """

    def fit(
        self, sentences: Sequence[raw_text.RawSentence], seed: int, callbacks: Sequence = ()
    ) -> CharacterLabeler:
        """Train on sentences in the order of their documents."""
        self._survey(sentences)
        source = _Documents(self, sentences, seed)
        groups = np.repeat(np.arange(len(GROUPS)), 1 << BITS)
        bank = ExplicitBank(GROUPS, groups, N_LABELS, averaging=True)
        trainer = OnlineTrainer(
            [bank],
            Chain(N_LABELS),
            StructuredHinge(),
            SquaredL21(),
            lambda_=1.0 / (C * len(source.examples)),
            schedule=DistanceOverGradients(),
            average=PolynomialAverage(),
            unpenalized=[TransitionBank(N_LABELS, averaging=True)],
        )
        TrainingLoop(trainer, source, callbacks=callbacks).run(EPOCHS)
        feature_bank, transition_bank = trainer.predictor().banks
        self.table = feature_bank.table.astype(np.float32)
        self.transitions = transition_bank.table[0]
        self.group_weights = trainer.kernel_weights()
        return self

    def _survey(self, sentences: Sequence[raw_text.RawSentence]) -> None:
        """Find between which kinds of characters tokens end, and if words contain whitespace."""
        text, labels = raw_text.joined(sentences)
        nowhere = np.zeros((jit.N_KINDS, jit.N_KINDS), bool)
        characters = Characters(text, nowhere)
        pairs = characters.kinds[:-1].astype(np.int64) * jit.N_KINDS + characters.kinds[1:]
        are_ends = np.pad(labels, jit.PADDING)[:-1] > 0
        counts = np.bincount(pairs, minlength=nowhere.size)
        n_ends = np.bincount(pairs[are_ends], minlength=nowhere.size)
        shares = (n_ends + 0.5) / (counts + 1)
        kinds = np.arange(jit.N_KINDS)
        are_wordly = (kinds >= jit.UPPER) & (kinds <= jit.MARK)
        are_joiners = kinds == jit.JOINER
        both_wordly = are_wordly[:, None] & are_wordly
        with_joiner = are_joiners | are_joiners[:, None]
        stay_together = both_wordly | (kinds == jit.MARK) | with_joiner
        active = np.where(counts > 0, shares > RARE, ~stay_together.ravel())
        self.active = active.reshape(nowhere.shape)
        # without active kinds, the places are the ends of runs
        before_gaps = characters.places[characters.gaps > jit.NONE]
        self.spaced = bool((labels[before_gaps] == raw_text.INSIDE).any())

    def training_example(self, text: str, labels: np.ndarray) -> Examples:
        """Encode a text and the labels of its characters as short sequences of places.

        Only the places where a token may end are labelled; each has one feature per group.
        """
        characters = Characters(text, self.active)
        ids = characters.features()
        offsets = np.append(np.arange(0, len(ids), PLACES_OF_EXAMPLE), len(ids))
        n_groups = ids.shape[1]
        starts = np.arange(len(ids) + 1) * n_groups
        features = Features(starts, ids.ravel(), np.ones(ids.size))
        tokens = Tokens(offsets, features, n_features=n_groups << BITS)
        labels_of_places = labels[characters.places].astype(np.int64)
        return Examples(tokens, labels_of_places, np.arange(len(tokens)), None, single=False)

    def split(self, text: str) -> list[raw_text.Spans]:
        """Return the start and the end of each token of each sentence of a text."""
        characters = Characters(text, self.active)
        if not len(characters):
            return []
        scores = np.zeros((len(characters), N_LABELS))
        jit.add_scores(characters.features(), self.table, scores)
        gaps = characters.gaps
        if not self.spaced:
            scores[gaps > jit.NONE, raw_text.INSIDE] = -np.inf
        scores[gaps >= jit.PARAGRAPH_END, : raw_text.SENTENCE_END] = -np.inf
        labels = Chain(N_LABELS).decode((scores, self.transitions))
        are_ends = labels != raw_text.INSIDE
        ends = characters.places[are_ends] + 1
        # a token starts at its first character that is no whitespace
        in_run = np.flatnonzero(characters.kinds[jit.PADDING :] > jit.NEWLINE)
        starts = in_run[np.searchsorted(in_run, np.concatenate([[0], ends[:-1]]))]
        spans = list(zip(starts.tolist(), ends.tolist()))
        sentence_ends = np.flatnonzero(labels[are_ends] == raw_text.SENTENCE_END) + 1
        bounds = [0, *sentence_ends.tolist()]
        return [spans[low:high] for low, high in pairwise(bounds)]


class _Documents(ArraySource):
    """Training examples of a labeler, from documents that are joined anew in every epoch.

    ``examples`` is a range of the approximate number of examples of an epoch.
    """

    def __init__(
        self, labeler: CharacterLabeler, sentences: Sequence[raw_text.RawSentence], seed: int
    ) -> None:
        self._labeler = labeler
        self._sentences = sentences
        self._seed = seed
        text, _ = raw_text.joined(sentences)
        n_places = len(Characters(text, labeler.active))
        examples: Any = range(-(-n_places // PLACES_OF_EXAMPLE))
        super().__init__(examples, np.random.default_rng(seed))

    def blocks(self, epoch: int, start: int) -> Iterator[Examples]:
        """Yield blocks of examples."""
        rng = np.random.default_rng((self._seed, epoch))
        firsts = np.arange(0, len(self._sentences), SENTENCES_OF_DOCUMENT)
        texts = []
        labels = []
        n_characters = 0
        for number, first in enumerate(rng.permutation(firsts).tolist(), 1):
            sentences = self._sentences[first : first + SENTENCES_OF_DOCUMENT]
            if rng.random() < MIXED:
                # without the first one of all, which has no gap
                lowest = min(1, len(self._sentences) - 1)
                chosen = rng.integers(lowest, len(self._sentences), len(sentences))
                sentences = [self._sentences[i] for i in chosen.tolist()]
            text, labels_of_text = raw_text.varied(sentences, rng)
            texts += [text, raw_text.PARAGRAPH]
            labels += [labels_of_text, np.zeros(len(raw_text.PARAGRAPH), np.int8)]
            n_characters += len(text)
            if n_characters > BLOCK or number == len(firsts):
                yield self._labeler.training_example("".join(texts), np.concatenate(labels))
                texts = []
                labels = []
                n_characters = 0
