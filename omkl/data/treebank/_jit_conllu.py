"""Compiled scanner of CoNLL files, which finds and replaces fields of words."""

import numpy as np

from omkl._compilation import compiled, inner

TAB, NEWLINE, CR, HASH, DASH, DOT, UNDERSCORE, ZERO, NINE = b"\t\n\r#-._09"

#: Roles of columns that are not string fields.
NO_ROLE = -1
HEAD_ROLE = -2
#: Length that marks a field as ``_``.
ABSENT = -1
#: Code of a head that is ``_``.
NO_HEAD = -1
#: Code of a head that is neither ``_`` nor a number.
NOT_A_HEAD = -2
#: Kind of an ID that is invalid.
INVALID = 0
#: Value of a number without digits.
NO_NUMBER = -1
#: Maximum number of digits of word numbers.
MOST_DIGITS = 9

# error codes of sentences
FINE, BAD_COLUMNS, BAD_ID, BAD_HEAD, NO_WORD, NOT_UTF8, NO_TREE = range(7)

#: Columns of ``sentences``: number of words up to the end of a sentence, end of its text, number of
#: lines up to its end, its error code, and the line of the error.
N_WORDS, TEXT_END, N_LINES, ERROR, ERROR_LINE, N_OF_SENTENCE = range(6)

# state of the current sentence: number of columns; end and line of its last multiword range; number
# of the last empty node after the last word; its first line; error code and line of the error
N_COLUMNS, LAST_RANGE, RANGE_LINE, LAST_EMPTY, FIRST_LINE, WRONG, PLACE, N_STATE = range(8)


@compiled
def scan(data, roles, most, starts, lengths, heads, sentences):
    """Find the words of a text that ends with a newline, and the bounds of their fields.

    Parameters
    ----------
    data : uint8 array
    roles : int64 array
        For each column, the index of its field, :data:`HEAD_ROLE` or :data:`NO_ROLE`. If two
        columns have the same role, the later one is used unless it is ``_``.
    most : int
        Maximum number of columns of a line. The minimum is the number of roles.
    starts, lengths : int32 arrays (n_fields, n_lines)
        Output for each word; the length is :data:`ABSENT` if the field is ``_``.
    heads : int32 array (n_lines,)
        Output for each word.
    sentences : int64 array (n_lines, 5)
        Output for each sentence: number of words up to its end, end of its text, number of lines up
        to its end, error code, and line of the error (from 1). An invalid sentence has no words.

    Returns
    -------
    int
        Number of sentences.
    """
    n = data.shape[0]
    i = line = word = first = n_sentences = 0
    state = np.zeros(N_STATE, np.int64)
    is_open = False
    while i < n:
        line += 1
        if data[i] == NEWLINE or (data[i] == CR and data[i + 1] == NEWLINE):
            i = _line_end(data, i) + 1
            if is_open:
                word = _close(sentences[n_sentences], first, word, i, line, state)
                n_sentences, is_open = n_sentences + 1, False
        elif data[i] == HASH or (is_open and state[WRONG] != FINE):
            i = _line_end(data, i) + 1
        else:
            if not is_open:
                is_open, first = True, word
                state[:] = 0
                state[FIRST_LINE] = line
            begin = i
            i, columns = _columns(data, i, roles, word, starts, lengths, heads)
            if _judge(
                data, begin, line, columns, roles.shape[0], most, word - first, heads[word], state
            ):
                word += 1
    if is_open:
        _close(sentences[n_sentences], first, word, i, line, state)
        n_sentences += 1
    if n_sentences:  # comments and empty lines after the last sentence belong to it
        sentences[n_sentences - 1, TEXT_END] = n
        sentences[n_sentences - 1, N_LINES] = line
    return n_sentences


@inner
def _judge(data, begin, line, columns, fewest, most, n_words, head, state):
    """Check if the line at ``begin`` is the next word.

    Writes errors and other kinds of lines to ``state`` (N_STATE,).
    """
    if state[N_COLUMNS] == 0:
        state[N_COLUMNS] = columns
    kind, number = _identifier(data, begin, n_words, state[LAST_RANGE], state[LAST_EMPTY])
    wrong = FINE
    if columns < fewest or columns > most or columns != state[N_COLUMNS]:
        wrong = BAD_COLUMNS
    elif kind == INVALID:
        wrong = BAD_ID
    elif kind == DASH:
        state[LAST_RANGE] = number
        state[RANGE_LINE] = line
    elif kind == DOT:
        state[LAST_EMPTY] = number
    elif head == NOT_A_HEAD:
        wrong = BAD_HEAD
    else:
        state[LAST_EMPTY] = 0
        return True
    state[WRONG] = wrong
    state[PLACE] = line
    return False


@inner
def _close(sentence, first, word, end, line, state):
    """Record a sentence of the words ``first`` to ``word - 1``; return the index of the next word.

    Writes to ``sentence`` (5,) and ``state`` (N_STATE,).
    """
    if state[WRONG] == FINE and state[LAST_RANGE] > word - first:
        state[WRONG] = BAD_ID
        state[PLACE] = state[RANGE_LINE]
    if state[WRONG] == FINE and word == first:
        state[WRONG] = NO_WORD
        state[PLACE] = state[FIRST_LINE]
    if state[WRONG] != FINE:
        word = first
    sentence[N_WORDS] = word
    sentence[TEXT_END] = end
    sentence[N_LINES] = line
    sentence[ERROR] = state[WRONG]
    sentence[ERROR_LINE] = state[PLACE]
    return word


@inner
def _line_end(data, i):
    """Return the position of the next line end, from ``i``."""
    while data[i] != NEWLINE:
        i += 1
    return i


@inner
def _columns(data, i, roles, word, starts, lengths, heads):
    """Record the fields of a line; return the start of the next line and the number of columns.

    Writes column ``word`` of ``starts`` and ``lengths`` (n_fields, n_lines), and ``heads[word]``.
    """
    for k in range(lengths.shape[0]):
        lengths[k, word] = ABSENT
    column = 0
    while True:
        begin = i
        while data[i] > NEWLINE or (data[i] != TAB and data[i] != NEWLINE):
            i += 1
        is_last = data[i] == NEWLINE
        role = roles[column] if column < roles.shape[0] else NO_ROLE
        if role != NO_ROLE:
            end = i
            if is_last and i > begin and data[i - 1] == CR:
                end = i - 1
            is_missing = end - begin == 1 and data[begin] == UNDERSCORE
            if role == HEAD_ROLE:
                number, after = _number(data, begin)
                if is_missing:
                    heads[word] = NO_HEAD
                elif begin < after == end:
                    heads[word] = number
                else:
                    heads[word] = NOT_A_HEAD
            elif not is_missing:
                starts[role, word] = begin
                lengths[role, word] = end - begin
        column += 1
        i += 1
        if is_last:
            return i, column


@inner
def _number(data, i):
    """Parse the number at ``i``; return its value, NO_NUMBER without digits, and its end."""
    begin = i
    value = 0
    while data[i] >= ZERO and data[i] <= NINE and i - begin < MOST_DIGITS:
        value = 10 * value + np.int64(data[i]) - ZERO
        i += 1
    if i == begin:
        return NO_NUMBER, i
    return value, i


@inner
def _identifier(data, i, n_words, last_range, last_empty):
    """Parse an ID after ``n_words`` words; return its kind, and its second number.

    Kinds are TAB for the next word, DASH for a range, DOT for an empty node, and INVALID.
    """
    low, after = _number(data, i)
    if low < 0 or (data[i] == ZERO and after > i + 1):
        return INVALID, 0
    kind = data[after]
    if kind == TAB:
        if low != n_words + 1:
            return INVALID, 0
        return TAB, 0
    if kind != DASH and kind != DOT:
        return INVALID, NO_NUMBER
    high, end = _number(data, after + 1)
    if high < 0 or data[end] != TAB or data[after + 1] == ZERO:
        return INVALID, high
    if kind == DASH:
        is_valid = low == n_words + 1 and low > last_range and high >= low
    else:
        is_valid = low == n_words and high == last_empty + 1
    if not is_valid:
        return INVALID, high
    return np.int64(kind), high


@compiled
def replace_fields(text, rows, codes, strings, offsets, out):
    """Copy a text that ends with a newline, with new fields of its words.

    Parameters
    ----------
    text : uint8 array
    rows : int64 array
        For each column up to the last one to replace, its row of ``codes``, or :data:`NO_ROLE`.
    codes : int64 array (n_rows, n_words)
    strings, offsets
        String ``k`` is ``strings[offsets[k] : offsets[k + 1]]``.
    out : uint8 array
        Output.

    Returns
    -------
    int
        Number of bytes of the copy.
    """
    i = done = size = word = 0
    while i < text.shape[0]:
        number, i = _number(text, i)
        if number >= 0 and text[i] == TAB:  # not a comment, multiword token or empty node
            for column in range(1, rows.shape[0]):
                i = begin = i + 1
                while text[i] != TAB and text[i] != NEWLINE:
                    i += 1
                if rows[column] != NO_ROLE:
                    code = codes[rows[column], word]
                    size = _copy(text, done, begin, out, size)
                    size = _copy(strings, offsets[code], offsets[code + 1], out, size)
                    done = i - 1 if text[i] == NEWLINE and text[i - 1] == CR else i
            word += 1
        i = _line_end(text, i) + 1
    return _copy(text, done, text.shape[0], out, size)


@inner
def _copy(source, begin, end, out, size):
    """Copy ``source[begin:end]`` to ``out[size:]``; return the new size."""
    for k in range(end - begin):
        out[size + k] = source[begin + k]
    return size + end - begin
