"""Scanning the bytes of svmlight's format: ``label index:value index:value ... # comment``."""

from fractions import Fraction

import numpy as np

from omkl._compilation import compiled

TAB, NEWLINE, CR, SPACE, HASH, PLUS, MINUS, DOT, ZERO, NINE, COLON = b"\t\n\r #+-.09:"
UPPER_E, LOWER_E = b"Ee"

# what can be wrong with a line
FINE, BAD_LABEL, BAD_PAIR, BAD_ORDER, TOO_SMALL, TOO_LARGE = 0, 1, 2, 3, 4, 5

#: Digits that an int64 surely holds, and those of an index.
MOST_DIGITS, MOST_INDEX_DIGITS = 18, 10
#: Integers up to here, and powers of ten up to there, are floats without error.
EXACT_INTEGER, EXACT_POWER = 1 << 53, 22
#: Decimal exponents for which no intermediate result leaves the normal floats.
LARGEST_EXPONENT = 270
#: Bound on the relative error of a product of two pairs of floats, with room to spare (it is about 2**-104).
PAIR_ERROR = 2.0**-98
SPLITTER = 134217729.0  # 2**27 + 1
#: Powers of ten as unevaluated sums of two floats, correct to 2**-106.
_EXACT = [Fraction(10) ** k for k in range(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1)]
POWERS = np.array([(float(power), float(power - Fraction(float(power)))) for power in _EXACT])


@compiled
def parse(data, first_index, n_features, labels, pointers, indices, values, bad, slow):
    """Read the examples of a text that ends with a newline.

    Parameters
    ----------
    data : uint8 array
    first_index : int
        What the first feature is called in the text: 0 or 1.
    n_features : int
    labels : float64 array (n_lines,)
    pointers : int32 array (n_lines + 1,)
    indices, values : int32 and float64 arrays (at least as many as there are colons,)
    bad : int64 array (n_lines, 3)
        Filled for each line that is no example: its number from 1, what is wrong, and where.
    slow : int64 array (at least as many as there are numbers, 3)
        Filled for each number that is left to a slower method: its place in ``values``, or -1 - its place in
        ``labels``; where it begins and ends.

    Returns
    -------
    n_examples, n_values, n_lines, n_bad, n_slow : int
    """
    n = data.shape[0]
    i = n_lines = n_examples = n_values = n_bad = n_slow = 0
    pointers[0] = 0
    while i < n:
        n_lines += 1
        i = _after_blanks(data, i)
        if data[i] != NEWLINE and data[i] != HASH:
            wrong, i, count, more = _example(
                data, i, first_index, n_features, n_examples, n_values, labels, indices, values, slow[n_slow:]
            )
            if wrong == FINE:
                n_examples += 1
                n_values += count
                n_slow += more
                pointers[n_examples] = n_values
            else:
                bad[n_bad, 0] = n_lines
                bad[n_bad, 1] = wrong
                bad[n_bad, 2] = i
                n_bad += 1
        while data[i] != NEWLINE:
            i += 1
        i += 1
    return n_examples, n_values, n_lines, n_bad, n_slow


@compiled
def _example(data, i, first_index, n_features, row, start, labels, indices, values, slow):
    """Read a line from its label on: what is wrong, where, how many values it has, and how many are slow."""
    begin = i
    label, i, kind = _number(data, i)
    if kind < 0 or not _is_end(data[i]):
        return BAD_LABEL, begin, 0, 0
    labels[row] = label
    n_slow = 0
    if kind > 0:
        slow[0, 0], slow[0, 1], slow[0, 2] = -1 - row, begin, i
        n_slow = 1
    count = 0
    last = -1
    while True:
        i = _after_blanks(data, i)
        if data[i] == NEWLINE or data[i] == HASH:
            return FINE, i, count, n_slow
        if _is_query(data, i):
            while not _is_end(data[i]):
                i += 1
            continue
        begin = i
        wrong, last, value_begin = _index(data, begin, first_index, n_features, last)
        if wrong != FINE:
            return wrong, begin, 0, 0
        value, i, kind = _number(data, value_begin)
        if kind < 0 or not _is_end(data[i]):
            return BAD_PAIR, begin, 0, 0
        if kind > 0:
            slow[n_slow, 0], slow[n_slow, 1], slow[n_slow, 2] = start + count, value_begin, i
            n_slow += 1
        indices[start + count] = last
        values[start + count] = value
        count += 1


@compiled
def _is_query(data, i):
    return data[i] == 113 and data[i + 1] == 105 and data[i + 2] == 100 and data[i + 3] == COLON  # qid:


@compiled
def _index(data, i, first_index, n_features, last):
    """Parse an index: an error code, the column, and the start of its value."""
    begin = i
    index = 0
    while data[i] >= ZERO and data[i] <= NINE and i - begin < MOST_INDEX_DIGITS:
        index = 10 * index + np.int64(data[i]) - ZERO
        i += 1
    index -= first_index
    if i == begin or data[i] != COLON:
        return BAD_PAIR, index, i
    if index < 0:
        return TOO_SMALL, index, i
    if index >= n_features:
        return TOO_LARGE, index, i
    return (FINE if index > last else BAD_ORDER), index, i + 1


@compiled
def _after_blanks(data, i):
    while data[i] == SPACE or data[i] == TAB or data[i] == CR:
        i += 1
    return i


@compiled
def _is_end(byte):
    return byte in (SPACE, TAB, NEWLINE, CR, HASH)


@compiled
def _number(data, i):
    """The float nearest to a decimal number, where it ends, and 0; or 1 if it is left to a slower method, -1 if none.

    Up to 18 digits times a power of ten, as a pair of floats (Dekker 1971, "A floating-point technique for extending
    the available precision"); where the error of that could change how it is rounded, it is not decided here.
    """
    negative = data[i] == MINUS
    if negative or data[i] == PLUS:
        i += 1
    mantissa, exponent, n_digits, n_read, i = _digits(data, i)
    if n_read == 0:
        return 0.0, i, -1
    if data[i] == LOWER_E or data[i] == UPPER_E:
        more, i, is_number = _exponent(data, i + 1)
        if not is_number:
            return 0.0, i, -1
        exponent += more
    if mantissa == 0:
        return (-0.0 if negative else 0.0), i, 0
    if n_digits > MOST_DIGITS or abs(exponent) > LARGEST_EXPONENT:
        return 0.0, i, 1
    value, is_sure = _scaled(mantissa, exponent)
    return (-value if negative else value), i, (0 if is_sure else 1)


@compiled
def _digits(data, i):
    """Read digits with or without a dot.

    Returns the first 18 as an integer, the exponent of its power of ten, how many digits there are from the first that
    is not 0 on, how many in all, and where they end.
    """
    mantissa = 0
    exponent = n_digits = n_read = 0
    after_dot = False
    while True:
        byte = data[i]
        if byte >= ZERO and byte <= NINE:
            if n_digits < MOST_DIGITS:
                mantissa = 10 * mantissa + np.int64(byte) - ZERO
            if mantissa > 0:
                n_digits += 1
            n_read += 1
            if after_dot:
                exponent -= 1
        elif byte == DOT and not after_dot:
            after_dot = True
        else:
            return mantissa, exponent, n_digits, n_read, i
        i += 1


@compiled
def _exponent(data, i):
    negative = data[i] == MINUS
    if negative or data[i] == PLUS:
        i += 1
    begin = i
    value = 0
    while data[i] >= ZERO and data[i] <= NINE:
        if value < 100_000:
            value = 10 * value + np.int64(data[i]) - ZERO
        i += 1
    return (-value if negative else value), i, i > begin


@compiled
def _scaled(mantissa, exponent):
    """The float nearest to ``mantissa * 10**exponent``, and whether that is sure."""
    high = float(mantissa)
    if mantissa <= EXACT_INTEGER and abs(exponent) <= EXACT_POWER:
        power = POWERS[LARGEST_EXPONENT + abs(exponent), 0]
        return (high * power if exponent >= 0 else high / power), True
    low = float(mantissa - int(high))
    power = POWERS[LARGEST_EXPONENT + exponent, 0]
    product = high * power
    # the error of that product, exactly: halves of 26 bits, whose products are floats
    a = SPLITTER * high
    a -= a - high
    b = SPLITTER * power
    b -= b - power
    error = ((a * b - product) + a * (power - b) + (high - a) * b) + (high - a) * (power - b)
    error += high * POWERS[LARGEST_EXPONENT + exponent, 1] + low * power
    doubt = product * PAIR_ERROR
    return product + error, product + (error + doubt) == product + (error - doubt)
