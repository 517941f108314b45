"""omkl: online multiple kernel learning for structured prediction.

The public names are listed in ``__init__.pyi``, and imported when they are first used.
"""

import lazy_loader as _lazy_loader

_load, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("omkl")
    return _load(name)
