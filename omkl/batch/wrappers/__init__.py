"""Methods that alternate between kernel weights and a single-kernel support vector machine."""
