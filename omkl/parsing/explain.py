"""Explanations of trees, and names of template features."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.data import Sentence, Treebank
from omkl.estimators.explanations import Explanation, explain_difference
from omkl.exceptions import InputError
from omkl.features.fields import TreeFields, column_of, values_of
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import KINSHIP, Template, TemplateSet, distance_name
from omkl.groups.templates.layout import TemplateLayout
from omkl.online.group_contributions import Piece
from omkl.parsing.decoding import TreeDecoder
from omkl.parsing.sentences import ArcExamples
from omkl.structures.base import Potentials
from omkl.structures.trees import ArcFactored, as_heads


def explain_tree(
    decoder: TreeDecoder,
    x: Treebank | Sentence | Sequence[str],
    heads: ArrayLike | None,
    against: ArrayLike | None,
    word: int | None,
    n: int,
) -> Explanation:
    """Explain a tree by the contributions of templates; see :meth:`omkl.DependencyParser.explain`."""
    [(block, _)] = decoder.blocks(x if isinstance(x, Treebank) else [x])
    if len(block) != 1:
        raise InputError(f"`x` must be one sentence, got {len(block)}.")
    codec, predictor, n_words = decoder.model.codec, decoder.model.predictor(), block.n_words
    if word is not None:
        check_number("word", word, above=0, below=n_words + 1, integer=True)
    sentence = codec.tokens(block, all_arcs=True).sentence(0)
    potentials = predictor.potentials(sentence)
    chosen = decoder.trees(block)[0] if heads is None else as_heads(heads, n_words)
    if against is None:
        other = _other_tree(predictor.structure, potentials, chosen, word)
    else:
        other = as_heads(against, n_words)
    guide = codec.guide(block, all_arcs=True)
    name = feature_namer(codec.templates, block, None if guide is None else guide.trees)
    templates = {template.name: template for template in codec.templates}

    def named(pieces: list[Piece]) -> list[str]:
        """Return the names of features of single arcs."""
        return [name(templates[piece.group], 0, *piece.key) for piece in pieces]

    forms = ["ROOT", *(form or "_" for form in block[0].forms)]
    told = [
        f"{forms[i + 1]} ({i + 1}) from {forms[chosen[i]]} ({chosen[i]}) rather than {forms[other[i]]} ({other[i]})"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    return explain_difference(predictor, sentence, potentials, (chosen, other), told, n, named)


def _other_tree(structure: ArcFactored, potentials: Potentials, chosen: np.ndarray, word: int | None) -> np.ndarray:
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
    places = TemplateLayout(bank.templates).places(*examples.tokens.known_arcs(examples.heads))
    arrays = examples.tokens, places
    name = feature_namer(bank.templates, treebank, None if examples.guide is None else examples.guide.trees)

    def named(template: Template, sentence: int, modifier: int, between: int) -> str:
        head = int(treebank.heads[treebank.offsets[sentence] + modifier - 1])
        return name(template, sentence, head, modifier, between)

    return {
        template.name: [(named(template, *place), weight) for weight, *place in bank.strongest(k, n, *arrays)]
        for k, template in enumerate(bank.templates)
    }


def feature_namer(templates: TemplateSet, treebank: Treebank, trees: Treebank | None) -> Callable[..., str]:
    """Make a function that names the feature of an arc, such as ``h.form=dog m-1.upos=DET right 2``.

    Its arguments are a template, the index of a sentence, head, modifier, and a token between them or None. Templates
    can have fields of the ``trees`` of a first parser.
    """
    relatives = None if trees is None else TreeFields(trees)

    def own(field: str, word: int) -> str:
        column = column_of(field)
        string = treebank.strings[column][treebank.codes(column)[word]]
        return values_of(field, [string], templates.lexicons)[0]

    def value(sentence: int, field: str, place: int) -> str:
        """Return the value of a field of the word at a position of a sentence."""
        first, last = treebank.offsets[sentence : sentence + 2].tolist()
        if not 0 < place <= last - first:
            return "OUTSIDE" if place else "ROOT"
        word = first + place - 1
        return own(field, word) if relatives is None else relatives.value(field, word, own)

    def name(template: Template, sentence: int, head: int, modifier: int, between: int | None = None) -> str:
        parts = [
            f"{side}{f'{o:+}' if o else ''}.{field}={value(sentence, field, place + o)}"
            for side, place, atoms in (("h", head, template.head), ("m", modifier, template.modifier))
            for o, field in atoms
        ]
        if template.between == KINSHIP:
            kinship = "" if relatives is None else relatives.kinship(treebank.offsets[sentence], head, modifier)
            parts.append(f"{KINSHIP}={kinship}")
        elif template.between:
            seen = "" if between is None else f"={value(sentence, template.between, between)}"
            parts.append(f"between.{template.between}{seen}")
        if template.variant != "arc":
            parts.append("left" if modifier < head else "right")
        if template.variant == "distance":
            parts.append(distance_name(abs(head - modifier)))
        return " ".join(parts) or "arc"

    return name
