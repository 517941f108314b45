"""Damaged files of NumPy."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl.data import stream_npz
from omkl.exceptions import DataFileError, InputError


def array_file(header, data=b""):
    text = (header + "\n").encode()
    return np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text + data


def described(shape, dtype="<f8", order=False):
    return f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}}}"


@pytest.mark.parametrize(
    "content",
    [
        array_file(described((2, 2)), b"x" * 31),
        array_file(described((-1, 2)), b"x" * 16),
        array_file(described((2**40, 2**40)), b"x" * 16),
        array_file(described((2,), "|O"), b"x" * 16),
        array_file(described((2,), "<M8[s]"), b"x" * 16),
        array_file(described((), "<f8"), b"x" * 8),
        array_file(described((3, 0))),
        array_file("{'descr': '<f8'}"),
        array_file("[" * 3000),
        b"no array",
        b"",
    ],
)
def test_files_that_hold_no_rows_are_refused(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", content)
    with pytest.raises(DataFileError):
        stream_npz(tmp_path / "a.npz").read()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@given(data=st.data())
def test_a_flipped_bit_of_an_archive_is_harmless_or_refused(save, data, tmp_path_factory):
    sink = io.BytesIO()
    X = np.arange(12.0).reshape(6, 2)
    y = np.arange(6)
    save(sink, X=X, y=y)
    content = bytearray(sink.getvalue())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.mktemp("flipped") / "a.npz"
    path.write_bytes(content)
    try:
        block = stream_npz(path, block_size=4).read()
    except InputError:
        return
    assert block.X.tobytes() == X.tobytes()
    assert block.y.tobytes() == y.tobytes()
