"""Solvers for sums over kernels."""
