"""Groups: storage of the parameters. A bank is several groups in one representation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
