"""Annotation of words with tags, morphology, lemmas and trees."""
