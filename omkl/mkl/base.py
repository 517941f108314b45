"""Base class of batch estimators that combine kernels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if

from omkl._components import RandomState, as_random_state
from omkl.batch.solver import Solution, Solver
from omkl.data.frames import are_known_columns
from omkl.estimators import validation
from omkl.estimators.batch import (
    CONSTRAINTS,
    ClassDecoder,
    NumberDecoder,
    is_a_classifier,
    is_probabilistic,
    resolve_loss,
)
from omkl.estimators.cross_validation import warn_of_gaps
from omkl.estimators.explanations import Explanation, name_of_column, one_row
from omkl.estimators.persistence import SavedEstimator, check_is_fitted
from omkl.kernels.inputs import as_dense
from omkl.kernels.specs import KernelSpecs, takes_sparse
from omkl.losses import PointwiseLoss
from omkl.mkl.kernel_sources import (
    ArrayKernels,
    CheckedInputs,
    KernelInputs,
    KernelSource,
    is_precomputed,
    summed,
)
from omkl.mkl.model import KernelModel
from omkl.mkl.pairs import GAP, missing_pairs
from omkl.mkl.shapes import Shapes, batch_shapes
from omkl.mkl.training import LARGEST_C, READING, TrainingSet, largest_gap, prepare, warn_of_fit
from omkl.persistence import Packer, Unpacker
from omkl.regularizers import Regularizer

if TYPE_CHECKING:
    from omkl.distributed.stack import Client


@dataclass(kw_only=True, eq=False, repr=False)
class BatchMKL(TransformerMixin, SavedEstimator, BaseEstimator):
    """Base class of batch estimators that learn a combination of kernels.

    Its fields are shared parameters, described in :class:`MKLClassifier`. Subclasses are
    dataclasses with more fields, and classifiers or regressors.
    """

    kernels: KernelSpecs | None = field(default=None, kw_only=False)
    loss: str | PointwiseLoss
    regularizer: str | Regularizer | None = None
    solver: str | Solver = "spicy"
    tol: float = 1e-2
    max_iter: int | None = None
    fit_intercept: bool = True
    dtype: DTypeLike = "auto"
    approximate: bool | str = "auto"
    weighting: str = "auto"
    missing: str = "indicator"
    n_jobs: int | None = None
    verbose: bool = False
    # parameters of some subclasses
    C: float | str = field(default="auto", init=False)
    class_weight: str | dict | None = field(default=None, init=False)
    multiclass: str = field(default="auto", init=False)

    _constraints: ClassVar[dict[str, validation.Constraint]] = {
        **CONSTRAINTS,
        "C": validation.Number(above=0, below=LARGEST_C, also=("auto",)),
        "dtype": validation.OneOf(("auto", "float32", "float64", np.float32, np.float64)),
        "approximate": validation.OneOf(("auto", True, False)),
        "weighting": validation.OneOf(("auto", "norms", "out-of-sample")),
        "missing": validation.OneOf(validation.MISSING_RULES),
        "multiclass": validation.OneOf(("auto", "shared", "ovr")),
    }
    _plain_attributes = (
        "n_features_in_",
        "classes_",
        "multilabel_",
        "constant_labels_",
        "kernel_weights_",
        "intercept_",
        "unscaled_kernel_weights_",
        "kernel_representations_",
        "left_out_",
        "evidence_",
        "dual_gap_",
        "categories_",
        "column_kinds_",
        "column_means_",
        "missing_columns_",
        "n_iter_",
        "history_",
        "C_",
        "Cs_",
        "scores_",
        "cv_results_",
    )
    _progress = "iteration"
    report_sections = ("weights", "evidence", "kernels", "scales")
    #: The estimator of a single C, for one that chooses C.
    _single: ClassVar[type[BatchMKL] | None] = None
    #: Default regularizer of the solver "spicy" for kernels on one or two columns each.
    _of_columns: ClassVar[str | None] = None

    # ---- training --------------------------------------------------------------------------------

    def fit(
        self,
        X: KernelInputs,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        client: Client | None = None,
    ) -> Self:
        """Learn the kernel weights and the model.

        Parameters
        ----------
        X : array or data frame of shape (N, d), or Gram matrices with ``kernels="precomputed"``
            Data frames may hold numbers, text and categories. Gram matrices (N, N) may be a dict of
            names and matrices, a list, an array (N, N, M) or (M, N, N), a single matrix, or
            :class:`~omkl.kernels.GramMatrices`. Matrices that are
            ``dask.delayed`` or ``dask.array`` (as a dict, a list, or an array (M, N, N)) are
            computed, checked and kept by workers.
        y : array of shape (N,), or (N, K)
            Classes, or 0/1 indicators of K labels, any number of which may be 1. Numbers for a
            regressor, whose K outputs share their kernel weights.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the losses of the samples; samples of weight 0 are dropped.
        client : dask.distributed.Client, optional
            Distribute the kernels over the workers of its cluster. The model is the same, and
            prediction needs no cluster. For the solvers "spicy" and "one-step". If a worker dies,
            its kernels are computed again.

        Returns
        -------
        self : BatchMKL
            With the kernel weights, the model, and the duality gap that proves it.

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is invalid, there is only one class, or a matrix is not a kernel.
        omkl.exceptions.DistributionError
            If the cluster cannot be reached, has no workers, or keeps losing workers.
        """
        with validation.restoring_columns(self):
            self._solve(*prepare(self, X, y, sample_weight, client), self.C)
        return self

    def _solve(self, source: KernelSource, training: TrainingSet, C: float | str) -> None:
        """Select kernels, solve all problems, and set the learned attributes."""
        training.select()
        self.C_ = training.natural_c() if isinstance(C, str) else float(C)
        solutions = training.solve(self.C_, self.verbose)
        self._learn(source, training, solutions)
        warn_of_fit(training, solutions, self.tol, self.C_)

    def _learn(
        self, source: KernelSource, training: TrainingSet, solutions: list[Solution]
    ) -> None:
        """Set the learned attributes from the solutions of all problems."""
        self._model = KernelModel.of(source, [solution.model for solution in solutions])
        self._model.intercepts += training.centres
        self.intercept_ = self._model.intercepts
        decoder = training.decoder
        if decoder is not None:
            self.classes_ = decoder.classes
            self.multilabel_ = decoder.multilabel
            self.constant_labels_ = decoder.constant
        regularizer = training.settings.regularizer
        weights = []
        unscaled_weights = []
        self.dual_variables_ = []
        for solution in solutions:
            norms = solution.certificate.norms
            weights.append(regularizer.normalized_kernel_weights(norms))
            unscaled_weights.append(regularizer.kernel_weights(norms) * (norms > 0))
            self.dual_variables_ += [*solution.certificate.rho.reshape(-1, source.n_samples)]
        names = source.names
        self.kernel_weights_ = dict(zip(names, np.mean(weights, axis=0).tolist()))
        self.unscaled_kernel_weights_ = dict(zip(names, np.mean(unscaled_weights, axis=0).tolist()))
        self.kernel_representations_ = source.representations
        self.left_out_ = [name for name, is_kept in zip(names, training.is_selected) if not is_kept]
        self.evidence_ = None
        if training.choice is not None:
            self.evidence_ = dict(zip(names, training.choice.evidence.tolist()))
        self.dual_gap_ = largest_gap(solutions)
        self.n_iter_ = max(solution.n_iter for solution in solutions)
        self.history_ = []
        for p, solution in enumerate(solutions):
            number = {"problem": p} if len(solutions) > 1 else {}
            self.history_ += [{**number, **record} for record in solution.history]

    # ---- prediction ------------------------------------------------------------------------------

    def predict(self, X: KernelInputs) -> np.ndarray:
        """Predict classes, labels or numbers.

        Parameters
        ----------
        X : array of shape (n, d), or with ``kernels="precomputed"`` one matrix (n, N) per kernel
            Matrices hold values between test and training samples; they may be None for inactive
            kernels.

        Returns
        -------
        array of shape (n,), or (n, K) of K labels or outputs
        """
        outputs = self._outputs(X)
        return self._decoder().decode(outputs)

    @available_if(is_a_classifier)
    def decision_function(self, X: KernelInputs) -> np.ndarray:
        """Return the scores of the classes.

        Parameters
        ----------
        X
            As for :meth:`predict`.

        Returns
        -------
        array of shape (n,) for two classes, positive for ``classes_[1]``; (n, K) for K > 2 classes,
        or labels
        """
        outputs = self._outputs(X)
        return self._decoder().scores(outputs)

    @available_if(is_probabilistic)
    def predict_proba(self, X: KernelInputs) -> np.ndarray:
        """Predict probabilities by the logistic loss.

        For more than two classes they are scaled to sum to one.

        Parameters
        ----------
        X
            As for :meth:`predict`.

        Returns
        -------
        array of shape (n, K) for classes, or (n, L) for L labels
        """
        outputs = self._outputs(X)
        return self._decoder().probabilities(outputs)

    def _decoder(self) -> ClassDecoder | NumberDecoder:
        if not is_a_classifier(self):
            return NumberDecoder(resolve_loss(self))
        return ClassDecoder(self.classes_, self.multilabel_, self.constant_labels_)

    def _outputs(self, X: KernelInputs) -> np.ndarray:
        """Return the outputs (n, P) of all problems."""
        X = self._checked(X)
        return self._model.outputs(X, self.n_jobs)

    def _checked(self, X: KernelInputs) -> CheckedInputs:
        """Check inputs for prediction: an array, or Gram matrices."""
        check_is_fitted(self)
        source = self._model.source
        if not isinstance(source, ArrayKernels):
            return source.of_prediction(X)
        if are_known_columns(X, self.__dict__):
            X = np.ascontiguousarray(X, dtype=np.float64)
        else:
            X = validation.checked_arrays(self, X, **READING, missing=self.missing, reset=False)
        # kernels cannot mix sparse and dense rows
        if not sparse.issparse(source.X):
            return as_dense(X)
        return X if sparse.issparse(X) else sparse.csr_array(X)

    def transform(self, X: KernelInputs) -> np.ndarray:
        """Return the combined Gram matrix: the sum of all kernels times their ``kernel_weights_``.

        It is a precomputed kernel for other estimators, as in
        ``make_pipeline(MKLClassifier(), SVC(kernel="precomputed"))``.

        Parameters
        ----------
        X
            As for :meth:`predict`.

        Returns
        -------
        array of shape (n, N)
            Values between the samples and the N training samples of weight > 0.
        """
        weights = np.array([*self.kernel_weights_.values()])
        return summed(self._model.source, self._checked(X), weights)

    def explain(
        self,
        x: KernelInputs,
        *,
        label: Hashable = None,
        against: Hashable = None,
        target: int = 0,
        n: int = 20,
    ) -> Explanation:
        """Explain the prediction of one sample by the contributions of kernels and support vectors.

        For a classifier, the parts add up to the margin, the difference of the scores of two
        classes. The parts of a kernel are its support vectors, or its explicit features if it is
        stored as a factor.

        Parameters
        ----------
        x : array of shape (d,), or an input of :meth:`predict` with one sample
        label, against : class, optional
            The class to explain, by default the predicted one, and the class to compare it with, by
            default the best of the others. Not for a regressor or for labels in columns.
        target : int
            Index of the output of a regressor, or of the label.
        n : int > 0
            Number of strongest parts to list. Support vectors are numbered from 0, in the order of
            the training samples of weight > 0.

        Returns
        -------
        omkl.Explanation
            The group ``intercept`` is the constant.

        Raises
        ------
        omkl.exceptions.InputError
            If the sample does not fit the model, or a class is unknown.
        """
        return self._model.explain(
            self._checked(x if is_precomputed(self.kernels) else one_row(x)),
            self._decoder(),
            label=label,
            against=against,
            target=target,
            n=n,
            columns=validation.encoded_columns(self),
        )

    def shapes(
        self, X: KernelInputs, y: ArrayLike | None = None, *, random_state: RandomState = 0
    ) -> Shapes:
        """Return the model as a sum of functions of single columns.

        The kernels must be on one or two columns, as those of :func:`omkl.kernels.per_column`.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows over which the effects are centred, usually those of training. Curves have points
            at up to 100 of their values.
        y : array, optional
            Targets of the rows, for bands: the effect plus or minus two standard deviations over 20
            bootstrap draws of the rows. Each draw fits the functions anew with C, kernels and
            kernel weights fixed, so that a band does not show how uncertain the choice of columns
            is. Takes memory for a matrix (n, n), and one for each pair.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        omkl.Shapes
            ``intercept``, ``parts`` and ``outputs``; :func:`omkl.reports.plot_shapes` draws them.

        Raises
        ------
        omkl.exceptions.InputError
            If a kernel in the model is on more than two columns, or a column has a single value in
            X.
        """
        return batch_shapes(self, self._checked(X), X, y, as_random_state(random_state))

    def missing_pairs(
        self, X: KernelInputs, y: ArrayLike, n: int = 10, sample_weight: ArrayLike | None = None
    ) -> list[dict]:
        """Find pairs of columns whose product of kernels would lower the objective at the same C.

        The problem of this model is solved to a gap of 1e-6. Its dual variables prove of most pairs
        that they do not help. For the others, from the largest ``excess`` on, a line search finds a
        better model; if the loss has kinks, the problem with the pair is solved.

        Parameters
        ----------
        X, y, sample_weight
            The training data, as for :meth:`fit`.
        n : int > 0
            Number of pairs at most.

        Returns
        -------
        list of dict
            ``pair``, two columns for the ``pairs`` of :func:`omkl.kernels.per_column`; ``excess``,
            by how much the norm of the dual variables in the product exceeds the slope of the
            regularizer; and ``decrease``, the share of the objective that goes at least, largest
            first. A list of fewer than n pairs proves that no other pair lowers the objective by
            more than about 1e-6 of it; a warning tells if the solver stopped before this was known.
            With regularizers that leave out no kernel, such as "uniform", nearly all pairs help.

        Raises
        ------
        omkl.exceptions.InputError
            If there are no kernels on two single columns.
        """
        exact = clone(self).set_params(tol=min(self.tol, GAP))
        source, training = prepare(exact, X, y, sample_weight, None)
        training.select()
        names: Any = validation.source_columns(exact)
        if validation.column_names_of(exact) is None:
            absent = [validation.MISSING] * len(getattr(exact, "missing_columns_", ()))
            names = [*range(getattr(exact, "n_features_in_", 0)), *absent]
        solutions = training.solve(self.C_, self.verbose)
        return missing_pairs(source, names, training, solutions, self.C_, n)

    def path(
        self,
        X: KernelInputs,
        y: ArrayLike,
        C: int | ArrayLike = 20,
        sample_weight: ArrayLike | None = None,
        *,
        client: Client | None = None,
    ) -> list[dict[str, Any]]:
        """Solve for a sequence of C, each starting from the previous solution.

        Parameters
        ----------
        X, y, sample_weight, client
            As for :meth:`fit`.
        C : int or array
            Values of C. A number spreads as many values evenly on a log scale, over three decades
            above :func:`~omkl.batch.smallest_c`, where kernels become active.

        Returns
        -------
        list of dict
            For each C, from the smallest: ``C``, ``kernel_weights`` (array of M, summing to one),
            ``active`` (number of kernels), ``dual_gap`` (relative), ``objective``, ``n_iter``,
            ``seconds``, and ``model``: the estimator that :meth:`fit` would return at this C.
        """
        estimator = clone(self)
        source, training = prepare(estimator, X, y, sample_weight, client)
        training.select()
        # without a choice out of sample, refits of the models need the default that was used here
        natural = None if training.choice else training.settings.regularizer
        regularizer = self.regularizer or natural
        records = []
        for points in training.path(training.path_values(C)):
            solutions = [point.solution for point in points]
            changed = estimator._at(points[0].value).set_params(regularizer=regularizer)
            model = clone(changed)
            for name in validation.COLUMNS:
                if name in vars(estimator):
                    setattr(model, name, getattr(estimator, name))
            model._learn(source, training, solutions)
            model.C_ = points[0].value
            records.append(
                {
                    "C": model.C_,
                    "kernel_weights": np.array(list(model.kernel_weights_.values())),
                    "active": model.n_active_,
                    "dual_gap": model.dual_gap_,
                    "objective": sum(solution.certificate.primal for solution in solutions),
                    "n_iter": model.n_iter_,
                    "seconds": sum(point.seconds for point in points),
                    "model": model,
                }
            )
        warn_of_gaps(np.abs([record["dual_gap"] for record in records]), "C", self.tol)
        return records

    def _at(self, C: float) -> BatchMKL:
        """Return an estimator with a single C, and otherwise the same parameters."""
        single = self._single or type(self)
        parameters = self.get_params(deep=False)
        if self._single is not None:
            del parameters["n_jobs"]  # of a search it is for folds, not for predictions
        accepted = single._get_param_names()
        shared = {name: value for name, value in parameters.items() if name in accepted}
        return single(**{**shared, "C": C})

    # ---- learned attributes ----------------------------------------------------------------------

    @property
    def n_active_(self) -> int:
        """Number of active kernels, the only ones needed for prediction."""
        return len(self._model.active)

    @property
    def column_scales_(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation (or range) in training of each standardized column."""
        check_is_fitted(self)
        source = self._model.source
        scales: dict[str, tuple[float, float]] = {}
        if not isinstance(source, ArrayKernels):
            return scales
        names = validation.encoded_columns(self)
        n_columns = self.n_features_in_ if names is None else len(names)
        for kernel in source.kernels:
            if kernel.means_ is None:
                continue
            scales_of_kernel = {}
            for j, mean, deviation in zip(
                kernel.places(n_columns), kernel.means_.tolist(), kernel.deviations_.tolist()
            ):
                scales_of_kernel[name_of_column(names, j)] = mean, deviation
            scales = scales_of_kernel | scales  # those of the first kernel on a column
        return scales

    @property
    def dual_coef_(self) -> np.ndarray:
        r"""Dual coefficients :math:`\alpha_m`: (M, N), or (P, M, N) for P problems."""
        check_is_fitted(self)
        model = self._model
        _, n, n_outputs = model.coefficients.shape
        dense = np.zeros((n_outputs, len(model.source.names), n))
        dense[:, model.active] = model.coefficients.transpose(2, 0, 1)
        return dense[0] if n_outputs == 1 else dense

    @property
    def feature_importances_(self) -> np.ndarray:
        r"""Importance of each column of X, (d,), summing to one.

        Scikit-learn's ``SelectFromModel`` and ``RFE`` use it. It is the decrease of the squared
        norm :math:`\sum_m \|f_m\|^2 / d_m`, with kernel weights d, if the column is replaced by its
        mean at the same dual coefficients (Guyon, Weston, Barnhill and Vapnik 2002). With "mkl" and
        a kernel for each column these are the kernel weights. Not for sparse X and Gram matrices.
        """
        check_is_fitted(self)
        X = getattr(self._model.source, "X", None)
        if not isinstance(X, np.ndarray):
            raise AttributeError("feature_importances_ needs training samples in a dense array.")
        names: list[Any] = list(validation.source_columns(self) or range(X.shape[1]))
        missing_columns = getattr(self, "missing_columns_", [])
        # the last columns tell which entries of these columns are missing, and belong to them
        first_indicator = len(names) - len(missing_columns)
        names[first_indicator:] = [names[j] for j in missing_columns]
        weights = np.array(list(self.kernel_weights_.values()))
        norms = []
        # the columns of 0 and 1 of a column of text share their name
        for name in dict.fromkeys(names):
            columns = [j for j, other in enumerate(names) if other == name]
            changed = X.copy()
            changed[:, columns] = X[:, columns].mean(axis=0)
            norms.append(self._model.squared_norm(changed, weights))
        decreases = np.maximum(self._model.squared_norm(X, weights) - np.array(norms), 0.0)
        return decreases / max(decreases.sum(), np.finfo(np.float64).tiny)

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernels)
        tags.input_tags.allow_nan = self.missing == "indicator" and not is_precomputed(self.kernels)
        tags.input_tags.sparse = takes_sparse(self.kernels, attrgetter("compares_sparse"))
        tags.target_tags.multi_output = self.class_weight is None
        return tags

    # ---- model files -----------------------------------------------------------------------------

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        return self._model.pack(packer)

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        self._model = KernelModel.unpack(manifest, unpacker)
