"""Regenerate all figures: papermill executes the notebooks, and an index shows their figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
