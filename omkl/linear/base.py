"""Base class of the sparse linear models: from a design and targets to certified coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import resolve, warn_caller
from omkl._messages import listed
from omkl.batch import (
    ColumnGroups,
    DesignProblem,
    DesignSolver,
    LinearModel,
    PathPoint,
    Solution,
    as_design,
    regularization_path,
    stacked_problem,
)
from omkl.batch.solver import is_number_of_values, ordered
from omkl.data.frames import plain_targets
from omkl.estimators.batch import (
    CONSTRAINTS,
    ClassDecoder,
    GapProgress,
    NumberDecoder,
    encode_classes,
    encode_labels,
    is_a_classifier,
    is_probabilistic,
    one_vs_rest,
    read_groups,
    resolve_loss,
)
from omkl.estimators.cross_validation import without_splitters
from omkl.estimators.explanations import Explanation
from omkl.estimators.persistence import SavedEstimator, check_is_fitted
from omkl.estimators.targets import finite_targets, has_columns
from omkl.estimators.validation import (
    Constraint,
    Number,
    OneOf,
    check_parameters,
    check_sample_weight,
    checked_arrays,
    column_names_of,
    forget_columns,
    weighted_by_class,
)
from omkl.exceptions import InputError
from omkl.linear.explain import explain_columns
from omkl.linear.samples import Samples, check_design, identical_samples, read_offsets
from omkl.losses import Logistic, PointwiseLoss
from omkl.regularizers import Regularizer

#: An alpha below this share of the smallest one that empties a model is lost in the rounding of the loss.
LOST = 1e-15
#: Share of the loss of an empty model below which the unpenalized groups alone fit the targets.
SEPARATED = 1e-3
#: Decades of alpha that a path spans if it is given a number of values.
DECADES = 2.0


class SparseLinear(SavedEstimator):
    """Base class of linear models that select columns or groups of them.

    Subclasses store the parameters, and are classifiers or regressors.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {
        **CONSTRAINTS,
        "alpha": Number(above=0),
        "multiclass": OneOf(("ovr", "multinomial")),
    }
    _plain_attributes = (
        "n_features_in_",
        "classes_",
        "multilabel_",
        "multinomial_",
        "constant_labels_",
        "coef_",
        "intercept_",
        "dual_gap_",
        "n_iter_",
        "history_",
        "alpha_",
        "alphas_",
        "scores_",
        "cv_results_",
    )
    _progress = "iteration"

    alpha: float
    groups: Any
    loss: Any
    regularizer: Any
    group_weights: Any
    class_weight: Any
    multiclass: str
    solver: Any
    tol: float
    max_iter: int | None
    fit_intercept: bool
    positive: bool
    verbose: bool
    classes_: np.ndarray
    multilabel_: bool
    multinomial_: bool
    constant_labels_: dict[int, bool]
    coef_: np.ndarray
    intercept_: Any
    dual_gap_: float
    n_iter_: int
    history_: list[dict[str, Any]]
    n_features_in_: int

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            Used as it is in float32 and float64, in C and Fortran order, as CSC and CSR: never copied.
        y : array of shape (m,), or (m, K)
            Classes, or indicators of 0 and 1 of the K labels that a sample has, any number at once. Numbers for a
            regressor, whose K outputs share their groups: a group is active in all of them, or in none.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss.
        offset : array of shape (m,), or (m, P) for P outputs, classes or labels, optional
            A known part of the predictions, added to :math:`(X w)_i + b`: with the Poisson loss the logarithm of the
            exposure.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, there is one class only, or groups do not fit the columns.
        """
        self._check()
        self._learn(*self._read(X, y, sample_weight, offset), float(self.alpha))
        return self

    def _check(self) -> None:
        check_parameters(self, self._constraints)
        resolve_loss(self, links=True)
        resolve(DesignSolver, self.solver, "solver")
        if vars(self).get("multiclass") == "multinomial" and not self._has_probabilities():
            raise InputError(f'multiclass="multinomial" has a loss of its own: leave out loss={self.loss!r}.')

    def _read(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike | None
    ) -> tuple[Samples, ClassDecoder | None]:
        """Check the samples, and leave out those of weight 0; X is not copied if it is in float32 or float64."""
        several, is_operator = has_columns(y), isinstance(X, LinearOperator)
        if is_operator:
            forget_columns(self)
            self.n_features_in_ = X.shape[1]
            y = check_array(plain_targets(y), accept_sparse="csr", ensure_2d=False, dtype=None)
            y = y if several else column_or_1d(y, warn=True)
            if X.shape[0] != y.shape[0]:
                raise InputError(f"X has {X.shape[0]} rows, but y has {y.shape[0]} targets.")
        else:
            X, y = checked_arrays(
                self,
                X,
                y,
                accept_sparse=("csc", "csr"),
                dtype=(np.float64, np.float32),
                y_numeric=isinstance(self, RegressorMixin),
                multi_output=several,
            )
        y = y.toarray() if sparse.issparse(y) else y
        largest = np.inf if is_operator else check_design(X)
        weights, kept = check_sample_weight(sample_weight, len(y)), None
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
        own = slice(None) if kept is None else kept
        targets, weights, decoder = self._encode(y[own], None if weights is None else weights[own])
        offsets = read_offsets(offset, len(y), sum(map(n_outputs_of, targets)))
        design = as_design(X) if kept is None else as_design(X).rows(kept)
        copies = None if is_operator else identical_samples(X, y, offsets)
        samples = Samples(
            design,
            targets,
            weights,
            None if offsets is None else offsets[:, own],
            largest,
            None if copies is None else copies[own],
        )
        return samples, decoder

    def _encode(
        self, y: np.ndarray, weights: np.ndarray | None
    ) -> tuple[list[np.ndarray], np.ndarray | None, ClassDecoder | None]:
        """Targets of the problems, weights times those of classes, and the decoder of a classifier."""
        if not is_a_classifier(self):
            return [finite_targets(y)], weights, None
        if y.ndim == 2:
            if self.class_weight is not None or self.multiclass == "multinomial":
                raise InputError("class_weight and multiclass are for classes, not for labels in columns of y.")
            signs, decoder = encode_labels(y)
            return list(np.ascontiguousarray(signs.T)), weights, decoder
        classes, codes = encode_classes(y)
        signs, multinomial = one_vs_rest(codes, len(classes)), self.multiclass == "multinomial" and len(classes) > 2
        targets = [signs > 0] if multinomial else list(np.ascontiguousarray(signs.T))
        weights = weighted_by_class(self.class_weight, classes, codes, weights)
        return targets, weights, ClassDecoder(classes, multinomial=multinomial)

    def _problems(self, samples: Samples, alpha: float) -> list[DesignProblem]:
        """The problem of each target."""
        loss, regularizer = resolve_loss(self, links=True), resolve(Regularizer, self.regularizer, "regularizer")
        groups, names = self._column_groups(samples.design.shape[1]), column_names_of(self)
        if isinstance(self.regularizer, Regularizer):  # it may name groups, unlike a string
            regularizer = regularizer.bind(read_groups(self.groups, names).texts(groups.n_groups))
        shared = (regularizer, alpha, groups, bool(self.fit_intercept), samples.weights)
        if samples.targets[0].ndim == 2:
            if self.positive:
                raise InputError("positive=True is for one output: leave it out, or learn one output after the other.")
            offset = None if samples.offsets is None else samples.offsets.T
            return [
                stacked_problem(
                    samples.design, samples.targets[0], None if is_a_classifier(self) else loss, *shared, offset
                )
            ]
        offsets = [None] * len(samples.targets) if samples.offsets is None else samples.offsets
        return [
            DesignProblem(samples.design, target, loss, *shared, offset, bool(self.positive))
            for target, offset in zip(samples.targets, offsets)
        ]

    def _column_groups(self, n_columns: int) -> ColumnGroups:
        """Groups of columns, and their weights."""
        (members, names), weights = read_groups(self.groups, column_names_of(self)), self.group_weights
        if isinstance(weights, dict):
            if names is None or weights.keys() != set(names):
                raise InputError(f"group_weights must have a value for each of the groups {listed(names or (), 5)}.")
            weights = np.array([weights[name] for name in names])
        if isinstance(weights, str):
            if weights != "sqrt-size":
                raise InputError(f'group_weights must be numbers, "sqrt-size" or None, not {weights!r}.')
            weights = np.sqrt(ColumnGroups(members, n_columns).blocks.sizes)
        return ColumnGroups(members, n_columns, weights)

    def _learn(self, samples: Samples, decoder: ClassDecoder | None, alpha: float) -> None:
        """Solve all problems, and set the learned attributes."""
        target = samples.targets[0]
        is_constant = not np.ptp(target, axis=0).any() if decoder is None else False
        if is_constant and self.fit_intercept and samples.offsets is None:
            coefficients, intercepts = self._constant(samples, alpha)
        else:
            coefficients, intercepts = self._solve(samples, alpha)
        if decoder is not None:
            self.classes_, self.multilabel_, self.constant_labels_ = (
                decoder.classes,
                decoder.multilabel,
                decoder.constant,
            )
            self.multinomial_ = decoder.multinomial
        alone = decoder is None and target.ndim == 1
        self.coef_ = coefficients[0] if alone else coefficients
        self.intercept_ = float(intercepts[0]) if alone else intercepts

    def _constant(self, samples: Samples, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts for constant targets, at which the loss may be 0, to which no gap is relative."""
        outputs = samples.targets[0].reshape(len(samples.targets[0]), -1).T
        problems = [self._problems(Samples(samples.design, [own], samples.weights), alpha)[0] for own in outputs]
        self.dual_gap_, self.n_iter_, self.history_ = 0.0, 1, []
        intercepts = []
        for problem in problems:
            y, constant = float(problem.y[0]), problem.best_intercept(np.zeros(len(problem.y)))
            loss, m = problem.weighted_loss, len(problem.y)
            if loss.value(np.full(m, y)) <= loss.value(np.full(m, constant)):
                constant = y
            mean = float(problem.loss.mean(np.array(constant)))
            warn_caller(f"y is constant ({y:g}): the model is the constant {mean:g}.", UserWarning)
            intercepts.append(constant)
        return np.zeros((len(outputs), samples.design.shape[1])), np.array(intercepts)

    def _solve(self, samples: Samples, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (P, n) and intercepts (P,) of all problems."""
        solver, problems = resolve(DesignSolver, self.solver, "solver"), self._problems(samples.merged(), alpha)
        _refuse_lost(problems, alpha, samples)
        n_columns = samples.design.shape[1]
        starts = self._starts([problem.n_outputs for problem in problems], n_columns)
        solutions: list[Solution] = []
        for problem, start in zip(problems, starts):
            with GapProgress(self.verbose, "groups") as progress:
                solutions.append(solver.solve(problem, self.tol, self.max_iter, start, progress))
            _warn_unless_converged(problem, solutions[-1], self.tol)
        self.dual_gap_ = max(solution.certificate.gap for solution in solutions)
        self.n_iter_ = max(1, *(solution.n_iter for solution in solutions))
        self.history_ = [
            {"problem": p, **record} for p, solution in enumerate(solutions) for record in solution.history
        ]
        coefficients, intercepts = map(np.concatenate, zip(*(rows_of(one, n_columns) for one in solutions)))
        if not coefficients.any() and problems[0].threshold > 0:
            largest = max(problem.largest_alpha() for problem in problems)
            if 0 < largest <= alpha:
                warn_caller(
                    f"No column is in the model at alpha={alpha:g}: with these data it must be below {largest:.3g}.",
                    UserWarning,
                )
        return coefficients, intercepts

    def _starts(self, widths: list[int], n_columns: int) -> list[LinearModel | None]:
        """With ``warm_start`` the models of the previous fit, if their shapes fit."""
        learned, ends = vars(self), np.cumsum(widths)
        known = (
            np.atleast_2d(learned["coef_"]) if learned.get("warm_start") and "coef_" in learned else np.empty((0, 0))
        )
        if known.shape != (sum(widths), n_columns):
            return [None] * len(widths)
        starts: list[LinearModel | None] = []
        for first, last in zip(ends - widths, ends):
            w, b = known[first:last].T.ravel(), np.atleast_1d(self.intercept_)[first:last]
            w = np.maximum(w, 0.0) if self.positive else w
            starts.append(LinearModel(np.flatnonzero(w), w[w != 0], b if len(b) > 1 else float(b[0])))
        return starts

    def path(
        self,
        X: Any,
        y: ArrayLike,
        alphas: int | ArrayLike = 20,
        *,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> list[dict[str, Any]]:
        r"""Solve for a sequence of alphas, each from the solution of the one before.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`.
        alphas : int or array of floats > 0
            The values; a number of them is spread evenly in the logarithm over two decades below
            :math:`\alpha_{\max}`, the smallest alpha at which no column is in the model.

        Returns
        -------
        list of dict
            For each alpha, from the largest: ``alpha``, ``coef`` (n,), ``intercept``, ``dual_gap`` (relative),
            ``objective``, ``active`` (number of groups), ``n_iter``, ``seconds``. For K > 2 classes, or K outputs,
            ``coef`` is (K, n) and ``intercept`` (K,); of several problems ``dual_gap`` and ``n_iter`` are the largest,
            and the rest are sums.
        """
        model = clone(self)
        model._check()
        solver = resolve(DesignSolver, self.solver, "solver")
        samples = model._read(X, y, sample_weight, offset)[0].merged()
        problems = model._problems(samples, 1.0)
        values = path_values(problems, alphas)
        _refuse_lost(problems, values[-1], samples)
        paths = [list(regularization_path(solver, problem, values, self.tol, self.max_iter)) for problem in problems]
        for problem, path in zip(problems, paths):
            for point in path:
                _warn_unless_converged(problem, point.solution, self.tol)
        return [_record(points, X.shape[1]) for points in zip(*paths)]

    # ---- prediction ---------------------------------------------------------------------------------------------

    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predict classes, labels or numbers; with the Poisson loss the mean, :math:`e^{(X w)_i + b + o_i}`.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n,), or (n, K) of K labels or outputs
        """
        outputs = self._outputs(X, offset)
        return self._decoder().decode(outputs)

    @available_if(is_a_classifier)
    def decision_function(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Scores of the classes.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n,) for two classes, positive for ``classes_[1]``; (n, K) for K > 2 classes, or labels
        """
        outputs = self._outputs(X, offset)
        return self._decoder().scores(outputs)

    @available_if(is_probabilistic)
    def predict_proba(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Probabilities by the logistic loss; one-vs-rest probabilities of classes are scaled to sum to one.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n, K) for classes, or (n, L) for having each of L labels
        """
        outputs = self._outputs(X, offset)
        return self._decoder().probabilities(outputs)

    def _has_probabilities(self) -> bool:
        return isinstance(resolve(PointwiseLoss, self.loss, "loss"), Logistic)

    def _decoder(self) -> Any:
        if not is_a_classifier(self):
            return NumberDecoder(resolve_loss(self, links=True))
        return ClassDecoder(self.classes_, self.multilabel_, self.constant_labels_, multinomial=self.multinomial_)

    def _outputs(self, X: Any, offset: ArrayLike | None = None) -> np.ndarray:
        """Outputs (n, P) of all problems, from the columns that are not zero."""
        return self._outputs_of(self._checked(X), offset)

    def _outputs_of(self, X: Any, offset: ArrayLike | None) -> np.ndarray:
        outputs = predictions_of(as_design(X), np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_))
        known = read_offsets(offset, *outputs.shape)
        return outputs if known is None else outputs + known.T

    def _checked(self, X: Any) -> Any:
        """Check inputs of a prediction: an array, a sparse matrix or a ``LinearOperator``."""
        check_is_fitted(self)
        if not isinstance(X, LinearOperator):
            return checked_arrays(self, X, reset=False, accept_sparse=("csc", "csr"), dtype=(np.float64, np.float32))
        if X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features."
            )
        return X

    def explain(
        self, x: Any, *, label: Any = None, against: Any = None, target: int = 0, offset: Any = None, n: int = 20
    ) -> Explanation:
        """Explain the prediction of one sample by what its columns add to it.

        Of a classifier the parts add up to the margin, the difference of the scores of two classes.

        Parameters
        ----------
        x : array of shape (d,), or what :meth:`predict` takes with one sample
        label, against : class, optional
            The class to explain, the predicted one by default, and the one to compare it with, by default the best of
            the others. Not for a regressor, nor for labels in columns.
        target : int
            Number of the output of a regressor, or of the label, from 0.
        offset : float or array, optional
            As for :meth:`predict`, of the one sample.
        n : int > 0
            Number of the strongest columns to list.

        Returns
        -------
        omkl.Explanation
            Among the groups are ``intercept`` and, if given, ``offset``. With the Poisson loss the ``margin`` is the
            logarithm of the predicted mean.

        Raises
        ------
        omkl.exceptions.InputError
            If the sample does not fit the model, or a class or target is none of its own.
        """
        return explain_columns(self, x, label, against, target, offset, n)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin) or self._takes_labels
        return tags

    @property
    def _takes_labels(self) -> bool:
        """Return whether a classifier with these parameters learns labels in columns."""
        return self.class_weight is None and self.multiclass != "multinomial"

    # ---- model files --------------------------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        return without_splitters(super()._saved_parameters())


def score_with_offset(
    model: SparseLinear,
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    offset: ArrayLike | None = None,
) -> float:
    r"""Accuracy of a classifier, in [0, 1], or :math:`R^2 \le 1` of a regressor, the mean of all outputs.

    Parameters
    ----------
    X, y, sample_weight, offset
        As for :meth:`fit`; the offset is 0 by default.
    """
    metric = accuracy_score if is_a_classifier(model) else r2_score
    return float(metric(y, model.predict(X, offset=offset), sample_weight=sample_weight))


# ---- problems and solutions -------------------------------------------------------------------------------------


def path_values(problems: Sequence[DesignProblem], alphas: int | ArrayLike) -> np.ndarray:
    """Decreasing values of a path; a number of them starts at the alpha at which a column enters a model."""
    if is_number_of_values(alphas):
        return np.max([problem.path_values(int(alphas), DECADES) for problem in problems], axis=0)
    return ordered(alphas)[::-1]


def predictions_of(design: Any, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Predictions (m, K) of coefficients (K, n), from the columns that are not zero."""
    outputs = [design.product(np.flatnonzero(w), w[w != 0]) + b for w, b in zip(coefficients, intercepts)]
    return np.column_stack(outputs)


def rows_of(solution: Solution, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (K, n) and intercepts (K,) of a problem's outputs."""
    intercepts = np.atleast_1d(solution.model.intercept)
    return solution.model.dense(n_columns * len(intercepts)).reshape(n_columns, -1).T, intercepts


def n_outputs_of(target: np.ndarray) -> int:
    """The number of outputs of a problem with these targets."""
    return 1 if target.ndim == 1 else target.shape[1]


def _record(points: Sequence[PathPoint], n_columns: int) -> dict[str, Any]:
    """The flat record of one alpha, from the points of all problems."""
    solutions = [point.solution for point in points]
    coefficients, intercepts = map(np.concatenate, zip(*(rows_of(solution, n_columns) for solution in solutions)))
    alone = len(coefficients) == 1
    return {
        "alpha": points[0].value,
        "coef": coefficients[0] if alone else coefficients,
        "intercept": float(intercepts[0]) if alone else intercepts,
        "dual_gap": max(solution.certificate.gap for solution in solutions),
        "objective": sum(solution.certificate.primal for solution in solutions),
        "active": sum(int(np.count_nonzero(solution.certificate.norms)) for solution in solutions),
        "n_iter": max(solution.n_iter for solution in solutions),
        "seconds": sum(point.seconds for point in points),
    }


def _warn_unless_converged(problem: DesignProblem, solution: Solution, tol: float) -> None:
    """Warn of a gap above the tolerance."""
    if solution.converged:
        return
    certificate, advice = solution.certificate, f"above tol={tol:g}: raise max_iter, or tol."
    if (gap := certificate.gap) < 0:
        without = problem.weighted_loss.value(np.zeros_like(certificate.outputs))
        alone = problem.unpenalized is not None and certificate.primal < SEPARATED * without
        remedy = "the groups of weight 0 fit the targets without the others, so give some of them a weight"
        advice = f"which proves nothing: {remedy if alone else 'scale the columns of X'}."
    warn_caller(
        f"Stopped at a relative duality gap of {gap:.2g} after {solution.n_iter} iterations, {advice}",
        ConvergenceWarning,
    )


def _refuse_lost(problems: Sequence[DesignProblem], alpha: float, samples: Samples) -> None:
    """Raise an InputError if the penalty is below the rounding of the loss, so that no gap can certify a model."""
    targets = max(1.0, *(float(np.abs(target).max()) for target in samples.targets))
    if problems[0].threshold > 0 and alpha < LOST**0.5 * samples.largest * targets:  # a cheap upper bound
        largest = max(problem.largest_alpha() for problem in problems)
        if alpha < LOST * largest:
            raise InputError(
                f"alpha must be above {LOST * largest:.2g} to have an effect on these data, got {alpha:.3g}."
            )
