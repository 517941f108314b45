"""Sentences of plain text, one a line."""

import pytest

from omkl.data import Treebank, iter_words
from omkl.exceptions import DataFileError


def test_text_has_a_sentence_a_line(tmp_path):
    (tmp_path / "in.txt").write_text("the bobas\n\n  the \u00e9t\u00e9 \n")
    blocks = list(iter_words(tmp_path / "in.txt", block_size=1))
    assert [sentence.forms for block in blocks for sentence in block] == [["the", "bobas"], ["the", "\u00e9t\u00e9"]]
    assert len(Treebank.concatenate(blocks)) == 2
    comments = [line for block in blocks for line in block.text.decode().splitlines() if line.startswith("#")]
    assert comments == ["# sent_id = 1", "# text = the bobas", "# sent_id = 2", "# text = the \u00e9t\u00e9"]
    # spaces within numbers are no ends of words
    (tmp_path / "in.txt").write_bytes("# 10\u00a0000\u202f000\r\n_ \x1f 1-2\t3.1\r\n".encode())
    (found,) = iter_words(tmp_path / "in.txt")
    assert [s.forms for s in found] == [["#", "10\u00a0000\u202f000"], ["_", "\x1f", "1-2", "3.1"]]
    for content, message in ((b"\n \n", "holds no word"), (b"ok\n\xff\xfe\n", "line 2: this is not UTF-8")):
        (tmp_path / "bad.txt").write_bytes(content)
        with pytest.raises(DataFileError, match=message):
            list(iter_words(tmp_path / "bad.txt"))
