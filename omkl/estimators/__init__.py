"""Base classes and functions that all estimators share."""
