"""Sentences as lists of strings, and treebanks: sentences as arrays of codes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.data.treebank import _jit_conllu as jit
from omkl.data.treebank import layouts
from omkl.data.treebank.layouts import FIELDS, Checks
from omkl.data.treebank.strings import MISSING, Strings
from omkl.exceptions import InputError

if TYPE_CHECKING:
    import networkx

# UTF-8 cannot encode half of a surrogate pair
_UNFIT = re.compile("[\t\n\r\ud800-\udfff]")
_UNFIT_BUT_TABS = re.compile("[\n\r\ud800-\udfff]")


@dataclass
class Sentence:
    """Sentence of n words, column by column, without multiword tokens and empty nodes.

    Each column is a list of n strings, ``_`` if a word has none; heads are ints, 0 for the root, or None. A sentence of
    a :class:`~omkl.data.Treebank` decodes a column at its first use.

    >>> sentence = Sentence(forms=["No", "way"], heads=[2, 0])
    >>> len(sentence)
    2
    """

    forms: list = field(default_factory=list)
    lemmas: list = field(default_factory=list)
    upos: list = field(default_factory=list)
    xpos: list = field(default_factory=list)
    feats: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    deprels: list = field(default_factory=list)
    misc: list = field(default_factory=list)

    @classmethod
    def of_treebank(cls, treebank: Any, index: int) -> "Sentence":
        """Sentence ``index`` of a treebank, a view of it."""
        sentence = object.__new__(cls)
        sentence.__dict__["_source"] = treebank, index
        return sentence

    def __len__(self) -> int:
        return len(self.forms)

    def __getattr__(self, name: str) -> Any:
        # called for missing attributes only: a column that is not decoded yet
        if name not in self.__dataclass_fields__ or "_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        treebank, index = self._source
        self.__dict__[name] = column = treebank.column(name, index)
        return column

    def to_networkx(self) -> "networkx.DiGraph":
        """Convert the tree to a graph.

        Returns
        -------
        networkx.DiGraph
            Nodes are the numbers of words from 1, and 0 for the root; words have ``form`` and, if the sentence has
            them, ``lemma``, ``upos``, ``xpos``, ``feats`` and ``misc``. Edges go from heads to words, with ``deprel``.

        >>> graph = Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", "root"]).to_networkx()
        >>> list(graph.edges(data="deprel")), graph.nodes[2]
        ([(0, 2, 'root'), (2, 1, 'det')], {'form': 'way'})
        """
        import networkx

        names = {"forms": "form", "lemmas": "lemma"} | {name: name for name in ("upos", "xpos", "feats", "misc")}
        graph = networkx.DiGraph()
        graph.add_node(0)
        for word in range(1, len(self) + 1):
            columns = ((name, getattr(self, column)) for column, name in names.items())
            graph.add_node(word, **{name: column[word - 1] for name, column in columns if column})
        for word, head in enumerate(self.heads, 1):
            if head is not None:
                graph.add_edge(head, word, **({"deprel": self.deprels[word - 1]} if self.deprels else {}))
        return graph

    def __getstate__(self):
        # a pickled or copied sentence does not take its treebank along
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False, repr=False)
class Treebank:
    """Sentences, column by column, with an integer code for each string.

    Attributes
    ----------
    offsets : int64 array (n_sentences + 1,)
        The words of sentence ``i`` are ``offsets[i]`` to ``offsets[i + 1] - 1``.
    forms, lemmas, upos, xpos, feats, deprels, misc : int32 arrays (n_words,)
        Codes into ``strings``; 0 stands for ``_``.
    heads : int32 array (n_words,)
        Numbers of words of the sentence, from 1; 0 is the root, and -1 stands for ``_``.
    strings : dict of str to Strings
        For each field, its different strings; treebanks can share them.
    text : bytes or None
        Text of the file, with comments, multiword tokens, empty nodes and all columns.
    format : str
        Format of the text, such as ``"CoNLL-U"``.
    changed : frozenset of str
        Columns that differ from the text; see :meth:`with_column`.
    text_offsets : int64 array (n_sentences + 1,) or None
        The text of sentence ``i`` and of its comments is ``text[text_offsets[i]:text_offsets[i + 1]]``.
    head_starts : int32 array (n_words,) or None
        Position of HEAD in the text of the sentence.
    bom : bool
        Whether the file began with a byte order mark, which is not in ``text``.
    skipped : int
        Number of sentences that ``on_error="skip"`` left out.
    reasons : list of str
        Reasons for the first of them.

    >>> treebank = Treebank.from_sentences([Sentence(forms=["No", "way"], heads=[2, 0])])
    >>> treebank[0].heads, treebank.strings["forms"][treebank.forms[1]]
    ([2, 0], 'way')
    """

    offsets: np.ndarray
    forms: np.ndarray
    lemmas: np.ndarray
    upos: np.ndarray
    xpos: np.ndarray
    feats: np.ndarray
    heads: np.ndarray
    deprels: np.ndarray
    misc: np.ndarray
    strings: dict
    text: bytes | None = None
    text_offsets: np.ndarray | None = None
    head_starts: np.ndarray | None = None
    bom: bool = False
    skipped: int = 0
    reasons: list = field(default_factory=list)
    format: str = layouts.LAYOUTS["conllu"].title
    changed: frozenset = frozenset()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        """Number of words."""
        return len(self.heads)

    @property
    def lengths(self) -> np.ndarray:
        """Number of words of each sentence."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        return f"Treebank({len(self)} sentences, {self.n_words} words)"

    def __iter__(self) -> Iterator[Sentence]:
        return (Sentence.of_treebank(self, i) for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """A sentence; for a slice, a mask or an array of indices, a treebank."""
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"There is no sentence {index}: there are {len(self)}.")
            return Sentence.of_treebank(self, int(index) % len(self))
        return self._select(np.arange(len(self))[index])

    def column(self, name: str, index: int) -> list:
        """Decode a column of a sentence.

        Parameters
        ----------
        name : str
        index : int

        Returns
        -------
        list
            Of ints or None for ``heads``, of str otherwise.
        """
        values = getattr(self, name)[self.offsets[index] : self.offsets[index + 1]].tolist()
        if name == "heads":
            return [None if head < 0 else head for head in values]
        strings = self.strings[name].tolist()
        return [strings[code] for code in values]

    def with_column(self, name: str, values: np.ndarray, strings: Strings | None = None) -> "Treebank":
        """Replace a column, also in what is written.

        Parameters
        ----------
        name : str
        values : int array (n_words,)
            Heads, or codes into ``strings``.
        strings : Strings, optional
            Not for heads.

        Returns
        -------
        Treebank
        """
        tables = self.strings if strings is None else {**self.strings, name: strings}
        columns: dict[str, Any] = {name: np.ascontiguousarray(values, np.int32)}
        return replace(self, strings=tables, changed=self.changed | {name}, **columns)

    def _select(self, chosen: np.ndarray) -> "Treebank":
        lengths = self.lengths[chosen]
        offsets = running_sum(lengths)
        words = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        columns: dict[str, Any] = {name: getattr(self, name)[words] for name in (*FIELDS, "heads")}
        if self.text is not None and self.text_offsets is not None and self.head_starts is not None:
            texts = [self.text[self.text_offsets[i] : self.text_offsets[i + 1]] for i in chosen]
            last = len(self) - 1  # only the last text may lack its empty line
            texts[:-1] = [closed(text) if i == last else text for i, text in zip(chosen, texts[:-1])]
            columns |= {"text": b"".join(texts), "text_offsets": running_sum(list(map(len, texts)))}
            columns["head_starts"] = self.head_starts[words]
        return replace(self, offsets=offsets, skipped=0, reasons=[], **columns)

    @classmethod
    def concatenate(cls, treebanks: Iterable["Treebank"]) -> "Treebank":
        """Join treebanks; without a text if one of them has none.

        Parameters
        ----------
        treebanks : iterable of Treebank
            Tables of strings that all of them share are kept; others are joined.

        Returns
        -------
        Treebank

        Raises
        ------
        omkl.exceptions.InputError
            If there is no treebank.
        """
        blocks: list[Any] = list(treebanks)
        if not blocks:
            raise InputError("There is no treebank to join.")
        if len(blocks) == 1:
            return blocks[0]
        columns: dict[str, Any] = {"heads": np.concatenate([block.heads for block in blocks])}
        strings = {}
        for name in FIELDS:
            strings[name], columns[name] = _joined_strings(name, blocks)
        columns["offsets"] = running_sum(np.concatenate([block.lengths for block in blocks]))
        if all(block.text is not None for block in blocks):
            texts = [closed(block.text) for block in blocks[:-1]] + [blocks[-1].text]
            starts = running_sum(list(map(len, texts)))
            ends = [block.text_offsets[:-1] + start for block, start in zip(blocks, starts)]
            columns |= {"text": b"".join(texts), "text_offsets": np.concatenate([*ends, starts[-1:]])}
            columns["head_starts"] = np.concatenate([block.head_starts for block in blocks])
        reasons = [reason for block in blocks for reason in block.reasons]
        return cls(
            strings=strings,
            bom=blocks[0].bom,
            skipped=sum(block.skipped for block in blocks),
            reasons=reasons,
            format=" and ".join(dict.fromkeys(block.format for block in blocks)),
            changed=frozenset[str]().union(*(block.changed for block in blocks)),
            **columns,
        )

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sentence],
        *,
        strings: dict[str, Strings] | None = None,
        trees: bool | str = "given",
        single_root: bool = False,
    ) -> "Treebank":
        """Make a treebank of sentences.

        Parameters
        ----------
        sentences : iterable of Sentence
            An empty column stands for ``_`` in every word.
        strings : dict of str to Strings, optional
            Tables of another treebank, to share and grow.
        trees, single_root
            See :func:`~omkl.data.read_treebank`.

        Returns
        -------
        Treebank

        Raises
        ------
        omkl.exceptions.InputError
            If columns of a sentence are not equally long, a string has a tab or a line break in it, or heads are no
            tree; the message names sentence and word, both counted from 1.
        """
        strings = layouts.new_strings(strings)
        return cls(strings=strings, **_encoded(sentences, strings, Checks(trees, single_root)))


def _joined_strings(name: str, blocks: list[Treebank]) -> tuple[Strings, np.ndarray]:
    """A table of the strings of a field of several treebanks, and the codes of all words."""
    table = blocks[0].strings[name]
    if all(block.strings[name] is table for block in blocks):
        return table, np.concatenate([getattr(block, name) for block in blocks])
    table = table.copy()
    codes = [table.codes(block.strings[name].tolist(), grow=True)[getattr(block, name)] for block in blocks]
    return table, np.concatenate(codes)


def running_sum(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """``0, lengths[0], lengths[0] + lengths[1], ...``"""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def closed(text: bytes) -> bytes:
    """Add the empty line that ends the last sentence of a text, if it is missing."""
    if text.endswith((b"\n\n", b"\n\r\n")) or not text:
        return text
    newline = b"\r\n" if text.count(b"\r\n") else b"\n"
    return text + (newline if text.endswith(b"\n") else 2 * newline)


def _encoded(sentences: Iterable[Sentence], strings: dict[str, Strings], checks: Checks) -> dict[str, Any]:
    """Check sentences, and encode their columns; ``strings`` grow."""
    values: dict[str, list] = {name: [] for name in layouts.COLUMNS}
    lengths = []
    for number, sentence in enumerate(sentences, 1):
        columns = [getattr(sentence, name) for name in layouts.COLUMNS]
        for name, column in zip(layouts.COLUMNS, columns):
            if isinstance(column, str) or not hasattr(column, "__len__"):
                raise InputError(f"Sentence {number} has {column!r:.60} as its {name}: give a list, one for each word.")
        n = max(map(len, columns))
        if n == 0:
            raise InputError(f"Sentence {number} has no words: leave it out.")
        lengths.append(n)
        for name, column in zip(layouts.COLUMNS, columns):
            values[name] += _column(column, name, n, number)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    heads = np.array(values["heads"], np.int32)
    check_heads(offsets, heads, checks)
    codes = {name: strings[name].codes(values[name], grow=True) for name in FIELDS}
    return {"offsets": offsets, "heads": heads, **codes}


def check_heads(offsets: np.ndarray, heads: np.ndarray, checks: Checks) -> None:
    """Raise InputError, with the sentence and the word, unless heads are as ``checks`` asks."""
    if layouts.MODES[checks.trees] == jit.ANY_HEADS:
        return
    found = np.zeros((len(offsets) - 1, 5), np.int64)
    jit.check_trees(offsets, heads, layouts.MODES[checks.trees], checks.single_root, found)
    if found[:, layouts.WRONG].any():
        i = int(np.argmax(found[:, layouts.WRONG] != jit.FINE))
        wrong, word = found[i, [layouts.WRONG, layouts.WRONG_WORD]].tolist()
        own = [MISSING if head < 0 else str(head) for head in heads[offsets[i] : offsets[i + 1]].tolist()]
        raise InputError(f"Sentence {i + 1}, word {word}: {layouts.explain_heads(own, wrong, word)}")


def _column(values: Sequence, name: str, n: int, number: int) -> list:
    """Check a column of sentence ``number``: strings, or heads, -1 for none."""
    if len(values) not in (0, n):
        raise InputError(f"Sentence {number} has {n} words, but {len(values)} {name}.")
    if name == "heads":
        return [_head(head, number, word) for word, head in enumerate(values, 1)] or [-1] * n
    if not len(values):
        return [MISSING] * n
    strings = [MISSING if value is None else value for value in values]
    if _are_fit(strings):
        return strings
    word = next(i for i, value in enumerate(strings) if not isinstance(value, str) or _UNFIT.search(value))
    wanted = "a string that UTF-8 can hold, without tabs and line breaks"
    raise InputError(f"Sentence {number}, word {word + 1}: {strings[word]!r} among {name} is not {wanted}.")


def _are_fit(strings: list) -> bool:
    """Check strings for tabs, line breaks and lone surrogates, all at once to be fast."""
    try:
        text = "\t".join(strings)
    except TypeError:
        return False
    return text.count("\t") == len(strings) - 1 and not _UNFIT_BUT_TABS.search(text)


def _head(head: Any, number: int, word: int) -> int:
    if head is None:
        return -1
    try:
        if 0 <= int(head) == head < 10**jit.MOST_DIGITS:
            return int(head)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"Sentence {number}, word {word}: the head {head!r} is not the number of a word, 0 or None.")


def conllu_text(sentences: Iterable[Sentence]) -> Iterable[bytes]:
    """Sentences as CoNLL-U, each with an empty line after it."""
    for sentence in sentences:
        heads = [MISSING if head is None else str(head) for head in sentence.heads]
        columns = [heads if name == "heads" else getattr(sentence, name) for name in layouts.COLUMNS]
        words = map("\t".join, zip(*columns[:-1]))
        lines = (f"{i}\t{word}\t_\t{misc}\n" for i, (word, misc) in enumerate(zip(words, columns[-1]), 1))
        yield "".join(lines).encode() + b"\n"
