"""Sentences of treebanks, and features of part-of-speech tagging."""

from dataclasses import dataclass, field


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
    def of_treebank(cls, treebank, index):
        """A view of a sentence of a treebank."""
        sentence = object.__new__(cls)
        sentence.__dict__["_source"] = treebank, index
        return sentence

    def __len__(self):
        return len(self.forms)

    def __getattr__(self, name):
        # only asked for what is not there: a column that was not made yet
        if name not in self.__dataclass_fields__ or "_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        treebank, index = self._source
        self.__dict__[name] = column = treebank.column(name, index)
        return column

    def __getstate__(self):
        # a pickled or copied sentence does not take its treebank along
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def tagging_features(forms):
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
