"""
Which C for which loss? Accuracy of labelers and classifiers on held-out data
=============================================================================

    python examples/default_c.py                              all sets, about six minutes
    python examples/default_c.py --sets pima OCR --json c.json

Labelers learn 1000 sentences or 300 handwritten words, classifiers half of a table, at most 400
rows, whose columns are standardized. ``C="auto"`` is 10 for ``"crf"`` and ``"softmax-margin"``, and
1 for other losses.
"""

import argparse

import numpy as np
from sklearn.preprocessing import StandardScaler

from omkl import OnlineMKLClassifier, SequenceLabeler
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import data_home, read_ocr, read_sequences, read_uci

TREEBANKS = {
    "English": ("UD_English-EWT/en_ewt-ud-train", "UD_English-EWT/en_ewt-ud-dev"),
    "Vietnamese": ("UD_Vietnamese-VTB/vi_vtb-ud-train", "UD_Vietnamese-VTB/vi_vtb-ud-dev"),
    "Greek": ("grc_agdt_gorman/grc-agdt-gorman-train", "grc_agdt_gorman/grc-agdt-gorman-dev"),
    "Danish": ("UD_Danish-DDT/da_ddt-ud-dev", "UD_Danish-DDT/da_ddt-ud-test"),
    "Icelandic": ("IcePaHC/is_icepahc-src-train", "IcePaHC/is_icepahc-src-dev"),
}
TABLES = ("pima", "splice", "waveform", "ionosphere", "sonar", "ringnorm", "twonorm")
KERNELS = ["linear", "quadratic", "gaussian:sigma2=5"]
LOSSES = ("hinge", "crf", "softmax-margin")
CS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def examples_at(places, X, y):
    return [X[i] for i in places], [y[i] for i in places]


def examples_of(name, seed):
    """Return an untrained model, training data and held-out data."""
    rng = np.random.default_rng(seed)
    if name in TREEBANKS:
        (X, y), (Z, z) = (
            read_sequences(data_home() / "ud" / f"{part}.conllu.gz") for part in TREEBANKS[name]
        )
        chosen = rng.permutation(len(X))[:1000]
        return SequenceLabeler(epochs=20), examples_at(chosen, X, y), (Z[:600], z[:600])
    if name == "OCR":
        data = read_ocr()
        X, y = data.of_folds(seed)
        test = data.of_folds((seed + 5) % 10)
        chosen = rng.permutation(len(X))[:300]
        return SequenceLabeler(KERNELS, epochs=20), examples_at(chosen, X, y), test
    X, y = read_uci(name)
    chosen = rng.permutation(len(X))
    n = min(len(X) // 2, 400)
    train = chosen[:n]
    test = chosen[n : n + 800]
    scaler = StandardScaler().fit(X[train])
    return (
        OnlineMKLClassifier(),
        (scaler.transform(X[train]), y[train]),
        (scaler.transform(X[test]), y[test]),
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=[*TREEBANKS, "OCR", *TABLES], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=2, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    prepare_output(options.json)
    rows = []
    accuracies = {}
    for name in options.sets:
        data = [examples_of(name, seed) for seed in range(options.seeds)]
        for loss in LOSSES:
            for C in CS:
                scores = []
                for model, train, test in data:
                    model.set_params(loss=loss, C=C, random_state=0, verbose=False)
                    scores.append(100 * model.fit(*train).score(*test))
                accuracies[name, loss, C] = float(np.mean(scores))
                rows.append(
                    {"set": name, "loss": loss, "C": C, "accuracy": accuracies[name, loss, C]}
                )
    groups = {name: [name] for name in options.sets}
    groups["mean of labelers"] = [name for name in options.sets if name not in TABLES]
    groups["mean of tables"] = [name for name in options.sets if name in TABLES]
    cells = []
    for loss in LOSSES:
        for group, names in groups.items():
            if names:
                cells.append([f"{group}, {loss}"])
                for C in CS:
                    mean = np.mean([accuracies[name, loss, C] for name in names])
                    cells[-1].append(f"{mean:.2f}")
    print("\n".join(table(cells, ("accuracy, %", *(f"C = {C:g}" for C in CS)))))
    write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
