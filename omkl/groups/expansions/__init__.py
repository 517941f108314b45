"""Kernel groups as dual expansions: growing, on a budget, or over a cached Gram matrix."""
