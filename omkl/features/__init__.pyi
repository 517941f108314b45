from .words import TEMPLATES, Template, token_features

__all__ = ["TEMPLATES", "Template", "token_features"]
