"""What a trained parser shows of its templates, and how it becomes a smaller one."""

from typing import Any

from sklearn.base import clone

from omkl._components import check_number
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.fitted import check_is_fitted
from omkl.exceptions import InputError
from omkl.groups import TemplateSet
from omkl.online import OnlineModel


class LearnedTemplates(OnlineEstimator):
    """An online estimator whose groups are the templates of one bank, and whose model's codec knows them."""

    templates_: TemplateSet

    @property
    def template_weights_(self) -> dict[str, float]:
        """Weight of each template by name, in [0, 1], summing to one."""
        return self.kernel_weights_

    def prune(self, keep: int, by: str = "weights") -> Any:
        """A smaller parser of the best templates, to use as it is or to train anew with :meth:`fit`.

        Parameters
        ----------
        keep : int
            How many templates stay.
        by : {"weights", "norms"}
            Rank by the learned weights, or by the norms of the groups, which also tell the templates of an SVM apart.

        Returns
        -------
        DependencyParser
        """
        templates = self.best_templates(keep, by)
        self._check_settled()
        pruned = clone(self).set_params(templates=templates, lexicons=dict(templates.lexicons) or None, keep=None)
        bank = self.model_.trainer.banks[0].restricted(templates)
        model = OnlineModel(self.model_.codec.pruned(pruned, bank), pruned._settings())
        model.start([bank]).take(self.model_.trainer)
        model.predicts_only = self.model_.predicts_only
        pruned._adopt(model)
        pruned.history_, pruned.n_iter_ = self.history_, self.n_iter_
        return pruned

    def best_templates(self, keep: int, by: str = "weights") -> TemplateSet:
        """So many of the templates, the best ones; see :meth:`prune`."""
        check_number("keep", keep, above=0, integer=True)
        ranking = self.ranking(by)
        if keep > len(ranking):
            raise InputError(f"keep={keep}, but there are {len(ranking)} templates.")
        return self.templates_.keep(ranking[:keep])

    def ranking(self, by: str = "weights") -> list[str]:
        """Names of the templates, the best first; see :meth:`prune`."""
        check_is_fitted(self)
        if by not in ("weights", "norms"):
            raise InputError(f'by must be "weights" or "norms", not {by!r}.')
        norms = dict(zip(self.templates_.names, self.predictor_.norms.tolist()))
        values = self.template_weights_ if by == "weights" else norms
        return sorted(values, key=values.__getitem__, reverse=True)

    def top_features(self, n: int = 10, group: str | None = None) -> list[dict[str, Any]]:
        """The strongest features of the last model of :meth:`fit` (not of the averaged one, which predicts).

        Only features that an arc of a training tree fires have names, and are listed.

        Parameters
        ----------
        n : int
        group : str, optional
            Only features of this template.

        Returns
        -------
        list of dict
            ``feature``, ``group`` and ``weight``; largest magnitude first, at most :data:`TOP` a template.
        """
        check_is_fitted(self)
        return self.model_.codec.top_features(self.predictor_, n, group)

    def n_features(self) -> int:
        """Number of hashed features whose weight is not zero."""
        check_is_fitted(self)
        return self.model_.trainer.banks[0].n_features()

    def collision_rate(self) -> float:
        """Share of the features that must share a weight with another, from how full the tables are."""
        check_is_fitted(self)
        return self.model_.trainer.banks[0].collision_rate()
