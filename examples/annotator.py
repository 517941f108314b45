"""
Train an annotator with one call, and compare with UDPipe trained on the same file
==================================================================================

    python examples/annotator.py  Vietnamese and Danish below OMKL_DATA: minutes
    python examples/annotator.py --treebanks english --no-udpipe
    python examples/annotator.py --train TRAIN.conllu --test TEST.conllu

Both learn from the same sentences, with their defaults, without word vectors or anything else from
outside, and both are scored as the CoNLL 2018 shared task scores (gold words): with the gold tags
of the test file, and from its words alone. UDPipe's trainer is the wheel ``ufal.udpipe`` (``pip
install 'omkl[peers]'``), of version 1, and takes half an hour for the smallest treebank.

Measured on one core of a busy machine, in per cent (of Danish the dev file trains; of Icelandic,
IcePaHC, 900 sentences drawn from the training file train and 1200 of the test file test, by
``--train`` and ``--test``):

==========  =================  ====  ====  ======  ======  ====  ====  ==========  =======
treebank    program, input     UPOS  XPOS  UFeats  Lemmas  UAS   LAS   training s  words/s
==========  =================  ====  ====  ======  ======  ====  ====  ==========  =======
English     omkl, words        95.4  94.6  95.8    97.0    84.1  81.2  570         10 k
English     omkl, gold tags                                87.6  85.8  275         11 k
Vietnamese  omkl, words        89.0  87.1  100.0   99.5    67.7  56.8  65          12 k
Vietnamese  UDPipe, words      87.8  86.5  100.0   98.2    65.3  53.9  1637        2.6 k
Vietnamese  omkl, gold tags                                75.2  66.1  21          25 k
Vietnamese  UDPipe, gold tags                              70.9  61.3
Danish      omkl, words        92.3  100   90.8    92.5    72.0  66.9  46          8.7 k
Danish      UDPipe, words      90.0  100   88.3    89.8    68.4  62.5  1109        2.6 k
Danish      omkl, gold tags                                80.2  76.5  12          20 k
Danish      UDPipe, gold tags                              78.3  74.4
Icelandic   omkl, words        91.5  80.1  78.5    87.0    64.8  57.4  305         2.7 k
Icelandic   UDPipe, words      88.5  78.2  77.3    83.5    59.5  52.2  2536        3.2 k
Icelandic   omkl, gold tags                                73.0  68.0  109         3.1 k
Icelandic   UDPipe, gold tags                              68.5  63.5
==========  =================  ====  ====  ======  ======  ====  ====  ==========  =======
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

import omkl
from omkl import evaluate_treebanks
from omkl.cli.console import prepare_output
from omkl.data import data_home, read_treebank, write_treebank

#: Files to train and test on. The Danish test file trains, as the training file is not among the
#: data.
TREEBANKS = {
    "english": (
        "ud/UD_English-EWT/en_ewt-ud-train.conllu.gz",
        "ud/UD_English-EWT/en_ewt-ud-test.conllu.gz",
    ),
    "vietnamese": (
        "ud/UD_Vietnamese-VTB/vi_vtb-ud-train.conllu.gz",
        "ud/UD_Vietnamese-VTB/vi_vtb-ud-test.conllu.gz",
    ),
    "danish": (
        "ud/UD_Danish-DDT/da_ddt-ud-dev.conllu.gz",
        "ud/UD_Danish-DDT/da_ddt-ud-test.conllu.gz",
    ),
}
SCORES = ("upos", "xpos", "ufeats", "lemmas", "uas", "las", "mlas", "blex")


def with_udpipe(train: Path, test: Path) -> tuple[dict[str, Path], float, float]:
    """Train and run UDPipe; return the annotated test file, with and without its tags, and the
    seconds taken.
    """
    from ufal.udpipe import (
        InputFormat,
        Model,
        Pipeline,
        ProcessingError,
        Sentence,
        Sentences,
        Trainer,
    )

    sentences = Sentences()
    error = ProcessingError()
    reader = InputFormat.newConlluInputFormat()
    reader.setText(train.read_text(encoding="utf-8"))
    sentence = Sentence()
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = Sentence()
    started = time.perf_counter()
    model = Trainer.train(
        "morphodita_parsito",
        sentences,
        Sentences(),
        Trainer.NONE,
        Trainer.DEFAULT,
        Trainer.DEFAULT,
        error,
    )
    if error.occurred():
        raise RuntimeError(error.message)
    training = time.perf_counter() - started
    file = train.with_name("udpipe.model")
    file.write_bytes(model)
    loaded = Model.load(str(file))
    written = {}
    for name, tagging in (("gold tags", Pipeline.NONE), ("words", Pipeline.DEFAULT)):
        started = time.perf_counter()
        pipeline = Pipeline(loaded, "conllu", tagging, Pipeline.DEFAULT, "conllu")
        text = pipeline.process(test.read_text(encoding="utf-8"), error)
        seconds = time.perf_counter() - started
        written[name] = train.with_name(f"udpipe {name}.conllu")
        written[name].write_text(text, encoding="utf-8")
    return written, training, seconds


def row_of(title: str, name: str, scores: dict, seconds: float, speed: float) -> dict:
    """Return one row of the table, with scores in percent."""
    row: dict = {"treebank": title, "program": name}
    for key in SCORES:
        row[key] = ""
        if scores[key] is not None:
            row[key] = round(100 * scores[key], 1)
    return row | {"training s": round(seconds), "words/s": round(speed)}


def compare(title: str, train, test, arguments) -> list[dict]:
    """Return one row for each program and input."""
    rows = []
    annotator = omkl.Annotator(random_state=arguments.seed)
    started = time.perf_counter()
    annotator.fit(train)
    seconds = time.perf_counter() - started
    annotator.annotate(test[:1])  # compiles
    started = time.perf_counter()
    annotated = annotator.annotate(test)
    speed = test.n_words / (time.perf_counter() - started)
    scores = evaluate_treebanks(test, annotated)
    rows.append(row_of(title, "omkl, words", scores, seconds, speed))
    parser = omkl.DependencyParser(random_state=arguments.seed)
    started = time.perf_counter()
    parser.fit(train)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    parsed = parser.parse(test)
    speed = test.n_words / (time.perf_counter() - started)
    scores = evaluate_treebanks(test, parsed)
    rows.append(row_of(title, "omkl, gold tags", scores, seconds, speed))
    if arguments.udpipe:
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("train.conllu", "test.conllu")]
            for path, treebank in zip(paths, (train, test)):
                write_treebank(path, treebank)
            written, seconds, took = with_udpipe(*paths)
            for name, path in written.items():
                scores = evaluate_treebanks(test, read_treebank(path, trees="given"))
                rows.append(row_of(title, f"UDPipe, {name}", scores, seconds, test.n_words / took))
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--treebanks", nargs="+", default=["vietnamese", "danish"], choices=TREEBANKS
    )
    parser.add_argument("--train", help="a treebank of your own, to train on")
    parser.add_argument("--test", help="and one to test on")
    parser.add_argument(
        "--sentences", type=int, help="only so many of the training sentences, the first"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-udpipe", dest="udpipe", action="store_false")
    parser.add_argument("-o", "--output", default=".", help="directory for annotator.csv")
    arguments = parser.parse_args()
    prepare_output(Path(arguments.output) / "annotator.csv")
    files = {}
    if arguments.train:
        files["own"] = [arguments.train, arguments.test]
    else:
        for name in arguments.treebanks:
            files[name] = [data_home() / path for path in TREEBANKS[name]]
    rows: list[dict] = []
    for title, paths in files.items():
        train, test = (read_treebank(path) for path in paths)
        rows_of_treebank = compare(title, train[: arguments.sentences], test, arguments)
        for row in rows_of_treebank:
            treebank, program, *_ = row.values()
            print(treebank, program, *(f"{key} {value};" for key, value in list(row.items())[2:]))
        rows += rows_of_treebank
    with open(Path(arguments.output) / "annotator.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
