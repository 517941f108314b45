"""From what users pass to what groups see: arrays or dicts in, :class:`~omkl.groups.Tokens` out."""

import numpy as np
from scipy import sparse

from omkl.estimators.vocabulary import Vocabulary
from omkl.exceptions import InputError
from omkl.groups import Features, Tokens
from omkl.kernels import FeatureMap, FourierFeatures, Kernel, Linear, as_kernel

#: The only view of inputs that are plain arrays.
PLAIN = "x"
#: A finite feature map is held explicitly, unless a kernel says otherwise, up to this many features.
EXPLICIT_LIMIT = 512
DEFAULT_KERNELS = ("linear", "quadratic", "gaussian")


class Encoder:
    """Learns from training tokens what kernels and keys there are, and encodes tokens from then on.

    Tokens come as one (N, d) array, one scipy sparse (N, d) matrix, or a flat list of N dicts. In dicts, entries that
    hold arrays are views for kernels, and everything else is sparse features, each key a group.

    Parameters
    ----------
    kernels : sequence or mapping, or None
        Kernels as objects or strings, with names if it is a mapping.

    Attributes
    ----------
    kernels : dict of str to Kernel
        Fitted kernels by the name of their group.
    views : dict of str to str
        For each kernel, the view that it reads.
    explicit : list of str
        Names of the kernels that are held as explicit, sparse features.
    vocabulary : Vocabulary or None
        Sparse features; None for arrays.
    """

    def __init__(self, kernels=None):
        self._specs = kernels
        self.kernels = {}
        self.views = {}
        self.explicit = []
        self.vocabulary = None
        self.shapes = {}

    def fit(self, tokens):
        """Learn from training tokens which kernels, views and keys there are."""
        is_dicts = isinstance(tokens, list)
        self.shapes = _shapes_of_first(tokens)
        specs = self._specs
        if specs is None:
            specs = ["linear"] if is_dicts or sparse.issparse(tokens) else DEFAULT_KERNELS
            specs = specs if self.shapes else []
        named = named_kernels(specs)
        self.views = {name: self._view_of(name, kernel) for name, kernel in named}
        raw = self._read_views(tokens)
        self.kernels = {}
        for name, kernel in named:
            inputs = _select(raw, self.views[name])
            if sparse.issparse(inputs):
                _refuse_dense(name, kernel)
            self.kernels[name] = kernel.fit(inputs)
        self.explicit = [name for name in self.kernels if self._is_explicit(name)]
        if is_dicts:
            self.vocabulary = Vocabulary(first_id=self._n_kernel_features())
        if not self.kernels and not is_dicts:
            raise InputError("There is nothing to learn from: give at least one kernel.")
        return self

    def encode(self, tokens, offsets, grow=False):
        """The tokens of the sequences ``offsets[s] : offsets[s + 1]``; new keys and values are learned if ``grow``."""
        raw = self._read_views(tokens)
        views = {self.views[name]: _select(raw, self.views[name]) for name in [*self.mapped, *self.dual]}
        parts = [
            sparse.csr_array(self.kernels[name].features(_select(raw, self.views[name]))) for name in self.explicit
        ]
        features = _from_csr(sparse.hstack(parts, format="csr")) if parts else None
        if self.vocabulary is not None:
            found = self.vocabulary.encode(_without(tokens, self.shapes), grow)
            features = found if features is None else _side_by_side(features, found)
        return Tokens(offsets, features, views)

    def _read_views(self, tokens):
        """The arrays that kernels read, by name: the whole input, or entries of dicts."""
        if not isinstance(tokens, list):
            if tokens.shape[1] != self.shapes[PLAIN]:
                raise InputError(
                    f"Inputs have {tokens.shape[1]} columns, but the model was trained on {self.shapes[PLAIN]}."
                )
            if sparse.issparse(tokens):
                for name, kernel in self.kernels.items():
                    _refuse_dense(name, kernel)
            return {PLAIN: tokens}
        used = dict.fromkeys(view.partition("[")[0] for view in self.views.values())
        return {key: _stacked(tokens, key, self.shapes[key]) for key in used}

    def pack(self, packer):
        """What was learned, as JSON values; the vocabulary's features are arrays of their own."""
        return {
            "kernels": {name: packer.pack(kernel, f"the kernel {name!r}") for name, kernel in self.kernels.items()},
            "views": self.views,
            "explicit": self.explicit,
            "shapes": self.shapes,
            "keys": None if self.vocabulary is None else self.vocabulary.keys,
        }

    @classmethod
    def unpack(cls, packed, unpacker):
        """The inverse of :meth:`pack`."""
        encoder = cls()
        encoder.kernels = {name: unpacker.unpack(kernel) for name, kernel in packed["kernels"].items()}
        encoder.views, encoder.explicit, encoder.shapes = packed["views"], packed["explicit"], packed["shapes"]
        if packed["keys"] is not None:
            state = {
                name.removeprefix("vocabulary/"): array
                for name, array in unpacker.arrays.items()
                if name.startswith("vocabulary/")
            }
            encoder.vocabulary = Vocabulary.from_state(packed["keys"], encoder._n_kernel_features(), state)
        return encoder

    @property
    def dual(self):
        """Names of the kernels that are held as dual expansions."""
        return [name for name in self.kernels if name not in self.explicit and name not in self.mapped]

    @property
    def mapped(self):
        """Names of the kernels that are held by feature maps: dense features, computed where they are needed."""
        return [name for name, kernel in self.kernels.items() if _is_mapped(kernel)]

    @property
    def explicit_names(self):
        """Names of all groups of explicit features: kernels first, then keys."""
        return self.explicit + (self.vocabulary.keys if self.vocabulary is not None else [])

    def explicit_groups(self, first=0):
        """The group of every explicit feature from id ``first`` on."""
        counts = [self.feature_count(name) for name in self.explicit]
        groups = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        if self.vocabulary is None:
            return groups[first:]
        if first >= len(groups):
            return np.array(self.vocabulary.groups[first - len(groups) :], dtype=np.int32) + np.int32(len(counts))
        return np.concatenate([groups[first:], self.explicit_groups(len(groups))])

    def feature_names(self):
        """A function from the id of an explicit feature to its name."""
        counts = [self.feature_count(name) for name in self.explicit]
        starts = np.cumsum([0, *counts]).tolist()
        strings = self.vocabulary.names() if self.vocabulary is not None else []

        def name(i):
            if i >= starts[-1]:
                key, value = strings[i - starts[-1]]
                return key if value is None else f"{key}={value}"
            k = int(np.searchsorted(starts, i, side="right")) - 1
            return f"{self.explicit[k]}[{i - starts[k]}]"

        return name

    def _view_of(self, name, kernel):
        on = kernel.on
        if isinstance(on, slice):
            (whole,) = self.shapes if len(self.shapes) == 1 else (None,)
            if whole is None:
                raise InputError(
                    f"The kernel {name!r} selects columns, but there are several views: {list(self.shapes)}."
                )
            start, stop, step = on.indices(self.shapes[whole])
            if start >= stop:
                raise InputError(f"The kernel {name!r} selects no column: inputs have {self.shapes[whole]}.")
            return f"{whole}[{start}:{stop}:{step}]"
        if on is not None and on not in self.shapes:
            raise InputError(f"The kernel {name!r} is on {on!r}, which is none of the arrays {list(self.shapes)}.")
        if on is None and len(self.shapes) > 1:
            raise InputError(f"Say which of {list(self.shapes)} the kernel {name!r} is on, as in '{name}:on=...'.")
        if on is None and not self.shapes:
            raise InputError(f"The kernel {name!r} needs arrays, but the tokens hold only strings and numbers.")
        return on if on is not None else next(iter(self.shapes))

    def feature_count(self, name):
        """Dimension of a kernel's feature map on its view; None where it has none."""
        view = self.views[name]
        whole, _, columns = view.partition("[")
        n_columns = self.shapes[whole]
        if columns:
            n_columns = len(range(n_columns)[_parse_slice(columns)])
        return self.kernels[name].feature_count(n_columns)

    def _n_kernel_features(self):
        return sum(self.feature_count(name) for name in self.explicit)

    def _is_explicit(self, name):
        kernel, count = self.kernels[name], self.feature_count(name)
        if _is_mapped(kernel):
            return False
        if kernel.explicit is None:
            return count is not None and (isinstance(kernel, Linear) or count <= EXPLICIT_LIMIT)
        if kernel.explicit and count is None:
            raise InputError(f"The kernel {name!r} has no finite feature map that could be held explicitly.")
        return bool(kernel.explicit)


def flatten(X, what="X"):
    """A list of sequences as one flat collection of tokens and its offsets.

    Returns
    -------
    tokens : array (N, d) or list of N dicts
    offsets : int array of shape (number of sequences + 1,)
    """
    if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__len__"):
        raise InputError(f"{what} must be a list of sequences: arrays of shape (n, d), or lists of dicts.")
    if len(X) == 0:
        raise InputError(f"{what} is empty: give at least one sequence.")
    offsets = np.zeros(len(X) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in X], out=offsets[1:])
    first = next((sequence for sequence in X if len(sequence)), None)
    if first is None:
        raise InputError(f"{what} holds no tokens: all its sequences are empty.")
    if isinstance(first[0], dict):
        tokens = [token for sequence in X for token in sequence]
        if not all(isinstance(token, dict) for token in tokens):
            raise InputError(f"{what} mixes dicts with other tokens: every token must be a dict.")
        return tokens, offsets
    arrays = []
    for i, sequence in enumerate(X):
        try:
            array = np.asarray(sequence, dtype=np.float64)
        except (ValueError, TypeError):
            raise InputError(f"Sequence {i} of {what} is not an array of numbers.") from None
        if len(array) == 0:
            continue
        if array.ndim != 2 or (arrays and array.shape[1] != arrays[0].shape[1]):
            expected = f"(n, {arrays[0].shape[1]})" if arrays else "(n, d)"
            raise InputError(f"Sequence {i} of {what} has shape {array.shape}, not {expected}.")
        arrays.append(array)
    tokens = np.concatenate(arrays)
    if not np.isfinite(tokens).all():
        row, column = np.argwhere(~np.isfinite(tokens))[0]
        s = np.searchsorted(offsets, row, side="right") - 1
        raise InputError(
            f"Sequence {s} of {what} holds {tokens[row, column]} at token {row - offsets[s]}, column {column}: "
            "features must be finite."
        )
    return tokens, offsets


def named_kernels(specs):
    """``(name, kernel)`` of each spec; a string is its own name."""
    if isinstance(specs, (str, Kernel)) or callable(specs):
        specs = [specs]
    if isinstance(specs, dict):
        return [(name, as_kernel(spec)) for name, spec in specs.items()]
    named = [(spec if isinstance(spec, str) else None, as_kernel(spec)) for spec in specs]
    named = [(name or kernel.name, kernel) for name, kernel in named]
    names = [name for name, _ in named]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"Two kernels are called {repeated[0]!r}: name them, as in kernels={{'first': ..., 'second': ...}}."
        )
    return named


def takes_sparse(specs):
    """Whether these kernels can all be held explicitly on sparse input."""
    try:
        return specs is None or all(_reads_sparse(kernel) for _, kernel in named_kernels(specs))
    except InputError:
        return False


def _reads_sparse(kernel):
    return isinstance(kernel, (Linear, FourierFeatures)) and kernel.explicit is not False


def _refuse_dense(name, kernel):
    if not _reads_sparse(kernel):
        raise InputError(
            f"The kernel {name!r} needs a dense array: sparse input serves explicit linear groups and Fourier features."
        )


def _is_mapped(kernel):
    return isinstance(kernel, FeatureMap) and kernel.explicit is not False


def _shapes_of_first(tokens):
    """Number of columns of every view: of the whole array, or of each array in the first of the dicts."""
    if not isinstance(tokens, list):
        return {PLAIN: tokens.shape[1]}
    return {key: value.size for key, value in tokens[0].items() if isinstance(value, np.ndarray)}


def _stacked(tokens, key, n_columns):
    """The arrays under one key of all tokens, (N, n_columns), checked."""
    try:
        view = np.array([token[key] for token in tokens], dtype=np.float64)
    except (KeyError, ValueError, TypeError):
        raise InputError(f"Every token must hold an array of {n_columns} numbers under {key!r}.") from None
    if view.shape != (len(tokens), n_columns):
        raise InputError(
            f"Arrays under {key!r} have shape {view.shape[1:]}: there must be {n_columns} numbers in each."
        )
    if not np.isfinite(view).all():
        raise InputError(f"An array under {key!r} holds nan or infinite values: features must be finite.")
    return view


def _without(tokens, keys):
    """Token dicts without these keys."""
    if not keys:
        return tokens
    return [{key: value for key, value in token.items() if key not in keys} for token in tokens]


def _select(raw, view):
    whole, _, columns = view.partition("[")
    return raw[whole][:, _parse_slice(columns)] if columns else raw[whole]


def _parse_slice(text):
    return slice(*(int(bound) for bound in text.rstrip("]").split(":")))


def _from_csr(matrix):
    return Features(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64))


def _side_by_side(left, right):
    """Each token's features of both; ids are used as they are."""
    lengths = np.diff(left.starts) + np.diff(right.starts)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids, values = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1])
    for part, shift in ((left, np.zeros_like(lengths)), (right, np.diff(left.starts))):
        n = np.diff(part.starts)
        target = np.repeat(starts[:-1] + shift - part.starts[:-1], n) + np.arange(len(part.ids))
        ids[target], values[target] = part.ids, part.values
    return Features(starts, ids, values)
