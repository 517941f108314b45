"""Scan the bytes of a treebank: lines, words, places of their fields, and whether heads are trees."""

import numpy as np

from omkl._compilation import compiled

TAB, NEWLINE, CR, HASH, DASH, DOT, UNDERSCORE, ZERO, NINE = b"\t\n\r#-._09"

#: Roles of columns that hold no field.
NO_ROLE, HEAD_ROLE = -1, -2
#: The length of a field that is ``_``.
ABSENT = -1
#: A head that is ``_``, and one that is neither ``_`` nor a number.
NO_HEAD, NOT_A_HEAD = -1, -2
#: Longer numbers are not numbers of words.
MOST_DIGITS = 9

# what can be wrong with a sentence
FINE, BAD_COLUMNS, BAD_ID, BAD_HEAD, NO_WORD, NOT_UTF8 = 0, 1, 2, 3, 4, 5
MISSING_HEAD, HEAD_OUTSIDE, CYCLE, SEVERAL_ROOTS = 6, 7, 8, 9

# what is known of a sentence while it is read: columns of its lines, end of its last range and the line of that,
# number of the last empty node after the last word, its first line, what is wrong with it, and where
N_COLUMNS, LAST_RANGE, RANGE_LINE, LAST_EMPTY, FIRST_LINE, WRONG, PLACE, N_STATE = range(8)

# what the heads must be
ANY_HEADS, TREES_IF_GIVEN, TREES, PARTIAL_TREES = 0, 1, 2, 3


@compiled
def scan(data, roles, most, starts, lengths, heads, sentences):
    """Find the words of a text that ends with a newline, and where their fields begin and end.

    Parameters
    ----------
    data : uint8 array
    roles : int64 array
        For each column, the number of its field, :data:`HEAD_ROLE` or :data:`NO_ROLE`. Where two columns have one
        role, the later one counts unless it is ``_``.
    most : int
        Columns that a line may have; it must have one for each role.
    starts, lengths : int32 arrays (n_fields, n_lines)
        Filled for each word; the length is :data:`ABSENT` where the field is ``_``.
    heads : int32 array (n_lines,)
        Filled for each word.
    sentences : int64 array (n_lines, 5)
        Filled for each sentence: number of words up to its end, end of its text, number of lines up to its end, what
        is wrong with it, and in which line (counted from 1). A sentence that is wrong has no words.

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
            if _judge(data, begin, line, columns, roles.shape[0], most, word - first, heads[word], state):
                word += 1
    if is_open:
        _close(sentences[n_sentences], first, word, i, line, state)
        n_sentences += 1
    if n_sentences:  # comments and empty lines after the last sentence belong to it
        sentences[n_sentences - 1, 1] = n
        sentences[n_sentences - 1, 2] = line
    return n_sentences


@compiled
def _judge(data, begin, line, columns, fewest, most, n_words, head, state):
    """Check if the line at ``begin`` is the next word; ``state`` notes another kind of line, or an error."""
    if state[N_COLUMNS] == 0:
        state[N_COLUMNS] = columns
    kind, number = _identifier(data, begin, n_words, state[LAST_RANGE], state[LAST_EMPTY])
    wrong = FINE
    if columns < fewest or columns > most or columns != state[N_COLUMNS]:
        wrong = BAD_COLUMNS
    elif kind == 0:
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


@compiled
def _close(sentence, first, word, end, line, state):
    """Note a sentence of the words ``first`` to ``word - 1``; returns where the words of the next one go."""
    if state[WRONG] == FINE and state[LAST_RANGE] > word - first:
        state[WRONG] = BAD_ID
        state[PLACE] = state[RANGE_LINE]
    if state[WRONG] == FINE and word == first:
        state[WRONG] = NO_WORD
        state[PLACE] = state[FIRST_LINE]
    if state[WRONG] != FINE:
        word = first
    sentence[0] = word
    sentence[1] = end
    sentence[2] = line
    sentence[3] = state[WRONG]
    sentence[4] = state[PLACE]
    return word


@compiled
def _line_end(data, i):
    while data[i] != NEWLINE:
        i += 1
    return i


@compiled
def _columns(data, i, roles, word, starts, lengths, heads):
    """Take in the fields of a line; returns the beginning of the next line and the number of columns."""
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
            end = i - 1 if is_last and i > begin and data[i - 1] == CR else i
            if role == HEAD_ROLE:
                heads[word] = _head(data, begin, end)
            elif end - begin != 1 or data[begin] != UNDERSCORE:
                starts[role, word] = begin
                lengths[role, word] = end - begin
        column += 1
        i += 1
        if is_last:
            return i, column


@compiled
def _head(data, begin, end):
    if end - begin == 1 and data[begin] == UNDERSCORE:
        return NO_HEAD
    value, after = _number(data, begin)
    return value if after == end and end > begin else NOT_A_HEAD


@compiled
def _number(data, i):
    """The number whose digits begin at ``i``, and where they end; -1 for no digits, or too many."""
    begin = i
    value = 0
    while data[i] >= ZERO and data[i] <= NINE and i - begin < MOST_DIGITS:
        value = 10 * value + np.int64(data[i]) - ZERO
        i += 1
    return (value if i > begin else -1), i


@compiled
def _identifier(data, i, n_words, last_range, last_empty):
    """Kind of an ID after ``n_words`` words: TAB for the next word, DASH for a range, DOT for an empty node, else 0.

    With it, the second number of the identifier.
    """
    low, after = _number(data, i)
    if low < 0 or (data[i] == ZERO and after > i + 1):
        return 0, 0
    sign = data[after]
    if sign == TAB:
        return (TAB if low == n_words + 1 else 0), 0
    high, end = _number(data, after + 1) if sign in (DASH, DOT) else (-1, after)
    if high < 0 or data[end] != TAB or data[after + 1] == ZERO:
        return 0, high
    if sign == DASH:
        return (DASH if low == n_words + 1 and low > last_range and high >= low else 0), high
    return (DOT if low == n_words and high == last_empty + 1 else 0), high


@compiled
def last_boundary(data):
    """End of the last sentence of a text that has a word after it; 0 if there is none.

    So no piece is without a sentence, and comments at the end of a file stay with its last sentence.
    """
    cut = 0
    found = False
    end = data.shape[0]
    while end > 0:
        begin = end - 1  # data[end - 1] is a newline, save in the last line
        while begin > 0 and data[begin - 1] != NEWLINE:
            begin -= 1
        is_word = data[begin] != HASH and data[begin] != NEWLINE and data[begin] != CR
        if is_word and cut:
            return cut
        found = found or is_word
        is_empty = data[begin] == NEWLINE or (data[begin] == CR and end == begin + 2 and data[begin + 1] == NEWLINE)
        if found and is_empty:
            cut = end  # the first of several, where the sentence ends
        end = begin
    return 0


@compiled
def check_trees(offsets, heads, mode, single_root, sentences):
    """Note what is wrong with the heads of sentences that were fine so far, and at which word (counted from 1)."""
    if mode == ANY_HEADS:
        return
    longest = 0
    for s in range(sentences.shape[0]):
        longest = max(longest, offsets[s + 1] - offsets[s])
    seen = np.empty(longest + 1, np.int32)
    for s in range(sentences.shape[0]):
        if sentences[s, 3] == FINE:
            own = heads[offsets[s] : offsets[s + 1]]
            wrong, word = _wrong_head(own, mode, single_root)
            if wrong == FINE and (own[0] >= 0 or mode == PARTIAL_TREES):
                wrong, word = _cycle(own, seen)
            sentences[s, 3] = wrong
            sentences[s, 4] = word


@compiled
def _wrong_head(heads, mode, single_root):
    n = heads.shape[0]
    n_missing = 0
    root = 0
    second_root = 0
    missing = 0
    for j in range(n - 1, -1, -1):
        if heads[j] == NO_HEAD:
            n_missing += 1
            missing = j + 1
        elif heads[j] == 0:
            second_root = root
            root = j + 1
    if n_missing and (mode == TREES or (mode == TREES_IF_GIVEN and n_missing < n)):
        return MISSING_HEAD, missing
    for j in range(n):
        if heads[j] > n:
            return HEAD_OUTSIDE, j + 1
    if single_root and second_root:
        return SEVERAL_ROOTS, second_root
    return FINE, 0


@compiled
def _cycle(heads, seen):
    """The first word from which heads lead to a cycle, and then the first word on it."""
    n = heads.shape[0]
    for j in range(n + 1):
        seen[j] = 0
    for j in range(1, n + 1):
        at = j
        while at > 0 and not seen[at]:
            seen[at] = j
            at = heads[at - 1]
        if at > 0 and seen[at] == j:
            least = at
            k = heads[at - 1]
            while k != at:
                least = min(least, k)
                k = heads[k - 1]
            return CYCLE, least
    return FINE, 0
