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
from functools import partial
from itertools import combinations, pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from omkl import Edges, GraphLabeler, SequenceLabeler
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
    rows = []
    for feats, tag in zip(sentence.feats, sentence.upos):
        values = dict(pair.split("=") for pair in feats.split("|") if "=" in pair)
        values["UPOS"] = tag
        rows.append([f"{name}={values.get(name, 'none')}" for name in ATTRIBUTES])
    return np.array(rows)


def factorial(sentence):
    """Make a graph of attributes of words; each attribute has features of its own."""
    nodes = []
    for features in token_features(sentence.forms):
        features = {"bias": True, **features}
        for name in ATTRIBUTES:
            nodes.append({key: f"{name}:{value}" for key, value in features.items()})
    index = np.arange(len(nodes)).reshape(-1, len(ATTRIBUTES))
    edges = []
    for word, following in pairwise(index):
        edges += zip(word, following)
    kinds = ATTRIBUTES * (len(index) - 1)
    pairs = [" ".join(pair) for pair in combinations(ATTRIBUTES, 2)]
    for word in index:
        edges += combinations(word, 2)
        kinds += pairs
    return Graph(nodes, edges, [{"kind": kind} for kind in kinds], directed=True)


forms_of = attrgetter("forms")


def words(options, seed):
    """Compare a chain for each attribute, a chain of combined labels, and a factorial graph."""
    train, test = (list(read_treebank(data_home() / name)[: options.sentences]) for name in DANISH)
    y = list(map(attributes, train))
    gold = joined(map(attributes, test))

    def chain(labels):
        model = SequenceLabeler(loss="hinge", epochs=options.epochs, random_state=seed)
        model, seconds = fitted(model, list(map(forms_of, train)), labels)
        return joined(model.predict(list(map(forms_of, test)))), seconds

    columns = [[values[:, k] for values in y] for k in range(len(ATTRIBUTES))]
    predicted, seconds = zip(*map(chain, columns))
    right = np.stack(predicted, axis=1) == gold
    yield "a chain for each attribute", len(train), right, right.all(axis=1), sum(seconds)
    predicted, seconds = chain([list(map("|".join, values)) for values in y])
    right = np.array([label.split("|") for label in predicted]) == gold
    yield "a chain of combined labels", len(train), right, right.all(axis=1), seconds
    # edges of different kinds have no pairs of labels in common
    graph = GraphLabeler(
        epochs=options.epochs,
        random_state=seed,
        edges=Edges(transitions=None, sweeps=options.sweeps),
    )
    labels = list(map(np.ravel, y))
    graph, seconds = fitted(graph, list(map(factorial, train)), labels)
    predicted = joined(graph.predict(list(map(factorial, test))))
    right = predicted.reshape(gold.shape) == gold
    yield "factorial graph", len(train), right, right.all(axis=1), seconds


# ---- repeated words ------------------------------------------------------------------------------


def documents_of(name, n):
    """Read about n documents, lists of sentences, from all parts of a treebank."""
    treebank = read_treebank(data_home() / name)
    documents = []
    for sentence, (start, stop) in zip(treebank, pairwise(treebank.text_offsets)):
        if b"# newdoc" in treebank.text[start:stop]:
            documents.append([])
        documents[-1].append(sentence)
    return documents[:: max(1, len(documents) // n)]


def lowered(document):
    forms = []
    for sentence in document:
        forms += [form.lower() for form in sentence.forms]
    return forms


def tags_of(document):
    tags = []
    for sentence in document:
        tags += sentence.upos
    return tags


def skip_chain(document, skips):
    """Make a graph of the words of a document, whose sentences are chains."""
    ends = np.cumsum([len(sentence) for sentence in document]).tolist()
    kinds = {(i - 1, i): "next" for i in range(1, ends[-1]) if i not in ends}
    last = {}
    for i, word in enumerate(lowered(document)):
        if skips and len(word) >= SHORTEST:
            if word in last:
                kinds.setdefault((last[word], i), "same word")
            last[word] = i
    nodes = []
    for sentence in document:
        nodes += token_features(sentence.forms)
    return Graph(nodes, list(kinds), [{"kind": kind} for kind in kinds.values()], directed=True)


def documents(options, seed):
    """Compare documents without and with edges between equal words."""
    train, test = (documents_of(name, options.documents) for name in ENGLISH)
    y = list(map(tags_of, train))
    gold = joined(map(tags_of, test))
    words_of_training = set().union(*map(lowered, train))
    repeated = []
    for words in map(lowered, test):
        repeated.append([word not in words_of_training and words.count(word) > 1 for word in words])
    for name, skips in (("chains", False), ("skip chains", True)):
        model = GraphLabeler(
            edges=Edges(sweeps=options.sweeps), epochs=options.epochs, random_state=seed
        )
        as_graph = partial(skip_chain, skips=skips)
        model, seconds = fitted(model, list(map(as_graph, train)), y)
        predicted = model.predict(list(map(as_graph, test)))
        right = joined(predicted) == gold
        yield name, len(train), right, right[joined(repeated)], seconds


# ---- labels of a table ---------------------------------------------------------------------------


def label_graph(row, n_labels, joins):
    """Make a graph of the labels of a row; each label and each pair has columns of its own."""
    nodes = np.kron(np.eye(n_labels), np.append(row, 1.0))
    if not joins:
        return Graph(nodes, [], None, directed=True)
    edges = list(combinations(range(n_labels), 2))
    return Graph(nodes, edges, np.eye(len(edges)), directed=True)


def rows(options, seed):
    """Compare independent labels, a graph of all labels, and classifiers of scikit-learn."""
    n = options.rows
    shape = {"n_features": 20, "n_classes": 6, "n_labels": 3}
    X, y = make_multilabel_classification(2 * n, **shape, random_state=seed)
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    for name, joins in (("independent labels", False), ("graph of labels", True)):
        graphs = [label_graph(row, y.shape[1], joins) for row in X]
        model = GraphLabeler(
            ["linear"], Edges(transitions=None), epochs=options.epochs, random_state=seed
        )
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
    """Summarize the models of a task over the seeds; gains are over the first model."""
    results_of_models = list(zip(*runs))
    for results in results_of_models:
        name, n_graphs, *right_of_kinds, _ = results[0]
        record = {"model": f"{task}: {name}", "graphs": n_graphs}
        for kind, column, right in zip(("nodes", "whole"), (2, 3), right_of_kinds):
            accuracies = percent_right(results, column)
            gains = accuracies - percent_right(results_of_models[0], column)
            record[f"n {kind}"] = right.size
            record[kind] = rounded(accuracies.mean())
            record[f"gain {kind}"] = rounded(gains.mean())
            record[f"sd {kind}"] = rounded(gains.std())
        record["seconds"] = rounded(np.mean([seconds for *_, seconds in results]))
        yield record


def percent_right(results, column):
    return 100 * np.array([result[column].mean() for result in results])


def rounded(number):
    return round(float(number), 2)


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
        few = argparse.Namespace(sentences=3, documents=2, rows=20, epochs=1, sweeps=5)
        list(TASKS[task](few, 0))
        runs = [list(TASKS[task](options, seed)) for seed in range(options.seeds)]
        records += summaries(task, runs)
    print("\n".join(table([list(record.values()) for record in records], list(records[0]))))
    write_json(options.output / "graph_tasks.json", {"rows": records})


if __name__ == "__main__":
    main()
