"""From treebanks to what a parser trains on: codes of the fields of tokens, and gold heads."""

import hashlib
from collections.abc import Callable

import numpy as np

from omkl.data import Treebank
from omkl.estimators.examples import presentations
from omkl.groups import ArcTemplateBank, ArcTokens, Template, TemplateSet, distance_name
from omkl.online import Example


def column_of(field: str) -> str:
    """The column of a treebank that a field of the template language is read from."""
    if field.startswith(("form", "lower", "prefix", "suffix")):
        return "forms"
    return {"lemma": "lemmas"}.get(field, field if field in ("upos", "xpos") else "feats")


def value_of(field: str, string: str) -> str:
    """A field of a token, from the string in its column.

    >>> value_of("suffix3", "parsing"), value_of("Case", "Case=Nom|Number=Sing"), value_of("Case", "_")
    ('ing', 'Nom', '_')
    """
    if field == "lower":
        return string.lower()
    if field.startswith("prefix"):
        return string[: int(field[-1])]
    if field.startswith("suffix"):
        return string[-int(field[-1]) :]
    if field[0].isupper():
        attributes = (attribute.partition("=") for attribute in string.split("|"))
        return next((value for name, _, value in attributes if name == field), "_")
    return string


def code_of(string: str) -> int:
    """64 bits that stand for a string, on every machine."""
    digest = hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


#: Strings that no field has: what templates see at the root, and outside of the sentence.
ROOT, OUTSIDE = "\troot", "\toutside"


def encode(treebank: Treebank, templates: TemplateSet) -> ArcTokens:
    """The sentences of a treebank as the templates look at them.

    Parameters
    ----------
    treebank : omkl.data.Treebank
    templates : TemplateSet

    Returns
    -------
    ArcTokens
    """
    fields, reach = templates.fields, templates.reach
    starts, lengths = treebank.offsets[:-1], treebank.lengths
    roots = reach + starts + np.arange(len(treebank)) * (1 + reach)
    indices = np.arange(treebank.n_words) + np.repeat(roots + 1 - starts, lengths)
    columns = np.full(
        (len(fields), reach + treebank.n_words + len(treebank) * (1 + reach)), code_of(OUTSIDE), np.uint64
    )
    columns[:, roots] = code_of(ROOT)
    for row, field in zip(columns, fields):
        codes, strings = getattr(treebank, column_of(field)), treebank.strings[column_of(field)].tolist()
        hashes = np.zeros(len(strings), dtype=np.uint64)
        for code in np.flatnonzero(np.bincount(codes, minlength=1)).tolist():
            hashes[code] = code_of(value_of(field, strings[code]))
        row[indices] = hashes[codes]
    return ArcTokens(fields, columns, roots, lengths)


class ArcExamples:
    """A sequence of :class:`~omkl.online.Example`: sentences and their gold heads.

    Parameters
    ----------
    tokens : ArcTokens
    heads : int array (number of tokens,)
    offsets : int array (number of sentences + 1,)
    chosen : int array
        The sentences that take part.
    weights : array, optional
        A sample weight for each of them; see :func:`~omkl.estimators.examples.presentations`.
    treebank : Treebank, optional
        Where the sentences come from.
    """

    def __init__(
        self, tokens: ArcTokens, heads: np.ndarray, offsets: np.ndarray, chosen: np.ndarray,
        weights: np.ndarray | None = None, treebank: Treebank | None = None,
    ) -> None:  # fmt: skip
        self.tokens = tokens
        self.heads = heads
        self.offsets = offsets
        self.given = weights
        self.treebank = treebank
        self.chosen, self._weights = presentations(chosen, weights)

    @classmethod
    def of(cls, treebank: Treebank, templates: TemplateSet, weights: np.ndarray | None = None) -> "ArcExamples":
        """All sentences of a treebank."""
        tokens, everything = encode(treebank, templates), np.arange(len(treebank))
        return cls(tokens, treebank.heads.astype(np.int64), treebank.offsets, everything, weights, treebank)

    def only(self, chosen: np.ndarray, weighted: bool = True) -> "ArcExamples":
        """The same sentences, of which only these take part, where all do here."""
        weights = None if self.given is None or not weighted else self.given[chosen]
        return ArcExamples(self.tokens, self.heads, self.offsets, chosen, weights, self.treebank)

    def part(self, indices: np.ndarray) -> "ArcExamples":
        """Some of the presentations, by their indices, as a sequence of its own that holds no other sentences."""
        chosen, again = np.unique(self.chosen[indices], return_inverse=True)
        lengths = self.tokens.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        words = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        part = ArcExamples(self.tokens.only(chosen), self.heads[words], offsets, again)
        part._weights = None if self._weights is None else self._weights[indices]
        return part

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, i: int) -> Example:
        s = self.chosen[i]
        weight = 1.0 if self._weights is None else self._weights[i]
        return Example(self.tokens.sentence(s), self.heads[self.offsets[s] : self.offsets[s + 1]], weight)

    @property
    def n_inputs(self) -> int:
        """How many sentences there are, presented or not."""
        return len(self.tokens)

    @property
    def total_weight(self) -> float:
        """The m of the objective's mean."""
        return float(len(self)) if self._weights is None else float(self._weights.sum())

    def mean(self, function: Callable[[int], float]) -> float:
        """Weighted mean over the sentences of a function of their length."""
        return float(
            np.average([function(n) for n in self.tokens.lengths[self.chosen].tolist()], weights=self._weights)
        )


def strongest_features(
    bank: ArcTemplateBank, treebank: Treebank, examples: ArcExamples, n: int
) -> dict[str, list[tuple[str, float]]]:
    """The ``n`` strongest features of each template, as ``{template: [(feature, weight), ...]}``."""
    arrays = examples.tokens, examples.heads, examples.offsets
    return {
        template.name: [
            (_feature(template, treebank, *place), weight) for weight, *place in bank.strongest(k, n, *arrays)
        ]
        for k, template in enumerate(bank.templates)
    }  # fmt: skip


def _feature(template: Template, treebank: Treebank, sentence: int, modifier: int, between: int) -> str:
    """What a template sees in an arc: ``h.form=dog m-1.upos=DET right 2``."""
    head = int(treebank.heads[treebank.offsets[sentence] + modifier - 1])

    def seen(field, place):
        if place == 0:
            return "ROOT"
        if not 0 < place <= treebank.lengths[sentence]:
            return "OUTSIDE"
        column = column_of(field)
        code = getattr(treebank, column)[treebank.offsets[sentence] + place - 1]
        return value_of(field, treebank.strings[column][code])

    parts = [f"h{o:+}.{f}={seen(f, head + o)}" if o else f"h.{f}={seen(f, head)}" for o, f in template.head]
    parts += [
        f"m{o:+}.{f}={seen(f, modifier + o)}" if o else f"m.{f}={seen(f, modifier)}" for o, f in template.modifier
    ]
    if template.between:
        parts.append(f"between.{template.between}={seen(template.between, between)}")
    if template.variant != "arc":
        parts.append("left" if modifier < head else "right")
    if template.variant == "distance":
        parts.append(distance_name(abs(head - modifier)))
    return " ".join(parts) or "arc"
