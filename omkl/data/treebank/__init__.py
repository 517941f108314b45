"""Sentences and treebanks: reading, writing, and codes of their strings."""
