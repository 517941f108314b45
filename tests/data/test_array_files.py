"""numpy's files: what no array of examples can be is refused at once, and no flipped bit makes an array vanish."""

import io
import zipfile

import numpy as np
import pytest

from omkl.data import stream_npy, stream_npz
from omkl.exceptions import DataFileError, InputError

from .stream_files import whole

HEADERS = [
    ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 0)}", "rows with nothing in them"),
    ("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000000,)}", "rows with nothing in them"),
    ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 3)}", "is cut short"),
    ("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -3)}", "negative number of rows"),
    ("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 39999999999999999999999999)}", "that no array can have"),
    ("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "that no array can have"),
    ("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", "not an array of numbers"),
    ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "not an array of numbers"),
    ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", "not an array of numbers"),
    ("{'descr': '<c16', 'fortran_order': False, 'shape': (1,)}", "not an array of numbers"),
    ("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,)}", "not an array of numbers"),
    ("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}", "does not begin as an array does"),
    ("{'descr': '<f8', 'fortran_order': False, 'shape': (1,", "does not begin as an array does"),
    ("'''", "does not begin as an array does"),
    ("(" * 500, "does not begin as an array does"),
    ("[" * 9000, "does not begin as an array does"),
    ("\0" * 30, "does not begin as an array does"),
]


def npy(header, data=b""):
    text = header.encode("latin-1").ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(("header", "message"), HEADERS)
def test_headers_of_no_array_are_refused_at_once(tmp_path, header, message):
    (tmp_path / "a.npy").write_bytes(npy(header))
    with pytest.raises(DataFileError, match=message):
        stream_npy(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", npy(header))
    with pytest.raises(DataFileError, match=f"{message}|the file is damaged"):
        whole(stream_npz(tmp_path / "a.npz"))


def test_no_flipped_bit_of_an_archive_drops_or_changes_an_array(tmp_path, rng):
    X, y = rng.standard_normal((3, 2)), np.array([0, 1, 0])
    path = tmp_path / "a.npz"
    for arrays in ({"X": X, "y": y}, {"y": y, "X": X}):
        sink = io.BytesIO()
        np.savez(sink, **arrays)
        good = sink.getvalue()
        for bit in range(0, 8 * len(good), 23):
            data = bytearray(good)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            try:
                found_X, found_y = whole(stream_npz(path))
            except InputError:
                continue
            # what nobody reads: times, versions, flags
            assert found_X.tobytes() == X.tobytes()
            assert found_y.tobytes() == y.tobytes()


def test_an_archive_with_a_comment_and_members_of_any_compression_is_read(tmp_path, rng):
    X = rng.standard_normal((3, 2))
    sink = io.BytesIO()
    np.save(sink, X)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
            archive.writestr("X.npy", sink.getvalue())
            archive.comment = b"from elsewhere"
        assert whole(stream_npz(tmp_path / "a.npz"))[0].tobytes() == X.tobytes()
