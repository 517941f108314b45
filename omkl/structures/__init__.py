"""Structures: what an output is. They see potentials, never features or parameters."""

from omkl.structures.base import Output, Potentials, Structure
from omkl.structures.chain import Chain, ChainPotentials
from omkl.structures.multiclass import Binary, Multiclass, UnaryPotentials
from omkl.structures.parts import PartStructure
from omkl.structures.projective import ProjectiveTree
from omkl.structures.scalar import Scalar
from omkl.structures.tree import NonProjectiveTree

__all__ = [
    "Binary",
    "Chain",
    "ChainPotentials",
    "Multiclass",
    "NonProjectiveTree",
    "Output",
    "PartStructure",
    "Potentials",
    "ProjectiveTree",
    "Scalar",
    "Structure",
    "UnaryPotentials",
]
