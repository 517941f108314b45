"""Multiple kernel learning: online and batch estimators, kernel sources, paths."""
