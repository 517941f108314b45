"""Selection of templates: those that suit a treebank, and the best ones after training."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from omkl._components import check_number, warn_caller
from omkl.data import Treebank
from omkl.estimators.training import RunOptions
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import absent_fields, are_copies
from omkl.groups import Template, TemplateSet
from omkl.groups.templates.language import own_field

#: Replacement of a column of tags that is nearly empty.
STAND_INS = {"xpos": "upos", "upos": "xpos"}
#: A column of tags is nearly empty if at most this share of the words has one.
SCARCE = 0.1
#: Characters of the name of a template in a message.
NAME_WIDTH = 24
#: One sentence in so many is held out by ``keep="auto"``.
PERIOD = 5


def suited(templates: TemplateSet, treebank: Treebank, whole: bool = True) -> tuple[TemplateSet, str]:
    """Adapt templates to the columns of a treebank.

    UPOS replaces XPOS where XPOS is nearly empty or a copy of UPOS, and XPOS replaces an empty UPOS. Templates of other
    columns or attributes that no word has are left out. Of templates that are then equal the first stays.

    Parameters
    ----------
    templates : TemplateSet
    treebank : omkl.data.Treebank
    whole : bool
        Whether the treebank is all of the data. If not, an attribute may still come, and only columns count.

    Returns
    -------
    templates : TemplateSet
    change : str
        A message of about 150 characters at most; empty if nothing was changed.

    Raises
    ------
    omkl.exceptions.InputError
        If no template is left.
    """
    absent = absent_fields(treebank, templates, by_column=not whole)
    stand_ins = _stand_ins(templates, treebank)
    lost = {field: title for field, title in absent.items() if own_field(field) not in stand_ins}
    kept = [template for template in templates if template.fields.isdisjoint(lost)]
    if not kept:
        raise InputError(f"Every template needs a field that the data lacks: {_listed(lost.values())}.")
    merged: dict[tuple, Template] = {}
    for template in kept:
        replaced = template.replacing(stand_ins)
        merged.setdefault(replaced.identity, replaced)
    if list(merged.values()) == list(templates):
        return templates, ""
    changes = [f"{other.upper()} takes the place of {field.upper()}" for field, other in stand_ins.items()]
    left_out = [template.name for template in templates if not template.fields.isdisjoint(lost)]
    if left_out:
        first = left_out[0] if len(left_out[0]) <= NAME_WIDTH else f"{left_out[0][: NAME_WIDTH - 1]}…"
        names = first if len(left_out) == 1 else f"{first}, ..."
        changes.append(f"no {_listed(lost.values())}: {len(left_out)} left out ({names})")
    if len(merged) < len(kept):
        changes.append(f"{len(kept) - len(merged)} equal ones merged")
    reason = "for this data" if whole else f"for the first {len(treebank)} sentences"
    change = f"Templates {reason}: {'; '.join(changes)}; {len(merged)} of {len(templates)} remain."
    return TemplateSet(merged.values(), templates.lexicons), change


def announce(change: str, asked: bool, verbose: bool) -> None:
    """Report a change: by a warning if these very templates were asked for, else by a line if ``verbose``."""
    if change and asked:
        warn_caller(change, DataWarning)
    elif change and verbose:
        tqdm.write(change)


def _stand_ins(templates: TemplateSet, treebank: Treebank) -> dict[str, str]:
    """Replacements of fields, by field."""
    n_tags = {field: np.count_nonzero(getattr(treebank, field)) for field in STAND_INS}
    scarce = SCARCE * treebank.n_words
    found = {field: other for field, other in STAND_INS.items() if n_tags[field] <= scarce < n_tags[other]}
    if not found and n_tags["xpos"] and are_copies(treebank, "xpos", "upos"):
        found = {"xpos": "upos"}
    looked_at = set(map(own_field, templates.fields))
    return {field: other for field, other in found.items() if field in looked_at}


def _listed(names: Iterable[str]) -> str:
    """The first two different names, and the number of others."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def ranking(parser: Any, by: str = "weights") -> list[str]:
    """Names of the templates of a fitted parser, the best first."""
    if by not in ("weights", "norms"):
        raise InputError(f"`by` must be one of 'weights', 'norms', got {by!r}.")
    norms = dict(zip(parser.templates_.names, parser.predictor_.norms.tolist()))
    values = parser.template_weights_ if by == "weights" else norms
    return sorted(values, key=values.__getitem__, reverse=True)


def best_templates(parser: Any, keep: int, by: str = "weights") -> TemplateSet:
    """The ``keep`` best templates of a fitted parser."""
    check_number("keep", keep, above=0, integer=True)
    if keep > len(parser.templates_):
        raise InputError(f"keep={keep}, but there are {len(parser.templates_)} templates.")
    return parser.templates_.keep(ranking(parser, by)[:keep])


def check_keep(parser: Any) -> None:
    """Raise unless ``keep`` is a number of templates or "auto", and no first parser would be trained each time."""
    if parser.first is not None:
        raise InputError("keep= would train first= several times: set keep of the first parser instead.")
    if not isinstance(parser.keep, str) or parser.keep != "auto":
        check_number('keep (or "auto")', parser.keep, above=0, integer=True)


def kept_templates(
    parser: Any,
    templates: TemplateSet,
    treebank: Treebank,
    weights: np.ndarray | None,
    running: RunOptions,
) -> TemplateSet:
    """Select templates as the parameter ``keep`` of a parser asks for.

    Parameters
    ----------
    parser : DependencyParser
    templates : TemplateSet
        Candidates.
    treebank : Treebank
        All sentences to train on.
    weights : array of shape (number of sentences,), optional
    running : RunOptions
        Further arguments of ``fit``; each training has its own folder of checkpoints.
    """

    def trained(stage: str, templates: TemplateSet, chosen: np.ndarray, **settings: Any) -> Any:
        folder = running.get("checkpoint")
        options = running if folder is None else {**running, "checkpoint": Path(folder) / stage}
        own = None if weights is None else weights[chosen]
        unlabeled = clone(parser).set_params(templates=templates, keep=None, labeled=False, **settings)
        with warnings.catch_warnings():  # the final training warns of all sentences
            warnings.simplefilter("ignore", DataWarning)
            return unlabeled.fit(treebank[chosen], sample_weight=own, **options)

    n = len(treebank)
    if parser.keep != "auto":
        return best_templates(trained("selection", templates, np.arange(n)), parser.keep)
    if n < 2 * PERIOD:
        raise InputError(f'keep="auto" holds out one sentence in {PERIOD}, and there are {n}: give a number instead.')
    return fewest_templates(trained, templates, treebank, tqdm.write if parser.verbose else None)


def fewest_templates(
    trained: Callable, templates: TemplateSet, treebank: Treebank, tell: Callable[[str], object] | None
) -> TemplateSet:
    """Find the fewest templates that parse held-out sentences as well as all do, by halving.

    The number of templates is halved, and the parser trained anew on the best ones, as long as its number of right
    heads is within a standard error (of the difference, paired by sentence) of the best so far.

    Parameters
    ----------
    trained : callable
        ``trained(stage, templates, chosen, **settings)`` is a parser trained on some of the sentences.
    templates : TemplateSet
    treebank : Treebank
    tell : callable or None
        Called with a line on each training.
    """
    tell = (lambda line: None) if tell is None else tell
    held_out = np.arange(len(treebank)) % PERIOD == PERIOD - 1
    chosen, gold = np.flatnonzero(~held_out), treebank[held_out]
    tell(
        f"Selecting from {len(templates)} templates: trained on {len(chosen)} sentences, measured on {len(gold)}; "
        "takes about twice as long as training once."
    )

    def measured(templates: TemplateSet, **settings: Any) -> tuple[Any, np.ndarray]:
        """A parser of some templates, and its number of right heads in each held-out sentence."""
        parser = trained(f"selection-{len(templates)}", templates, chosen, **settings)
        right = (parser.parse(gold).heads == gold.heads).astype(np.float64)
        tell(f"{len(templates)} templates: {right.mean():.1%} of the held-out heads are right.")
        return parser, np.add.reduceat(right, gold.offsets[:-1])

    parser, first = measured(templates)
    names = _active_ranking(parser)
    size, found, best = len(names), first, first
    while size > 1:
        # the first training has tested the templates out of sample already
        fewer = measured(parser.templates_.keep(names[: size // 2]), weighting="norms")[1]
        lost = best - fewer
        if lost.sum() > np.sqrt(len(lost) * lost.var(ddof=1)):
            break
        size, found, best = size // 2, fewer, best if lost.sum() > 0 else fewer
    kept, everything = found.sum() / gold.n_words, first.sum() / gold.n_words
    tell(f"{size} of {len(templates)} templates stay: {kept:.1%} of the held-out heads, {everything:.1%} with all.")
    return parser.templates_.keep(names[:size])


def _active_ranking(parser: Any) -> list[str]:
    """Names of the templates of positive weight, the best first."""
    weights = parser.template_weights_
    all_equal = len(set(weights.values())) == 1
    return [name for name in parser.ranking("norms" if all_equal else "weights") if weights[name] > 0]
