"""Explanations of trees, and names of template features."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.data import Sentence, Treebank
from omkl.estimators.explanations import Explanation, explanation, listed
from omkl.exceptions import InputError
from omkl.features.fields import column_of, values_of
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import Template, TemplateSet, distance_name
from omkl.groups.templates.layout import TemplateLayout
from omkl.online.group_contributions import GIVEN, Contributions, Piece, contributions
from omkl.parsing.decoding import TreeDecoder
from omkl.parsing.sentences import ArcExamples
from omkl.structures.base import Potentials
from omkl.structures.trees import TreeStructure, as_heads


def explain_tree(
    self: Any,
    x: Treebank | Sentence | Sequence[str],
    *,
    heads: ArrayLike | None = None,
    against: ArrayLike | None = None,
    word: int | None = None,
    n: int = 20,
) -> Explanation:
    """Explain the tree of a sentence in comparison with the next best tree.

    The score of a tree is a sum over arcs and templates, and so is the margin, the difference of the two scores.
    Relations are not explained.

    Parameters
    ----------
    x : sentence
        A list of words, a :class:`~omkl.data.Sentence`, or a treebank with one sentence.
    heads : int array of shape (n_words,), optional
        The tree to explain; the predicted one by default.
    against : int array of shape (n_words,), optional
        The tree to compare with; the best other tree by default.
    word : int, optional
        Compare with the best tree in which this word, counted from 1, has another head.
    n : int > 0
        Number of features to list.

    Returns
    -------
    omkl.Explanation

    Raises
    ------
    omkl.exceptions.InputError
        If heads do not fit the sentence, or there is no other tree.
    """
    decoder: TreeDecoder = self._decoder
    [(block, _)] = decoder.blocks(x if isinstance(x, Treebank) else [x])
    if len(block) != 1:
        raise InputError(f"`x` must be one sentence, got {len(block)}.")
    codec, predictor, n_words = decoder.model.codec, decoder.model.predictor(), block.n_words
    if word is not None:
        check_number("word", word, above=0, below=n_words + 1, integer=True)
    given = [as_heads(own, n_words) for own in (heads, against) if own is not None]
    options = {"right": given, "wide": True}
    sentence = codec.tokens(block, **options).sentence(0)
    potentials = predictor.potentials(sentence)
    chosen = decoder.trees(block)[0] if heads is None else given[0]
    other = _other_tree(predictor.structure, potentials, chosen, word) if against is None else given[-1]
    name = feature_namer(codec.all_templates, block)
    templates = {template.name: template for template in codec.all_templates}

    def named(pieces: list[Piece]) -> list[str]:
        """Return the names of features of single arcs and parts."""
        return [name(templates[piece.group], 0, *piece.key) for piece in pieces]

    forms = ["ROOT", *(form or "_" for form in block[0].forms)]
    told = [
        f"{forms[i + 1]} ({i + 1}) from {forms[chosen[i]]} ({chosen[i]}) rather than {forms[other[i]]} ({other[i]})"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    margin, direction = predictor.structure.difference(potentials, chosen, other)
    found = contributions(predictor, sentence, direction)
    if codec.has_parts:  # the potentials of arcs are those of the first parser
        first = codec.first.model_
        of_arcs = contributions(first.predictor(), first.codec.tokens(block, **options).sentence(0), direction)
        rest = {name: value for name, value in found.groups.items() if name != GIVEN}
        found = Contributions({**of_arcs.groups, **rest}, [*of_arcs.pieces, *found.pieces])
    return explanation(chosen, other, listed(told), margin, found, n, named)


def _other_tree(structure: TreeStructure, potentials: Potentials, chosen: np.ndarray, word: int | None) -> np.ndarray:
    """Return the best other tree, or the best tree in which ``word`` has another head."""
    if word is None:
        found = [own for own in structure.decode_best(potentials, 2)[0] if not np.array_equal(own, chosen)]
    else:
        own = structure.forbidding(potentials, [(chosen[word - 1], word)])
        found = [structure.decode(own)] if structure.is_possible(own) else []
    if not found:
        raise InputError("There is no other tree to compare with.")
    return found[0]


def strongest_features(
    bank: ArcTemplateBank, treebank: Treebank, examples: ArcExamples, n: int
) -> dict[str, list[tuple[str, float]]]:
    """Return the ``n`` strongest features of each template with their weights, by template."""
    arrays = examples.tokens, TemplateLayout(bank.templates).places_in(examples.tokens, examples.heads)
    name = feature_namer(bank.templates, treebank)
    return {
        template.name: [(name(template, *place), weight) for weight, place in bank.strongest(k, n, *arrays)]
        for k, template in enumerate(bank.templates)
    }


def feature_namer(templates: TemplateSet, treebank: Treebank) -> Callable[..., str]:
    """Make a function that names the feature of an arc or part, such as ``h.form=dog m-1.upos=DET right 2``.

    Its arguments are a template, the index of a sentence, head, modifier, and the third node of a part or a token
    between them. Modifier and third node are -1 if there is none; 0 is an unknown token between them.
    """

    def value(sentence: int, field: str, place: int) -> str:
        """Return the value of a field of the word at a position of a sentence."""
        first, last = treebank.offsets[sentence : sentence + 2].tolist()
        if not 0 < place <= last - first:
            return "OUTSIDE" if place else "ROOT"
        column = column_of(field)
        string = treebank.strings[column][treebank.codes(column)[first + place - 1]]
        return values_of(field, [string], templates.lexicons)[0]

    def name(template: Template, sentence: int, head: int, modifier: int, other: int = 0) -> str:
        arc = ("h", head, template.head), ("m", modifier, template.modifier)
        sides = (template.part[0], other, template.third), *arc
        parts = [
            f"{side}{f'{o:+}' if o else ''}.{field}={'NONE' if place < 0 else value(sentence, field, place + o)}"
            for side, place, atoms in sides
            for o, field in atoms
        ]
        if template.between:
            parts.append(
                f"between.{template.between}" + (f"={value(sentence, template.between, other)}" if other else "")
            )
        if template.variant != "arc":
            parts.append("left" if (other if modifier < 0 else modifier) < head else "right")
        if template.variant == "distance" and modifier >= 0:
            parts.append(distance_name(abs(head - modifier)))
        return " ".join(parts) or "arc"

    return name
