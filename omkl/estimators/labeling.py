"""What the estimators with an output for every token share: banks from an encoder, training, strongest features."""

import time

import numpy as np

from omkl.estimators.base import OnlineEstimator, check_number
from omkl.estimators.encoding import Encoder
from omkl.estimators.examples import Examples
from omkl.estimators.labels import Labels
from omkl.estimators.runs import fingerprint
from omkl.exceptions import InputError
from omkl.groups import (
    CachedKernelBank,
    ExplicitBank,
    FeatureMapBank,
    KernelExpansion,
    ProjectionExpansion,
    RemovalExpansion,
    SparseCachedBank,
)
from omkl.kernels import Precomputed

#: Gram matrices up to this many bytes are kept in double precision when ``dtype="auto"``.
DOUBLE_UP_TO = 2**26
#: What ``classes`` is where labels are taken in as they come.
GROWING = "growing"
#: How a budget is kept, by the name of it.
BUDGETED = {"removal": RemovalExpansion, "projection": ProjectionExpansion}


class LabelEstimator(OnlineEstimator):
    """Base of :class:`SequenceLabeler`, :class:`OnlineMKLClassifier` and :class:`OnlineMKLRegressor`; see there.

    An output is a label for most, see :class:`Labels`; a regressor's is a number, see :class:`Targets`.
    """

    _outputs_class: type = Labels

    def _learn_outputs(self, labels, weights, classes=None):
        """What is to be known of outputs before training."""
        if not isinstance(classes, str):
            return Labels(labels if classes is None else classes)
        if classes != GROWING:
            raise InputError(f'classes must be labels, or "{GROWING}" to take in what comes, not {classes!r}.')
        if self.cost is not None:
            raise InputError(f'cost= is for labels that are known: declare them, instead of classes="{GROWING}".')
        return Labels(labels, grows=True)

    def _resolve(self):
        check_number("cache_size", self.cache_size, above=-1)
        if self.budget is not None:
            check_number("budget", self.budget, above=0, integer=True)
        if self.budget_maintenance not in BUDGETED:
            raise InputError(
                f"budget_maintenance must be one of {', '.join(BUDGETED)}, not {self.budget_maintenance!r}."
            )
        return super()._resolve()

    def _start(self, encoder, structure, tokens=None, positions=1):
        """A fresh trainer over the encoder's groups; with ``tokens``, kernels are cached over that training set.

        ``positions`` is the length of the longest sequence, for transitions by position.
        """
        averaging = self._averaging
        banks = []
        n_outputs = structure.zeros(1).unary.shape[1]
        if encoder.explicit_names or encoder.vocabulary is not None:
            banks.append(ExplicitBank(encoder.explicit_names, encoder.explicit_groups(), n_outputs, averaging))
        if mapped := encoder.mapped:
            kernels = [encoder.kernels[name] for name in mapped]
            views = [encoder.views[name] for name in mapped]
            sizes = [encoder.feature_count(name) for name in mapped]
            memory = 0 if tokens is None else int(self.cache_size * 1e6)
            banks.append(FeatureMapBank(mapped, kernels, views, sizes, n_outputs, averaging, memory))
        if self.budget is not None and encoder.dual:
            banks.append(self._budgeted_bank(encoder, n_outputs))
        for names in _dual_banks(encoder) if self.budget is None else []:
            kernels = [encoder.kernels[name] for name in names]
            views = [encoder.views[name] for name in names]
            if tokens is None:
                dtype = np.float64 if self.dtype == "auto" else self.dtype
                banks.append(KernelExpansion(names, kernels, views, n_outputs, averaging, dtype))
            else:
                bank = SparseCachedBank if _is_sparse(kernels[0]) else CachedKernelBank
                dtype = self._gram_dtype(len(names), tokens.n_tokens)
                memory = int(self.cache_size * 1e6)
                banks.append(bank(names, kernels, views, tokens, n_outputs, averaging, dtype, memory))
        regularized, free = self._other_banks(structure, n_outputs, positions, averaging)
        trainer = self._trainer_of(banks + regularized, structure, free)
        trainer.positions = positions
        return trainer

    def _budgeted_bank(self, encoder, n_outputs):
        """All dual kernels on one bounded support, in a fit as on a stream."""
        kernels = [encoder.kernels[name] for name in encoder.dual]
        for name, kernel in zip(encoder.dual, kernels):
            if isinstance(kernel, Precomputed):
                raise InputError(
                    f"The kernel {name!r} is precomputed, which has no use for a budget: leave budget out."
                )
        views = [encoder.views[name] for name in encoder.dual]
        dtype = np.float64 if self.dtype == "auto" else self.dtype
        return BUDGETED[self.budget_maintenance](
            encoder.dual, kernels, views, n_outputs, int(self.budget), self._averaging, dtype
        )

    def _other_banks(self, structure, n_outputs, positions, averaging):
        """Banks that do not look at the input: ``(regularized ones, free ones)``."""
        raise NotImplementedError

    def _gram_dtype(self, n_kernels, n_tokens):
        if self.dtype != "auto":
            return np.dtype(self.dtype)
        return np.dtype(np.float64 if n_kernels * n_tokens**2 * 8 <= DOUBLE_UP_TO else np.float32)

    def _fit(self, inputs, offsets, labels, classes, weights, run, distinct=None):
        """Train from scratch on inputs with a label each, and set the learned attributes.

        Kernels learn their widths from ``distinct`` inputs, all of them by default. In shards kernels
        cannot be cached: the support goes from shard to shard.
        """
        started = time.perf_counter()
        known = self._learn_outputs(labels, weights, classes)
        names = getattr(self, "feature_names_in_", None)
        encoder = Encoder(self.kernels).fit(inputs if distinct is None else distinct, names)
        tokens = encoder.encode(inputs, offsets, grow=True)
        gold = known.encode(labels, "declare all classes, with classes=.")
        structure = self._structure(known)
        run.check_data(lambda: _facts(tokens, known, gold, weights))
        longest = int(np.diff(tokens.offsets).max())
        cached = tokens if self.cache_size > 0 and run.mixing is None else None
        trainer = self._start(encoder, structure, cached, longest)
        training, validation = self._split(tokens, gold, weights, run.rng)
        history = self._train(trainer, training, validation, run)
        self.n_iter_ = len(history)
        self.history_ = history
        self.fit_seconds_ = time.perf_counter() - started
        self._adopt(encoder, structure, trainer, known)

    def _adopt(self, encoder, structure, trainer, outputs):
        """Make this trained state the estimator's own, all at once: nothing changes where training failed."""
        self.structure_ = structure
        self._encoder = encoder
        self._trainer = trainer
        self._outputs = outputs
        vars(self).update(outputs.learned())

    def _partial_fit(self, inputs, offsets, labels, classes, weights):
        """One round for each sequence in the given order; the first call fixes kernel widths and labels."""
        started = hasattr(self, "_trainer")
        known = self._outputs if started else self._learn_outputs(labels, weights, classes)
        if known.grows and known.add(labels) and started:
            self._trainer.grow_outputs(self._structure(known))
            self._adopt(self._encoder, self._trainer.structure, self._trainer, known)
        gold = known.encode(labels, 'declare all classes at the first call, with classes=, or ask for "growing" ones.')
        if started:
            tokens = self._encode_more(inputs, offsets)
        else:
            encoder = Encoder(self.kernels).fit(inputs, getattr(self, "feature_names_in_", None))
            tokens = encoder.encode(inputs, offsets, grow=True)
            structure = self._structure(known)
            trainer = self._start(encoder, structure, positions=int(np.diff(offsets).max()))
            trainer.radius = self._given_radius()
            self._adopt(encoder, structure, trainer, known)
            self.history_, self.n_iter_ = [], 1
        self._learn_rounds(self._trainer, self._examples(tokens, gold, np.arange(len(tokens)), weights))
        return self

    def _encode_more(self, tokens, offsets):
        """Encode training tokens for the trainer that exists, which gains the features and keys new to it."""
        try:
            return self._encoder.encode(tokens, offsets, grow=True)
        finally:
            # also when a bad token stops the encoding half-way: no feature may be known that has no parameters
            self._grow()

    def _grow(self):
        encoder, trainer = self._encoder, self._trainer
        if encoder.vocabulary is not None:
            bank = trainer.banks[0]
            new_names = encoder.explicit_names[len(bank.names) :]
            if new_names:
                bank.add_groups(new_names)
                trainer.regroup()
            bank.grow(encoder.explicit_groups(bank.n_features))

    def _examples(self, tokens, gold, chosen, weights):
        return Examples(tokens, gold, chosen, weights)

    def _split(self, tokens, gold, weights, rng):
        """Training examples, and held-out ones for early stopping (None without)."""
        chosen, held_out = self._held_out(len(tokens), rng)
        chosen_weights = None if weights is None else weights[chosen]
        validation = None if held_out is None else self._examples(tokens, gold, held_out, None)
        return self._examples(tokens, gold, chosen, chosen_weights), validation

    def top_features(self, n=10, group=None):
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
        bank = self.predictor_.banks[0]
        if not isinstance(bank, ExplicitBank):
            return []
        table = bank.table[: bank.n_features]
        if group is not None:
            if group not in bank.names:
                raise InputError(f"No group of features is called {group!r}; there are {', '.join(bank.names)}.")
            table = np.where((bank.groups == bank.names.index(group))[:, None], table, 0.0)
        order = np.argsort(-np.abs(table), axis=None, kind="stable")[:n]
        rows, columns = np.unravel_index(order, table.shape)
        names = self._encoder.feature_names()
        columns_of = self._outputs.columns(table.shape[1])
        return [
            {"feature": names(i), "group": bank.names[bank.groups[i]], **columns_of[j], "weight": float(table[i, j])}
            for i, j in zip(rows.tolist(), columns.tolist())
            if table[i, j] != 0.0
        ]

    # ---- model files --------------------------------------------------------------------------------------------

    def _describe(self, packer):
        described = {
            **self._outputs.pack(packer),
            "encoder": self._encoder.pack(packer),
            "positions": self._trainer.positions,
        }
        vocabulary = self._encoder.vocabulary
        arrays = {} if vocabulary is None else vocabulary.state()
        return described, {f"vocabulary/{key}": value for key, value in arrays.items()}

    def _restore(self, manifest, arrays, unpacker):
        outputs = self._outputs_class.unpack(manifest, unpacker)
        encoder = Encoder.unpack(manifest["encoder"], unpacker)
        structure = self._structure(outputs)
        self._adopt(encoder, structure, self._start(encoder, structure, positions=manifest["positions"]), outputs)


def _facts(tokens, outputs, gold, weights):
    """What a checkpoint notes of the data, the plainest first."""
    learned = np.frombuffer(repr(outputs.learned()).encode(), np.uint8)
    features = tokens.features or ()
    return {
        "number of examples": len(tokens),
        "number of tokens": tokens.n_tokens,
        "content of the data": fingerprint([tokens.offsets, *features, *tokens.views.values(), gold, weights, learned]),
    }


def _dual_banks(encoder):
    """Names of the dual kernels, bank by bank: dense ones together, a sparse one by itself."""
    dense = [name for name in encoder.dual if not _is_sparse(encoder.kernels[name])]
    alone = [[name] for name in encoder.dual if _is_sparse(encoder.kernels[name])]
    return ([dense] if dense else []) + alone


def _is_sparse(kernel):
    return getattr(kernel, "sparse", False)
