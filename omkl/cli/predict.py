"""``omkl predict``: label the sequences of a file with a saved model."""

import json

from omkl._files import replacing
from omkl.cli.common import add_input_options, add_output_options, write_json
from omkl.data import read_sequences
from omkl.estimators import load


def add_parser(subparsers):
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="label the sequences of a file",
        description="Label the sequences of a file: one label a line, an empty line between sequences; or JSON lines, "
        "if the output's name ends in .jsonl.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument("input", help="file of sequences; labels in it are not looked at")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write the labels to")
    add_input_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments):
    """Predict and write labels."""
    labeler = load(arguments.model)
    X, _ = read_sequences(arguments.input, arguments.format, arguments.folds)
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    with replacing(arguments.output) as file:
        for labels in predicted:
            if arguments.output.endswith(".jsonl"):
                file.write(json.dumps({"y": labels}, ensure_ascii=False) + "\n")
            else:
                file.write("".join(f"{label}\n" for label in labels) + "\n")
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": arguments.output}
    if not arguments.quiet:
        print(f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {arguments.output}")
    write_json(arguments.json, metrics)
