"""CheckedModel, a model whose answers have a guarantee."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import warn_caller
from omkl.estimators.persistence import SavedEstimator, check_is_fitted, estimator_class
from omkl.estimators.sources import ExamplesLike, OutputsLike, blocks_of
from omkl.estimators.validation import Number, OneOf
from omkl.exceptions import DataWarning, InputError
from omkl.guarantees.answers import READERS, Answer, answers_of, row_outputs
from omkl.guarantees.bounds import chosen_threshold, conformal_threshold, error_curve, n_needed
from omkl.online.rounds import below
from omkl.persistence import Manifest, Packer, Unpacker

#: Share of errors that a user accepts, or a confidence.
SHARE = Number(above=0, below=1)
#: What may be wrong, by the kind of the examples.
UNITS: dict[str | None, tuple[str, ...]] = dict.fromkeys(READERS, ("output", "token"))
UNITS |= {"rows": ("output",), "sequences": ("output", "token", "entity")}


class CheckedParts(NamedTuple):
    """Parts of an example that may be wrong: its whole output, its n tokens, or its entities.

    Attributes
    ----------
    scores : array of shape (n,) or (1,)
        Scores of the correct values of tokens; the least one for outputs and entities.
    sure : array of shape (number of parts,)
        Confidence of each part.
    wrong : bool array of shape (number of parts,)
    """

    scores: np.ndarray
    sure: np.ndarray
    wrong: np.ndarray


def parts_of(answer: Answer, unit: str) -> CheckedParts:
    """Return the parts of an answer that may be wrong."""
    if unit == "token":
        return CheckedParts(answer.right, answer.tokens, answer.wrong)
    least = answer.right.min(keepdims=True)
    if unit == "output":
        return CheckedParts(least, np.array([answer.sure]), np.array([answer.wrong.any()]))
    entities, firsts = answer.in_entities()
    return CheckedParts(least, entities.tokens[firsts], entities.wrong[firsts])


@dataclass(kw_only=True, eq=False, repr=False)
class CheckedModel(SavedEstimator):
    """Trained model whose answers have a guarantee; made by :func:`omkl.guarantee`.

    Parameters
    ----------
    model : estimator
        Trained model.
    confidence, unit, column
        As for :func:`omkl.guarantee`.

    Attributes
    ----------
    n_examples_ : int
        Number of calibration examples.
    levels_ : dict of float to float
        For each ``miss`` of :meth:`partial_fit`, the level at which sets are predicted at present.
    """

    model: Any = field(kw_only=False)
    confidence: float = 0.9
    unit: str = "output"
    column: str | None = None

    levels_: dict[float, float] = field(init=False)
    curve_: dict[str, np.ndarray] | None = field(init=False)

    _plain_attributes = ("n_examples_", "levels_", "curve_", "scores_", "lengths_")
    _rounded = ("/table", "/coefficients")

    def fit(self, X: ExamplesLike, y: OutputsLike = None) -> "CheckedModel":
        """Calibrate on examples that the model was not trained on; see :func:`omkl.guarantee`."""
        if not isinstance(self.model, SavedEstimator) or self.model.example_kind not in READERS:
            raise InputError(
                "`model` must be a labeler, parser or model of rows of omkl, "
                f"got {self.model!r:.40}."
            )
        check_is_fitted(self.model)
        SHARE.check("confidence", self.confidence)
        OneOf(UNITS[self.model.example_kind]).check("unit", self.unit)
        columns: list[str | None] = [None]
        if hasattr(self.model, "columns_"):
            columns += self.model.columns_
        OneOf(tuple(columns)).check("column", self.column)
        examples = self._parts_of_examples(X, y)
        if not examples:
            raise InputError("X must hold calibration examples, got none.")
        self.n_examples_ = len(examples)
        self.scores_ = np.concatenate([example.scores for example in examples])
        self.lengths_ = np.array([len(example.scores) for example in examples])
        self.levels_ = {}
        n_parts = [len(example.sure) for example in examples]
        self.curve_ = error_curve(
            sure=np.concatenate([example.sure for example in examples]),
            wrong=np.concatenate([example.wrong for example in examples]),
            owners=np.repeat(np.arange(len(examples)), n_parts),
            n_examples=len(examples),
            confidence=self.confidence,
            one_part=self.unit == "output",
        )
        return self

    @property
    def _has_intervals(self) -> bool:
        from sklearn.base import is_regressor  # models of words predict without scikit-learn

        return is_regressor(self.model)

    def _parts_of_examples(self, X: ExamplesLike, y: OutputsLike) -> list[CheckedParts]:
        """Return the parts of each example; for a regressor, only minus its absolute error."""
        if not self._has_intervals:
            answers = answers_of(self.model, X, y, self.column, compare=True)
            return [parts_of(answer, self.unit) for answer in answers]
        examples = []
        for block in blocks_of(X, y):
            predicted = self.model.predict(block.X)
            errors = np.abs(row_outputs(block, len(predicted)) - predicted)
            for score in -errors[:, None]:
                examples.append(CheckedParts(score, np.zeros(0), np.zeros(0, dtype=bool)))
        return examples

    # ---- accepted outputs ------------------------------------------------------------------------

    def accept(self, X: ExamplesLike, *, error: float) -> Any:
        """Tell which outputs to accept, so that at most a share ``error`` of these is wrong.

        This holds with the confidence of the guarantee.

        Parameters
        ----------
        X
            Examples, as for the model's ``predict`` or ``parse``.
        error : float in (0, 1)
            Accepted share of errors.

        Returns
        -------
        bool array of shape (number of examples,), or list of bool arrays
            One value for each output, or with ``unit="token"`` for each token. With
            ``unit="entity"``, tokens of accepted entities are True.

        Raises
        ------
        omkl.exceptions.InputError
            If there are too few calibration examples for this error, or the model is a regressor.
        """
        answers = answers_of(self.model, X, column=self.column)
        accepted = [is_accepted for _, is_accepted in self.judged(answers, error)]
        return np.array(accepted, dtype=bool) if self.unit == "output" else accepted

    def judged(self, answers: Iterable[Answer], error: float) -> Iterator[tuple[Answer, Any]]:
        """Return pairs of an answer and whether to accept it.

        With other units than outputs, an array tells which of its tokens to accept.
        """
        check_is_fitted(self)
        SHARE.check("error", error)
        if self._has_intervals:
            raise InputError("accept() is not for regressors, which have intervals by sets().")
        if self.curve_ is None:
            raise InputError(
                "accept() needs a guarantee on the present model, which has been trained since."
            )
        needed = n_needed(error, self.confidence)
        n = int(self.curve_["examples"].max(initial=0))
        if n < needed:
            promise = f"error={error:g} with confidence={self.confidence:g}"
            raise InputError(f"{promise} needs at least {needed} calibration examples, got {n}.")
        threshold = chosen_threshold(self.curve_, error, self.confidence)
        if threshold == np.inf:
            warn_caller(
                f"No output is accepted: the surest ones may have more than {error:.2%} errors.",
                DataWarning,
            )

        def is_accepted(answer: Answer) -> Any:
            if self.unit == "output":
                return answer.sure >= threshold
            if self.unit == "entity":
                answer, _ = answer.in_entities()
            return answer.tokens >= threshold

        return ((answer, is_accepted(answer)) for answer in answers)

    def curve(self) -> list[dict[str, float]]:
        """Return what thresholds of confidence accept on the calibration examples, strictest first.

        Returns
        -------
        list of dict
            For each ``threshold``: ``accepted``, the share of outputs, tokens or entities;
            ``examples``, the number of examples with some of these; their ``error``, and a
            ``bound`` on it that holds for this threshold with the confidence of the guarantee.
        """
        check_is_fitted(self)
        columns = self.curve_ or {}
        rows = zip(*(values.tolist() for values in columns.values()))
        return [dict(zip(columns, row)) for row in rows]

    # ---- sets ------------------------------------------------------------------------------------

    def sets(self, X: ExamplesLike, *, miss: float) -> Any:
        """Predict sets of labels, heads or classes, or intervals, that seldom miss the correct one.

        Parameters
        ----------
        X
            As for :meth:`accept`.
        miss : float in (0, 1)
            Probability that the set of a new example misses the correct value. A sequence or a
            sentence is missed if any of its sets is; with ``unit="token"``, this is the probability
            for a token of a random sequence.

        Returns
        -------
        list of list of set, list of set, or array of shape (n, 2)
            For each token, its possible labels or heads; for each row, its possible classes; for a
            regressor, the ends of intervals.
        """
        check_is_fitted(self)
        SHARE.check("miss", miss)
        threshold = conformal_threshold(self.scores_, self.lengths_, self.levels_.get(miss, miss))
        if threshold == -np.inf and miss not in self.levels_:
            needed = int(np.ceil(1.0 / miss - 1.0 - 1e-9))
            raise InputError(
                f"Sets with miss={miss:g} need at least {needed} calibration examples, "
                f"got {self.n_examples_}."
            )
        if self._has_intervals:
            predicted = np.concatenate([self.model.predict(block.X) for block in blocks_of(X)])
            return np.column_stack([predicted + threshold, predicted - threshold])
        sets: list[Any] = []
        for answer in answers_of(self.model, X, column=self.column):
            if not len(answer.names):
                raise InputError("sets() are of tags and heads: name one of these as column.")
            sets_of_tokens = []
            for probabilities in answer.values:
                sets_of_tokens.append(set(answer.names[probabilities >= threshold].tolist()))
            sets.append(sets_of_tokens)
        if self.model.example_kind == "rows":
            return [set_of_row for [set_of_row] in sets]
        return sets

    def partial_fit(
        self,
        X: ExamplesLike,
        y: OutputsLike = None,
        *,
        miss: float = 0.1,
        rate: float = 0.01,
        **learning: ArrayLike | None,
    ) -> "CheckedModel":
        r"""Adapt sets to examples of a stream, and train the model if it has ``partial_fit``.

        Call :meth:`sets` with this ``miss`` on each block first, then this method. After T
        examples, the share of missed ones differs from ``miss`` by at most about 1 / (rate T),
        however the stream changes.

        Parameters
        ----------
        X, y
            Examples with their correct outputs.
        miss : float in (0, 1)
        rate : float > 0
            Step of the level of ``miss`` after a missed example. Larger rates follow faster
            changes.
        **learning
            Passed on to ``partial_fit`` of the model, such as ``sample_weight``. Refused if it has
            none.

        Returns
        -------
        self

        References
        ----------
        Gibbs, Candes (2021), *Adaptive conformal inference under distribution shift*.
        """
        check_is_fitted(self)
        SHARE.check("miss", miss)
        Number(above=0).check("rate", rate)
        level = self.levels_.get(miss, miss)
        new_scores = [example.scores for example in self._parts_of_examples(X, y)]
        if hasattr(self.model, "partial_fit"):
            self.model.partial_fit(X, y, **learning)
            self.curve_ = None
        else:
            for name, value in learning.items():
                if value is not None:
                    raise InputError(
                        f"{type(self.model).__name__} does not learn from streams: "
                        f"{name} is not used."
                    )
        scores = np.concatenate(new_scores)
        lengths = np.array(list(map(len, new_scores)))
        missed = scores < conformal_threshold(self.scores_, self.lengths_, level)
        n_missed = (missed / np.repeat(lengths, lengths)).sum()
        self.levels_[miss] = float(level + rate * (miss * len(lengths) - n_missed))
        # the latest examples, as many as at first
        self.lengths_ = np.concatenate([self.lengths_, lengths])[-self.n_examples_ :]
        self.scores_ = np.concatenate([self.scores_, scores])[-int(self.lengths_.sum()) :]
        return self

    # ---- model files -----------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        return {**super()._saved_parameters(), "model": None}

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        packer_of_model = Packer()
        keeps_training = training and not self.model._predicts_only
        manifest = self.model._manifest(packer_of_model, keeps_training, history=True)
        for name, array in packer_of_model.arrays.items():
            packer.arrays[f"model:{name}"] = array
        return {"model": manifest}

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        manifest_of_model = manifest["model"]
        unpacker_of_model = Unpacker(below(unpacker.arrays, "model:"), unpacker.parts)
        model_class = estimator_class(manifest_of_model["class"])
        self.model = model_class._from_model(manifest_of_model, unpacker_of_model)


def guarantee(
    model: SavedEstimator,
    X: ExamplesLike,
    y: OutputsLike = None,
    *,
    confidence: float = 0.9,
    unit: str = "output",
    column: str | None = None,
) -> CheckedModel:
    """Calibrate a trained model on new examples, so that its answers have a guarantee.

    Parameters
    ----------
    model : estimator
        A trained labeler, parser, annotator, classifier or regressor with probabilities.
    X, y
        Calibration examples with their correct outputs, as for ``score``: of the kind that the
        model will see, and that it was not trained on or calibrated on; on training examples,
        models are wrong less often. This is not checked, as rows of discrete columns repeat. A few
        hundred are needed. The model predicts them once.
    confidence : float in (0, 1)
        Probability, over the choice of the calibration examples, that
        :meth:`~omkl.CheckedModel.accept` keeps its promise.
    unit : {"output", "token", "entity"}
        What may be wrong: a whole output (a row, or all labels of a sequence, or the tree of a
        sentence), a token, or a predicted entity of a labeler. For tokens and entities, the promise
        is about the mean over examples of the share of the accepted ones that are wrong.
    column : str, optional
        For parsers and annotators, the column that may be wrong, such as "upos", "heads" or
        "deprels". By default all that the model predicts.

    Returns
    -------
    CheckedModel
        With ``accept``, ``sets``, ``curve`` and ``save``.

    Raises
    ------
    omkl.exceptions.InputError
        If the model has no probabilities, or a parameter is invalid.

    Examples
    --------
    >>> import omkl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = omkl.MKLClassifier().fit(X[::3], y[::3])
    >>> checked = omkl.guarantee(model, X[1::3], y[1::3])
    >>> accepted = checked.accept(X[2::3], error=0.1)  # at most 10% of these are wrong
    >>> bool(accepted.mean() > 0.5)
    True
    """
    return CheckedModel(model, confidence=confidence, unit=unit, column=column).fit(X, y)
