"""Compilation of loops with Numba, cached on disk."""

import atexit
import hashlib
import inspect
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from omkl.exceptions import CompilationWarning


def compiled(function: Callable, counting: bool = True) -> Any:
    """Compile a loop over arrays with Numba, release the GIL in it, and cache it on disk.

    If neither the package's nor the user's cache directory is writable, the cache is temporary.

    Parameters
    ----------
    function : callable
        It calls compiled functions of its own file only: the cache does not notice changes of other files, see
        :func:`stamp_of`.
    counting : bool
        Whether to count references to arrays; see :func:`borrowing`.

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
        return numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=counting)(function)
    except RuntimeError:  # Numba finds no writable directory: cache in one that is deleted when the process ends
        directory = tempfile.mkdtemp(prefix="omkl-numba-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = directory
        warnings.warn(
            "Compiled loops cannot be kept for the next process, which compiles them again: set NUMBA_CACHE_DIR to a "
            "directory that can be written.",
            CompilationWarning,
            stacklevel=2,
        )
        return numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=counting)(function)


def inner(function: Callable) -> Any:
    """Compile a function for compiled callers only, which saves the time to compile a form for Python.

    It is cached as a part of its callers. Those in other files need a stamp of its file, see :func:`stamp_of`.

    Parameters
    ----------
    function : callable
    """
    return numba.njit(nogil=True, _nrt=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def borrowing(function: Callable) -> Any:
    """Compile as :func:`inner` does, but do not count references to arrays.

    This counting costs more than the arithmetic of a round of a small model. The function must not create arrays, nor
    call functions that return arrays, since nobody would free them. Views are safe.

    Parameters
    ----------
    function : callable
    """
    return numba.njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def stamp_of(*modules: ModuleType) -> str:
    """Return a digest of the sources of some modules.

    A compiled function that calls functions of other files reads a digest of them from the function around it. Numba's
    cache compares such values, and so notices changes of these files.
    """
    return hashlib.sha256("".join(map(inspect.getsource, modules)).encode()).hexdigest()


def all_lanes(builder: ir.IRBuilder, value: ir.Value, n: int) -> ir.Value:
    """Return a vector of ``n`` lanes with the same value in all of them, for intrinsics."""
    many, zeros = ir.VectorType(value.type, n), ir.VectorType(ir.IntType(32), n)([0] * n)
    first = builder.insert_element(many(ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(first, many(ir.Undefined), zeros)


@intrinsic
def prefetch(typing_context: object, address: object) -> tuple:
    """Prefetch the cache line at an address; inlined into callers."""

    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], function_type)
        # read, highest locality, data cache
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
