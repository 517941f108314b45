"""Solvers on design matrices."""
