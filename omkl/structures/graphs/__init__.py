"""Pairwise models on graphs: their layout, the best labelling with a certificate, and marginals."""
