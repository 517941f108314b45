"""
Follow training in TensorBoard or MLflow
========================================

    pip install tensorboardX tensorboard
    python examples/monitoring.py runs && tensorboard --logdir runs

A record holds what ``history_`` does: loss, objective, the norm and the weight of every group, and
the error on examples before they are learned. The same few lines write to MLflow, or to whatever
else takes numbers: see the function to_mlflow, which was tried with mlflow 3. Later versions of
that refuse to write into a folder (``mlruns``) unless the environment says
``MLFLOW_ALLOW_FILE_STORE=true``.
"""

import sys

from sklearn.datasets import load_digits

import omkl
from omkl.online import ProgressiveValidation, RecordLog


def to_tensorboard(folder):
    """Return a callback that writes every number of a record to TensorBoard."""
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(folder)

    def write(trainer, record):
        for name, value in record.items():
            writer.add_scalar(name.replace(":", "/", 1), value, record["round"])
        writer.flush()

    return write


def to_mlflow(trainer, record):
    """Write every number of a record to the active MLflow run."""
    import mlflow

    # names of metrics have no colons there
    mlflow.log_metrics(
        {name.replace(":", "/"): float(value) for name, value in record.items()},
        step=record["round"],
    )


def main(folder="runs"):
    """Train on digits for one pass, and write a record after every 200 examples."""
    X, y = load_digits(return_X_y=True)
    follow = ProgressiveValidation(
        200, to_tensorboard(folder), RecordLog(f"{folder}/history.jsonl")
    )
    classifier = omkl.OnlineMKLClassifier(epochs=1, callbacks=[follow], random_state=0).fit(
        X / 16, y
    )
    print(f"{classifier.score(X / 16, y):.1%} of the digits are read; records are in {folder}.")
    return classifier


if __name__ == "__main__":
    main(*sys.argv[1:])
