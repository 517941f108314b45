"""Selection of groups by knockoffs or stability, and its result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from omkl._components import as_random_state, check_choice, check_number, warn_caller
from omkl.estimators.sources import TrainingBlock
from omkl.exceptions import DataWarning, InputError
from omkl.kernels.gram import GramMatrices
from omkl.linear.base import SparseLinear
from omkl.mkl.base import BatchMKL
from omkl.mkl.online import OnlineMKLClassifier, OnlineMKLRegressor
from omkl.parsing.parser import DependencyParser
from omkl.parsing.sentences import check_sentences
from omkl.selection.knockoffs import knockoff_threshold
from omkl.selection.result import GroupSelection, group_weights
from omkl.selection.trials import Trial, of_arcs, of_columns, of_tokens
from omkl.sequences.labeler import SequenceLabeler

#: Field of words that parsers keep in knockoffs by default.
FIELD = "upos"
#: Share of halves of the data on which a stable group is among the heaviest.
STABLE = 0.9


def select_groups(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    fdr: float | None = None,
    method: str = "knockoffs",
    context: str | Sequence[str] | None = None,
    max_false: float | None = None,
    n_pairs: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> GroupSelection:
    r"""Select groups with a bound on the useless ones among them.

    "knockoffs" trains the estimator once on all groups and their knockoffs, which relate to the other groups as the
    originals do, but not to the outputs. Groups are selected if they exceed their knockoffs by more than the threshold
    of the knockoff+ rule. "stability" trains on halves of the data, and selects the groups that are among the q
    heaviest on 90% of the halves, with the largest q that satisfies the bound ``max_false``. If the evidence is weak,
    neither selects a group.

    Parameters
    ----------
    estimator : estimator of omkl
        With groups that are learned: kernels on columns of tables (such as ``omkl.kernels.per_column("gaussian", X)``),
        groups of columns of :class:`~omkl.GroupLasso`, features of dicts or words, or templates of a parser. Kernels on
        the same columns are one group. For "stability" any estimator with weights of groups. It is not changed.
    X, y
        Training data, as for ``fit``.
    fdr : float in (0, 1), optional
        For "knockoffs", bound on the false discovery rate, by default 0.1. At least 1 / fdr groups can be selected, or
        none.
    method : {"knockoffs", "stability"}
    context : str or list of str, optional
        For "knockoffs" of tokens and words: keys of dicts, or fields of words, that knockoffs share with the original.
        They are not tested. By default none, and for parsers "upos".
    max_false : float > 0, optional
        For "stability", bound on the expected number of selected groups that are among the heaviest no more often than
        by chance; 1 by default.
    n_pairs : int, optional
        For "stability", number of pairs of disjoint halves; 50 by default.
    n_jobs : int, optional
        For "stability", number of trainings in parallel threads; -1 uses all processors.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    GroupSelection
        ``selected`` are the names of groups. :func:`omkl.reports.plot_selection` draws it.

    Raises
    ------
    omkl.exceptions.InputError
        If a parameter is invalid, or the estimator has no groups that can be selected.

    Notes
    -----
    For tables, a group is useless if the outputs do not depend on it given all other columns. Knockoffs take columns as
    jointly normal after a transformation of each. For features and templates, the values come from another token with
    the same context: a group is useless if it depends neither on the outputs nor on useful groups, given the context.

    References
    ----------
    Barber and Candes (2015), Controlling the false discovery rate via knockoffs. Candes, Fan, Janson and Lv (2018),
    Panning for gold: model-X knockoffs. Meinshausen and Buhlmann (2010), Stability selection. Shah and Samworth (2013),
    Variable selection with error control: another look at stability selection.

    Examples
    --------
    >>> import numpy as np
    >>> from omkl import GroupLassoCV, select_groups
    >>> X = np.random.default_rng(0).normal(size=(200, 40))
    >>> y = X[:, :12].sum(axis=1) + np.random.default_rng(1).normal(size=200)
    >>> select_groups(GroupLassoCV(), X, y, random_state=0).selected[:3]
    ['column 0', 'column 1', 'column 2']
    """
    check_choice("method", method, ("knockoffs", "stability"))
    of_knockoffs = {"fdr": fdr, "context": context}
    of_stability = {"max_false": max_false, "n_pairs": n_pairs, "n_jobs": n_jobs}
    others = of_stability if method == "knockoffs" else of_knockoffs
    if unfit := [name for name, value in others.items() if value is not None]:
        raise InputError(f'`{unfit[0]}` is not for method="{method}".')
    random = as_random_state(random_state)
    if isinstance(estimator, DependencyParser):
        X, y = estimator._read(TrainingBlock(check_sentences(X, y), None, None), whole=True).treebank, None
    if method == "stability":
        max_false, n_pairs = 1.0 if max_false is None else max_false, 50 if n_pairs is None else n_pairs
        check_number("max_false", max_false, above=0)
        check_number("n_pairs", n_pairs, above=0, integer=True)
        return _stable_groups(estimator, X, y, max_false, n_pairs, n_jobs, random)
    fdr = 0.1 if fdr is None else fdr
    check_number("fdr", fdr, above=0, below=1)
    tried = trial(estimator, X, y, context)
    if len(tried.members) < 1 / fdr:
        warn_caller(
            f"With fdr={fdr:g}, knockoffs select at least {np.ceil(1 / fdr):g} groups or none, and there are "
            f'{len(tried.members)}: raise fdr, or set method="stability".',
            DataWarning,
        )
    statistics = tried.statistics(np.random.default_rng(random.randint(2**31 - 1)))
    named = dict(zip(tried.members, statistics.tolist()))
    return GroupSelection(method, fdr, named, knockoff_threshold(statistics, fdr))


def trial(estimator: Any, X: Any, y: Any, context: str | Sequence[str] | None) -> Trial:
    """Prepare the groups of an estimator for training beside knockoffs."""
    if "weighting" in estimator.get_params(deep=False):
        # groups that are left out have the same weight as their knockoffs, so that little could be compared
        estimator = clone(estimator).set_params(weighting="norms")
    contexts = [] if context is None else [context] if isinstance(context, str) else list(context)
    if isinstance(estimator, DependencyParser):
        return of_arcs(estimator, X, contexts or [FIELD])
    is_online_mkl = isinstance(estimator, (OnlineMKLClassifier, OnlineMKLRegressor))
    if isinstance(estimator, SequenceLabeler) or (
        is_online_mkl and isinstance(X, list) and X and isinstance(X[0], Mapping)
    ):
        return of_tokens(estimator, X, y, contexts, is_online_mkl)
    if contexts:
        raise InputError("`context` is for tokens and arcs: columns of tables take all other columns into account.")
    if not is_online_mkl and not isinstance(estimator, (BatchMKL, SparseLinear)):
        raise InputError(f"Knockoffs are for kernels, columns and templates, not for {type(estimator).__name__}.")
    return of_columns(estimator, X, y)


def _stable_groups(
    estimator: Any, X: Any, y: Any, max_false: float, n_pairs: int, n_jobs: int | None, random: np.random.RandomState
) -> GroupSelection:
    r"""Select the groups that are among the q heaviest on most halves of the data.

    Of p groups, at most :math:`c\, q^2 / p` are expected to be selected that are among the heaviest with a probability
    below q / p, with :math:`c = 4 (1 - \tau + 1 / 2B) / (1 + 1 / B)` for B pairs and a share :math:`\tau > 3/4`, if the
    distribution of the share is unimodal and :math:`q / p \le 1 / \sqrt 3` (Shah and Samworth 2013).
    """
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit  # slow to import

    factor = 4.0 * (1.0 - STABLE + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)
    if isinstance(getattr(estimator, "kernels", None), str) and estimator.kernels == "precomputed":
        X = GramMatrices(X)

    def heaviest(half: np.ndarray) -> tuple[list[str], list[str]]:
        weights = group_weights(clone(estimator).fit(_only(X, half), *(() if y is None else [_only(y, half)])))
        p = len(weights)
        q = int(min(np.sqrt(max_false * p / factor), p / np.sqrt(3.0)))
        if q < 1:
            raise InputError(f"`max_false` must be at least {factor / p:.2g} for {p} groups, got {max_false:g}.")
        ranked = sorted(weights, key=lambda name: -weights[name])
        return list(weights), [name for name in ranked[:q] if weights[name] > 0.0]

    n = X.shape[0] if hasattr(X, "shape") else len(X)
    by_class = is_classifier(estimator) and np.ndim(y) == 1  # a half must not lack a class
    make = StratifiedShuffleSplit if by_class else ShuffleSplit
    splits = make(n_pairs, test_size=n // 2, train_size=n // 2, random_state=random).split(range(n), y)
    halves = [half for pair in splits for half in pair]
    found = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(heaviest)(np.sort(half)) for half in halves)
    counts = Counter(name for _, chosen in found for name in chosen)
    names = dict.fromkeys(name for known, _ in found for name in known)
    statistics = {name: counts[name] / len(halves) for name in names}
    threshold = STABLE if max(statistics.values()) >= STABLE else np.inf
    return GroupSelection("stability", max_false, statistics, threshold)


def _only(X: Any, chosen: np.ndarray) -> Any:
    """Return some of the examples."""
    if isinstance(X, GramMatrices):
        return X[np.ix_(chosen, chosen)]
    return _safe_indexing(X, chosen)
