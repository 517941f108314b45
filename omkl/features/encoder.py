"""Encoder of arrays, dicts, words or attributes to :class:`~omkl.groups.Tokens`."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate, chain
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from omkl.data.frames import first_value
from omkl.exceptions import InputError
from omkl.features.lexicons import Lexicon, Lexicons, as_lexicons, pack_lexicons, unpack_lexicons
from omkl.features.scales import ColumnScales
from omkl.features.views import (
    COLUMNS,
    MISSING,
    PLAIN,
    Entries,
    FlatTokens,
    TokenData,
    View,
    kinds_of_times,
    numbers_of,
    stacked,
)
from omkl.features.vocabulary import AttributeLists, Vocabulary, features_of_ids
from omkl.features.words import TEMPLATE_NAMES, WordEncoder, Words
from omkl.groups.tokens import Features, Tokens, features_of, side_by_side
from omkl.kernels import FeatureMap, Kernel, Linear
from omkl.kernels.inputs import On, Vectors, find_columns, format_on
from omkl.kernels.specs import KernelSpecs, named_kernels, reads_sparse
from omkl.persistence import Arrays, Manifest, Packer, Unpacker

#: Maximum number of features of kernels that are stored explicitly by default.
EXPLICIT_LIMIT = 512
#: Up to this number of training rows, default kernels are exact; for more rows, and streams, they
#: have features.
EXACT_UP_TO = 2000
#: Widths of default Gaussian kernels on standardized columns, per column, where the mean squared
#: distance is 2.
WIDTH, NARROW = 1.0, 0.25
#: Number of Fourier features of a default kernel.
FEATURES = 200
#: Number of normal vectors from which kernels on standardized columns of a stream learn their
#: widths.
SAMPLE = 200


class Encoder:
    """Encoder of tokens; learns kernels and keys of features from training tokens.

    Tokens are an (N, d) array, a scipy sparse (N, d) matrix, or a flat list of N dicts, words, or
    lists of attributes. In dicts, arrays are views for kernels. So are numbers that a kernel
    selects with ``on``, and all numbers of rows for kernels without ``on``. All other entries are
    sparse features, and each of their keys is a group.

    Parameters
    ----------
    kernels : sequence or mapping, or None
        Kernels as objects or strings. A mapping gives them names.
    in_sequences : bool
        Whether tokens come in sequences; if so, encoding raises an error if no feature is known.
    lexicons : mapping, optional
        Lexicons of words by name, as for :class:`~omkl.SequenceLabeler`.
    missing : {"error", "indicator"}
        Treatment of missing numbers: refuse them, or use the mean of the column, and a group of
        sparse features that say which columns are missing.

    Attributes
    ----------
    kernels : dict of str to Kernel
        Fitted kernels by the name of their group.
    views : dict of str to View
        Input array of each kernel.
    explicit, mapped, dual : list of str
        Names of the kernels with explicit sparse features, with dense features computed on demand,
        and with dual expansions.
    vocabulary : Vocabulary or None
        Sparse features; None for sparse matrices.
    shapes : dict of str to int
        Number of columns of each entry that kernels use.
    numbers : list of str or None
        Keys of dicts whose numbers are the columns of the entry
        :data:`~omkl.features.views.COLUMNS`; None for arrays.
    times : dict of str to str
        Kinds of those of these keys that held dates or durations in training.
    scales : dict of str to ColumnScales
        Scales of the columns of entries, for kernels on standardized columns and for missing
        numbers.
    lexicons : dict of str to Lexicon
    names : list of str or None
        Names of the columns of an array.
    """

    def __init__(
        self,
        kernels: KernelSpecs | None = None,
        in_sequences: bool = False,
        lexicons: Lexicons = None,
        missing: str = "error",
    ) -> None:
        self._specs = kernels
        self._lexicon_sources = lexicons
        self.in_sequences = in_sequences
        self.missing = missing
        self.lexicons: dict[str, Lexicon] = {}
        self.kernels: dict[str, Kernel] = {}
        self.views: dict[str, View] = {}
        self.vocabulary: Vocabulary | None = None
        self.shapes: dict[str, int] = {}
        self.numbers: list[str] | None = None
        self.times: dict[str, str] = {}
        self.scales: dict[str, ColumnScales] = {}
        self.names: list[str] | None = None
        self._word_encoder: WordEncoder | None = None
        self._are_sparse = False

    def fit(self, data: TokenData) -> "Encoder":
        """Learn kernels and views from training tokens.

        The scales of columns are learned, too, if these are all training data.
        """
        tokens = data.inputs
        self.lexicons = as_lexicons(self._lexicon_sources, TEMPLATE_NAMES)
        if self.lexicons and not isinstance(tokens, Words):
            kind = type(tokens[0]).__name__ if isinstance(tokens, list) else "array"
            raise InputError(
                f"`lexicons` look up words: each token must be a string, got tokens of type {kind}."
            )
        self.shapes = data.shapes_of_first()
        if data.names is not None:
            self.names = list(map(str, data.names))
        kernels = self._unfitted_kernels(data)
        self.views = {name: self._view_of(name, kernel) for name, kernel in kernels}
        self._are_sparse = sparse.issparse(tokens)
        self.start_scales()
        entries = self._entries(tokens, data.token_weights)
        for name, kernel in kernels:
            inputs = self._inputs_for_fit(name, kernel, entries, data)
            self.kernels[name] = kernel.fit_view(inputs)
        self._arrange()
        if not data.is_all_data:  # start again: rows count when they are encoded for training
            self.start_scales()
        has_indicators = self.missing == "indicator" and not self._are_sparse
        if isinstance(tokens, list) or has_indicators:
            self.vocabulary = Vocabulary(first_id=sum(self._explicit_counts()))
        elif not self.kernels:
            raise InputError(f"kernels must hold at least one kernel, got {self._specs!r}.")
        return self

    def _unfitted_kernels(self, data: TokenData) -> list[tuple[str, Kernel]]:
        """Return the names and kernels of the user, or the default ones, and set ``numbers``."""
        tokens = data.inputs
        kernels = None if self._specs is None else named_kernels(self._specs)
        if isinstance(tokens, list):
            self.numbers = self._columns_of_dicts(data, kernels)
            if self.numbers:
                self.shapes[COLUMNS] = len(self.numbers)
                self.times = kinds_of_times(tokens, self.numbers)
        if kernels is None:
            kernels = self._default_kernels(data)
        if not isinstance(tokens, list):
            width = tokens.shape[1]
            kernels = [(name, kernel.placed(width, data.names)) for name, kernel in kernels]
        return kernels

    def _columns_of_dicts(
        self, data: TokenData, kernels: list[tuple[str, Kernel]] | None
    ) -> list[str]:
        """Return the keys of dicts whose numbers are columns for kernels; None: default kernels.

        Other keys hold arrays, the entries of ``shapes``.
        """
        selections = [kernel.on for _, kernel in kernels or ()]
        reads_all_numbers = kernels is None or None in selections
        if reads_all_numbers and not self.in_sequences and not self.shapes:
            return data.number_keys()
        columns = {}
        for item in chain.from_iterable(map(_items_of_selection, selections)):
            if isinstance(item, str) and item not in self.shapes and data.has_number(item):
                columns[item] = None
        return list(columns)

    def _default_kernels(self, data: TokenData) -> list[tuple[str, Kernel]]:
        """Return the kernels of a model whose user gives none."""
        if not self.shapes:
            return named_kernels([])
        if sparse.issparse(data.inputs) or self._table not in self.shapes:
            return named_kernels(["linear"])
        if self.in_sequences:
            return named_kernels(["linear", "quadratic", "gaussian"])
        d = self.shapes[self._table]
        wide = f"gaussian:standardize=True,sigma2={WIDTH * d}"
        narrow = f"gaussian:standardize=True,sigma2={NARROW * d}"
        quadratic = "quadratic:standardize=True"
        specs = {"linear": "linear:standardize=True"}
        if data.total <= EXACT_UP_TO:
            specs["quadratic"] = quadratic
            specs["gaussian"] = wide
            specs["narrow gaussian"] = narrow
            # columns of equal units, such as pixels, keep their relative scales
            specs["quadratic:ranges"] = "quadratic:standardize=range"
        else:  # kernels of bounded size
            if math.comb(d + 2, 2) <= EXPLICIT_LIMIT:
                specs["quadratic"] = quadratic
            specs["gaussian"] = f"{wide},features={FEATURES}"
            specs["narrow gaussian"] = f"{narrow},features={FEATURES},seed=1"
        return named_kernels(specs)

    def _inputs_for_fit(
        self, name: str, kernel: Kernel, entries: Entries, data: TokenData
    ) -> np.ndarray:
        """Return the rows, (n, d), from which a kernel learns its width."""
        inputs = self.views[name].select(entries)
        if sparse.issparse(inputs):
            _refuse_dense(name, kernel)
        if kernel.standardize and not data.is_all_data:
            if kernel.standardize == "range":
                raise InputError(
                    f"The kernel {name!r} needs the ranges of all rows: "
                    "in streams, use standardize=True."
                )
            # widths do not depend on the first rows of a stream
            return np.random.default_rng(0).normal(size=(SAMPLE, inputs.shape[1]))
        if data.distinct is None:
            return inputs
        return inputs[data.distinct]

    def start_scales(self) -> None:
        """Start the scales of entries for kernels on standardized columns and missing numbers."""
        self.scales = {}
        if self._are_sparse:
            return
        scaled = {self._table} if self.missing == "indicator" else set()
        for view in self.views.values():
            if view.standardize:
                scaled.update(view.keys)
        for key, n_columns in self.shapes.items():
            if key in scaled:
                self.scales[key] = ColumnScales(n_columns)

    @property
    def _table(self) -> str:
        """Name of the entry whose columns are the numbers of rows."""
        return PLAIN if self.numbers is None else COLUMNS

    def _table_columns(self, n_columns: int) -> list[str]:
        """Return the names of the columns of numbers, or their positions as strings."""
        return self.numbers or self.names or list(map(str, range(n_columns)))

    @property
    def _keys_for_kernels(self) -> set[str]:
        """Keys of dicts that are no sparse features."""
        return {*self.shapes, *(self.numbers or ())}

    def column_scales(self) -> dict[str, tuple[float, float]]:
        """Return the mean and the standard deviation of each column of numbers."""
        scales = self.scales.get(self._table, ColumnScales(0))
        names = self._table_columns(len(scales.means))
        return dict(zip(names, zip(scales.means.tolist(), scales.deviations.tolist())))

    def _arrange(self) -> None:
        """Determine the representation of each kernel."""
        self.mapped = []
        self.explicit = []
        self.dual = []
        for name, kernel in self.kernels.items():
            if isinstance(kernel, FeatureMap) and kernel.explicit is not False:
                self.mapped.append(name)
            elif self._is_explicit(name, kernel):
                self.explicit.append(name)
            else:
                self.dual.append(name)
        #: Views for banks, by label; computed once, because this takes as long as encoding a row.
        self._views_of_banks = {}
        for name in [*self.mapped, *self.dual]:
            self._views_of_banks[self.views[name].label] = self.views[name]

    def _is_explicit(self, name: str, kernel: Kernel) -> bool:
        """Check whether the features of a kernel are stored explicitly."""
        n_features = self.feature_count(name)
        if kernel.explicit is None:
            is_linear = isinstance(kernel, Linear)
            return n_features is not None and (is_linear or n_features <= EXPLICIT_LIMIT)
        if kernel.explicit and n_features is None:
            raise InputError(
                f"The kernel {name!r} has no finite feature map that could be held explicitly."
            )
        return kernel.explicit

    def encode(
        self,
        tokens: FlatTokens,
        offsets: np.ndarray,
        grow: bool = False,
        weights: np.ndarray | None = None,
    ) -> Tokens:
        """Encode tokens; ``grow`` adds new keys and values.

        Sequence s has the tokens ``offsets[s] : offsets[s + 1]``. If ``weights`` of the tokens are
        given, the scales of columns learn from each token before it is encoded.
        """
        entries = self._entries(tokens, weights)
        views = {label: view.select(entries) for label, view in self._views_of_banks.items()}
        features_of_kernels = [
            self.kernels[name].features(self.views[name].select(entries)) for name in self.explicit
        ]
        features = list(self._sparse_features(tokens, entries.missing, offsets, grow))
        if features_of_kernels:
            features.insert(0, features_of(features_of_kernels))
        joined = reduce(side_by_side, features) if features else None
        return Tokens(offsets, joined, views)

    def new_keys(self, tokens: FlatTokens) -> Iterator[str]:
        """Yield the unknown keys of tokens."""
        if self.vocabulary is None:
            return
        keys = _keys_of(tokens) if isinstance(tokens, list) else []
        if self._entries(tokens).missing is not None:
            keys.append(MISSING)
        keys_for_kernels = self._keys_for_kernels
        for key in keys:
            if key not in keys_for_kernels and key not in self.vocabulary.ids:
                yield key

    def absent_keys(self, tokens: FlatTokens) -> list[str]:
        """Return keys of sparse features that no token has, and that are not absent by chance."""
        if self.vocabulary is None or not isinstance(tokens, list):
            return []
        expected = self.vocabulary.expected_in(len(tokens))
        if not expected:
            return []
        if isinstance(tokens, (Words, AttributeLists)):
            present = set(tokens.keys())
            if isinstance(tokens, Words) and self._word_encoder is not None:
                present.update(self._word_encoder.keys)
            return [key for key in expected if key not in present]
        absent = []
        for key in expected:
            if key != MISSING and first_value(tokens, key) is None:
                absent.append(key)
        return absent

    def _sparse_features(
        self, tokens: FlatTokens, missing: np.ndarray | None, offsets: np.ndarray, grow: bool
    ) -> Iterator[Features]:
        """Yield features of entries, and those that say which numbers are ``missing``, (n, d)."""
        if self.vocabulary is None:
            return
        if isinstance(tokens, list):
            yield self._features_of_entries(self.vocabulary, tokens, offsets, grow)
        if missing is not None:
            yield self._features_of_missing(self.vocabulary, missing, grow)
        elif not isinstance(tokens, list) and not self.explicit:
            starts = np.zeros(len(tokens) + 1, np.int64)  # no token has a feature
            yield Features(starts, np.empty(0, np.int32), np.empty(0))

    def _features_of_entries(
        self, vocabulary: Vocabulary, tokens: list, offsets: np.ndarray, grow: bool
    ) -> Features:
        """Return the features of dicts, words or attributes."""
        if isinstance(tokens, Words):
            if not grow:
                self._check_known(tokens.keys(), vocabulary)
            if self._word_encoder is None:
                self._word_encoder = WordEncoder(vocabulary, self.lexicons)
            return self._word_encoder.encode(tokens, offsets, grow)
        are_dicts = not isinstance(tokens, AttributeLists)
        if are_dicts and self.shapes:
            dense = self._keys_for_kernels
            tokens = [{key: token[key] for key in token if key not in dense} for token in tokens]
        features = vocabulary.encode(tokens, grow)
        has_none = not grow and len(features.ids) == 0
        if has_none and (self.in_sequences or not are_dicts):
            self._check_known(_keys_of(tokens), vocabulary)
        return features

    def _features_of_missing(
        self, vocabulary: Vocabulary, missing: np.ndarray, grow: bool
    ) -> Features:
        """Return features that say which numbers are ``missing``, (n, d)."""
        n_columns = missing.shape[1]
        ids = np.full(n_columns, -1, np.int32)
        if grow or MISSING in vocabulary.ids:
            # all columns, so that ids do not depend on which is missing first
            ids = vocabulary.look_up(MISSING, self._table_columns(n_columns), grow).ids
        return features_of_ids(np.where(missing, ids, np.int32(-1)))

    def _check_known(self, keys: Sequence[str], vocabulary: Vocabulary) -> None:
        """Raise InputError if there are keys, and all are unknown."""
        if keys and vocabulary.ids.keys().isdisjoint(keys) and self.shapes.keys().isdisjoint(keys):
            raise InputError(
                f"The model knows no feature of these tokens, such as {keys[0]!r}: "
                f"it was trained on tokens with {', '.join(map(repr, vocabulary.keys[:3]))}."
            )

    def _entries(self, tokens: FlatTokens, weights: np.ndarray | None = None) -> Entries:
        """Return the entries that kernels use.

        The scales learn from the tokens first if their ``weights`` are given.
        """
        raw = self._read(tokens)
        standardized = {}
        missing = None
        for name, scales in self.scales.items():
            numbers = raw[name]
            if weights is None:
                raw[name], standardized[name] = scales.apply(numbers)
            else:
                raw[name], standardized[name] = scales.follow(numbers, weights)
            if name == self._table and self.missing == "indicator":
                are_missing = np.isnan(numbers)
                if np.count_nonzero(are_missing):
                    missing = are_missing
        return Entries(raw=raw, standardized=standardized, scales=self.scales, missing=missing)

    def _read(self, tokens: FlatTokens) -> dict[str, Vectors]:
        """Return the input array, or arrays of entries of dicts, by name."""
        if isinstance(tokens, list):
            are_dicts = bool(tokens) and isinstance(tokens[0], dict)
            if are_dicts and self.numbers is None:
                self._refuse("dicts")
            if not are_dicts:
                tokens = [{}] * len(tokens)
            return self._arrays_of_dicts(tokens)
        if self.numbers is not None or tokens.shape[1] != self.shapes[PLAIN]:
            self._refuse(f"rows of {tokens.shape[1]} numbers")
        if sparse.issparse(tokens):
            for name, kernel in self.kernels.items():
                _refuse_dense(name, kernel)
        return {PLAIN: tokens}

    def _refuse(self, got: str) -> NoReturn:
        """Raise InputError for tokens of another kind than those that the model was trained on."""
        learned = "dicts or a table with text"
        if self.numbers is None:
            learned = f"rows of {self.shapes[PLAIN]} numbers"
        elif self.vocabulary is not None and self.vocabulary.ids.keys() >= set(TEMPLATE_NAMES):
            learned = "words"
        raise InputError(f"The model was trained on {learned}, got {got}.")

    def _arrays_of_dicts(self, tokens: Sequence[dict[str, Any]]) -> dict[str, Vectors]:
        """Return the arrays of entries that kernels use, by name."""
        arrays = {}
        if self.numbers:
            table = numbers_of(tokens, self.numbers, self.times)
            arrays[COLUMNS] = table
            if self.missing == "error" and np.isnan(table).any():
                for key in self.numbers:
                    stacked([token.get(key) for token in tokens], key, 1)  # names the row
        for view in self.views.values():
            for key in view.keys:
                if key not in arrays and key != COLUMNS:
                    values = [token.get(key) for token in tokens]
                    arrays[key] = stacked(values, key, self.shapes[key])
        return arrays

    def pack(self, packer: Packer, saved: np.ndarray | None = None) -> Manifest:
        """Return everything learned as JSON values and arrays.

        ``saved`` is a mask of the features of the vocabulary to save; None: all.
        """
        packer.arrays.update(pack_lexicons(self.lexicons))
        packer.arrays.update(self.arrays())
        keys = None
        if self.vocabulary is not None:
            keys = self.vocabulary.keys
            for name, array in self.vocabulary.state(saved).items():
                packer.arrays[f"vocabulary/{name}"] = array
        kernels = {}
        for name, kernel in self.kernels.items():
            kernels[name] = packer.pack(kernel, f"the kernel {name!r}")
        return {
            "kernels": kernels,
            "shapes": self.shapes,
            "scales": list(self.scales),
            "names": self.names,
            "numbers": self.numbers,
            "times": self.times,
            "missing": self.missing,
            "keys": keys,
            "lexicons": list(self.lexicons),
        }

    def arrays(self, before: bool = False) -> Arrays:
        """Return the scales as arrays, now or ``before`` the last tokens that they learned from."""
        arrays = {}
        for key, scales in self.scales.items():
            arrays[f"scales/{key}"] = scales.before if before else scales.state()
        return arrays

    @classmethod
    def unpack(cls, packed: Manifest, unpacker: Unpacker, in_sequences: bool) -> "Encoder":
        """Create an encoder from the result of :meth:`pack`."""
        arrays = unpacker.arrays
        encoder = cls(in_sequences=in_sequences, missing=packed["missing"])
        encoder.shapes = packed["shapes"]
        encoder.names = packed["names"]
        encoder.numbers = packed["numbers"]
        encoder.times = packed["times"]
        for key in packed["scales"]:
            encoder.scales[key] = ColumnScales.from_state(arrays[f"scales/{key}"])
        encoder.lexicons = unpack_lexicons(packed["lexicons"], arrays)
        for name, packed_kernel in packed["kernels"].items():
            kernel = unpacker.unpack(packed_kernel)
            encoder.kernels[name] = kernel
            encoder.views[name] = encoder._view_of(name, kernel)
        encoder._arrange()
        if packed["keys"] is not None:
            state = {name: arrays[f"vocabulary/{name}"] for name in ("learned", "groups")}
            first_id = sum(encoder._explicit_counts())
            encoder.vocabulary = Vocabulary.from_state(packed["keys"], first_id, state)
        return encoder

    @property
    def explicit_names(self) -> list[str]:
        """Names of all groups of explicit features: kernels first, then keys."""
        if self.vocabulary is None:
            return self.explicit
        return self.explicit + self.vocabulary.keys

    def explicit_groups(self, first: int = 0) -> np.ndarray:
        """Return the group of every explicit feature from id ``first`` on."""
        n_kernels = len(self.explicit)
        groups = np.repeat(np.arange(n_kernels, dtype=np.int32), self._explicit_counts())
        if self.vocabulary is None:
            return groups[first:]
        groups_of_keys = self.vocabulary.groups[max(first - len(groups), 0) :]
        return np.concatenate([groups[first:], np.array(groups_of_keys, np.int32) + n_kernels])

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the names of explicit features by id.

        These are ``key=value``, or as :meth:`name_of_part` names them.
        """
        starts = [0, *accumulate(self._explicit_counts())]
        names = {}
        ids_of_keys = set()
        for i in set(ids):
            if i < starts[-1]:
                k = bisect_right(starts, i) - 1
                names[i] = self.name_of_part(self.explicit[k], i - starts[k])
            else:
                ids_of_keys.add(i)
        if self.vocabulary is not None:
            names |= self.vocabulary.names_of(ids_of_keys)
        return names

    def name_of_part(self, name: str, i: int) -> str:
        """Return the name of feature i of a kernel with explicit features.

        This is ``kernel[column]`` or ``kernel[landmark 3]``, for instance.
        """
        width = self.views[name].width(self.shapes)
        return f"{name}[{self.kernels[name].part_name(i, self.columns_of(name), width)}]"

    def columns_of(self, name: str) -> Callable[[int], str]:
        """Return a function from the number of a column of a kernel to its name."""
        names = {PLAIN: self.names, COLUMNS: self.numbers}
        return partial(self.views[name].column_name, shapes=self.shapes, names=names)

    def _view_of(self, name: str, kernel: Kernel) -> View:
        """Return the input array of a kernel: the columns and entries that it is ``on``."""
        numbers = self.numbers or []
        vectors = self.shapes
        if len(vectors) > 1:
            vectors = {key: width for key, width in vectors.items() if key != COLUMNS}
        items = _items_of_selection(kernel.on)
        are_names = [isinstance(item, str) for item in items]
        if len(vectors) == 1 and not any(are_names):
            ((key, width),) = vectors.items()
            columns = find_columns(kernel.on, width, kernel=name)
            return View(keys=(key,), columns=columns, standardize=kernel.standardize)
        if not all(are_names) or not {*numbers, *vectors}.issuperset(items):
            choice = f"one of {[*vectors, *numbers]}" if self.shapes else "numbers or an array"
            got = "" if kernel.on is None else f", got {format_on(kernel.on)}"
            raise InputError(
                f"The kernel {name!r} must say which columns of a table with text, "
                f"or entries of dicts, it is on, {choice}, as '{name}:on=...'{got}."
            )
        columns_of_key: dict[str, range] = {}
        n_columns = 0
        positions: list[int] = []
        for item in items:
            key = COLUMNS if item in numbers else item
            if key not in columns_of_key:
                columns_of_key[key] = range(n_columns, n_columns + self.shapes[key])
                n_columns += self.shapes[key]
            if item in numbers:
                positions.append(columns_of_key[key][numbers.index(item)])
            else:
                positions.extend(columns_of_key[key])
        columns = find_columns(tuple(positions), n_columns)
        return View(keys=tuple(columns_of_key), columns=columns, standardize=kernel.standardize)

    def feature_count(self, name: str) -> int | None:
        """Return the dimension of a kernel's feature map on its view; None if it is infinite."""
        return self.kernels[name].feature_count(self.views[name].width(self.shapes))

    def _explicit_counts(self) -> list[int]:
        """Return the number of features of each kernel with explicit features."""
        return [self.feature_count(name) or 0 for name in self.explicit]


def _items_of_selection(on: On | list) -> tuple[Any, ...]:
    """Return the columns or entries that a kernel is ``on`` as a tuple."""
    if isinstance(on, tuple):
        return on
    return (on,)


def _refuse_dense(name: str, kernel: Kernel) -> None:
    """Raise InputError if a kernel does not read sparse matrices."""
    if not reads_sparse(kernel):
        raise InputError(
            f"The kernel {name!r} needs a dense array: "
            "sparse input serves explicit linear groups and Fourier features."
        )


def _keys_of(tokens: list) -> list[str]:
    """Return the keys of dicts, words or attributes."""
    if isinstance(tokens, (Words, AttributeLists)):
        return tokens.keys()
    return list(dict.fromkeys(chain.from_iterable(tokens)))
