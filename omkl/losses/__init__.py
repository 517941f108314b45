"""Losses. Structured ones meet a structure through its potentials."""

from omkl.losses.structured import CRF, Perceptron, StructuredHinge, StructuredLoss

__all__ = ["CRF", "Perceptron", "StructuredHinge", "StructuredLoss"]
