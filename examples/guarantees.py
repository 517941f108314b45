"""
Accepted outputs with a bound on their errors
=============================================

``omkl.guarantee`` calibrates a trained model on new examples, and ``accept`` tells which outputs
can be used without a check. Half of the examples that were not trained on calibrate, and the others
are accepted or not, for several random halves. Shown is the share of outputs, or of tokens, that is
accepted. An output is a whole address, word or sentence; one wrong label makes it wrong. The
confidence is 0.9: the true error may exceed the bound in a tenth of the halves. The error of the
other half, counted on as few examples as calibrate, exceeds it in up to 18%.

    python examples/guarantees.py addresses ocr english danish

Each bound has the share that is accepted, the error of what is accepted, and the share of halves in
which it exceeds the bound::

                          right   up to 1% wrong   up to 2% wrong   up to 5% wrong  up to 10% wrong
  addresses, outputs      53.0%   0.0% 0.00%  0%   0.0% 0.00%  0%   2.2% 0.78%  9%  13.9% 4.02%  6%
  addresses, tokens       85.5%   0.2% 0.01%  0%  13.0% 0.35%  0%  59.5% 2.28%  1%  78.2% 6.10%  0%
  OCR, outputs            56.7%   0.0% 0.00%  0%   0.0% 0.00%  0%  18.5% 3.53% 10%  34.7% 8.73% 18%
  OCR, tokens             87.3%  41.2% 0.58%  0%  57.0% 1.44%  2%  75.9% 4.19%  0%  91.7% 8.94%  0%
  Danish, tags, outputs   26.7%   0.0% 0.00%  0%   0.0% 0.00%  0%   0.0% 0.00%  0%   0.0% 0.00%  0%
  Danish, tags, tokens    91.8%   0.0% 0.00%  0%  49.2% 0.29%  0%  78.6% 2.15%  0%  94.2% 5.86%  0%
  Danish, trees, outputs  20.0%   0.0% 0.00%  0%   0.0% 0.00%  0%   0.0% 0.00%  0%   0.0% 0.00%  0%
  Danish, trees, tokens   77.6%   0.0% 0.00%  0%   0.0% 0.00%  0%   0.7% 0.20%  2%  51.3% 5.95%  0%
  English, tags, outputs  66.5%   3.0% 0.20% 14%  17.3% 0.96%  8%  31.7% 3.45%  8%  50.9% 8.48% 12%
  English, tags, tokens   95.2%  69.3% 0.51%  0%  86.4% 1.33%  0%  96.8% 3.95%  0% 100.0% 5.80%  0%
  English, trees, outputs 46.1%   0.0% 0.00%  0%   5.7% 0.52% 12%  29.7% 3.40%  8%  36.9% 8.11%  8%
  English, trees, tokens  83.7%   1.8% 0.10% 10%  28.7% 1.29%  2%  62.9% 3.85%  0%  83.3% 8.48%  0%
"""

import argparse
import gzip
import json
import warnings
from collections import defaultdict

import numpy as np

import omkl
from omkl.data import data_home, read_ocr, read_treebank
from omkl.exceptions import DataWarning
from omkl.guarantees.answers import answers_of
from omkl.guarantees.bounds import chosen_threshold, error_curve, n_needed
from omkl.guarantees.checked import parts_of

ERRORS = (0.01, 0.02, 0.05, 0.1)


def examples_at(places, X, y):
    return [X[i] for i in places], [y[i] for i in places]


def addresses():
    """A third of the addresses trains a CRF on attributes of usaddress; four random thirds."""
    with gzip.open(data_home() / "addresses/attributes.jsonl.gz") as file:
        lines = list(map(json.loads, file))
    X = [list(map(with_words_as_values, line["x"])) for line in lines]
    y = [line["y"] for line in lines]
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X)).tolist()
        train = order[: len(X) // 3]
        rest = order[len(X) // 3 :]
        model = omkl.SequenceLabeler(loss="crf", regularizer="l2", epochs=40, random_state=0)
        model.fit(*examples_at(train, X, y))
        yield "addresses", model, *examples_at(rest, X, y), None


def with_words_as_values(token):
    return [name.replace("word:", "word=") for name in token]


def ocr():
    """One fold of handwritten words trains a CRF on pixels."""
    data = read_ocr()
    in_fold = np.array(data.folds) == 0
    train = np.flatnonzero(in_fold)
    rest = np.flatnonzero(~in_fold)
    model = omkl.SequenceLabeler(loss="crf", random_state=0)
    model.fit(*examples_at(train, data.images, data.letters))
    yield "OCR", model, *examples_at(rest, data.images, data.letters), None


def english():
    """A tagger of English learns from all training sentences, and a parser from 4,000."""
    train, dev, test = treebanks("UD_English-EWT", "train", "dev", "test")
    quarter = len(dev) // 4
    rest = omkl.data.Treebank.concatenate([dev[quarter:], test])
    yield from sentences("English", train, dev[:quarter], rest)


def danish():
    """Tagger and parser of Danish learn from the development sentences only."""
    dev, test = treebanks("UD_Danish-DDT", "dev", "test")
    yield from sentences("Danish", dev, test[: len(test) // 4], test[len(test) // 4 :])


def treebanks(folder, *names):
    """Read the parts of a treebank with these names."""
    treebanks = []
    for name in names:
        [path] = (data_home() / "ud" / folder).glob(f"*-{name}.conllu.gz")
        treebanks.append(read_treebank(path, trees="given"))
    return treebanks


def sentences(language, train, dev, rest):
    """A tagger, and a first-order parser; ``dev`` is for their temperatures."""
    tagger = omkl.SequenceLabeler(epochs=5, random_state=0)
    tagger.fit(*words_and_tags(train)).calibrate(*words_and_tags(dev))
    yield f"{language}, tags", tagger, *words_and_tags(rest), None
    parser = omkl.DependencyParser(epochs=3, random_state=0, search=omkl.TreeSearch(order=1))
    parser.fit(train[:4000]).calibrate(dev)
    yield f"{language}, trees", parser, rest, None, "heads"


def words_and_tags(treebank):
    return [sentence.forms for sentence in treebank], [sentence.upos for sentence in treebank]


def measure(sure, wrong, halves, seed, unit):
    """Measure what is accepted by random halves of the examples.

    Parameters
    ----------
    sure, wrong : lists of arrays
        Confidence of the outputs or tokens of each example, and whether they are wrong.

    Returns
    -------
    array of shape (halves, errors, 3)
        The accepted share, the error of what is accepted, and whether it is too large.
    """
    n = len(sure)
    owners = np.repeat(np.arange(n), list(map(len, sure)))
    sure = np.concatenate(sure)
    wrong = np.concatenate(wrong)
    rng = np.random.default_rng(seed)
    measured = np.empty((halves, len(ERRORS), 3))
    for half in range(halves):
        calibrates = (rng.permutation(n) < n // 2)[owners]
        curve = error_curve(
            sure[calibrates], wrong[calibrates], owners[calibrates], n, 0.9, unit == "output"
        )
        for k, error in enumerate(ERRORS):
            threshold = np.inf
            if n // 2 >= n_needed(error, 0.9):
                threshold = chosen_threshold(curve, error, 0.9)
            accepted = ~calibrates & (sure >= threshold)
            n_accepted = np.bincount(owners[accepted], minlength=n)
            n_wrong = np.bincount(owners[accepted & wrong], minlength=n)
            shares = n_wrong / np.maximum(n_accepted, 1)
            wrong_share = shares.sum() / max(np.count_nonzero(n_accepted), 1)
            accepted_share = accepted.sum() / np.count_nonzero(~calibrates)
            measured[half, k] = accepted_share, wrong_share, wrong_share > error
    return measured


TASKS = {"addresses": addresses, "ocr": ocr, "english": english, "danish": danish}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=["addresses"], choices=TASKS)
    parser.add_argument("--halves", type=int, default=50, help="random halves for each model")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    headings = [f"up to {error:.0%} wrong" for error in ERRORS]
    print(f"{'':23} right", *(f"{heading:>16}" for heading in headings))
    for task in options.tasks:
        results = defaultdict(list)
        for seed, (name, model, X, y, column) in enumerate(TASKS[task]()):
            answers = list(answers_of(model, X, y, column, compare=True))
            for unit in ("output", "token"):
                _, sure, wrong = zip(*(parts_of(answer, unit) for answer in answers))
                right = 1.0 - np.mean(np.concatenate(wrong))
                measured = measure(sure, wrong, options.halves, seed, unit)
                results[f"{name}, {unit}s"].append((right, measured))
        for name, runs in results.items():
            print(report(name, runs), flush=True)


def report(name, runs):
    """Return a line of the table: means over all models of a task."""
    right, measured = zip(*runs)
    cells = [f"{name:23} {np.mean(right):5.1%}"]
    for accepted, wrong, broken in np.concatenate(measured).mean(axis=0):
        cells.append(f"{accepted:6.1%} {wrong:5.2%} {broken:3.0%}")
    return " ".join(cells)


if __name__ == "__main__":
    main()
