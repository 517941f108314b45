"""Structures: the outputs of structured prediction, independent of features and parameters."""

from omkl.structures.base import Output, Potentials, Structure
from omkl.structures.chain import AllowedTransitions, Chain, ChainPotentials, TrigramPotentials, allowed_transitions
from omkl.structures.graph import Certificate, GraphLayout, GraphPotentials, PairwiseGraph
from omkl.structures.multiclass import Binary, Multiclass, Scalar, UnaryPotentials
from omkl.structures.parts import PartLists, PartPotentials, SecondOrderTree
from omkl.structures.trees import NonProjectiveTree, ProjectiveTree, TreePotentials

__all__ = [
    "AllowedTransitions",
    "Binary",
    "Certificate",
    "Chain",
    "ChainPotentials",
    "GraphLayout",
    "GraphPotentials",
    "Multiclass",
    "NonProjectiveTree",
    "Output",
    "PairwiseGraph",
    "PartLists",
    "PartPotentials",
    "Potentials",
    "ProjectiveTree",
    "Scalar",
    "SecondOrderTree",
    "Structure",
    "TreePotentials",
    "TrigramPotentials",
    "UnaryPotentials",
    "allowed_transitions",
]
