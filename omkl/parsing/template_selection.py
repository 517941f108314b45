"""Selection of templates: those that suit a treebank, and the best ones after training."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from omkl._components import check_number, warn_caller
from omkl.data import Treebank
from omkl.estimators.training import RunOptions
from omkl.estimators.validation import OneOf
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import absent_fields, are_copies
from omkl.groups.templates.language import Template, TemplateSet, own_field
from omkl.parsing.protocol import Parser

#: Replacement of a column of tags that is nearly empty.
STAND_INS = {"xpos": "upos", "upos": "xpos"}
#: A column of tags is nearly empty if at most this share of the words has one.
SCARCE = 0.1
#: One sentence in so many is held out by ``keep="auto"``.
PERIOD = 5


def suited(templates: TemplateSet, treebank: Treebank, whole: bool = True) -> tuple[TemplateSet, str]:
    """Adapt templates to the columns of a treebank; returns them, and a message, empty if nothing was changed.

    UPOS replaces XPOS where XPOS is nearly empty or a copy of UPOS, and XPOS replaces an empty UPOS. Templates of other
    columns or attributes that no word has are left out. Of templates that are then equal the first stays. If the
    treebank is not the ``whole`` data, an attribute may still come, and only columns count.
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
    if len(kept) < len(templates):
        changes.append(f"no {_listed(lost.values())}: {len(templates) - len(kept)} left out")
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


def ranking(parser: Parser, by: str = "weights") -> list[str]:
    """Names of the templates of a fitted parser, the best first."""
    OneOf(("weights", "norms")).check("by", by)
    norms = dict(zip(parser.templates_.names, parser.predictor_.norms.tolist()))
    values = parser.template_weights_ if by == "weights" else norms
    return sorted(values, key=values.__getitem__, reverse=True)


def best_templates(parser: Parser, keep: int, by: str = "weights") -> TemplateSet:
    """The ``keep`` best templates of a fitted parser."""
    check_number("keep", keep, above=0, below=len(parser.templates_) + 1, integer=True)
    return parser.templates_.keep(ranking(parser, by)[:keep])


def kept_templates(
    parser: Parser,
    templates: TemplateSet,
    treebank: Treebank,
    weights: np.ndarray | None,
    running: RunOptions,
) -> TemplateSet:
    """Select from templates as the parameter ``keep`` of an untrained parser asks for, by training on the treebank.

    ``running`` are further arguments of ``fit``; each training has its own folder of checkpoints.
    """

    def trained(stage: str, templates: TemplateSet, chosen: np.ndarray, **settings: str) -> Parser:
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
    trained: Callable[..., Parser],
    templates: TemplateSet,
    treebank: Treebank,
    tell: Callable[[str], object] | None,
) -> TemplateSet:
    """Find the fewest templates that parse held-out sentences as well as all do, by halving.

    The number of templates is halved, and the parser trained anew on the best ones, as long as its number of right
    heads is within a standard error (of the difference, paired by sentence) of the best so far.
    ``trained(stage, templates, chosen, **settings)`` is a parser trained on some of the sentences; ``tell`` is called
    with a line on each training.
    """
    tell = (lambda line: None) if tell is None else tell
    held_out = np.arange(len(treebank)) % PERIOD == PERIOD - 1
    chosen, gold = np.flatnonzero(~held_out), treebank[held_out]
    tell(f"Selecting from {len(templates)} templates takes about twice as long as training once.")

    def measured(templates: TemplateSet, **settings: str) -> tuple[Parser, np.ndarray]:
        """A parser of some templates, and its number of right heads in each held-out sentence."""
        parser = trained(f"selection-{len(templates)}", templates, chosen, **settings)
        right = (parser.parse(gold).heads == gold.heads).astype(np.float64)
        tell(f"{len(templates)} templates: {right.mean():.1%} of the held-out heads are right.")
        return parser, np.add.reduceat(right, gold.offsets[:-1])

    parser, first = measured(templates)
    weights = parser.template_weights_
    all_equal = len(set(weights.values())) == 1
    names = [name for name in ranking(parser, "norms" if all_equal else "weights") if weights[name] > 0]
    size, best = len(names), first
    while size > 1:
        # the first training has tested the templates out of sample already
        fewer = measured(parser.templates_.keep(names[: size // 2]), weighting="norms")[1]
        lost = best - fewer
        if lost.sum() > np.sqrt(len(lost) * lost.var(ddof=1)):
            break
        size, best = size // 2, best if lost.sum() > 0 else fewer
    tell(f"{size} of {len(templates)} templates stay.")
    return parser.templates_.keep(names[:size])
