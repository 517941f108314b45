"""How many templates a parser needs: trained anew on the best of them, it is measured on sentences held out."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.treebank_codec import TreeData
from omkl.exceptions import DataWarning, InputError
from omkl.groups import TemplateSet

#: One sentence in so many is held out.
PERIOD = 5


def check_keep(keep: Any, first: Any) -> None:
    """Raise unless this is a number of templates or "auto", of a parser that none goes before."""
    if first is not None:
        raise InputError("keep= trains several times, each time first= too: set keep of the first parser instead.")
    if not isinstance(keep, str) or keep != "auto":
        check_number('keep (or "auto")', keep, above=0, integer=True)


def kept_templates(parser: Any, templates: TemplateSet, data: TreeData, running: dict[str, Any]) -> TemplateSet:
    """The templates that the parameter ``keep`` of a parser asks for.

    Parameters
    ----------
    parser : DependencyParser
    templates : TemplateSet
        Those to choose from.
    data : TreeData
        All sentences to train on.
    running : dict
        Further arguments of ``fit``; each training has a folder of its own in that of the checkpoints.
    """

    def trained(stage: str, templates: TemplateSet, chosen: np.ndarray, **settings: Any) -> Any:
        folder = running["checkpoint"]
        options = running if folder is None else {**running, "checkpoint": Path(folder) / stage}
        weights = None if data.weights is None else data.weights[chosen]
        unlabeled = clone(parser).set_params(templates=templates, keep=None, labeled=False, **settings)
        with warnings.catch_warnings():  # what some of the sentences lack is said of all of them
            warnings.simplefilter("ignore", DataWarning)
            return unlabeled.fit(data.treebank[chosen], sample_weight=weights, **options)

    n = len(data.treebank)
    if parser.keep != "auto":
        return trained("selection", templates, np.arange(n)).best_templates(parser.keep)
    if n < 2 * PERIOD:
        raise InputError(f'keep="auto" holds out one sentence in {PERIOD}, and there are {n}: give a number instead.')
    return _as_few_as_do(trained, templates, data.treebank, tqdm.write if parser.verbose else _say_nothing)


def _say_nothing(line: str) -> None:
    pass


def _as_few_as_do(
    trained: Callable, templates: TemplateSet, treebank: Treebank, tell: Callable[[str], object]
) -> TemplateSet:
    """The best templates, by halving.

    Their number is halved, and the parser trained anew, as long as it has no fewer heads right than the best so far, up
    to the standard error of the difference, paired by sentence.
    """
    held_out = np.arange(len(treebank)) % PERIOD == PERIOD - 1
    chosen, gold = np.flatnonzero(~held_out), treebank[held_out]
    tell(
        f"How many of {len(templates)} templates are needed? Trained on {len(chosen)} sentences and measured on "
        f"{len(gold)}, again with half of them as long as that is as good: about twice the time of all of them once."
    )

    def measured(templates: TemplateSet, **settings: Any) -> tuple[Any, np.ndarray]:
        """A parser on some templates, and how many heads of each sentence held out it has right."""
        parser = trained(f"selection-{len(templates)}", templates, chosen, **settings)
        right = (parser.parse(gold).heads == gold.heads).astype(np.float64)
        tell(f"{len(templates)} templates: {right.mean():.1%} of the heads held out are right.")
        return parser, np.add.reduceat(right, gold.offsets[:-1])

    parser, first = measured(templates)
    ranking = _ranking(parser)
    size, found, best = len(ranking), first, first
    while size > 1:
        # the first parser has found out which templates help on new sentences: it need not be tested again
        fewer = measured(parser.templates_.keep(ranking[: size // 2]), weighting="norms")[1]
        lost = best - fewer
        if lost.sum() > np.sqrt(len(lost) * lost.var(ddof=1)):
            break
        size, found, best = size // 2, fewer, best if lost.sum() > 0 else fewer
    shares = found.sum() / gold.n_words, first.sum() / gold.n_words
    tell(
        "{} of {} templates stay: {:.1%} of the heads held out, {:.1%} with all.".format(size, len(templates), *shares)
    )
    return parser.templates_.keep(ranking[:size])


def _ranking(parser: Any) -> list[str]:
    """Names of the templates that are alive, the best first."""
    weights = parser.template_weights_
    weigh_alike = len(set(weights.values())) == 1
    return [name for name in parser.ranking("norms" if weigh_alike else "weights") if weights[name] > 0]
