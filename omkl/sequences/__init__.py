"""Sequence labeling: the estimator, decoding, constraints, evaluation."""
