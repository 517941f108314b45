"""Annotation: tags, morphology, lemmas and trees from words."""
