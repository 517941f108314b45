"""Labelers of graphs on the command line."""

import json

import pytest

import omkl
from omkl.data import read_graphs
from omkl.exceptions import DataFileError

from ..commands import read_json, run

GRAPHS = [
    {"nodes": ["the", "dog", "runs"], "edges": [[0, 1], [1, 2]], "y": ["D", "N", "V"]},
    {"nodes": ["a", "cat"], "edges": [[0, 1]], "y": ["D", "N"]},
    {"nodes": ["dogs"], "edges": [], "y": ["N"]},
]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, GRAPHS)))
    return path


def test_train_predict_evaluate_inspect_report(corpus, tmp_path, capsys):
    model, output, metrics, page = (
        tmp_path / name for name in ("m.npz", "out.jsonl", "m.json", "page.html")
    )
    options = ["--random-state", "0", "--loss", "crf", "--dev", corpus, "--epochs", "5"]
    run("train", "graph", corpus, "-o", model, *options)
    run("predict", model, corpus, "-o", output, "--confidence")
    first = json.loads(output.read_text().splitlines()[0])
    assert first["y"] == ["D", "N", "V"]
    assert first["bound"] == pytest.approx(first["score"])
    assert len(first["confidence"]) == 3
    with pytest.MonkeyPatch.context() as patch:  # text has no certificates, so none are computed
        patch.delattr(omkl.GraphLabeler, "certificates")
        run("predict", model, corpus, "--to", "text")
    run("predict", model, corpus, "-o", output, "--nbest", "2")
    best, second = json.loads(output.read_text().splitlines()[0])["nbest"]
    assert best["y"] == first["y"]
    assert best["score"] == pytest.approx(first["score"])
    assert second["score"] <= best["score"]
    run("evaluate", model, corpus, "--json", metrics)
    scores = read_json(metrics)
    assert scores["accuracy"] == scores["proved"] == 1.0
    run("inspect", model, "--data", corpus)
    run("report", model, corpus, "-o", page)
    printed = capsys.readouterr().out
    assert "Accuracy 100.00%, whole graphs 100.00% (6 nodes, 3 graphs)" in printed
    assert "D\nN\nV\n" in printed
    assert "GraphLabeler" in page.read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r'line 1: expected {"nodes"'),
        ('{"nodes": ["a"]}', r'line 1: expected {"nodes"'),
        (
            '{"nodes": ["a"], "edges": [[0, 1]]}',
            r"line 1: Edge 0 of a graph, \(0, 1\), has a node outside",
        ),
        ('{"nodes": ["a"], "edges": [], "y": "a"}', 'line 1: "y" must be a list of labels'),
        (
            '{"nodes": ["a"], "edges": [], "y": ["b"]}\n{"nodes": ["a"], "edges": []}',
            'line 2: "y" must be a list',
        ),
        (
            '{"nodes": ["a"], "edges": [], "edge_feature": []}',
            "line 1: 'edge_feature' is not one of nodes, edges",
        ),
        ("", "holds no graphs"),
    ],
)
def test_bad_files_are_refused(line, message, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(line)
    with pytest.raises(DataFileError, match=message):
        read_graphs(path)


def test_numbers_are_arrays(tmp_path):
    path = tmp_path / "numbers.jsonl"
    path.write_text(
        '{"nodes": [[1, 2], [3, 4]], "edges": [[0, 1]], "edge_features": [[0.5]], "directed": true}'
    )
    [graph], labels = read_graphs(path)
    assert labels is None
    assert graph.nodes.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert graph.directed
