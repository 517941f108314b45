"""omkl: online multiple kernel learning for structured prediction.

What is public is listed in ``__init__.pyi``, and loaded when it is first used.
"""

import lazy_loader as _lazy_loader

_load, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("omkl")
    return _load(name)
