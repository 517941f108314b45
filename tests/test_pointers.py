"""Compare calls by address and named tuples behind addresses with Python's own."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import time
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from omkl import _pointers
from omkl._compilation import compiled
from omkl._pointers import (
    CUBE,
    FLAGS,
    FLOAT,
    INDICES,
    INTEGER,
    INTEGERS,
    MATRIX,
    VECTOR,
    Layout,
    Signature,
    flat,
)
from omkl.exceptions import InputError
from omkl.signatures import LOSS_OF_NUMBER, PROX

needs_compilation = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
MAP = Signature("map", types.float64, x=types.float64, parameters=VECTOR)
call_map = MAP.call


class Everything(NamedTuple):
    """A field of each type."""

    count: int
    vector: np.ndarray
    matrix: np.ndarray
    cube: np.ndarray
    integers: np.ndarray
    indices: np.ndarray
    flags: np.ndarray
    short: np.ndarray
    size: float


EVERYTHING = Layout(
    Everything,
    count=INTEGER,
    vector=VECTOR,
    matrix=MATRIX,
    cube=CUBE,
    integers=INTEGERS,
    indices=INDICES,
    flags=FLAGS,
    short=types.float32[:, ::1],
    size=FLOAT,
)
everything_at = EVERYTHING.at


@numba.njit
def read(address, vector, matrix, cube, integers, indices, flags, short):
    """Copy all fields."""
    bundle = everything_at(address)
    vector[:] = bundle.vector
    matrix[:] = bundle.matrix
    cube[:] = bundle.cube
    integers[:] = bundle.integers
    indices[:] = bundle.indices
    flags[:] = bundle.flags
    short[:] = bundle.short
    return bundle.count, bundle.size


@numba.njit
def shapes_at(address):
    bundle = everything_at(address)
    return bundle.vector.shape, bundle.matrix.shape, bundle.cube.shape, bundle.short.shape


@numba.njit
def double(address):
    """Multiply the entries of the arrays of two fields by 2."""
    bundle = everything_at(address)
    entries = flat(bundle.cube)
    for i in range(len(entries)):
        entries[i] *= 2.0
    for i in range(bundle.vector.shape[0]):
        bundle.vector[i] *= 2.0


@numba.njit
def map_by_address(address, x, parameters):
    return call_map(address, (x, parameters))


@numba.njit
def add_parameter(x, parameters):
    return x + parameters[0]


@numba.njit
def divide_by_parameter(x, parameters):
    if parameters[0] == 0.0:
        raise ZeroDivisionError("no parameter")
    return x / parameters[0]


@pytest.fixture
def everything(rng):
    return Everything(
        count=-(2**40),
        vector=rng.normal(size=5),
        matrix=rng.normal(size=(2, 3)),
        cube=rng.normal(size=(2, 3, 4)),
        integers=rng.integers(-(2**60), 2**60, size=3),
        indices=rng.integers(-100, 100, size=4, dtype=np.int32),
        flags=rng.random(7) < 0.5,
        short=rng.normal(size=(3, 2)).astype(np.float32),
        size=-0.1,
    )


def arrays_of(values):
    return [value for value in values if isinstance(value, np.ndarray)]


@pytest.mark.slow
def test_all_types_of_fields_are_read_as_they_were_packed(everything):
    packed = EVERYTHING.pack(everything)
    read_arrays = [np.zeros_like(array) for array in arrays_of(everything)]
    assert read(packed.address, *read_arrays) == (everything.count, everything.size)
    for array, expected in zip(read_arrays, arrays_of(everything)):
        assert_array_equal(array, expected)


def test_empty_arrays_keep_their_shapes(everything):
    empty = everything._replace(
        vector=np.zeros(0),
        matrix=np.zeros((0, 3)),
        cube=np.zeros((2, 0, 4)),
        short=np.zeros((3, 0), np.float32),
    )
    packed = EVERYTHING.pack(empty)
    assert shapes_at(packed.address) == ((0,), (0, 3), (2, 0, 4), (3, 0))


def test_compiled_code_writes_to_the_packed_arrays(everything):
    before = copy.deepcopy(everything)
    packed = EVERYTHING.pack(everything)
    double(packed.address)
    assert_array_equal(everything.cube, 2.0 * before.cube)
    assert_array_equal(everything.vector, 2.0 * before.vector)
    assert_array_equal(everything.matrix, before.matrix)


def test_a_block_keeps_its_arrays_alive(everything):
    expected = [array.copy() for array in arrays_of(everything)]
    packed = EVERYTHING.pack(Everything(*[copy.deepcopy(value) for value in everything]))
    gc.collect()
    # would take freed memory
    others = [np.full(array.shape, 7, dtype=array.dtype) for array in expected]
    read_arrays = [np.zeros_like(array) for array in expected]
    read(packed.address, *read_arrays)
    for array, expected_array in zip(read_arrays, expected):
        assert_array_equal(array, expected_array)
    assert len(others) == len(expected)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("vector", np.zeros(5, dtype=np.float32)),
        ("vector", np.zeros(5, dtype=np.int64)),
        ("vector", np.zeros((5, 1))),
        ("vector", np.zeros(10)[::2]),
        ("matrix", np.zeros((3, 2)).T),
        ("matrix", np.zeros(6)),
        ("integers", np.zeros(3, dtype=np.int32)),
        ("indices", np.zeros(3, dtype=np.int64)),
        ("flags", np.zeros(7, dtype=np.uint8)),
        ("short", np.zeros((3, 2))),
        ("vector", np.zeros(5, dtype=">f8")),
    ],
)
def test_arrays_of_another_type_are_refused(everything, field, wrong):
    with pytest.raises(TypeError, match=f"Everything.{field} must be a contiguous array"):
        EVERYTHING.pack(everything._replace(**{field: wrong}))
    packed = EVERYTHING.pack(everything)
    with pytest.raises(TypeError, match=f"Everything.{field} must be a contiguous array"):
        packed.set(**{field: wrong})


def test_fields_are_set_one_by_one(everything):
    packed = EVERYTHING.pack(everything)
    address = packed.address
    longer = np.arange(9.0)
    packed.set(vector=longer, count=3, size=0.5)
    assert packed.address == address
    read_arrays = [np.zeros_like(array) for array in arrays_of(everything._replace(vector=longer))]
    assert read(address, *read_arrays) == (3, 0.5)
    assert_array_equal(read_arrays[0], longer)
    assert_array_equal(read_arrays[1], everything.matrix)


def test_a_block_holds_the_arrays_themselves_and_equal_numbers(everything):
    packed = EVERYTHING.pack(everything)
    assert packed.holds(everything)
    assert packed.holds(everything._replace(count=int(str(everything.count))))
    assert not packed.holds(everything._replace(matrix=everything.matrix.copy()))
    assert not packed.holds(everything._replace(size=0.25))
    packed.set(size=0.25)
    assert packed.holds(everything._replace(size=0.25))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda block: pickle.loads(pickle.dumps(block))]
)
def test_copies_keep_no_addresses(everything, copied):
    packed = EVERYTHING.pack(everything)
    assert copied(packed) is None
    owner = copied({"packed": packed, "vector": everything.vector})
    if copied is not copy.copy:
        assert owner["packed"] is None
    assert_array_equal(owner["vector"], everything.vector)


def test_one_caller_calls_all_functions_of_a_signature():
    parameters = np.array([4.0])
    for function, expected in ((add_parameter, 6.0), (divide_by_parameter, 0.5)):
        assert map_by_address(MAP.address_of(function), 2.0, parameters) == expected
        assert MAP.address_of(function) == MAP.address_of(function)


@compiled(counting=False)
def subtract_parameter(x, parameters):
    return x - parameters[0]


@needs_compilation
def test_functions_of_omkl_are_compiled_when_they_are_called_by_address():
    address = MAP.address_of(subtract_parameter)
    assert not subtract_parameter.by_address.overloads
    assert map_by_address(address, 2.0, np.array([4.0])) == -2.0
    assert subtract_parameter.by_address.overloads
    assert not subtract_parameter.overloads


@needs_compilation
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_function_that_cannot_be_compiled_is_an_error():
    def fail():
        raise OSError("no room for the cache")

    entry = _pointers._Entry(fail)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="could not be compiled"):
            map_by_address(entry.address, 2.0, np.array([4.0]))


@needs_compilation
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_waits_for_a_function_that_is_compiled():
    code = MAP._compile(subtract_parameter.by_address)
    outcomes = [KeyboardInterrupt, None]

    def interrupted():
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return code

    entry = _pointers._Entry(interrupted)

    def call_and_wait():
        outcomes.append(map_by_address(entry.address, 2.0, np.array([4.0])))
        for _ in range(1000):  # Python raises the error between two instructions of a loop
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        call_and_wait()
    assert outcomes == [-2.0]
    assert map_by_address(entry.address, 2.0, np.array([4.0])) == -2.0


def test_arguments_are_converted_to_the_declared_types():
    assert map_by_address(MAP.address_of(divide_by_parameter), 1, np.array([4.0])) == 0.25


def test_exceptions_reach_the_caller():
    with pytest.raises(ZeroDivisionError, match="no parameter"):
        map_by_address(
            MAP.address_of(divide_by_parameter),
            2.0,
            np.array([0.0]),
        )
    assert map_by_address(MAP.address_of(divide_by_parameter), 2.0, np.array([1.0])) == 2.0


@needs_compilation
def test_a_declared_signature_is_accepted():
    @numba.njit(MAP.numba)
    def declared(x, parameters):
        return 3.0 * x

    assert map_by_address(MAP.address_of(declared), 2.0, np.empty(0)) == 6.0


@needs_compilation
def test_a_function_may_have_several_signatures():
    @numba.njit
    def either(x, parameters):
        return x

    other = Signature("integers", types.int64, x=types.int64, parameters=VECTOR)
    assert MAP.address_of(either) != other.address_of(either)
    assert map_by_address(MAP.address_of(either), 0.5, np.empty(0)) == 0.5


@needs_compilation
def test_another_declared_signature_is_refused_and_both_are_shown():
    @numba.njit(types.float64(types.float64, types.float64))
    def of_two(x, other):
        return x

    @numba.njit(types.float64(types.float32, VECTOR))
    def of_single_precision(x, numbers):
        return x

    @numba.njit(types.float64(types.float64, types.float64[:]))
    def of_any_vector(x, numbers):
        return x

    expected = r"must be float64\(x: float64, parameters: array\(float64, 1d, C\)\)"
    for function, declared in (
        (of_two, r"float64\(x: float64, other: float64\)"),
        (of_single_precision, r"float64\(x: float32, numbers: array\(float64, 1d, C\)\)"),
        (of_any_vector, r"float64\(x: float64, numbers: array\(float64, 1d, A\)\)"),
    ):
        with pytest.raises(InputError, match=f"{function.__name__} {expected}, not {declared}"):
            MAP.address_of(function)


@needs_compilation
def test_another_number_of_arguments_is_refused():
    @numba.njit
    def of_one(x):
        return x

    @numba.njit(PROX.numba)
    def of_four(norms, step, parameters, memory):
        norms[0] = 0.0

    with pytest.raises(InputError, match=r"of_one must be .*parameters.*, but it takes \(x\)"):
        MAP.address_of(of_one)
    with pytest.raises(
        InputError, match=r"of_four must be .*but it takes \(norms, step, parameters, memory\)"
    ):
        LOSS_OF_NUMBER.address_of(of_four)


@needs_compilation
def test_another_type_of_the_result_is_refused():
    @numba.njit
    def to_pair(x, parameters):
        return x, x

    @numba.njit
    def to_nothing(x, parameters):
        parameters[0] = x

    for function, kind in ((to_pair, r"UniTuple\(float64 x 2\)"), (to_nothing, "none")):
        for _ in range(2):
            with pytest.raises(InputError, match=f"must be float64.*, but it returns {kind}"):
                MAP.address_of(function)


@needs_compilation
@pytest.mark.parametrize(
    "function", [abs, lambda x, parameters: x, None, 3], ids=["builtin", "lambda", "None", "number"]
)
def test_what_is_not_compiled_is_refused(function):
    with pytest.raises(
        InputError, match=r"must be a compiled function with the decorator numba\.njit"
    ):
        MAP.address_of(function)


@needs_compilation
def test_a_call_with_another_number_of_arguments_is_not_compiled():
    @numba.njit
    def short_of_one(address, x):
        return call_map(address, (x,))

    with pytest.raises(numba.TypingError):
        short_of_one(MAP.address_of(add_parameter), 2.0)


@pytest.mark.slow
def test_all_works_without_compilation():
    """The other tests of this file pass in a process where Numba compiles nothing."""
    if numba.config.DISABLE_JIT:
        pytest.skip("they run in this one")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--no-header",
        __file__,
    ]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout
