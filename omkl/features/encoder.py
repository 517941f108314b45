"""Encoder of arrays, dicts, words or attributes to :class:`~omkl.groups.Tokens`."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

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
    numbers_of,
    stacked,
)
from omkl.features.vocabulary import AttributeLists, Vocabulary, features_of_ids
from omkl.features.words import TEMPLATES, WordEncoder, Words
from omkl.groups.tokens import Features, Tokens, features_of, side_by_side
from omkl.kernels import FeatureMap, Kernel, Linear
from omkl.kernels.inputs import Vectors, find_columns, format_on
from omkl.kernels.specs import KernelSpecs, named_kernels, reads_sparse
from omkl.persistence import Manifest, Packer, Unpacker

#: Maximum number of features of kernels that are stored explicitly by default.
EXPLICIT_LIMIT = 512
#: Up to this number of training rows, default kernels are exact; for more rows, and streams, they
#: have features.
EXACT_UP_TO = 2000
#: Widths of default Gaussian kernels on standardized columns, per column: the mean squared distance
#: is 2.
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
        self._specs, self.in_sequences, self.missing = kernels, in_sequences, missing
        self._asked, self.lexicons = lexicons, dict[str, Lexicon]()
        self.kernels: dict[str, Kernel] = {}
        self.views: dict[str, View] = {}
        self.vocabulary: Vocabulary | None = None
        self.shapes: dict[str, int] = {}
        self.numbers: list[str] | None = None
        self.scales: dict[str, ColumnScales] = {}
        self.names: list[str] | None = None
        self._words: WordEncoder | None = None
        self._are_sparse = False

    def fit(self, data: TokenData) -> "Encoder":
        """Learn kernels and views from training tokens, and scales of columns if these are all
        training data.
        """
        tokens, names = data.inputs, data.names
        self.lexicons = as_lexicons(self._asked, [template.name for template in TEMPLATES])
        if self.lexicons and not isinstance(tokens, Words):
            found = type(tokens[0]).__name__ if isinstance(tokens, list) else "array"
            raise InputError(
                f"`lexicons` look up words: each token must be a string, got tokens of type {found}."
            )
        self.shapes, self.names = (
            data.shapes_of_first(),
            None if names is None else [str(name) for name in names],
        )
        named = None if self._specs is None else named_kernels(self._specs)
        if isinstance(tokens, list):
            self.numbers = self._columns_of_dicts(
                data, None if named is None else [kernel for _, kernel in named]
            )
            self.shapes |= {COLUMNS: len(self.numbers)} if self.numbers else {}
        named = self._default_kernels(data) if named is None else named
        if not isinstance(tokens, list):
            named = [(name, kernel.placed(tokens.shape[1], names)) for name, kernel in named]
        self.views = {name: self._view_of(name, kernel) for name, kernel in named}
        self._are_sparse = sparse.issparse(tokens)
        self.start_scales()
        entries = self._entries(tokens, data.token_weights)
        for name, kernel in named:
            inputs = self.views[name].select(entries)
            if sparse.issparse(inputs):
                _refuse_dense(name, kernel)
            if kernel.standardize == "range" and not data.whole:
                raise InputError(
                    f"The kernel {name!r} needs the ranges of all rows: in streams, use standardize=True."
                )
            if (
                kernel.standardize and not data.whole
            ):  # widths do not depend on the first rows of a stream
                inputs = np.random.default_rng(0).normal(size=(SAMPLE, inputs.shape[1]))
            elif data.distinct is not None:
                inputs = inputs[data.distinct]
            self.kernels[name] = kernel.fit_view(inputs)
        self._arrange()
        if not data.whole:  # rows count when they are encoded for training
            self.start_scales()
        if isinstance(tokens, list) or (self.missing == "indicator" and not self._are_sparse):
            self.vocabulary = Vocabulary(first_id=self._n_kernel_features())
        if not isinstance(tokens, list) and not self.kernels:
            raise InputError(f"kernels must hold at least one kernel, got {self._specs!r}.")
        return self

    def _columns_of_dicts(self, data: TokenData, kernels: list[Kernel] | None) -> list[str]:
        """Return the keys of dicts whose numbers are columns for kernels (None: the default ones)."""
        selected = [kernel.on for kernel in kernels or ()]
        if not self.in_sequences and not self.shapes and (kernels is None or None in selected):
            return data.number_keys()
        items = chain.from_iterable(on if isinstance(on, tuple) else (on,) for on in selected)
        keys = [
            key for key in dict.fromkeys(items) if isinstance(key, str) and key not in self.shapes
        ]
        return [key for key in keys if data.has_number(key)]

    def _default_kernels(self, data: TokenData) -> list[tuple[str, Kernel]]:
        """Return the kernels of a model whose user gives none."""
        key = self._table
        if sparse.issparse(data.inputs) or key not in self.shapes:
            return named_kernels(["linear"] if self.shapes else [])
        if self.in_sequences:
            return named_kernels(["linear", "quadratic", "gaussian"])
        # exact kernels for a few rows, else with a bounded size
        d, exact = self.shapes[key], data.total <= EXACT_UP_TO
        features = "" if exact else f",features={FEATURES}"
        specs = {"linear": "linear:standardize=True"}
        if exact or math.comb(d + 2, 2) <= EXPLICIT_LIMIT:
            specs["quadratic"] = "quadratic:standardize=True"
        specs["gaussian"] = f"gaussian:standardize=True,sigma2={WIDTH * d}{features}"
        seed = "" if exact else ",seed=1"
        specs["narrow gaussian"] = f"gaussian:standardize=True,sigma2={NARROW * d}{features}{seed}"
        if exact:  # columns of equal units, such as pixels, keep their relative scales
            specs["quadratic:ranges"] = "quadratic:standardize=range"
        return named_kernels(specs)

    def start_scales(self) -> None:
        """Start the scales of the entries of kernels on standardized columns, and of those with
        missing numbers.
        """
        scaled = {key for view in self.views.values() if view.standardize for key in view.keys}
        if self.missing == "indicator":
            scaled.add(self._table)
        shapes = {} if self._are_sparse else self.shapes
        self.scales = {key: ColumnScales(d) for key, d in shapes.items() if key in scaled}

    @property
    def _table(self) -> str:
        """Name of the entry whose columns are the numbers of rows."""
        return PLAIN if self.numbers is None else COLUMNS

    def _table_columns(self, d: int) -> list[str]:
        """Names of the columns of numbers, or their positions as strings."""
        return list((self.names if self.numbers is None else self.numbers) or map(str, range(d)))

    def column_scales(self) -> dict[str, tuple[float, float]]:
        """Return the mean and the standard deviation of each column of numbers."""
        scales = self.scales.get(self._table, ColumnScales(0))
        names = self._table_columns(len(scales.means))
        return dict(zip(names, zip(scales.means.tolist(), scales.deviations.tolist())))

    def _arrange(self) -> None:
        """Determine the representation of each kernel."""
        maps = {name: own for name, own in self.kernels.items() if isinstance(own, FeatureMap)}
        self.mapped = [name for name, own in maps.items() if own.explicit is not False]
        self.explicit: list[str] = []
        self.dual: list[str] = []
        for name, kernel in self.kernels.items():
            if name in self.mapped:
                continue
            count, is_explicit = self.feature_count(name), kernel.explicit
            if is_explicit is None:
                is_explicit = count is not None and (
                    isinstance(kernel, Linear) or count <= EXPLICIT_LIMIT
                )
            elif is_explicit and count is None:
                raise InputError(
                    f"The kernel {name!r} has no finite feature map that could be held explicitly."
                )
            (self.explicit if is_explicit else self.dual).append(name)
        #: Views for banks, by label; computed once, because this takes as long as encoding a row.
        self._read_by_banks = {
            self.views[name].label: self.views[name] for name in [*self.mapped, *self.dual]
        }

    def encode(
        self,
        tokens: FlatTokens,
        offsets: np.ndarray,
        grow: bool = False,
        weights: np.ndarray | None = None,
    ) -> Tokens:
        """Encode tokens; sequence s is ``offsets[s] : offsets[s + 1]``; ``grow`` adds new keys and
        values.

        If ``weights`` of the tokens are given, the scales of columns learn from each token before
        it is encoded.
        """
        entries = self._entries(tokens, weights)
        views = {label: view.select(entries) for label, view in self._read_by_banks.items()}
        parts = [
            self.kernels[name].features(self.views[name].select(entries)) for name in self.explicit
        ]
        features = features_of(parts) if parts else None
        for found in self._sparse(tokens, entries.missing, offsets, grow):
            features = found if features is None else side_by_side(features, found)
        return Tokens(offsets, features, views)

    def new_keys(self, tokens: FlatTokens) -> Iterator[str]:
        """Yield the unknown keys of tokens."""
        if self.vocabulary is not None:
            known = {*self.shapes, *(self.numbers or ()), *self.vocabulary.ids}
            found = _keys_of(tokens) if isinstance(tokens, list) else []
            gaps = [MISSING] if self._entries(tokens).missing is not None else []
            yield from (key for key in [*found, *gaps] if key not in known)

    def absent_keys(self, tokens: FlatTokens) -> list[str]:
        """Return known keys of sparse features that no token has, and that are not absent by
        chance.
        """
        if self.vocabulary is None or not isinstance(tokens, list):
            return []
        expected = self.vocabulary.expected_in(len(tokens))
        if expected and isinstance(tokens, (Words, AttributeLists)):
            encoder = self._words if isinstance(tokens, Words) else None
            found = set(tokens.keys()) if encoder is None else encoder.keys
            return [key for key in expected if key not in found]
        return [
            key
            for key in expected
            if key != MISSING and all(token.get(key) is None for token in tokens)
        ]

    def _sparse(
        self, tokens: FlatTokens, missing: np.ndarray | None, offsets: np.ndarray, grow: bool
    ) -> Iterator[Features]:
        """Yield the sparse features of dicts, words or attributes, and those that say which numbers
        are missing.
        """
        vocabulary = self.vocabulary
        if vocabulary is None:
            return
        if isinstance(tokens, Words):
            if not grow:
                self._check_known(tokens.keys(), vocabulary)
            self._words = self._words or WordEncoder(vocabulary, self.lexicons)
            yield self._words.encode(tokens, offsets, grow)
        elif isinstance(tokens, list):
            is_dicts = not isinstance(tokens, AttributeLists)
            if is_dicts and self.shapes:
                dense = {*self.shapes, *(self.numbers or ())}
                tokens = [
                    {key: value for key, value in token.items() if key not in dense}
                    for token in tokens
                ]
            found = vocabulary.encode(tokens, grow)
            if not grow and not len(found.ids) and (self.in_sequences or not is_dicts):
                self._check_known(_keys_of(tokens), vocabulary)
            yield found
        if missing is not None:
            ids = np.full(missing.shape[1], -1, np.int32)
            if (
                grow or MISSING in vocabulary.ids
            ):  # all, so that ids do not depend on which is missing first
                ids = vocabulary.look_up(MISSING, self._table_columns(len(ids)), grow).ids
            yield features_of_ids(np.where(missing, ids, np.int32(-1)))
        elif not isinstance(tokens, list) and not self.explicit:
            yield Features(np.zeros(len(tokens) + 1, np.int64), np.empty(0, np.int32), np.empty(0))

    def _check_known(self, keys: Sequence[str], vocabulary: Vocabulary) -> None:
        """Raise InputError if there are keys, and all are unknown."""
        if keys and all(known.keys().isdisjoint(keys) for known in (vocabulary.ids, self.shapes)):
            raise InputError(
                f"The model knows no feature of these tokens, such as {keys[0]!r}: it was trained on tokens with "
                f"{', '.join(map(repr, vocabulary.keys[:3]))}."
            )

    def _entries(self, tokens: FlatTokens, weights: np.ndarray | None = None) -> Entries:
        """Return the entries that kernels use; their scales learn from the tokens if their
        ``weights`` are given.
        """
        raw, standardized, missing = dict(self._read(tokens)), {}, None
        for name, scales in self.scales.items():
            own = raw[name]
            raw[name], standardized[name] = (
                scales.apply(own) if weights is None else scales.follow(own, weights)
            )
            if name == self._table and self.missing == "indicator" and np.isnan(own).any():
                missing = np.isnan(own)
        return Entries(raw, standardized, self.scales, missing)

    def _read(self, tokens: FlatTokens) -> dict[str, Vectors]:
        """Return the input array, or arrays of entries of dicts, by name."""
        width, is_list = (
            self.shapes[PLAIN] if self.numbers is None else None,
            isinstance(tokens, list),
        )
        are_dicts = isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], dict)
        if (are_dicts and width is not None) or (not is_list and tokens.shape[1] != width):
            known = {} if self.vocabulary is None else self.vocabulary.ids
            learned = (
                "words"
                if all(own.name in known for own in TEMPLATES)
                else "dicts or a table with text"
            )
            learned = learned if width is None else f"rows of {width} numbers"
            found = "dicts" if is_list else f"rows of {tokens.shape[1]} numbers"
            raise InputError(f"The model was trained on {learned}, got {found}.")
        if not isinstance(tokens, list):
            for name, kernel in self.kernels.items() if sparse.issparse(tokens) else ():
                _refuse_dense(name, kernel)
            return {PLAIN: tokens}
        dicts = tokens if are_dicts else [{}] * len(tokens)
        arrays: dict[str, Vectors] = {}
        if self.numbers:
            arrays[COLUMNS] = table = numbers_of(dicts, self.numbers)
            if self.missing == "error" and np.isnan(table).any():
                for key in self.numbers:
                    stacked([token.get(key) for token in dicts], key, 1)  # names the row
        used = dict.fromkeys(
            key for view in self.views.values() for key in view.keys if key != COLUMNS
        )
        return arrays | {
            key: stacked([token.get(key) for token in dicts], key, self.shapes[key]) for key in used
        }

    def pack(self, packer: Packer, kept: np.ndarray | None = None) -> Manifest:
        """Return everything learned as JSON values and arrays; ``kept`` is a mask of features of
        the vocabulary.
        """
        packer.arrays.update(pack_lexicons(self.lexicons) | self.arrays())
        if self.vocabulary is not None:
            packer.arrays.update(
                {f"vocabulary/{key}": own for key, own in self.vocabulary.state(kept).items()}
            )
        return {
            "kernels": {
                name: packer.pack(own, f"the kernel {name!r}") for name, own in self.kernels.items()
            },
            "shapes": self.shapes,
            "scales": list(self.scales),
            "names": self.names,
            "numbers": self.numbers,
            "missing": self.missing,
            "keys": None if self.vocabulary is None else self.vocabulary.keys,
            "lexicons": list(self.lexicons),
        }

    def arrays(self, before: bool = False) -> dict[str, np.ndarray]:
        """Return the scales as arrays, now or ``before`` the last tokens from which they learned."""
        return {
            f"scales/{key}": own.before if before else own.state()
            for key, own in self.scales.items()
        }

    @classmethod
    def unpack(cls, packed: Manifest, unpacker: Unpacker, in_sequences: bool) -> "Encoder":
        """The inverse of :meth:`pack`."""
        encoder = cls(in_sequences=in_sequences, missing=packed["missing"])
        encoder.kernels = {
            name: unpacker.unpack(kernel) for name, kernel in packed["kernels"].items()
        }
        encoder.shapes, encoder.names, encoder.numbers = (
            packed["shapes"],
            packed["names"],
            packed["numbers"],
        )
        encoder.scales = {
            key: ColumnScales.from_state(unpacker.arrays[f"scales/{key}"])
            for key in packed["scales"]
        }
        encoder.lexicons = unpack_lexicons(packed["lexicons"], unpacker.arrays)
        encoder.views = {
            name: encoder._view_of(name, kernel) for name, kernel in encoder.kernels.items()
        }
        encoder._arrange()
        if packed["keys"] is not None:
            state = {name: unpacker.arrays[f"vocabulary/{name}"] for name in ("learned", "groups")}
            encoder.vocabulary = Vocabulary.from_state(
                packed["keys"], encoder._n_kernel_features(), state
            )
        return encoder

    @property
    def explicit_names(self) -> list[str]:
        """Names of all groups of explicit features: kernels first, then keys."""
        return self.explicit + (self.vocabulary.keys if self.vocabulary is not None else [])

    def explicit_groups(self, first: int = 0) -> np.ndarray:
        """Return the group of every explicit feature from id ``first`` on."""
        counts: list[Any] = [self.feature_count(name) for name in self.explicit]
        groups = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        of_keys = (
            [] if self.vocabulary is None else self.vocabulary.groups[max(first - len(groups), 0) :]
        )
        return np.concatenate([groups[first:], np.array(of_keys, np.int32) + np.int32(len(counts))])

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the names of explicit features by id: ``key=value``, or as by
        :meth:`name_of_part`.
        """
        starts = np.cumsum([0, *(self.feature_count(name) or 0 for name in self.explicit)]).tolist()
        wanted = set(ids)
        owners = {i: bisect_right(starts, i) - 1 for i in wanted if i < starts[-1]}
        names = {i: self.name_of_part(self.explicit[k], i - starts[k]) for i, k in owners.items()}
        return (
            names
            if self.vocabulary is None
            else names | self.vocabulary.names_of(wanted - names.keys())
        )

    def name_of_part(self, name: str, i: int) -> str:
        """Return the name of part i of a kernel with explicit features: ``kernel[column]``,
        ``kernel[landmark 3]``.
        """
        width = self.views[name].width(self.shapes)
        return f"{name}[{self.kernels[name].part_name(i, self.columns_of(name), width)}]"

    def columns_of(self, name: str) -> Callable[[int], str]:
        """Return a function from the number of a column of a kernel to its name."""
        names = {PLAIN: self.names, COLUMNS: self.numbers}
        return partial(self.views[name].column_name, shapes=self.shapes, names=names)

    def _view_of(self, name: str, kernel: Kernel) -> View:
        on, numbers, standardize = kernel.on, self.numbers or [], kernel.standardize
        named = [item for item in (on if isinstance(on, tuple) else (on,)) if isinstance(item, str)]
        vectors = {
            key: width for key, width in self.shapes.items() if key != COLUMNS
        } or self.shapes
        if not named and len(vectors) == 1:
            ((key, width),) = vectors.items()
            return View((key,), find_columns(on, width, kernel=name), standardize)
        known = [key for key in named if key in vectors or key in numbers]
        if not named or len(known) < (len(on) if isinstance(on, tuple) else 1):
            choice = f"one of {[*vectors, *numbers]}" if self.shapes else "numbers or an array"
            given = "" if on is None else f", got {format_on(on)}"
            raise InputError(
                f"The kernel {name!r} must say which columns of a table with text, or entries of dicts, it is on, "
                f"{choice}, as '{name}:on=...'{given}."
            )
        keys = tuple(dict.fromkeys(COLUMNS if key in numbers else key for key in named))
        starts = dict(zip(keys, np.cumsum([0, *(self.shapes[key] for key in keys)]).tolist()))
        columns = [
            starts[COLUMNS] + numbers.index(key)
            if key in numbers
            else range(starts[key], starts[key] + vectors[key])
            for key in named
        ]
        flat = tuple(chain.from_iterable([own] if isinstance(own, int) else own for own in columns))
        return View(keys, find_columns(flat, sum(self.shapes[key] for key in keys)), standardize)

    def feature_count(self, name: str) -> int | None:
        """Return the dimension of a kernel's feature map on its view; None if there is no finite
        map.
        """
        return self.kernels[name].feature_count(self.views[name].width(self.shapes))

    def _n_kernel_features(self) -> int:
        return sum(self.feature_count(name) or 0 for name in self.explicit)


def _refuse_dense(name: str, kernel: Kernel) -> None:
    if not reads_sparse(kernel):
        raise InputError(
            f"The kernel {name!r} needs a dense array: sparse input serves explicit linear groups and Fourier features."
        )


def _keys_of(tokens: FlatTokens) -> list[str]:
    """Return the keys of dicts, words or attributes."""
    if isinstance(tokens, (Words, AttributeLists)):
        return tokens.keys()
    return list(dict.fromkeys(chain.from_iterable(tokens)))
