"""Guarantees on the outputs of trained models, from calibration examples."""
