"""Compilation of loops with Numba, cached on disk."""

import atexit
import gc
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial, update_wrapper
from types import CellType, FunctionType, ModuleType
from typing import Any

import numba
from llvmlite import ir
from llvmlite.binding import ModuleRef
from numba import _dynfunc, types
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import AnnotateTypes, NativeLowering
from numba.core.untyped_passes import (
    InlineClosureLikes,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
)
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
    try:
        return _cached(function, counting)
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
        return _cached(function, counting)


class Loop(CPUDispatcher):
    """A compiled function in three forms, each of which is compiled when it is needed.

    This is the form for Python. It converts arguments, which takes longer to compile than a small
    function, so the others do not.
    """

    counting: bool

    @cached_property
    def by_address(self) -> Dispatcher:
        """The form that is called by its address; see :mod:`omkl._pointers`."""
        return _dispatcher(self.py_func, self.counting, "by address", no_cpython_wrapper=True)

    @cached_property
    def _inner(self) -> Dispatcher:
        """The form for compiled callers, which is a part of them."""
        return _inner(self.py_func, self.counting)

    def get_call_template(self, args: tuple, kws: dict) -> tuple:
        """Return the template of the form for compiled callers."""
        return self._inner.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the implementation of the form for compiled callers."""
        return self._inner.get_overload(sig)


def _cached(function: Callable, counting: bool) -> Loop:
    """Return the forms of a compiled function, whose machine code is cached on disk."""
    loop = _dispatcher(function, counting, "")
    loop.__class__ = Loop
    loop.counting = counting
    return loop


def _dispatcher(function: Callable, counting: bool, form: str, **options: bool) -> Dispatcher:
    """Return a compiled function with machine code, cached under the name of its form."""
    compile_it = _njit(counting, Compiler, cache=True, **options)
    dispatcher = compile_it(_with_cache_key(function, form))
    dispatcher._cache._cache_file.__class__ = _CacheFile
    return dispatcher


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


def inner(function: Callable) -> Any:
    """Compile a function for compiled callers only.

    This saves the time to compile a form for Python. It is cached as a part of its callers.

    Parameters
    ----------
    function : callable
    """
    return _inner(function, counting=True)


def borrowing(function: Callable) -> Any:
    """Compile as :func:`inner` does, but do not count references to arrays.

    This counting costs more than the arithmetic of a round of a small model. The function must not
    create arrays, nor call functions that return arrays, since nobody would free them. Views are
    safe.

    Parameters
    ----------
    function : callable
    """
    return _inner(function, counting=False)


def _inner(function: Callable, counting: bool) -> Dispatcher:
    """Return a function for compiled callers."""
    compile_it = _njit(counting, InnerCompiler, no_cpython_wrapper=True)
    return compile_it(function)


def _njit(counting: bool, pipeline: type[CompilerBase], **options: bool) -> Callable:
    """Return Numba's decorator, with what all forms of functions have in common."""
    return numba.njit(
        nogil=True, no_cfunc_wrapper=True, _nrt=counting, pipeline_class=pipeline, **options
    )


def _with_cache_key(function: Callable, form: str) -> Callable:
    """Return a copy of a function that Numba compiles anew when what it uses has changed.

    This is about what it uses of other files. Numba's cache compares the file of a function, its
    code and the contents of its closure. So the copy has a closure with a digest of what its code
    names in other files: the source of these files, layouts, and numbers; and the form in which the
    function is compiled.
    """
    described = [form, *sorted(_uses(function))]
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


# ---- the compiler --------------------------------------------------------------------------------
# Numba optimizes every function, makes machine code of it, and optimizes its code again inside of
# each compiled caller. Here, the machine code of a function is made from the code of all functions
# that it calls, which is optimized once. A function for compiled callers has no machine code.

#: Passes of Numba for closures, ``with``, ``literal_unroll`` and listings with types.
UNUSED_PASSES = {
    InlineClosureLikes,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
    AnnotateTypes,
}


class Library(JITCodeLibrary):
    """Code of a function, which is optimized as a whole, and not before functions are linked."""

    def _optimize_functions(self, ll_module: ModuleRef) -> None:
        ll_module.data_layout = self._codegen._data_layout


class InnerLibrary(Library):
    """Code of a function for compiled callers, which optimize it."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Lowering of a function for compiled callers, without machine code."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Set the result of compilation in the state of the compiler."""
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state.cr
        described = lowered.fndesc
        no_address = 0
        entry_point = _dynfunc.make_function(
            described.lookup_module(),
            described.qualname,
            "Function for compiled callers.",
            no_address,
            lowered.env,
            (state.library,),
        )
        state.targetctx.insert_user_function(entry_point, described, [state.library])
        state.reload_init.extend(getattr(state.library, "_reload_init", ()))  # since Numba 0.61
        state.cr = lowered._replace(cfunc=entry_point)
        return True


class SharedFlags(Flags):
    """Flags that are equal if functions of Numba can be shared by functions with these flags.

    Numba compares them at each operator, and compiles its functions for unequal flags anew.
    """

    __slots__ = ("_inherited",)

    def __init__(self, copy_from: Flags) -> None:
        super().__init__(copy_from)
        self._inherited = (self.nrt, self.error_model, self.forceinline, str(self.fastmath))

    def __hash__(self) -> int:
        return hash(self._inherited)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedFlags):
            return self._inherited == other._inherited
        return NotImplemented


class Passes(PassManager):
    """Passes of the compiler, without a check of their results after each one."""

    _ENFORCING = False


class Compiler(CompilerBase):
    """Compiler of functions with machine code."""

    library: type[Library] = Library
    lowering: type[NativeLowering] = NativeLowering

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.flags = SharedFlags(self.state.flags)

    def compile_extra(self, func: Callable) -> Any:
        """Compile a function, without collections of garbage, which take a tenth of the time."""
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if is_enabled:
                gc.enable()

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes of the compiler."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = Passes("nopython")
        for step, description in DefaultPassBuilder.define_nopython_pipeline(state).passes:
            if step is NativeLowering:
                step = self.lowering
            if step not in UNUSED_PASSES:
                passes.add_pass(step, description)
        passes.finalize()
        return [passes]


class InnerCompiler(Compiler):
    """Compiler of functions for compiled callers."""

    library = InnerLibrary
    lowering = InnerLowering


# ---- intrinsics ---------------------------------------------------------------------------------


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
