"""The UCI and IDA benchmark sets that papers on batch MKL use: two classes, one CSV table each."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from omkl.data.files import PathLike, find, open_text
from omkl.exceptions import DataFileError, InputError


def read_uci(name_or_path: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Read a benchmark set.

    Parameters
    ----------
    name_or_path : str or path-like
        A bare word is a name: ``"ionosphere"``, ``"pima"``, ``"sonar"``, ``"splice"``, ``"liver"``, ``"wpbc"``,
        ``"ringnorm"``, ``"twonorm"`` or ``"waveform"``, read from ``uci/NAME.csv.gz`` below
        :func:`~omkl.data.data_home`. Anything else is the path of a table, compressed (``.gz``, ``.xz``) or not:
        comma-separated numbers under a header; the last column, ``y``, holds the labels -1 and +1.

    Returns
    -------
    X : float array (n, d)
        The features, as they are in the file: neither scaled nor imputed.
    y : int array (n,)
        The labels, -1 or +1.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, cut short, or a line of it is not as described; the message names the line.
    """
    path = name_or_path
    if str(path).isidentifier():
        path = find(f"uci/{path}.csv.gz", "run data_scripts/fetch_uci.py, or set OMKL_DATA to the folder that has it.")
    with open_text(path) as file:
        header = file.readline().rstrip("\n").split(",")
        if len(header) < 2 or header[-1] != "y":
            raise DataFileError(f"{path}, line 1: expected a header, names of features and then y.")
        rows = [_row(line.split(","), len(header), f"{path}, line {number}") for number, line in enumerate(file, 2)]
    if not rows:
        raise DataFileError(f"{path} holds no sample.")
    table = np.array(rows)
    return table[:, :-1].copy(), table[:, -1].astype(int)


def _row(fields, n_columns, where):
    try:
        row = np.array(fields, dtype=float)
    except ValueError:
        row = np.empty(0)
    if len(row) != n_columns or not np.isfinite(row).all():
        raise DataFileError(f"{where}: expected {n_columns} numbers.")
    if abs(row[-1]) != 1:
        raise DataFileError(f"{where}: the label is {row[-1]:g}, not -1 or 1.")
    return row


def standardized_split(
    X: ArrayLike,
    y: ArrayLike,
    train_size: float = 0.8,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split samples at random, and give every feature mean 0 and variance 1 on the training part.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
    train_size : float or int
        The training part as a fraction of the samples, in (0, 1), or as their number, 1 to n - 1.
    random_state : int, RandomState or None
        The same seed, the same split.

    Returns
    -------
    X_train, X_test, y_train, y_test : arrays
        A feature that is constant on the training part is 0 there.

    Raises
    ------
    omkl.exceptions.InputError
        If one of the parts would be empty, or X and y differ in length.

    Examples
    --------
    >>> X_train, X_test, y_train, y_test = standardized_split([[1.0], [2.0], [4.0]], [1, -1, 1], 2, random_state=0)
    >>> X_train.ravel().tolist(), X_test.shape
    ([1.0, -1.0], (1, 1))
    """
    try:
        X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=train_size, random_state=random_state)
        scaler = StandardScaler().fit(X_train)
        return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test
    except ValueError as error:
        raise InputError(f"The samples cannot be split: {error}") from None
