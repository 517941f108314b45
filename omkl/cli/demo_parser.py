"""``omkl demo parser``: find the feature templates that a made-up language needs."""

from argparse import Namespace
from typing import Any

from omkl import data, estimators, reports
from omkl.cli.common import as_typed, bar_chart, table, write_json
from omkl.exceptions import MissingDependencyError

USELESS = (
    "h.form m.form direction", "h.form m.feats", "m.form distance", "h.feats m.feats direction", "h-1.form h.feats",
    "h.feats m.form direction", "h+1.form m-1.form", "m.feats direction", "h.feats distance",
)  # fmt: skip
NEXT = """\
Next:
  {omkl} inspect {model}
  {omkl} train parser --help           train on treebanks of your own
  {python} examples/parser_english.py    English with 507 templates, beside other parsers
  in Python: omkl.load("{model}").parse(sentences)"""


def run(arguments: Namespace, folder: Any) -> None:
    """Run the demonstration."""
    from omkl.data.synthetic import INFORMATIVE

    say = (lambda *_: None) if arguments.quiet else print
    n_train = 1500 if arguments.n_train is None else arguments.n_train
    treebank = data.synthetic_treebank(n_train + arguments.n_test, vocabulary=10, random_state=arguments.random_state)
    train, test = treebank[:n_train], treebank[n_train:]
    say(f"{n_train} sentences of a made-up language to train on, {len(test)} to test on. Which word depends on which\n"
        f"is told by {len(INFORMATIVE)} feature templates; {len(USELESS)} others are useless. "
        "The noise in the trees lets nobody find more than 84%.\n")  # fmt: skip
    competitors: dict[str, Any] = {
        "an SVM on all templates": {"regularizer": "l2"},
        "MKL on all templates": {},
        "an SVM on those that tell": {"regularizer": "l2", "templates": INFORMATIVE},
        "an SVM on the useless": {"regularizer": "l2", "templates": USELESS},
    }
    rows, parsers = [], {}
    for name, settings in competitors.items():
        settings = {"templates": INFORMATIVE + USELESS, **settings}
        parser = estimators.DependencyParser(
            C=arguments.C, epochs=arguments.epochs, random_state=arguments.random_state, memory=60, labeled=False,
            verbose=not arguments.quiet, **settings,
        ).fit(train)  # fmt: skip
        parsers[name] = parser
        rows.append({"parser": name, "uas": parser.score(test), "seconds": parser.fit_seconds_})
    mkl = parsers["MKL on all templates"]
    pruned = mkl.prune(len(INFORMATIVE)).set_params(regularizer="l2").fit(train)
    rows.append({"parser": f"an SVM on MKL's best {len(INFORMATIVE)}", "uas": pruned.score(test),
                 "seconds": pruned.fit_seconds_})  # fmt: skip
    cells = [(row["parser"], f"{row['uas']:.2%}", f"{row['seconds']:.2f}") for row in rows]
    say("\n".join(table(cells, ("", "heads right", "seconds"))))
    found = set(mkl.ranking()[: len(INFORMATIVE)])
    say(f"\nMKL ranks {len(found & set(INFORMATIVE))} of the {len(INFORMATIVE)} first. What it learned:")
    say("\n".join(bar_chart({f"{'*' if n in INFORMATIVE else ' '} {n}": w for n, w in mkl.template_weights_.items()})))
    say("(* tells the heads)\n\nIts strongest features:")
    features = [(f["feature"], f"{f['weight']:+.3f}") for f in mkl.top_features(5)]
    say("\n".join(table(features, ("feature", "weight"))))

    model, metrics = folder / "parser.npz", folder / "parser-metrics.json"
    mkl.save(model)
    summary = {"results": rows, "template_weights": mkl.template_weights_, "history": mkl.history_}
    write_json(metrics, summary)
    write_json(arguments.json, summary)
    say(f"\nSaved the model to {model} and the metrics to {metrics}.")
    try:
        figure = folder / "template_weights.png"
        reports.plot_group_weights(mkl.history_, figure, "Template weights along the epochs")
        say(f"Saved a figure of the weights along the epochs to {figure}.")
    except MissingDependencyError as error:
        say(f"No figure: {error}")
    say("\n" + NEXT.format(model=model, omkl=as_typed("omkl"), python=as_typed("python")))
