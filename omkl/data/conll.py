"""Sentences of treebanks, and features of part-of-speech tagging."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx


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
            them, ``lemma``, ``upos``, ``xpos`` and ``feats``. Edges go from heads to words, and have ``deprel``.

        >>> graph = Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", "root"]).to_networkx()
        >>> list(graph.edges(data="deprel")), graph.nodes[2]
        ([(0, 2, 'root'), (2, 1, 'det')], {'form': 'way'})
        """
        import networkx

        names = {"forms": "form", "lemmas": "lemma", "upos": "upos", "xpos": "xpos", "feats": "feats"}
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


def tagging_features(forms: Sequence[str]) -> list[dict[str, str | bool]]:
    """Features of part-of-speech tagging, 20 templates a word: what it looks like, and its neighbours.

    Parameters
    ----------
    forms : list of str
        The words of a sentence.

    Returns
    -------
    list of dict
        For each word, strings and booleans by the name of the template, as :class:`~omkl.SequenceLabeler` takes them.

    >>> tagging_features(["No", "way"])[1]["prev"]
    'no'
    """
    lower = ["<s2>", "<s1>", *(form.lower() for form in forms), "</s1>", "</s2>"]
    return [
        {
            "bias": True,
            "word": form,
            "lower": lower[i + 2],
            "suffix1": form[-1:],
            "suffix2": form[-2:],
            "suffix3": form[-3:],
            "suffix4": form[-4:],
            "prefix1": form[:1],
            "prefix2": form[:2],
            "prefix3": form[:3],
            "shape": _shape(form),
            "is_capital": form[:1].isupper(),
            "is_upper": form.isupper(),
            "has_digit": any(map(str.isdigit, form)),
            "has_hyphen": "-" in form,
            "prev": lower[i + 1],
            "prev2": lower[i],
            "next": lower[i + 3],
            "next2": lower[i + 4],
            "prev_suffix3": lower[i + 1][-3:],
            "next_suffix3": lower[i + 3][-3:],
        }
        for i, form in enumerate(forms)
    ]


def _shape(form):
    """Kinds of characters, runs shortened to two: ``Xxd`` for ``McDonald's9``-like words."""
    kinds = ("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in form)
    shape = ""
    for kind in kinds:
        if shape[-2:] != kind * 2:
            shape += kind
    return shape
