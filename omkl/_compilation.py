"""Compilation of loops with Numba, cached on disk."""

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from omkl.exceptions import CompilationWarning


def compiled(function: Callable) -> Any:
    """Compile a loop over arrays with Numba, release the GIL in it, and cache it on disk.

    If neither the package's nor the user's cache directory is writable, the cache is temporary.

    Parameters
    ----------
    function : callable
        It must call only compiled functions of the same file, because the cache does not detect changes in other files.

    Returns
    -------
    numba dispatcher
        The function itself if ``NUMBA_DISABLE_JIT`` is set.

    Warns
    -----
    CompilationWarning
        Once, if the cache is temporary.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # Numba finds no writable directory
        _use_temporary_cache()
        return numba.njit(cache=True, nogil=True)(function)


def _use_temporary_cache() -> None:
    """Let Numba cache in a directory that is deleted when the process ends."""
    directory = tempfile.mkdtemp(prefix="omkl-numba-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = directory
    warnings.warn(
        "Compiled loops cannot be kept for the next process, which compiles them again: set NUMBA_CACHE_DIR to a "
        "directory that can be written.",
        CompilationWarning,
        stacklevel=3,
    )


@intrinsic
def prefetch(typing_context: object, address: object) -> tuple:
    """Prefetch the cache line at an address; inlined into callers."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], function_type)
        # read, highest locality, data cache
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
