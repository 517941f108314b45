"""A drawn sentence has every word, arc and relation, and nothing overlaps."""

import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl.data import Sentence
from omkl.exceptions import InputError
from omkl.reports import draw_tree

SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def sentences(draw, n=None):
    """Any trees, projective or not, of n words of any characters."""
    n = n or draw(st.integers(1, 8))
    order, heads = draw(st.permutations(range(1, n + 1))), [0] * n
    for k, word in enumerate(order[1:]):
        heads[word - 1] = draw(st.sampled_from(order[: k + 1]))
    strings = st.lists(st.text(min_size=1, max_size=7), min_size=n, max_size=n)
    relations = st.lists(st.sampled_from(["det", "nsubj:pass", "flat:foreign", "_"]), min_size=n, max_size=n)
    return Sentence(forms=draw(strings), upos=draw(strings), heads=heads, deprels=draw(relations))


def box(text, size):
    """Left, right, bottom and top of a text of average letters."""
    half, y = 0.3 * size * len(text.text), float(text.get("y"))
    return float(text.get("x")) - half, float(text.get("x")) + half, y, y - 0.75 * size


def check_labels(drawn):
    """Labels of arcs are within the picture, and do not overlap."""
    boxes = [box(t, 11) for t in drawn.iter(SVG + "text") if t.get("class") == "relation"]
    width, height = float(drawn.get("width")), float(drawn.get("height"))
    assert all(left >= 0 and right <= width and top >= 0 and bottom <= height for left, right, bottom, top in boxes)
    for one, other in combinations(boxes, 2):
        assert one[1] < other[0] or other[1] < one[0] or one[2] < other[3] or other[2] < one[3]


@given(sentence=sentences())
def test_everything_is_drawn_and_nothing_overlaps(sentence):
    drawn = ElementTree.fromstring(draw_tree(sentence))
    texts = {kind: [t for t in drawn.iter(SVG + "text") if t.get("class") == kind] for kind in ("form", "relation")}
    assert len(texts["form"]) == len(sentence)
    assert sorted(t.text for t in texts["relation"]) == sorted(label for label in sentence.deprels if label != "_")
    check_labels(drawn)


@given(sentence=sentences())
def test_arcs_join_heads_and_words_at_heights_of_their_own(sentence):
    drawn = ElementTree.fromstring(draw_tree(sentence))
    places = [float(t.get("x")) for t in drawn.iter(SVG + "text") if t.get("class") == "form"]
    arcs = []
    for path in drawn.iter(SVG + "path"):
        if match := re.match(r"M([\d.]+),\d+V(\d+)q0,-8,(-?8),-8H([\d.]+)q", path.get("d")):
            begin, level, bend, flat = map(float, match.groups())
            arcs.append((begin, flat + bend, level))
    nearest = [tuple(min(range(len(places)), key=lambda i: abs(places[i] - x)) + 1 for x in arc[:2]) for arc in arcs]
    assert sorted(nearest) == sorted((head, word) for word, head in enumerate(sentence.heads, 1) if head)
    for (a, b, level), (c, d, other) in combinations(arcs, 2):
        if max(min(a, b), min(c, d)) < min(max(a, b), max(c, d)):
            assert level != other


@st.composite
def parses(draw):
    """A sentence, and another tree for its words."""
    gold = draw(sentences())
    return gold, replace(draw(sentences(len(gold))), forms=gold.forms)


@given(both=parses())
def test_gold_arcs_are_above_the_words_and_predicted_ones_below(both):
    gold, predicted = both
    drawn = ElementTree.fromstring(draw_tree(gold, predicted))
    words = next(float(t.get("y")) for t in drawn.iter(SVG + "text") if t.get("class") == "form")
    arcs = list(drawn.iter(SVG + "path"))
    heights = [float(re.match(r"M[\d.]+,([\d.]+)", path.get("d"))[1]) for path in arcs if "H" in path.get("d")]
    assert sum(y < words for y in heights) == sum(head > 0 for head in gold.heads)
    assert sum(y > words for y in heights) == sum(head > 0 for head in predicted.heads)
    wrong = [g for g in drawn.iter(SVG + "g") if g.get("class") == "wrong"]
    differ = [a != b or c != d for a, b, c, d in zip(gold.heads, predicted.heads, gold.deprels, predicted.deprels)]
    assert len(wrong) == sum(differ)
    check_labels(drawn)


def test_another_sentence_is_refused():
    with pytest.raises(InputError):
        draw_tree(Sentence(forms=["a"]), Sentence(forms=["b"]))


def test_sentences_without_heads_and_without_words():
    assert draw_tree(Sentence(forms=["a<b"])).count("a&lt;b") == 2  # in the picture, and in its title
    assert ElementTree.fromstring(draw_tree(Sentence())).tag == SVG + "svg"
