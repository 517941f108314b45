"""What trained online estimators show of their groups: weights, norms, costs, features, and how much each helps."""

from typing import Any

import numpy as np

from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.sources import TrainingBlock, blocks_of
from omkl.groups import KernelBank
from omkl.online import Predictor, group_report, left_out_groups


class LearnedGroups:
    """What is learned, of an estimator that holds an :class:`~omkl.online.OnlineModel` as ``model_``."""

    model_: Any

    @property
    def predictor_(self) -> Predictor:
        """The frozen, averaged model that predicts, a :class:`~omkl.online.Predictor`."""
        if "model_" not in self.__dict__:  # the check itself takes as long as a sentence
            check_is_fitted(self)
        return self.model_.predictor()

    @property
    def kernel_weights_(self) -> dict[str, float]:
        """Weight of each regularized group by name, in [0, 1], summing to one: how MKL combines them.

        They are those of the averaged model, which predicts; ``history_`` has those of the last iterate of each epoch.
        The norms that they follow from are computed at the first look after the model has changed, for a kernel with
        S support vectors from S^2 kernel values.
        """
        check_is_fitted(self)
        return self.model_.kernel_weights()

    @property
    def left_out_(self) -> list[str]:
        """Groups that ``weighting="out-of-sample"`` has left out, as they do not help on new examples.

        Their weight is 0, and they are not computed any more: the model predicts the same without them. A group whose
        weight is 0 and that is not listed was shrunk to zero by the regularizer.
        """
        check_is_fitted(self)
        return left_out_groups(self.model_.trainer)

    @property
    def dual_coef_(self) -> dict[str, np.ndarray]:
        """Dual coefficients of the averaged model, for each kernel that is held as an expansion over support vectors.

        ``dual_coef_[name]`` is (S, K), a row for each of ``support_vectors_[name]`` and a column for each label (one
        for two classes and for a regressor): the kernel adds ``K(X, support_vectors_[name]) @ dual_coef_[name]``,
        times its weight where Hedge combines kernels.
        """
        return {name: A for bank in self._expansions() for name, A in zip(bank.names, bank.averaged_coefficients())}

    @property
    def support_vectors_(self) -> dict[str, np.ndarray]:
        """Support vectors of each such kernel, (S, d), as the kernel reads them."""
        return {name: bank.supports[view] for bank in self._expansions() if bank.supports
                for name, view in zip(bank.names, bank.views)}  # fmt: skip

    def _expansions(self) -> list[KernelBank]:
        check_is_fitted(self)
        return [bank for bank in self.model_.trainer.banks if isinstance(bank, KernelBank)]

    def top_features(self, n: int = 10, group: str | None = None) -> list[dict[str, Any]]:
        """The explicit features of the largest weights in the averaged model.

        Parameters
        ----------
        n : int
        group : str, optional
            Only features of this group.

        Returns
        -------
        list of dict
            ``feature`` (``key=value``, or ``kernel[column]``), ``group``, ``label`` (not of a regressor), ``weight``;
            largest first. Empty where the model holds no explicit features.
        """
        return self.model_.codec.top_features(self.predictor_, n, group)

    @property
    def group_report_(self) -> list[dict[str, Any]]:
        """What :meth:`group_report` tells of each group without data: its norm, its weight and its bytes."""
        check_is_fitted(self)
        return group_report(self.model_.trainer)

    def group_report(self, X: Any, y: Any = None) -> list[dict[str, Any]]:
        """What each group costs, and how much it helps on data that the model has not learned from.

        The loss without a group is that of the model with the group's parameters set to zero, and all others as they
        are. Of two groups that say the same each seems to help little: delete one, and look again.

        Parameters
        ----------
        X, y
            Held-out data, as for :meth:`score`; a stream is not held whole.

        Returns
        -------
        list of dict
            A flat record for each group, in the order of ``kernel_weights_``, those that are not regularized at the
            end: ``group``, ``norm`` and ``weight`` in the averaged model (None for a group that is not regularized),
            ``bytes`` of its parameters, ``bytes_share`` and ``time_share`` (of the seconds that scoring ``X`` takes,
            each group by itself) in [0, 1]; ``loss_without``, the mean training loss of an example of ``X`` without
            the group; ``loss_increase``, by how much it exceeds that of the whole model, and the ``standard_error`` of
            this over the examples (None for a single one). A group at zero is not computed, and helps 0.

        Raises
        ------
        omkl.exceptions.InputError
            If the data is not as described, or has labels that the model does not know.
        """
        check_is_fitted(self)
        read, encode = self._read_known, self.model_.codec.encode_known
        blocks = (encode(read(block)) for block in blocks_of(X, y))
        return group_report(self.model_.trainer, (example for block in blocks for example in block))

    def _read_known(self, block: TrainingBlock) -> Any:
        """Data that the model has not learned from as its codec takes them, checked."""
        raise NotImplementedError

    def memory_usage(self) -> dict[str, float]:
        """Megabytes of the parameters, the unit of all that is said of memory, 10^6 bytes.

        Returns
        -------
        dict
            ``"training"``: what training goes on from; ``"prediction"``: what predicts.
        """
        check_is_fitted(self)
        return self.model_.memory_usage()
