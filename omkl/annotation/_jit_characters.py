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
#: ``characters.ATOMS``.
LEFT, RIGHT, LEFT_KINDS, RIGHT_KINDS, OTHERS = 0, 4, 8, 14, 20
_MULTIPLIER, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_ONE, _BASE = np.uint64(1), np.uint64(0x100000001B3)


@inner
def _mix(total, value):
    total = (total + np.uint64(value) + _ONE) * _MULTIPLIER
    return total ^ (total >> _HALF)


@inner
def _is_wordly(kind):
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
    i, r, column = PADDING, PADDING, 0
    end = lower.shape[0] - PADDING
    while i < end and kinds[i] <= NEWLINE:
        i += 1
    while i < end:
        run, own = runs[r], hashes[r]
        run[START] = i
        own[:] = np.uint64(7)
        while i < end and kinds[i] > NEWLINE:
            own[WORD] = own[WORD] * _BASE + np.uint64(lower[i])
            i += 1
        run[END] = i
        column += i - run[START]
        _find_core(lower, kinds, run, own)
        run[LINE] = column
        n_lines = 0
        while i < end and kinds[i] <= NEWLINE:
            n_lines += kinds[i] == NEWLINE
            i += 1
        run[GAP] = TEXT_END if i == end else min(1 + n_lines, PARAGRAPH_END)
        column = 0 if n_lines else column + 1
        r += 1


@inner
def _find_core(lower, kinds, run, own):
    low, high = run[START], run[END]
    while low < high and not _is_wordly(kinds[low]):
        low += 1
    while high > low and not _is_wordly(kinds[high - 1]):
        high -= 1
    run[CORE_START], run[CORE_END] = low, high
    before = -1
    for i in range(low, high):
        own[CORE] = own[CORE] * _BASE + np.uint64(lower[i])
        if kinds[i] != before:
            own[SHAPE] = own[SHAPE] * _BASE + np.uint64(kinds[i])
        before = kinds[i]
    own[SHAPE] = _mix(own[SHAPE], min(high - low, 2))


@compiled
def find_features(codes, lower, kinds, places, runs, hashes, templates, bits, ids):
    """Write the features of places into ``ids`` (n, n_templates): template ``t`` has the ids from
    ``t << bits``.

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
    """
    atoms = np.zeros(64, np.uint64)
    shift = np.uint64(64 - bits)
    for p in range(places.shape[0]):
        i, r = places[p, 0], places[p, 1]
        gap = runs[r, GAP] if i == runs[r, END] - 1 else NONE
        j = runs[r + 1, START] if gap else i + 1
        for k in range(4):
            atoms[LEFT + k], atoms[RIGHT + k] = codes[i - k], codes[j + k]
        for k in range(6):
            atoms[LEFT_KINDS + k], atoms[RIGHT_KINDS + k] = kinds[i - k], kinds[j + k]
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
    """Write the atoms of the run of a place and its neighbours, in the order of
    ``characters.ATOMS``.
    """
    run, following = runs[r], runs[r + 1]
    before = after = np.uint64(7)
    if gap == NONE:
        for k in range(run[START], i + 1):
            before = before * _BASE + np.uint64(lower[k])
        for k in range(i + 1, run[END]):
            after = after * _BASE + np.uint64(lower[k])
    else:
        before, after = hashes[r, WORD], hashes[r + 1, WORD]
    fits = 0 if gap != LINE_END else run[LINE] + following[END] - following[START]
    atoms[0], atoms[1] = before, after
    for k in range(3):
        atoms[2 + k], atoms[5 + k] = hashes[r - 1 + k, WORD], hashes[r - 1 + k, CORE]
    atoms[8], atoms[9] = hashes[r + 2, WORD], hashes[r + 2, CORE]
    for k in range(4):
        atoms[10 + k] = hashes[r - 1 + k, SHAPE]
    atoms[14] = kinds[following[CORE_START]] if following[END] else 0
    atoms[15] = i - run[START] if gap == NONE else MOST
    atoms[16], atoms[17] = min(run[CORE_END] - run[CORE_START], MOST), min(i + 1 - run[START], MOST)
    atoms[18], atoms[19] = min(run[LINE] // 8, MOST), min(fits // 8, MOST)
    atoms[20] = runs[r - 1, GAP] * N_KINDS + following[GAP]


@compiled
def add_scores(ids, table, scores):
    """Add the rows of ``table`` of all features to ``scores``."""
    for p in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            row = table[ids[p, t]]
            for j in range(scores.shape[1]):
                scores[p, j] += row[j]
