"""Labels for classifiers: edits from forms to lemmas, and rules that split multiword tokens."""

import math
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import NamedTuple

#: Case changes that edits start with. The first one with the shortest edit is used.
CASES: dict[str, Callable[[str], str]] = {
    "keep": str,
    "lower": str.lower,
    "upper": str.upper,
    "capital": lambda form: form[:1].upper() + form[1:].lower(),
}
#: Separator in edits and keys, which columns of a treebank cannot contain.
TAB = "\t"
#: Separator in rules, and the rule of tokens that are words.
RETURN, WHOLE = "\r", ""


class Edit(NamedTuple):
    """Edit of a form: a case change, and characters to remove and to add at both ends.

    Attributes
    ----------
    case : str
        Key of :data:`CASES`.
    front, prefix : str
        Characters to remove from the front, and to add there.
    back, suffix : str
        Characters to remove from the back, and to add there.
    """

    case: str = "keep"
    front: str = ""
    prefix: str = ""
    back: str = ""
    suffix: str = ""

    def applied(self, form: str) -> str | None:
        """Return the edited form; None if it lacks the characters to remove, or has no others."""
        base = CASES[self.case](form)
        end = len(base) - len(self.back)
        has_both_ends = base.startswith(self.front) and base.endswith(self.back)
        if not has_both_ends or len(self.front) >= end:
            return None
        return self.prefix + base[len(self.front) : end] + self.suffix


def shortest_edit(form: str, lemma: str) -> Edit:
    """Return the edit that keeps the longest common substring (Chrupala 2006).

    It removes all if there is none.
    """
    best = Edit(front=form, prefix=lemma)
    least = math.inf
    for case, change in CASES.items():
        base = change(form)
        matcher = SequenceMatcher(None, base, lemma, autojunk=False)
        start, start_in_lemma, size = matcher.find_longest_match()
        n_changed = len(base) + len(lemma) - 2 * size
        if size and n_changed < least:
            least = n_changed
            best = Edit(
                case=case,
                front=base[:start],
                prefix=lemma[:start_in_lemma],
                back=base[start + size :],
                suffix=lemma[start_in_lemma + size :],
            )
    return best


def edit_of(form: str, lemma: str) -> str:
    """Make the edit from a form to its lemma, as a label.

    It is a case change, the numbers of letters to remove, and the letters to add. The edit keeps
    the longest common substring. Without one, the edit is the lemma itself.

    Parameters
    ----------
    form, lemma : str

    Returns
    -------
    str
        A label for classifiers, and the argument of :func:`apply_edit`.

    >>> apply_edit(edit_of("Went", "go"), "Went"), apply_edit(edit_of("dogs", "dog"), "Cats")
    ('go', 'Cat')
    """
    edit = shortest_edit(form, lemma)
    if edit.prefix == lemma:  # it keeps nothing
        return f"={lemma}"
    n_front = str(len(edit.front))
    n_back = str(len(edit.back))
    return TAB.join([edit.case, n_front, edit.prefix, n_back, edit.suffix])


def apply_edit(edit: str, form: str) -> str | None:
    """Apply an edit to a form; return None if the form is too short."""
    if edit.startswith("="):
        return edit[1:]
    case, n_front, prefix, n_back, suffix = edit.split(TAB)
    base = CASES[case](form)
    start = int(n_front)
    end = len(base) - int(n_back)
    return prefix + base[start:end] + suffix if start < end else None


def rule_of(form: str, words: list[str]) -> str:
    """Make the rule that splits a token to words.

    The rule is the edit from the token to its longest word, and the other words.

    Parameters
    ----------
    form : str
    words : list of str

    Returns
    -------
    str
        A label for classifiers, and an argument of :func:`apply_rule`.

    >>> apply_rule(rule_of("verlo", ["ver", "lo"]), "hacerlo")
    ['hacer', 'lo']
    """
    position = max(range(len(words)), key=lambda i: len(words[i]))
    others = [*words[:position], *words[position + 1 :]]
    return RETURN.join([TAB.join(_edit_to(form, words, position)), str(position), *others])


def _edit_to(form: str, words: list[str], position: int) -> Edit:
    """Return the edit from a token to one of its words."""
    if "".join(words) == form:
        start = len("".join(words[:position]))
        return Edit(front=form[:start], back=form[start + len(words[position]) :])
    return shortest_edit(form, words[position])


def apply_rule(rule: str, form: str) -> list[str] | None:
    """Split a token; the empty rule returns no words.

    A rule can be applied to tokens that have the letters which it removes, and some more. So the
    words of a rule that was learned from a concatenation of words are again a concatenation.

    Parameters
    ----------
    rule : str
        See :func:`rule_of`.
    form : str

    Returns
    -------
    list of str or None
        None if the rule cannot be applied to the token.

    >>> apply_rule(rule_of("verlo", ["ver", "lo"]), "hacerme") is None
    True
    """
    if rule == WHOLE:
        return []
    edit, position, *words = rule.split(RETURN)
    word = Edit(*edit.split(TAB)).applied(form)
    if word is None:
        return None
    words.insert(int(position), word)
    return words
