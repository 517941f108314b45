"""Compiled scanner of raw text: hashed features of the places where tokens and sentences may end.

A run is a maximal sequence of characters without whitespace; its core lacks the punctuation at both
ends.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: Kinds of characters.
SPACE, NEWLINE, UPPER, LOWER, DIGIT, LETTER, MARK, OPEN = range(8)
CLOSE, DASH, STOP, COMMA, QUOTE, SYMBOL, OTHER, JOINER, N_KINDS = range(8, 17)
#: Whitespace after a character: none, a space, one line end, several line ends, and the end of the
#: text.
NONE, BLANK, LINE_END, PARAGRAPH_END, TEXT_END = range(5)
#: Columns of runs; ``LINE`` is the length of the line so far.
START, END, CORE_START, CORE_END, GAP, LINE, N_COLUMNS = range(7)
#: Hashes of runs: in lower case, of the core in lower case, and of its kinds.
WORD, CORE, SHAPE, N_HASHES = range(4)
#: Number of characters before and after the text, and of runs before and after all runs.
PADDING = 6
#: Largest number of characters that features tell apart.
MOST = 20
#: First of the atoms that are characters and their kinds, before and after a place; see
#: ``tokenizer.ATOMS``.
LEFT, RIGHT, LEFT_KINDS, RIGHT_KINDS, OTHERS = 0, 4, 8, 14, 20
#: Positions of the others, from OTHERS on; WORDS, CORES and SHAPES are the first of several.
BEFORE, AFTER, WORDS, CORES, SECOND_WORD, SECOND_CORE, SHAPES = 0, 1, 2, 5, 8, 9, 10
BEGINS, PLACE, CORE_LENGTH, LENGTH, LINE_LENGTH, FITS, GAPS = range(14, 21)
#: Multiplier of the hash of Fibonacci, and of the hash FNV-1a.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BASE = np.uint64(0x100000001B3)
#: Hash of no character.
_EMPTY = np.uint64(7)
_HALF = np.uint64(32)
_ONE = np.uint64(1)


@inner
def _mix(total, value):
    """Combine a hash with an integer."""
    total = (total + np.uint64(value) + _ONE) * _MULTIPLIER
    return total ^ (total >> _HALF)


@inner
def _is_wordly(kind):
    """Check whether a kind of characters is of letters, digits or marks."""
    return UPPER <= kind <= MARK


@compiled
def scan(lower, kinds, runs, hashes):
    """Find the runs of a padded text.

    Parameters
    ----------
    lower : uint32 array (n,)
        Characters in lower case, with :data:`PADDING` spaces at both ends.
    kinds : uint8 array (n,)
    runs : int64 array (m, N_COLUMNS)
        Output; the first and the last :data:`PADDING` rows stay zero.
    hashes : uint64 array (m, N_HASHES)
        Output.
    """
    i = PADDING
    r = PADDING
    column = 0
    end = lower.shape[0] - PADDING
    while i < end and kinds[i] <= NEWLINE:
        i += 1
    while i < end:
        run = runs[r]
        hashes_of_run = hashes[r]
        run[START] = i
        hashes_of_run[:] = _EMPTY
        while i < end and kinds[i] > NEWLINE:
            hashes_of_run[WORD] = hashes_of_run[WORD] * _BASE + np.uint64(lower[i])
            i += 1
        run[END] = i
        column += i - run[START]
        _find_core(lower, kinds, run, hashes_of_run)
        run[LINE] = column
        n_lines = 0
        while i < end and kinds[i] <= NEWLINE:
            n_lines += kinds[i] == NEWLINE
            i += 1
        column += 1
        if n_lines:
            column = 0
        run[GAP] = min(BLANK + n_lines, PARAGRAPH_END)
        if i == end:
            run[GAP] = TEXT_END
        r += 1


@inner
def _find_core(lower, kinds, run, hashes):
    """Find the core of a run: write its start and end to ``run``, and its hashes to ``hashes``."""
    low = run[START]
    high = run[END]
    while low < high and not _is_wordly(kinds[low]):
        low += 1
    while high > low and not _is_wordly(kinds[high - 1]):
        high -= 1
    run[CORE_START] = low
    run[CORE_END] = high
    kind_before = -1
    for i in range(low, high):
        hashes[CORE] = hashes[CORE] * _BASE + np.uint64(lower[i])
        if kinds[i] != kind_before:
            hashes[SHAPE] = hashes[SHAPE] * _BASE + np.uint64(kinds[i])
        kind_before = kinds[i]
    hashes[SHAPE] = _mix(hashes[SHAPE], min(high - low, 2))


@compiled
def find_features(codes, lower, kinds, places, runs, hashes, templates, bits, ids):
    """Write the features of places to ``ids``; template ``t`` has the ids from ``t << bits`` on.

    Parameters
    ----------
    codes, lower, kinds : arrays (n_characters,)
        Padded text.
    places : int64 array (n, 2)
        The characters that may end a token, and their runs.
    runs, hashes
        See :func:`scan`.
    templates : int64 array (n_templates, n)
        Atoms of each template, then -1.
    bits : int
    ids : int32 array (n, n_templates)
        Output.
    """
    atoms = np.zeros(64, np.uint64)
    shift = np.uint64(64 - bits)
    for p in range(places.shape[0]):
        i = places[p, 0]
        r = places[p, 1]
        gap = NONE
        j = i + 1  # the next character that is no whitespace
        if j == runs[r, END]:
            gap = runs[r, GAP]
            j = runs[r + 1, START]
        for k in range(4):
            atoms[LEFT + k] = codes[i - k]
            atoms[RIGHT + k] = codes[j + k]
        for k in range(6):
            atoms[LEFT_KINDS + k] = kinds[i - k]
            atoms[RIGHT_KINDS + k] = kinds[j + k]
        _describe_runs(lower, kinds, i, r, gap, runs, hashes, atoms[OTHERS:])
        for t in range(templates.shape[0]):
            key = _mix(np.uint64(gap), t)
            for k in range(templates.shape[1]):
                if templates[t, k] < 0:
                    break
                key = _mix(key, atoms[templates[t, k]])
            ids[p, t] = (t << bits) + np.int64((key * _MULTIPLIER) >> shift)


@inner
def _describe_runs(lower, kinds, i, r, gap, runs, hashes, atoms):
    """Write the atoms of the run of a place and its neighbours, from ``before`` on.

    They are in the order of ``tokenizer.ATOMS``. The place is after character i of run r.
    """
    run = runs[r]
    following = runs[r + 1]
    if gap == NONE:
        before = _EMPTY
        for k in range(run[START], i + 1):
            before = before * _BASE + np.uint64(lower[k])
        after = _EMPTY
        for k in range(i + 1, run[END]):
            after = after * _BASE + np.uint64(lower[k])
    else:
        before = hashes[r, WORD]
        after = hashes[r + 1, WORD]
    line_with_following = 0
    if gap == LINE_END:
        line_with_following = run[LINE] + following[END] - following[START]
    atoms[BEFORE] = before
    atoms[AFTER] = after
    for k in range(3):
        atoms[WORDS + k] = hashes[r - 1 + k, WORD]
        atoms[CORES + k] = hashes[r - 1 + k, CORE]
    atoms[SECOND_WORD] = hashes[r + 2, WORD]
    atoms[SECOND_CORE] = hashes[r + 2, CORE]
    for k in range(4):
        atoms[SHAPES + k] = hashes[r - 1 + k, SHAPE]
    atoms[BEGINS] = 0
    if following[END]:
        atoms[BEGINS] = kinds[following[CORE_START]]
    atoms[PLACE] = MOST
    if gap == NONE:
        atoms[PLACE] = i - run[START]
    atoms[CORE_LENGTH] = min(run[CORE_END] - run[CORE_START], MOST)
    atoms[LENGTH] = min(i + 1 - run[START], MOST)
    atoms[LINE_LENGTH] = min(run[LINE] // 8, MOST)
    atoms[FITS] = min(line_with_following // 8, MOST)
    atoms[GAPS] = runs[r - 1, GAP] * N_KINDS + following[GAP]


@compiled
def add_scores(ids, table, scores):
    """Add the weights of features to ``scores``.

    Their shapes are those of ``ids``, (n, n_templates), ``table``, (n_features, n_labels), and
    ``scores``, (n, n_labels).
    """
    for p in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            row = table[ids[p, t]]
            for j in range(scores.shape[1]):
                scores[p, j] += row[j]
