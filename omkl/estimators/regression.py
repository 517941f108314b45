"""OnlineMKLRegressor: one number for one input, on the same trainer as the sequence labeler."""

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from omkl.estimators.classes import finite_targets
from omkl.estimators.labels import Targets
from omkl.estimators.runs import running_options
from omkl.estimators.single import SingleOutputEstimator
from omkl.estimators.streaming import as_stream, refuse_for_stream
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.structures import Scalar


class OnlineMKLRegressor(RegressorMixin, SingleOutputEstimator):
    r"""Regression whose combination of kernels is learned online.

    .. math:: \min_\theta \frac{1}{m} \sum_i l\Bigl(y_i, \sum_k \theta_k^\top \phi_k(x_i) + b\Bigr)
        + \frac{1}{C m} R(\theta)

    ``X`` is an array of shape (n, d), a scipy sparse matrix (as for a classifier), or a list of n dicts as
    described at :class:`~omkl.SequenceLabeler`.

    Inputs should be standardised, as for any kernel machine. Targets need not be centred or scaled: the model learns
    ``y - level_``, where ``level_`` is the median of the targets of ``fit``, or of the first call of ``partial_fit``,
    and an intercept that goes on learning the rest. With the squared loss, ``eta0="auto"`` and the regularizers
    ``"mkl"`` and ``"l2"``, a model of ``c y`` predicts c times what a model of ``y`` does. A numeric ``eta0`` suits the
    squared loss at any scale, too; for the other losses, whose gradients have a length of their own, it is in units
    of y.

    Parameters
    ----------
    kernels : list, dict or None
        None takes linear, quadratic and Gaussian kernels on arrays, and linear on sparse matrices.
    loss : {"squared", "huber", "epsilon-insensitive"} or PointwiseLoss
        "huber:delta=0.5" and "epsilon-insensitive:epsilon=0.2" set their parameters, in units of y.
    regularizer, C, epochs, method, eta0, schedule, average, radius, n_examples, budget, budget_maintenance, \
cache_size, dtype, callbacks, verbose
        As for :class:`~omkl.SequenceLabeler`; examples take the place of sequences.
    early_stopping : bool
        Hold out ``validation_fraction`` of the examples, stop when R^2 on them has not improved for
        ``n_iter_no_change`` epochs, and keep the best model.
    validation_fraction, n_iter_no_change, random_state
        As for :class:`~omkl.SequenceLabeler`.
    fit_intercept : bool
        Learn a constant, not regularized; without it, ``level_`` is 0.
    shuffle : bool
        Present the examples in a fresh random order every epoch. The order then depends on ``random_state`` and on
        the examples, not on the order of the rows.

    Attributes
    ----------
    level_ : float
        What targets are counted from, in units of y.
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A record an epoch.
    n_iter_ : int
        Epochs run.
    n_features_in_ : int
        Columns of X.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(300, 2))
    >>> model = OnlineMKLRegressor(["gaussian:on=0:1", "gaussian:on=1:2"], random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.9), bool(model.kernel_weights_["gaussian:on=0:1"] > 0.8)
    (True, True)
    """

    _losses = PointwiseLoss
    _outputs_class = Targets

    def __init__(
        self, kernels=None, loss="squared", regularizer="mkl", C=1.0, epochs=20, method="fobos", eta0="auto",
        schedule=None, average="quadratic", fit_intercept=True, radius=None, shuffle=True, early_stopping=False,
        validation_fraction=0.1, n_iter_no_change=5, n_examples=None, budget=None,
        budget_maintenance="projection", cache_size=4000, dtype="auto", callbacks=None, verbose=True, random_state=None,
    ):  # fmt: skip
        super().__init__(
            kernels, loss, regularizer, C, epochs, method, eta0, schedule, average, fit_intercept, radius, shuffle,
            early_stopping, validation_fraction, n_iter_no_change, n_examples, budget, budget_maintenance, cache_size,
            dtype, callbacks, verbose, random_state,
        )  # fmt: skip

    def fit(
        self, X, y=None, sample_weight=None, *, checkpoint=None, checkpoint_every="60s", resume=False, client=None,
        shards=None,
    ):  # fmt: skip
        """Train from scratch.

        Parameters
        ----------
        X : array of shape (n, d), sparse matrix, list of dicts, or stream
            A stream is a :class:`omkl.data.Stream` or any iterator of pairs ``(x, y)``, see
            :meth:`omkl.SequenceLabeler.fit`; it brings its targets along.
        y : array of shape (n,), optional
        sample_weight : array of shape (n,), optional
            How often each example counts: an integer is that many copies.
        checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or the data is not as described; the model stays what it was.
        """
        running = running_options(checkpoint, checkpoint_every, resume, client, shards)
        stream = as_stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
            return self._fit_stream(stream, {}, running)
        return self._fit_arrays(X, y, None, sample_weight, running)

    def partial_fit(self, X, y=None, sample_weight=None):
        """One round of training for each example, in the given order.

        Kernels learn their widths, and the model the level of its targets, from the first call.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`; a stream is passed over once.

        Returns
        -------
        self
        """
        stream = as_stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
            return self._partial_fit_stream(stream, {})
        return self._partial_fit_arrays(X, y, None, sample_weight)

    def predict(self, X):
        """Predicted target of each row of X, (n,)."""
        return self._potentials(X)[:, 0] + self.level_

    def _resolve(self):
        parts = super()._resolve()
        if parts["loss"].classifies:
            raise InputError(f"{parts['loss']!r} is a loss of classification: choose one of regression.")
        return parts

    def _checked_targets(self, y):
        return finite_targets(y)

    def _learn_outputs(self, targets, weights, classes=None):
        return Targets.around_median(targets, weights) if self.fit_intercept else Targets(0.0)

    def _structure(self, targets):
        return Scalar()

    def _validation_score(self, predictor, examples):
        """R^2 on held-out examples."""
        gold = [y for _, y, _ in examples]
        return r2_score(gold, [predictor.structure.decode(predictor.potentials(x)) for x, _, _ in examples])

    def _loss_at_zero(self, trainer, training):
        return trainer.mean_loss(training)
