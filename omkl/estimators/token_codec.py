"""TokenCodec, the codec of models on tokens: encodes inputs and outputs, and makes banks."""

from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from omkl._components import warn_caller
from omkl._messages import listed, shown
from omkl.estimators.options import Budget, OptionsOr
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import WeightedExamples
from omkl.estimators.targets import GROWING, Outputs, Targets
from omkl.estimators.validation import Constraint, Number
from omkl.exceptions import DataWarning, InputError
from omkl.features.encoder import Encoder
from omkl.features.lexicons import Lexicons, pack_lexicons
from omkl.features.scales import ColumnScales
from omkl.features.views import FlatTokens, TokenData
from omkl.features.vocabulary import Vocabulary
from omkl.groups.base import Bank
from omkl.groups.expansions.budget import BudgetedExpansion
from omkl.groups.expansions.cached import CachedKernelBank
from omkl.groups.expansions.kernel import KernelExpansion
from omkl.groups.feature_maps import FeatureMapBank
from omkl.groups.tables import ExplicitBank
from omkl.groups.tokens import Tokens
from omkl.kernels.specs import KernelSpecs
from omkl.online.averaging import Predictor
from omkl.online.model import Codec
from omkl.online.rounds import Example, Record, Sequences, State, Values
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Arrays, Packer, Unpacker

#: With ``dtype="auto"``, Gram matrices up to this number of bytes have double precision.
DOUBLE_UP_TO = 2**26
#: Maximum number of groups that always pass for kinds of features.
MANY = 100
#: Names of the arrays of the first bank of a model, which holds the explicit features.
TABLE_OF_FEATURES = "bank0/table"
GROUPS_OF_FEATURES = "bank0/groups"
#: Valid values of the parameters of estimators with kernels.
TOKEN_CONSTRAINTS: dict[str, Constraint] = {
    "budget": OptionsOr(Budget, Number(above=0, integer=True, also=(None,))),
}


# ---- parts of a codec ----------------------------------------------------------------------------


class Examples(WeightedExamples):
    """Sequences of encoded tokens with weights; see :class:`WeightedExamples`.

    ``gold`` has a code for every token. If ``single``, the output of a sequence is one code, else
    an array of codes.
    """

    are_sequences = True

    def __init__(
        self,
        tokens: Tokens,
        gold: np.ndarray,
        chosen: np.ndarray,
        weights: np.ndarray | None,
        single: bool,
    ) -> None:
        super().__init__(len(tokens), chosen, weights)
        self.tokens = tokens
        self.gold = gold
        self.single = single

    def __getitem__(self, i: int) -> Example:
        x = self.tokens.sequence(self.chosen.item(i))
        y = self.gold[x.low] if self.single else self.gold[x.low : x.high]
        return Example(x, y, self.weight(i))

    def sequences(self, order: np.ndarray) -> Sequences:
        """Return the arrays of some examples, for compiled calls."""
        return Sequences(self.tokens, self.gold, self.chosen[order], self.weights(order))

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "Examples":
        tokens = self.tokens.only(inputs)
        shifts = self.tokens.offsets[inputs] - tokens.offsets[:-1]
        shift_of_token = np.repeat(shifts, np.diff(tokens.offsets))
        gold = self.gold[shift_of_token + np.arange(tokens.n_tokens)]
        return Examples(tokens, gold, chosen, None, self.single)


class Survey(NamedTuple):
    """Contents of a part of the first data.

    Attributes
    ----------
    labels : list
        Distinct labels.
    vocabulary : Vocabulary or None
        Sparse features.
    longest : int
        Length of the longest sequence.
    scales : dict of str to ColumnScales
        Scales of columns.
    """

    labels: list
    vocabulary: Vocabulary | None
    longest: int
    scales: dict[str, ColumnScales]


@dataclass(frozen=True)
class EncodedGroups:
    """Groups of an encoder whose parameters are in the same banks; features keep their ids.

    Attributes
    ----------
    encoder : Encoder
    names : collection of str or None
        Names of the groups, as the encoder calls them; None for all groups.
    prefix : str
        Put before these names, to get the names of groups of the model.
    """

    encoder: Encoder
    names: Collection[str] | None = None
    prefix: str = ""

    def _only(self, names: list[str]) -> list[str]:
        """Return those of the names that belong to these groups."""
        if self.names is None:
            return names
        return [name for name in names if name in self.names]

    @property
    def explicit(self) -> list[str]:
        """Names of the groups of explicit features."""
        return self._only(self.encoder.explicit_names)

    @property
    def mapped(self) -> list[str]:
        """Names of the kernels with dense features."""
        return self._only(self.encoder.mapped)

    @property
    def dual(self) -> list[str]:
        """Names of the kernels with dual expansions."""
        return self._only(self.encoder.dual)

    def group_of_features(self, first: int = 0) -> np.ndarray:
        """Return the index in :attr:`explicit` of the group of each feature from id ``first`` on.

        It is 0 for features of other groups, which never occur.
        """
        groups = self.encoder.explicit_groups(first)
        if self.names is None:
            return groups
        indices = {name: k for k, name in enumerate(self.explicit)}
        if not indices:
            return np.zeros(0, np.int32)
        index_of_group = [indices.get(name, 0) for name in self.encoder.explicit_names]
        return np.array(index_of_group, np.int32)[groups]

    def tokens_of(self, tokens: Tokens) -> Tokens:
        """Copy encoded tokens with the explicit features of these groups only."""
        if tokens.features is None:
            return tokens
        names_here = set(self.explicit)
        is_here = np.array([name in names_here for name in self.encoder.explicit_names], bool)
        features = tokens.features.only(is_here[self.encoder.explicit_groups()])
        return Tokens(tokens.offsets, features, tokens.views)

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the names of these groups in the model."""
        return [self.prefix + name for name in names]

    def kernels(self, names: Sequence[str]) -> tuple[list[str], list[Any], list[str]]:
        """Return the names in the model, the kernels and the views of groups, for a bank."""
        kernels = [self.encoder.kernels[name] for name in names]
        views = [self.encoder.views[name].label for name in names]
        return self.named(names), kernels, views


def warn_of_many_groups(vocabulary: Vocabulary) -> None:
    """Warn if groups have so few features that they are hardly kinds of features."""
    n_groups = len(vocabulary.keys)
    n_features = len(vocabulary.groups)
    if n_groups > max(MANY, n_features / 100):
        warn_caller(
            f"There are {n_groups} groups of {n_features} features, such as "
            f"{vocabulary.keys[-1]!r:.40}: give features of a kind one key, as in 'word=main', "
            "{'word': 'main'}, or the columns ('main', 'NOUN').",
            DataWarning,
        )


def top_of_bank(
    bank: ExplicitBank,
    encoder: Encoder,
    columns: Sequence[Record],
    n: int,
    group: str | None,
) -> list[Record]:
    """List the features of a bank with the largest weights.

    ``columns`` describes its outputs: entries of the record of a feature.
    """
    table = bank.table[: bank.n_features]
    if group is not None:
        is_of_group = bank.groups == bank.names.index(group)
        table = np.where(is_of_group[:, None], table, 0.0)
    order = np.argsort(-np.abs(table), axis=None, kind="stable")[:n]
    rows, outputs = np.unravel_index(order, table.shape)
    names = encoder.names_of(rows.tolist())
    records = []
    for i, j in zip(rows.tolist(), outputs.tolist()):
        if table[i, j] != 0.0:
            feature = {"feature": names[i], "group": bank.names[bank.groups[i]]}
            records.append({**feature, **columns[j], "weight": float(table[i, j])})
    return records


# ---- the codec -----------------------------------------------------------------------------------


class TokenEstimator(Protocol):
    """An estimator with parameters for the kernels on tokens."""

    kernels: KernelSpecs | None
    budget: int | Budget | None
    n_jobs: int | None


class TokenCodec(Codec):
    """Encodes tokens and their outputs; see :class:`~omkl.online.model.Codec`.

    Parameters
    ----------
    outputs : Outputs
    estimator : TokenEstimator
        A labeler, classifier or regressor.
    lexicons : mapping, optional
        Lexicons of a labeler.
    missing : {"error", "indicator"}
        Treatment of missing numbers; see :class:`~omkl.features.encoder.Encoder`.

    Attributes
    ----------
    encoder : Encoder
    codes : Labels or Targets
        Codes of the outputs.
    structure : Structure
    longest : int
        Maximum length of the first sequences, for transitions that depend on the position.
    """

    def __init__(
        self,
        outputs: Outputs,
        estimator: TokenEstimator,
        lexicons: Lexicons = None,
        missing: str = "error",
    ) -> None:
        self._outputs = outputs
        self._budget = Budget.of("budget", estimator.budget)
        self._n_jobs = estimator.n_jobs
        self.encoder = Encoder(
            estimator.kernels, in_sequences=not outputs.single, lexicons=lexicons, missing=missing
        )

    # ---- encoding --------------------------------------------------------------------------------

    def start(self, data: TokenData) -> Examples:
        """Learn kernel widths, keys and outputs from the first data, and encode these data."""
        self.encoder.fit(data)
        # labels, keys and scales are learned from the data themselves
        survey = Survey(labels=[], vocabulary=None, longest=_longest(data), scales={})
        self.learn(data, [survey])
        examples = self.encode_part(data, grow=True, follow=not data.is_all_data)
        if self.encoder.vocabulary is not None and not self._outputs.single:
            warn_of_many_groups(self.encoder.vocabulary)
        return examples

    def survey(self, data: TokenData) -> Survey:
        """Return what a part of the first data adds to the model, after the kernels are fitted."""
        encoder = deepcopy(self.encoder)
        encoder.start_scales()
        if encoder.vocabulary is not None or encoder.scales:
            encoder.encode(data.inputs, data.offsets, grow=True, weights=data.token_weights)
        has_labels = self._outputs.codes is not Targets
        return Survey(
            labels=list(dict.fromkeys(data.labels)) if has_labels else [],
            vocabulary=encoder.vocabulary,
            longest=_longest(data),
            scales=encoder.scales,
        )

    def learn(self, sample: TokenData, surveys: Sequence[Survey]) -> None:
        """Learn keys, scales and outputs from surveys of all parts, in their order.

        The level of numbers is learned from a ``sample``. Of a stream, this is the first number, so
        that blocks do not matter.
        """
        if self._outputs.codes is Targets and not sample.is_all_data:
            sample = sample._replace(labels=sample.labels[:1], weights=None)
        labels = list(sample.labels)
        for survey in surveys:
            labels += survey.labels
        self.codes = self._outputs.learn(labels, sample.weights)
        for survey in surveys:
            if self.encoder.vocabulary is not None and survey.vocabulary is not None:
                self.encoder.vocabulary.merge(survey.vocabulary)
        if surveys[0].scales:
            self.encoder.start_scales()
        for survey in surveys:
            for key, scales in survey.scales.items():
                self.encoder.scales[key].merge(scales)
        self.structure = self._outputs.structure(self.codes)
        self.longest = max(survey.longest for survey in surveys)

    def encode_part(self, data: TokenData, grow: bool = False, follow: bool = False) -> Examples:
        """Encode a part of the first data, after :meth:`learn`; ``grow`` adds its features.

        If ``follow``, the scales of columns learn from each token before it is encoded.
        """
        examples = self.encode_for_evaluation(data, grow, follow)
        self._outputs.check(self.structure, self.codes, examples.gold, data.offsets)
        return examples

    def encode(self, data: TokenData, trainer: OnlineTrainer) -> Examples:
        """Encode later data, and add new labels, features and keys to the trainer."""
        trainer.check_new_groups(self.encoder.new_keys(data.inputs))
        if self.codes.grows and self.codes.add(data.labels):
            self.structure = self._outputs.structure(self.codes)
            trainer.grow_outputs(self.structure, len(self.codes))
        gold = self.codes.encode(data.labels)
        self._outputs.check(self.structure, self.codes, gold, data.offsets)
        try:
            tokens = self.encoder.encode(
                data.inputs, data.offsets, grow=True, weights=data.token_weights
            )
        finally:
            # also after an error, as every known feature must have parameters
            self._grow_bank(trainer, trainer.banks[0], EncodedGroups(self.encoder))
        return self._examples(tokens, gold, data)

    def encode_for_evaluation(
        self, data: TokenData, grow: bool = False, follow: bool = False
    ) -> Examples:
        """Encode data for evaluation, without unknown features.

        See :meth:`encode_part` for ``grow`` and ``follow``.
        """
        gold = self.codes.encode(data.labels)
        weights = data.token_weights if follow else None
        tokens = self.encoder.encode(data.inputs, data.offsets, grow, weights)
        return self._examples(tokens, gold, data)

    def _examples(self, tokens: Tokens, gold: np.ndarray, data: TokenData) -> Examples:
        everything = np.arange(len(tokens))
        return Examples(tokens, gold, everything, data.weights, self._outputs.single)

    def before_block(self) -> Arrays:
        """Return the arrays that encoding the last data has changed, as they were before."""
        return self.encoder.arrays(before=True)

    def check_declared(self, classes: Sequence | str) -> None:
        """Raise InputError if declared labels differ from those of the model, which has started."""
        grows = self.codes.grows
        if isinstance(classes, str):
            agrees = classes == GROWING and grows
        else:
            agrees = set(classes) == set(self.codes.labels)
        if not agrees:
            growing = " that may grow" if grows else ""
            raise InputError(
                f"classes must be those of the first call, {len(self.codes)} labels{growing}, "
                f"got {shown(classes)}."
            )

    def _grow_bank(self, trainer: OnlineTrainer, bank: Bank, groups: EncodedGroups) -> None:
        """Add new groups and features of an encoder to their bank."""
        vocabulary = groups.encoder.vocabulary
        if vocabulary is None or not isinstance(bank, ExplicitBank):
            return
        new_names = groups.explicit[len(bank.names) :]
        if new_names:
            bank.add_groups(groups.named(new_names))
            trainer.regroup([*trainer.order, *self.order])
        if bank.n_features < vocabulary.first_id + len(vocabulary.groups):
            bank.grow(groups.group_of_features(bank.n_features))

    def facts(self, examples: Examples) -> Values:
        """Return facts about the data for a resumed run to compare."""
        tokens = examples.tokens
        learned = np.frombuffer(repr(self.codes.learned()).encode(), np.uint8)
        arrays: list[Any] = [tokens.offsets]
        if tokens.features is not None:
            arrays += tokens.features
        arrays += tokens.views.values()
        arrays += [examples.gold, examples.input_weights]
        arrays += pack_lexicons(self.encoder.lexicons).values()
        arrays.append(learned)
        return {
            "number of examples": len(tokens),
            "number of tokens": tokens.n_tokens,
            "content of the data": fingerprint(arrays),
        }

    # ---- banks -----------------------------------------------------------------------------------

    @property
    def order(self) -> list[str]:
        """Names of the groups: kernels in the user's order, then keys in order of appearance."""
        vocabulary = self.encoder.vocabulary
        keys = [] if vocabulary is None else vocabulary.keys
        return [*self.encoder.kernels, *keys]

    def banks(
        self, averaging: bool, training: Examples | None = None, in_shards: bool = False
    ) -> tuple[list, list]:
        """Make untrained banks: a list of regularized and one of unregularized banks.

        Kernels are cached over the ``training`` examples, unless shards exchange support vectors
        (``in_shards``).
        """
        tokens = None
        if training is not None and self._caches_kernels(in_shards):
            tokens = training.tokens
        n_outputs = self.structure.zeros(1).unary.shape[1]
        banks = self._banks_of(EncodedGroups(self.encoder), tokens, n_outputs, averaging)
        regularized, free = self._outputs.banks(n_outputs, self.longest, averaging)
        return banks + regularized, free

    def _caches_kernels(self, in_shards: bool) -> bool:
        """Return whether values of kernels on training examples in memory are cached."""
        return not in_shards and self._budget.cache_size > 0

    def _banks_of(
        self, groups: EncodedGroups, tokens: Tokens | None, n_outputs: int, averaging: bool
    ) -> list[Any]:
        """Make untrained banks of some groups; kernels are cached over ``tokens``, if not None."""
        memory = 0
        if tokens is not None:
            memory = int(min(self._budget.cache_size * 1e6, 2.0**62))
        banks: list[Any] = []
        names = groups.explicit
        if names or groups.encoder.vocabulary is not None:
            group_of_features = groups.group_of_features()
            banks.append(ExplicitBank(groups.named(names), group_of_features, n_outputs, averaging))
        mapped = groups.mapped
        if mapped:
            sizes: list[Any] = [groups.encoder.feature_count(name) for name in mapped]
            kernels = groups.kernels(mapped)
            banks.append(FeatureMapBank(*kernels, sizes, n_outputs, averaging, memory))
        dual = groups.dual
        if dual:
            kernels = groups.kernels(dual)
            banks.append(self._dual_bank(kernels, tokens, n_outputs, averaging, memory))
        return banks

    def _dual_bank(
        self,
        kernels: tuple[list[str], list[Any], list[str]],
        tokens: Tokens | None,
        n_outputs: int,
        averaging: bool,
        memory: int,
    ) -> Any:
        """Make the bank of kernels with dual expansions; see :meth:`EncodedGroups.kernels`.

        ``memory`` is the number of bytes for cached values over ``tokens``.
        """
        precision: Any = self._budget.dtype
        is_automatic = precision == "auto"
        if is_automatic:
            precision = np.float64
        if self._budget.support_vectors is not None:
            budget = int(self._budget.support_vectors)
            return BudgetedExpansion(*kernels, n_outputs, budget, averaging, precision)
        if tokens is None:
            return KernelExpansion(*kernels, n_outputs, averaging, precision)
        if is_automatic:
            n_kernels = len(kernels[0])
            is_small = n_kernels * tokens.n_tokens**2 * 8 <= DOUBLE_UP_TO
            precision = np.float64 if is_small else np.float32
        return CachedKernelBank(
            *kernels, tokens, n_outputs, averaging, precision, memory, self._n_jobs
        )

    def warn_of_absent_keys(self, tokens: FlatTokens, predictor: Callable[[], Predictor]) -> bool:
        """Warn if tokens lack keys whose features have weights in the averaged model.

        Returns whether they do.
        """
        absent = self.encoder.absent_keys(tokens)
        if absent:
            bank = predictor().banks[0]
            has_weight = bank.table[: bank.n_features].any(axis=1)
            used_groups = np.unique(bank.groups[has_weight])
            used_names = {bank.names[group] for group in used_groups.tolist()}
            absent = [key for key in absent if key in used_names]
        if absent:
            keys = listed(absent, 5)
            warn_caller(f"The input has no {keys}, from which the model has learned.", DataWarning)
        return bool(absent)

    # ---- features and model files ----------------------------------------------------------------

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[Record]:
        """List the explicit features with the largest weights.

        See :meth:`omkl.SequenceLabeler.top_features`.
        """
        bank = predictor.banks[0]
        if not isinstance(bank, ExplicitBank):
            return []
        if group is not None and group not in bank.names:
            raise InputError(
                f"No group of features is called {group!r}; there are {', '.join(bank.names)}."
            )
        return top_of_bank(bank, self.encoder, self.codes.columns(bank.n_outputs), n, group)

    def learned(self) -> Values:
        """Learned attributes of the estimator, by name."""
        return {"structure_": self.structure, **self.codes.learned()}

    def pack(self, packer: Packer, condensed: Arrays | None = None) -> State:
        """Return ``(JSON values, arrays)`` for a model file.

        See :class:`~omkl.online.model.Codec`.
        """
        vocabulary = self.encoder.vocabulary
        arrays: Arrays = {}
        stored_features = None
        if vocabulary is not None and condensed is not None and TABLE_OF_FEATURES in condensed:
            is_used: Any = condensed[TABLE_OF_FEATURES].any(axis=1)
            is_used[: vocabulary.first_id] = True  # keep all features of kernels
            for name in (TABLE_OF_FEATURES, GROUPS_OF_FEATURES):
                arrays[name] = condensed[name][is_used]
            stored_features = is_used[vocabulary.first_id :]
        values = {
            **self.codes.pack(packer),
            "encoder": self.encoder.pack(packer, stored_features),
            "positions": self.longest,
        }
        return values, arrays

    def unpack(self, values: Values, arrays: Arrays, unpacker: Unpacker) -> None:
        """The inverse of :meth:`pack`."""
        self.codes = self._outputs.codes.unpack(values, unpacker)
        self.encoder = Encoder.unpack(
            values["encoder"], unpacker, in_sequences=not self._outputs.single
        )
        self.structure = self._outputs.structure(self.codes)
        self.longest = values["positions"]


def _longest(data: TokenData) -> int:
    """Return the length of the longest sequence."""
    return int(np.diff(data.offsets).max())
