"""TokenCodec, the codec of models on tokens: encodes inputs and outputs, and makes banks."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from omkl._components import warn_caller
from omkl._messages import listed, shown
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import WeightedExamples
from omkl.estimators.targets import GROWING, Outputs, Targets
from omkl.estimators.validation import Constraint, Number, OneOf
from omkl.exceptions import DataWarning, InputError
from omkl.features.encoder import Encoder
from omkl.features.lexicons import Lexicons, pack_lexicons
from omkl.features.scales import ColumnScales
from omkl.features.views import FlatTokens, TokenData
from omkl.features.vocabulary import Vocabulary
from omkl.groups.expansions.budget import BudgetedExpansion
from omkl.groups.expansions.cached import CachedKernelBank
from omkl.groups.expansions.kernel import KernelExpansion
from omkl.groups.feature_maps import FeatureMapBank
from omkl.groups.tables import ExplicitBank
from omkl.groups.tokens import Tokens
from omkl.online.averaging import Predictor
from omkl.online.model import Codec
from omkl.online.rounds import Example, Sequences
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Arrays, Manifest, Packer, Unpacker

#: With ``dtype="auto"``, Gram matrices up to this number of bytes have double precision.
DOUBLE_UP_TO = 2**26
#: Maximum number of groups that always pass for kinds of features.
MANY = 100
#: Valid values of the parameters of estimators with kernels.
TOKEN_CONSTRAINTS: dict[str, Constraint] = {
    "cache_size": Number(above=-1),
    "budget": Number(above=0, integer=True, also=(None,)),
    "dtype": OneOf(("auto", "float32", "float64", np.float32, np.float64)),
}


class Examples(WeightedExamples):
    """Sequences of encoded tokens with weights; see :class:`WeightedExamples`.

    ``gold`` has a code for every token. If ``single``, the output of a sequence is one code, else
    an array of codes.
    """

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
        return Example(x, y, 1.0 if self._weights is None else self._weights[i])

    def sequences(self) -> Sequences:
        """Return the arrays of all examples."""
        return Sequences(self.tokens, self.gold, self.chosen, self._weights)

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "Examples":
        tokens = self.tokens.only(inputs)
        shifts = np.repeat(
            self.tokens.offsets[inputs] - tokens.offsets[:-1], np.diff(tokens.offsets)
        )
        return Examples(
            tokens, self.gold[shifts + np.arange(tokens.n_tokens)], chosen, None, self.single
        )


class Survey(NamedTuple):
    """Distinct labels, features, length of the sequences, and scales of columns in a part of the
    first data.
    """

    labels: list
    vocabulary: Vocabulary | None
    longest: int
    scales: dict[str, ColumnScales]


def warn_of_many_groups(vocabulary: Vocabulary) -> None:
    """Warn if groups have so few features that they are hardly kinds of features."""
    n_groups, n_features = len(vocabulary.keys), len(vocabulary.groups)
    if n_groups > max(MANY, n_features / 100):
        warn_caller(
            f"There are {n_groups} groups of {n_features} features, such as {vocabulary.keys[-1]!r:.40}: give features "
            "of a kind one key, as in 'word=main', {'word': 'main'}, or the columns ('main', 'NOUN').",
            DataWarning,
        )


def top_of_bank(
    bank: ExplicitBank,
    encoder: Encoder,
    columns_of: Sequence[dict[str, Any]],
    n: int,
    group: str | None,
) -> list[dict[str, Any]]:
    """List the features of a bank with the largest weights; ``columns_of`` describes its outputs."""
    table = bank.table[: bank.n_features]
    if group is not None:
        table = np.where((bank.groups == bank.names.index(group))[:, None], table, 0.0)
    order = np.argsort(-np.abs(table), axis=None, kind="stable")[:n]
    rows, columns = np.unravel_index(order, table.shape)
    names = encoder.names_of(rows.tolist())
    return [
        {
            "feature": names[i],
            "group": bank.names[bank.groups[i]],
            **columns_of[j],
            "weight": float(table[i, j]),
        }
        for i, j in zip(rows.tolist(), columns.tolist())
        if table[i, j] != 0.0
    ]


class TokenCodec(Codec):
    """Encodes tokens and their outputs; see :class:`~omkl.online.model.Codec`.

    Parameters
    ----------
    outputs : Outputs
    estimator : estimator with kernels
        A labeler, classifier or regressor that has the parameters.
    lexicons : mapping, optional
        Lexicons of a labeler.
    missing : {"error", "indicator"}
        Treatment of missing numbers; see :class:`~omkl.features.encoder.Encoder`.

    Attributes
    ----------
    encoder : Encoder
    known : Labels or Targets
        Codes of the outputs.
    structure : Structure
    longest : int
        Maximum length of the first sequences, for transitions that depend on the position.
    """

    def __init__(
        self, outputs: Outputs, estimator: Any, lexicons: Lexicons = None, missing: str = "error"
    ) -> None:
        self._outputs = outputs
        self._budget = estimator.budget
        self._cache_size, self._dtype, self._n_jobs = (
            estimator.cache_size,
            estimator.dtype,
            estimator.n_jobs,
        )
        self.encoder = Encoder(
            estimator.kernels, in_sequences=not outputs.single, lexicons=lexicons, missing=missing
        )

    # ---- encoding --------------------------------------------------------------------------------

    def start(self, data: TokenData) -> Examples:
        """Learn kernel widths, keys and outputs from the first data, and encode these data."""
        self.encoder.fit(data)
        self.learn(data, [Survey([], None, int(np.diff(data.offsets).max()), {})])
        examples = self.encode_part(data, grow=True, follow=not data.whole)
        if self.encoder.vocabulary is not None and not self._outputs.single:
            warn_of_many_groups(self.encoder.vocabulary)
        return examples

    def survey(self, data: TokenData) -> Survey:
        """Return what a part of the first data adds to the model, after the kernels are fitted."""
        encoder, is_numbers = deepcopy(self.encoder), self._outputs.codes is Targets
        encoder.start_scales()
        if encoder.vocabulary is not None or encoder.scales:
            encoder.encode(data.inputs, data.offsets, grow=True, weights=data.token_weights)
        labels = [] if is_numbers else list(dict.fromkeys(data.labels))
        return Survey(labels, encoder.vocabulary, int(np.diff(data.offsets).max()), encoder.scales)

    def learn(self, sample: TokenData, surveys: Sequence[Survey]) -> None:
        """Learn keys, scales and outputs from surveys of all parts, in their order; the level of
        numbers from a sample.

        Of a stream, this is the first number, so that blocks do not matter.
        """
        if self._outputs.codes is Targets and not sample.whole:
            sample = sample._replace(labels=sample.labels[:1], weights=None)
        labels = [*sample.labels, *(label for own in surveys for label in own.labels)]
        self.known = self._outputs.learn(labels, sample.weights)
        for own in surveys:
            if self.encoder.vocabulary is not None and own.vocabulary is not None:
                self.encoder.vocabulary.merge(own.vocabulary)
        if surveys[0].scales:
            self.encoder.start_scales()
        for own in surveys:
            for key, scales in own.scales.items():
                self.encoder.scales[key].merge(scales)
        self.structure = self._outputs.structure(self.known)
        self.longest = max(own.longest for own in surveys)

    def encode_part(self, data: TokenData, grow: bool = False, follow: bool = False) -> Examples:
        """Encode a part of the first data, after :meth:`learn`; ``grow`` adds its features.

        If ``follow``, the scales of columns learn from each token before it is encoded.
        """
        examples = self.encode_known(data, grow, follow)
        self._outputs.check(self.structure, self.known, examples.gold, data.offsets)
        return examples

    def encode(self, data: TokenData, trainer: OnlineTrainer) -> Examples:
        """Encode later data, and add new labels, features and keys to the trainer."""
        trainer.check_new_groups(self.encoder.new_keys(data.inputs))
        if self.known.grows and self.known.add(data.labels):
            self.structure = self._outputs.structure(self.known)
            trainer.grow_outputs(self.structure, len(self.known))
        gold = self.known.encode(data.labels)
        self._outputs.check(self.structure, self.known, gold, data.offsets)
        try:
            tokens = self.encoder.encode(
                data.inputs, data.offsets, grow=True, weights=data.token_weights
            )
        finally:
            # also after an error, as every known feature must have parameters
            self._grow_bank(trainer, trainer.banks[0], self.encoder)
        return Examples(tokens, gold, np.arange(len(tokens)), data.weights, self._outputs.single)

    def encode_known(self, data: TokenData, grow: bool = False, follow: bool = False) -> Examples:
        """Encode data for evaluation, without unknown features; see :meth:`encode_part` for
        ``grow`` and ``follow``.
        """
        gold = self.known.encode(data.labels)
        tokens = self.encoder.encode(
            data.inputs, data.offsets, grow, data.token_weights if follow else None
        )
        return Examples(tokens, gold, np.arange(len(tokens)), data.weights, self._outputs.single)

    def before_block(self) -> Arrays:
        """Return the arrays of the state before the last encoded data that encoding has changed."""
        return self.encoder.arrays(before=True)

    def check_declared(self, classes: Sequence | str) -> None:
        """Raise InputError if declared labels differ from those of the model, which has started."""
        is_growing = isinstance(classes, str) and classes == GROWING and self.known.grows
        if not is_growing and (isinstance(classes, str) or set(classes) != set(self.known.members)):
            raise InputError(
                f"classes must be those of the first call, {len(self.known)} labels"
                f"{' that may grow' if self.known.grows else ''}, got {shown(classes)}."
            )

    def _grow_bank(
        self, trainer: OnlineTrainer, bank: Any, encoder: Encoder, prefix: str = ""
    ) -> None:
        """Add new groups and features of an encoder to their bank."""
        if encoder.vocabulary is None or not isinstance(bank, ExplicitBank):
            return
        new_names = encoder.explicit_names[len(bank.names) :]
        if new_names:
            bank.add_groups([prefix + name for name in new_names])
            trainer.regroup([*trainer.order, *self.order])
        if bank.n_features < encoder.vocabulary.first_id + len(encoder.vocabulary.groups):
            bank.grow(encoder.explicit_groups(bank.n_features))

    def facts(self, examples: Examples) -> dict[str, Any]:
        """Return facts about the data for a resumed run to compare."""
        tokens = examples.tokens
        learned = np.frombuffer(repr(self.known.learned()).encode(), np.uint8)
        arrays = [
            tokens.offsets,
            *(tokens.features or ()),
            *tokens.views.values(),
            examples.gold,
            examples.given,
        ]
        arrays += pack_lexicons(self.encoder.lexicons).values()
        counts = {"number of examples": len(tokens), "number of tokens": tokens.n_tokens}
        return {**counts, "content of the data": fingerprint([*arrays, learned])}

    # ---- banks -----------------------------------------------------------------------------------

    @property
    def order(self) -> list[str]:
        """Names of the groups: kernels in the user's order, then keys in order of appearance."""
        return [
            *self.encoder.kernels,
            *(self.encoder.vocabulary.keys if self.encoder.vocabulary is not None else []),
        ]

    def banks(
        self, averaging: bool, training: Examples | None = None, in_shards: bool = False
    ) -> tuple[list, list]:
        """Make untrained banks: a list of regularized and one of unregularized banks.

        Kernels are cached over the ``training`` examples, unless shards exchange support vectors
        (``in_shards``).
        """
        cached = training is not None and not in_shards and self._cache_size > 0
        n_outputs = self.structure.zeros(1).unary.shape[1]
        tokens = training.tokens if training is not None and cached else None
        banks = self._banks_of(self.encoder, tokens, n_outputs, averaging)
        regularized, free = self._outputs.banks(self.structure, n_outputs, self.longest, averaging)
        return banks + regularized, free

    def _banks_of(
        self,
        encoder: Encoder,
        tokens: Tokens | None,
        n_outputs: int,
        averaging: bool,
        prefix: str = "",
    ) -> list[Any]:
        """Make untrained banks of an encoder's groups, whose kernels are cached over some tokens,
        if there are any.
        """
        mapped, dual = encoder.mapped, encoder.dual
        memory = 0 if tokens is None else int(min(self._cache_size * 1e6, 2.0**62))
        banks: list[Any] = []

        def kernels_of(names: list[str]) -> tuple[list[str], list[Any], list[str]]:
            views = [encoder.views[name].label for name in names]
            return (
                [prefix + name for name in names],
                [encoder.kernels[name] for name in names],
                views,
            )

        if encoder.explicit_names or encoder.vocabulary is not None:
            names = [prefix + name for name in encoder.explicit_names]
            banks.append(ExplicitBank(names, encoder.explicit_groups(), n_outputs, averaging))
        if mapped:
            sizes: list[Any] = [encoder.feature_count(name) for name in mapped]
            banks.append(FeatureMapBank(*kernels_of(mapped), sizes, n_outputs, averaging, memory))
        groups, precision = kernels_of(dual), np.float64 if self._dtype == "auto" else self._dtype
        if dual and self._budget is not None:
            banks.append(
                BudgetedExpansion(*groups, n_outputs, int(self._budget), averaging, precision)
            )
        elif dual and tokens is None:
            banks.append(KernelExpansion(*groups, n_outputs, averaging, precision))
        elif dual and tokens is not None:
            dtype: Any = self._dtype
            if dtype == "auto":
                dtype = (
                    np.float64 if len(dual) * tokens.n_tokens**2 * 8 <= DOUBLE_UP_TO else np.float32
                )
            banks.append(
                CachedKernelBank(*groups, tokens, n_outputs, averaging, dtype, memory, self._n_jobs)
            )
        return banks

    def warn_of_absent_keys(self, tokens: FlatTokens, predictor: Callable[[], Predictor]) -> bool:
        """Warn if tokens lack keys whose features have weights in the averaged model; return
        whether they do.
        """
        absent = self.encoder.absent_keys(tokens)
        if absent:
            bank = predictor().banks[0]
            used = np.unique(bank.groups[bank.table[: bank.n_features].any(axis=1)])
            names = {bank.names[group] for group in used.tolist()}
            absent = [key for key in absent if key in names]
        if absent:
            warn_caller(
                f"The input has no {listed(absent, 5)}, from which the model has learned.",
                DataWarning,
            )
        return bool(absent)

    # ---- features and model files ----------------------------------------------------------------

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[dict[str, Any]]:
        """List the explicit features with the largest weights; see
        :meth:`omkl.SequenceLabeler.top_features`.
        """
        bank = predictor.banks[0]
        if not isinstance(bank, ExplicitBank):
            return []
        if group is not None and group not in bank.names:
            raise InputError(
                f"No group of features is called {group!r}; there are {', '.join(bank.names)}."
            )
        return top_of_bank(bank, self.encoder, self.known.columns(bank.n_outputs), n, group)

    def learned(self) -> dict[str, Any]:
        """Learned attributes of the estimator, by name."""
        return {"structure_": self.structure, **self.known.learned()}

    def pack(self, packer: Packer, condensed: Arrays | None = None) -> tuple[Manifest, Arrays]:
        """Return ``(JSON values, arrays)`` for a model file; see :class:`~omkl.online.model.Codec`."""
        vocabulary, arrays, kept = self.encoder.vocabulary, dict[str, np.ndarray](), None
        if vocabulary is not None and condensed is not None and "bank0/table" in condensed:
            used: Any = condensed["bank0/table"].any(axis=1)
            used[: vocabulary.first_id] = True  # keep all features of kernels
            arrays = {name: condensed[name][used] for name in ("bank0/table", "bank0/groups")}
            kept = used[vocabulary.first_id :]
        values = {
            **self.known.pack(packer),
            "encoder": self.encoder.pack(packer, kept),
            "positions": self.longest,
        }
        return values, arrays

    def unpack(self, values: Manifest, arrays: Arrays, unpacker: Unpacker) -> None:
        """The inverse of :meth:`pack`."""
        self.known = self._outputs.codes.unpack(values, unpacker)
        self.encoder = Encoder.unpack(
            values["encoder"], unpacker, in_sequences=not self._outputs.single
        )
        self.structure, self.longest = self._outputs.structure(self.known), values["positions"]
