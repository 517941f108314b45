"""Compiled parser of svmlight's format: ``label index:value index:value ... # comment``.

A slower parser handles invalid lines, and numbers that a pair of floats cannot round correctly.
"""

from fractions import Fraction

import numpy as np

from omkl._compilation import compiled

TAB, NEWLINE, CR, SPACE, HASH, PLUS, MINUS, DOT, ZERO, NINE, COLON = b"\t\n\r #+-.09:"
UPPER_E, LOWER_E = b"Ee"

#: Maximum number of digits of a mantissa, so that it fits an int64, and of an index.
MOST_DIGITS, MOST_INDEX_DIGITS = 18, 10
#: Integers up to the first, and powers of ten with exponents up to the second, are exact floats.
EXACT_INTEGER, EXACT_POWER = 1 << 53, 22
#: Maximum decimal exponent for which all intermediate results are normal floats.
LARGEST_EXPONENT = 270
#: Safe bound on the relative error of a product of two pairs of floats (the error is about 2**-104).
PAIR_ERROR = 2.0**-98
SPLITTER = 134217729.0  # 2**27 + 1
#: Powers of ten as unevaluated sums of two floats, correct to 2**-106.
_EXACT = [Fraction(10) ** k for k in range(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1)]
POWERS = np.array([(float(power), float(power - Fraction(float(power)))) for power in _EXACT])


@compiled
def parse(data, i, first_index, n_features, n_examples, labels, pointers, indices, values):
    """Parse examples from byte ``i``, up to the end of the text or a line for the slower parser.

    Parameters
    ----------
    data : uint8 array
        A text that ends with a newline.
    i : int
        Start of a line.
    first_index : int
        Number of the first feature in the text: 0 or 1.
    n_features : int
    n_examples : int
        Number of examples already in the output arrays.
    labels : float64 array (n_lines,)
    pointers : int32 array (n_lines + 1,)
    indices, values : int32 and float64 arrays (at least as many as there are colons,)

    Returns
    -------
    i : int
        End of the text, or start of the line for the slower parser.
    n_examples : int
    """
    while i < data.shape[0]:
        line = i
        i = _after_blanks(data, i)
        if data[i] != NEWLINE and data[i] != HASH:
            label, count, i = _example(data, i, first_index, n_features, pointers[n_examples], indices, values)
            if i < 0:
                return line, n_examples
            labels[n_examples] = label
            pointers[n_examples + 1] = pointers[n_examples] + count
            n_examples += 1
        while data[i] != NEWLINE:
            i += 1
        i += 1
    return i, n_examples


@compiled
def _example(data, i, first_index, n_features, start, indices, values):
    """Parse a line: its label, number of values, and end, or -1 if the slower parser must read it."""
    label, i = _number(data, i)
    last = -1
    count = 0
    while i >= 0 and _is_end(data[i]):
        i = _after_blanks(data, i)
        if data[i] == NEWLINE or data[i] == HASH:
            return label, count, i
        if data[i] == 113 and data[i + 1] == 105 and data[i + 2] == 100 and data[i + 3] == COLON:  # qid:
            while not _is_end(data[i]):
                i += 1
            continue
        begin = i
        index = 0
        while data[i] >= ZERO and data[i] <= NINE and i - begin < MOST_INDEX_DIGITS:
            index = 10 * index + np.int64(data[i]) - ZERO
            i += 1
        index -= first_index
        if i == begin or data[i] != COLON or index <= last or index >= n_features:
            return label, count, -1
        last = index
        value, i = _number(data, i + 1)
        indices[start + count] = index
        values[start + count] = value
        count += 1
    return label, count, -1


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
    """Parse a decimal number: the nearest float, and the end of the number, or -1 if that float is uncertain.

    Multiplies up to 18 digits by a power of ten as pairs of floats (Dekker 1971, "A floating-point technique for
    extending the available precision").
    """
    negative = data[i] == MINUS
    if negative or data[i] == PLUS:
        i += 1
    mantissa, exponent, n_digits, n_read, i = _digits(data, i)
    if n_read == 0:
        return 0.0, -1
    if data[i] == LOWER_E or data[i] == UPPER_E:
        more, i = _exponent(data, i + 1)
        exponent += more
    if mantissa == 0:
        return (-0.0 if negative else 0.0), i
    if n_digits > MOST_DIGITS or abs(exponent) > LARGEST_EXPONENT:
        return 0.0, -1
    value, is_sure = _scaled(mantissa, exponent)
    return (-value if negative else value), (i if is_sure else -1)


@compiled
def _digits(data, i):
    """Parse digits with or without a dot.

    Returns the first 18 digits as an integer, its decimal exponent, the number of digits without leading zeros, the
    number of all digits, and the end.
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
    """Parse an integer: its value and end, or -1 if there is none."""
    negative = data[i] == MINUS
    if negative or data[i] == PLUS:
        i += 1
    begin = i
    value = 0
    while data[i] >= ZERO and data[i] <= NINE:
        if value < 100_000:
            value = 10 * value + np.int64(data[i]) - ZERO
        i += 1
    return (-value if negative else value), (i if i > begin else -1)


@compiled
def _scaled(mantissa, exponent):
    """Return the float nearest to ``mantissa * 10**exponent``, and whether that is certain."""
    high = float(mantissa)
    if mantissa <= EXACT_INTEGER and abs(exponent) <= EXACT_POWER:
        power = POWERS[LARGEST_EXPONENT + abs(exponent), 0]
        return (high * power if exponent >= 0 else high / power), True
    low = float(mantissa - int(high))
    power = POWERS[LARGEST_EXPONENT + exponent, 0]
    product = high * power
    # Dekker's exact error of the product: split factors into halves of 26 bits, whose products are exact
    a = SPLITTER * high
    a -= a - high
    b = SPLITTER * power
    b -= b - power
    error = ((a * b - product) + a * (power - b) + (high - a) * b) + (high - a) * (power - b)
    error += high * POWERS[LARGEST_EXPONENT + exponent, 1] + low * power
    doubt = product * PAIR_ERROR
    return product + error, product + (error + doubt) == product + (error - doubt)
