"""Selection of the best templates of a parser."""

import os
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.training import RunOptions, in_folder
from omkl.exceptions import DataWarning, InputError
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import NAMED_SETS, TemplateSet
from omkl.online.rounds import Record
from omkl.online.trainer import OnlineTrainer
from omkl.parsing.sentences import TreeData

#: ``keep="auto"`` holds out every PERIOD-th sentence. Half of these compare sets, and at most
#: RANKED rank templates.
PERIOD, RANKED = 5, 100


def saved_templates(
    templates: Any, lexicons: Collection[str], used: TemplateSet | None
) -> str | list[str]:
    """Return the parameter ``templates`` of a parser for a model file: lines, or the name of a set.

    The file that it names may have changed since its templates were ``used``.
    """
    is_file = isinstance(templates, (str, os.PathLike)) and templates not in NAMED_SETS
    if isinstance(templates, str) and not is_file:
        return templates
    found = (
        used
        if is_file and used is not None
        else TemplateSet.resolve(templates, dict.fromkeys(lexicons))
    )
    return str(found).splitlines()


def template_banks(trainer: OnlineTrainer) -> list[ArcTemplateBank]:
    """Return the banks of templates of a trainer."""
    return [bank for bank in trainer.banks if isinstance(bank, ArcTemplateBank)]


def restricted_banks(trainer: OnlineTrainer, names: Sequence[str]) -> list[ArcTemplateBank]:
    """Return copies of the banks with some of their templates; banks without any are left out."""
    kept = [
        (bank, [name for name in names if name in bank.names]) for bank in template_banks(trainer)
    ]
    return [bank.restricted(bank.templates.keep(own)) for bank, own in kept if own]


def select_templates(
    parser: Any, templates: TemplateSet, data: TreeData, running: RunOptions
) -> tuple[TemplateSet, list[Record] | None]:
    """Select the templates to keep by training on a treebank; return them, and the curve of
    ``keep="auto"``.

    Parameters
    ----------
    parser : DependencyParser
        Untrained, with ``keep``, an int or "auto".
    templates : TemplateSet
        Candidates.
    data : TreeData
    running : RunOptions
        Further arguments of ``fit``; each training has its own folder of checkpoints.
    """

    from sklearn.base import clone

    def train(stage: str, templates: TemplateSet, chosen: np.ndarray, **settings: str) -> Any:
        options = in_folder(running, stage)
        own = None if data.weights is None else data.weights[chosen]
        unlabeled = clone(parser).set_params(
            templates=templates, keep=None, labeled=False, **settings
        )
        with warnings.catch_warnings():  # the final training gives the same warnings
            warnings.simplefilter("ignore", DataWarning)
            return unlabeled.fit(data.treebank[chosen], sample_weight=own, **options)

    keep, n = parser.keep, len(data.treebank)
    if isinstance(keep, str):
        if n < 4 * PERIOD:
            raise InputError(
                f'keep="auto" holds out one sentence in {PERIOD}, and there are {n}: give a number.'
            )
        return fewest_templates(
            train, templates, data.treebank, tqdm.write if parser.verbose else lambda line: None
        )
    check_number("keep", keep, above=0, below=len(templates) + 1, integer=True)
    return templates.keep(train("selection", templates, np.arange(n)).ranking()[:keep]), None


def fewest_templates(
    train: Callable[..., Any],
    templates: TemplateSet,
    treebank: Treebank,
    tell: Callable[[str], object],
) -> tuple[TemplateSet, list[Record]]:
    """Find the smallest set of templates that is as accurate on held-out sentences as any.

    This is recursive elimination: the number of templates is halved down to 1. Each time, those
    without which the loss of the last parser increases most on some held-out sentences are kept,
    and a parser is retrained. The knee of this curve is the smallest number whose correct heads, on
    other held-out sentences, are within a standard error (of the difference, paired by sentence) of
    the best number.

    Parameters
    ----------
    train : callable
        ``train(stage, templates, chosen, **settings)`` returns a parser trained on the sentences
        ``chosen``.
    templates : TemplateSet
    treebank : Treebank
    tell : callable
        Called with a line of text about each training.

    Returns
    -------
    templates : TemplateSet
    curve : list of dict
        See ``pruning_curve_`` of :class:`omkl.DependencyParser`.
    """
    held_out = np.arange(len(treebank)) % PERIOD == PERIOD - 1
    chosen, others = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    gold, for_ranking = treebank[others[1::2]], treebank[others[::2][:RANKED]]
    tell(
        f"Selecting from {len(templates)} templates takes two to three times as long as training once."
    )

    def measured(templates: TemplateSet, **settings: str) -> tuple[Any, np.ndarray]:
        """Train with some templates; return the parser and its number of correct heads per held-out
        sentence.
        """
        parser = train(f"selection-{len(templates)}", templates, chosen, **settings)
        right = (parser.parse(gold).heads == gold.heads).astype(np.float64)
        tell(f"{len(templates)} templates: {right.mean():.1%} of the held-out heads are right.")
        return parser, np.add.reduceat(right, gold.offsets[:-1])

    parser, counts = measured(templates)
    right, sets = {len(templates): counts}, {len(templates): _in_use(parser)}
    size = len(sets[len(templates)])
    while size > 1:
        size = min(size // 2, len(_in_use(parser)))
        increase = {
            record["group"]: record["loss_increase"] for record in parser.group_report(for_ranking)
        }
        names = arcs_first(
            sorted(_in_use(parser), key=increase.__getitem__, reverse=True), parser.templates_
        )
        sets[size] = names[:size]
        # the first training has already tested templates out of sample
        parser, right[size] = measured(parser.templates_.keep(sets[size]), weighting="norms")
    best = max(right, key=lambda n: right[n].sum())
    curve = []
    for n, own in right.items():
        behind = right[best] - own
        sums = own.sum(), behind.sum(), np.sqrt(len(own) * behind.var(ddof=1))
        accuracy, less, error = (float(total / gold.n_words) for total in sums)
        curve.append(
            {"templates": n, "accuracy": accuracy, "behind": less, "standard_error": error}
        )
    knee = min(n for n, point in zip(right, curve) if point["behind"] <= point["standard_error"])
    tell(f"{len(sets[knee])} of {len(templates)} templates stay.")
    return templates.keep(sets[knee]), curve


def _in_use(parser: Any) -> list[str]:
    """Return the names of the templates with a weight."""
    return [name for name, weight in parser.template_weights_.items() if weight > 0]


def arcs_first(names: list[str], templates: TemplateSet) -> list[str]:
    """Move the best template of arcs, which trees need, to the front of a ranking."""
    best = next(name for name in names if name in templates.by_part()["arc"].names)
    return [best, *(name for name in names if name != best)]
