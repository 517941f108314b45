"""Structures: what an output is. They see potentials, never features or parameters."""

from omkl.structures.base import Output, Potentials, Structure
from omkl.structures.chain import Chain, ChainPotentials
from omkl.structures.multiclass import Binary, Multiclass, UnaryPotentials

__all__ = ["Binary", "Chain", "ChainPotentials", "Multiclass", "Output", "Potentials", "Structure", "UnaryPotentials"]
