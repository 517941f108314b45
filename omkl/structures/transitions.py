"""Allowed transitions of labels: from a chunking scheme such as BIO, or user-defined."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.exceptions import InputError

#: For each chunking scheme: the kinds of labels that may begin a sequence, that may end one, and that may follow each
#: kind. A kind in lower case must belong to the same chunk.
SCHEMES = {
    "BIO": ("OB", "OBI", {"O": "OB", "B": "OBi", "I": "OBi"}),
    "BIOES": ("OBS", "OES", {"O": "OBS", "B": "ie", "I": "ie", "E": "OBS", "S": "OBS"}),
}
ALIASES = {"IOB2": "BIO", "IOBES": "BIOES", "BILOU": "BIOES"}
#: Names of BILOU for the ends of chunks.
SYNONYMS = {"L": "E", "U": "S"}


class AllowedTransitions(NamedTuple):
    """Constraints on labellings.

    Attributes
    ----------
    following : bool array of shape (K, K)
        True where label ``j`` may follow ``i``.
    first, last : bool arrays of shape (K,)
        True where a sequence may begin, or end, with a label.
    """

    following: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def first_violation(self, labels: np.ndarray, offsets: np.ndarray) -> int | None:
        """Return the position of the first label that is not allowed, or None.

        Parameters
        ----------
        labels : int array of shape (n,)
            Labels of all sequences, concatenated; -1 for an unknown label.
        offsets : int array of shape (number of sequences + 1,)
        """
        (begins, ends), known = ends_of(offsets), labels >= 0
        wrong = np.zeros(len(labels), dtype=bool)
        wrong[1:] = known[1:] & known[:-1] & ~self.following[labels[:-1], labels[1:]]
        wrong[begins] = known[begins] & ~self.first[labels[begins]]
        wrong[ends] |= known[ends] & ~self.last[labels[ends]]
        return int(np.argmax(wrong)) if wrong.any() else None


def ends_of(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the first and of the last token of each sequence that has tokens."""
    some = np.diff(offsets) > 0
    return offsets[:-1][some], offsets[1:][some] - 1


def allowed_transitions(spec: Any, labels: Sequence[Any]) -> AllowedTransitions:
    """Return the transitions between these labels that ``spec`` allows.

    Parameters
    ----------
    spec : str, dict or bool array of shape (K, K)
        The name of a chunking scheme, ``"BIO"`` or ``"BIOES"``, whose labels are ``O``, ``B-PER`` and so on, or all
        without types: ``O``, ``B``, ``I``. Or a dict from a label to the labels that may follow it, and from None to
        the labels that may begin a sequence; any label may follow a missing key. Or a matrix with a row per label, in
        the order of ``labels``.
    labels : sequence of K labels

    Raises
    ------
    omkl.exceptions.InputError
        If the scheme is unknown, a label does not fit it, or the dict names unknown labels.
    """
    if isinstance(spec, str):
        return _of_scheme(spec, labels)
    n_labels, index = len(labels), {label: k for k, label in enumerate(labels)}
    allowed = AllowedTransitions(np.ones((n_labels, n_labels), dtype=bool), *np.ones((2, n_labels), dtype=bool))
    if isinstance(spec, Mapping):
        for label, followers in spec.items():
            followers = list(followers)
            unknown = [other for other in [*([] if label is None else [label]), *followers] if other not in index]
            if unknown:
                raise InputError(
                    f"allowed_transitions names {unknown[0]!r}, which is not one of the {n_labels} labels, such as "
                    f"{', '.join(map(repr, labels[:3]))}."
                )
            row = allowed.first if label is None else allowed.following[index[label]]
            row[:] = False
            row[[index[other] for other in followers]] = True
        return allowed
    try:
        following = np.array(spec)
    except ValueError:
        following = np.zeros(0)
    if following.shape != (n_labels, n_labels) or not np.isin(following, (0, 1)).all():
        raise InputError(
            'allowed_transitions must be "BIO", "BIOES", a dict from a label to the labels that may follow it, or a '
            f"({n_labels}, {n_labels}) matrix of True and False in the order of the sorted labels, not {spec!r:.60}."
        )
    return allowed._replace(following=following.astype(bool))


def _of_scheme(name: str, labels: Sequence[Any]) -> AllowedTransitions:
    scheme = ALIASES.get(name.upper(), name.upper())
    if scheme not in SCHEMES:
        raise InputError(f"Unknown transitions {name!r}: choose BIO or BIOES, or give a dict or a matrix.")
    first, last, following = SCHEMES[scheme]
    typed = "B" not in labels and "I" not in labels
    split = [_kind_and_chunk(label, name, following, typed) for label in labels]
    allowed = [
        [to in following[of] or (to.lower() in following[of] and own == other) for to, other in split]
        for of, own in split
    ]
    begins, ends = ([kind in kinds for kind, _ in split] for kinds in (first, last))
    return AllowedTransitions(np.array(allowed), np.array(begins), np.array(ends))


def _kind_and_chunk(label: Any, name: str, kinds: Mapping[str, str], typed: bool) -> tuple[str, str]:
    """Split ``B-PER`` into ``("B", "PER")``, and ``B`` without types into ``("B", "")``."""
    kind, dash, chunk = label.partition("-") if isinstance(label, str) else ("", "", "")
    kind = SYNONYMS.get(kind, kind) if name.upper() == "BILOU" else kind
    if kind not in kinds or not (chunk if typed and kind != "O" else not dash):
        known = [f"{k}-X" if typed and k != "O" else k for k in kinds]
        raise InputError(
            f"The label {label!r} is not in {name}, which has {', '.join(known)}: correct it, or choose other "
            "transitions."
        )
    return kind, chunk
