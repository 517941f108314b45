"""Adaptation of templates to a treebank, and selection of the best templates."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from omkl._components import check_number
from omkl._messages import listed
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.training import RunOptions, in_folder
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import absent_fields, are_copies
from omkl.groups.templates.language import Template, TemplateSet, own_field
from omkl.online.rounds import Record

#: Replacements of nearly empty columns of tags.
STAND_INS = {"xpos": "upos", "upos": "xpos"}
#: A column of tags is nearly empty if at most this fraction of words has a tag.
SCARCE = 0.1
#: ``keep="auto"`` holds out every PERIOD-th sentence. Half of these compare sets, and at most RANKED rank templates.
PERIOD, RANKED = 5, 100


def suited(templates: TemplateSet, treebank: Treebank, whole: bool = True) -> tuple[TemplateSet, str]:
    """Adapt templates to the columns of a treebank; return them, and a message about changes, possibly empty.

    UPOS replaces XPOS if XPOS is nearly empty or a copy of UPOS, and XPOS replaces a nearly empty UPOS. Templates of
    other empty columns or missing attributes are dropped. Then duplicates are merged. If the treebank is not the
    ``whole`` data, only columns are checked, because attributes may occur later.
    """
    absent = absent_fields(treebank, templates, by_column=not whole)
    n_tags, scarce = {name: np.count_nonzero(treebank.codes(name)) for name in STAND_INS}, SCARCE * treebank.n_words
    stand_ins = {field: other for field, other in STAND_INS.items() if n_tags[field] <= scarce < n_tags[other]}
    if not stand_ins and n_tags["xpos"] and are_copies(treebank, "xpos", "upos"):
        stand_ins = {"xpos": "upos"}
    looked_at = set(map(own_field, templates.fields))
    stand_ins = {field: other for field, other in stand_ins.items() if field in looked_at}
    lost = {field: title for field, title in absent.items() if own_field(field) not in stand_ins}
    kept, missing = [own for own in templates if own.fields.isdisjoint(lost)], listed(dict.fromkeys(lost.values()), 2)
    if not kept:
        raise InputError(f"Every template needs a field that the data lacks: {missing}.")
    merged: dict[tuple, Template] = {}
    for template in kept:
        replaced = template.replacing(stand_ins)
        merged.setdefault(replaced.identity, replaced)
    if list(merged.values()) == list(templates):
        return templates, ""
    changes = [f"{other.upper()} is read in place of {field.upper()}" for field, other in stand_ins.items()]
    if len(kept) < len(templates):
        changes.append(f"no word has {missing}, which {len(templates) - len(kept)} read")
    if len(merged) < len(kept):
        changes.append(f"{len(kept) - len(merged)} are then equal to others")
    where = "this treebank" if whole else f"the first {len(treebank)} sentences"
    change = f"{len(merged)} of {len(templates)} templates suit {where}: {'; '.join(changes)}."
    return TemplateSet(merged.values(), templates.lexicons), change


def ranked(weights: dict[str, float], norms: dict[str, float]) -> list[str]:
    """Return names of templates, best first: by weight, then by norm."""
    return sorted(weights, key=lambda name: (weights[name], norms[name]), reverse=True)


def select_templates(
    parser: OnlineEstimator,
    keep: int | str,
    templates: TemplateSet,
    treebank: Treebank,
    weights: np.ndarray | None,
    running: RunOptions,
) -> tuple[TemplateSet, list[Record] | None]:
    """Select the templates to keep by training on a treebank; return them, and the curve of ``keep="auto"``.

    Parameters
    ----------
    parser : DependencyParser
        Untrained.
    keep : int or "auto"
    templates : TemplateSet
        Candidates.
    treebank : Treebank
    weights : array (number of sentences,), optional
    running : RunOptions
        Further arguments of ``fit``; each training has its own folder of checkpoints.
    """

    def train(stage: str, templates: TemplateSet, chosen: np.ndarray, **settings: str) -> Any:
        options = in_folder(running, stage)
        own = None if weights is None else weights[chosen]
        unlabeled = clone(parser).set_params(templates=templates, keep=None, labeled=False, **settings)
        with warnings.catch_warnings():  # the final training gives the same warnings
            warnings.simplefilter("ignore", DataWarning)
            return unlabeled.fit(treebank[chosen], sample_weight=own, **options)

    n = len(treebank)
    if isinstance(keep, str):
        if n < 4 * PERIOD:
            raise InputError(f'keep="auto" holds out one sentence in {PERIOD}, and there are {n}: give a number.')
        return fewest_templates(train, templates, treebank, tqdm.write if parser.verbose else lambda line: None)
    check_number("keep", keep, above=0, below=len(templates) + 1, integer=True)
    return templates.keep(train("selection", templates, np.arange(n)).ranking()[:keep]), None


def fewest_templates(
    train: Callable[..., Any], templates: TemplateSet, treebank: Treebank, tell: Callable[[str], object]
) -> tuple[TemplateSet, list[Record]]:
    """Find the smallest set of templates that is as accurate on held-out sentences as any.

    This is recursive elimination: the number of templates is halved down to 1. Each time, those without which the loss
    of the last parser increases most on some held-out sentences are kept, and a parser is retrained. The knee of this
    curve is the smallest number whose correct heads, on other held-out sentences, are within a standard error (of the
    difference, paired by sentence) of the best number.

    Parameters
    ----------
    train : callable
        ``train(stage, templates, chosen, **settings)`` returns a parser trained on the sentences ``chosen``.
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
    tell(f"Selecting from {len(templates)} templates takes two to three times as long as training once.")

    def measured(templates: TemplateSet, **settings: str) -> tuple[Any, np.ndarray]:
        """Train with some templates; return the parser and its number of correct heads per held-out sentence."""
        parser = train(f"selection-{len(templates)}", templates, chosen, **settings)
        right = (parser.parse(gold).heads == gold.heads).astype(np.float64)
        tell(f"{len(templates)} templates: {right.mean():.1%} of the held-out heads are right.")
        return parser, np.add.reduceat(right, gold.offsets[:-1])

    parser, counts = measured(templates)
    right, sets = {len(templates): counts}, {len(templates): _in_use(parser)}
    size = len(sets[len(templates)])
    while size > 1:
        size = min(size // 2, len(_in_use(parser)))
        increase = {record["group"]: record["loss_increase"] for record in parser.group_report(for_ranking)}
        names = arcs_first(sorted(_in_use(parser), key=increase.__getitem__, reverse=True), parser.templates_)
        sets[size] = names[:size]
        # the first training has already tested templates out of sample
        parser, right[size] = measured(parser.templates_.keep(sets[size]), weighting="norms")
    best = max(right, key=lambda n: right[n].sum())
    curve = [
        {
            "templates": n,
            "accuracy": float(own.sum() / gold.n_words),
            "behind": float((right[best] - own).sum() / gold.n_words),
            "standard_error": float(np.sqrt(len(own) * (right[best] - own).var(ddof=1)) / gold.n_words),
        }
        for n, own in right.items()
    ]
    knee = min(n for n, point in zip(right, curve) if point["behind"] <= point["standard_error"])
    tell(f"{len(sets[knee])} of {len(templates)} templates stay.")
    return templates.keep(sets[knee]), curve


def _in_use(parser: OnlineEstimator) -> list[str]:
    """Return the names of the templates with a weight."""
    return [name for name, weight in parser.template_weights_.items() if weight > 0]


def arcs_first(names: list[str], templates: TemplateSet) -> list[str]:
    """Move the best template of arcs, which trees need, to the front of a ranking."""
    best = next(name for name in names if name in templates.by_part()["arc"].names)
    return [best, *(name for name in names if name != best)]
