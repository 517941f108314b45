"""
Words and labels as graphs, beside models without the edges
===========================================================

    python examples/graph_tasks.py                               all of it: about five minutes
    python examples/graph_tasks.py --tasks rows --seeds 1        one task, once

Three tasks for ``GraphLabeler``, each beside models with the same features of nodes and fewer
edges.

``words``: tags and morphology of a sentence as a factorial graph (Sutton, Rohanimanesh and McCallum
2004). A node is an attribute of a word: its part of speech, number, gender, and so on. Edges join
the same attribute of neighboring words, and the attributes of a word with each other. Beside it: a
chain for each attribute, and a chain whose labels are the combinations of all values. Danish (DDT),
of which the file ``dev`` trains. "Whole" are words with all attributes right.

``documents``: skip chains (Sutton and McCallum 2004) of parts of speech. Edges join neighboring
words, and a word of four or more letters with its next occurrence in the document. Beside it: the
chains alone. English (EWT), of which ``dev`` trains. "Whole" are only words that occur several
times in a document, and never in training.

``rows``: labels of a table, each of which is on or off. The nodes of a row are its labels, and all
pairs have an edge. Beside it: the nodes alone, which are independent classifiers, and logistic
regressions of scikit-learn, alone and as a chain, in which each sees the labels before. The table
is made up, with another one for each seed, by ``make_multilabel_classification`` of scikit-learn.
"Whole" are rows with all labels right.

The table shows the number of graphs to train; the number of nodes to test, their accuracy, its gain
over the first model, and the standard deviation of the gain over seeds; the same for what is whole;
and the seconds of processor time of training. Seeds change the order of training, and the table of
rows. Writes ``graph_tasks.json``.
"""

import argparse
import time
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from omkl import GraphLabeler, SequenceLabeler
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import Graph, data_home, read_treebank
from omkl.features import token_features

ATTRIBUTES = ["UPOS", "Number", "Gender", "Definite", "Tense", "VerbForm"]
DANISH = [f"ud/UD_Danish-DDT/da_ddt-ud-{part}.conllu.gz" for part in ("dev", "test")]
ENGLISH = [f"ud/UD_English-EWT/en_ewt-ud-{part}.conllu.gz" for part in ("dev", "test")]
#: Shorter words are mostly function words: to repeat them says nothing.
SHORTEST = 4


def fitted(model, X, y):
    """Train a model; return it and the seconds of processor time."""
    start = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - start


def joined(arrays):
    return np.concatenate(list(arrays))


# ---- tags and morphology -------------------------------------------------------------------------


def attributes(sentence):
    """Values of the attributes of each word, such as ``Number=Sing``: (words, attributes)."""
    rows = [
        dict(pair.split("=") for pair in feats.split("|") if "=" in pair)
        for feats in sentence.feats
    ]
    rows = [{**row, "UPOS": tag} for row, tag in zip(rows, sentence.upos)]
    return np.array([[f"{name}={row.get(name, 'none')}" for name in ATTRIBUTES] for row in rows])


def factorial(sentence):
    """Make a graph of attributes of words; each attribute has features of its own."""
    nodes = [
        {key: f"{name}:{value}" for key, value in {"bias": True, **features}.items()}
        for features in token_features(sentence.forms)
        for name in ATTRIBUTES
    ]
    index = np.arange(len(nodes)).reshape(-1, len(ATTRIBUTES))
    edges = [pair for words in pairwise(index) for pair in zip(*words)]
    edges += [pair for word in index for pair in combinations(word, 2)]
    kinds = ATTRIBUTES * (len(index) - 1) + [
        " ".join(pair) for pair in combinations(ATTRIBUTES, 2)
    ] * len(index)
    return Graph(nodes, edges, [{"kind": kind} for kind in kinds], directed=True)


def words(options, seed):
    """Compare a chain for each attribute, a chain of combined labels, and a factorial graph."""
    train, test = (list(read_treebank(data_home() / name)[: options.sentences]) for name in DANISH)
    y, gold = [attributes(sentence) for sentence in train], joined(map(attributes, test))

    def chain(labels):
        model = SequenceLabeler(loss="hinge", epochs=options.epochs, random_state=seed)
        model, seconds = fitted(model, [sentence.forms for sentence in train], labels)
        return joined(model.predict([sentence.forms for sentence in test])), seconds

    found, seconds = zip(*(chain([values[:, k] for values in y]) for k in range(len(ATTRIBUTES))))
    right = np.stack(found, axis=1) == gold
    yield "a chain for each attribute", len(train), right, right.all(axis=1), sum(seconds)
    found, seconds = chain([["|".join(word) for word in values] for values in y])
    right = np.array([label.split("|") for label in found]) == gold
    yield "a chain of combined labels", len(train), right, right.all(axis=1), seconds
    # edges of different kinds have no pairs of labels in common
    graph = GraphLabeler(
        transitions=None, sweeps=options.sweeps, epochs=options.epochs, random_state=seed
    )
    graph, seconds = fitted(
        graph, [factorial(sentence) for sentence in train], [values.ravel() for values in y]
    )
    right = (
        joined(graph.predict([factorial(sentence) for sentence in test])).reshape(gold.shape)
        == gold
    )
    yield "factorial graph", len(train), right, right.all(axis=1), seconds


# ---- repeated words ------------------------------------------------------------------------------


def documents_of(name, n):
    """Read about n documents, lists of sentences, from all parts of a treebank."""
    treebank, found = read_treebank(data_home() / name), []
    starts = [b"# newdoc" in treebank.text[a:b] for a, b in pairwise(treebank.text_offsets)]
    for sentence, is_first in zip(treebank, starts):
        found += [[]] if is_first else []
        found[-1].append(sentence)
    return found[:: max(1, len(found) // n)]


def lowered(document):
    return [form.lower() for sentence in document for form in sentence.forms]


def skip_chain(document, skips):
    """Make a graph of the words of a document, whose sentences are chains."""
    ends = np.cumsum([len(sentence) for sentence in document]).tolist()
    kinds = {(i - 1, i): "next" for i in range(1, ends[-1]) if i not in ends}
    last = {}
    for i, word in enumerate(lowered(document) if skips else []):
        if len(word) >= SHORTEST:
            if word in last:
                kinds.setdefault((last[word], i), "same word")
            last[word] = i
    nodes = [features for sentence in document for features in token_features(sentence.forms)]
    return Graph(nodes, list(kinds), [{"kind": kind} for kind in kinds.values()], directed=True)


def documents(options, seed):
    """Compare documents without and with edges between equal words."""
    train, test = (documents_of(name, options.documents) for name in ENGLISH)
    y, gold = (
        [[tag for sentence in own for tag in sentence.upos] for own in part]
        for part in (train, test)
    )
    known = {word for document in train for word in lowered(document)}
    repeated = [
        [word not in known and own.count(word) > 1 for word in own] for own in map(lowered, test)
    ]
    for name, skips in (("chains", False), ("skip chains", True)):
        model = GraphLabeler(sweeps=options.sweeps, epochs=options.epochs, random_state=seed)
        model, seconds = fitted(model, [skip_chain(document, skips) for document in train], y)
        right = joined(model.predict([skip_chain(document, skips) for document in test])) == joined(
            gold
        )
        yield name, len(train), right, right[joined(repeated)], seconds


# ---- labels of a table ---------------------------------------------------------------------------


def label_graph(row, n_labels, joins):
    """Make a graph of the labels of a row; each label and each pair has columns of its own."""
    nodes = np.kron(np.eye(n_labels), np.append(row, 1.0))
    edges = list(combinations(range(n_labels), 2)) if joins else []
    return Graph(nodes, edges, np.eye(len(edges)) if joins else None, directed=True)


def rows(options, seed):
    """Compare independent labels with a graph of all labels, and both with classifiers of
    scikit-learn.
    """
    n, shape = options.rows, {"n_features": 20, "n_classes": 6, "n_labels": 3}
    X, y = make_multilabel_classification(2 * n, **shape, random_state=seed)
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    for name, joins in (("independent labels", False), ("graph of labels", True)):
        graphs = [label_graph(row, y.shape[1], joins) for row in X]
        model = GraphLabeler(["linear"], transitions=None, epochs=options.epochs, random_state=seed)
        model, seconds = fitted(model, graphs[:n], list(y[:n]))
        right = np.stack(model.predict(graphs[n:])) == y[n:]
        yield name, n, right, right.all(axis=1), seconds
    for name, several in (
        ("logistic regressions", MultiOutputClassifier),
        ("chain of them", ClassifierChain),
    ):
        model, seconds = fitted(several(LogisticRegression()), X[:n], y[:n])
        right = model.predict(X[n:]) == y[n:]
        yield name, n, right, right.all(axis=1), seconds


# ---- the table -----------------------------------------------------------------------------------

TASKS = {"words": words, "documents": documents, "rows": rows}


def summaries(task, runs):
    """Summarize the models of a task, each with a result for each seed; gains are over the first
    model.
    """
    accuracies = 100 * np.array(
        [[[right.mean(), whole.mean()] for _, _, right, whole, _ in run] for run in runs]
    )
    gains = accuracies - accuracies[:, :1]
    means, more, deviations = (
        found.round(2).tolist() for found in (accuracies.mean(0), gains.mean(0), gains.std(0))
    )
    for i, results in enumerate(zip(*runs)):
        name, n, right, whole, _ = results[0]
        record = {"model": f"{task}: {name}", "graphs": n}
        for k, (kind, counted) in enumerate((("nodes", right), ("whole", whole))):
            record |= {f"n {kind}": counted.size, kind: means[i][k]}
            record |= {f"gain {kind}": more[i][k], f"sd {kind}": deviations[i][k]}
        yield record | {"seconds": round(float(np.mean([seconds for *_, seconds in results])), 2)}


def main():
    parser = argparse.ArgumentParser(
        description="Words and labels as graphs, beside models without the edges."
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path())
    options = parser.parse_args()
    prepare_output(options.output / "graph_tasks.json")
    records = []
    for task in options.tasks:
        # compiles
        list(
            TASKS[task](
                argparse.Namespace(sentences=3, documents=2, rows=20, epochs=1, sweeps=5), 0
            )
        )
        runs = [list(TASKS[task](options, seed)) for seed in range(options.seeds)]
        records += summaries(task, runs)
    print("\n".join(table([list(record.values()) for record in records], list(records[0]))))
    write_json(options.output / "graph_tasks.json", {"rows": records})


if __name__ == "__main__":
    main()
