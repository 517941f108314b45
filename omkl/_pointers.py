"""Calls through pointers, and arrays behind addresses, for compiled code.

Such code knows its parts at run time only. A compiled driver takes the address of a function and
calls it with a declared signature (:class:`Signature`). So it is compiled once for all parts, and a
new part costs its own compilation only. What a part computes with lies in a :class:`Layout`: a
block of numbers with the addresses and shapes of its arrays.
"""

from _thread import interrupt_main
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_int64, c_void_p, cast
from functools import partial
from itertools import chain
from operator import is_
from threading import Timer
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.core.typing import Signature as NumbaSignature
from numba.extending import intrinsic

from omkl.exceptions import InputError

N = TypeVar("N", bound=NamedTuple)

#: Types of the arrays that parts exchange; all are contiguous.
VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
CUBE = types.float64[:, :, ::1]
INTEGERS = types.int64[::1]
INDICES = types.int32[::1]
FLAGS = types.boolean[::1]
#: Types of the numbers that parts exchange.
ADDRESS = types.int64
INTEGER = types.int64
FLOAT = types.float64
FLAG = types.boolean


class Signature:
    """A declared signature of compiled functions: types of the result and of the arguments.

    Parameters
    ----------
    name : str
        Name for error messages.
    result : numba type
    **arguments : numba types
        Types of the arguments, by their names.

    Attributes
    ----------
    numba : numba signature
        For ``numba.njit``.
    call : callable
        ``call(address, arguments)`` calls a function in compiled code; ``arguments`` is a tuple.
    """

    def __init__(self, name: str, result: types.Type, **arguments: types.Type) -> None:
        self.name = name
        self.arguments = arguments
        self.numba: NumbaSignature = result(*arguments.values())
        self.call = _INTERPRETED.call if config.DISABLE_JIT else _caller(self.numba)

    def __str__(self) -> str:
        described = ", ".join(f"{name}: {kind}" for name, kind in self.arguments.items())
        return f"{self.numba.return_type}({described})"

    __repr__ = __str__

    def address_of(self, function: Any) -> int:
        """Return the address of a compiled function, for :attr:`call`.

        Functions of omkl are compiled, or read from the cache, when compiled code calls them for
        the first time; those of users now, so that errors are raised here.

        Parameters
        ----------
        function : function with the decorator ``numba.njit``

        Raises
        ------
        InputError
            If it is no compiled function, or has another signature.
        """
        if config.DISABLE_JIT:
            return _INTERPRETED.address_of(function)
        if not isinstance(function, Dispatcher):
            raise InputError(
                f"{function!r} must be a compiled function with the decorator numba.njit."
            )
        entries = _ENTRIES.setdefault(function, {})
        if self.name not in entries:
            self._check_arguments(function)
            # that of omkl's `compiled`
            by_address = getattr(function, "by_address", function)
            entry = _Entry(partial(self._compile, by_address))
            if by_address is function:
                entry.compile()
            entries[self.name] = entry
        return entries[self.name].address

    def _check_arguments(self, function: Dispatcher) -> None:
        """Compare the arguments of a function with the declared ones."""
        expected = f"The signature of {function.py_func.__qualname__} must be {self}"
        code = function.py_func.__code__
        names = code.co_varnames[: code.co_argcount]
        if len(names) != len(self.arguments):
            raise InputError(f"{expected}, but it takes ({', '.join(names)}).")
        declared = function.nopython_signatures
        if declared and not function._can_compile and self.numba not in declared:
            arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, declared[0].args))
            raise InputError(f"{expected}, not {declared[0].return_type}({arguments}).")

    def _compile(self, function: Dispatcher) -> int:
        """Return the address of the machine code of a function."""
        if self.numba.args not in function.overloads:
            function.compile(self.numba.args)
        result = function.overloads[self.numba.args]
        if result.signature.return_type != self.numba.return_type:
            raise InputError(
                f"The signature of {function.py_func.__qualname__} must be {self}, "
                f"but it returns {result.signature.return_type}."
            )
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


#: Places in an entry: address of the machine code, 0 before the first call, and that of
#: :func:`_compile_late`.
CODE, COMPILE, N_WORDS = range(3)


class _Entry:
    """Two words of memory through which compiled code calls a function.

    Attributes
    ----------
    address : int
    """

    def __init__(self, compile_function: Callable[[], int]) -> None:
        self._compile_function = compile_function
        self._words = np.zeros(N_WORDS, dtype=np.int64)
        self._words[COMPILE] = _ADDRESS_OF_COMPILE_LATE
        self.address: int = self._words.ctypes.data
        _ENTRY_AT[self.address] = self

    def compile(self) -> None:
        """Compile the function, or read it from the cache."""
        self._words[CODE] = self._compile_function()


#: Entries of functions by the name of the signature, and by address.
#: Functions live as long as the process.
_ENTRIES: dict[Dispatcher, dict[str, _Entry]] = {}
_ENTRY_AT: dict[int, _Entry] = {}


@CFUNCTYPE(None, c_int64)
def _compile_late(address: int) -> None:
    """Compile the function of an entry, for compiled code that calls it for the first time.

    Ctrl-C waits, since an error does not get through compiled code.
    """
    try:
        _ENTRY_AT[address].compile()
    except KeyboardInterrupt:
        _ENTRY_AT[address].compile()
        Timer(SECONDS_TO_RETURN, interrupt_main).start()


_ADDRESS_OF_COMPILE_LATE = cast(_compile_late, c_void_p).value or 0
#: Time after which compiled code has gone on.
SECONDS_TO_RETURN = 0.01


class Interpreted:
    """Functions and layouts by address, for code that runs without compilation.

    This is for ``NUMBA_DISABLE_JIT=1``.
    """

    def __init__(self) -> None:
        self.functions: dict[int, Callable] = {}
        self.packed: WeakValueDictionary[int, Packed] = WeakValueDictionary()

    def address_of(self, function: Callable) -> int:
        """Return a number for a function."""
        self.functions[id(function)] = function
        return id(function)

    def call(self, address: int, arguments: tuple) -> Any:
        """Call the function of this number."""
        return self.functions[int(address)](*arguments)

    def at(self, address: int) -> Any:
        """Return the named tuple that was packed at an address."""
        return self.packed[int(address)].values


_INTERPRETED = Interpreted()


def _caller(signature: NumbaSignature) -> Callable:
    """Return an intrinsic that calls the function at an address with a tuple of arguments."""

    @intrinsic
    def call(typing_context, address, arguments):
        if not isinstance(arguments, types.BaseTuple) or len(arguments) != len(signature.args):
            return None

        def generate(context, builder, called, values):
            pointer_type = context.call_conv.get_function_type(
                signature.return_type, signature.args
            ).as_pointer()
            code = _code_of_entry(context, builder, values[0])
            function = builder.inttoptr(code, pointer_type)
            converted = []
            for position, (kind, expected_kind) in enumerate(zip(arguments, signature.args)):
                argument = builder.extract_value(values[1], position)
                converted.append(context.cast(builder, argument, kind, expected_kind))
            status, result = context.call_conv.call_function(
                builder, function, signature.return_type, signature.args, converted
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return result

        return signature.return_type(types.int64, arguments), generate

    call.cache_key = str(signature)
    return call


def _code_of_entry(context, builder, address):
    """Return the address of the machine code of an entry, which is compiled if it is not yet."""
    word = context.get_value_type(types.int64)
    entry = builder.inttoptr(address, word.as_pointer())
    not_compiled = word(0)
    with cgutils.if_unlikely(builder, builder.icmp_signed("==", builder.load(entry), not_compiled)):
        compile_type = ir.FunctionType(ir.VoidType(), [word]).as_pointer()
        compile_late = builder.load(cgutils.gep_inbounds(builder, entry, COMPILE))
        builder.call(builder.inttoptr(compile_late, compile_type), [address])
        has_failed = builder.icmp_signed("==", builder.load(entry), not_compiled)
        with cgutils.if_unlikely(builder, has_failed):
            message = ("A function could not be compiled: see the error above.",)
            context.call_conv.return_user_exc(builder, RuntimeError, message)
    return builder.load(entry)


class Layout(Generic[N]):
    """Places of the arrays and numbers of a named tuple in a block of 64-bit integers.

    An array takes its address and its shape, a number one entry.

    Parameters
    ----------
    kind : type
        Class of the named tuple.
    **fields : numba types
        Types of fields: contiguous arrays, ``INTEGER`` or ``FLOAT``. By default, an ``int`` is an
        ``INTEGER``, a ``float`` a ``FLOAT``, and an array a ``VECTOR``.

    Attributes
    ----------
    at : callable
        ``at(address)`` returns the named tuple in compiled code.
    """

    def __init__(self, kind: type[N], **fields: types.Type) -> None:
        self.kind = kind
        self.fields = {**self._default_types(), **fields}
        self.starts = {}
        self.size = 0
        self._dtypes = {}  # of arrays; looked up once, since types of Numba are slow keys
        for name in kind._fields:
            self.starts[name] = self.size
            field = self.fields[name]
            self.size += 1
            if isinstance(field, types.Array):
                self.size += field.ndim
                self._dtypes[name] = _DTYPES[field.dtype]
        self.at = _INTERPRETED.at if config.DISABLE_JIT else _reader(self)
        if not config.DISABLE_JIT:
            typed = [(name, self.fields[name]) for name in self.starts]
            self.at.cache_key = f"{kind.__name__}: {typed}"

    def _default_types(self) -> dict[str, types.Type]:
        """Return the types of fields that follow from annotations."""
        defaults = {int: INTEGER, float: FLOAT, np.ndarray: VECTOR}
        annotations = self.kind.__annotations__
        return {name: defaults[kind] for name, kind in annotations.items() if kind in defaults}

    def pack(self, values: N) -> "Packed":
        """Return the block of a named tuple, which keeps its arrays alive.

        Raises
        ------
        TypeError
            If an array has another type than declared.
        """
        entries = [0]  # of an empty named tuple
        if values:
            entries = list(chain.from_iterable(map(self._entries, self.starts, values)))
        return Packed(self, np.array(entries, dtype=np.int64), values)

    def write(self, block: np.ndarray, name: str, value: Any) -> None:
        """Write an array or a number to its place in a block."""
        entries = self._entries(name, value)
        start = self.starts[name]
        block[start : start + len(entries)] = entries

    def _entries(self, name: str, value: Any) -> tuple[int, ...]:
        """Return the entries of an array or a number in a block."""
        field = self.fields[name]
        if field is INTEGER:
            return (value,)
        if name not in self._dtypes:
            dtype = np.float64 if field == FLOAT else np.int64
            return (np.array(value, dtype).view(np.int64).item(),)
        has_type = value.dtype == self._dtypes[name] and value.ndim == field.ndim
        if not has_type or not value.flags.c_contiguous:
            raise TypeError(
                f"{self.kind.__name__}.{name} must be a contiguous array of {field}, "
                f"not {value.dtype}."
            )
        return (value.ctypes.data, *value.shape)


#: Types of entries in NumPy, in the byte order of the machine.
_DTYPES = {
    types.float64: np.dtype(np.float64),
    types.float32: np.dtype(np.float32),
    types.int64: np.dtype(np.int64),
    types.int32: np.dtype(np.int32),
    types.boolean: np.dtype(np.bool_),
}


class Packed:
    """A block of a :class:`Layout` with the arrays that it points to.

    A copy would point to the arrays of the original. So deep copies and pickles of it are None, and
    its owner packs anew where it is None, or :meth:`holds` other arrays.

    Attributes
    ----------
    address : int
    values : named tuple
    """

    __slots__ = ("__weakref__", "_block", "_layout", "address", "values")

    def __init__(self, layout: Layout, block: np.ndarray, values: Any) -> None:
        self._layout = layout
        self._block = block
        self.values = values
        self.address: int = block.ctypes.data
        if config.DISABLE_JIT:
            _INTERPRETED.packed[self.address] = self

    def holds(self, values: tuple) -> bool:
        """Return whether the block points to these very arrays, and has these numbers."""
        if all(map(is_, self.values, values)):
            return True
        for packed, value in zip(self.values, values):
            if packed is not value and (isinstance(value, np.ndarray) or packed != value):
                return False
        return True

    def set(self, **values: Any) -> None:
        """Replace some arrays or numbers."""
        packed = self.values
        changed = {}
        for name, value in values.items():
            if isinstance(value, np.ndarray) or value != getattr(packed, name):
                self._layout.write(self._block, name, value)
                changed[name] = value
        if changed:
            self.values = packed._replace(**changed)

    def __reduce__(self) -> tuple:
        return type(None), ()

    def __deepcopy__(self, memo: dict) -> None:
        return None


def _reader(layout: Layout) -> Callable:
    """Return an intrinsic that makes the named tuple from the block at an address."""
    result = types.NamedTuple([layout.fields[name] for name in layout.starts], layout.kind)

    @intrinsic
    def at(typing_context, address):
        def generate(context, builder, called, values):
            word = context.get_value_type(types.int64)
            block = builder.inttoptr(values[0], word.as_pointer())

            def entry(place):
                return builder.load(cgutils.gep_inbounds(builder, block, place))

            members = []
            for name, start in layout.starts.items():
                field = layout.fields[name]
                if isinstance(field, types.Array):
                    shape = [entry(start + 1 + axis) for axis in range(field.ndim)]
                    members.append(_array(context, builder, field, entry(start), shape))
                elif field == FLOAT:
                    members.append(builder.bitcast(entry(start), context.get_value_type(FLOAT)))
                else:
                    members.append(entry(start))
            return context.make_tuple(builder, result, members)

        return result(types.int64), generate

    return at


@intrinsic
def flat(typing_context: Any, array: Any) -> tuple:
    """Return the entries of a contiguous array as a vector, in compiled code.

    The array must outlive the vector.
    """
    vector = types.Array(array.dtype, 1, "C")

    def generate(context, builder, called, values):
        source = context.make_array(array)(context, builder, values[0])
        address = builder.ptrtoint(source.data, context.get_value_type(types.int64))
        return _array(context, builder, vector, address, [source.nitems])

    return vector(array), generate


if config.DISABLE_JIT:
    flat = np.ravel


def _array(context, builder, field, address, shape):
    """Build a contiguous array that does not own its memory."""
    item = context.get_data_type(field.dtype)
    item_size = context.get_constant(types.intp, context.get_abi_sizeof(item))
    strides = [item_size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    count = shape[0]
    for length in shape[1:]:
        count = builder.mul(count, length)
    array = context.make_array(field)(context, builder)
    array.data = builder.inttoptr(address, item.as_pointer())
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    array.itemsize = item_size
    array.nitems = count
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()
