from .base import Output, Potentials, Structure
from .chain import (
    AllowedTransitions,
    Chain,
    ChainPotentials,
    TrigramPotentials,
    allowed_transitions,
)
from .graphs.layout import GraphLayout
from .graphs.pairwise import Certificate, GraphPotentials, PairwiseGraph
from .multiclass import Binary, Multiclass, Scalar, UnaryPotentials
from .trees.arc_factored import NonProjectiveTree, ProjectiveTree, TreePotentials
from .trees.parts import PartLists, PartPotentials, SecondOrderTree

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
