"""Selection of the best templates of a parser."""

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.training import RunOptions, in_folder
from omkl.exceptions import DataWarning, InputError
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import NAMED_SETS, AnyTemplates, TemplateSet
from omkl.online.rounds import Record
from omkl.online.trainer import OnlineTrainer
from omkl.parsing.sentences import TreeData

#: ``keep="auto"`` holds out every PERIOD-th sentence. Half of these compare sets, and at most
#: RANKED rank templates.
PERIOD, RANKED = 5, 100


def saved_templates(
    templates: AnyTemplates, lexicons: Collection[str], used: TemplateSet | None
) -> str | list[str]:
    """Return the parameter ``templates`` of a parser for a model file: lines, or the name of a set.

    The file that it names may have changed since its templates were ``used``.
    """
    is_file = isinstance(templates, (str, os.PathLike)) and templates not in NAMED_SETS
    if isinstance(templates, str) and not is_file:
        return templates
    if used is None or not is_file:
        used = TemplateSet.resolve(templates, dict.fromkeys(lexicons))
    return str(used).splitlines()


def template_banks(trainer: OnlineTrainer) -> list[ArcTemplateBank]:
    """Return the banks of templates of a trainer."""
    return [bank for bank in trainer.banks if isinstance(bank, ArcTemplateBank)]


def restricted_banks(trainer: OnlineTrainer, names: Sequence[str]) -> list[ArcTemplateBank]:
    """Return copies of the banks with some of their templates; banks without any are left out."""
    banks = []
    for bank in template_banks(trainer):
        names_of_bank = [name for name in names if name in bank.names]
        if names_of_bank:
            banks.append(bank.restricted(bank.templates.keep(names_of_bank)))
    return banks


def select_templates(
    parser: OnlineEstimator,
    keep: int | str,
    templates: TemplateSet,
    data: TreeData,
    running: RunOptions,
) -> tuple[TemplateSet, list[Record] | None]:
    """Select the templates to keep by training on a treebank.

    Returns them, and with ``keep="auto"`` the curve of the search.

    Parameters
    ----------
    parser : DependencyParser
        Untrained.
    keep : int or "auto"
        Number of templates to keep.
    templates : TemplateSet
        Candidates.
    data : TreeData
    running : RunOptions
        Further arguments of ``fit``; each training has its own folder of checkpoints.
    """

    from sklearn.base import clone

    def train(stage: str, templates: TemplateSet, chosen: np.ndarray, **settings: str) -> Any:
        weights = None if data.weights is None else data.weights[chosen]
        settings_of_stage: dict[str, Any] = {
            "templates": templates,
            "keep": None,
            "trees__labeled": False,
        }
        settings_of_stage |= settings
        with warnings.catch_warnings():  # the final training gives the same warnings
            warnings.simplefilter("ignore", DataWarning)
            return (
                clone(parser)
                .set_params(**settings_of_stage)
                .fit(data.treebank[chosen], sample_weight=weights, **in_folder(running, stage))
            )

    n_sentences = len(data.treebank)
    if isinstance(keep, str):
        if n_sentences < 4 * PERIOD:
            raise InputError(
                f'keep="auto" holds out one sentence in {PERIOD}, '
                f"and there are {n_sentences}: give a number."
            )
        tell = tqdm.write if parser.verbose else _say_nothing
        return fewest_templates(train, templates, data.treebank, tell)
    check_number("keep", keep, above=0, below=len(templates) + 1, integer=True)
    ranking = train("selection", templates, np.arange(n_sentences)).ranking()
    return templates.keep(ranking[:keep]), None


def _say_nothing(line: str) -> None:
    """Ignore a line of text."""


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
    tell(
        f"Selecting from {len(templates)} templates takes two to three times as long "
        "as training once."
    )
    held_out = np.arange(len(treebank)) % PERIOD == PERIOD - 1
    others = np.flatnonzero(held_out)
    for_ranking = treebank[others[::2][:RANKED]]
    trials = _Trials(train, np.flatnonzero(~held_out), treebank[others[1::2]], tell)
    parser = trials.train(templates)
    names_by_size = {len(templates): _names_in_use(parser.template_weights_)}
    size = len(names_by_size[len(templates)])
    while size > 1:
        size = min(size // 2, len(_names_in_use(parser.template_weights_)))
        increases = {}
        for record in parser.group_report(for_ranking):
            increases[record["group"]] = record["loss_increase"]
        ranking = sorted(
            _names_in_use(parser.template_weights_), key=increases.__getitem__, reverse=True
        )
        names_by_size[size] = arcs_first(ranking, parser.templates_)[:size]
        # the first training has already tested templates out of sample
        parser = trials.train(parser.templates_.keep(names_by_size[size]), weighting="norms")
    curve = trials.curve()
    knee = min(point["templates"] for point in curve if point["behind"] <= point["standard_error"])
    names = names_by_size[knee]
    tell(f"{len(names)} of {len(templates)} templates stay.")
    return templates.keep(names), curve


class _Trials:
    """Parsers with fewer and fewer templates, compared on held-out sentences.

    Parameters
    ----------
    train, tell : callable
        See :func:`fewest_templates`.
    chosen : int array
        Training sentences.
    gold : Treebank
        Held-out sentences.
    """

    def __init__(
        self,
        train: Callable[..., Any],
        chosen: np.ndarray,
        gold: Treebank,
        tell: Callable[[str], object],
    ) -> None:
        self._train = train
        self._chosen = chosen
        self._gold = gold
        self._tell = tell
        #: Number of correct heads of each held-out sentence, by the number of templates.
        self._n_right: dict[int, np.ndarray] = {}

    def train(self, templates: TemplateSet, **settings: str) -> Any:
        """Train a parser with some templates, and count its correct heads."""
        n = len(templates)
        parser = self._train(f"selection-{n}", templates, self._chosen, **settings)
        right = (parser.parse(self._gold).heads == self._gold.heads).astype(np.float64)
        self._tell(f"{n} templates: {right.mean():.1%} of the held-out heads are right.")
        self._n_right[n] = np.add.reduceat(right, self._gold.offsets[:-1])
        return parser

    def curve(self) -> list[Record]:
        """Return the accuracy by the number of templates, in comparison with the best number."""
        best = max(self._n_right.values(), key=np.sum)
        n_words = self._gold.n_words
        curve = []
        for n_templates, n_right in self._n_right.items():
            behind = best - n_right
            error = np.sqrt(len(behind) * behind.var(ddof=1))
            curve.append(
                {
                    "templates": n_templates,
                    "accuracy": float(n_right.sum() / n_words),
                    "behind": float(behind.sum() / n_words),
                    "standard_error": float(error / n_words),
                }
            )
        return curve


def _names_in_use(weights: Mapping[str, float]) -> list[str]:
    """Return the names of the templates with a weight above 0."""
    return [name for name, weight in weights.items() if weight > 0]


def arcs_first(names: list[str], templates: TemplateSet) -> list[str]:
    """Move the best template of arcs, which trees need, to the front of a ranking."""
    best = next(name for name in names if name in templates.by_part()["arc"].names)
    return [best, *(name for name in names if name != best)]
