"""
Dependency parsing of English with 507 feature templates, beside other arc-factored parsers
===========================================================================================

    python examples/parser_english.py             English below OMKL_DATA: half an hour
    python examples/parser_english.py --epochs 3 --only SVM
    python examples/parser_english.py TRAIN TEST  any treebank, plain or compressed

Every row is one run on one core: attachment scores on the test set without punctuation (UPOS PUNCT)
and over all words, labeled attachment score over all words (relations with their subtypes), CPU
seconds an epoch, words parsed a second, relations included.
"""

import argparse
import resource
import time
from pathlib import Path

from omkl import DependencyParser, TreeForm
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import data_home, read_treebank

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
MODELS = {
    "SVM": {"regularizer": "l2"},
    "SVM, 300 MB": {"regularizer": "l2", "memory": 300},
    "CRF": {"regularizer": "l2", "loss": "crf"},
    "averaged perceptron": {"regularizer": None, "loss": "perceptron"},
    "MKL": {"regularizer": "mkl", "C": 100.0},
    "SVM, rich templates": {"regularizer": "l2", "templates": "rich", "memory": 300},
    "SVM on MKL's best 150 of the rich": {"regularizer": "l2", "templates": "rich", "keep": 150},
    "SVM on MKL's best 300 of the rich": {"regularizer": "l2", "templates": "rich", "keep": 300},
    "SVM, small templates": {"regularizer": "l2", "templates": "small"},
}
PEERS = (
    "Others on the same English files: TurboParser, arc-factored, 10 epochs: 86.91 / 85.77, 34-51 s"
    " an epoch, 4-12 k words/s;\nMSTParser 0.5 on an eighth of the data, tags only: 78.35 / 76.96."
    " The paper, on other data: SVM 90.92, MKL 90.67."
)


def best_templates(templates, keep, train, epochs):
    """Return the templates that dual averaging ranks first."""
    mkl = DependencyParser(
        templates, method="rda", epochs=epochs, random_state=0, trees=TreeForm(labeled=False)
    ).fit(train)
    return mkl.templates_.keep(mkl.ranking()[:keep])


def run(settings, train, test, epochs):
    settings = dict(settings)
    keep = settings.pop("keep", None)
    if keep:
        settings["templates"] = best_templates(settings["templates"], keep, train, epochs)
    started = time.process_time()
    parser = DependencyParser(
        **{"templates": "martins507", "epochs": epochs, "random_state": 0, **settings}
    ).fit(train)
    seconds = time.process_time() - started
    parser.parse(test[:10])
    started = time.process_time()
    parser.parse(test)
    speed = test.n_words / (time.process_time() - started)
    everything = parser.evaluate(test)
    without = parser.evaluate(test, ignore="upos")
    return {
        "uas": 100 * without["uas"],
        "uas_all": 100 * everything["uas"],
        "las_all": 100 * (everything["las_subtypes"] or 0.0),
        "seconds_an_epoch": seconds / parser.n_iter_,
        "words_a_second": speed,
        "templates": sum(weight > 0 for weight in parser.template_weights_.values()),
        "features": parser.n_features(),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("train", nargs="?", default=data_home() / TREEBANK.format("train"))
    arguments.add_argument("test", nargs="?", default=data_home() / TREEBANK.format("test"))
    arguments.add_argument("--epochs", type=int, default=10)
    arguments.add_argument(
        "--only", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL"
    )
    arguments.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = arguments.parse_args()
    prepare_output(arguments.output / "parser_english.json")
    train = read_treebank(arguments.train, single_root=True, keep_text=False)
    test = read_treebank(arguments.test, keep_text=False)
    rows = []
    for name in arguments.only:
        rows.append({"name": name, **run(MODELS[name], train, test, arguments.epochs)})
        row = rows[-1]
        print(
            f"{name}: {row['uas']:.2f} / {row['uas_all']:.2f}, LAS with subtypes"
            f" {row['las_all']:.2f}",
            flush=True,
        )
    cells = [
        (
            r["name"],
            f"{r['uas']:.2f}",
            f"{r['uas_all']:.2f}",
            f"{r['las_all']:.2f}",
            r["templates"],
            f"{r['features'] / 1e6:.1f} M",
            f"{r['seconds_an_epoch']:.1f}",
            f"{r['words_a_second'] / 1e3:.0f} k",
            f"{r['peak_memory_mb']:.0f}",
        )
        for r in rows
    ]
    header = (
        "model",
        "UAS",
        "all words",
        "LAS with subtypes",
        "templates",
        "features",
        "s an epoch",
        "words/s",
        "peak MB so far",
    )
    print("\n".join(table(cells, header)))
    print(PEERS)
    write_json(arguments.output / "parser_english.json", {"epochs": arguments.epochs, "rows": rows})


if __name__ == "__main__":
    main()
