"""Dependency parsing: the estimator, decoding, relations, template selection, evaluation."""
