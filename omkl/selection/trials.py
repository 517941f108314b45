"""Training of estimators on groups beside their knockoffs: columns of tables, templates of tokens and arcs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from omkl._messages import listed
from omkl.batch.group_lasso.blocks import column_labels
from omkl.data import Treebank
from omkl.data.treebank.strings import MISSING
from omkl.estimators.batch import read_groups
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.validation import checked_arrays, source_columns
from omkl.exceptions import InputError
from omkl.features.encoder import named_kernels
from omkl.features.fields import code_of, column_of, values_of
from omkl.features.words import token_features
from omkl.groups.templates.language import TemplateSet
from omkl.kernels.inputs import take_columns
from omkl.linear.base import SparseLinear
from omkl.parsing.codec import TreebankCodec
from omkl.selection.knockoffs import column_knockoffs, resampled
from omkl.selection.result import group_weights


class Trial(NamedTuple):
    """Groups to select, and training beside knockoffs.

    Attributes
    ----------
    members : dict of str to list of str
        For each group, the names of its kernels, columns or templates in the estimator.
    train : callable
        ``train(random)`` samples knockoffs, and returns an estimator trained on groups and knockoffs.
    """

    members: dict[str, list[str]]
    train: Callable[[np.random.Generator], Any]

    def statistics(self, random: np.random.Generator) -> np.ndarray:
        """Return the weight of each group minus that of its knockoff, (G,)."""
        weights = group_weights(self.train(random))
        return np.array(
            [
                sum(weights.get(name, 0.0) - weights.get(knockoff_of(name), 0.0) for name in names)
                for names in self.members.values()
            ]
        )


def knockoff_of(name: str) -> str:
    """Return the name of the knockoff of a group."""
    return f"{name} (knockoff)"


def _pairs(names: Sequence[str], random: np.random.Generator) -> Iterator[tuple[str, bool]]:
    """Yield names twice, with whether it is the knockoff, in random order: training may depend on the order."""
    for name, first in zip(names, random.random(len(names)) < 0.5):
        yield from ((name, first), (name, not first))


# ---- tables -----------------------------------------------------------------------------------------------------


def of_columns(estimator: Any, X: Any, y: Any) -> Trial:
    """Prepare kernels on columns of a table, or groups of columns."""
    own = clone(estimator)
    X = checked_arrays(own, X, dtype=np.float64)
    columns = (_columns_of_kernels if hasattr(own, "kernels") else _columns_of_groups)(own, X)
    members: dict[tuple[int, ...], list[str]] = {}
    for name, places in columns.items():
        members.setdefault(tuple(sorted(places)), []).append(name)
    used = list(chain.from_iterable(members))
    if len(set(used)) < len(used):
        raise InputError("Knockoffs need groups on the same columns or on disjoint ones; some share part of theirs.")
    labels = np.repeat(np.arange(len(members)), [len(places) for places in members])
    place = {column: X.shape[1] + i for i, column in enumerate(used)}

    kernels = dict(named_kernels(own.kernels)) if hasattr(own, "kernels") else None

    def train(random: np.random.Generator) -> Any:
        both, groups = np.hstack([X, column_knockoffs(X[:, used], labels, random)]), dict[str, Any]()
        for name, is_knockoff in _pairs(list(columns), random):
            on = [place[c] for c in columns[name]] if is_knockoff else columns[name]
            own_name = knockoff_of(name) if is_knockoff else name
            groups[own_name] = on if kernels is None else kernels[name].restricted(on)
        settings = {"groups" if kernels is None else "kernels": groups}
        return clone(own).set_params(**settings).fit(both, y)

    return Trial({" + ".join(names): names for names in members.values()}, train)


def _columns_of_kernels(own: Any, X: np.ndarray) -> dict[str, list[int]]:
    """Return the columns of each kernel."""
    if own.kernels is None or (isinstance(own.kernels, str) and own.kernels == "precomputed"):
        raise InputError(
            'Knockoffs are for kernels on columns: set kernels, for example to omkl.kernels.per_column("gaussian", X).'
        )
    place, names = np.arange(X.shape[1])[None], source_columns(own)
    return {
        name: take_columns(place, kernel.columns(X.shape[1], names))[0].tolist()
        for name, kernel in named_kernels(own.kernels)
    }


def _columns_of_groups(own: SparseLinear, X: np.ndarray) -> dict[str, list[int]]:
    """Return the columns of each group."""
    if own.group_weights is not None and not isinstance(own.group_weights, str):
        raise InputError('`group_weights` must be None or "sqrt-size" for knockoffs, which have the same weights.')
    named = read_groups(own.groups, source_columns(own))
    labels = column_labels(named.groups, X.shape[1])
    labels = np.arange(X.shape[1]) if labels is None else labels
    return {name: np.flatnonzero(labels == g).tolist() for g, name in enumerate(named.texts(labels.max() + 1))}


# ---- tokens -----------------------------------------------------------------------------------------------------


def of_tokens(estimator: Any, X: Any, y: Any, context: list[str], are_rows: bool) -> Trial:
    """Prepare the keys of dicts, or the templates of words; rows of a table are sequences of one dict."""
    sequences = [[row] for row in X] if are_rows else [list(sequence) for sequence in X]
    sequences = [token_features(s) if s and isinstance(s[0], str) else s for s in sequences]
    tokens = list(chain.from_iterable(sequences))
    if not all(isinstance(token, Mapping) for token in tokens):
        raise InputError("Knockoffs of templates need words or dicts of features as tokens.")
    keys = dict.fromkeys(chain.from_iterable(tokens))
    if unknown := [key for key in context if key not in keys]:
        raise InputError(f"`context` must be keys of tokens, such as {listed(keys, 3)}, got {unknown[0]!r}.")
    tested, known = [key for key in keys if key not in context], dict[tuple, int]()
    codes = np.array([known.setdefault(tuple(token.get(key) for key in context), len(known)) for token in tokens])

    def train(random: np.random.Generator) -> Any:
        pairs, donors = list(_pairs(tested, random)), (tokens[i] for i in resampled(codes, random).tolist())
        both = (
            {key: token[key] for key in context if key in token}
            | {
                knockoff_of(key) if is_knockoff else key: value
                for key, is_knockoff in pairs
                if (value := (donor if is_knockoff else token).get(key)) is not None
            }
            for token, donor in zip(tokens, donors)
        )
        new = [[next(both) for _ in sequence] for sequence in sequences]
        return clone(estimator).fit([row for [row] in new] if are_rows else new, y)

    return Trial({key: [key] for key in tested}, train)


# ---- arcs -------------------------------------------------------------------------------------------------------


def of_arcs(estimator: Any, treebank: Treebank, context: list[str]) -> Trial:
    """Prepare the templates of a parser. Knockoffs read fields of other words with the same fields ``context``."""
    templates = TreebankCodec(estimator).suited(estimator._read(TrainingBlock(treebank, None, None), whole=True))
    TemplateSet([f"h.{field}" for field in context], templates.lexicons)  # checks the fields
    if "misc" in templates.fields:
        raise InputError("Knockoffs are stored in MISC: select among templates without the field misc.")
    fields = [field for field in templates.fields if field not in context]
    tested = [template for template in templates if not template.fields.isdisjoint(fields)]
    new = {field: f"misc:Knockoff{i}" for i, field in enumerate(fields)}

    def column(field: str) -> np.ndarray:
        codes, strings = treebank.codes(column_of(field)), treebank.strings[column_of(field)].tolist()
        return np.array(values_of(field, strings, templates.lexicons), dtype=object)[codes]

    known = dict[tuple, int]()
    codes = np.array([known.setdefault(values, len(known)) for values in zip(*map(column, context))])

    def train(random: np.random.Generator) -> Any:
        donors = resampled(codes, random)
        misc = [[string] * (string != MISSING) for string in column("misc")]
        for field, name in new.items():
            for words, value in zip(misc, column(field)[donors]):
                if value != MISSING:
                    words.append(f"{name.removeprefix('misc:')}={code_of(value):x}")
        both = treebank.with_strings("misc", ["|".join(words) or MISSING for words in misc])
        pairs = {t.name: t for t in tested}
        chosen = [t for t in templates if t.name not in pairs] + [
            replace(pairs[name].replacing(new), label=knockoff_of(name)) if is_knockoff else pairs[name]
            for name, is_knockoff in _pairs(list(pairs), random)
        ]
        parser = clone(estimator).set_params(
            templates=TemplateSet(chosen, templates.lexicons), keep=None, labeled=False
        )
        return parser.fit(both)

    return Trial({template.name: [template.name] for template in tested}, train)
