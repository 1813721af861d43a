"""Metrics, each defined once: for pairs and the rankings derived from them (`ranking`), and for scores (`scoring`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
