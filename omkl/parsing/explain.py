"""Explanations of trees, and names of the features of templates."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from omkl.data import Sentence, Treebank
from omkl.estimators.explanations import Explanation, explanation, listed
from omkl.exceptions import InputError
from omkl.features.fields import TreeFields, column_of, values_of
from omkl.groups import ArcTemplateBank, Template, TemplateSet, distance_name
from omkl.groups.templates.language import KINSHIP
from omkl.online import Piece, contributions
from omkl.parsing.decoding import TrainedParser, TreeDecoder, blocks_to_parse, from_potentials
from omkl.parsing.examples import ArcExamples
from omkl.structures import Potentials
from omkl.structures.trees import ArcFactored, as_heads


def explain_tree(
    parser: TrainedParser,
    x: Treebank | Sentence | Sequence[str],
    heads: ArrayLike | None = None,
    against: ArrayLike | None = None,
    word: int | None = None,
    n: int = 20,
) -> Explanation:
    """Explain a tree by the contributions of templates; see :meth:`omkl.DependencyParser.explain`."""
    [(block, constraints)] = blocks_to_parse(parser, x if isinstance(x, Treebank) else [x])
    if len(block) != 1:
        raise InputError(f"`x` must be one sentence, got {len(block)}.")
    codec, predictor, n_words = parser.model_.codec, parser.predictor_, block.n_words
    sentence = codec.tokens(block, all_arcs=True).sentence(0)
    structure, potentials = predictor.structure, predictor.potentials(sentence)
    if heads is None:
        [chosen] = from_potentials(parser, block, TreeDecoder.of(parser, constraints).tree)
    else:
        chosen = as_heads(heads, n_words)
    if word is not None and not (isinstance(word, (int, np.integer)) and 1 <= word <= n_words):
        raise InputError(f"`word` must be in 1 .. {n_words}, got {word!r}.")
    other = _other_tree(structure, potentials, chosen, word) if against is None else as_heads(against, n_words)
    margin, direction = structure.difference(potentials, chosen, other)
    guide = None if codec.first is None else codec.guide(block, all_arcs=True)
    name = feature_namer(codec.templates, block, None if guide is None else guide.trees)
    templates = {template.name: template for template in codec.templates}

    def named(pieces: list[Piece]) -> list[str]:
        """Names of the features of single arcs."""
        return [name(templates[piece.group], 0, *piece.key) for piece in pieces]

    found = contributions(predictor, sentence, direction)
    forms = ["ROOT", *(form or "_" for form in block[0].forms)]
    told = [
        f"{forms[i + 1]} ({i + 1}) from {forms[chosen[i]]} ({chosen[i]}) rather than {forms[other[i]]} ({other[i]})"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    return explanation(chosen, other, listed(told), margin, found, n, named)


def _other_tree(structure: ArcFactored, potentials: Potentials, chosen: np.ndarray, word: int | None) -> np.ndarray:
    """The second best tree, or the best tree in which a word has another head."""
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
    """The ``n`` strongest features of each template and their weights, by template."""
    arrays = examples.tokens, examples.heads, examples.offsets
    name = feature_namer(bank.templates, treebank, None if examples.guide is None else examples.guide.trees)

    def named(template: Template, sentence: int, modifier: int, between: int) -> str:
        head = int(treebank.heads[treebank.offsets[sentence] + modifier - 1])
        return name(template, sentence, head, modifier, between)

    return {
        template.name: [(named(template, *place), weight) for weight, *place in bank.strongest(k, n, *arrays)]
        for k, template in enumerate(bank.templates)
    }


def feature_namer(templates: TemplateSet, treebank: Treebank, trees: Treebank | None) -> Callable[..., str]:
    """Make a function that names the feature of an arc.

    Parameters
    ----------
    templates : TemplateSet
    treebank : Treebank
    trees : Treebank or None
        Trees of a first parser, at which templates may look.

    Returns
    -------
    callable
        Called with a template, the number of a sentence, head, modifier, and a token between them or None for any.
    """
    fields = None if trees is None else TreeFields(trees)
    return partial(_feature, partial(_value_at, templates.lexicons, treebank, fields))


def _value_at(
    lexicons: Mapping,
    treebank: Treebank,
    trees: TreeFields | None,
    sentence: int,
    field: str,
    place: int,
    head: int = 0,
) -> str:
    """Value of a field of the word at a place of a sentence, or of the kinship of a head and this word."""

    def own(field: str, word: int) -> str:
        column = column_of(field)
        return values_of(field, [treebank.strings[column][getattr(treebank, column)[word]]], lexicons)[0]

    if place == 0:
        return "ROOT"
    first, last = treebank.offsets[sentence : sentence + 2].tolist()
    if not 0 < place <= last - first:
        return "OUTSIDE"
    if field == KINSHIP and trees is not None:
        return trees.kinship(first, head, place)
    return own(field, first + place - 1) if trees is None else trees.value(field, first + place - 1, own)


def _feature(
    seen_in: Callable, template: Template, sentence: int, head: int, modifier: int, between: int | None = None
) -> str:
    """Name of the feature of a template that an arc fires: ``h.form=dog m-1.upos=DET right 2``."""
    seen = partial(seen_in, sentence)
    parts = [f"h{o:+}.{f}={seen(f, head + o)}" if o else f"h.{f}={seen(f, head)}" for o, f in template.head]
    parts += [
        f"m{o:+}.{f}={seen(f, modifier + o)}" if o else f"m.{f}={seen(f, modifier)}" for o, f in template.modifier
    ]
    if template.between == KINSHIP:
        parts.append(f"{KINSHIP}={seen(KINSHIP, modifier, head)}")
    elif template.between:
        value = "" if between is None else f"={seen(template.between, between)}"
        parts.append(f"between.{template.between}{value}")
    if template.variant != "arc":
        parts.append("left" if modifier < head else "right")
    if template.variant == "distance":
        parts.append(distance_name(abs(head - modifier)))
    return " ".join(parts) or "arc"
