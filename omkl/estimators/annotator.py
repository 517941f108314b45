"""Annotator: from words to tags, morphology, lemmas and trees, all learned from one treebank."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from omkl._components import check_flags, check_number
from omkl.data import Treebank
from omkl.estimators.evaluation import evaluate_blocks
from omkl.estimators.parsing import DependencyParser
from omkl.estimators.saving import SavedEstimator
from omkl.estimators.sequence import SequenceLabeler
from omkl.estimators.tagging import COLUMNS, Tagger, strings_of, with_column
from omkl.estimators.treebanks import as_treebank, sentences_of, treebanks_of
from omkl.exceptions import InputError
from omkl.persistence import Packer, Unpacker

#: What an annotator can learn, in the order in which it does.
PARTS = (*COLUMNS, "trees")
#: Epochs of the labelers, where no other are given.
EPOCHS = 10


class Annotator(SavedEstimator):
    """Tags, morphology, lemmas and dependency trees for sentences of words.

    A chain labels words with tags (UPOS, or XPOS where the treebank has no UPOS); what is left of XPOS and FEATS is
    told given the tag, lemmas given both, and a parser works on all of these. Morphology and trees are learned beside
    tags that models give which have not seen the sentence, by cross-fitting, so that they know the mistakes that they
    will meet.

    Parameters
    ----------
    parts : "auto" or sequence of {"upos", "xpos", "feats", "lemmas", "trees"}
        What is learned and written; "auto" takes those whose columns the training data has.
    tagger : SequenceLabeler, optional
        An untrained labeler whose settings those of tags, morphology and lemmas take; they read words and features made
        of them, so it has no ``kernels``. By default one of ten epochs.
    parser : DependencyParser, optional
        An untrained parser to take the settings of; the default one by default.
    folds : int > 1
        Parts of the training data, each of which is tagged by a model of the others, for morphology and trees to learn
        from.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState or None
        The same seed gives the same model, bit for bit. It takes the place of that of ``tagger`` and ``parser``.

    Attributes
    ----------
    parts_ : list of str
        What is learned and written.
    tagger_ : Tagger or None
        Tags, morphology and lemmas by themselves.
    parser_ : DependencyParser or None
        The parser by itself, for sentences that have tags.

    Examples
    --------
    >>> from omkl.data import Sentence
    >>> dogs = [Sentence(forms=[noun, "bark"], lemmas=[noun.rstrip("s"), "bark"], upos=["NOUN", "VERB"], heads=[2, 0],
    ...                  deprels=["nsubj", "root"]) for noun in ("dogs", "cats", "cows", "frogs")]
    >>> annotator = Annotator(random_state=0).fit(dogs)
    >>> sentence = annotator.annotate([Sentence(forms=["dogs", "bark"])])[0]
    >>> sentence.upos, sentence.lemmas, sentence.heads
    (['NOUN', 'VERB'], ['dog', 'bark'], [2, 0])
    """

    def __init__(
        self, parts: Any = "auto", *, tagger: Any = None, parser: Any = None, folds: int = 4, verbose: bool = False,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.parts = parts
        self.tagger = tagger
        self.parser = parser
        self.folds = folds
        self.verbose = verbose
        self.random_state = random_state

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> "Annotator":
        """Learn from a treebank.

        Parameters
        ----------
        X : path, list of paths, Treebank, or iterable of Sentence
            Annotated sentences, in CoNLL-U, CoNLL-X or CoNLL-2008.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or a sentence is not as described, or the treebank lacks a column of a part that was asked
            for; the annotator stays what it was.
        """
        check_flags(self)
        check_number("folds", self.folds, above=1, integer=True)
        rng = np.random.RandomState(self.random_state) if not hasattr(self.random_state, "randint") else self.random_state
        settings = self._settings(rng)
        treebank = as_treebank(sentences_of(X), trees="trees" in self.parts if self.parts != "auto" else "given")
        parts = self._parts_of(treebank)
        columns = tuple(name for name in COLUMNS if name in parts)
        need_folds = bool(columns) and ("trees" in parts or len(columns) > 1)
        with tqdm(total=len(columns) + "trees" in parts, disable=not self.verbose) as bar:
            ...
        return self
