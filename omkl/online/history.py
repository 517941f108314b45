"""Records of training: flat dicts, one after every epoch, or after so many rounds of a stream."""

from collections.abc import Sequence
from typing import Any

from omkl.exceptions import MissingDependencyError

#: Records of ``partial_fit`` and of streams that are kept; where there are twice as many, neighbours are merged.
RECORDS = 1000
_MEANS = ("loss", "error")


def flat_record(trainer: Any, *, epoch: int, examples: int, loss: float, seconds: float) -> dict[str, Any]:
    """What a record tells of a trainer and of the rounds just made.

    Parameters
    ----------
    trainer : OnlineTrainer
    epoch : int
        From 1.
    examples : int
        Examples that the record covers.
    loss : float
        Mean of their losses, each before its update.
    seconds : float
        What they took.

    Returns
    -------
    dict
        Also ``round``, ``penalty`` (R of the model now), ``objective`` (the loss plus lambda times that), ``rate``,
        and ``norm:NAME`` and ``weight:NAME`` of each group.
    """
    penalty = trainer.penalty()
    return {
        "epoch": epoch,
        "round": trainer.round,
        "examples": examples,
        "loss": loss,
        "penalty": penalty,
        "objective": loss + trainer.current_strength * penalty,
        "rate": trainer.schedule(trainer.round),
        **{f"norm:{name}": norm for name, norm in zip(trainer.group_state.names, trainer.group_state.norms.tolist())},
        **{f"weight:{name}": weight for name, weight in trainer.kernel_weights().items()},
        "seconds": seconds,
    }


def values_of(record: dict[str, Any], kind: str) -> dict[str, float]:
    """The ``kind:NAME`` entries of a record by NAME.

    >>> values_of({"epoch": 1, "norm:a": 0.5, "norm:b:on=x": 0.0}, "norm")
    {'a': 0.5, 'b:on=x': 0.0}
    """
    return {key.removeprefix(f"{kind}:"): value for key, value in record.items() if key.startswith(f"{kind}:")}


def thinned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records where there are few, else half as many, each of two neighbours."""
    if len(records) < 2 * RECORDS:
        return records
    return [_merged(*pair) for pair in zip(records[::2], records[1::2])] + records[len(records) // 2 * 2 :]


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """One record of two neighbours: means over the examples of both, and how things stood after the second."""
    n = first["examples"] + second["examples"]
    means = {
        name: (first["examples"] * first[name] + second["examples"] * second[name]) / n
        for name in _MEANS
        if name in first and name in second
    }
    return {**second, **means, "examples": n, "seconds": first.get("seconds", 0.0) + second.get("seconds", 0.0)}


def to_frame(history: Sequence[dict[str, Any]]) -> Any:
    """A history as a pandas data frame with a row for every record, and a column for every entry.

    Parameters
    ----------
    history : sequence of dict
        ``history_`` of an estimator.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError("to_frame needs pandas: pip install pandas.") from None
    return pandas.DataFrame(list(history))
