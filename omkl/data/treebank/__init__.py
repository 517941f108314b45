"""Sentences and treebanks: readers, writers, and integer codes of strings."""
