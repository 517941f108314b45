"""The report is one self-contained page, equal for equal models.

Drawn sentences have every word and arc.
"""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from operator import ne
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

import omkl
from omkl.cli import main
from omkl.data import Sentence, Treebank, write_treebank
from omkl.estimators.persistence import SavedEstimator
from omkl.exceptions import InputError
from omkl.reports import draw_tree, make_report
from omkl.reports.markup import NOTHING, html, table
from omkl.reports.quality import marked_tokens
from omkl.reports.report import QUALITIES, SECTIONS, _group_table

from ..commands import read_json
from ..estimators.test_explanations import TAGS, TREES, WORDS

RNG = np.random.default_rng(0)
WORDS = 5 * WORDS
TAGS = 5 * TAGS
SENTENCES = [TREES[1], TREES[0]] * 4
VOID = {"meta", "img", "br", "link"}


class Page(HTMLParser):
    """Parser of a page that fails if elements are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.open = []
        self.words = []
        self.links = []
        self.ids = []
        self.tables = 0
        self.headings = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self._add_links(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.tables += tag == "table"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self._add_links(dict(attributes))

    def _add_links(self, attributes):
        for key in ("src", "href", "xlink:href"):
            if key in attributes:
                self.links.append(attributes[key])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def checked(html):
    page = Page(html)
    # the page is self-contained: links are internal or data
    assert all(link.startswith(("#", "data:image/")) for link in page.links), page.links
    sections = {link[1:] for link in page.links if link.startswith("#section")}
    assert sections <= set(page.ids)
    assert "default-src 'none'" in html
    for url in re.findall(r"https?://[^\s\"'<>)]+", html):
        assert url.startswith(("http://www.w3.org/",)), url
    return page


X = np.abs(RNG.normal(size=(120, 5)))
Y = np.array(["<low>", "mid & more", 'the "top"'])[np.digitize(X[:, 0] + X[:, 1], [1.2, 2.0])]


def test_a_classifier():
    model = omkl.OnlineMKLClassifier(loss="crf", epochs=4, random_state=0).fit(X[:80], Y[:80])
    html = make_report(
        model,
        X[80:],
        Y[80:],
        title="Levels <b>",
    )
    page = checked(html)
    assert html == make_report(model, X[80:], Y[80:], title="Levels <b>")
    assert page.headings[0] == "Levels <b>"
    assert "mid & more" in page.text
    accuracy = model.score(X[80:], Y[80:])
    assert f"accuracy {accuracy:.1%}" in page.text
    wrong = np.flatnonzero(model.predict(X[80:]) != Y[80:])
    assert page.text.count("instead of") == min(len(wrong), 10)
    for name in (
        "What it learned",
        "How good it is",
        "What it gets most wrong",
        "How it was trained",
        "Calibration",
    ):
        assert name in page.headings
    assert "random_state" in page.text
    assert "<svg" in html


@pytest.mark.slow
@pytest.mark.parametrize("with_data", [True, False])
@pytest.mark.parametrize(
    "model",
    [
        omkl.MKLClassifier(C=1.0),
        omkl.MKLClassifierCV(["linear", "gaussian"], Cs=3, cv=2),
        omkl.SparseLogisticRegression(0.01),
        omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=1),
        omkl.OnlineMKLRegressor(epochs=2),
        omkl.MKLRegressor(["linear"]),
        omkl.GroupLasso(0.01, groups=[[0, 1], [2, 3, 4]]),
        omkl.GroupLassoCV(alphas=3, cv=2),
    ],
    ids=lambda model: type(model).__name__ + str(getattr(model, "method", "")),
)
def test_every_estimator_of_rows(model, with_data):
    y = Y if hasattr(model, "decision_function") else X[:, 0] - X[:, 2]
    model.fit(X[:60], y[:60])
    data = (X[60:], y[60:]) if with_data else ()
    page = checked(make_report(model, *data))
    assert ("How good it is" in page.headings) == with_data
    assert {"What it learned", "How it was trained"} <= set(page.headings)
    has_scales = bool(getattr(model, "column_scales_", {}))
    assert ("Scales of standardized columns" in page.text) == has_scales


@pytest.mark.slow
def test_effects_of_columns_are_drawn_for_kernels_on_single_columns():
    pytest.importorskip("matplotlib")
    X, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    kernels = omkl.kernels.per_column("gaussian", X)
    for specs, has_effects in ((kernels, True), (["gaussian"], False)):
        model = omkl.MKLRegressor(specs, regularizer="mkl").fit(X, y[:, 0])
        page = make_report(model, X, y[:, 0])
        assert ("Effects of columns" in page) == has_effects
        assert ("What each column adds" in page) == has_effects


@pytest.mark.slow
def test_rows_of_dicts_and_data_frames():
    rows = [{"colour": c, "n": float(k)} for k, c in enumerate(["red", "blue"] * 20)]
    model = omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(rows[:20], ["r", "b"] * 10)
    assert "colour=red" in checked(make_report(model, rows[20:], ["b", "r"] * 10)).text
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d", "e & f"])
    lasso = omkl.GroupLasso(0.001).fit(frame, X[:, 4])
    page = checked(make_report(lasso, frame, X[:, 4] + 1))
    assert "e & f" in page.text


@pytest.mark.slow
def test_a_labeler_of_words_and_one_of_images():
    model = omkl.SequenceLabeler(epochs=2, early_stopping=True, random_state=0).fit(WORDS, TAGS)
    unknown = [["<the>", "\x00odd\ud800", "dog"], ["cats", "bark"]]
    page = checked(make_report(model, [*unknown, *WORDS], [["N", "N", "V"], ["V", "X"], *TAGS]))
    assert "Sequence 1" in page.text
    assert "<the>" in page.text
    assert "Strongest features by label" in page.headings
    assert model.top_features(1)[0]["feature"] in page.text
    images = [RNG.random((len(tags), 128)) for tags in TAGS]
    reader = omkl.SequenceLabeler(["linear"], epochs=1, random_state=0).fit(images, TAGS)
    assert "image" in make_report(reader, images, [tags[::-1] for tags in TAGS])


@pytest.mark.slow
def test_entities_have_a_table_of_their_own():
    tags = [
        ["B-PER", "O", "B-LOC", "I-LOC"],
        ["O", "O", "O"],
        ["B-LOC", "O", "O", "B-PER", "I-PER"],
        ["O", "O"],
    ] * 5
    model = omkl.SequenceLabeler(epochs=1, random_state=0).fit(WORDS, tags)
    page = checked(make_report(model, WORDS, [labels[::-1] for labels in tags]))
    assert "By type of entity" in page.headings


WRONG = [
    Sentence(
        forms=["the", "<old>", "dog", "saw"],
        upos=["DET", "ADJ", "NOUN", "VERB"],
        heads=[2, 0, 4, 2],
        deprels=["det", "root", "nsubj", "dep"],
    )
]


@pytest.mark.slow
def test_trees_and_annotations():
    parser = omkl.DependencyParser(
        "small", epochs=2, memory=10, early_stopping=True, random_state=0
    ).fit(SENTENCES)
    gold = Treebank.from_sentences([*SENTENCES, *WRONG])
    page = checked(html := make_report(parser, gold))
    assert {"By relation", "By length of the arc", "Calibration of arcs"} <= set(page.headings)
    n = sum(a != b for a, b in zip(parser.predict(WRONG)[0].tolist(), WRONG[0].heads))
    assert n > 0
    assert f"Sentence 9: {n} of 4 heads wrong" in page.text
    assert html.count('class="omkl-tree"') == 1
    annotator = omkl.Annotator(
        ["upos", "trees"],
        folds=2,
        random_state=0,
        parser=omkl.DependencyParser("small", memory=10, epochs=1),
    ).fit(SENTENCES)
    page = checked(make_report(annotator, gold))
    assert "words wrong" in page.text
    expected = {
        "By tag",
        "Weights of upos",
        "Weights of trees",
        "Training of upos",
        "Training of trees",
    }
    assert expected | {"What each group of upos is worth"} <= set(page.headings)
    assert "Calibration of arcs" not in page.headings
    page = checked(make_report(annotator.calibrate(gold), gold))
    assert "Calibration of arcs" in page.headings
    with pytest.raises(InputError, match="read_treebank"):
        make_report(parser, [["no", "trees"]])
    with pytest.raises(InputError, match="No word has a head"):
        make_report(parser, Treebank.from_sentences([Sentence(forms=["no", "trees"])]))


def test_wrong_labels_stand_below_their_words():
    html = marked_tokens(
        ["dog", "barks"], (["NOUN", "VERB"], ["VERB", "VERB"]), (["a", "_"], ["b", "_"])
    )
    assert Page(html).text == "dog VERB NOUN b a barks VERB"
    assert re.findall("<del>(.*?)</del>", html) == ["VERB", "b"]
    assert html.count("class=wrong") == 1


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["$\\frac$", "a\ud800\x00b", "汉字 العربية", "<script>", "-" * 200])
def test_labels_and_groups_of_any_characters(odd):
    rows = [{odd: c, "n": float(k % 7)} for k, c in enumerate(["red", odd] * 20)]
    y = np.array([odd, "b"] * 20, dtype=object)
    model = omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(rows, y)
    checked(make_report(model, rows, y[::-1])).text.encode()


@pytest.mark.parametrize("arguments", [{"X": X}, {"n_worst": -1}, {"y": Y}, {"X": X, "y": Y[:5]}])
def test_refusals(arguments):
    with pytest.raises(InputError):
        make_report(omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(X, Y), **arguments)


def test_cells_of_tables():
    page = Page(table(["a", "b"], [["<x>", 1.5], [Markup("<b>y</b>"), None]]))
    assert page.text.split() == ["a", "b", "<x>", "1.5", "y", NOTHING]
    assert 'data-value="1.5"' in table(["a", "b"], [["x", 1.5]])
    assert "and 3 more" in table(["a"], [[k] for k in range(8)], limit=5)
    assert html.paragraph("a\x00\ud800b") == "<p>a\ufffd\ufffdb</p>"


def test_without_matplotlib_the_page_has_no_pictures(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    model = omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(X, Y)
    html = make_report(model, X, Y)
    assert "<svg" not in html
    assert "since matplotlib is missing" in html


# ---- the command ---------------------------------------------------------------------------------


def run(*arguments):
    return main(["report", *map(str, arguments)])


@pytest.mark.slow
def test_the_command_on_rows_sequences_and_trees(tmp_path, capsys):
    np.savetxt(
        tmp_path / "rows.csv",
        np.column_stack([X, X[:, 0] > 0.6]),
        delimiter=",",
        header="a,b,c,d,e,y",
        comments="",
    )
    model = omkl.OnlineMKLClassifier(epochs=1, random_state=0).fit(X, (X[:, 0] > 0.6).astype(int))
    model.save(tmp_path / "rows.npz")
    options = ["-o", tmp_path / "rows.html", "--json", tmp_path / "rows.json"]
    assert run(tmp_path / "rows.npz", tmp_path / "rows.csv", *options) == 0
    assert read_json(tmp_path / "rows.json")["examples"] == 120
    assert "How good it is" in checked((tmp_path / "rows.html").read_text()).headings
    labeler = omkl.SequenceLabeler(epochs=1, random_state=0).fit(WORDS, TAGS)
    labeler.save(tmp_path / "labeler.npz")
    lines = [json.dumps({"x": x, "y": y}) for x, y in zip(WORDS, TAGS)]
    (tmp_path / "words.jsonl").write_text("\n".join(lines) + "\n")
    assert (
        run(
            tmp_path / "labeler.npz",
            tmp_path / "words.jsonl",
            "-o",
            tmp_path / "labeler.html",
            "--title",
            "Tags",
        )
        == 0
    )
    assert checked((tmp_path / "labeler.html").read_text()).headings[0] == "Tags"
    parser = omkl.DependencyParser("small", epochs=1, memory=10, random_state=0).fit(SENTENCES)
    parser.save(tmp_path / "parser.npz")
    write_treebank(tmp_path / "gold.conllu", Treebank.from_sentences(SENTENCES))
    capsys.readouterr()
    assert run(tmp_path / "parser.npz", tmp_path / "gold.conllu") == 0
    checked(capsys.readouterr().out)  # to standard output, and nothing else


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: the page is not looked at in a browser"
)
def test_in_a_browser_tables_are_sorted_and_nothing_is_refused(tmp_path):
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(X, Y)
    html = make_report(model, X, Y)
    # a second script clicks on the column of recall twice, as a reader would
    click = """
        const tables = [...document.querySelectorAll("table")];
        const table = tables.find(table => table.tHead.textContent.includes("recall"));
        const buttons = [...table.querySelectorAll("thead button")];
        const button = buttons.find(button => button.textContent === "recall");
        const recall = row => parseFloat(row.cells[5].dataset.value);
        const read = () => [...table.tBodies[0].rows].map(recall).join(",");
        button.click();
        const down = read();
        button.click();
        document.title = down + " " + read();
    """
    path = tmp_path / "report.html"
    path.write_text(html.replace("</body>", f"<script>{click}</script></body>"), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--virtual-time-budget=2000", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    finished = subprocess.run(
        [*command, path.as_uri()],
        capture_output=True,
        text=True,
    )
    title = re.search(r"<title>([^<]*)</title>", finished.stdout).group(1)
    down, up = ([float(value) for value in part.split(",")] for part in title.split())
    assert down == sorted(down, reverse=True)
    assert up == sorted(up)
    assert len(up) == 3


SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def sentences(draw, n=None):
    """Any trees, projective or not, of n words of any characters."""
    n = n or draw(st.integers(1, 8))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k, word in enumerate(order[1:]):
        heads[word - 1] = draw(st.sampled_from(order[: k + 1]))
    strings = st.lists(
        st.text(min_size=1, max_size=7),
        min_size=n,
        max_size=n,
    )
    relations = st.lists(
        st.sampled_from(["det", "nsubj:pass", "flat:foreign", "_"]), min_size=n, max_size=n
    )
    return Sentence(forms=draw(strings), upos=draw(strings), heads=heads, deprels=draw(relations))


def box(text, size):
    """Left, right, bottom and top of a text of average letters."""
    half = 0.3 * size * len(text.text)
    x = float(text.get("x"))
    y = float(text.get("y"))
    return x - half, x + half, y, y - 0.75 * size


def texts_of(picture, kind):
    """Elements of the text of words ("form"), tags or relations."""
    return [text for text in picture.iter(SVG + "text") if text.get("class") == kind]


def check_labels(picture):
    """Labels of arcs are within the picture, and do not overlap."""
    boxes = [box(text, 11) for text in texts_of(picture, "relation")]
    for left, right, bottom, top in boxes:
        assert left >= 0
        assert right <= float(picture.get("width"))
        assert top >= 0
        assert bottom <= float(picture.get("height"))
    for box_a, box_b in combinations(boxes, 2):
        left, right, bottom, top = box_b
        is_beside = box_a[1] < left or right < box_a[0]
        assert is_beside or box_a[2] < top or bottom < box_a[3]


@given(sentence=sentences())
def test_everything_is_drawn_and_nothing_overlaps(sentence):
    picture = ElementTree.fromstring(draw_tree(sentence))
    assert len(texts_of(picture, "form")) == len(sentence)
    labels = [label for label in sentence.deprels if label != "_"]
    assert sorted(text.text for text in texts_of(picture, "relation")) == sorted(labels)
    check_labels(picture)


@given(sentence=sentences())
def test_arcs_join_heads_and_words_at_heights_of_their_own(sentence):
    picture = ElementTree.fromstring(draw_tree(sentence))
    places = np.array([float(text.get("x")) for text in texts_of(picture, "form")])
    joined = []
    arcs = []
    for path in picture.iter(SVG + "path"):
        if match := re.match(r"M([\d.]+),\d+V(\d+)q0,-8,(-?8),-8H([\d.]+)q", path.get("d")):
            begin, level, bend, flat = map(float, match.groups())
            ends = sorted([begin, flat + bend])
            joined.append([1 + int(np.argmin(np.abs(places - x))) for x in (begin, flat + bend)])
            arcs.append((*ends, level))
    expected = [[head, word] for word, head in enumerate(sentence.heads, 1) if head]
    assert sorted(joined) == sorted(expected)
    for (low, high, level), (other_low, other_high, other_level) in combinations(arcs, 2):
        if max(low, other_low) < min(high, other_high):
            assert level != other_level


@st.composite
def parses(draw):
    """A sentence, and another tree for its words."""
    gold = draw(sentences())
    return gold, replace(draw(sentences(len(gold))), forms=gold.forms)


@given(trees=parses())
def test_gold_arcs_are_above_the_words_and_predicted_ones_below(trees):
    gold, predicted = trees
    picture = ElementTree.fromstring(draw_tree(gold, predicted))
    height_of_words = float(texts_of(picture, "form")[0].get("y"))
    arcs = [path.get("d") for path in picture.iter(SVG + "path") if "H" in path.get("d")]
    heights = [float(re.match(r"M[\d.]+,([\d.]+)", arc)[1]) for arc in arcs]
    n_above = sum(height < height_of_words for height in heights)
    assert n_above == sum(head > 0 for head in gold.heads)
    assert len(heights) - n_above == sum(head > 0 for head in predicted.heads)
    n_wrong = sum(group.get("class") == "wrong" for group in picture.iter(SVG + "g"))
    gold_arcs = zip(gold.heads, gold.deprels)
    assert n_wrong == sum(map(ne, gold_arcs, zip(predicted.heads, predicted.deprels)))
    check_labels(picture)


def test_another_sentence_is_refused():
    with pytest.raises(InputError):
        draw_tree(Sentence(forms=["a"]), Sentence(forms=["b"]))


def test_sentences_without_heads_and_without_words():
    # in the picture, and in its title
    assert draw_tree(Sentence(forms=["a<b"])).count("a&lt;b") == 2
    assert ElementTree.fromstring(draw_tree(Sentence())).tag == SVG + "svg"


def test_estimators_say_what_a_report_on_them_has():
    exported = [getattr(omkl, name) for name in omkl.__all__]
    classes = [value for value in exported if isinstance(value, type)]
    estimators = [cls for cls in classes if issubclass(cls, SavedEstimator)]
    assert {cls.example_kind for cls in estimators} == {None, *QUALITIES}
    assert {section for cls in estimators for section in cls.report_sections} == set(SECTIONS)


def test_groups_are_ranked_by_the_loss_without_them():
    """With data, a group that alone tells the label is first; without, a heavy useless one is."""
    records = [
        {"group": name, "weight": weight, "norm": 1.0, "bytes": 8, "bytes_share": 0.5, **measured}
        for name, weight, measured in (
            ("heavy", 0.9, {"loss_without": 1.0, "loss_increase": 0.0, "standard_error": 0.1}),
            ("useful", 0.1, {"loss_without": 3.0, "loss_increase": 2.0, "standard_error": 0.1}),
        )
    ]
    (table,) = _group_table(None, records, "")
    assert table.index("useful") < table.index("heavy")
    unmeasured = [{key: record[key] for key in list(record)[:5]} for record in records]
    (table,) = _group_table(SimpleNamespace(group_report_=unmeasured), None, "")
    assert table.index("heavy") < table.index("useful")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "score"),
    [
        (omkl.MKLClassifier(["gaussian"]), "accuracy"),
        (omkl.MKLRegressor(["gaussian"]), "R²"),
        (omkl.OnlineMKLClassifier(random_state=0), "accuracy"),
    ],
)
def test_scores_on_training_rows_are_called_so(model, score):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model.fit(X[:40], (X[:40, 0] > 0).astype(int))
    pages = [
        make_report(model, rows, (rows[:, 0] > 0).astype(int)) for rows in (X[:40], X[40:], X[35:])
    ]
    assert [f"{score} on training rows" in page for page in pages] == [True, False, False]
    answers = np.random.default_rng(1).integers(0, 2, size=(100, 3)).astype(float)
    model.fit(answers[:40], answers[:40, 0].astype(int))
    pages = [
        make_report(model, rows, rows[:, 0].astype(int))
        for rows in (answers[:40], answers[40:80], answers)
    ]
    assert [f"{score} on training rows" in page for page in pages] == [True, False, False]
