"""Compilation of loops with Numba, cached on disk."""

import atexit
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial, update_wrapper
from types import CellType, FunctionType, ModuleType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.extending import intrinsic

from omkl.exceptions import CompilationWarning


def compiled(function: Callable | None = None, *, counting: bool = True) -> Any:
    """Compile a loop over arrays with Numba, release the GIL in it, and cache it on disk.

    The cache notices changes of the compiled functions, layouts, intrinsics and numbers of other
    files that the function uses. If neither the package's nor the user's cache directory is
    writable, the cache is temporary.

    Parameters
    ----------
    function : callable
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
    if function is None:
        return partial(compiled, counting=counting)
    if numba.config.DISABLE_JIT:
        return function
    keyed = _with_cache_key(function)
    compile_it = numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=counting)
    try:
        return _read_if_possible(compile_it(keyed))
    except RuntimeError:
        # Numba finds no writable directory: cache in one that is deleted when the process ends
        directory = tempfile.mkdtemp(prefix="omkl-numba-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = directory
        warnings.warn(
            "Compiled loops cannot be kept for the next process, which compiles them again: "
            "set NUMBA_CACHE_DIR to a directory that can be written.",
            CompilationWarning,
            stacklevel=2,
        )
        return _read_if_possible(compile_it(keyed))


class _CacheFile(IndexDataCacheFile):
    """Cache of a function, which is written anew where it cannot be read.

    It names the classes of arguments by their modules. Where another version of omkl has written
    it, a class may have moved, and Numba raises an error for ever.
    """

    def load(self, key: tuple) -> object:
        try:
            return super().load(key)
        except (AttributeError, ImportError):
            return None

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):
            return {}


def _read_if_possible(dispatcher: Dispatcher) -> Dispatcher:
    """Let a compiled function ignore a cache that cannot be read."""
    dispatcher._cache._cache_file.__class__ = _CacheFile
    return dispatcher


def inner(function: Callable) -> Any:
    """Compile a function for compiled callers only.

    This saves the time to compile a form for Python. It is cached as a part of its callers.

    Parameters
    ----------
    function : callable
    """
    return numba.njit(nogil=True, _nrt=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )


def borrowing(function: Callable) -> Any:
    """Compile as :func:`inner` does, but do not count references to arrays.

    This counting costs more than the arithmetic of a round of a small model. The function must not
    create arrays, nor call functions that return arrays, since nobody would free them. Views are
    safe.

    Parameters
    ----------
    function : callable
    """
    return numba.njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )


def _with_cache_key(function: Callable) -> Callable:
    """Return a copy of a function that Numba compiles anew when what it uses has changed.

    This is about what it uses of other files. Numba's cache compares the file of a function, its
    code and the contents of its closure. So the copy has a closure with a digest of what its code
    names in other files: the source of these files, layouts, and numbers.
    """
    described = sorted(_uses(function))
    if not described:
        return function
    digest = hashlib.sha256("".join(described).encode()).hexdigest()
    code = function.__code__.replace(co_freevars=("cache_key",))
    copy = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, (CellType(digest),)
    )
    return update_wrapper(copy, function)


def _uses(function: Any) -> set[str]:
    """Describe what a function uses of other files, directly or through other functions.

    Helpers in its own file are followed, since they may use other files; what is defined below the
    function is not, and must not use other files.
    """
    described: set[str] = set()
    modules: set[str] = set()
    followed: set[int] = set()
    waiting = [function]
    while waiting:
        user = waiting.pop()
        for name, used in _named_by(user):
            if id(used) in followed:
                continue
            followed.add(id(used))
            if isinstance(used, (int, float)):
                described.add(f"{name}={used}")
            elif isinstance(used, _Intrinsic):
                described.add(getattr(used, "cache_key", ""))
                modules.add(used._defn.__module__)
            elif isinstance(used, Dispatcher):
                waiting.append(used.py_func)
                modules.add(used.py_func.__module__)
    modules.discard(function.__module__)
    return described | set(map(_source_of_module, modules))


def _named_by(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the globals that a function uses, and of attributes of modules."""
    names = function.__code__.co_names
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            attributes = vars(value)
            yield from ((other, attributes[other]) for other in names if other in attributes)
        elif value is not None:
            yield name, value


@cache
def _source_of_module(name: str) -> str:
    """Return the source of a module."""
    return inspect.getsource(sys.modules[name])


def all_lanes(builder: ir.IRBuilder, value: ir.Value, n: int) -> ir.Value:
    """Return a vector of ``n`` lanes with the same value in all of them, for intrinsics."""
    integer = ir.IntType(32)
    undefined = ir.VectorType(value.type, n)(ir.Undefined)
    zeros = ir.VectorType(integer, n)([0] * n)
    first = builder.insert_element(undefined, value, integer(0))
    return builder.shuffle_vector(first, undefined, zeros)


@intrinsic
def prefetch(typing_context: object, address: object) -> tuple:
    """Prefetch the cache line at an address; inlined into callers."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], function_type)
        # read, highest locality, data cache
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate
