"""Which templates suit a treebank: what takes the place of a column that it lacks, which become equal, and which have
nothing to look at."""

from collections.abc import Iterable

import numpy as np
from tqdm import tqdm

from omkl._components import warn_caller
from omkl.data import Treebank
from omkl.estimators.token_fields import absent_fields, are_copies
from omkl.exceptions import DataWarning, InputError
from omkl.groups import Template, TemplateSet
from omkl.groups.templates import own_field

#: What is looked at in place of a column of tags that is as good as empty.
STAND_INS = {"xpos": "upos", "upos": "xpos"}
#: A column of tags is as good as empty if no larger share of the words has one.
SCARCE = 0.1
#: The name of a template in a message is cut to so many characters.
NAME_WIDTH = 24


def suited(templates: TemplateSet, treebank: Treebank, whole: bool = True) -> tuple[TemplateSet, str]:
    """Templates that look only at what a treebank has.

    UPOS takes the place of XPOS where that is ``_`` for every word, or nearly so (or UPOS once more), and XPOS that of
    UPOS; templates that look at another column or attribute that no word has are left out; of those that are then
    equal the first stays.

    Parameters
    ----------
    templates : TemplateSet
    treebank : omkl.data.Treebank
    whole : bool
        Whether there is nothing else. If not, a morphological attribute may still come: only columns count.

    Returns
    -------
    templates : TemplateSet
    change : str
        A line on what was changed, at most some 150 characters long; empty if nothing was.

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
    reason = "for this data" if whole else f"as the first {len(treebank)} sentences ask for"
    change = f"Templates {reason}: {'; '.join(changes)}; {len(merged)} of {len(templates)} remain."
    return TemplateSet(merged.values(), templates.lexicons), change


def announce(change: str, asked: bool, verbose: bool) -> None:
    """Say what was changed: a warning for those who asked for these very templates, else a line if ``verbose``."""
    if change and asked:
        warn_caller(change, DataWarning)
    elif change and verbose:
        tqdm.write(change)


def _stand_ins(templates: TemplateSet, treebank: Treebank) -> dict[str, str]:
    """The fields in whose place another one is looked at."""
    n_tags = {field: np.count_nonzero(getattr(treebank, field)) for field in STAND_INS}
    scarce = SCARCE * treebank.n_words
    found = {field: other for field, other in STAND_INS.items() if n_tags[field] <= scarce < n_tags[other]}
    if not found and n_tags["xpos"] and are_copies(treebank, "xpos", "upos"):
        found = {"xpos": "upos"}
    looked_at = set(map(own_field, templates.fields))
    return {field: other for field, other in found.items() if field in looked_at}


def _listed(names: Iterable[str]) -> str:
    """The first two different names, and how many more there are."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
