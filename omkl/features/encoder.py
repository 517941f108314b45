"""Encoder of arrays, dicts, words or attributes to :class:`~omkl.groups.Tokens`."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from omkl.exceptions import InputError
from omkl.features.lexicons import Lexicon, LexiconSource, as_lexicons, pack_lexicons, unpack_lexicons
from omkl.features.views import (
    PLAIN,
    FlatTokens,
    View,
    is_number_in,
    scaled,
    scales_of_numbers,
    shapes_of_first,
    stacked,
    warn_of_units,
)
from omkl.features.vocabulary import AttributeLists, Vocabulary
from omkl.features.words import TEMPLATES, WordEncoder, Words
from omkl.groups.tokens import Features, Tokens
from omkl.kernels import FeatureMap, Kernel, Linear, as_kernel
from omkl.kernels.gram import check_kernel_names
from omkl.kernels.inputs import Vectors, find_columns, format_on
from omkl.kernels.specs import KernelSpec
from omkl.persistence import Manifest, Packer, Unpacker

#: Kernels as given by users.
KernelSpecs: TypeAlias = KernelSpec | Sequence[KernelSpec] | Mapping[str, KernelSpec]

#: Maximum number of features of kernels that are stored explicitly by default.
EXPLICIT_LIMIT = 512
DEFAULT_KERNELS = ("linear", "quadratic", "gaussian")


class Encoder:
    """Encoder of tokens; learns kernels and keys of features from training tokens.

    Tokens are an (N, d) array, a scipy sparse (N, d) matrix, or a flat list of N dicts, words, or lists of attributes.
    In dicts, arrays are views for kernels, and so are numbers that a kernel selects with ``on``. All other entries are
    sparse features, and each of their keys is a group.

    Parameters
    ----------
    kernels : sequence or mapping, or None
        Kernels as objects or strings. A mapping gives them names.
    in_sequences : bool
        Whether tokens come in sequences; if so, encoding raises an error if no feature is known.
    lexicons : mapping, optional
        Lexicons of words by name, as for :class:`~omkl.SequenceLabeler`.

    Attributes
    ----------
    kernels : dict of str to Kernel
        Fitted kernels by the name of their group.
    views : dict of str to View
        Input array of each kernel.
    explicit, mapped, dual : list of str
        Names of the kernels with explicit sparse features, with dense features computed on demand, and with dual
        expansions.
    vocabulary : Vocabulary or None
        Sparse features; None for arrays.
    shapes : dict of str to int
        Number of columns of each entry that kernels use.
    scales : dict of str to (float, float)
        Mean and standard deviation of each column of numbers beside text, for default kernels.
    lexicons : dict of str to Lexicon
    names : list of str or None
        Names of the columns of an array.
    """

    def __init__(
        self,
        kernels: KernelSpecs | None = None,
        in_sequences: bool = False,
        lexicons: Mapping[str, LexiconSource] | None = None,
    ) -> None:
        self._specs, self.in_sequences = kernels, in_sequences
        self._asked, self.lexicons = lexicons, dict[str, Lexicon]()
        self.kernels: dict[str, Kernel] = {}
        self.views: dict[str, View] = {}
        self.vocabulary: Vocabulary | None = None
        self.shapes: dict[str, int] = {}
        self.scales: dict[str, tuple[float, float]] = {}
        self.names: list[str] | None = None
        self._words: WordEncoder | None = None

    def fit(self, tokens: FlatTokens, names: Sequence[str] | None = None) -> "Encoder":
        """Learn kernels and views from training tokens; ``names`` are the column names of an array."""
        self.lexicons = as_lexicons(self._asked, [template.name for template in TEMPLATES])
        if self.lexicons and not isinstance(tokens, Words):
            found = type(tokens[0]).__name__ if isinstance(tokens, list) else "array"
            raise InputError(f"`lexicons` look up words: each token must be a string, got tokens of type {found}.")
        self.shapes, self.names = shapes_of_first(tokens), None if names is None else [str(name) for name in names]
        specs = self._default_kernels(tokens) if self._specs is None else self._specs
        named = named_kernels(specs)
        if not isinstance(tokens, list):
            named = [(name, kernel.placed(tokens.shape[1], names)) for name, kernel in named]
        self.views = {name: self._view_of(name, kernel, tokens) for name, kernel in named}
        raw = self._read_views(tokens)
        for name, kernel in named:
            inputs = self.views[name].select(raw)
            if sparse.issparse(inputs):
                _refuse_dense(name, kernel)
            self.kernels[name] = kernel.fit_view(inputs)
        self._arrange()
        if isinstance(tokens, list):
            self.vocabulary = Vocabulary(first_id=self._n_kernel_features())
        elif not self.kernels:
            raise InputError(f"kernels must hold at least one kernel, got {specs!r}.")
        return self

    def _default_kernels(self, tokens: FlatTokens) -> KernelSpecs:
        """Return the default kernels, and learn the scales of numbers beside text."""
        if not isinstance(tokens, list):
            if sparse.issparse(tokens):
                return ["linear"]
            warn_of_units(tokens, self.names)
            return DEFAULT_KERNELS
        if self.names is not None and isinstance(tokens[0], dict) and not self.shapes:
            self.scales = scales_of_numbers(tokens, self.names)
            self.shapes = dict.fromkeys(self.scales, 1)
            if self.scales:
                return {name: as_kernel(name).restricted(list(self.scales)) for name in DEFAULT_KERNELS}
        return ["linear"] if self.shapes else []

    def _arrange(self) -> None:
        """Determine the representation of each kernel."""
        self.mapped = [name for name, own in self.kernels.items() if _is_mapped(own)]
        self.explicit = [name for name in self.kernels if name not in self.mapped and self._is_explicit(name)]
        self.dual = [name for name in self.kernels if name not in self.explicit and name not in self.mapped]
        #: Views for banks, by label; computed once, because this takes as long as encoding a row.
        self._read_by_banks = {self.views[name].label: self.views[name] for name in [*self.mapped, *self.dual]}

    def encode(self, tokens: FlatTokens, offsets: np.ndarray, grow: bool = False) -> Tokens:
        """Encode tokens; sequence s is ``offsets[s] : offsets[s + 1]``; ``grow`` adds new keys and values."""
        raw = self._read_views(tokens)
        views = {label: view.select(raw) for label, view in self._read_by_banks.items()}
        parts = [self.kernels[name].features(self.views[name].select(raw)) for name in self.explicit]
        features = _joined(parts) if parts else None
        if self.vocabulary is not None and isinstance(tokens, list):
            found = self._sparse(tokens, offsets, grow, self.vocabulary)
            features = found if features is None else _side_by_side(features, found)
        return Tokens(offsets, features, views)

    def new_keys(self, tokens: FlatTokens) -> Iterator[str]:
        """Yield the unknown keys of tokens."""
        if self.vocabulary is not None:
            known = self.shapes.keys() | self.vocabulary.ids.keys()
            yield from (key for key in _keys_of(tokens) if key not in known)

    def absent_keys(self, tokens: FlatTokens) -> list[str]:
        """Return known keys of sparse features that no token has, and that are not absent by chance."""
        if self.vocabulary is None or not isinstance(tokens, list):
            return []
        expected = self.vocabulary.expected_in(len(tokens))
        if expected and isinstance(tokens, (Words, AttributeLists)):
            encoder = self._words if isinstance(tokens, Words) else None
            found = set(tokens.keys()) if encoder is None else encoder.keys
            return [key for key in expected if key not in found]
        return [key for key in expected if all(token.get(key) is None for token in tokens)]

    def _sparse(self, tokens: list, offsets: np.ndarray, grow: bool, vocabulary: Vocabulary) -> Features:
        """Encode the sparse features of dicts, words or attributes."""
        if isinstance(tokens, Words):
            if not grow:
                self._check_known(tokens.keys(), vocabulary)
            self._words = self._words or WordEncoder(vocabulary, self.lexicons)
            return self._words.encode(tokens, offsets, grow)
        is_dicts = not isinstance(tokens, AttributeLists)
        if is_dicts and self.shapes:
            shapes = self.shapes
            tokens = [{key: value for key, value in token.items() if key not in shapes} for token in tokens]
        found = vocabulary.encode(tokens, grow)
        if not grow and not len(found.ids) and (self.in_sequences or not is_dicts):
            self._check_known(_keys_of(tokens), vocabulary)
        return found

    def _check_known(self, keys: Sequence[str], vocabulary: Vocabulary) -> None:
        """Raise InputError if there are keys, and all are unknown."""
        if keys and all(known.keys().isdisjoint(keys) for known in (vocabulary.ids, self.shapes)):
            raise InputError(
                f"The model knows no feature of these tokens, such as {keys[0]!r}: it was trained on tokens with "
                f"{', '.join(map(repr, vocabulary.keys[:3]))}."
            )

    @staticmethod
    def _learned_tokens(vocabulary: Vocabulary) -> str:
        """Name the tokens of training for messages."""
        are_words = all(template.name in vocabulary.ids for template in TEMPLATES)
        return "words" if are_words else "dicts or a table with text"

    def _read_views(self, tokens: FlatTokens) -> dict[str, Vectors]:
        """Return the input array, or arrays of entries of dicts, by name."""
        width = self.shapes.get(PLAIN) if self.vocabulary is None else None
        is_list = isinstance(tokens, list)
        are_dicts = isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], dict) and PLAIN not in tokens[0]
        if (are_dicts and width is not None) or (not is_list and tokens.shape[1] != width):
            learned = f"rows of {width} numbers" if self.vocabulary is None else self._learned_tokens(self.vocabulary)
            found = "dicts" if is_list else f"rows of {tokens.shape[1]} numbers"
            raise InputError(f"The model was trained on {learned}, got {found}.")
        if not isinstance(tokens, list):
            for name, kernel in self.kernels.items() if sparse.issparse(tokens) else ():
                _refuse_dense(name, kernel)
            return {PLAIN: tokens}
        used = dict.fromkeys(key for view in self.views.values() for key in view.keys)
        dicts = [token if isinstance(token, dict) else {} for token in tokens] if used and not are_dicts else tokens
        return {
            key: scaled(dicts, key, self.scales[key])
            if key in self.scales
            else stacked([token.get(key) for token in dicts], key, self.shapes[key])
            for key in used
        }

    def pack(self, packer: Packer) -> Manifest:
        """Return everything learned except the features of the vocabulary as JSON values, with arrays of lexicons."""
        packer.arrays.update(pack_lexicons(self.lexicons))
        return {
            "kernels": {name: packer.pack(own, f"the kernel {name!r}") for name, own in self.kernels.items()},
            "shapes": self.shapes,
            "scales": self.scales,
            "names": self.names,
            "keys": None if self.vocabulary is None else self.vocabulary.keys,
            "lexicons": list(self.lexicons),
        }

    @classmethod
    def unpack(cls, packed: Manifest, unpacker: Unpacker, in_sequences: bool) -> "Encoder":
        """The inverse of :meth:`pack`."""
        encoder = cls(in_sequences=in_sequences)
        encoder.kernels = {name: unpacker.unpack(kernel) for name, kernel in packed["kernels"].items()}
        encoder.shapes, encoder.scales, encoder.names = packed["shapes"], packed["scales"], packed["names"]
        encoder.lexicons = unpack_lexicons(packed["lexicons"], unpacker.arrays)
        encoder.views = {name: encoder._view_of(name, kernel, []) for name, kernel in encoder.kernels.items()}
        encoder._arrange()
        if packed["keys"] is not None:
            prefix, arrays = "vocabulary/", unpacker.arrays
            state = {name.removeprefix(prefix): own for name, own in arrays.items() if name.startswith(prefix)}
            encoder.vocabulary = Vocabulary.from_state(packed["keys"], encoder._n_kernel_features(), state)
        return encoder

    @property
    def explicit_names(self) -> list[str]:
        """Names of all groups of explicit features: kernels first, then keys."""
        return self.explicit + (self.vocabulary.keys if self.vocabulary is not None else [])

    def explicit_groups(self, first: int = 0) -> np.ndarray:
        """Return the group of every explicit feature from id ``first`` on."""
        counts: list[Any] = [self.feature_count(name) for name in self.explicit]
        groups = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        if self.vocabulary is None:
            return groups[first:]
        if first >= len(groups):
            return np.array(self.vocabulary.groups[first - len(groups) :], dtype=np.int32) + np.int32(len(counts))
        return np.concatenate([groups[first:], self.explicit_groups(len(groups))])

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the names of explicit features by id: ``key=value``, or as by :meth:`name_of_part`."""
        starts = np.cumsum([0, *(self.feature_count(name) or 0 for name in self.explicit)]).tolist()
        wanted = set(ids)
        owners = {i: bisect_right(starts, i) - 1 for i in wanted if i < starts[-1]}
        names = {i: self.name_of_part(self.explicit[k], i - starts[k]) for i, k in owners.items()}
        return names if self.vocabulary is None else names | self.vocabulary.names_of(wanted - names.keys())

    def name_of_part(self, name: str, i: int) -> str:
        """Return the name of part i of a kernel with explicit features: ``kernel[column]``, ``kernel[landmark 3]``."""
        width = self.views[name].width(self.shapes)
        return f"{name}[{self.kernels[name].part_name(i, self.columns_of(name), width)}]"

    def columns_of(self, name: str) -> Callable[[int], str]:
        """Return a function from the number of a column of a kernel to its name."""
        return partial(self.views[name].column_name, shapes=self.shapes, names=self.names)

    def _view_of(self, name: str, kernel: Kernel, tokens: FlatTokens) -> View:
        on = kernel.on
        named = [item for item in (on if isinstance(on, tuple) else (on,)) if isinstance(item, str)]
        if not named and len(self.shapes) == 1:
            ((key, width),) = self.shapes.items()
            return View((key,), find_columns(on, width, kernel=name))
        known = [key for key in named if key in self.shapes or is_number_in(tokens, key)]
        if not named or len(known) < (len(on) if isinstance(on, tuple) else 1):
            choice = f"one of {list(self.shapes)}" if self.shapes else "numbers or an array"
            given = "" if on is None else f", got {format_on(on)}"
            raise InputError(
                f"The kernel {name!r} must say which columns of a table with text, or entries of dicts, it is on, "
                f"{choice}, as '{name}:on=...'{given}."
            )
        self.shapes.update({key: 1 for key in named if key not in self.shapes})
        return View(tuple(named), None)

    def feature_count(self, name: str) -> int | None:
        """Return the dimension of a kernel's feature map on its view; None if there is no finite map."""
        return self.kernels[name].feature_count(self.views[name].width(self.shapes))

    def _n_kernel_features(self) -> int:
        return sum(self.feature_count(name) or 0 for name in self.explicit)

    def _is_explicit(self, name: str) -> bool:
        kernel, count = self.kernels[name], self.feature_count(name)
        if kernel.explicit is None:
            return count is not None and (isinstance(kernel, Linear) or count <= EXPLICIT_LIMIT)
        if kernel.explicit and count is None:
            raise InputError(f"The kernel {name!r} has no finite feature map that could be held explicitly.")
        return bool(kernel.explicit)


def named_kernels(specs: KernelSpecs) -> list[tuple[str, Kernel]]:
    """Return ``(name, kernel)`` of each spec; a string is its own name."""
    listed = _listed(specs)
    kernels = list(map(as_kernel, listed))
    if isinstance(specs, dict):
        check_kernel_names(specs)
        return list(zip(specs, kernels))
    names = [spec if isinstance(spec, str) else kernel.name for spec, kernel in zip(listed, kernels)]
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise InputError(f"Two kernels are called {repeated[0]!r}: name them, as in kernels={{'first': ...}}.")
    return list(zip(names, kernels))


def _listed(specs: KernelSpecs) -> list[KernelSpec]:
    if isinstance(specs, (str, Kernel)) or callable(specs):
        return [specs]
    if not isinstance(specs, (Sequence, Mapping)):
        raise InputError(f"kernels must be a list or dict of kernels, or one of them, got {specs!r}.")
    return list(specs.values() if isinstance(specs, Mapping) else specs)


def takes_sparse(specs: KernelSpecs | None) -> bool:
    """Check whether all these kernels support sparse input."""
    try:
        return specs is None or all(map(_reads_sparse, map(as_kernel, _listed(specs))))
    except InputError:
        return False


def _reads_sparse(kernel: Kernel) -> bool:
    return kernel.maps_sparse and kernel.explicit is not False


def _refuse_dense(name: str, kernel: Kernel) -> None:
    if not _reads_sparse(kernel):
        raise InputError(
            f"The kernel {name!r} needs a dense array: sparse input serves explicit linear groups and Fourier features."
        )


def _is_mapped(kernel: Kernel) -> bool:
    return isinstance(kernel, FeatureMap) and kernel.explicit is not False


def _keys_of(tokens: FlatTokens) -> list[str]:
    """Return the keys of dicts, words or attributes."""
    if isinstance(tokens, (Words, AttributeLists)):
        return tokens.keys()
    return list(dict.fromkeys(chain.from_iterable(tokens)))


def _joined(parts: list[Vectors]) -> Features:
    """Concatenate the features of several kernels, arrays or sparse matrices, per token."""
    if any(map(sparse.issparse, parts)):
        csr = sparse.hstack(list(map(sparse.csr_array, parts)), format="csr")
        return Features(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(np.float64))
    matrix = parts[0] if len(parts) == 1 else np.hstack(parts)
    if len(matrix) == 1:  # the same in fewer calls
        (ids,) = np.nonzero(matrix[0])
        return Features(np.array([0, len(ids)]), ids.astype(np.int32), matrix[0][ids].astype(np.float64, copy=False))
    kept, (n, width) = matrix != 0.0, matrix.shape
    if kept.all():  # the same in less time and memory
        ids = np.tile(np.arange(width, dtype=np.int32), n)
        return Features(width * np.arange(n + 1), ids, matrix.ravel().astype(np.float64, copy=False))
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
    ids = (np.flatnonzero(kept) % width).astype(np.int32)
    return Features(starts, ids, matrix[kept].astype(np.float64, copy=False))


def _side_by_side(left: Features, right: Features) -> Features:
    """Concatenate two sets of features per token; ids are not changed."""
    lengths = np.diff(left.starts) + np.diff(right.starts)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids, values = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1])
    for part, shift in ((left, np.zeros_like(lengths)), (right, np.diff(left.starts))):
        n = np.diff(part.starts)
        target = np.repeat(starts[:-1] + shift - part.starts[:-1], n) + np.arange(len(part.ids))
        ids[target], values[target] = part.ids, part.values
    return Features(starts, ids, values)
