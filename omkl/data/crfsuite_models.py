"""Model files of CRFsuite 0.12, as its command line and python-crfsuite write them."""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from omkl.data.files import PathLike
from omkl.exceptions import DataFileError

#: Magic, size of the file, type, version, numbers of features, labels and attributes, and where in the file features,
#: labels, attributes and two indices begin.
HEADER = struct.Struct("<4sI4sIIIIIIIII")
#: A feature: 0 for a label (``to``) at a token with an attribute (``of``), 1 for a label after another.
FEATURE = np.dtype([("kind", "<u4"), ("of", "<u4"), ("to", "<u4"), ("weight", "<f8")])
#: A table of strings begins with its magic, size, a flag, the order of bytes, and number and place of its strings.
STRINGS = struct.Struct("<4sIIIII")


class CRFsuiteModel(NamedTuple):
    """What a model of CRFsuite has learned.

    Attributes
    ----------
    labels : list of K str
    attributes : list of str
    of, to : int arrays
        The attribute and the label of each feature of tokens.
    weights : array
        Those of these features.
    transitions : array of shape (K, K)
        Scores of label ``i`` followed by ``j``.
    """

    labels: list[str]
    attributes: list[str]
    of: np.ndarray
    to: np.ndarray
    weights: np.ndarray
    transitions: np.ndarray


def read_crfsuite_model(path: PathLike) -> CRFsuiteModel:
    """Read a model file of CRFsuite, that of a first-order chain.

    Parameters
    ----------
    path : path-like
        What ``crfsuite learn -m`` or ``pycrfsuite.Trainer.train`` has written.

    Returns
    -------
    CRFsuiteModel

    Raises
    ------
    omkl.exceptions.DataFileError
        If there is no such file, or it is none of CRFsuite's, or cut short or damaged.

    See Also
    --------
    omkl.SequenceLabeler.from_crfsuite
    """
    try:
        data = Path(path).read_bytes()
    except OSError:
        raise DataFileError(f"There is no file {path} that could be read.") from None
    if data[:4] != b"lCRF":
        raise DataFileError(f"{path} is no model of CRFsuite: it does not begin with lCRF.")
    try:
        _, size, kind, _, _, n_labels, n_attributes, features_at, labels_at, attributes_at, *_ = HEADER.unpack_from(
            data
        )
        if kind != b"FOMC" or size != len(data):
            raise ValueError
        labels, attributes = _strings(data[labels_at:], n_labels), _strings(data[attributes_at:], n_attributes)
        (n_features,) = struct.unpack_from("<I", data, features_at + 8)
        features = np.frombuffer(data, FEATURE, n_features, features_at + 12)
        tokens, pairs = (features[features["kind"] == kind] for kind in (0, 1))
        if tokens["of"].max(initial=0) >= max(n_attributes, 1) or not np.isfinite(features["weight"]).all():
            raise ValueError
        transitions = np.zeros((n_labels, n_labels))
        transitions[pairs["of"], pairs["to"]] = pairs["weight"]
        of, to = tokens["of"].astype(np.int64), tokens["to"].astype(np.int64)
        np.zeros(n_labels)[to]
    except (struct.error, ValueError, IndexError, MemoryError):
        raise DataFileError(f"{path} is cut short or damaged, or no model of a chain by CRFsuite 0.12.") from None
    return CRFsuiteModel(labels, attributes, of, to, tokens["weight"].copy(), transitions)


def _strings(data: bytes, n: int) -> list[str]:
    """The n strings of a table, by their numbers."""
    magic, _, _, _, n_strings, index = STRINGS.unpack_from(data)
    if magic != b"CQDB" or n_strings < n:
        raise ValueError
    strings: list[str] = []
    for place in struct.unpack_from(f"<{n}I", data, index):
        number, length = struct.unpack_from("<II", data, place)
        if number != len(strings) or place + 8 + length > len(data):
            raise ValueError
        strings.append(data[place + 8 : place + 8 + length].rstrip(b"\0").decode())
    return strings
