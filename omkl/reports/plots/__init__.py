"""Plots by matplotlib; each function takes axes, or creates a figure, and returns the axes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
