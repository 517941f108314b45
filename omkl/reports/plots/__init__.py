"""Plots by matplotlib; each function takes axes, or creates a figure, and returns the axes."""
