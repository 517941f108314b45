"""Sentences, and treebanks: sentences as arrays of codes, made of what was read or of sentences made in Python."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.data import _jit_treebank as jit
from omkl.data import treebank_formats as formats
from omkl.data.strings import MISSING, Strings
from omkl.data.treebank_formats import FIELDS, Checks
from omkl.exceptions import InputError

if TYPE_CHECKING:
    import networkx

# half a pair of surrogates is no character that UTF-8 can hold
_UNFIT = re.compile("[\t\n\r\ud800-\udfff]")
_UNFIT_BUT_TABS = re.compile("[\n\r\ud800-\udfff]")


@dataclass
class Sentence:
    """A sentence of n words, column by column; multiword tokens and empty nodes are left out.

    Each column is a list of n strings, ``_`` where there is none; heads are ints, 0 for the root and None where there
    is none. A sentence of a :class:`~omkl.data.Treebank` makes a column when it is first asked for.

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
        """A view of a sentence of a treebank."""
        sentence = object.__new__(cls)
        sentence.__dict__["_source"] = treebank, index
        return sentence

    def __len__(self) -> int:
        return len(self.forms)

    def __getattr__(self, name: str) -> Any:
        # only asked for what is not there: a column that was not made yet
        if name not in self.__dataclass_fields__ or "_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        treebank, index = self._source
        self.__dict__[name] = column = treebank.column(name, index)
        return column

    def to_networkx(self) -> "networkx.DiGraph":
        """The parse as a graph.

        Returns
        -------
        networkx.DiGraph
            Nodes are the numbers of words from 1, and 0 for the root; words have ``form`` and, where the sentence has
            them, ``lemma``, ``upos``, ``xpos``, ``feats`` and ``misc``. Edges go from heads to words, and have
            ``deprel``.

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
    """Sentences, column by column: a code for each field of each word.

    Attributes
    ----------
    offsets : int64 array (n_sentences + 1,)
        The words of sentence ``i`` are ``offsets[i]`` to ``offsets[i + 1] - 1``.
    forms, lemmas, upos, xpos, feats, deprels, misc : int32 arrays (n_words,)
        Codes into ``strings``; 0 where the file has ``_``, or no such column.
    heads : int32 array (n_words,)
        Counted in the sentence from 1; 0 for the root, and -1 where the file has ``_``.
    strings : dict of str to Strings
        For each field, its different strings. Treebanks can share them.
    text : bytes or None
        What the sentences were read from, with comments, multiword tokens, empty nodes and all columns.
    format : str
        What people call the format of the text, such as ``"CoNLL-U"``.
    changed : frozenset of str
        Columns that are not those of the text; see :meth:`with_column`.
    text_offsets : int64 array (n_sentences + 1,) or None
        The text of sentence ``i``, with the comments before it, is ``text[text_offsets[i]:text_offsets[i + 1]]``.
    head_starts : int32 array (n_words,) or None
        Where HEAD begins, counted from the beginning of the text of the sentence.
    bom : bool
        Whether the file began with a byte order mark (which is not in ``text``).
    skipped : int
        How many sentences were left out by ``on_error="skip"``.
    reasons : list of str
        Why, for the first of them.

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
    format: str = formats.LAYOUTS["conllu"].title
    changed: frozenset = frozenset()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
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
        """A sentence; or, for a slice, a mask or an array of indices, the treebank of these sentences."""
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"There is no sentence {index}: there are {len(self)}.")
            return Sentence.of_treebank(self, int(index) % len(self))
        return self._select(np.arange(len(self))[index])

    def column(self, name: str, index: int) -> list:
        """A column of sentence ``index`` as a list: ints or None for ``heads``, else strings."""
        values = getattr(self, name)[self.offsets[index] : self.offsets[index + 1]].tolist()
        if name == "heads":
            return [None if head < 0 else head for head in values]
        strings = self.strings[name].tolist()
        return [strings[code] for code in values]

    def with_column(self, name: str, values: np.ndarray, strings: Strings | None = None) -> "Treebank":
        """The same sentences with another column, which is written in the place of the one that was read.

        Parameters
        ----------
        name : str
        values : int array (n_words,)
            Heads, or codes into ``strings``.
        strings : Strings, optional
            Not for heads.
        """
        tables = self.strings if strings is None else {**self.strings, name: strings}
        columns: dict[str, Any] = {name: np.ascontiguousarray(values, np.int32)}
        return replace(self, strings=tables, changed=self.changed | {name}, **columns)

    def _select(self, chosen):
        lengths = self.lengths[chosen]
        offsets = running_sum(lengths)
        words = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        columns = {name: getattr(self, name)[words] for name in (*FIELDS, "heads")}
        if self.text is not None:
            texts = [self.text[self.text_offsets[i] : self.text_offsets[i + 1]] for i in chosen]
            last = len(self) - 1  # the only text that may lack its empty line at the end
            texts[:-1] = [closed(text) if i == last else text for i, text in zip(chosen, texts[:-1])]
            columns |= {"text": b"".join(texts), "text_offsets": running_sum(list(map(len, texts)))}
            columns["head_starts"] = self.head_starts[words]
        return replace(self, offsets=offsets, skipped=0, reasons=[], **columns)

    @classmethod
    def concatenate(cls, treebanks: Iterable["Treebank"]) -> "Treebank":
        """One treebank of several; without a text if one of them has none.

        It has the tables of strings that they share, and new ones where they have others.

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
            strings[name], columns[name] = _joined(name, blocks)
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
        cls, sentences: Iterable[Sentence], *, strings: dict[str, Strings] | None = None, trees: bool | str = "given",
        single_root: bool = False,
    ) -> "Treebank":  # fmt: skip
        """A treebank of sentences made in Python.

        Parameters
        ----------
        sentences : iterable of Sentence
            A column that is empty stands for ``_`` in every word.
        strings : dict of str to Strings, optional
            Tables to share and grow, those of another treebank.
        trees, single_root
            As :func:`~omkl.data.read_treebank` has them.

        Raises
        ------
        omkl.exceptions.InputError
            If columns of a sentence are not equally long, a string has a tab or a line break in it, or heads are no
            tree; the message names sentence and word, both counted from 1.
        """
        strings = formats.new_strings(strings)
        return cls(strings=strings, **encode_sentences(sentences, strings, Checks(trees, single_root)))


def _joined(name: str, blocks: list[Treebank]) -> tuple[Strings, np.ndarray]:
    """The strings of a field of several treebanks, and the codes of all their words."""
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
    """A text whose last sentence ends with an empty line, so that another one can follow."""
    if text.endswith((b"\n\n", b"\n\r\n")) or not text:
        return text
    newline = b"\r\n" if text.count(b"\r\n") else b"\n"
    return text + (newline if text.endswith(b"\n") else 2 * newline)


def encode_sentences(sentences: Iterable[Sentence], strings: dict[str, Strings], checks: Checks) -> dict:
    """Columns of a treebank, by name: see :meth:`Treebank.from_sentences`. ``strings`` grow by those that are new."""
    values: dict[str, list] = {name: [] for name in formats.COLUMNS}
    lengths = []
    for number, sentence in enumerate(sentences, 1):
        columns = [getattr(sentence, name) for name in formats.COLUMNS]
        for name, column in zip(formats.COLUMNS, columns):
            if isinstance(column, str) or not hasattr(column, "__len__"):
                raise InputError(f"Sentence {number} has {column!r:.60} as its {name}: give a list, one for each word.")
        n = max(map(len, columns))
        if n == 0:
            raise InputError(f"Sentence {number} has no words: leave it out.")
        lengths.append(n)
        for name, column in zip(formats.COLUMNS, columns):
            values[name] += _column(column, name, n, number)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    heads = np.array(values["heads"], np.int32)
    check_heads(offsets, heads, checks)
    codes = {name: strings[name].codes(values[name], grow=True) for name in FIELDS}
    return {"offsets": offsets, "heads": heads, **codes}


def check_heads(offsets: np.ndarray, heads: np.ndarray, checks: Checks) -> None:
    """Raise unless heads are trees, as far as ``checks`` asks for; the message names sentence and word, from 1."""
    if formats.MODES[checks.trees] == jit.ANY_HEADS:
        return
    found = np.zeros((len(offsets) - 1, 5), np.int64)
    jit.check_trees(offsets, heads, formats.MODES[checks.trees], checks.single_root, found)
    if found[:, formats.WRONG].any():
        i = int(np.argmax(found[:, formats.WRONG] != jit.FINE))
        wrong, word = found[i, [formats.WRONG, formats.WRONG_WORD]].tolist()
        own = [MISSING if head < 0 else str(head) for head in heads[offsets[i] : offsets[i + 1]].tolist()]
        raise InputError(f"Sentence {i + 1}, word {word}: {formats.explain_heads(own, wrong, word)}")


def _column(values: Sequence, name: str, n: int, number: int) -> list:
    """A column of sentence ``number``: strings, or heads of which -1 is none."""
    if len(values) not in (0, n):
        advice = "give each word one, or none at all."
        raise InputError(f"Sentence {number} has {n} words, but {len(values)} {name}: {advice}")
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
    """Whether strings have no tabs, line breaks and lone surrogates; looked at together, which is fast."""
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
    """Each sentence as the lines of a CoNLL-U file, with an empty line after them."""
    for sentence in sentences:
        heads = [MISSING if head is None else str(head) for head in sentence.heads]
        columns = [heads if name == "heads" else getattr(sentence, name) for name in formats.COLUMNS]
        words = map("\t".join, zip(*columns[:-1]))
        lines = (f"{i}\t{word}\t_\t{misc}\n" for i, (word, misc) in enumerate(zip(words, columns[-1]), 1))
        yield "".join(lines).encode() + b"\n"
