"""Compiled parser of svmlight's format: ``label index:value index:value ... # comment``."""

import numpy as np

from omkl._compilation import compiled

NEWLINE, HASH, PLUS, MINUS, DOT, ZERO, NINE, COLON = b"\n#+-.09:"
BLANKS = tuple(b" \t\r\x0b\x0c")

#: Integers up to this one are exact floats, and so are these powers of ten: a quotient of them is the nearest float.
EXACT_INTEGER = 1 << 53
POWERS = np.array([float(10**k) for k in range(23)])
#: Column indices have 32 bits.
MOST_FEATURES = (1 << 31) - 1


@compiled
def parse(data, first_index, n_features, columns, numbers, unread):
    """Parse labels and values, except for numbers with an exponent or many digits, which Python must read.

    Parameters
    ----------
    data : uint8 array
        A text that ends with a newline.
    first_index : int
        Number of the first feature in the text: 0 or 1.
    n_features : int
    columns, numbers : int32 and float64 arrays (at least as many as there are lines and colons,)
        Outputs. The column of a label is -1.
    unread : int64 array (as many, 3)
        Output. The place in ``numbers``, the begin and the end of each number that Python must read.

    Returns
    -------
    n : int
        Number of labels and values, or -1 if an index is invalid.
    n_unread : int
    """
    i = n = n_unread = 0
    last = -2  # at the begin of a line
    while i < data.shape[0]:
        if data[i] == NEWLINE:
            last = -2
            i += 1
        elif data[i] == HASH:
            while data[i] != NEWLINE:
                i += 1
        elif data[i] in BLANKS:
            i += 1
        else:
            columns[n] = -1
            if last > -2:
                index, begin = 0, i
                while data[i] >= ZERO and data[i] <= NINE:
                    if index < MOST_FEATURES:
                        index = 10 * index + np.int64(data[i]) - ZERO
                    i += 1
                index -= first_index
                if i == begin or data[i] != COLON or index <= last or index >= n_features:
                    return -1, 0
                columns[n] = index
                i += 1
            last = columns[n]
            begin = i
            numbers[n], i, is_exact = _number(data, i)
            if not is_exact:
                unread[n_unread] = n, begin, i
                n_unread += 1
            n += 1
    return n, n_unread


@compiled
def _number(data, i):
    """Parse digits with or without a dot: the number, its end, and whether it is valid and the nearest float."""
    negative = data[i] == MINUS
    if negative or data[i] == PLUS:
        i += 1
    mantissa = n_digits = n_decimals = 0
    after_dot = False
    while (data[i] >= ZERO and data[i] <= NINE) or (data[i] == DOT and not after_dot):
        if data[i] == DOT:
            after_dot = True
        else:
            if mantissa <= EXACT_INTEGER:
                mantissa = 10 * mantissa + np.int64(data[i]) - ZERO
            n_digits += 1
            n_decimals += after_dot
        i += 1
    is_exact = n_digits > 0 and mantissa <= EXACT_INTEGER and n_decimals < len(POWERS) and _is_end(data[i])
    while not _is_end(data[i]):
        i += 1
    number = mantissa / POWERS[min(n_decimals, len(POWERS) - 1)]
    return (-number if negative else number), i, is_exact


@compiled
def _is_end(byte):
    return byte in (NEWLINE, HASH) or byte in BLANKS
