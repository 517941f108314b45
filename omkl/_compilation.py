"""Loops that are compiled when they are first called, and kept on disk for the next process."""

import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from omkl.exceptions import CompilationWarning


def compiled(function: Callable) -> Any:
    """Compile a loop over arrays, without Python's lock, and keep it on disk where there is a place for it.

    Numba's own cache makes errors of a home that cannot be written, of a full disk and of damaged files. Here they
    cost time alone: the loop is compiled anew, and where that will happen in every process a
    :class:`~omkl.exceptions.CompilationWarning` says so once.

    Parameters
    ----------
    function : callable
        It calls compiled functions of its own file alone: what is kept does not notice others that have changed.

    Returns
    -------
    callable
        A dispatcher of Numba, or the function itself where ``NUMBA_DISABLE_JIT`` is set.
    """
    dispatcher = njit(nogil=True)(function)
    if isinstance(dispatcher, CPUDispatcher):
        try:
            dispatcher._cache = _Kept(function)
        except RuntimeError:  # neither beside the source nor in the user's own cache can anything be written
            _warn("there is no place for them")
    return dispatcher


@cache  # Numba hands on warnings of loops that others call, once for each of these
def _warn(why: str) -> None:
    warnings.warn(
        f"Compiled loops are not kept for the next process: {why}. "
        "Set NUMBA_CACHE_DIR to a directory that can be written.",
        CompilationWarning,
        stacklevel=2,
    )


class _Files(IndexDataCacheFile):
    """Compiled forms in files that are named after source and signature.

    Numba numbers them: of two processes that compile one loop for different arguments at once, one could be given what
    the other has kept, and call it; and after an update what an older source has left there.
    """

    def save(self, key: Any, data: Any) -> None:
        digest = hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()[:16]
        name = f"{self._index_name.removesuffix('.nbi')}.{digest}.nbc"
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


class _Kept(FunctionCache):
    """Compiled forms of one loop on disk."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        locator, base = self._impl.locator, self._impl.filename_base
        self._cache_file = _Files(self.cache_path, base, locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # of a damaged file, anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(error.strerror or str(error))
