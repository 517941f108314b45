"""Tokenizer, which splits raw text to sentences, tokens and words."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from omkl.annotation.characters import BLOCK, CharacterLabeler
from omkl.annotation.lemmatizer import Learn
from omkl.annotation.multiword import MultiwordSplitter
from omkl.annotation.raw_text import PARAGRAPH, Spans, conllu_of, raw_sentences
from omkl.data import Treebank
from omkl.data.streams import Skipped
from omkl.data.treebank.conllu import TreebankReader
from omkl.data.treebank.treebank import new_strings
from omkl.exceptions import DataWarning
from omkl.parsing.sentences import strings_of
from omkl.persistence import Packer
from omkl.sequences.labeler import SequenceLabeler

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

    def fit(self, treebank: Treebank, learn: Learn, seed: int, callbacks: Sequence = ()) -> "Tokenizer":
        """Train on a treebank with raw text; ``learn(X, y)`` trains the classifier of multiword tokens."""
        sentences = list(raw_sentences(treebank))
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
            tokens = (" ".join(part[low:high].split()) for spans in sentences for low, high in spans)
            words_of = {} if self.splitter is None else self.splitter.split(tokens)
            rows = conllu_of(part, sentences, words_of, number, offset if offsets else None)
            reader = TreebankReader("conllu", False, False, new_strings(), keep_text=True)
            yield reader.parse(rows, "conllu", "text", 0, Skipped(on_error="raise"))
            number, offset = number + len(sentences), offset + sentences[-1][-1][1]

    def _parts(self, text: str | Iterable[str]) -> Iterator[tuple[str, list[Spans]]]:
        """Yield pieces of a text with whole sentences; each begins where the sentences of the one before end."""
        pieces = (text[i : i + BLOCK] for i in range(0, len(text), BLOCK)) if isinstance(text, str) else iter(text)
        rest = ""
        for piece in pieces:
            rest += piece
            if len(rest) < BLOCK + AHEAD:
                continue
            sentences = self.labeler.split(rest)
            final = [spans for spans in sentences if spans[-1][1] <= len(rest) - AHEAD]
            if not final and sentences:  # a sentence without an end in sight
                final = [[span for span in sentences[0] if span[1] <= len(rest) - AHEAD] or sentences[0][:1]]
            if final:
                yield rest, final
                rest = rest[final[-1][-1][1] :]
        if sentences := self.labeler.split(rest):
            yield rest, sentences

    def check_words(self, treebank: Treebank) -> None:
        """Warn if most sentences end with a word, such as "end.", that this tokenizer splits."""
        forms = np.array(strings_of(treebank, "forms"), dtype=object)[treebank.offsets[1:] - 1].tolist()
        glued = [form for form in forms if form[-1:] in ".!?" and form[:-1].isalpha()]
        if 2 * len(glued) <= len(forms):
            return
        split = [spans for spans in self.labeler.split(PARAGRAPH.join(glued)) if len(spans) > 1]
        if 2 * len(split) > len(forms):
            message = f"Words such as {glued[0]!r} were two tokens in training: split them, or annotate raw text."
            warnings.warn(message, DataWarning, stacklevel=3)

    def models(self) -> dict[str, SequenceLabeler]:
        """Return the classifier of multiword tokens by name, if there is one."""
        rules = None if self.splitter is None else self.splitter.rules
        return {RULES: rules} if isinstance(rules, SequenceLabeler) else {}

    def describe(self, packer: Packer) -> dict[str, Any]:
        """Return JSON values for a model file, without the :meth:`models`; arrays are added to the packer."""
        splitter = None if self.splitter is None else self.splitter.describe(packer)
        return {"labeler": self.labeler.describe(packer), "splitter": splitter}

    @classmethod
    def restored(
        cls, values: dict[str, Any], arrays: dict[str, np.ndarray], rules: SequenceLabeler | None
    ) -> "Tokenizer":
        """The inverse of :meth:`describe`, given the classifier of multiword tokens, if there is one."""
        tokenizer = cls()
        tokenizer.labeler = CharacterLabeler.restored(values["labeler"], arrays)
        if values["splitter"] is not None:
            tokenizer.splitter = MultiwordSplitter.restored(values["splitter"], arrays, rules)
        return tokenizer
