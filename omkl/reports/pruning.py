"""Scores of a parser with fewer of its templates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError


def pruning_curve(parser: Any, X: Any, sizes: Sequence[int] | None = None, by: str = "weights") -> list[dict[str, Any]]:
    """Measure a parser with its best templates only, for several numbers of them; nothing is trained anew.

    Parameters
    ----------
    parser : DependencyParser
        That was fitted.
    X : Treebank
        Sentences with heads, which the parser has not learned from.
    sizes : sequence of int, optional
        Numbers of templates; by default 1, 2, 5, 10, 20, 50, ... and all.
    by : {"weights", "norms"}
        What ranks templates: see :meth:`~omkl.DependencyParser.prune`.

    Returns
    -------
    list of dict
        For each number of templates: ``templates``; ``score``, the share of words whose heads are right;
        ``standard_error`` of that, for independent sentences; and ``megabytes`` of the parser.

    Raises
    ------
    omkl.exceptions.InputError
        If the model is no parser, or a size is no number of its templates.
    """
    if not hasattr(parser, "prune"):
        raise InputError(f"A {type(parser).__name__} has no templates to prune: give a parser.")
    total = len(parser.templates_)
    if sizes is None:
        steps = (digit * 10**power for power in range(6) for digit in (1, 2, 5))
        sizes = [*(size for size in steps if size < total), total]
    records = []
    lengths = np.diff(X.offsets)
    for size in sizes:
        smaller = parser if size == total else parser.prune(size, by)
        right = np.add.reduceat((smaller.parse(X).heads == X.heads).astype(np.float64), X.offsets[:-1])
        score = right.sum() / lengths.sum()
        n = len(lengths)
        spread = np.sqrt(n / max(n - 1, 1) * np.square(right - score * lengths).sum()) / lengths.sum()
        memory = smaller.memory_usage()["prediction"]
        records.append(
            {"templates": size, "score": float(score), "standard_error": float(spread), "megabytes": float(memory)}
        )
    return records
