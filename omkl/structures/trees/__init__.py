"""Dependency trees: scores of single arcs, and of pairs of arcs."""
