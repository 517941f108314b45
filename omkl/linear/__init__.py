"""Sparse linear models: group lasso and sparse logistic regression."""
