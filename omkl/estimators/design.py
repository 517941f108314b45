"""GroupLasso and SparseLogisticRegression: sparse linear models with a certificate, as scikit-learn estimators."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if

from omkl.batch import DesignProblem, DesignSolver
from omkl.estimators.certified import unchanged_if_refused
from omkl.estimators.classes import finite_targets, has_probabilities
from omkl.estimators.multilabel import MultilabelClassifier
from omkl.estimators.sparse_linear import Samples, SparseLinear
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

Groups = Sequence[Sequence[int | str]] | dict[str, Sequence[int | str]] | ArrayLike | None


class GroupLasso(RegressorMixin, SparseLinear):
    r"""Lasso, group lasso and elastic net with a certificate: regression that selects columns or groups of them.

    .. math:: \min_{w, b} \frac1n \sum_i l\Bigl(y_i, (X w)_i + b\Bigr) + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the sample weights, and 1/2 times the squared error: without groups this is
    scikit-learn's ``Lasso(alpha)``. With K outputs the loss is their sum and :math:`\|w_g\|` the norm of a group's
    coefficients in all of them, as in ``MultiTaskLasso``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer: the larger, the fewer groups.
    groups : None, array of shape (n,), list of lists of int or str, or dict of such lists
        None makes every column a group of its own, the lasso; an array labels each column with its group; lists give
        the columns of each group by position, or by name where X is a data frame; a dict names the groups, too. A
        ``Series`` of labels whose index has the names of columns labels them by name.
    loss : {"squared", "huber", "poisson", "epsilon-insensitive"} or PointwiseLoss
        Any convex one, with kinks or without. With "poisson" targets are counts whose mean is :math:`e^{(X w)_i + b}`,
        as in scikit-learn's ``PoissonRegressor``, and predictions are means.
    regularizer : {"group-lasso", "elastic-net", "sparse-group"}, or Regularizer
        A function of the group norms; with the solver "dal" a sum over groups. "sparse-group:sigma=0.7" is
        :math:`\sum_g \sigma \omega_g \|w_g\| + (1-\sigma) \|w_g\|_1`, which selects columns within groups, too.
        "elastic-net:mu=0.3" is
        :math:`\sum_g (1-\mu) b_g + \mu b_g^2 / 2`: with single columns scikit-learn's
        ``ElasticNet(alpha, l1_ratio=1 - mu)``. "l1" is for single columns only.
    group_weights : None, "sqrt-size", array of shape (g,) or dict
        The :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists, or in a dict or a ``Series``
        by the names of the groups; None makes them all 1. Groups of weight 0 are in the model whatever alpha is, like
        the intercept.
    solver : {"dal", "sparsa", "ist"} or omkl.batch.DesignSolver
        The last two for losses without kinks, and one output.
    tol : float > 0
        Relative duality gap to reach, over all columns.
    max_iter : int, optional
        Iterations of the solver at most; for "dal" passes over the design.
    fit_intercept : bool
        Whether there is a constant b, which is not regularized.
    positive : bool
        Whether coefficients must not be negative, but for those of groups of weight 0.
    warm_start : bool
        Start from the coefficients of the previous fit.
    verbose : bool
        Show a progress bar, if it takes longer than a second; where standard error is no terminal, a line every half
        minute.

    Attributes
    ----------
    coef_ : array of shape (n,), or (K, n) for K outputs
    intercept_ : float, or array of shape (K,)
    loss_ : str or PointwiseLoss
        The loss that was learned with; predictions are of it, whatever ``loss`` is set to later.
    dual_gap_ : float
        Relative duality gap reached, computed from the model over all columns.
    n_iter_ : int
    history_ : list of dict
        A flat record an iteration; see :class:`omkl.batch.Solution`.
    n_features_in_ : int

    References
    ----------
    Tomioka, Suzuki and Sugiyama (2009), Dual augmented Lagrangian, proximal minimization, and MKL.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 9))
    >>> model = GroupLasso(0.2, groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]]).fit(X, X[:, 3] - X[:, 4])
    >>> np.flatnonzero(model.coef_)
    array([3, 4, 5])
    """

    _takes_outputs = True

    def __init__(
        self, alpha: float = 1.0, *, groups: Groups = None, loss: str | PointwiseLoss = "squared",
        regularizer: str | Regularizer = "group-lasso", group_weights: str | ArrayLike | dict | None = None,
        solver: str | DesignSolver = "dal", tol: float = 1e-3, max_iter: int | None = None, fit_intercept: bool = True,
        positive: bool = False, warm_start: bool = False, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.groups = groups
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> "GroupLasso":
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            Used as it is in float32 and float64, in C and Fortran order, as CSC and CSR: never copied.
        y : array of shape (m,), or (m, K) for K outputs
            Outputs share their groups: with all of them a group is in the model, or with none.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss.
        offset : array of shape (m,), or (m, K), optional
            What is known of the predictions, and added to :math:`(X w)_i + b`: with the Poisson loss the logarithm of
            the exposure.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or groups do not fit the columns.
        """
        with unchanged_if_refused(self):
            self._resolve()
            self._learn(self._read(X, y, sample_weight, offset))
        return self

    def _learn(self, samples: Samples) -> None:
        (target,) = samples.targets
        if self.fit_intercept and samples.offsets is None and not np.ptp(target, axis=0).any():
            outputs = target.reshape(len(target), -1).T
            alone = [self._problems(Samples(samples.design, [own], samples.weights))[0] for own in outputs]
            intercepts = np.array([self._constant(problem) for problem in alone])
            coefficients = np.zeros((len(outputs), samples.design.shape[1]))
            self.dual_gap_, self.n_iter_, self.history_ = 0.0, 1, []
        else:
            coefficients, intercepts = self._solve(samples)
        self.coef_ = coefficients if target.ndim == 2 else coefficients[0]
        self.intercept_ = intercepts if target.ndim == 2 else float(intercepts[0])

    def _constant(self, problem: DesignProblem) -> float:
        """The model of a constant target: a constant, at which the loss may be 0, to which no gap is relative."""
        y, constant = float(problem.y[0]), problem.best_intercept(np.zeros(len(problem.y)))
        loss = problem.weighted_loss
        if loss.value(np.full(len(problem.y), y)) <= loss.value(np.full(len(problem.y), constant)):
            constant = y
        warnings.warn(
            f"y is constant ({y:g}): the model is the constant {float(problem.loss.mean(np.array(constant))):g}.",
            UserWarning,
            stacklevel=4,
        )
        return constant

    def _targets(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[list[np.ndarray], np.ndarray | None]:
        self.loss_ = self.loss
        return [finite_targets(y, all_at_hand=True)], weights

    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predicted target of each sample, (n,), or (n, K) for K outputs.

        With the Poisson loss it is the mean, :math:`e^{(X w)_i + b + o_i}`.

        Parameters
        ----------
        X
            As for :meth:`fit`.
        offset : array of shape (n,), or (n, K), optional
            0 by default.
        """
        outputs = self._learned_loss.mean(self._outputs(X, offset))
        return outputs if outputs.shape[1] > 1 else outputs[:, 0]

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> float:
        r"""The share of the targets' variance that predictions explain, :math:`R^2 \le 1`, the mean of all outputs'.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`; the offset is 0 by default.
        """
        return float(r2_score(y, self.predict(X, offset=offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class SparseLogisticRegression(MultilabelClassifier, SparseLinear):
    r"""Classifier that selects columns or groups of them, with a certificate.

    .. math:: \min_{w, b} \frac1n \sum_i \log\bigl(1 + e^{-y_i ((X w)_i + b)}\bigr) + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the weights of samples and classes: scikit-learn's
    ``LogisticRegression(C=c, l1_ratio=1)`` is ``alpha = 1 / (c * n)``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer: the larger, the fewer groups.
    groups, regularizer, group_weights, solver, tol, max_iter, fit_intercept, positive, warm_start, verbose
        As for :class:`GroupLasso`.
    loss : {"logistic", "squared-hinge", "hinge"} or PointwiseLoss
        Any convex one, with kinks or without.
    multiclass : {"ovr", "multinomial"}
        More than two classes: one problem for each against the rest, or all in one, with the loss
        :math:`\log \sum_k e^{z_{ik}} - z_{i y_i}` in place of the logistic loss. In one problem a group of columns is
        in the model with all classes, or with none. Samples with several labels at once have a problem for each label,
        with columns of its own, which is "ovr".
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" weighs every class alike. They multiply the sample
        weights.

    Attributes
    ----------
    classes_ : array of shape (K,), or the numbers of the L columns of indicators
    loss_ : str or PointwiseLoss
        The loss that was learned with; predictions are of it, whatever ``loss`` is set to later.
    multinomial_ : bool
        Whether all classes were learned in one problem, that of the multinomial loss.
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or none: nothing is learned of them, and they are predicted so.
    coef_ : array of shape (1, n), or (K, n) for K > 2 classes, or (P, n) for the P labels that samples differ in
    intercept_ : array of shape (1,), (K,) or (P,)
    dual_gap_ : float
        Relative duality gap reached, the largest of the binary problems; computed from the model over all columns.
    n_iter_ : int
        The largest of the binary problems.
    history_ : list of dict
        A flat record an iteration; ``problem`` numbers the binary problems.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseLogisticRegression(0.01).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> int(np.count_nonzero(model.coef_)), bool(model.dual_gap_ <= 1e-3)
    (9, True)
    """

    def __init__(
        self, alpha: float = 1.0, *, groups: Groups = None, loss: str | PointwiseLoss = "logistic",
        regularizer: str | Regularizer = "group-lasso", group_weights: str | ArrayLike | dict | None = None,
        multiclass: str = "ovr", class_weight: str | dict | None = None,
        solver: str | DesignSolver = "dal", tol: float = 1e-3,
        max_iter: int | None = None, fit_intercept: bool = True, positive: bool = False,
        warm_start: bool = False, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.groups = groups
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> "SparseLogisticRegression":
        """Learn the coefficients.

        Parameters
        ----------
        X, sample_weight
            As for :meth:`GroupLasso.fit`.
        y : array of shape (m,), or indicators (m, L) of 0 and 1
            Classes, or the labels that each sample has: L of them, any number at once.
        offset : array of shape (m,), or (m, K) for K > 2 classes, or (m, P) for labels, optional
            What is known of the scores, and added to :math:`(X w)_i + b`.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, there is one class only, or groups do not fit the columns.
        """
        with unchanged_if_refused(self):
            self._resolve()
            self._learn(self._read(X, y, sample_weight, offset))
        return self

    _takes_outputs = True
    _of_classes = ("multinomial",)
    _plain_attributes = (*SparseLinear._plain_attributes, "multilabel_", "multinomial_", "constant_labels_")

    def _learn(self, samples: Samples) -> None:
        self.coef_, self.intercept_ = self._solve(samples)

    def _targets(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[list[np.ndarray], np.ndarray | None]:
        self.multinomial_ = False
        if y.ndim == 2:
            return list(np.ascontiguousarray(self._learn_labels(y).T)), weights
        self.multilabel_, self.constant_labels_ = False, {}
        codes = self._learn_classes(y)
        targets = self._one_vs_rest(codes)
        self.multinomial_ = self._is_multinomial()
        if self.multinomial_:
            targets = [np.column_stack(targets) > 0]
        return targets, self._times_class_weights(codes, weights)

    def _is_multinomial(self) -> bool:
        """Whether all classes are learned in one problem."""
        if self.multiclass not in ("ovr", "multinomial"):
            raise InputError(f'multiclass must be "ovr" or "multinomial", not {self.multiclass!r}.')
        if self.multiclass == "multinomial" and not self._is_probabilistic():
            raise InputError(f'multiclass="multinomial" has a loss of its own: leave out loss={self.loss!r}.')
        return self.multiclass == "multinomial" and len(self.classes_) > 2

    def decision_function(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Scores: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more; (n, L) of L labels.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.
        """
        outputs = self._outputs(X, offset)
        if self.multilabel_:
            return self._scores_of_labels(outputs)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Best class of each sample, (n,), or its labels, (n, L); parameters as for :meth:`decision_function`."""
        return self._best_class(self.decision_function(X, offset=offset))

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> float:
        """The share of the samples whose class, or all of whose labels, are predicted, in [0, 1].

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`; the offset is 0 by default.
        """
        return float(accuracy_score(y, self.predict(X, offset=offset), sample_weight=sample_weight))

    @available_if(has_probabilities)
    def predict_proba(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Probability of each class, (n, K), or of having each label, (n, L).

        One-vs-rest probabilities of classes are scaled to sum to one, those of labels are not. Parameters are those of
        :meth:`decision_function`.
        """
        scores = self.decision_function(X, offset=offset)
        if self.multilabel_:
            return expit(scores)
        return softmax(scores, axis=1) if self.multinomial_ else self._probabilities(scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # where columns are standardized, alpha=1 leaves none of them in the model
        tags.classifier_tags.poor_score = True
        return tags
