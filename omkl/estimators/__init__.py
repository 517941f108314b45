"""Estimators: shared base classes and functions of all estimators."""
