"""Treebank files for tests: a naive reader to compare with, and files with everything a file can
have.
"""

from hypothesis import strategies as st

from omkl.data import Sentence, Strings

COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "misc")


def naive_sentences(text, trees=False):
    """Sentences of a CoNLL-U text, by splitting strings."""
    sentences = []
    for paragraph in text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n\n"):
        rows = [line.split("\t") for line in paragraph.split("\n") if line and line[0] != "#"]
        words = [row for row in rows if row[0].isdigit()]
        if words:
            columns = [list(column) for column in zip(*words)]
            columns[6] = [None if head == "_" else int(head) for head in columns[6]]
            sentences.append(Sentence(*columns[1:8], columns[9]))
    return sentences


def is_tree(heads):
    """Return True if the root is an ancestor of every word."""
    for word in range(1, len(heads) + 1):
        steps = 0
        while word and steps <= len(heads):
            if not 0 <= heads[word - 1] <= len(heads):
                return False
            word = heads[word - 1]
            steps = steps + 1
        if word:
            return False
    return True


def columns_of(sentences):
    return [[getattr(sentence, name) for name in COLUMNS] for sentence in sentences]


def with_trees(treebank, heads, deprels):
    """A treebank with other heads and relations."""
    strings = Strings()
    codes = strings.codes(deprels, grow=True)
    return treebank.with_column("heads", heads).with_column("deprels", codes, strings)


def naive_splice(data, heads, deprels):
    """The bytes of a CoNLL-U file with other heads and relations, line by line."""
    new = iter(zip(heads, deprels))
    out = []
    for line in data.split(b"\n"):
        row = line.split(b"\t")
        if row[0].isdigit():
            head, deprel = next(new)
            row[6] = b"_" if head < 0 else b"%d" % head
            row[7] = deprel.encode()
        out.append(b"\t".join(row))
    return b"\n".join(out)


def closed(data):
    """The bytes of a file as they are written: without a byte order mark, and with an empty line at
    the end.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    data += b"" if data.endswith(b"\n") else newline
    return data if data.endswith((b"\n\n", b"\n\r\n")) else data + newline


@st.composite
def trees(draw, max_size=6):
    """Heads of a random tree, one root or several."""
    n = draw(st.integers(1, max_size))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k, word in enumerate(order):
        heads[word - 1] = draw(st.sampled_from([0, *order[:k]]))
    return heads


FIELD = st.one_of(
    st.sampled_from(
        ["_", "a", "the", "στρατηγὸν", "þ", "😀", "a b", "#", "1", "", "\u2028", "\x0b", "x" * 300]
    ),
    st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=4),
)
COMMENT = st.sampled_from(["# text = a\tb", "#", "# sent_id = 1", "# 1\ta"])


@st.composite
def sentence_lines(draw):
    heads = draw(trees())
    n = len(heads)
    lines = draw(st.lists(COMMENT, max_size=2))
    inside_until = 0

    def line(identifier, head):
        fields = [draw(FIELD) for _ in range(5)]
        return "\t".join([identifier, *fields, head, draw(FIELD), draw(FIELD), draw(FIELD)])

    if draw(st.booleans()):
        lines.append(line("0.1", "_"))
    for word, head in enumerate(heads, 1):
        if word > inside_until and draw(st.integers(0, 3)) == 0:
            inside_until = draw(st.integers(word, n))
            lines.append(line(f"{word}-{inside_until}", "_"))
        lines.append(line(str(word), str(head)))
        lines += [
            line(f"{word}.{k}", "_") for k in range(1, 1 + draw(st.sampled_from([0, 0, 0, 1, 2])))
        ]
    return lines


@st.composite
def files(draw):
    """The bytes of a CoNLL-U file: with any line ends, with a byte order mark or not, cut after any
    last line end.
    """
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    pieces = ["\ufeff" if draw(st.booleans()) else "", newline * draw(st.integers(0, 2))]
    if draw(st.booleans()):
        pieces.append("# a comment of its own" + 2 * newline)
    for lines in draw(st.lists(sentence_lines(), min_size=1, max_size=5)):
        pieces += [newline.join(lines), newline * draw(st.integers(2, 3))]
    end = draw(st.sampled_from(["", "cut", "cut both", "comment"]))
    text = "".join(pieces)
    if end == "comment":
        text += "# the end" + draw(st.sampled_from(["", newline]))
    elif end:
        text = text.rstrip("\r\n") + (newline if end == "cut" else "")
    return text.encode()
