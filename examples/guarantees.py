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

In parentheses are the error of what is accepted, and the share of halves in which it exceeds the
bound::

                              right     at most 1% wrong     at most 2% wrong     at most 5% wrong
                              at most 10% wrong
    addresses, outputs        53.0%    0.0% (0.00%,  0%)    0.0% (0.00%,  0%)    2.2% (0.78%,  9%)
    13.9% (4.02%,  6%) addresses, tokens         85.5%    0.2% (0.01%,  0%)   13.0% (0.35%,  0%)
    59.5% (2.28%,  1%)   78.2% (6.10%,  0%) OCR, outputs              56.7%    0.0% (0.00%,  0%)
    0.0% (0.00%,  0%)   18.5% (3.53%, 10%)   34.7% (8.73%, 18%) OCR, tokens               87.3%
    41.2% (0.58%,  0%)   57.0% (1.44%,  2%)   75.9% (4.19%,  0%)   91.7% (8.94%,  0%) Danish, tags,
    outputs     26.7%    0.0% (0.00%,  0%)    0.0% (0.00%,  0%)    0.0% (0.00%,  0%)    0.0% (0.00%,
    0%) Danish, tags, tokens      91.8%    0.0% (0.00%,  0%)   49.2% (0.29%,  0%)   78.6% (2.15%,
    0%)   94.2% (5.86%,  0%) Danish, trees, outputs    20.0%    0.0% (0.00%,  0%)    0.0% (0.00%,
    0%)    0.0% (0.00%,  0%)    0.0% (0.00%,  0%) Danish, trees, tokens     77.6%    0.0% (0.00%,
    0%)    0.0% (0.00%,  0%)    0.7% (0.20%,  2%)   51.3% (5.95%,  0%) English, tags, outputs
    66.5%    3.0% (0.20%, 14%)   17.3% (0.96%,  8%)   31.7% (3.45%,  8%)   50.9% (8.48%, 12%)
    English, tags, tokens     95.2%   69.3% (0.51%,  0%)   86.4% (1.33%,  0%)   96.8% (3.95%,  0%)
    100.0% (5.80%,  0%) English, trees, outputs   46.1%    0.0% (0.00%,  0%)    5.7% (0.52%, 12%)
    29.7% (3.40%,  8%)   36.9% (8.11%,  8%) English, trees, tokens    83.7%    1.8% (0.10%, 10%)
    28.7% (1.29%,  2%)   62.9% (3.85%,  0%)   83.3% (8.48%,  0%)
"""

import argparse
import gzip
import json
import warnings

import numpy as np

import omkl
from omkl.data import data_home, read_ocr, read_treebank
from omkl.exceptions import DataWarning
from omkl.guarantees.answers import answers_of
from omkl.guarantees.bounds import chosen_threshold, error_curve, n_needed
from omkl.guarantees.checked import parts_of

ERRORS = (0.01, 0.02, 0.05, 0.1)


def addresses():
    """A third of the addresses trains a CRF on attributes of usaddress; four random thirds."""
    with gzip.open(data_home() / "addresses/attributes.jsonl.gz") as file:
        lines = list(map(json.loads, file))
    X = [
        [[name.replace("word:", "word=") for name in token] for token in line["x"]]
        for line in lines
    ]
    y = [line["y"] for line in lines]
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X)).tolist()
        train, rest = order[: len(X) // 3], order[len(X) // 3 :]
        model = omkl.SequenceLabeler(loss="crf", regularizer="l2", epochs=40, random_state=0)
        model.fit([X[i] for i in train], [y[i] for i in train])
        yield "addresses", model, [X[i] for i in rest], [y[i] for i in rest], None


def ocr():
    """One fold of handwritten words trains a CRF on pixels."""
    data = read_ocr()
    train, rest = (
        np.flatnonzero((np.array(data.folds) == 0) == own).tolist() for own in (True, False)
    )
    model = omkl.SequenceLabeler(loss="crf", random_state=0)
    model.fit([data.images[i] for i in train], [data.letters[i] for i in train])
    yield "OCR", model, [data.images[i] for i in rest], [data.letters[i] for i in rest], None


def english():
    """A tagger of English learns from all training sentences, and a parser with gold tags from
    4,000.
    """
    train, dev, test = treebanks("UD_English-EWT", "train", "dev", "test")
    yield from sentences(
        "English",
        train,
        dev[: len(dev) // 4],
        omkl.data.Treebank.concatenate([dev[len(dev) // 4 :], test]),
    )


def danish():
    """Tagger and parser of Danish learn from the development sentences only."""
    dev, test = treebanks("UD_Danish-DDT", "dev", "test")
    yield from sentences("Danish", dev, test[: len(test) // 4], test[len(test) // 4 :])


def treebanks(folder, *parts):
    """Read parts of a treebank."""
    paths = (next((data_home() / "ud" / folder).glob(f"*-{part}.conllu.gz")) for part in parts)
    return [read_treebank(path, trees="given") for path in paths]


def sentences(language, train, dev, rest):
    """A tagger, and a first-order parser; ``dev`` is for their temperatures."""
    pairs = [
        ([own.forms for own in part], [own.upos for own in part]) for part in (train, dev, rest)
    ]
    tagger = omkl.SequenceLabeler(epochs=5, random_state=0).fit(*pairs[0]).calibrate(*pairs[1])
    yield f"{language}, tags", tagger, *pairs[2], None
    parser = (
        omkl.DependencyParser(order=1, epochs=3, random_state=0).fit(train[:4000]).calibrate(dev)
    )
    yield f"{language}, trees", parser, rest, None, "heads"


def measure(parts, halves, seed, unit):
    """Return for each half and error the accepted share, the error of what is accepted, and whether
    it is too large.
    """
    sure, wrong = (np.concatenate(own) for own in (parts[1], parts[2]))
    n, owners = len(parts[1]), np.repeat(np.arange(len(parts[1])), list(map(len, parts[1])))
    rng, found = np.random.default_rng(seed), []
    for _ in range(halves):
        calibrates = rng.permutation(n) < n // 2
        own, others = calibrates[owners], ~calibrates[owners]
        curve = error_curve(sure[own], wrong[own], owners[own], n, 0.9, unit == "output")
        for error in ERRORS:
            enough = n // 2 >= n_needed(error, 0.9)
            accepted = others & (
                sure >= (chosen_threshold(curve, error, 0.9) if enough else np.inf)
            )
            each, bad = (
                np.bincount(owners[mask], minlength=n) for mask in (accepted, accepted & wrong)
            )
            share = (bad / np.maximum(each, 1)).sum() / max(np.count_nonzero(each), 1)
            found.append((accepted.sum() / others.sum(), share, share > error))
    return np.array(found).reshape(halves, len(ERRORS), 3)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tasks", nargs="*", default=["addresses"], choices=["addresses", "ocr", "english", "danish"]
    )
    parser.add_argument("--halves", type=int, default=50, help="random halves for each model")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    print(
        f"{'':24} {'right':>6} "
        + " ".join(f"{f'at most {error:.0%} wrong':>20}" for error in ERRORS)
    )
    for task in options.tasks:
        results, right = {}, {}
        for seed, (name, model, X, y, column) in enumerate(globals()[task]()):
            answers = list(answers_of(model, X, y, column, compare=True))
            for unit in ("output", "token"):
                parts = list(zip(*(parts_of(answer, unit) for answer in answers)))
                results.setdefault((name, unit), []).append(
                    measure(parts, options.halves, seed, unit)
                )
                right.setdefault((name, unit), []).append(1.0 - np.mean(np.concatenate(parts[2])))
        for (name, unit), found in results.items():
            shares, errors, broken = np.concatenate(found).mean(axis=0).T
            cells = (f"{a:5.1%} ({e:5.2%}, {b:3.0%})" for a, e, b in zip(shares, errors, broken))
            shown = f"{name}, {unit}s"
            print(
                f"{shown:24} {np.mean(right[name, unit]):6.1%} "
                + " ".join(f"{cell:>20}" for cell in cells),
                flush=True,
            )


if __name__ == "__main__":
    main()
