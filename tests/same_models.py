"""Compare the models of this tree with those of another revision, bit by bit.

``python -m tests.same_models REVISION`` trains a model of each kind here and in a checkout of the
revision, and names the kinds whose scores differ. If only the form of code changes, none may
differ. Kinds that the revision does not have are left out. Without a revision, the digests are
printed.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

import omkl
from omkl.data import Graph, synthetic_treebank

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 5))
NUMBERS = ROWS[:, 0] ** 2 + ROWS[:, 1] + 0.1 * RNG.normal(size=300)
CLASSES = np.array(["no", "yes", "perhaps"])[(ROWS[:, 0] > 0).astype(int) + (ROWS[:, 1] > 1)]
TWO_CLASSES = (NUMBERS > 1).astype(int)
WORDS = [f"w{code}" for code in range(30)]


def labeled_sentences() -> tuple[list, list]:
    """Return sentences of dicts of features, and labels that follow from words and neighbours."""
    rng = np.random.default_rng(1)
    sentences = []
    labels = []
    for _ in range(80):
        codes = rng.integers(len(WORDS), size=rng.integers(1, 12))
        sentences.append([{"word": WORDS[code], "suffix": str(code % 5)} for code in codes])
        before = np.concatenate([[0], codes[:-1]])
        labels.append([str(label) for label in (codes + before) % 4])
    return sentences, labels


def labeled_graphs() -> tuple[list, list]:
    """Return graphs with cycles, and labels of their nodes."""
    rng = np.random.default_rng(2)
    graphs = []
    labels = []
    for _ in range(60):
        n_nodes = int(rng.integers(3, 8))
        edges = [(node, node + 1) for node in range(n_nodes - 1)]
        edges.append((0, n_nodes - 1))
        labels_of_nodes = rng.integers(3, size=n_nodes)
        nodes = np.eye(3)[labels_of_nodes] + rng.normal(size=(n_nodes, 3))
        graphs.append(Graph(nodes, edges))
        labels.append(labels_of_nodes)
    return graphs, labels


def flattened(scores: object) -> Iterator[np.ndarray]:
    """Yield the arrays in nested lists, dicts and arrays, in order."""
    if isinstance(scores, dict):
        for name in sorted(scores, key=str):
            yield from flattened(scores[name])
    elif isinstance(scores, (list, tuple)):
        for item in scores:
            yield from flattened(item)
    else:
        yield np.asarray(scores)


def digest(*scores: object) -> str:
    """Return the digest of the bytes of all arrays in scores."""
    total = hashlib.sha256()
    for array in flattened(scores):
        content = array.tobytes()
        if array.dtype.kind in "UO":
            content = str(array.tolist()).encode()
        total.update(content)
    return total.hexdigest()[:16]


def rows(model: omkl.OnlineMKLClassifier, y: np.ndarray) -> str:
    model.set_params(random_state=0)
    model.fit(ROWS[:200], y[:200])
    return digest(model.decision_function(ROWS), model.kernel_weights_)


def numbers(model: omkl.OnlineMKLRegressor) -> str:
    model.set_params(random_state=0)
    model.fit(ROWS[:200], NUMBERS[:200])
    return digest(model.predict(ROWS), model.kernel_weights_)


def stream_of_rows(model: omkl.OnlineMKLClassifier) -> str:
    """Learn blocks of several sizes, single rows among them."""
    model.set_params(random_state=0)
    for start, end in ((0, 50), (50, 51), (51, 52), (52, 200)):
        model.partial_fit(
            ROWS[start:end],
            CLASSES[start:end],
            classes=np.unique(CLASSES),
        )
    return digest(model.decision_function(ROWS))


def batch(model: omkl.MKLClassifier | omkl.GroupLasso, y: np.ndarray) -> str:
    model.fit(ROWS[:120], y[:120])
    scores = getattr(model, "decision_function", model.predict)
    return digest(scores(ROWS))


def sentences(model: omkl.SequenceLabeler) -> str:
    X, y = labeled_sentences()
    model.set_params(random_state=0)
    model.fit(X[:60], y[:60])
    return digest(model.predict(X), model.kernel_weights_)


def graphs(model: omkl.GraphLabeler) -> str:
    X, y = labeled_graphs()
    model.set_params(random_state=0)
    model.fit(X[:40], y[:40])
    return digest(model.predict(X), model.kernel_weights_)


def treebanks(model: omkl.DependencyParser) -> str:
    projective = model.trees.projective
    treebank = synthetic_treebank(120, vocabulary=20, projective=projective, random_state=0)
    model.set_params(random_state=0, memory=10, epochs=2)
    parsed = model.fit(treebank[:80]).parse(treebank)
    return digest(parsed.heads, parsed.deprels, model.template_weights_)


def annotated() -> str:
    treebank = synthetic_treebank(80, vocabulary=20, random_state=0)
    parser = omkl.DependencyParser("small", epochs=2, memory=10)
    tagger = omkl.SequenceLabeler(epochs=2)
    model = omkl.Annotator(parser=parser, tagger=tagger, random_state=0)
    annotated_treebank = model.fit(treebank).annotate(treebank)
    return digest(annotated_treebank.heads, annotated_treebank.deprels)


#: What is trained: the name of a kind, and a function that returns the digest of its scores.
KINDS: dict[str, Callable[[], str]] = {
    "rows, defaults": lambda: rows(omkl.OnlineMKLClassifier(), CLASSES),
    "rows, two classes, hinge": lambda: rows(omkl.OnlineMKLClassifier(loss="hinge"), TWO_CLASSES),
    "rows, rda, budget": lambda: rows(
        omkl.OnlineMKLClassifier(["gaussian", "linear"], method="rda", budget=40), CLASSES
    ),
    "rows, random features, float32": lambda: rows(
        omkl.OnlineMKLClassifier(
            ["gaussian:features=50", "linear"], budget=omkl.Budget(dtype="float32")
        ),
        CLASSES,
    ),
    "rows, out-of-sample": lambda: rows(
        omkl.OnlineMKLClassifier(weighting="out-of-sample"), CLASSES
    ),
    "rows, stream": lambda: stream_of_rows(omkl.OnlineMKLClassifier()),
    "rows, early stopping": lambda: rows(omkl.OnlineMKLClassifier(early_stopping=True), CLASSES),
    "numbers, defaults": lambda: numbers(omkl.OnlineMKLRegressor()),
    "numbers, huber": lambda: numbers(omkl.OnlineMKLRegressor(loss="huber")),
    "sentences, defaults": lambda: sentences(omkl.SequenceLabeler()),
    "sentences, crf": lambda: sentences(omkl.SequenceLabeler(loss="crf")),
    "sentences, order 2": lambda: sentences(
        omkl.SequenceLabeler(transitions=omkl.Transitions(order=2))
    ),
    "sentences, l1": lambda: sentences(omkl.SequenceLabeler(loss="crf", regularizer="l1")),
    "graphs, defaults": lambda: graphs(omkl.GraphLabeler()),
    "graphs, crf": lambda: graphs(omkl.GraphLabeler(loss="crf")),
    "trees, defaults": lambda: treebanks(omkl.DependencyParser()),
    "trees, crf, projective": lambda: treebanks(
        omkl.DependencyParser(
            "small",
            loss="crf",
            search=omkl.TreeSearch(order=1),
            trees=omkl.TreeForm(projective=True),
        )
    ),
    "trees, order 1": lambda: treebanks(
        omkl.DependencyParser("small", search=omkl.TreeSearch(order=1))
    ),
    "annotator": annotated,
    "batch classes": lambda: batch(omkl.MKLClassifier(), CLASSES),
    "batch classes, hinge": lambda: batch(omkl.MKLClassifier(loss="hinge"), TWO_CLASSES),
    "batch classes, CV": lambda: batch(omkl.MKLClassifierCV(), TWO_CLASSES),
    "batch numbers": lambda: batch(omkl.MKLRegressor(), NUMBERS),
    "batch numbers, elastic": lambda: batch(omkl.MKLRegressor(regularizer="elastic-net"), NUMBERS),
    "batch numbers, CV": lambda: batch(omkl.MKLRegressorCV(), NUMBERS),
    "group lasso": lambda: batch(omkl.GroupLasso(0.01), NUMBERS),
    "group lasso, CV": lambda: batch(omkl.GroupLassoCV(), NUMBERS),
    "logistic regression": lambda: batch(omkl.SparseLogisticRegression(0.01), CLASSES),
    "logistic regression, CV": lambda: batch(omkl.SparseLogisticRegressionCV(), TWO_CLASSES),
}


def lines_of_digests(kinds: Iterable[str]) -> Iterator[str]:
    """Yield a line for each kind: its digest and its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds:
            yield f"{KINDS[kind]()}  {kind}"


def digests_of(revision: str) -> list[str]:
    """Return the lines that this program prints in a checkout of the revision."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", tree, revision], check=True)
        try:
            environment = {**os.environ, "PYTHONPATH": str(tree)}
            program = tree / "tests" / "same_models.py"
            if not program.exists():
                program = Path(__file__).resolve()
            command = [sys.executable, str(program)]
            printed = subprocess.run(
                command, check=True, cwd=tree, env=environment, capture_output=True, text=True
            )
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)
    return printed.stdout.splitlines()


def main(arguments: list[str]) -> None:
    if not arguments:
        for line in lines_of_digests(KINDS):
            print(line, flush=True)
        return
    lines_of_revision = digests_of(arguments[0])
    kinds_of_revision = {line.partition("  ")[2] for line in lines_of_revision}
    shared_kinds = [kind for kind in KINDS if kind in kinds_of_revision]
    changed = [line for line in lines_of_digests(shared_kinds) if line not in lines_of_revision]
    if changed:
        sys.exit("These models differ:\n" + "\n".join(changed))
    print(f"All {len(shared_kinds)} models are those of {arguments[0]}.")


if __name__ == "__main__":
    main(sys.argv[1:])
