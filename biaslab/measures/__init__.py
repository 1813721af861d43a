"""Metrics, each defined once: of pairs and the rankings that they make (`ranking`), and of scores (`scoring`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["ranking", "scoring"])
