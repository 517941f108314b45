"""Base class of the batch estimators of combinations of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import check_n_jobs, resolve
from omkl._threads import in_threads
from omkl.batch.mkl.problem import Expansion
from omkl.batch.solver import Solution, Solver
from omkl.data.frames import are_few_rows, plain_targets
from omkl.estimators.batch import (
    CONSTRAINTS,
    ClassDecoder,
    NumberDecoder,
    is_a_classifier,
    is_probabilistic,
    resolve_loss,
)
from omkl.estimators.cross_validation import without_splitters
from omkl.estimators.explanations import Explanation
from omkl.estimators.persistence import SavedEstimator, check_is_fitted
from omkl.estimators.targets import has_columns
from omkl.estimators.validation import (
    Constraint,
    Number,
    OneOf,
    check_parameters,
    check_sample_weight,
    checked_arrays,
    column_names_of,
    forget_columns,
)
from omkl.exceptions import InputError
from omkl.losses import Logistic
from omkl.mkl.explain import explain_kernels
from omkl.mkl.gram_storage import LARGEST_C, StoredKernels, precision
from omkl.mkl.kernel_sources import (
    ArrayKernels,
    GivenMatrices,
    combined_values,
    compares_sparse,
    default_kernels,
    unpack_source,
)
from omkl.mkl.paths import StabilitySelection, kernel_path, stable_kernels
from omkl.mkl.tasks import Encoded, Settings, encode_targets, largest_gap, split_outputs, warn_of_fit, warn_of_selection
from omkl.persistence import Packer, Unpacker
from omkl.regularizers import Regularizer


class BatchMKL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SavedEstimator):
    """Base class of batch estimators that learn a combination of kernels.

    Subclasses store the parameters, and are classifiers or regressors.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {
        **CONSTRAINTS,
        "C": Number(above=0, below=LARGEST_C),
        "dtype": OneOf(("auto", "float32", "float64", np.float32, np.float64)),
        "approximate": OneOf(("auto", True, False)),
        "weighting": OneOf(("norms", "out-of-sample")),
        "multiclass": OneOf(("auto", "shared", "ovr", "ovo")),
    }
    _plain_attributes = (
        "n_features_in_",
        "classes_",
        "multilabel_",
        "constant_labels_",
        "kernel_weights_",
        "unscaled_kernel_weights_",
        "kernel_representations_",
        "left_out_",
        "dual_gap_",
        "n_iter_",
        "history_",
        "C_",
        "Cs_",
        "scores_",
        "cv_results_",
    )
    _progress = "iteration"

    kernels: Any
    loss: Any
    regularizer: Any
    C: float
    solver: Any
    tol: float
    max_iter: int | None
    fit_intercept: bool
    class_weight: Any
    multiclass: str
    dtype: Any
    approximate: bool | str
    weighting: str
    n_jobs: int | None
    verbose: bool
    classes_: np.ndarray
    multilabel_: bool
    constant_labels_: dict[int, bool]
    history_: list[dict[str, Any]]
    kernel_weights_: dict[str, float]
    n_features_in_: int

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, client: Any = None) -> Self:
        """Learn the kernel weights and the model.

        Parameters
        ----------
        X : array of shape (N, d), or with ``kernels="precomputed"`` Gram matrices (N, N)
            Gram matrices are a dict with their names, a list, an array (N, N, M), a single matrix, or
            :class:`~omkl.kernels.GramMatrices`.
        y : array of shape (N,), or (N, K)
            Classes, or indicators of 0 and 1 of the K labels that a sample has, any number at once. Numbers for a
            regressor, whose K outputs share their kernel weights.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the samples' losses; samples of weight 0 are left out.
        client : dask.distributed.Client, optional
            Distribute the kernels over the workers of its cluster: the model is the same, and prediction needs no
            cluster. Meant for the solvers "spicy" and "one-step". If a worker dies its kernels are computed again.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, there is one class only, or a matrix is not a kernel.
        omkl.exceptions.DistributionError
            If the cluster cannot be reached, has no workers, or loses them again and again.
        """
        settings = self._settings()
        source, y, weights = self._read(X, y, sample_weight)
        encoded = encode_targets(y, weights, settings)
        if client is not None and encoded.tasks[0].rows is not None:
            raise InputError('multiclass="ovo" needs the kernels on one machine: leave out the client.')
        self._solve(source, self._stored(source, settings, client), encoded, float(self.C))
        return self

    def _settings(self) -> Settings:
        """Check the parameters, and return those of the problems as objects."""
        check_parameters(self, self._constraints)
        check_n_jobs(self.n_jobs)
        loss, solver = resolve_loss(self), resolve(Solver, self.solver, "solver")
        if vars(self).get("multiclass") == "shared" and not solver.several_outputs:
            raise InputError(f'multiclass="shared" needs the solver "spicy" or "one-step", got {self.solver!r}.')
        spec = self.regularizer
        if spec is None:
            by_norms = self.weighting == "norms" or solver.natural_regularizer != "mkl"
            spec = solver.natural_regularizer if by_norms else "elastic-net"
        regularizer = resolve(Regularizer, spec, "regularizer")
        own = {name: vars(self)[name] for name in ("multiclass", "class_weight") if name in vars(self)}
        return Settings(loss, regularizer, solver, bool(self.fit_intercept), self.tol, self.max_iter, **own)

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _read(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, np.ndarray, np.ndarray]:
        """Source of Gram matrices, targets and weights, of the samples whose weight is not 0."""
        several = has_columns(y)
        if self._precomputed:
            y = plain_targets(y)
            y = check_array(y, accept_sparse="csr", dtype=None) if several else column_or_1d(y, warn=True)
            forget_columns(self)
        else:
            X, y = checked_arrays(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=np.float64,
                order="C",
                y_numeric=isinstance(self, RegressorMixin),
                multi_output=several,
            )
        y = y.toarray() if sparse.issparse(y) else y
        weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(y))
        kept = None if weights.all() else np.flatnonzero(weights)
        source: Any
        if self._precomputed:
            source = GivenMatrices(X, len(y), kept)
        else:
            X, names = X if kept is None else X[kept], column_names_of(self)
            source = ArrayKernels(default_kernels(X, names) if self.kernels is None else self.kernels, X, names)
        return source, y[weights > 0], weights[weights > 0]

    def _stored(self, source: ArrayKernels | GivenMatrices, settings: Settings, client: Any) -> StoredKernels:
        """Store the kernels on the training samples."""
        own = precision(self.dtype, len(source.names), source.n_samples, settings.tol)
        bound = settings._replace(regularizer=settings.regularizer.bind(source.names))
        stack = source.stack(own, self.approximate, client)
        return StoredKernels(stack, bound, selects=self.weighting == "out-of-sample")

    def _solve(self, source: ArrayKernels | GivenMatrices, kernels: StoredKernels, encoded: Encoded, C: float) -> None:
        """Select kernels, solve all problems, and set the learned attributes."""
        kernels = kernels.selected(encoded)
        solutions = kernels.solve(encoded, C, self.verbose)
        self._learn(source, kernels, encoded, solutions)
        warn_of_selection(kernels.kept)
        warn_of_fit(encoded, solutions, kernels.settings.tol, C)

    def _learn(self, source: Any, kernels: StoredKernels, encoded: Encoded, solutions: list[Solution]) -> None:
        """Set the learned attributes from the solutions of all problems."""
        if encoded.decoder is not None:
            self.classes_, self.multilabel_ = encoded.decoder.classes, encoded.decoder.multilabel
            self.constant_labels_ = encoded.decoder.constant
        tasks, solutions = split_outputs(encoded.tasks, solutions)
        regularizer, names, kept = kernels.settings.regularizer, source.names, kernels.kept
        self._source, self._rows = source, [rows for rows, _ in tasks]
        self._models = [solution.model for solution in solutions]
        self._weights = [source.weights(m, self._coefficients(m)) for m in self._active]
        self.dual_variables_ = [solution.certificate.rho for solution in solutions]
        histories = [solution.history for solution in solutions if solution.history]
        self.history_ = [
            {"problem": p, **record} if len(histories) > 1 else record
            for p, history in enumerate(histories)
            for record in history
        ]
        norms = [solution.certificate.norms for solution in solutions]
        weights = np.mean([regularizer.normalized_kernel_weights(own) for own in norms], axis=0)
        self.kernel_weights_ = dict(zip(names, weights.tolist()))
        unscaled = np.mean([regularizer.kernel_weights(own) * (own > 0) for own in norms], axis=0)
        self.unscaled_kernel_weights_ = dict(zip(names, unscaled.tolist()))
        self.kernel_representations_ = source.representations
        self.left_out_ = [] if kept is None or not kept.any() else [names[m] for m in np.flatnonzero(~kept)]
        self.dual_gap_ = largest_gap(solutions)
        self.n_iter_ = max(solution.n_iter for solution in solutions)

    # ---- prediction ---------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Predict classes, labels or numbers.

        Parameters
        ----------
        X : array of shape (n, d), or with ``kernels="precomputed"`` one matrix (n, N) a kernel
            Matrices are values between test and training samples; those of inactive kernels may be None.

        Returns
        -------
        array of shape (n,), or (n, K) of K labels or outputs
        """
        outputs = self._outputs(X)
        return self._decoder().decode(outputs)

    @available_if(is_a_classifier)
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes.

        Parameters
        ----------
        X
            As for :meth:`predict`.

        Returns
        -------
        array of shape (n,) for two classes, positive for ``classes_[1]``; (n, K) for K > 2 classes, or labels
        """
        outputs = self._outputs(X)
        return self._decoder().scores(outputs)

    @available_if(is_probabilistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities by the logistic loss; of more than two classes they are scaled to sum to one.

        Parameters
        ----------
        X
            As for :meth:`predict`.

        Returns
        -------
        array of shape (n, K) for classes, or (n, L) for having each of L labels
        """
        outputs = self._outputs(X)
        return self._decoder().probabilities(outputs)

    def _has_probabilities(self) -> bool:
        pairs = self._rows[0] is not None if self.__sklearn_is_fitted__() else self.multiclass == "ovo"
        return not pairs and isinstance(resolve_loss(self), Logistic)

    def _decoder(self) -> Any:
        if not is_a_classifier(self):
            return NumberDecoder()
        return ClassDecoder(self.classes_, self.multilabel_, self.constant_labels_, self._rows[0] is not None)

    def _outputs(self, X: Any) -> np.ndarray:
        """Outputs (n, P) of all problems; only active kernels are computed."""
        X = self._checked(X)
        outputs = np.tile(self.intercept_, (self._source.n_rows(X), 1))

        def add(own: tuple[slice, Iterable[np.ndarray]]) -> None:
            block, parts = own
            for part, weights in zip(parts, self._weights):
                outputs[block] += part @ weights

        in_threads(add, self._source.blocks(X, self._active), self.n_jobs)
        return outputs

    def _checked(self, X: Any) -> Any:
        """Check inputs of a prediction: an array, or Gram matrices."""
        if not self.__sklearn_is_fitted__():  # scikit-learn's check takes as long as the prediction of a row
            check_is_fitted(self)
        if not isinstance(self._source, ArrayKernels):
            return self._source.of_prediction(X)
        if are_few_rows(X, vars(self)):
            X = np.ascontiguousarray(X, dtype=np.float64)
        else:
            X = checked_arrays(self, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
        # between sparse and dense rows kernels have no values
        if sparse.issparse(self._source.X) != sparse.issparse(X):
            X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        return X

    # ---- the learned kernel -------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self._source.n_samples

    def transform(self, X: Any) -> np.ndarray:
        """The combined Gram matrix: the sum of all kernels times their ``kernel_weights_``.

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
        X = self._checked(X)
        return combined_values(self._source, X, np.array(list(self.kernel_weights_.values())))

    # ---- paths --------------------------------------------------------------------------------------------------

    def _at(self, C: float) -> BatchMKL:
        """An estimator of a single C with the same parameters."""
        return clone(self).set_params(C=C)

    def path(
        self,
        X: Any,
        y: ArrayLike,
        C: int | ArrayLike = 20,
        sample_weight: ArrayLike | None = None,
        *,
        client: Any = None,
    ) -> list[dict[str, Any]]:
        """Solve for a sequence of C, each from the solution of the one before.

        Parameters
        ----------
        X, y, sample_weight, client
            As for :meth:`fit`.
        C : int or array
            Values of C; a number of them is spread evenly in the logarithm over three decades above the largest C at
            which no kernel is active under the block 1-norm.

        Returns
        -------
        list of dict
            For each C, from the smallest: ``C``, ``kernel_weights`` (array of M, summing to one), ``active`` (number of
            kernels), ``dual_gap`` (relative), ``objective``, ``n_iter``, ``seconds``, and ``model``: an estimator as
            :meth:`fit` would return it at this C.
        """
        return kernel_path(clone(self), X, y, C, sample_weight, client)

    def stability_selection(
        self,
        X: Any,
        y: ArrayLike,
        C: int | ArrayLike = 20,
        sample_weight: ArrayLike | None = None,
        *,
        n_pairs: int = 50,
        threshold: float = 0.9,
        max_false: float | None = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        client: Any = None,
    ) -> StabilitySelection:
        """Select the kernels that are active on most random halves of the data.

        The kernels are computed once, and each half is one path of C. The estimator itself is not changed.

        Parameters
        ----------
        X, y, sample_weight, client
            As for :meth:`fit`.
        C : int or array
            As for :meth:`path`; a half has half of the losses, each of them with the weight C.
        n_pairs : int
            Pairs of halves that share no sample.
        threshold : float in (0.5, 1]
            A kernel is selected that is active on this share of the halves, at one of the Cs that count.
        max_false : float > 0, optional
            Only the smallest Cs count, as many as keep the bound on the expected number of uninformative kernels among
            the selected ones at most here; None counts all.
        n_jobs : int, optional
            Halves solved at once, in threads; -1 for as many as there are processors.
        random_state : int, RandomState or None

        Returns
        -------
        StabilitySelection
            ``selection_frequency_`` (dict of kernels), ``selected_`` (their names), ``expected_false_`` (the bound).

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or the regularizer leaves no kernel out.
        """
        data = (X, y, sample_weight)
        return stable_kernels(clone(self), data, C, n_pairs, threshold, max_false, n_jobs, random_state, client)

    # ---- explanations -------------------------------------------------------------------------------------------

    def explain(self, x: Any, *, label: Any = None, against: Any = None, target: int = 0, n: int = 20) -> Explanation:
        """Explain the prediction of one sample by what kernels and support vectors add to it.

        Of a classifier the parts add up to the margin, the difference of the scores of two classes. Parts of a kernel
        are its support vectors, or if it is stored as a factor, its explicit features.

        Parameters
        ----------
        x : array of shape (d,), or what :meth:`predict` takes with one sample
        label, against : class, optional
            The class to explain, the predicted one by default, and the one to compare it with, by default the best of
            the others. With ``multiclass="ovo"`` the margin is that of the model of these two. Not for a regressor, nor
            for labels in columns.
        target : int
            Number of the output of a regressor, or of the label, from 0.
        n : int > 0
            Number of the strongest parts to list. Support vectors are numbered from 0 as the training samples of
            weight > 0.

        Returns
        -------
        omkl.Explanation
            ``intercept`` among the groups is the constant.

        Raises
        ------
        omkl.exceptions.InputError
            If the sample does not fit the model, or a class is none of its classes.
        """
        return explain_kernels(self, x, label, against, target, n)

    # ---- learned attributes -------------------------------------------------------------------------------------

    def _coefficients(self, m: int) -> np.ndarray:
        """Dual coefficients of one kernel in all models: (N, P)."""
        dense = np.zeros((self._source.n_samples, len(self._models)))
        for p, (model, rows) in enumerate(zip(self._models, self._rows)):
            index = np.searchsorted(model.active, m)
            if index < len(model.active) and model.active[index] == m:
                dense[slice(None) if rows is None else rows, p] = model.coefficients[index]
        return dense

    @property
    def _active(self) -> np.ndarray:
        """Kernels that are active in any of the models."""
        return np.unique(np.concatenate([model.active for model in self._models]))

    @property
    def n_active_(self) -> int:
        """Number of active kernels, which prediction needs."""
        return len(self._active)

    @property
    def dual_coef_(self) -> np.ndarray:
        r"""The :math:`\alpha_m` of the representer theorem: (M, N); (P, M, N) for P problems."""
        check_is_fitted(self)
        dense = np.zeros((len(self._models), len(self._source.names), self._source.n_samples))
        for m in self._active:
            dense[:, m] = self._coefficients(m).T
        return dense[0] if len(dense) == 1 else dense

    @property
    def intercept_(self) -> np.ndarray:
        """The constant of each problem, (P,)."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        return np.array([model.intercept for model in self._models])

    def __sklearn_is_fitted__(self) -> bool:
        return "_models" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = self.kernels is None or compares_sparse(self.kernels)
        tags.target_tags.multi_output = isinstance(self, RegressorMixin) or self._takes_labels
        return tags

    @property
    def _takes_labels(self) -> bool:
        """Return whether a classifier with these parameters learns labels in columns."""
        return self.class_weight is None and self.multiclass != "ovo"

    # ---- model files --------------------------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        return without_splitters(super()._saved_parameters())

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        models = [{**vars(model), "rows": rows} for model, rows in zip(self._models, self._rows)]
        return {
            "source": self._source.pack(packer, self._active),
            "weights": [
                packer.pack(weights, "weights of features") if m in self._source.ranks else None
                for m, weights in zip(self._active, self._weights)
            ],
            "models": [packer.pack(model, "a model of the estimator") for model in models],
        }

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        self._source = unpack_source(manifest["source"], unpacker)
        models = [unpacker.unpack(packed) for packed in manifest["models"]]
        self._rows = [model.pop("rows") for model in models]
        self._models = [Expansion(**model) for model in models]
        self._weights = [
            self._coefficients(m) if packed is None else unpacker.unpack(packed)
            for m, packed in zip(self._active, manifest["weights"])
        ]
