"""Selection of groups by knockoffs or stability, and its result."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from omkl._components import RandomState, as_random_state, check_choice, check_number, warn_caller
from omkl._messages import listed
from omkl.batch.group_lasso.blocks import column_labels
from omkl.data import Treebank
from omkl.data.treebank.strings import MISSING
from omkl.estimators.batch import read_groups
from omkl.estimators.sources import ExamplesLike, TrainingBlock
from omkl.estimators.validation import checked_arrays, source_columns
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import code_of, column_of, values_of
from omkl.features.words import token_features
from omkl.groups.templates.language import TemplateSet
from omkl.kernels.base import Kernel
from omkl.kernels.gram import GramMatrices
from omkl.kernels.specs import named_kernels
from omkl.linear.base import SparseLinear
from omkl.mkl.base import BatchMKL
from omkl.mkl.kernel_sources import is_precomputed
from omkl.mkl.online import OnlineMKLClassifier, OnlineMKLRegressor
from omkl.parsing.codec import TreebankCodec
from omkl.parsing.parser import DependencyParser
from omkl.parsing.sentences import check_sentences
from omkl.selection.knockoffs import column_knockoffs, knockoff_threshold, resampled
from omkl.selection.result import GroupSelection, group_weights
from omkl.sequences.labeler import SequenceLabeler


class Trial(NamedTuple):
    """Groups to select, and training beside knockoffs.

    Attributes
    ----------
    members : dict of str to list of str
        For each group, the names of its kernels, columns or templates in the estimator.
    train : callable
        ``train(random)`` samples knockoffs, and returns an estimator trained on groups and
        knockoffs.
    """

    members: dict[str, list[str]]
    train: Callable[[np.random.Generator], Any]

    def statistics(self, random: np.random.Generator) -> np.ndarray:
        """Return the weight of each group minus that of its knockoff, (G,)."""
        weights = group_weights(self.train(random))
        statistics = []
        for names in self.members.values():
            leads = [weights.get(name, 0.0) - weights.get(knockoff_of(name), 0.0) for name in names]
            statistics.append(sum(leads))
        return np.array(statistics)


def knockoff_of(name: str) -> str:
    """Return the name of the knockoff of a group."""
    return f"{name} (knockoff)"


def _groups_and_knockoffs(
    names: Sequence[str], random: np.random.Generator
) -> Iterator[tuple[str, bool]]:
    """Yield each group twice, with False for itself and True for its knockoff, in random order.

    The order is random since training may depend on it.
    """
    for name, knockoff_first in zip(names, random.random(len(names)) < 0.5):
        yield name, knockoff_first
        yield name, not knockoff_first


def _codes_of(contexts: Iterable[tuple]) -> np.ndarray:
    """Return an integer for each context, (n,); equal contexts have equal integers."""
    codes: dict[tuple, int] = {}
    return np.array([codes.setdefault(context, len(codes)) for context in contexts])


# ---- tables --------------------------------------------------------------------------------------


def trial_of_columns(estimator: BaseEstimator, X: ExamplesLike, y: ArrayLike | None) -> Trial:
    """Return a trial of kernels on columns of a table, or of groups of columns."""
    estimator = clone(estimator)
    X = checked_arrays(estimator, X, dtype=np.float64)
    parameter = "groups"
    kernels: dict[str, Kernel] = {}
    if isinstance(estimator, SparseLinear):
        columns = _columns_of_groups(estimator, X.shape[1])
    else:
        parameter = "kernels"
        kernels = _kernels_of(estimator)
        names = source_columns(estimator)
        columns = {name: kernel.places(X.shape[1], names) for name, kernel in kernels.items()}
    # groups on the same columns are one
    names_on_columns: dict[tuple[int, ...], list[str]] = {}
    for name, indices in columns.items():
        names_on_columns.setdefault(tuple(sorted(indices)), []).append(name)
    tested_columns = list(chain.from_iterable(names_on_columns))
    if len(set(tested_columns)) < len(tested_columns):
        raise InputError(
            "Knockoffs need groups on the same columns or on disjoint ones; "
            "some share part of theirs."
        )
    sizes = [len(indices) for indices in names_on_columns]
    group_of_column = np.repeat(np.arange(len(sizes)), sizes)
    knockoff_columns = dict(zip(tested_columns, count(X.shape[1])))

    def train(random: np.random.Generator) -> Any:
        table = np.hstack([X, column_knockoffs(X[:, tested_columns], group_of_column, random)])
        groups: dict[str, Any] = {}
        for name, is_knockoff in _groups_and_knockoffs(list(columns), random):
            group = name
            indices = columns[name]
            if is_knockoff:
                group = knockoff_of(name)
                indices = [knockoff_columns[j] for j in indices]
            groups[group] = kernels[name].restricted(indices) if kernels else indices
        return clone(estimator).set_params(**{parameter: groups}).fit(table, y)

    members = {" + ".join(names): names for names in names_on_columns.values()}
    return Trial(members, train)


def _columns_of_groups(estimator: SparseLinear, n_columns: int) -> dict[str, list[int]]:
    """Return the indices of the columns of each group of a linear model."""
    if estimator.group_weights is not None and not isinstance(estimator.group_weights, str):
        raise InputError(
            '`group_weights` must be None or "sqrt-size" for knockoffs, '
            "which have the same weights."
        )
    groups = read_groups(estimator.groups, source_columns(estimator))
    labels = column_labels(groups.groups, n_columns)
    names = groups.texts(labels.max() + 1)
    return {name: np.flatnonzero(labels == g).tolist() for g, name in enumerate(names)}


def _kernels_of(estimator: BaseEstimator) -> dict[str, Kernel]:
    """Return the kernels on columns of an estimator, by name."""
    specs = estimator.kernels
    if specs is None or is_precomputed(specs):
        raise InputError(
            "Knockoffs are for kernels on columns: set kernels, "
            'for example to omkl.kernels.per_column("gaussian", X).'
        )
    return dict(named_kernels(specs))


# ---- tokens --------------------------------------------------------------------------------------


def trial_of_tokens(
    estimator: BaseEstimator, X: Sequence, y: ArrayLike | None, context: list[str], are_rows: bool
) -> Trial:
    """Return a trial of the keys of dicts, or of the templates of words.

    If ``are_rows``, X is a list of dicts instead of sequences.
    """
    sequences = list(zip(X)) if are_rows else list(map(_dicts_of, X))
    tokens = list(chain.from_iterable(sequences))
    if not all(isinstance(token, Mapping) for token in tokens):
        raise InputError("Knockoffs of templates need words or dicts of features as tokens.")
    keys = dict.fromkeys(chain.from_iterable(tokens))
    for key in context:
        if key not in keys:
            raise InputError(
                f"`context` must be keys of tokens, such as {listed(keys, 3)}, got {key!r}."
            )
    tested = [key for key in keys if key not in context]
    codes = _codes_of(tuple(map(token.get, context)) for token in tokens)

    def train(random: np.random.Generator) -> Any:
        pairs = list(_groups_and_knockoffs(tested, random))
        donors = resampled(codes, random).tolist()
        new_tokens = []
        for token, donor in zip(tokens, donors):
            new_tokens.append(_with_knockoffs(token, tokens[donor], context, pairs))
        examples: list = new_tokens
        if not are_rows:
            remaining = iter(new_tokens)
            examples = [list(islice(remaining, len(sequence))) for sequence in sequences]
        return clone(estimator).fit(examples, y)

    return Trial({key: [key] for key in tested}, train)


def _dicts_of(sequence: Sequence) -> list:
    """Return the tokens of a sequence, dicts of features instead of words."""
    tokens = list(sequence)
    if tokens and isinstance(tokens[0], str):
        return token_features(tokens)
    return tokens


def _with_knockoffs(
    token: Mapping, donor: Mapping, context: Sequence[str], pairs: Iterable[tuple[str, bool]]
) -> dict[str, Any]:
    """Return the context of a token, and its values beside those of the donor as knockoffs."""
    values = {key: token[key] for key in context if key in token}
    for key, is_knockoff in pairs:
        name = knockoff_of(key) if is_knockoff else key
        source = donor if is_knockoff else token
        if source.get(key) is not None:
            values[name] = source[key]
    return values


# ---- arcs ----------------------------------------------------------------------------------------


def trial_of_arcs(estimator: BaseEstimator, treebank: Treebank, context: list[str]) -> Trial:
    """Return a trial of the templates of a parser.

    Knockoffs read other words of the same ``context``.
    """
    templates = TreebankCodec(estimator).suitable_templates(
        estimator._read(TrainingBlock(treebank), is_all_data=True)
    )
    TemplateSet([f"h.{field}" for field in context], templates.lexicons)  # checks the fields
    if "misc" in templates.fields:
        raise InputError(
            "Knockoffs are stored in MISC: select among templates without the field misc."
        )
    fields = [field for field in templates.fields if field not in context]
    tested = {
        template.name: template for template in templates if not template.fields.isdisjoint(fields)
    }
    knockoff_fields = {field: f"misc:Knockoff{i}" for i, field in enumerate(fields)}

    def values_of_words(field: str) -> np.ndarray:
        """Return the value of a field at each word, (n_words,)."""
        column = column_of(field)
        values = values_of(field, treebank.strings[column].tolist(), templates.lexicons)
        return np.array(values, dtype=object)[treebank.codes(column)]

    codes = _codes_of(zip(*map(values_of_words, context)))

    def train(random: np.random.Generator) -> Any:
        donors = resampled(codes, random)
        notes = {}
        for field, name in knockoff_fields.items():
            notes[name.removeprefix("misc:")] = values_of_words(field)[donors]
        chosen = [template for template in templates if template.name not in tested]
        for name, is_knockoff in _groups_and_knockoffs(list(tested), random):
            template = tested[name]
            if is_knockoff:
                template = replace(template.replacing(knockoff_fields), label=knockoff_of(name))
            chosen.append(template)
        parser = clone(estimator).set_params(
            templates=TemplateSet(chosen, templates.lexicons), keep=None, trees__labeled=False
        )
        return parser.fit(_with_notes(treebank, values_of_words("misc"), notes))

    return Trial({name: [name] for name in tested}, train)


def _with_notes(
    treebank: Treebank, misc: Iterable[str], notes: Mapping[str, np.ndarray]
) -> Treebank:
    """Return a treebank with values of words by name in MISC, beside those that it has there."""
    notes_of_words = [[] if string == MISSING else [string] for string in misc]
    for name, values in notes.items():
        for notes_of_word, value in zip(notes_of_words, values):
            if value != MISSING:
                notes_of_word.append(f"{name}={code_of(value):x}")
    return treebank.with_strings(
        "misc", ["|".join(strings) or MISSING for strings in notes_of_words]
    )


#: Field of words that parsers keep in knockoffs by default.
FIELD = "upos"
#: Share of halves of the data on which a stable group is among the heaviest.
STABLE = 0.9


def select_groups(
    estimator: BaseEstimator,
    X: Any,
    y: ArrayLike | None = None,
    *,
    fdr: float | None = None,
    method: str = "knockoffs",
    context: str | Sequence[str] | None = None,
    max_false: float | None = None,
    n_pairs: int | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> GroupSelection:
    r"""Select groups with a bound on the useless ones among them.

    "knockoffs" trains the estimator once on all groups and their knockoffs, which relate to the
    other groups as the originals do, but not to the outputs. Groups are selected if they exceed
    their knockoffs by more than the threshold of the knockoff+ rule. "stability" trains on halves
    of the data, and selects the groups that are among the q heaviest on 90% of the halves, with the
    largest q that satisfies the bound ``max_false``. If the evidence is weak, neither selects a
    group.

    Parameters
    ----------
    estimator : estimator of omkl
        With groups that are learned: kernels on columns of tables (such as
        ``omkl.kernels.per_column("gaussian", X)``), groups of columns of :class:`~omkl.GroupLasso`,
        features of dicts or words, or templates of a parser. Kernels on the same columns are one
        group. For "stability" any estimator with weights of groups. It is not changed.
    X, y
        Training data, as for ``fit``.
    fdr : float in (0, 1), optional
        For "knockoffs", bound on the false discovery rate, by default 0.1. At least 1 / fdr groups
        can be selected, or none.
    method : {"knockoffs", "stability"}
    context : str or list of str, optional
        For "knockoffs" of tokens and words: keys of dicts, or fields of words, that knockoffs share
        with the original. They are not tested. By default none, and for parsers "upos".
    max_false : float > 0, optional
        For "stability", bound on the expected number of selected groups that are among the heaviest
        no more often than by chance; 1 by default.
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
    For tables, a group is useless if the outputs do not depend on it given all other columns.
    Knockoffs take columns as jointly normal after a transformation of each. For features and
    templates, the values come from another token with the same context: a group is useless if it
    depends neither on the outputs nor on useful groups, given the context.

    References
    ----------
    Barber and Candes (2015), Controlling the false discovery rate via knockoffs. Candes, Fan,
    Janson and Lv (2018), Panning for gold: model-X knockoffs. Meinshausen and Buhlmann (2010),
    Stability selection. Shah and Samworth (2013), Variable selection with error control: another
    look at stability selection.

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
    if method == "knockoffs":
        _refuse(method, max_false=max_false, n_pairs=n_pairs, n_jobs=n_jobs)
    else:
        _refuse(method, fdr=fdr, context=context)
    random = as_random_state(random_state)
    if isinstance(estimator, DependencyParser):
        X = estimator._read(TrainingBlock(check_sentences(X, y)), is_all_data=True).treebank
        y = None
    if method == "stability":
        if max_false is None:
            max_false = 1.0
        if n_pairs is None:
            n_pairs = 50
        check_number("max_false", max_false, above=0)
        check_number("n_pairs", n_pairs, above=0, integer=True)
        return _stable_groups(estimator, X, y, max_false, n_pairs, n_jobs, random)
    if fdr is None:
        fdr = 0.1
    check_number("fdr", fdr, above=0, below=1)
    trial_of_groups = trial(estimator, X, y, context)
    n_groups = len(trial_of_groups.members)
    if n_groups < 1 / fdr:
        rule = f"With fdr={fdr:g}, knockoffs select at least {np.ceil(1 / fdr):g} groups or none"
        advice = 'raise fdr, or set method="stability"'
        warn_caller(f"{rule}, and there are {n_groups}: {advice}.", DataWarning)
    statistics = trial_of_groups.statistics(np.random.default_rng(random.randint(2**31 - 1)))
    by_group = dict(zip(trial_of_groups.members, statistics.tolist()))
    return GroupSelection(method, fdr, by_group, knockoff_threshold(statistics, fdr))


def _refuse(method: str, **parameters: float | str | Sequence[str] | None) -> None:
    """Raise an InputError if a parameter is not None: it is for another method."""
    for name, value in parameters.items():
        if value is not None:
            raise InputError(f'`{name}` is not for method="{method}".')


def trial(
    estimator: BaseEstimator, X: Any, y: ArrayLike | None, context: str | Sequence[str] | None
) -> Trial:
    """Prepare the groups of an estimator for training beside knockoffs."""
    if "weighting" in estimator.get_params(deep=False):
        # groups that are left out have the same weight as their knockoffs, so that little could be
        # compared
        estimator = clone(estimator).set_params(weighting="norms")
    contexts = [context] if isinstance(context, str) else list(context or ())
    if isinstance(estimator, DependencyParser):
        return trial_of_arcs(estimator, X, contexts or [FIELD])
    is_online_mkl = isinstance(estimator, (OnlineMKLClassifier, OnlineMKLRegressor))
    are_dicts = isinstance(X, list) and X and isinstance(X[0], Mapping)
    if isinstance(estimator, SequenceLabeler) or (is_online_mkl and are_dicts):
        return trial_of_tokens(estimator, X, y, contexts, is_online_mkl)
    if contexts:
        raise InputError(
            "`context` is for tokens and arcs: "
            "columns of tables take all other columns into account."
        )
    if not is_online_mkl and not isinstance(estimator, (BatchMKL, SparseLinear)):
        raise InputError(
            f"Knockoffs are for kernels, columns and templates, not for {type(estimator).__name__}."
        )
    return trial_of_columns(estimator, X, y)


def _stable_groups(
    estimator: BaseEstimator,
    X: ExamplesLike | GramMatrices,
    y: ArrayLike | None,
    max_false: float,
    n_pairs: int,
    n_jobs: int | None,
    random: RandomState,
) -> GroupSelection:
    r"""Select the groups that are among the q heaviest on most halves of the data.

    Of p groups, at most :math:`c\, q^2 / p` are expected to be selected that are among the heaviest
    with a probability below q / p, with :math:`c = 4 (1 - \tau + 1 / 2B) / (1 + 1 / B)` for B pairs
    and a share :math:`\tau > 3/4`, if the distribution of the share is unimodal and :math:`q / p
    \le 1 / \sqrt 3` (Shah and Samworth 2013).
    """
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit  # slow to import

    factor = 4.0 * (1.0 - STABLE + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)
    if is_precomputed(getattr(estimator, "kernels", None)):
        X = GramMatrices(X)

    def heaviest(half: np.ndarray) -> dict[str, int]:
        trained = clone(estimator).fit(_only(X, half), _only(y, half))
        return _heaviest(group_weights(trained), max_false, factor)

    n = _num_samples(X)
    splitter_class = ShuffleSplit
    if y is not None and is_classifier(estimator) and np.ndim(y) == 1:
        splitter_class = StratifiedShuffleSplit  # a half must not lack a class
    splitter = splitter_class(n_pairs, test_size=n // 2, train_size=n // 2, random_state=random)
    halves = list(chain.from_iterable(splitter.split(range(n), y)))
    counts: Counter[str] = Counter()
    for is_heavy in Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(heaviest)(np.sort(half)) for half in halves
    ):
        counts.update(is_heavy)
    statistics = {name: times / len(halves) for name, times in counts.items()}
    threshold = STABLE if max(statistics.values()) >= STABLE else np.inf
    return GroupSelection("stability", max_false, statistics, threshold)


def _heaviest(weights: Mapping[str, float], max_false: float, factor: float) -> dict[str, int]:
    """Return 1 for the q heaviest groups, 0 for others, with the largest q in ``max_false``."""
    p = len(weights)
    q = int(min(np.sqrt(max_false * p / factor), p / np.sqrt(3.0)))
    if q < 1:
        raise InputError(
            f"`max_false` must be at least {factor / p:.2g} for {p} groups, got {max_false:g}."
        )
    heaviest = set(sorted(weights, key=lambda name: -weights[name])[:q])
    return {name: int(weight > 0.0 and name in heaviest) for name, weight in weights.items()}


def _only(X: ExamplesLike | GramMatrices | None, chosen: np.ndarray) -> Any:
    """Return some of the examples or outputs."""
    if isinstance(X, GramMatrices):
        return X[np.ix_(chosen, chosen)]
    return X if X is None else _safe_indexing(X, chosen)
