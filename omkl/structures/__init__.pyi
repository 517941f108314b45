from .base import Output, Potentials, Structure
from .chain import AllowedTransitions, Chain, ChainPotentials, TrigramPotentials, allowed_transitions
from .graph import Certificate, GraphLayout, GraphPotentials, PairwiseGraph
from .multiclass import Binary, Multiclass, Scalar, UnaryPotentials
from .parts import PartLists, PartPotentials, SecondOrderTree
from .trees import NonProjectiveTree, ProjectiveTree, TreePotentials

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
