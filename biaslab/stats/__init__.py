"""Statistics clustered by context: estimates with intervals, tests and power; here is what a user calls."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
