"""OnlineMKLRegressor: one number for one input, on the same trainer as the sequence labeler."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from omkl._components import resolve
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.classes import finite_targets
from omkl.estimators.encoding import is_pairwise, takes_sparse
from omkl.estimators.explaining import ExplainsNumbers
from omkl.estimators.inputs import TokenData, read_rows, row_potentials
from omkl.estimators.outputs import NumberOutputs
from omkl.estimators.sources import TrainingBlock, blocks_of
from omkl.estimators.token_codec import TokenCodec
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.online import Hedge, Predictor


class OnlineMKLRegressor(ExplainsNumbers, RegressorMixin, OnlineEstimator):
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
        None takes linear, quadratic and Gaussian kernels on arrays, and linear on sparse matrices. With
        ``["precomputed"]`` X is a Gram matrix, see :class:`~omkl.kernels.Precomputed`.
    loss : {"squared", "huber", "epsilon-insensitive"} or PointwiseLoss
        "huber:delta=0.5" and "epsilon-insensitive:epsilon=0.2" set their parameters, in units of y.
    regularizer, weighting, C, epochs, method, eta0, schedule, average, radius, n_examples
    budget, budget_maintenance, cache_size, dtype, callbacks, verbose
        As for :class:`~omkl.SequenceLabeler`; examples take the place of sequences.
    early_stopping : bool
        Hold out ``validation_fraction`` of the examples, stop when R^2 on them has not improved for
        ``n_iter_no_change`` epochs, and keep the best model.
    validation_fraction, n_iter_no_change, random_state
        As for :class:`~omkl.SequenceLabeler`.
    fit_intercept : bool
        Learn a constant, not regularized; without it, ``level_`` is 0.
    n_jobs : int or None
        Threads that compute Gram matrices, predict, each some of the rows, and train, each some of the shards that
        ``fit`` is asked for; None is one, -1 one for each core. The bits do not depend on it.
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

    def __init__(
        self, kernels: Any = None, *, loss: Any = "squared", regularizer: Any = "mkl", weighting: str = "auto",
        C: float = 1.0, epochs: int = 20,
        method: str | Hedge = "fobos", eta0: float | str = "auto", schedule: Any = None, average: Any = "quadratic",
        fit_intercept: bool = True, radius: float | str | None = None,
        shuffle: bool = True, early_stopping: bool = False, validation_fraction: float = 0.1,
        n_iter_no_change: int = 5, n_examples: float | None = None,
        batch_size: int = 1, l2: float = 0.0, budget: int | None = None,
        budget_maintenance: str = "projection", cache_size: float = 4000, dtype: Any = "auto",
        n_jobs: int | None = None, callbacks: Any = None, verbose: bool = False, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.kernels = kernels
        self.loss = loss
        self.regularizer = regularizer
        self.weighting = weighting
        self.C = C
        self.epochs = epochs
        self.method = method
        self.eta0 = eta0
        self.schedule = schedule
        self.average = average
        self.fit_intercept = fit_intercept
        self.radius = radius
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_examples = n_examples
        self.batch_size = batch_size
        self.l2 = l2
        self.budget = budget
        self.budget_maintenance = budget_maintenance
        self.cache_size = cache_size
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None, checkpoint: Any = None,
        checkpoint_every: str | float = "60s", resume: bool = False, client: Any = None, shards: int | None = None,
    ) -> "OnlineMKLRegressor":  # fmt: skip
        """Train from scratch.

        Parameters
        ----------
        X : array of shape (n, d), sparse matrix, list of dicts, or stream
            A stream is a :class:`omkl.data.Stream` or any iterator of pairs ``(x, y)``, see
            :meth:`omkl.SequenceLabeler.fit`; it brings its targets along.
        y : array of shape (n,), optional
        sample_weight : array of shape (n,), optional
            How often each example counts: an integer is that many copies.
        validation, checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or the data is not as described; the model stays what it was.
        """
        running = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        running |= {"client": client, "shards": shards}
        read = partial(read_rows, self, finite_targets, None)
        return self._fit(
            self._codec(), read, X, y, sample_weight, running, held_out_score=held_out_r2, validation=validation
        )

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "OnlineMKLRegressor":
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
        return self._partial_fit(self._codec(), partial(read_rows, self, finite_targets, None), X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted target of each row of X, (n,)."""
        return row_potentials(self, X)[:, 0] + self.level_

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2; of a stream, which brings its targets along, without holding it."""
        found = [
            (np.asarray(block.y, dtype=np.float64), self.predict(block.X), block.sample_weight)
            for block in blocks_of(X, y, sample_weight)
        ]
        gold, predicted = (np.concatenate(parts) for parts in list(zip(*found))[:2])
        return float(r2_score(gold, predicted, sample_weight=found[0][2]))

    def _read_known(self, block: TrainingBlock) -> TokenData:
        return read_rows(self, finite_targets, None, block, first=False)

    def _codec(self) -> TokenCodec:
        loss = resolve(PointwiseLoss, self.loss, "loss")
        if loss.classifies:
            raise InputError(f"{loss!r} is a loss of classification: choose one of regression.")
        if loss.has_link:
            raise InputError(f"{loss!r} has a link, which OnlineMKLRegressor does not know: GroupLasso does.")
        return TokenCodec(NumberOutputs(self.fit_intercept), self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernels)
        tags.input_tags.pairwise = is_pairwise(self.kernels)
        return tags


def held_out_r2(predictor: Predictor, examples: Sequence) -> float:
    """R^2 of a frozen model on held-out examples."""
    gold = [y for _, y, _ in examples]
    return r2_score(gold, [predictor.structure.decode(predictor.potentials(x)) for x, _, _ in examples])
