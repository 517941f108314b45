"""Parts of explanations of trees: names of features, and the trees to compare with."""

import numpy as np

from omkl.data import Treebank
from omkl.features.fields import column_of, values_of
from omkl.groups.base import Piece
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import Template, TemplateSet, distance_name
from omkl.groups.templates.layout import TemplateLayout
from omkl.parsing.sentences import ArcExamples
from omkl.structures.base import Potentials
from omkl.structures.trees.arc_factored import TreeStructure

#: Position of a modifier or third node that a part does not have.
NO_NODE = -1


class FeatureNamer:
    """Names of features of arcs and parts, such as ``h.form=dog m-1.upos=DET right 2``.

    Parameters
    ----------
    templates : TemplateSet
        Templates, with their lexicons.
    treebank : Treebank
        Sentences with the arcs.
    """

    def __init__(self, templates: TemplateSet, treebank: Treebank) -> None:
        self._templates = {template.name: template for template in templates}
        self._lexicons = templates.lexicons
        self._treebank = treebank

    def names_of(self, pieces: list[Piece]) -> list[str]:
        """Return the names of features of single arcs and parts of the first sentence."""
        return [self.name(self._templates[piece.group], 0, *piece.key) for piece in pieces]

    def name(
        self, template: Template, sentence: int, head: int, modifier: int, other: int = 0
    ) -> str:
        """Return the name of the feature of an arc or part.

        Parameters
        ----------
        template : Template
        sentence : int
            Index of the sentence.
        head, modifier : int
            Positions in the sentence from 1, or NO_NODE; 0 is the root.
        other : int
            Position of the third node of a part, or NO_NODE; or of a token between head and
            modifier, 0 if that is unknown.
        """
        sides = (
            (template.part[0], other, template.third),
            ("h", head, template.head),
            ("m", modifier, template.modifier),
        )
        atoms = []
        for side, node, tokens in sides:
            for offset, field in tokens:
                token = f"{side}{offset:+}" if offset else side
                value = "NONE"
                if node != NO_NODE:
                    value = self._value(sentence, field, node + offset)
                atoms.append(f"{token}.{field}={value}")
        if template.between:
            atoms.append(f"between.{template.between}")
            if other:
                atoms[-1] += f"={self._value(sentence, template.between, other)}"
        if template.variant != "arc":
            dependent = other if modifier == NO_NODE else modifier
            atoms.append("left" if dependent < head else "right")
        if template.variant == "distance" and modifier != NO_NODE:
            atoms.append(distance_name(abs(head - modifier)))
        return " ".join(atoms) or "arc"

    def _value(self, sentence: int, field: str, position: int) -> str:
        """Return the value of a field of the word at a position of a sentence."""
        if position == 0:
            return "ROOT"
        first, end = self._treebank.offsets[sentence : sentence + 2].tolist()
        if not 0 < position <= end - first:
            return "OUTSIDE"
        column = column_of(field)
        code = self._treebank.codes(column)[first + position - 1]
        string = self._treebank.strings[column][code]
        return values_of(field, [string], self._lexicons)[0]


def strongest_features(
    bank: ArcTemplateBank, treebank: Treebank, examples: ArcExamples, n: int
) -> dict[str, list[tuple[str, float]]]:
    """Return the ``n`` strongest features of each template with their weights, by template."""
    places = TemplateLayout(bank.templates).places_in(examples.tokens, examples.heads)
    namer = FeatureNamer(bank.templates, treebank)
    features = {}
    for k, template in enumerate(bank.templates):
        features[template.name] = [
            (namer.name(template, *place), weight)
            for weight, place in bank.strongest(k, n, examples.tokens, places)
        ]
    return features


def best_other_tree(
    structure: TreeStructure, potentials: Potentials, tree: np.ndarray, word: int | None
) -> np.ndarray | None:
    """Return the best tree other than ``tree``, (n,), None if there is none.

    If a ``word`` is given, its head must be another one.
    """
    if word is not None:
        potentials = structure.forbidding(potentials, [(tree[word - 1], word)])
        return structure.decode(potentials) if structure.is_possible(potentials) else None
    for other in structure.decode_best(potentials, 2)[0]:
        if not np.array_equal(other, tree):
            return other
    return None


def describe_differences(block: Treebank, tree: np.ndarray, other: np.ndarray) -> list[str]:
    """Describe the words of a sentence whose heads differ."""
    forms = ["ROOT", *(form or "_" for form in block[0].forms)]
    differences = []
    for i in np.flatnonzero(tree != other).tolist():
        differences.append(
            f"{forms[i + 1]} ({i + 1}) from {forms[tree[i]]} ({tree[i]}) "
            f"rather than {forms[other[i]]} ({other[i]})"
        )
    return differences
