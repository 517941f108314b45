"""What a trained annotator does: annotations, alternatives, probabilities, scores."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from omkl._components import check_n_jobs, check_number
from omkl.data import Sentence, Treebank
from omkl.estimators.evaluation import evaluate_blocks
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.parses import with_notes
from omkl.estimators.tagging import COLUMNS
from omkl.estimators.treebanks import sentences_of, treebanks_of
from omkl.exceptions import InputError


class Annotation(NamedTuple):
    """An annotated sentence.

    Attributes
    ----------
    sentence : Sentence
    score : float
        Logarithm of the probability of its tags, and of its tree beside these.
    """

    sentence: Sentence
    score: float


class Annotates:
    """Annotations of a model that was learned; see :class:`~omkl.Annotator`."""

    parts_: list[str]
    tagger_: Any
    parser_: Any
    n_jobs: int | None

    def annotate(self, X: Any, *, confidence: bool = False) -> Treebank:
        """Annotate sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Sentence, iterable of Sentence or of lists of words, or Stream
            What stands in the columns that the annotator writes is not looked at; all others are kept.
        confidence : bool
            Whether probabilities are noted in MISC: of tags as ``UposConf=0.987`` (``XposConf`` where the chain is over
            XPOS), of arcs as ``HeadConf``, of relations as ``RelConf``.

        Returns
        -------
        Treebank
            Iterate it for sentences, or write it with :func:`omkl.data.write_treebank`.

        Raises
        ------
        omkl.exceptions.InputError
            If probabilities are asked for, and the annotator was not calibrated; see :meth:`calibrate`.
        """
        check_is_fitted(self)
        return Treebank.concatenate(self.annotate_blocks(treebanks_of(X, trees=False), confidence=confidence))

    def annotate_blocks(self, blocks: Iterable[Treebank], *, confidence: bool = False) -> Iterator[Treebank]:
        """Annotate treebanks one after the other, as they come."""
        check_is_fitted(self)
        check_n_jobs(self.n_jobs)
        if confidence:
            self._check_calibrated()
        self.models()  # which take as many threads
        for block in blocks:
            if self.tagger_ is not None:
                block = self.tagger_.annotate(block)
                if confidence and self.tagger_.tag is not None:
                    block = with_notes(block, {f"{self.tagger_.tag.capitalize()}Conf": self.tagger_.confidence(block)})
            yield block if self.parser_ is None else self.parser_.parse(block, confidence=confidence)

    def predict_nbest(self, X: Any, n: int = 5) -> list[list[Annotation]]:
        """The likeliest annotations of each sentence, likeliest first.

        Of the n likeliest sequences of tags each has its n likeliest trees, and the likeliest of all these pairs are
        told; morphology and lemmas are the best beside the tags. So the first may differ from what :meth:`annotate`
        gives, which looks for a tree beside the best tags alone.

        Parameters
        ----------
        X : as for :meth:`annotate`
        n : int > 0
            How many; fewer where a sentence has not so many.

        Returns
        -------
        list of list of Annotation
            ``(sentence, score)``, the score a log-probability.

        Raises
        ------
        omkl.exceptions.InputError
            If the annotator was not calibrated, so that tags and trees have no probabilities; see :meth:`calibrate`.
        """
        annotations: list[list[Annotation]] = []
        for block in treebanks_of(X, trees=False):
            found, owners, scores = self.nbest_of(block, n)
            annotations += [[] for _ in range(len(block))]
            for sentence, owner, score in zip(found, (owners - len(block)).tolist(), scores.tolist()):
                annotations[owner].append(Annotation(sentence, score))
        return annotations

    def nbest_of(self, block: Treebank, n: int) -> tuple[Treebank, np.ndarray, np.ndarray]:
        """The n likeliest annotations of each sentence of a treebank, all in one.

        Returns
        -------
        treebank : Treebank
            The annotations of the first sentence, likeliest first, then those of the next.
        owners : int array
            Which of the sentences each is of.
        scores : array
            Their log-probabilities.
        """
        check_is_fitted(self)
        check_number("n", n, above=0, integer=True)
        self._check_calibrated()
        self.models()  # which take as many threads
        owners, scores = np.arange(len(block)), np.zeros(len(block))
        if self.tagger_ is not None:
            block, owners, scores = self.tagger_.nbest(block, int(n))
        if self.parser_ is not None:
            block, parents, own = self.parser_._nbest_trees(block, int(n))
            owners, scores = owners[parents], scores[parents] + own
        order = np.lexsort((-scores, owners))
        owners = owners[order]
        kept = np.arange(len(owners)) - np.searchsorted(owners, owners) < n
        return block[order[kept]], owners[kept], scores[order[kept]]

    def calibrate(self, X: Any) -> "Annotates":
        """Find what makes probabilities of scores, on sentences that the annotator has not learned from.

        The best annotation stays the same. See :meth:`omkl.SequenceLabeler.calibrate` and
        :meth:`omkl.DependencyParser.calibrate`: tags are calibrated beside words, trees beside the tags that the
        annotator gives these. Another ``fit`` takes the probabilities away.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        gold = Treebank.concatenate(treebanks_of(X, trees=self.parser_ is not None and "partial"))
        if self.tagger_ is not None:
            self.tagger_.calibrate(gold)
        if self.parser_ is not None:
            self.parser_.calibrate(gold if self.tagger_ is None else self.tagger_.annotate(gold))
        return self

    def _check_calibrated(self) -> None:
        scored = [] if self.parser_ is None else [self.parser_]
        scored += [] if self.tagger_ is None else self.tagger_.chains
        if not all(hasattr(model, "predict_marginals") for model in scored):
            raise InputError(
                "There are no probabilities before the annotator is calibrated: call calibrate(X) with sentences that "
                "it has not learned from, or train with --dev FILE."
            )

    def evaluate(self, X: Any, ignore: Any = None) -> dict[str, Any]:
        """How well annotations are found from words alone, as the CoNLL 2018 shared task measures it.

        Parameters
        ----------
        X, ignore
            As for :meth:`omkl.DependencyParser.evaluate`.

        Returns
        -------
        dict
            As :func:`omkl.estimators.evaluate_treebanks` has them. What the annotator does not write is the gold one,
            and always right.
        """
        check_is_fitted(self)
        gold = treebanks_of(X, trees=self.parser_ is not None and "given")
        return evaluate_blocks(((block, next(self.annotate_blocks([block]))) for block in gold), ignore)

    def score(self, X: Any, y: Any = None) -> float:
        """Labeled attachment score in [0, 1], from words alone; of an annotator without trees the share of words whose
        tags and features are all right, or whose lemmas are where it writes nothing else; see :meth:`evaluate`."""
        scores = self.evaluate(sentences_of(X, y))
        if "trees" in self.parts_:
            return scores["uas" if scores["las"] is None else "las"]
        return scores["lemmas" if self.parts_ == ["lemmas"] else "alltags"]

    @property
    def columns_(self) -> tuple[str, ...]:
        """The columns of a treebank that are written, by the names of :class:`~omkl.data.Sentence`."""
        check_is_fitted(self)
        trees = () if self.parser_ is None else ("heads", "deprels") if self.parser_.labeled else ("heads",)
        return (*(name for name in COLUMNS if name in self.parts_), *trees)

    @property
    def kernel_weights_(self) -> dict[str, dict[str, float]]:
        """Weights of the groups of features of each part, by its name: ``weights[part][group]``.

        Parts are ``"upos"``, the chain of tags; ``"xpos+feats of NOUN"`` and ``"lemmas of NOUN"``, what is told of
        words of one tag; and ``"trees"``, the templates of the parser. A part that has one answer only is not listed.
        """
        check_is_fitted(self)
        return {name: model.kernel_weights_ for name, model in self.models().items()}

    def models(self) -> dict[str, Any]:
        """The labelers and the parser that the annotator is made of, by the names of its parts."""
        check_is_fitted(self)
        models: dict[str, Any] = {} if self.tagger_ is None else self.tagger_.models()
        models |= {} if self.parser_ is None else {"trees": self.parser_}
        for model in models.values():
            model.n_jobs = self.n_jobs
        return models
